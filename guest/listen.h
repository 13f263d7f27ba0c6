/* SPDX-License-Identifier: Apache-2.0 */
/* The door: connections come in, say what they are with their first frame, and go to their room. */
#ifndef GUEST_LISTEN_H
#define GUEST_LISTEN_H

#include "guest/agent.h"

struct listener;

/* Takes the listening socket. only_host: peers of vsock CID 2 alone are let in. */
int listener_new(struct agent *agent, int fd, int only_host, struct listener **ret_listener, cchv_error **err);
void listener_free(struct listener *listener);
/* Bind and listen on vsock port 1024. */
int listen_vsock(int *ret_fd, cchv_error **err);
/* Say once on the host's port 1023 that we listen. Whether anybody hears it does not matter. */
void announce(struct agent *agent);

#endif
