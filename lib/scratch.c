/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch disks: see scratch.h. Enters: a path, a size. Leaves: a file with an empty ext4. */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "file_copy.h"

#define ROUND (1ULL << 20)
#define SMALL (1ULL << 30)    /* below, the journal is small too */
/* What the template's layout depends on: another line here is another template. */
#define LAYOUT "1"

static int failed(const char *path, cchv_error **err)
{
	return err_set(err, err_code_of_errno(errno), errno, "scratch disk '%s'", path);
}

static int run_mkfs(int fd, const char *path, uint64_t bytes, uint64_t deadline, cchv_error **err)
{
	cleanup_free char *program = NULL;
	const char *argv[] = {
		NULL, "-q", "-F", "-m", "0", "-b", "4096", "-i", "16384", "-J", bytes < SMALL ? "size=4"
		        : "size=32",
		"-O", "^resize_inode,sparse_super2",
		/* The new file is all zeros already, and marked so: the guest has nothing to initialise. */
		"-E", "lazy_itable_init=0,lazy_journal_init=1,num_backup_sb=0", "/proc/self/fd/3", NULL,
	};
	const struct proc_fd fds[] = { { fd, 3 } };
	struct proc_spawn spec = { .argv = argv, .fds = fds, .fd_count = ARRAY_LEN(fds) };
	int r = path_find_program("mkfs.ext4", &program, err);

	if (r < 0)
		return err_prefix(err, r, "scratch disk");
	argv[0] = program;
	r = proc_run_checked(&spec, NULL, deadline, err);
	return r < 0 ? err_prefix(err, r, "scratch disk '%s'", path) : CCHV_OK;
}

/*
 * Where it is made: a file without a name, which a crash takes with it; or, where the file system has none of those,
 * one that the next maker overwrites, since the lock is held.
 */
static int open_fresh(const char *dir, const char *named)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd >= 0 ? fd : open(named, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static int put_in_place(int fd, const char *named, const char *path)
{
	char unnamed[32];

	if (fsync(fd) < 0)
		return -1;
	if (access(named, F_OK) == 0)
		return rename(named, path);
	snprintf(unnamed, sizeof(unnamed), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, unnamed, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* Synced before it has its name: a crash leaves nothing that looks whole. */
static int make_template(const char *dir, const char *path, uint64_t bytes, uint64_t deadline, cchv_error **err)
{
	cleanup_free char *named = mem_printf("%s.new", path);
	cleanup_close int fd = -1;
	int r = CCHV_OK;

	if (!named)
		return err_nomem(err);
	unlink(named);
	fd = open_fresh(dir, named);
	if (fd < 0)
		return failed(path, err);
	if (ftruncate(fd, (off_t)bytes) < 0)
		r = failed(path, err);
	if (r == CCHV_OK)
		r = run_mkfs(fd, path, bytes, deadline, err);
	if (r == CCHV_OK && put_in_place(fd, named, path) < 0)
		r = failed(path, err);
	if (r < 0)
		unlink(named);
	return r;
}

static int open_template(const char *dir, uint64_t bytes, uint64_t deadline, int *ret_fd, cchv_error **err)
{
	cleanup_free char *path = mem_printf("%s/ext4-" LAYOUT "-%llu", dir, (unsigned long long)bytes);
	cleanup_free char *lock_path = mem_printf("%s/lock", dir);
	cleanup_close int lock = -1;
	int r;

	if (!path || !lock_path)
		return err_nomem(err);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret_fd >= 0)
		return CCHV_OK;
	r = path_make_dirs(dir, 0700, err);
	if (r < 0)
		return r;
	lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0 || fd_lock(lock, 1) < 0)
		return failed(lock_path, err);
	/* Perhaps another one made it meanwhile. */
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret_fd < 0) {
		r = make_template(dir, path, bytes, deadline, err);
		if (r < 0)
			return r;
		*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	return *ret_fd < 0 ? failed(path, err) : CCHV_OK;
}

static int refuse_tmpfs(const char *path, cchv_error **err)
{
	cleanup_free char *copy = mem_strdup(path);
	int r;

	if (!copy)
		return err_nomem(err);
	r = path_on_tmpfs(dirname(copy), err);
	if (r > 0)
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0,
		               "scratch disk '%s': on a tmpfs it would lie in memory", path);
	return r;
}

int scratch_make(const char *templates_dir, const char *path, uint64_t bytes, uint64_t deadline,
                 cchv_error **err)
{
	cleanup_close int from = -1, to = -1;
	int r = refuse_tmpfs(path, err);

	if (r < 0)
		return r;
	if (bytes < SCRATCH_MIN_BYTES)
		return err_set(err, CCHV_ERR_INVALID, 0, "scratch disk '%s': %llu bytes are less than %llu",
		               path,
		               (unsigned long long)bytes, (unsigned long long)SCRATCH_MIN_BYTES);
	bytes = (bytes + ROUND - 1) / ROUND * ROUND;
	r = open_template(templates_dir, bytes, deadline, &from, err);
	if (r < 0)
		return r;
	to = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0)
		return failed(path, err);
	if (file_copy(from, to) < 0) {
		r = failed(path, err);
		unlink(path);
	}
	return r;
}
