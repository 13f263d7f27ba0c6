/* SPDX-License-Identifier: Apache-2.0 */
/* The overlay of a container as images and a scratch disk. Enters: a mount. Leaves: settings of the container. */
#ifndef SHIM_ROOT_OVERLAY_H
#define SHIM_ROOT_OVERLAY_H

#include <cchv/cchv.h>
#include <stdint.h>

#include "mount_list.h"
#include "upper_copy.h"

struct root_overlay_options {
	int readonly;           /* nothing will be written: no scratch disk */
	uint64_t scratch_bytes; /* 0: the library's default */
	int write_back;         /* what the container wrote is to be in upperdir when it has ended */
};

/*
 * mount is of type overlay, or a read-only bind of one directory. 1 when the settings are made; 0 when it can only be
 * had by mounting it on the host (an upper layer with marks of overlayfs in it); or a code and *ret_error. *ret_copy:
 * with 1, of what has a scratch disk; else NULL.
 */
int root_overlay_add(cchv_ctx *ctx, const struct mount_entry *mount, const struct root_overlay_options *options,
		     cchv_container_config *config, struct upper_copy **ret_copy, char **ret_error);

#endif
