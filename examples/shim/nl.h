/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of rtnetlink, by libmnl. Enters: messages. Leaves: the kernel's answers. */
#ifndef SHIM_NL_H
#define SHIM_NL_H

#include <libmnl/libmnl.h>
#include <stddef.h>

#define NL_ROOM 2048 /* for a request of ours */

struct nl {
	struct mnl_socket *socket;
	unsigned int sequence;
};

/* In the network namespace of the thread, where it stays. groups: RTMGRP_*, 0 for none. 0, or -1 and errno. */
int nl_open(struct nl *nl, unsigned int groups);
void nl_close(struct nl *nl);

/* A request in room (NL_ROOM bytes) with a fixed part of size bytes, zeroed: *ret_body. */
struct nlmsghdr *nl_begin(char *room, unsigned short type, unsigned short flags, size_t size, void *ret_body);
/* Send it and wait for the kernel's word. 0, or -1 and errno. */
int nl_ask(struct nl *nl, struct nlmsghdr *request);
/* The same for one that is answered before it is acknowledged: fn has the answer. */
int nl_query(struct nl *nl, struct nlmsghdr *request, mnl_cb_t fn, void *data);
/* Each part of a dump goes to fn, as libmnl calls it. 0, or -1 and errno. */
int nl_dump(struct nl *nl, struct nlmsghdr *request, mnl_cb_t fn, void *data);

#endif
