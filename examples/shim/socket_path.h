/* SPDX-License-Identifier: Apache-2.0 */
/* Where a group's server listens: a path that "delete" can compute anew from nothing but its flags. */
#ifndef SHIM_SOCKET_PATH_H
#define SHIM_SOCKET_PATH_H

#include <sys/un.h>

#define SOCKET_DIR "/run/containerd/s"

/* 0, or -1 when the directory is too long for a socket. */
int socket_path_make(const char *dir, const char *daemon_address, const char *namespace, const char *group,
		     char ret_path[sizeof(((struct sockaddr_un *)0)->sun_path)]);

#endif
