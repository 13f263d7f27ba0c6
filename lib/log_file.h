/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log of a process's output: appended to, and renamed to PATH.1 (in place of the one before) when it would grow
 * over its size, so that at most twice as much is kept and no byte is split between nowhere. Shared by streams.
 */
#ifndef LIB_LOG_FILE_H
#define LIB_LOG_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct log_file;

/* max_bytes 0: no limit. Mode 0600 where it is made. One reference for the caller. */
int log_file_open(const char *path, uint64_t max_bytes, struct log_file **ret_log, cchv_error **err);
struct log_file *log_file_ref(struct log_file *log);
void log_file_unref(struct log_file *log);        /* NULL is fine */
const char *log_file_path(const struct log_file *log);
/* What could not be written (a full disk) is counted; the next write tries again. */
void log_file_write(struct log_file *log, const void *data, size_t len);
uint64_t log_file_lost(const struct log_file *log);

#endif
