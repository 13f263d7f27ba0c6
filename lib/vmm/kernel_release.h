/* SPDX-License-Identifier: Apache-2.0 */
/* What a file with a kernel says about itself. */
#ifndef VMM_KERNEL_RELEASE_H
#define VMM_KERNEL_RELEASE_H

#include "base/error.h"

/*
 * The release ("6.12.117-cchv") of the Linux in a file: a bzImage, or an uncompressed ELF image, of which the first
 * 64 MiB are searched. NULL in *ret_release for a file that does not tell.
 */
int vmm_kernel_release(const char *path, char **ret_release, cchv_error **err);

#endif
