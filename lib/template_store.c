/* SPDX-License-Identifier: Apache-2.0 */
/* Templates on disk: see template_store.h. Enters: keys, a finished build. Leaves: directories that are whole. */
#include "template_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "ctx.h"
#include "file_copy.h"
#include "findings.h"
#include "list.h"

#define INFO_MAX 65536
#define LOOK_AGAIN_MS 50
#define ROOM_MS 60000
#define PAGE 4096U
#define COUNTER ".starts"
#define MOST_STARTS 1000
#define TEMPLATE_AGE_NS (7 * 24 * 3600 * NS_PER_S)

static char *store_path(const cchv_ctx *ctx, const char *name)
{
	return mem_printf("%s/templates/%s", ctx->state_dir, name);
}

void template_free(struct template *template)
{
	if (!template)
		return;
	fd_close(&template->lock_fd);
	json_free(template->info);
	free(template->dir);
	free(template);
}

static int read_info(struct template *template, const char *path, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(INFO_MAX);
	int r = path_read_file(path, &text, err);

	if (r == CCHV_OK)
		r = json_parse((const char *)text.data, text.len, &template->info, err);
	return r < 0 ? err_prefix(err, r, "template '%s'", path) : CCHV_OK;
}

/* Its checksum was verified when it was built; what can go wrong afterwards without anybody's doing is a short file. */
static int check(const struct template *template, const char *key, cchv_error **err)
{
	cleanup_free char *ram = mem_printf("%s/" TEMPLATE_RAM, template->dir);
	const char *own = NULL;
	uint64_t bytes = 0;
	struct stat st;

	if (!ram)
		return err_nomem(err);
	if (json_get_string(template->info, "key", &own, NULL) != 1 || strcmp(own, key) != 0 ||
	    json_get_u64(template->info, "memory_bytes", &bytes, NULL) != 1)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "template '%s': " TEMPLATE_INFO " is damaged", key);
	if (stat(ram, &st) < 0)
		return err_set(err, CCHV_ERR_PROTOCOL, errno, "template '%s': its memory", key);
	if ((uint64_t)st.st_size != bytes)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "template '%s': its memory has %lld bytes, not %llu", key,
		               (long long)st.st_size, (unsigned long long)bytes);
	return CCHV_OK;
}

int template_open(cchv_ctx *ctx, const char *key, struct template **ret_template, cchv_error **err)
{
	cleanup_template struct template *template = mem_zalloc(sizeof(*template));
	cleanup_free char *path = NULL;
	int r;

	if (!template)
		return err_nomem(err);
	template->lock_fd = -1;
	if (!sha256_hex_is_valid(key))
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no template '%.100s'", key);
	template->dir = store_path(ctx, key);
	path = template->dir ? mem_printf("%s/" TEMPLATE_INFO, template->dir) : NULL;
	if (!path)
		return err_nomem(err);
	template->lock_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (template->lock_fd < 0 && errno == ENOENT)
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no template '%s'", key);
	if (template->lock_fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "template '%s'", path);
	/* Held exclusively by who removes it alone. */
	if (flock(template->lock_fd, LOCK_SH | LOCK_NB) < 0)
		return err_set(err, errno == EWOULDBLOCK ? CCHV_ERR_NOT_FOUND : CCHV_ERR_SYSTEM,
		               errno == EWOULDBLOCK ? 0 : errno, "template '%s' is being removed", key);
	r = read_info(template, path, err);
	if (r == CCHV_OK)
		r = check(template, key, err);
	if (r < 0)
		return r;
	*ret_template = steal(&template);
	return CCHV_OK;
}

/* Its counter, opened so; -1 and errno. */
static int open_counter(const char *dir, int flags)
{
	cleanup_free char *path = mem_printf("%s" COUNTER, dir);

	errno = ENOMEM;
	return path ? open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600) : -1;
}

int template_is_old(const struct template *template)
{
	cleanup_close int fd = open_counter(template->dir, O_RDONLY);
	uint64_t created = 0, now = clock_real_ns();
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size >= MOST_STARTS)
		return 1;
	json_get_u64(template->info, "created_ns", &created, NULL);
	return created < now && now - created > TEMPLATE_AGE_NS;
}

void template_count_start(const struct template *template)
{
	/* Bytes that are appended need no lock. Where it cannot be counted, the template's age remains. */
	cleanup_close int fd = open_counter(template->dir, O_WRONLY | O_APPEND);

	if (fd >= 0)
		fd_write_full(fd, "+", 1, clock_deadline(0));
}

int template_read_config(const char *dir, struct json **ret_config, cchv_error **err)
{
	cleanup_free char *path = mem_printf("%s/" TEMPLATE_CONFIG, dir);
	cleanup_buf struct buf text = BUF_INIT(TEMPLATE_CONFIG_MAX);
	int r = path ? path_read_file(path, &text, err) : err_nomem(err);

	return r < 0 ? r : json_parse((const char *)text.data, text.len, ret_config, err);
}

int template_list(cchv_ctx *ctx, cchv_list **ret_keys, cchv_error **err)
{
	cleanup_free char *path = mem_printf("%s/templates", ctx->state_dir);
	cleanup_list cchv_list *list = list_new();
	struct dirent *entry;
	int r = CCHV_OK;
	DIR *directory;

	if (!path || !list)
		return err_nomem(err);
	directory = opendir(path);
	if (!directory && errno != ENOENT)
		return err_set(err, err_code_of_errno(errno), errno, "templates '%s'", path);
	while (directory && r == CCHV_OK && (entry = readdir(directory)))
		if (sha256_hex_is_valid(entry->d_name))
			r = list_add(list, entry->d_name);
	if (directory)
		closedir(directory);
	if (r < 0)
		return err_nomem(err);
	list_sort(list);
	*ret_keys = steal(&list);
	return CCHV_OK;
}

/* Out of sight at once, then away. */
static int throw_away(cchv_ctx *ctx, const char *dir, const char *key, cchv_error **err)
{
	cleanup_free char *away = mem_printf("%s/templates/tmp/%s-%llx", ctx->state_dir, key,
	                                     (unsigned long long)clock_mono_ns());
	cleanup_free char *counter = mem_printf("%s" COUNTER, dir);

	if (!away || !counter)
		return err_nomem(err);
	if (rename(dir, away) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "template '%s': remove", key);
	unlink(counter);
	return path_remove_tree(away, err);
}

int template_remove(cchv_ctx *ctx, const char *key, cchv_error **err)
{
	cleanup_free char *dir = NULL, *path = NULL;
	cleanup_close int fd = -1;

	if (!sha256_hex_is_valid(key))
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no template '%.100s'", key);
	dir = store_path(ctx, key);
	path = dir ? mem_printf("%s/" TEMPLATE_INFO, dir) : NULL;
	if (!path)
		return err_nomem(err);
	if (access(dir, F_OK) < 0)
		return err_set(err, errno == ENOENT ? CCHV_ERR_NOT_FOUND : err_code_of_errno(errno),
		               errno == ENOENT ? 0 : errno, "no template '%s'", key);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	/* One that is damaged may lack it. */
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, errno == EWOULDBLOCK ? CCHV_ERR_EXISTS : CCHV_ERR_SYSTEM,
		               errno == EWOULDBLOCK ? 0 : errno, "template '%s': a VM is just being started from it",
		               key);
	return throw_away(ctx, dir, key, err);
}

/* ---- building ---- */

static int make_dirs(const cchv_ctx *ctx, cchv_error **err)
{
	cleanup_free char *path = store_path(ctx, "tmp");

	return path ? path_make_dirs(path, 0700, err) : err_nomem(err);
}

static int open_lock(const cchv_ctx *ctx, int *ret_fd, cchv_error **err)
{
	cleanup_free char *path = store_path(ctx, "lock");

	if (!path)
		return err_nomem(err);
	*ret_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return *ret_fd < 0 ? err_set(err, err_code_of_errno(errno), errno, "templates '%s'", path) : CCHV_OK;
}

int template_lock(cchv_ctx *ctx, uint64_t deadline, int *ret_fd, cchv_error **err)
{
	cleanup_close int fd = -1;
	int r = make_dirs(ctx, err);

	if (r == CCHV_OK)
		r = open_lock(ctx, &fd, err);
	if (r < 0)
		return r;
	/* A lock has no event that could be waited for with a deadline. */
	while (fd_lock(fd, 0) < 0) {
		int left = clock_left_ms(deadline);

		if (errno != EWOULDBLOCK)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "templates: lock");
		if (left == 0)
			return err_set(err, CCHV_ERR_TIMEOUT, 0, "another process is still building a template");
		poll(NULL, 0, left < 0 || left > LOOK_AGAIN_MS ? LOOK_AGAIN_MS : left);
	}
	*ret_fd = fd_steal(&fd);
	return CCHV_OK;
}

/* A copy of a memory, whose VM is just being started. */
static int is_in_use(const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	return fd >= 0 && fd_lock(fd, 0) < 0 && errno == EWOULDBLOCK;
}

/* Everything in tmp/ that nobody uses, with the lock held. How many there were, or an error. */
static int clear_tmp(const cchv_ctx *ctx, cchv_error **err)
{
	cleanup_free char *path = store_path(ctx, "tmp");
	struct dirent *entry;
	int count = 0, r = CCHV_OK;
	DIR *directory;

	if (!path)
		return err_nomem(err);
	directory = opendir(path);
	if (!directory)
		return errno == ENOENT ? 0 : err_set(err, err_code_of_errno(errno), errno, "templates '%s'", path);
	while (r == CCHV_OK && (entry = readdir(directory))) {
		cleanup_free char *one = NULL;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		one = mem_printf("%s/%s", path, entry->d_name);
		if (one && is_in_use(one))
			continue;
		r = one ? path_remove_tree(one, err) : err_nomem(err);
		count++;
	}
	closedir(directory);
	return r < 0 ? r : count;
}

int template_begin(cchv_ctx *ctx, char **ret_dir, cchv_error **err)
{
	cleanup_free char *dir = mem_printf("%s/templates/tmp/%llx", ctx->state_dir,
	                                    (unsigned long long)clock_mono_ns());
	int r = dir ? clear_tmp(ctx, err) : err_nomem(err);

	if (r < 0)
		return r;
	if (mkdir(dir, 0700) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "template '%s'", dir);
	*ret_dir = steal(&dir);
	return CCHV_OK;
}

static int seal_file(int directory, const char *name, cchv_error **err)
{
	cleanup_close int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || fsync(fd) < 0 || fchmod(fd, 0400) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "template: file '%s'", name);
	return CCHV_OK;
}

static int seal(const char *dir, cchv_error **err)
{
	DIR *directory = opendir(dir);
	struct dirent *entry;
	int r = CCHV_OK;

	if (!directory)
		return err_set(err, err_code_of_errno(errno), errno, "template '%s'", dir);
	while (r == CCHV_OK && (entry = readdir(directory)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = seal_file(dirfd(directory), entry->d_name, err);
	closedir(directory);
	return r < 0 ? r : path_fsync_dir(dir, err);
}

/* The old one of a key goes, once nobody starts from it: links to its files would mean those of the new one. */
static int make_room(cchv_ctx *ctx, const char *key, cchv_error **err)
{
	uint64_t deadline = clock_deadline(ROOM_MS);

	for (;;) {
		cleanup_err cchv_error *error = NULL;
		int r = template_remove(ctx, key, &error);

		if (r == CCHV_OK || r == CCHV_ERR_NOT_FOUND)
			return CCHV_OK;
		/* As with the lock of all builders, there is no event to wait for. */
		if (r != CCHV_ERR_EXISTS || clock_passed(deadline))
			return err_move(err, &error, r);
		poll(NULL, 0, LOOK_AGAIN_MS);
	}
}

int template_publish(cchv_ctx *ctx, const char *dir, const char *key, struct json *info, cchv_error **err)
{
	cleanup_free char *final = store_path(ctx, key), *path = mem_printf("%s/" TEMPLATE_INFO, dir);
	cleanup_free char *all = store_path(ctx, "");
	cleanup_buf struct buf text = BUF_INIT(INFO_MAX);
	cleanup_json struct json *owned = info;
	cleanup_close int counter = -1;
	int r;

	if (!final || !path || !all || json_print(owned, 1, &text) < 0)
		return err_nomem(err);
	r = path_write_atomic(path, text.data, text.len, 0400, err);
	if (r == CCHV_OK)
		r = seal(dir, err);
	if (r == CCHV_OK)
		r = make_room(ctx, key, err);
	if (r < 0)
		return r;
	counter = open_counter(final, O_WRONLY | O_CREAT | O_TRUNC);
	if (counter < 0)
		return err_set(err, err_code_of_errno(errno), errno, "template '%s': its counter", final);
	if (rename(dir, final) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "template '%s'", final);
	return path_fsync_dir(all, err);
}

int template_prune(cchv_ctx *ctx, cchv_findings *findings)
{
	cleanup_err cchv_error *error = NULL;
	cleanup_free char *text = NULL, *tmp = store_path(ctx, "tmp");
	cleanup_close int fd = -1;
	int r;

	if (!tmp)
		return CCHV_ERR_NOMEM;
	if (access(tmp, F_OK) < 0)
		return CCHV_OK;
	r = open_lock(ctx, &fd, &error);
	/* Somebody is building: it is theirs. */
	if (r == CCHV_OK && fd_lock(fd, 0) < 0)
		return CCHV_OK;
	if (r == CCHV_OK)
		r = clear_tmp(ctx, &error);
	if (r == 0)
		return CCHV_OK;
	text = r < 0 ? mem_strdup(cchv_error_message(error))
	             : mem_printf("%d unfinished template%s or cop%s", r, r > 1 ? "s" : "",
	                          r > 1 ? "ies" : "y");
	if (!text || r == CCHV_ERR_NOMEM)
		return CCHV_ERR_NOMEM;
	return findings_add(findings, "template", r < 0 ? CCHV_FINDING_WARN : CCHV_FINDING_REMOVED, text,
	                    r < 0 ? "look at its directory, then prune again" : NULL);
}

/* ---- copies ---- */

void template_copy_drop(struct template_copy *copy)
{
	if (copy->path)
		unlink(copy->path);
	free(copy->path);
	fd_close(&copy->fd);
	copy->path = NULL;
}

int template_copy_ram(cchv_ctx *ctx, const struct template *template, const char *vm_id,
                      struct template_copy *ret_copy, cchv_error **err)
{
	cleanup_free char *from = mem_printf("%s/" TEMPLATE_RAM, template->dir);
	struct template_copy copy = TEMPLATE_COPY_INIT;
	cleanup_close int fd = -1;
	int r = CCHV_OK;

	copy.path = mem_printf("%s/templates/tmp/%s.ram", ctx->state_dir, vm_id);
	if (!from || !copy.path) {
		free(copy.path);
		return err_nomem(err);
	}
	fd = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	/* A VM of that id that died left one, perhaps. */
	if (fd >= 0 && (unlink(copy.path) == 0 || errno == ENOENT))
		copy.fd = open(copy.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (copy.fd < 0 || fd_lock(copy.fd, 0) < 0 || file_copy(fd, copy.fd) < 0)
		r = err_set(err, err_code_of_errno(errno), errno, "copy its memory to '%s'", copy.path);
	if (r < 0)
		template_copy_drop(&copy);
	else
		*ret_copy = copy;
	return r;
}

/* ---- the checksum ---- */

struct ram_hash {
	struct sha256 sum;
	uint64_t used;
};

static void hash_pages(struct ram_hash *h, const uint8_t *data, size_t len, uint64_t offset)
{
	static const uint8_t zeroes[PAGE];

	for (size_t at = 0; at < len; at += PAGE) {
		size_t size = len - at < PAGE ? len - at : PAGE;
		uint64_t where = offset + at;

		if (memcmp(data + at, zeroes, size) == 0)
			continue;
		sha256_update(&h->sum, &where, sizeof(where));
		sha256_update(&h->sum, data + at, size);
		h->used += size;
	}
}

static int hash_fd(int fd, struct ram_hash *h)
{
	static const size_t chunk = 1U << 20;
	cleanup_free uint8_t *data = mem_alloc(chunk);
	off_t at = 0;

	if (!data) {
		errno = ENOMEM;
		return -1;
	}
	for (;;) {
		ssize_t n;

		at = lseek(fd, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO ? 0 : -1;
		at -= at % PAGE;
		n = fd_pread_full(fd, data, chunk, at);
		if (n <= 0)
			return (int)n;
		hash_pages(h, data, (size_t)n, (uint64_t)at);
		at += n;
	}
}

int template_hash_ram(const char *path, char ret_hex[SHA256_HEX_SIZE], uint64_t *ret_used, cchv_error **err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct ram_hash h = { .used = 0 };

	sha256_init(&h.sum);
	if (fd < 0 || hash_fd(fd, &h) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "template: read '%s'", path);
	sha256_final_hex(&h.sum, ret_hex);
	*ret_used = h.used;
	return CCHV_OK;
}
