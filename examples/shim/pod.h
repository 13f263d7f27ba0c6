/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox of the Sandbox API: a VM without a first container. It holds the pod's network namespace, and what its
 * containers share is the VM's own. All of it belongs to the loop's thread; a thread that makes a member reads what
 * does not change after CreateSandbox.
 */
#ifndef SHIM_POD_H
#define SHIM_POD_H

#include <cchv/cchv.h>
#include <yajl/yajl_tree.h>

#include "call.h"
#include "cancel.h"
#include "loop.h"
#include "netns.h"
#include "pod_config.h"
#include "pod_pause.h"

struct server;

enum pod_state { POD_CREATED, POD_STARTING, POD_READY, POD_ENDED };

struct pod {
	struct server *server;
	char *id, *bundle, *netns;
	struct pod_config config;
	struct wire options; /* the runtime's */
	struct netns_holder holder;
	int pid; /* that stands for it on this machine, also when it is gone */
	struct watch stand_in;
	struct cancel cancel; /* of its start */
	struct pod_pause pause;
	enum pod_state state;
	int is_wanted; /* 0: its end is somebody's wish, and no failure */
	uint32_t exit_status;
	uint64_t created_ns, exited_ns;
	struct call *waiters, *stoppers, *shutdown_call;
};

/* From CreateSandbox's request. NULL, or *ret_code of the library and *ret_error. netns: "" where only the bundle says
 * it, or nobody does: then it is a new one. */
struct pod *pod_new(struct server *server, const char *id, const char *bundle, const char *netns,
		    struct wire_view options, int *ret_code, char **ret_error);
void pod_free(struct pod *pod);
/* It is there, or will be: a server that has it lives on. */
int pod_is_alive(const struct pod *pod);
/* End it, whatever state it is in; pod_ended() comes when it has. */
void pod_stop(struct pod *pod);
/* Its VM is gone, or is not to be: who waits is told. */
void pod_ended(struct pod *pod, uint64_t time_ns);
/* Answered when it has ended; both take the call over. */
void pod_wait(struct pod *pod, struct call *call);
void pod_answer_when_stopped(struct pod *pod, struct call *call);

/* As the daemon wants to know it: a specification; what "crictl inspectp" shows. JSON, free() it; NULL: no memory. */
char *pod_spec_json(const struct pod *pod);
char *pod_info_json(const struct pod *pod);

/* ---- its containers (pod_member.c), in their threads ---- */

/* Its namespace of this kind ("ipc", "pid") is the pod's, by the number of the process that stands for it. */
int pod_is_shared(const struct pod *pod, yajl_val spec, const char *kind);
/*
 * What a sandbox with a specification would have given them: files of /etc, sysctls, one /dev/shm. Changes the tree,
 * before its binds are mapped. 0, or CCHV_ERR_* and *ret_error.
 */
int pod_adapt_member(const struct pod *pod, yajl_val spec, cchv_container_config *config, char **ret_error);

#endif
