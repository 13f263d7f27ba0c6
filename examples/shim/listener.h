/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of a group's server: bound once, by whoever comes first. */
#ifndef SHIM_LISTENER_H
#define SHIM_LISTENER_H

/* 1: *ret_fd listens on the path; 0: the group's server is there already; -1 with errno. */
int listener_open(const char *path, int *ret_fd);
/* Take the path away, unless another server has taken it meanwhile. */
void listener_remove(const char *path, int fd);

#endif
