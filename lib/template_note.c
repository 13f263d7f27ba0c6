/* SPDX-License-Identifier: Apache-2.0 */
/* Notes on templates that failed: see template_note.h. Enters: one line. Leaves: the same, for an hour. */
#include "template_note.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "ctx.h"
#include "image/sha256.h"

#define SUFFIX ".failed"
#define TEXT_MAX 1024

static char *note_path(const cchv_ctx *ctx, const char *key)
{
	return mem_printf("%s/templates/%s" SUFFIX, ctx->state_dir, key);
}

/* By the file's time; one from the future, after a clock was set back, does not count either. */
static int counts(const struct stat *st)
{
	uint64_t now = clock_real_ns() / NS_PER_S, then = (uint64_t)st->st_mtime;

	return then <= now + 1 && now < then + TEMPLATE_NOTE_S;
}

char *template_note_read(cchv_ctx *ctx, const char *key)
{
	cleanup_free char *path = note_path(ctx, key);
	cleanup_buf struct buf text = BUF_INIT(TEXT_MAX + 1);
	cleanup_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !counts(&st))
		return NULL;
	if (buf_read_fd(&text, fd, TEXT_MAX) <= 0)
		return NULL;
	return buf_take_string(&text);
}

int template_note_write(cchv_ctx *ctx, const char *key, const char *text, cchv_error **err)
{
	cleanup_free char *path = note_path(ctx, key);

	return path ? path_write_atomic(path, text, strnlen(text, TEXT_MAX), 0600, err) : err_nomem(err);
}

void template_note_remove(cchv_ctx *ctx, const char *key)
{
	cleanup_free char *path = note_path(ctx, key);

	if (path)
		unlink(path);
}

/* "<key>.failed" */
static int is_note(const char *name)
{
	char key[SHA256_HEX_SIZE];
	size_t len = strlen(name);

	if (len != sizeof(key) - 1 + sizeof(SUFFIX) - 1)
		return 0;
	memcpy(key, name, sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	return sha256_hex_is_valid(key) && strcmp(name + sizeof(key) - 1, SUFFIX) == 0;
}

int template_note_prune(cchv_ctx *ctx, cchv_error **err)
{
	cleanup_free char *path = mem_printf("%s/templates", ctx->state_dir);
	struct dirent *entry;
	int r = CCHV_OK;
	struct stat st;
	DIR *directory;

	if (!path)
		return err_nomem(err);
	directory = opendir(path);
	if (!directory)
		return errno == ENOENT ? CCHV_OK
		                       : err_set(err, err_code_of_errno(errno), errno, "templates '%s'", path);
	while (r == CCHV_OK && (entry = readdir(directory)))
		if (is_note(entry->d_name) && fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !counts(&st) && unlinkat(dirfd(directory), entry->d_name, 0) < 0 && errno != ENOENT)
			r = err_set(err, err_code_of_errno(errno), errno, "templates '%s': remove '%s'", path,
			            entry->d_name);
	closedir(directory);
	return r;
}
