/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of an OCI image: see image/oci.h. Enters: JSON from outside. Leaves: digests, sizes, a choice. */
#include "image/oci.h"

#include <string.h>
#include <sys/utsname.h>

#define REF_NAME "org.opencontainers.image.ref.name"

const char *oci_architecture(void)
{
	static const struct {
		const char *machine, *architecture;
	} names[] = {
		{ "x86_64", "amd64" }, { "aarch64", "arm64" }, { "riscv64", "riscv64" }, { "s390x", "s390x" },
		{ "ppc64le", "ppc64le" },
	};
	struct utsname u;

	if (uname(&u) == 0)
		for (size_t i = 0; i < ARRAY_LEN(names); i++)
			if (strcmp(u.machine, names[i].machine) == 0)
				return names[i].architecture;
	return "amd64";
}

int oci_digest_parse(const char *text, char hex[SHA256_HEX_SIZE], cchv_error **err)
{
	if (!text || !strchr(text, ':'))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "a descriptor without a digest");
	if (strncmp(text, "sha256:", 7) != 0)
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "digest '%.80s': only sha256 is known", text);
	if (!sha256_hex_is_valid(text + 7))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "digest '%.80s' is malformed", text);
	memcpy(hex, text + 7, SHA256_HEX_SIZE);
	return CCHV_OK;
}

static const char *text_of(const struct json *object, const char *key)
{
	return json_as_string(json_get(object, key));
}

static int has_media_type(const struct json *json, const char *part)
{
	const char *type = text_of(json, "mediaType");

	return type && strstr(type, part);
}

int oci_is_index(const struct json *json)
{
	if (has_media_type(json, "image.index") || has_media_type(json, "manifest.list"))
		return 1;
	return json_get_type(json_get(json, "manifests")) == JSON_ARRAY;
}

/* 2: made for this machine; 1: it does not say what for; 0: for another. */
static int suits(const struct json *descriptor)
{
	const struct json *platform = json_get(descriptor, "platform");
	const char *os = text_of(platform, "os"), *architecture = text_of(platform, "architecture");

	if (!os || !architecture)
		return 1;
	return strcmp(os, "linux") == 0 && strcmp(architecture, oci_architecture()) == 0 ? 2 : 0;
}

static const char *ref_name(const struct json *descriptor)
{
	return text_of(json_get(descriptor, "annotations"), REF_NAME);
}

/* "TAG" or "NAME:TAG" or a whole reference that ends so: tools differ in what they write. */
static int is_named(const struct json *descriptor, const char *tag)
{
	const char *name = ref_name(descriptor), *tail;

	if (!name)
		return 0;
	tail = strrchr(name, ':');
	return strcmp(name, tag) == 0 || (tail && !strchr(tail, '/') && strcmp(tail + 1, tag) == 0);
}

static int say_what_there_is(const struct json *manifests, const char *tag, cchv_error **err)
{
	cleanup_buf struct buf list = BUF_INIT(512);
	const char *text;

	for (size_t i = 0; i < json_count(manifests); i++) {
		const struct json *d = json_at(manifests, i), *p = json_get(d, "platform");
		const char *name = ref_name(d), *os = text_of(p, "os"), *architecture = text_of(p, "architecture");

		if (name)
			buf_printf(&list, "%s%.64s", list.len ? ", " : "", name);
		else if (os && architecture)
			buf_printf(&list, "%s%.16s/%.16s", list.len ? ", " : "", os, architecture);
	}
	text = buf_string(&list);
	if (tag)
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "it has no image '%s'; it has: %s", tag,
		               text && *text ? text : "none with a name");
	return err_set(err, CCHV_ERR_NOT_FOUND, 0, "it has no image for linux/%s; it has: %s", oci_architecture(),
	               text && *text ? text : "nothing");
}

int oci_index_pick(const struct json *index, const char *tag, const struct json **ret, cchv_error **err)
{
	const struct json *manifests = json_get(index, "manifests"), *best = NULL;
	int best_suits = 0, candidates = 0;

	if (json_get_type(manifests) != JSON_ARRAY)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "an index without manifests");
	for (size_t i = 0; i < json_count(manifests); i++) {
		const struct json *d = json_at(manifests, i);
		int fit = suits(d);

		if ((tag && !is_named(d, tag)) || !fit)
			continue;
		candidates += fit == 1;
		if (fit > best_suits) {
			best = d;
			best_suits = fit;
		}
	}
	if (!best)
		return say_what_there_is(manifests, tag, err);
	if (!tag && best_suits == 1 && candidates > 1)
		return err_set(err, CCHV_ERR_INVALID, 0, "it has %d images: say which by its tag", candidates);
	*ret = best;
	return CCHV_OK;
}

static int parse_layer(const struct json *descriptor, struct oci_layer *layer, cchv_error **err)
{
	int r = oci_digest_parse(text_of(descriptor, "digest"), layer->hex, err);

	if (r < 0)
		return r;
	if (json_get_u64(descriptor, "size", &layer->size, err) <= 0 || layer->size > INT64_MAX)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "layer sha256:%s: no size", layer->hex);
	if (!has_media_type(descriptor, "tar") || has_media_type(descriptor, "encrypted"))
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "layer sha256:%s: media type '%.100s'", layer->hex,
		               text_of(descriptor, "mediaType") ? text_of(descriptor, "mediaType") : "");
	return CCHV_OK;
}

int oci_manifest_parse(const struct json *manifest, struct oci_image *image, char config_hex[SHA256_HEX_SIZE],
                       cchv_error **err)
{
	const struct json *layers = json_get(manifest, "layers");
	size_t count = json_count(layers);
	int r;

	if (json_get_type(layers) != JSON_ARRAY)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "a manifest without layers");
	if (count > OCI_LAYERS_MAX)
		return err_set(err, CCHV_ERR_LIMIT, 0, "%zu layers; %d are the most", count, OCI_LAYERS_MAX);
	r = oci_digest_parse(text_of(json_get(manifest, "config"), "digest"), config_hex, err);
	if (r < 0)
		return err_prefix(err, r, "config");
	image->layers = mem_zalloc((count ? count : 1) * sizeof(*image->layers));
	if (!image->layers)
		return err_nomem(err);
	image->layer_count = count;
	for (size_t i = 0; i < count; i++) {
		r = parse_layer(json_at(layers, i), &image->layers[i], err);
		if (r < 0)
			return r;
		if (__builtin_add_overflow(image->bytes, image->layers[i].size, &image->bytes))
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "layers whose sizes overflow");
	}
	return CCHV_OK;
}

int oci_config_parse(const struct json *config, struct oci_image *image, cchv_error **err)
{
	const struct json *ids = json_find(config, "rootfs.diff_ids"), *inner = json_get(config, "config");
	const char *os = text_of(config, "os"), *architecture = text_of(config, "architecture");
	cleanup_buf struct buf text = BUF_INIT(OCI_JSON_MAX);
	int r;

	if ((os && *os && strcmp(os, "linux") != 0) ||
	    (architecture && *architecture && strcmp(architecture, oci_architecture()) != 0))
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "the image is for %.32s/%.32s, this machine is linux/%s",
		               os ? os : "linux", architecture ? architecture : "?", oci_architecture());
	if (json_get_type(ids) == JSON_ARRAY && json_count(ids) != image->layer_count)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "its config speaks of %zu layers, its manifest of %zu",
		               json_count(ids), image->layer_count);
	for (size_t i = 0; i < json_count(ids); i++) {
		r = oci_digest_parse(json_as_string(json_at(ids, i)), image->layers[i].diff_id, err);
		if (r < 0)
			return err_prefix(err, r, "config");
	}
	if (json_get_type(inner) == JSON_OBJECT) {
		if (json_print(inner, 0, &text) < 0)
			return err_nomem(err);
		image->config = buf_take_string(&text);
	} else {
		image->config = mem_strdup("{}");
	}
	return image->config ? CCHV_OK : err_nomem(err);
}
