/* SPDX-License-Identifier: Apache-2.0 */
/* Images in registries, fetched by skopeo into an OCI layout. Its configuration and credentials are the user's. */
#ifndef IMAGE_REGISTRY_H
#define IMAGE_REGISTRY_H

#include "image/progress.h"
#include "image/sha256.h"

#define REGISTRY_LAYOUT "oci"
#define REGISTRY_TAG "image"

/* What a reference is right now: the digest of the manifest for this machine, and the bytes of its layers. */
int registry_resolve(const char *reference, char hex[SHA256_HEX_SIZE], uint64_t *ret_bytes, cchv_progress *progress,
                     cchv_error **err);
/* Fetch it into a new layout in dir. Shows bytes fetched of bytes. */
int registry_fetch(const char *reference, const char *dir, uint64_t bytes, cchv_progress *progress,
                   cchv_error **err);

#endif
