/* SPDX-License-Identifier: Apache-2.0 */
/* Marks that overlayfs leaves in an upper layer. Enters: a directory. Leaves: whether it has some. */
#ifndef SHIM_OVERLAY_MARKS_H
#define SHIM_OVERLAY_MARKS_H

#include "layer_list.h"

enum overlay_contents {
	OVERLAY_EMPTY = 0,
	OVERLAY_PLAIN, /* files, directories, whiteouts: an image of it means the same */
	/* opaque or redirected directories, files without their data: attributes that no image carries */
	OVERLAY_MARKED
};

/*
 * One of enum overlay_contents, or a negative code and *ret_error. lower: what lies below. The kernel marks each
 * directory that is made in an overlay as opaque, also where there is nothing that it could hide: that is no mark.
 */
int overlay_marks_find(const char *path, const struct layer_list *lower, char **ret_error);

/* Whether a name of an attribute says nothing outside of the host's overlay, or of the host's policy. */
int overlay_marks_is_of_the_host(const char *name);

#endif
