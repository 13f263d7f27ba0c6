/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer as the upper directory of an overlay on this host, with overlayfs's own marks: whiteouts are devices 0:0,
 * directories that hide what is below them are opaque. Nothing is made outside of the directory, whatever the
 * archive's names and links say.
 */
#ifndef IMAGE_UPPER_H
#define IMAGE_UPPER_H

#include "base/error.h"

/*
 * fd: a tar file, from its current place. keep: what the directory has and the layer does not name stays.
 * max_files: the inodes that it may take, whiteouts apart, which share one; 0 is no limit.
 */
int upper_unpack(int fd, const char *directory, int keep, uint64_t max_files, cchv_error **err);

#endif
