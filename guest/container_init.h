/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container's init before it is one: the child that builds the container's inside, says that it is ready, waits,
 * and becomes the program when it is told to. Agent and child speak over a SOCK_SEQPACKET pair, one message each
 * way; the closing of the child's end (by exec or death) is the third.
 */
#ifndef GUEST_CONTAINER_INIT_H
#define GUEST_CONTAINER_INIT_H

#include "guest/process.h"
#include "guest/spec.h"

/* From the child: how it went. With a success comes the descriptor of its root. */
struct init_ready {
	int code; /* 0, or a CCHV_ERR_* */
	int error_number;
	char kind[16];
	char message[488];
};

/* To the child: go, with stdio and the report's descriptor. */
struct init_go {
	int count; /* of descriptors: INIT_GO_FDS */
};
#define INIT_GO_FDS 4

struct container_init {
	struct process_plan plan;
	const struct agent *agent;
	const char *container;
	const struct spec *spec;
	const char *cgroup_path;
	int join_fds[NS_COUNT]; /* shared namespaces; -1: none */
};

void container_init_plan(struct container_init *init);

#endif
