/* SPDX-License-Identifier: Apache-2.0 */
/* Tar files as layers: see image/unpack.h. Enters: files from outside. Leaves: a layer in the staging tree. */
#include "image/unpack.h"

#include "base/fd.h"
#include "image/layer.h"
#include "wire/tar.h"
#include "image/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (256U << 10)

static const struct format {
	const char *magic;
	size_t len;
	const char *program;
} formats[] = {
	{ "\x1f\x8b", 2, "gzip" },
	{ "\xfd" "7zXZ", 6, "xz" }, /* with the NUL */
	{ "\x28\xb5\x2f\xfd", 4, "zstd" },
	{ "BZh", 3, "bzip2" },
};

struct archive {
	int fd;
	struct tool tool;       /* the decompressor; pid 0 when there is none */
	int has_tool;
	const char *diff_id;    /* hex, or NULL: then nobody asks for */
	struct sha256 hash;     /* of the archive, decompressed */
	uint64_t reported;      /* of the file, to the progress */
	cchv_progress *progress;
};

static int open_archive(const char *path, int *ret_fd, uint64_t *ret_size, cchv_error **err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "layer '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, CCHV_ERR_INVALID, 0, "layer '%s' is no regular file", path);
	*ret_size = (uint64_t)st.st_size;
	*ret_fd = fd_steal(&fd);
	return CCHV_OK;
}

static int start(struct archive *a, cchv_error **err)
{
	static const char *const arguments[] = { "-dc", NULL };
	struct tool_spec spec = { .needed_for = "a compressed layer", .argv = arguments, .stdin_fd = a->fd,
	                          .want_stdout = 1 };
	uint8_t magic[8] = { 0 };

	if (fd_pread_full(a->fd, magic, sizeof(magic), 0) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "read");
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (memcmp(magic, formats[i].magic, formats[i].len) == 0)
			spec.name = formats[i].program;
	if (!spec.name)
		return CCHV_OK;
	a->has_tool = 1;
	return tool_start(&a->tool, &spec, err);
}

/* The decompressor shares our descriptor: its offset says how far it has read. */
static void report(struct archive *a)
{
	off_t at = lseek(a->fd, 0, SEEK_CUR);

	if (at < 0 || (uint64_t)at <= a->reported)
		return;
	progress_add(a->progress, (uint64_t)at - a->reported);
	a->reported = (uint64_t)at;
}

static ssize_t read_archive(void *user_data, void *data, size_t len, cchv_error **err)
{
	struct archive *a = user_data;
	ssize_t n = progress_check(a->progress, err);

	if (n < 0)
		return n;
	if (a->has_tool) {
		n = tool_read(&a->tool, data, len, a->progress, err);
		if (n < 0)
			return n;
	} else {
		do
			n = read(a->fd, data, len);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "read");
	}
	if (a->diff_id)
		sha256_update(&a->hash, data, (size_t)n);
	report(a);
	return n;
}

static int read_tar(void *user_data, uint64_t *ret_offset, const void **ret_data, size_t *ret_len, cchv_error **err)
{
	return tar_read(user_data, ret_offset, ret_data, ret_len, err);
}

/* What stands behind the end belongs to the digest, and a decompressor must see its output taken. */
static int drain(struct archive *a, cchv_error **err)
{
	cleanup_free void *piece = mem_alloc(PIECE);
	ssize_t n;

	if (!piece)
		return err_nomem(err);
	while ((n = read_archive(a, piece, PIECE, err)) > 0)
		;
	return (int)n;
}

static int put_entries(struct archive *a, struct stage *stage, cchv_error **err)
{
	cleanup_layer struct layer layer = LAYER_INIT(stage, 1);
	cleanup_tar struct tar *tar = NULL;
	const struct tar_entry *entry;
	int r = tar_new(read_archive, a, &tar, err);

	if (r < 0)
		return r;
	while ((r = tar_next(tar, &entry, err)) > 0) {
		r = layer_put(&layer, entry, read_tar, tar, err);
		if (r < 0)
			return r;
	}
	return r;
}

static int unpack(struct archive *a, struct stage *stage, cchv_error **err)
{
	char hex[SHA256_HEX_SIZE];
	int r = start(a, err);

	if (r == CCHV_OK)
		r = put_entries(a, stage, err);
	if (r == CCHV_OK)
		r = drain(a, err);
	if (r == CCHV_OK && a->has_tool) {
		r = tool_wait(&a->tool, a->progress, NULL, NULL, err);
		/* Its input is at fault, not the system. */
		if (r == CCHV_ERR_SYSTEM)
			r = err_set(err, CCHV_ERR_PROTOCOL, 0, "it cannot be decompressed by '%s'", a->tool.name);
	}
	if (r < 0 || !a->diff_id)
		return r;
	sha256_final_hex(&a->hash, hex);
	if (strcmp(hex, a->diff_id) != 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "its contents have the digest sha256:%s, not sha256:%s", hex,
		               a->diff_id);
	return CCHV_OK;
}

int unpack_layer(struct stage *stage, const char *path, const char *diff_id, cchv_progress *progress,
                 cchv_error **err)
{
	struct archive a = { .fd = -1, .tool = { .pidfd = -1, .out_fd = -1, .err_fd = -1 }, .progress = progress,
	                     .diff_id = diff_id };
	uint64_t size;
	int r = open_archive(path, &a.fd, &size, err);

	if (r < 0)
		return r;
	sha256_init(&a.hash);
	if (size == 0)
		r = err_set(err, CCHV_ERR_PROTOCOL, 0, "it is empty");
	else
		r = unpack(&a, stage, err);
	tool_free(&a.tool);
	fd_close(&a.fd);
	return r < 0 ? err_prefix(err, r, "layer '%s'", path) : CCHV_OK;
}

int unpack_hash_file(const char *path, char hex[SHA256_HEX_SIZE], uint64_t *ret_size, cchv_progress *progress,
                     cchv_error **err)
{
	cleanup_free uint8_t *piece = mem_alloc(PIECE);
	cleanup_close int fd = -1;
	struct sha256 hash;
	uint64_t size, done = 0;
	int r = open_archive(path, &fd, &size, err);

	if (r < 0)
		return r;
	if (!piece)
		return err_nomem(err);
	sha256_init(&hash);
	for (;;) {
		ssize_t n = fd_pread_full(fd, piece, PIECE, (off_t)done);

		if (n < 0)
			return err_set(err, err_code_of_errno(errno), errno, "layer '%s': read", path);
		r = progress_check(progress, err);
		if (r < 0)
			return r;
		if (n == 0)
			break;
		sha256_update(&hash, piece, (size_t)n);
		progress_add(progress, (uint64_t)n);
		done += (uint64_t)n;
	}
	sha256_final_hex(&hash, hex);
	*ret_size = done;
	return CCHV_OK;
}
