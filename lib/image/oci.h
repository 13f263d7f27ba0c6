/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCI image layouts: index, manifest, config, layers. Every blob is checked against the digest that names it
 * before anything in it is believed; of several platforms the one of this machine is taken.
 */
#ifndef IMAGE_OCI_H
#define IMAGE_OCI_H

#include "base/error.h"
#include "base/json.h"
#include "image/sha256.h"

#define OCI_JSON_MAX (8U << 20)
#define OCI_LAYERS_MAX 1024

struct oci_layer {
	char hex[SHA256_HEX_SIZE];      /* of the blob */
	char diff_id[SHA256_HEX_SIZE];  /* of the archive in it; "" when the config does not say */
	uint64_t size;
};

struct oci_image {
	char manifest[SHA256_HEX_SIZE]; /* digest of the manifest: it names the whole image */
	struct oci_layer *layers;       /* the lowest first */
	size_t layer_count;
	uint64_t bytes;                 /* of all layers */
	char *config;                   /* the "config" object of the image's config, as JSON text */
};

/* tag: NULL, when the layout has one image only. */
int oci_read(const char *layout, const char *tag, struct oci_image *ret, cchv_error **err);
void oci_image_free(struct oci_image *image);
#define cleanup_oci_image __attribute__((cleanup(oci_image_free)))

char *oci_blob_path(const char *layout, const char *hex); /* NULL when out of memory */

/* Parsers of outside bytes. "sha256:HEX" -> HEX: 0, CCHV_ERR_PROTOCOL, CCHV_ERR_UNSUPPORTED for another hash. */
int oci_digest_parse(const char *text, char hex[SHA256_HEX_SIZE], cchv_error **err);
/*
 * The descriptor in an index ("manifests") to go on with: by name, when it is not NULL, then by platform.
 * CCHV_ERR_NOT_FOUND, and the error says what there is.
 */
int oci_index_pick(const struct json *index, const char *tag, const struct json **ret, cchv_error **err);
int oci_is_index(const struct json *json); /* an index (or Docker's manifest list), not a manifest */
int oci_manifest_parse(const struct json *manifest, struct oci_image *image, char config_hex[SHA256_HEX_SIZE],
                       cchv_error **err);
int oci_config_parse(const struct json *config, struct oci_image *image, cchv_error **err);

/* "amd64" and the like: what OCI calls this machine. */
const char *oci_architecture(void);

#endif
