/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories by path. Here alone the environment is read, and of it PATH alone. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

/* An executable file: name as it is when it has a slash, else searched in PATH. CCHV_ERR_NOT_FOUND. */
int path_find_program(const char *name, char **ret_path, cchv_error **err);
/* Like mkdir -p: what exists is left as it is (but must be a directory). */
int path_make_dirs(const char *path, mode_t mode, cchv_error **err);
/* Whole contents, appended to buf (its max is the limit: CCHV_ERR_LIMIT). */
int path_read_file(const char *path, struct buf *buf, cchv_error **err);
/* Write under a temporary name beside it, fsync, rename, fsync the directory: afterwards old or new, never half. */
int path_write_atomic(const char *path, const void *data, size_t len, mode_t mode, cchv_error **err);
/* Remove a file or tree without following links or crossing into other mounts. Absent is success. */
int path_remove_tree(const char *path, cchv_error **err);
int path_fsync_dir(const char *path, cchv_error **err);
/* 1 when path lies on a tmpfs or ramfs, 0 when not, negative on errors. */
int path_on_tmpfs(const char *path, cchv_error **err);
/* A name of a VM, container or device: 1 to max of [A-Za-z0-9_.-], the first a letter or digit. */
int path_name_is_valid(const char *name, size_t max);

#endif
