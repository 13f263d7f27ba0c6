/* SPDX-License-Identifier: Apache-2.0 */
/* Imports at work: see image/job.h. Enters: a cache. Leaves: directories and locks that die with their import. */
#include "image/job.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "image/tool.h"
#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEMPTS 100

/* 1: locked and still there; 0: somebody swept it away in between. */
static int hold(int fd)
{
	struct stat st;

	return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0;
}

int job_open(const struct cache *cache, struct job *ret, cchv_error **err)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		cleanup_free char *dir = cache_path(cache, "tmp/job-%d-%llx-%d", getpid(),
		                                    (unsigned long long)clock_mono_ns(), i);
		cleanup_close int fd = -1;

		if (!dir)
			return err_nomem(err);
		if (mkdir(dir, 0700) < 0) {
			if (errno == EEXIST)
				continue;
			return err_set(err, err_code_of_errno(errno), errno, "directory '%s'", dir);
		}
		fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && hold(fd)) {
			*ret = (struct job){ steal(&dir), fd_steal(&fd) };
			return CCHV_OK;
		}
		if (fd < 0 && errno != ENOENT)
			return err_set(err, err_code_of_errno(errno), errno, "directory '%s'", dir);
	}
	return err_set(err, CCHV_ERR_SYSTEM, 0, "no place to work in '%s/tmp'", cache->dir);
}

void job_close(struct job *job)
{
	if (job->dir)
		path_remove_tree(job->dir, NULL);
	free(job->dir);
	job->dir = NULL;
	fd_close(&job->fd);
}

char *job_path(const struct job *job, const char *name)
{
	return mem_printf("%s/%s", job->dir, name);
}

/* 1: it was dead, and is gone. */
static int sweep_one(const char *path, const char *name, int with_locks, cchv_error **err)
{
	size_t len = strlen(name);
	int is_job = strncmp(name, "job-", 4) == 0, is_lock = len > 5 && strcmp(name + len - 5, ".lock") == 0, r;
	cleanup_close int fd = -1;

	if (!is_job && !(is_lock && with_locks))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || !hold(fd))
		return 0;
	if (is_lock)
		return unlink(path) == 0;
	r = path_remove_tree(path, err);
	return r < 0 ? r : 1;
}

int job_sweep(const struct cache *cache, int with_locks, job_removed_fn removed, void *user_data, cchv_error **err)
{
	cleanup_buf struct buf names = BUF_INIT(TREE_NAMES_MAX);
	cleanup_free char *dir = cache_path(cache, "tmp");
	cleanup_close int fd = -1;
	const char *name;
	size_t count;
	int r;

	if (!dir)
		return err_nomem(err);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "directory '%s'", dir);
	r = tree_list(fd, ".", &names, &count, err);
	name = (const char *)names.data;
	for (; r >= 0 && count; count--, name += strlen(name) + 1) {
		cleanup_free char *path = mem_printf("%s/%s", dir, name);

		if (!path)
			return err_nomem(err);
		r = sweep_one(path, name, with_locks, err);
		if (r == 1 && removed && strncmp(name, "job-", 4) == 0)
			r = removed(name, user_data, err);
	}
	return r < 0 ? r : CCHV_OK;
}

/* While another import has the lock, all is well: this one is not stuck. */
static uint64_t still_waiting(void *user_data)
{
	return clock_mono_ns();
}

/* flock() cannot be interrupted from here; a child that shares the open file can be killed, and waits for us. */
static int wait_for_lock(int fd, cchv_progress *progress, cchv_error **err)
{
	static const char *const arguments[] = { "-x", "0", NULL };
	struct tool_spec spec = { .name = "flock", .needed_for = "waiting for another import", .argv = arguments,
	                          .stdin_fd = fd };

	progress_begin(progress, "waiting", 0);
	return tool_run(&spec, NULL, progress, still_waiting, NULL, err);
}

int job_lock_key(const struct cache *cache, const char *key, cchv_progress *progress, struct job_lock *ret,
                 cchv_error **err)
{
	cleanup_free char *path = cache_path(cache, "tmp/%s.lock", key);

	if (!path)
		return err_nomem(err);
	for (;;) {
		cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		struct stat st;
		int r = CCHV_OK;

		if (fd < 0)
			return err_set(err, err_code_of_errno(errno), errno, "lock '%s'", path);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0)
			r = errno == EWOULDBLOCK ? wait_for_lock(fd, progress, err) :
			                           err_set(err, CCHV_ERR_SYSTEM, errno, "lock '%s'", path);
		if (r < 0)
			return r;
		/* Whoever had it before has removed the file: once more, with the one that is there now. */
		if (fstat(fd, &st) == 0 && st.st_nlink > 0) {
			*ret = (struct job_lock){ steal(&path), fd_steal(&fd) };
			return CCHV_OK;
		}
	}
}

/* The file goes first, while nobody else can have the lock. */
void job_unlock(struct job_lock *lock)
{
	if (lock->path)
		unlink(lock->path);
	free(lock->path);
	lock->path = NULL;
	fd_close(&lock->fd);
}
