/* SPDX-License-Identifier: Apache-2.0 */
/* An OCI layout on disk: see image/oci.h. Enters: a directory. Leaves: one image's layers and config. */
#include "image/oci.h"

#include "base/path.h"

#include <string.h>

#define INDEX_DEPTH_MAX 8

void oci_image_free(struct oci_image *image)
{
	free(image->layers);
	free(image->config);
	*image = (struct oci_image){ 0 };
}

char *oci_blob_path(const char *layout, const char *hex)
{
	return mem_printf("%s/blobs/sha256/%s", layout, hex);
}

static int read_json(const char *path, const char *hex, struct json **ret, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(OCI_JSON_MAX);
	char found[SHA256_HEX_SIZE];
	struct sha256 hash;
	int r = path_read_file(path, &text, err);

	if (r < 0)
		return r;
	if (hex) {
		sha256_init(&hash);
		sha256_update(&hash, text.data, text.len);
		sha256_final_hex(&hash, found);
		if (strcmp(found, hex) != 0)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "blob sha256:%s has the digest sha256:%s", hex,
			               found);
	}
	r = json_parse((const char *)text.data, text.len, ret, err);
	return r < 0 ? err_prefix(err, r, "'%s'", path) : CCHV_OK;
}

static int read_blob(const char *layout, const char *hex, struct json **ret, cchv_error **err)
{
	cleanup_free char *path = oci_blob_path(layout, hex);

	return path ? read_json(path, hex, ret, err) : err_nomem(err);
}

/* From the index on the disk to a manifest; an index may name indexes. */
static int find_manifest(const char *layout, const char *tag, struct json **ret, char hex[SHA256_HEX_SIZE],
                         cchv_error **err)
{
	cleanup_free char *path = mem_printf("%s/index.json", layout);
	cleanup_json struct json *json = NULL;
	int r = path ? read_json(path, NULL, &json, err) : err_nomem(err);

	for (int depth = 0; r == CCHV_OK && depth < INDEX_DEPTH_MAX; depth++) {
		const struct json *descriptor = NULL;
		struct json *next = NULL;

		r = oci_index_pick(json, depth == 0 ? tag : NULL, &descriptor, err);
		if (r == CCHV_OK)
			r = oci_digest_parse(json_as_string(json_get(descriptor, "digest")), hex, err);
		if (r == CCHV_OK)
			r = read_blob(layout, hex, &next, err);
		if (r < 0)
			return r;
		json_free(json);
		json = next;
		if (!oci_is_index(json)) {
			*ret = steal(&json);
			return CCHV_OK;
		}
	}
	return r < 0 ? r : err_set(err, CCHV_ERR_PROTOCOL, 0, "more than %d indexes in a row", INDEX_DEPTH_MAX);
}

static int read_image(const char *layout, const char *tag, struct oci_image *image, cchv_error **err)
{
	cleanup_json struct json *manifest = NULL, *config = NULL;
	char config_hex[SHA256_HEX_SIZE];
	int r = find_manifest(layout, tag, &manifest, image->manifest, err);

	if (r == CCHV_OK)
		r = oci_manifest_parse(manifest, image, config_hex, err);
	if (r == CCHV_OK)
		r = read_blob(layout, config_hex, &config, err);
	if (r == CCHV_OK)
		r = oci_config_parse(config, image, err);
	return r;
}

int oci_read(const char *layout, const char *tag, struct oci_image *ret, cchv_error **err)
{
	cleanup_oci_image struct oci_image image = { 0 };
	int r = read_image(layout, tag, &image, err);

	if (r < 0)
		return err_prefix(err, r, "OCI layout '%s'", layout);
	*ret = image;
	image = (struct oci_image){ 0 };
	return CCHV_OK;
}
