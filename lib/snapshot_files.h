/* SPDX-License-Identifier: Apache-2.0 */
/* The list of files of a snapshot: made when it is written, compared when it is read. */
#ifndef LIB_SNAPSHOT_FILES_H
#define LIB_SNAPSHOT_FILES_H

#include "base/error.h"
#include "base/json.h"

/* fsync each file of the rooms and the rooms themselves; *ret_files: an array, of names like "vmm/config.json". */
int snapshot_files_seal(const char *dir, struct json **ret_files, cchv_error **err);
/* PROTOCOL naming the file that is missing, of another size, or of another checksum. */
int snapshot_files_check(const char *dir, const struct json *files, cchv_error **err);

#endif
