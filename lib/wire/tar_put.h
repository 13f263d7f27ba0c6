/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing tar archives: ustar headers, pax records for what does not fit (long names, large numbers, nanoseconds,
 * xattrs as SCHILY.xattr, sparse files as GNU.sparse 1.0). Names are bytes. What this writes, tar.h reads.
 */
#ifndef WIRE_TAR_PUT_H
#define WIRE_TAR_PUT_H

#include "wire/tar.h"

/*
 * Append all that stands before an entry's data. A file's data follow, its pieces one after another when it is sparse,
 * *ret_data bytes in all (0 for what has no data), and then tar_put_padding(). A directory's path gets its slash.
 */
int tar_put_header(struct buf *out, const struct tar_entry *entry, uint64_t *ret_data, cchv_error **err);
int tar_put_padding(struct buf *out, uint64_t data, cchv_error **err);
int tar_put_end(struct buf *out, cchv_error **err);

#endif
