/* SPDX-License-Identifier: Apache-2.0 */
/* Registries: see image/registry.h. Enters: a reference. Leaves: what skopeo says and fetches. */
#include "image/registry.h"

#include "image/oci.h"
#include "image/tool.h"
#include "image/tree.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEEDED_FOR "an image from a registry"

/* "localhost", "127.x.y.z" or "[::1]", with or without a port: as Docker has it, such a registry needs no TLS. */
static int is_loopback(const char *reference)
{
	size_t host = strcspn(reference, "/");

	if (reference[host] != '/')
		return 0;
	if (reference[0] == '[')
		return strncmp(reference, "[::1]", 5) == 0;
	host = strcspn(reference, ":/");
	if (host == 9 && strncmp(reference, "localhost", 9) == 0)
		return 1;
	return strncmp(reference, "127.", 4) == 0 && strspn(reference, "0123456789.") == host;
}

static int inspect(const char *reference, struct buf *text, cchv_progress *progress, cchv_error **err)
{
	cleanup_free char *source = mem_printf("docker://%s", reference);
	const char *arguments[] = { "inspect", "--raw", source, is_loopback(reference) ? "--tls-verify=false" : NULL,
	                            NULL };
	struct tool_spec spec = { .name = "skopeo", .needed_for = NEEDED_FOR, .argv = arguments, .stdin_fd = -1,
	                          .want_stdout = 1 };

	return source ? tool_run(&spec, text, progress, NULL, NULL, err) : err_nomem(err);
}

static void digest_of(const struct buf *text, char hex[SHA256_HEX_SIZE])
{
	struct sha256 hash;

	sha256_init(&hash);
	sha256_update(&hash, text->data, text->len);
	sha256_final_hex(&hash, hex);
}

static uint64_t bytes_of(const struct json *manifest)
{
	const struct json *layers = json_get(manifest, "layers");
	uint64_t bytes = 0, size;

	for (size_t i = 0; i < json_count(layers); i++)
		if (json_get_u64(json_at(layers, i), "size", &size, NULL) > 0 && size < INT64_MAX - bytes)
			bytes += size;
	return bytes;
}

/* The reference without its tag or digest: where the manifest of one platform can be asked for by digest. */
static char *repository_of(const char *reference)
{
	const char *at = strchr(reference, '@'), *slash = strrchr(reference, '/');
	const char *colon = strchr(slash ? slash : reference, ':');
	const char *end = at ? at : colon ? colon : reference + strlen(reference);

	if (colon && colon < end)
		end = colon;
	return mem_strndup(reference, (size_t)(end - reference));
}

static int resolve_index(const char *reference, const struct json *index, char hex[SHA256_HEX_SIZE],
                         uint64_t *ret_bytes, cchv_progress *progress, cchv_error **err)
{
	cleanup_free char *repository = repository_of(reference), *exact = NULL;
	cleanup_buf struct buf text = BUF_INIT(OCI_JSON_MAX);
	cleanup_json struct json *manifest = NULL;
	const struct json *descriptor;
	int r = oci_index_pick(index, NULL, &descriptor, err);

	if (r == CCHV_OK)
		r = oci_digest_parse(json_as_string(json_get(descriptor, "digest")), hex, err);
	if (r < 0)
		return r;
	exact = repository ? mem_printf("%s@sha256:%s", repository, hex) : NULL;
	if (!exact)
		return err_nomem(err);
	/* Only for the progress: what is fetched is checked by its digests. */
	r = inspect(exact, &text, progress, err);
	if (r == CCHV_OK)
		r = json_parse((const char *)text.data, text.len, &manifest, err);
	if (r == CCHV_OK)
		*ret_bytes = bytes_of(manifest);
	return r;
}

int registry_resolve(const char *reference, char hex[SHA256_HEX_SIZE], uint64_t *ret_bytes, cchv_progress *progress,
                     cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(OCI_JSON_MAX);
	cleanup_json struct json *json = NULL;
	int r = inspect(reference, &text, progress, err);

	if (r == CCHV_OK)
		r = json_parse((const char *)text.data, text.len, &json, err);
	if (r == CCHV_OK && oci_is_index(json)) {
		r = resolve_index(reference, json, hex, ret_bytes, progress, err);
	} else if (r == CCHV_OK) {
		digest_of(&text, hex);
		*ret_bytes = bytes_of(json);
	}
	return r < 0 ? err_prefix(err, r, "image '%s'", reference) : CCHV_OK;
}

struct fetched {
	cchv_progress *progress;
	const char *layout;
	uint64_t bytes;
};

static int add_size(const struct tree_entry *entry, void *user_data, cchv_error **err)
{
	struct fetched *f = user_data;

	if (S_ISREG(entry->st.st_mode))
		f->bytes += (uint64_t)entry->st.st_size;
	return CCHV_OK;
}

/* Files come and go while skopeo works: a walk that fails says nothing. */
static uint64_t watch_layout(void *user_data)
{
	struct fetched *f = user_data;
	int fd = open(f->layout, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t before = f->bytes;

	if (fd < 0)
		return before;
	f->bytes = 0;
	if (tree_walk(fd, NULL, add_size, f, NULL) < 0)
		f->bytes = before;
	close(fd);
	progress_set(f->progress, f->bytes);
	return f->bytes;
}

int registry_fetch(const char *reference, const char *dir, uint64_t bytes, cchv_progress *progress,
                   cchv_error **err)
{
	cleanup_free char *source = mem_printf("docker://%s", reference);
	cleanup_free char *layout = mem_printf("%s/" REGISTRY_LAYOUT, dir);
	/* Relative, since skopeo takes a colon in the path for the end of it. */
	const char *arguments[] = { "--override-os", "linux", "--override-arch", oci_architecture(), "copy", source,
	                            "oci:" REGISTRY_LAYOUT ":" REGISTRY_TAG,
	                            is_loopback(reference) ? "--src-tls-verify=false" : NULL, NULL };
	struct tool_spec spec = { .name = "skopeo", .needed_for = NEEDED_FOR, .argv = arguments, .stdin_fd = -1,
	                          .cwd = dir };
	struct fetched f = { progress, layout, 0 };
	int r;

	if (!source || !layout)
		return err_nomem(err);
	progress_begin(progress, "fetching", bytes);
	r = tool_run(&spec, NULL, progress, watch_layout, &f, err);
	return r < 0 ? err_prefix(err, r, "image '%s'", reference) : CCHV_OK;
}
