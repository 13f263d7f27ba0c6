/* SPDX-License-Identifier: Apache-2.0 */
#include "image/oci.h"

#include "test.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define DIGEST_A "\"digest\":\"sha256:" HEX_A "\""
#define DIGEST_B "\"digest\":\"sha256:" HEX_B "\""
#define NAME(n) "\"annotations\":{\"org.opencontainers.image.ref.name\":\"" n "\"}"

static struct json *parse(const char *text)
{
	struct json *json = NULL;

	CHECK_INT(json_parse(text, strlen(text), &json, NULL), CCHV_OK);
	return json;
}

/* Which of the two is taken; an error's code otherwise. */
static int pick(const char *text, const char *tag)
{
	cleanup_json struct json *json = parse(text);
	const struct json *descriptor = NULL;
	int r = oci_index_pick(json, tag, &descriptor, NULL);
	const char *digest;

	if (r < 0)
		return r;
	digest = json_as_string(json_get(descriptor, "digest"));
	CHECK(digest);
	return digest[7];
}

TEST(oci_digests)
{
	char hex[SHA256_HEX_SIZE];

	CHECK_INT(oci_digest_parse("sha256:" HEX_A, hex, NULL), CCHV_OK);
	CHECK_STR(hex, HEX_A);
	CHECK_INT(oci_digest_parse("sha512:" HEX_A, hex, NULL), CCHV_ERR_UNSUPPORTED);
	CHECK_INT(oci_digest_parse("sha256:" HEX_A "a", hex, NULL), CCHV_ERR_PROTOCOL);
	CHECK_INT(oci_digest_parse("sha256:../../x", hex, NULL), CCHV_ERR_PROTOCOL);
	CHECK_INT(oci_digest_parse(HEX_A, hex, NULL), CCHV_ERR_PROTOCOL);
	CHECK_INT(oci_digest_parse(NULL, hex, NULL), CCHV_ERR_PROTOCOL);
}

TEST(oci_picks_by_tag)
{
	const char *two = "{\"manifests\":[{" DIGEST_A "," NAME("1") "},{" DIGEST_B "," NAME("reg:5000/n:2") "}]}";

	CHECK_INT(pick(two, "1"), 'a');
	CHECK_INT(pick(two, "2"), 'b');
	CHECK_INT(pick(two, "reg:5000/n:2"), 'b');
	CHECK_INT(pick(two, "5000/n:2"), CCHV_ERR_NOT_FOUND);
	CHECK_INT(pick(two, "3"), CCHV_ERR_NOT_FOUND);
	CHECK_INT(pick(two, NULL), CCHV_ERR_INVALID);
	CHECK_INT(pick("{\"manifests\":[{" DIGEST_A "}]}", NULL), 'a');
	CHECK_INT(pick("{\"manifests\":[]}", NULL), CCHV_ERR_NOT_FOUND);
	CHECK_INT(pick("{\"manifests\":{}}", NULL), CCHV_ERR_PROTOCOL);
	CHECK_INT(pick("[]", NULL), CCHV_ERR_PROTOCOL);
	CHECK_INT(pick("{\"manifests\":[1]}", "x"), CCHV_ERR_NOT_FOUND);
}

#define FOR_NOBODY "{" DIGEST_B ",\"platform\":{\"os\":\"linux\",\"architecture\":\"none\"}}"

TEST(oci_picks_by_platform)
{
	cleanup_free char *text = mem_printf(
		"{\"manifests\":[" FOR_NOBODY ",{" DIGEST_A ",\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}},"
		"{" DIGEST_B ",\"platform\":{\"os\":\"windows\",\"architecture\":\"%s\"}}]}",
		oci_architecture(), oci_architecture());

	CHECK_INT(pick(text, NULL), 'a');
	CHECK_INT(pick("{\"manifests\":[" FOR_NOBODY "]}", NULL), CCHV_ERR_NOT_FOUND);
}

static int read_manifest(const char *text, struct oci_image *image)
{
	cleanup_json struct json *json = parse(text);
	char config[SHA256_HEX_SIZE];

	return oci_manifest_parse(json, image, config, NULL);
}

TEST(oci_manifests)
{
#define LAYER "{" DIGEST_B ",\"size\":7,\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\"}"
	static const struct {
		const char *text;
		int code;
	} cases[] = {
		{ "{\"config\":{" DIGEST_A "},\"layers\":[" LAYER "," LAYER "]}", CCHV_OK },
		{ "{\"config\":{" DIGEST_A "},\"layers\":[]}", CCHV_OK },
		{ "{\"config\":{" DIGEST_A "}}", CCHV_ERR_PROTOCOL },
		{ "{\"layers\":[" LAYER "]}", CCHV_ERR_PROTOCOL },
		{ "{\"config\":{" DIGEST_A "},\"layers\":[{" DIGEST_B ",\"mediaType\":\"tar\"}]}", CCHV_ERR_PROTOCOL },
		{ "{\"config\":{" DIGEST_A "},\"layers\":[{" DIGEST_B ",\"size\":-1,\"mediaType\":\"tar\"}]}",
		  CCHV_ERR_PROTOCOL },
		{ "{\"config\":{" DIGEST_A "},\"layers\":[{" DIGEST_B ",\"size\":1,\"mediaType\":\"squashfs\"}]}",
		  CCHV_ERR_UNSUPPORTED },
		{ "{\"config\":{" DIGEST_A "},\"layers\":[{" DIGEST_B ",\"size\":1}]}", CCHV_ERR_UNSUPPORTED },
		{ "null", CCHV_ERR_PROTOCOL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct oci_image image = { 0 };

		CHECK_INT(read_manifest(cases[i].text, &image), cases[i].code);
		if (i == 0) {
			CHECK_INT(image.layer_count, 2);
			CHECK_INT(image.bytes, 14);
			CHECK_STR(image.layers[1].hex, HEX_B);
		}
		oci_image_free(&image);
	}
}

static int read_config(const char *text, struct oci_image *image)
{
	cleanup_json struct json *json = parse(text);

	CHECK_INT(read_manifest("{\"config\":{" DIGEST_A "},\"layers\":[" LAYER "]}", image), CCHV_OK);
	return oci_config_parse(json, image, NULL);
}

TEST(oci_configs)
{
	static const struct {
		const char *text;
		int code;
		const char *config;
	} cases[] = {
		{ "{\"config\":{\"Cmd\":[\"a\"]},\"rootfs\":{\"diff_ids\":[\"sha256:" HEX_A "\"]}}", 0,
		  "{\"Cmd\":[\"a\"]}" },
		{ "{}", 0, "{}" },
		{ "{\"config\":null,\"os\":\"\",\"architecture\":\"\"}", 0, "{}" },
		{ "{\"os\":\"windows\"}", CCHV_ERR_UNSUPPORTED, NULL },
		{ "{\"os\":\"linux\",\"architecture\":\"none\"}", CCHV_ERR_UNSUPPORTED, NULL },
		{ "{\"rootfs\":{\"diff_ids\":[]}}", CCHV_ERR_PROTOCOL, NULL },
		{ "{\"rootfs\":{\"diff_ids\":[1]}}", CCHV_ERR_PROTOCOL, NULL },
		{ "{\"rootfs\":{\"diff_ids\":[\"sha256:../x\"]}}", CCHV_ERR_PROTOCOL, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct oci_image image = { 0 };

		CHECK_INT(read_config(cases[i].text, &image), cases[i].code);
		if (cases[i].config)
			CHECK_STR(image.config, cases[i].config);
		oci_image_free(&image);
	}
}
