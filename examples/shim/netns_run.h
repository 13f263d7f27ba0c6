/* SPDX-License-Identifier: Apache-2.0 */
/* A moment in another network namespace. Enters: a namespace. Leaves: what was opened there. */
#ifndef SHIM_NETNS_RUN_H
#define SHIM_NETNS_RUN_H

/*
 * Call fn in the namespace, in this thread alone; what it returns is returned. -1 and errno when the namespace cannot
 * be entered. Sockets and taps that are opened there stay there, so nothing else has to be done inside. A thread
 * that could not come back would go on in the container's network: the process ends instead.
 */
int netns_run(int netns_fd, int (*fn)(void *data), void *data);

#endif
