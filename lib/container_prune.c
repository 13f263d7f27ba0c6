/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What owners that died left of their containers: directories that nobody has locked and that have no end on record.
 * Enters: the state directory. Leaves: findings, and the truth about the end where others keep files. A container whose
 * end is recorded stays until it is deleted.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "container.h"
#include "container_prune.h"
#include "ctx.h"
#include "exit_record.h"

static const char *const own_files[] = { "scratch.img", "config.json", "lock" };

/* 1: a file of that name is there. */
static int exists(const char *dir, const char *name)
{
	cleanup_free char *path = mem_printf("%s/%s", dir, name);

	return path && access(path, F_OK) == 0;
}

/*
 * Take away our own files, and the directory if nothing else lies in it. A consumer that keeps files of its own there
 * (logs, a scratch disk, a record) learns the end instead, as it would have from the owner. The lock is held and goes
 * last. 1: the directory is gone; 0: it stays, with an end on record.
 */
static int clean(const char *dir, cchv_error **err)
{
	const struct exit_record end = {
		.exit_code = -1, .time_ns = clock_real_ns(), .reason = "the owner died"
	};
	int r;

	for (size_t i = 0; i < ARRAY_LEN(own_files); i++) {
		cleanup_free char *path = mem_printf("%s/%s", dir, own_files[i]);

		if (!path)
			return err_nomem(err);
		if (unlink(path) < 0 && errno != ENOENT)
			return err_set(err, err_code_of_errno(errno), errno, "remove '%s'", path);
	}
	if (rmdir(dir) == 0)
		return 1;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return err_set(err, err_code_of_errno(errno), errno, "remove '%s'", dir);
	r = exit_record_write(dir, &end, err);
	return r < 0 ? r : 0;
}

static int prune_one(const char *dir, const char *id, cchv_findings *findings)
{
	cleanup_free char *lock_path = mem_printf("%s/lock", dir), *text = NULL;
	cleanup_err cchv_error *error = NULL;
	cleanup_close int lock = -1;
	int r;

	if (!lock_path)
		return CCHV_ERR_NOMEM;
	lock = open(lock_path, O_RDWR | O_CLOEXEC);
	if (lock < 0 || fd_lock(lock, 0) < 0 || exists(dir, "exit.json"))
		return CCHV_OK;
	r = clean(dir, &error);
	text = r < 0 ? mem_printf("container '%s': %s", id, cchv_error_message(error))
	             : mem_printf("container '%s': its owner had died; %s", id,
	                          r ? "its files were removed" : "its end is on record now");
	if (!text)
		return CCHV_ERR_NOMEM;
	return findings_add(findings, "container", r < 0 ? CCHV_FINDING_WARN : CCHV_FINDING_REMOVED, text,
	                    r < 0 ? "look at its directory, then prune again" : NULL);
}

int container_prune(cchv_ctx *ctx, cchv_findings *findings)
{
	cleanup_free char *root = mem_printf("%s/containers", ctx->state_dir);
	struct dirent *entry;
	int r = CCHV_OK;
	DIR *dir;

	if (!root)
		return CCHV_ERR_NOMEM;
	dir = opendir(root);
	if (!dir)
		return CCHV_OK;
	while (r == CCHV_OK && (entry = readdir(dir))) {
		cleanup_free char *path = NULL;

		if (!path_name_is_valid(entry->d_name, CONTAINER_ID_MAX))
			continue;
		path = mem_printf("%s/%s", root, entry->d_name);
		r = path ? prune_one(path, entry->d_name, findings) : CCHV_ERR_NOMEM;
	}
	closedir(dir);
	return r;
}
