/* SPDX-License-Identifier: Apache-2.0 */
/* Which file system lies on a disk. */
#ifndef GUEST_FS_DETECT_H
#define GUEST_FS_DETECT_H

#include <stddef.h>
#include <stdint.h>

#define FS_DETECT_BYTES 69632 /* what has to be read from the start of the disk */

/* The kernel's name of the file system, NULL for none that is known. len bytes of the start of the disk. */
const char *fs_detect(const uint8_t *data, size_t len);

#endif
