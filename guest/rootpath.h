/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths inside a root file system that nobody vouches for. Every step is resolved by the kernel with the root as
 * its ceiling: ".." stops there, absolute links begin there, links of /proc are not followed. Nothing that an
 * image contains, and nothing that a running container swaps meanwhile, leads out.
 */
#ifndef GUEST_ROOTPATH_H
#define GUEST_ROOTPATH_H

#include <sys/types.h>

#include "base/error.h"

/* A descriptor (close-on-exec), or -1 with errno. flags as for open(2), O_CREAT with mode. */
int rootpath_open(int root_fd, const char *path, int flags);
int rootpath_open_mode(int root_fd, const char *path, int flags, mode_t mode);

/* Like mkdir -p: an O_PATH descriptor of the directory, or -1 with errno. A dangling link is made good. */
int rootpath_make_dirs(int root_fd, const char *path, mode_t mode, uid_t uid, gid_t gid);
/*
 * The parent directory of path (made where missing) as an O_PATH descriptor, *ret_name its last part (memory of
 * its own). Links in the last part are followed, dangling ones too: the answer is where the file would lie.
 */
int rootpath_parent(int root_fd, const char *path, char **ret_name);
/*
 * Something to mount on: an O_PATH descriptor of path, made where missing, as a directory or as an empty file. A
 * dangling link gets its target. -1 with errno.
 */
int rootpath_make_target(int root_fd, const char *path, int directory);

/* The magic path of a descriptor, for calls that know no descriptors. */
#define ROOTPATH_FD_SIZE 32
const char *rootpath_fd_name(int fd, char name[ROOTPATH_FD_SIZE]);

#endif
