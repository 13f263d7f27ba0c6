/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch disks: sparse ext4 files for what containers write. One empty file system of each size is made once by
 * mkfs.ext4 and kept as a template; a disk is a copy of its few blocks, so that a start runs no tool.
 */
#ifndef LIB_SCRATCH_H
#define LIB_SCRATCH_H

#include <stdint.h>

#include "base/error.h"

#define SCRATCH_MIN_BYTES (16ULL << 20)

/*
 * Make path, which must not exist: CCHV_ERR_EXISTS. bytes is rounded up to 1 MiB. templates_dir is made where it is
 * missing. CCHV_ERR_UNSUPPORTED on a tmpfs, or without mkfs.ext4.
 */
int scratch_make(const char *templates_dir, const char *path, uint64_t bytes, uint64_t deadline, cchv_error **err);

#endif
