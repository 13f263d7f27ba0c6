/* SPDX-License-Identifier: Apache-2.0 */
/* Marks that overlayfs leaves in an upper layer. Enters: a directory. Leaves: whether it has some. */
#ifndef SHIM_OVERLAY_MARKS_H
#define SHIM_OVERLAY_MARKS_H

enum overlay_contents {
	OVERLAY_EMPTY = 0,
	OVERLAY_PLAIN, /* files, directories, whiteouts: an image of it means the same */
	/* opaque or redirected directories, files without their data: attributes that no image carries */
	OVERLAY_MARKED
};

/* One of enum overlay_contents, or a negative code and *ret_error. */
int overlay_marks_find(const char *path, char **ret_error);

#endif
