/* SPDX-License-Identifier: Apache-2.0 */
/* One cached image for what a list of mounts shows. Enters: mounts and a key. Leaves: an open image. */
#ifndef SHIM_ROOT_IMAGE_H
#define SHIM_ROOT_IMAGE_H

#include <cchv/cchv.h>

#include "mount_list.h"

/* What the helper needs to know; see rootfs_helper_main(). Strings are lent. */
struct root_job {
	const char *state_dir;
	const char *key; /* of chain.h; "" is not remembered */
	const struct mount_list *mounts;
};

/* From the cache, or built by the helper, which mounts in a namespace of its own. */
int root_image_open(cchv_ctx *ctx, const char *key, const struct mount_list *mounts, cchv_image **ret_image,
		    char **ret_error);

/* The job as bytes: strings, each ended by a NUL. free() the result. */
char *root_job_write(const struct root_job *job, size_t *ret_size);
/* mounts is filled; the strings are those of data, which ends with a NUL. CCHV_ERR_INVALID, CCHV_ERR_NOMEM. */
int root_job_read(char *data, size_t size, struct root_job *ret_job, struct mount_list *mounts);

#endif
