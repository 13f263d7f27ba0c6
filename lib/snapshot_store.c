/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots on disk: see snapshot_store.h. Enters: directories. Leaves: whole snapshots, or reasons. */
#include "snapshot_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "snapshot_files.h"

#define DRAFT ".snapshot-"

/* ---- reading ---- */

void snapshot_free(struct snapshot *snapshot)
{
	if (!snapshot)
		return;
	fd_close(&snapshot->lock_fd);
	json_free(snapshot->info);
	free(snapshot->dir);
	free(snapshot);
}

int snapshot_read_json(const char *dir, const char *name, struct json **ret_json, cchv_error **err)
{
	cleanup_free char *path = mem_printf("%s/%s", dir, name);
	cleanup_buf struct buf text = BUF_INIT(SNAPSHOT_JSON_MAX);
	int r = path ? path_read_file(path, &text, err) : err_nomem(err);

	if (r == CCHV_OK)
		r = json_parse((const char *)text.data, text.len, ret_json, err);
	return r < 0 ? err_prefix(err, r, "snapshot '%s': '%s'", dir, name) : CCHV_OK;
}

static int check_format(const struct json *info, cchv_error **err)
{
	uint64_t format = 0;

	if (json_get_type(info) != JSON_OBJECT || json_get_u64(info, "format", &format, NULL) != 1)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "it is damaged: " SNAPSHOT_INFO " makes no sense");
	if (format != SNAPSHOT_FORMAT)
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "its format is %llu, this library knows %d",
		               (unsigned long long)format, SNAPSHOT_FORMAT);
	return CCHV_OK;
}

/* A directory without its description is no snapshot: perhaps one of something else. */
static int lock_dir(const char *dir, int operation, int *ret_fd, cchv_error **err)
{
	cleanup_free char *info = mem_printf("%s/" SNAPSHOT_INFO, dir);
	cleanup_close int fd = -1;

	if (!info)
		return err_nomem(err);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if ((fd < 0 && (errno == ENOENT || errno == ENOTDIR)) || (fd >= 0 && access(info, F_OK) < 0 && errno == ENOENT))
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no snapshot '%s'", dir);
	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "snapshot '%s'", dir);
	if (flock(fd, operation | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
		       ? err_set(err, CCHV_ERR_EXISTS, 0, "snapshot '%s' is in use", dir)
		       : err_set(err, CCHV_ERR_SYSTEM, errno, "snapshot '%s': lock", dir);
	*ret_fd = fd_steal(&fd);
	return CCHV_OK;
}

int snapshot_open(const char *dir, struct snapshot **ret_snapshot, cchv_error **err)
{
	cleanup_snapshot struct snapshot *snapshot = mem_zalloc(sizeof(*snapshot));
	int r;

	if (!snapshot)
		return err_nomem(err);
	snapshot->lock_fd = -1;
	snapshot->dir = mem_strdup(dir);
	r = snapshot->dir ? lock_dir(dir, LOCK_SH, &snapshot->lock_fd, err) : err_nomem(err);
	if (r == CCHV_OK)
		r = snapshot_read_json(dir, SNAPSHOT_INFO, &snapshot->info, err);
	if (r < 0)
		return r;
	r = check_format(snapshot->info, err);
	if (r == CCHV_OK)
		r = snapshot_files_check(dir, json_get(snapshot->info, "files"), err);
	if (r < 0)
		return err_prefix(err, r, "snapshot '%s'", dir);
	*ret_snapshot = steal(&snapshot);
	return CCHV_OK;
}

static int fsync_parent(const char *path, cchv_error **err)
{
	cleanup_free char *parent = mem_strdup(path);

	if (!parent)
		return err_nomem(err);
	*strrchr(parent, '/') = '\0';
	return path_fsync_dir(*parent ? parent : "/", err);
}

static char *draft_path(const char *final)
{
	return mem_printf("%.*s/" DRAFT "%d-%llx", (int)(strrchr(final, '/') - final), final, getpid(),
	                  (unsigned long long)clock_mono_ns());
}

int snapshot_remove(const char *dir, cchv_error **err)
{
	cleanup_free char *away = draft_path(dir);
	cleanup_close int fd = -1;
	int r = away ? lock_dir(dir, LOCK_EX, &fd, err) : err_nomem(err);

	if (r < 0)
		return r;
	/* First it loses its name: nobody finds half of it. */
	if (rename(dir, away) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "snapshot '%s'", dir);
	r = fsync_parent(dir, err);
	return r < 0 ? r : path_remove_tree(away, err);
}

/* ---- writing ---- */

/* Of a process that died in the middle. Where that cannot be told, it stays. */
static int is_abandoned(const char *path)
{
	cleanup_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && fd_lock(fd, 0) == 0;
}

int snapshot_clear_drafts(const char *parent, int *ret_count, cchv_error **err)
{
	struct dirent *entry;
	int r = CCHV_OK;
	DIR *dir = opendir(parent);

	*ret_count = 0;
	if (!dir)
		return err_set(err, err_code_of_errno(errno), errno, "snapshots '%s'", parent);
	while (r == CCHV_OK && (entry = readdir(dir))) {
		cleanup_free char *path = NULL;

		if (strncmp(entry->d_name, DRAFT, sizeof(DRAFT) - 1) != 0)
			continue;
		path = mem_printf("%s/%s", parent, entry->d_name);
		if (!path)
			r = err_nomem(err);
		else if (is_abandoned(path) && (r = path_remove_tree(path, err)) == CCHV_OK)
			++*ret_count;
	}
	closedir(dir);
	return r;
}

static int clear_beside(const char *final, cchv_error **err)
{
	cleanup_free char *parent = mem_strndup(final, (size_t)(strrchr(final, '/') - final));
	int count;

	return parent ? snapshot_clear_drafts(*parent ? parent : "/", &count, err) : err_nomem(err);
}

static int make_rooms(const char *dir, cchv_error **err)
{
	static const char *const names[] = { "vmm", "disks", "specs" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		cleanup_free char *path = mem_printf("%s/%s", dir, names[i]);

		if (!path)
			return err_nomem(err);
		if (mkdir(path, 0700) < 0)
			return err_set(err, err_code_of_errno(errno), errno, "snapshot: '%s'", path);
	}
	return CCHV_OK;
}

int snapshot_begin(const char *final, struct snapshot_draft *ret_draft, cchv_error **err)
{
	struct snapshot_draft draft = SNAPSHOT_DRAFT_INIT;
	int r;

	if (access(final, F_OK) == 0)
		return err_set(err, CCHV_ERR_EXISTS, 0, "snapshot '%s' exists", final);
	r = clear_beside(final, err);
	if (r < 0)
		return r;
	draft.dir = draft_path(final);
	if (!draft.dir)
		return err_nomem(err);
	if (mkdir(draft.dir, 0700) < 0) {
		r = err_set(err, err_code_of_errno(errno), errno, "snapshot '%s'", final);
		free(draft.dir);
		return r;
	}
	draft.lock_fd = open(draft.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (draft.lock_fd < 0 || fd_lock(draft.lock_fd, 0) < 0)
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "snapshot '%s': lock", final);
	else
		r = make_rooms(draft.dir, err);
	if (r < 0)
		snapshot_draft_free(&draft);
	else
		*ret_draft = draft;
	return r;
}

static int write_info(const char *dir, const struct json *info, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(SNAPSHOT_JSON_MAX);
	cleanup_free char *path = mem_printf("%s/" SNAPSHOT_INFO, dir);

	if (!path || json_print(info, 1, &text) < 0)
		return err_nomem(err);
	return path_write_atomic(path, text.data, text.len, 0400, err);
}

/* rename() replaces an empty directory: one that somebody has made since is not ours to take. */
static int take_name(const char *dir, const char *final, cchv_error **err)
{
	if (renameat2(AT_FDCWD, dir, AT_FDCWD, final, RENAME_NOREPLACE) == 0)
		return CCHV_OK;
	if (errno == EEXIST)
		return err_set(err, CCHV_ERR_EXISTS, 0, "snapshot '%s' exists", final);
	return err_set(err, err_code_of_errno(errno), errno, "snapshot '%s'", final);
}

int snapshot_publish(struct snapshot_draft *draft, const char *final, struct json *info, cchv_error **err)
{
	cleanup_json struct json *owned = info;
	struct json *files = NULL;
	int r = snapshot_files_seal(draft->dir, &files, err);

	if (r < 0)
		return r;
	json_set_u64(owned, "format", SNAPSHOT_FORMAT);
	json_set(owned, "files", files);
	r = write_info(draft->dir, owned, err);
	if (r == CCHV_OK)
		r = path_fsync_dir(draft->dir, err);
	if (r == CCHV_OK)
		r = take_name(draft->dir, final, err);
	if (r < 0)
		return r;
	free(steal(&draft->dir));
	return fsync_parent(final, err);
}

void snapshot_draft_free(struct snapshot_draft *draft)
{
	if (draft->dir)
		path_remove_tree(draft->dir, NULL);
	free(steal(&draft->dir));
	fd_close(&draft->lock_fd);
}
