/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"
#include "base/clock.h"
#include "base/path.h"
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char templates[100], path[100];

static void begin(void)
{
	snprintf(templates, sizeof(templates), "%s/templates", test_dir());
	snprintf(path, sizeof(path), "%s/disk", test_dir());
}

static void check_is_ext4(void)
{
	uint8_t magic[2];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	CHECK_INT(pread(fd, magic, 2, 1024 + 0x38), 2);
	CHECK(magic[0] == 0x53 && magic[1] == 0xef);
	close(fd);
}

TEST(a_disk_is_sparse_and_sound)
{
	char command[400];
	struct stat st;

	begin();
	CHECK_INT(scratch_make(templates, path, 10ULL << 30, clock_deadline(60000), NULL), 0);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_size, 10LL << 30);
	CHECK(st.st_blocks * 512 < 1 << 20);
	CHECK_INT(st.st_mode & 0777, 0600);
	check_is_ext4();
	snprintf(command, sizeof(command), "fsck.ext4 -fn %s >/dev/null 2>&1", path);
	CHECK_INT(system(command), 0);
}

TEST(the_second_runs_no_tool)
{
	begin();
	CHECK_INT(scratch_make(templates, path, 64 << 20, clock_deadline(60000), NULL), 0);
	CHECK_INT(unlink(path), 0);
	/* Without a PATH there is no mkfs. */
	setenv("PATH", "/nonexistent", 1);
	CHECK_INT(scratch_make(templates, path, 64 << 20, clock_deadline(60000), NULL), 0);
	check_is_ext4();
	CHECK_INT(unlink(path), 0);
	/* Sizes are rounded, so this is the same one. */
	CHECK_INT(scratch_make(templates, path, (64 << 20) - 5, clock_deadline(60000), NULL), 0);
	CHECK_INT(unlink(path), 0);
	CHECK_INT(scratch_make(templates, path, 65 << 20, clock_deadline(60000), NULL), CCHV_ERR_NOT_FOUND);
	CHECK_INT(access(path, F_OK), -1);
}

TEST(what_is_there_is_not_overwritten)
{
	cleanup_err cchv_error *err = NULL;
	struct stat st;
	int fd;

	begin();
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(write(fd, "mine", 4), 4);
	close(fd);
	CHECK_INT(scratch_make(templates, path, 64 << 20, clock_deadline(60000), &err), CCHV_ERR_EXISTS);
	CHECK_CONTAINS(cchv_error_message(err), path);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_size, 4);
}

TEST(never_in_memory)
{
	cleanup_err cchv_error *err = NULL;

	begin();
	if (path_on_tmpfs("/dev/shm", NULL) != 1)
		return;
	CHECK_INT(scratch_make(templates, "/dev/shm/cchv-test-scratch", 64 << 20, clock_deadline(60000), &err),
	          CCHV_ERR_UNSUPPORTED);
	CHECK_CONTAINS(cchv_error_message(err), "tmpfs");
	CHECK_INT(access("/dev/shm/cchv-test-scratch", F_OK), -1);
}

TEST(too_small_is_refused)
{
	begin();
	CHECK_INT(scratch_make(templates, path, 1 << 20, clock_deadline(60000), NULL), CCHV_ERR_INVALID);
}

/* Its mkfs.ext4 kills whoever started it. */
static void die_making(void)
{
	char tool[200];
	FILE *file;

	snprintf(tool, sizeof(tool), "%s/mkfs.ext4", test_dir());
	file = fopen(tool, "we");
	fputs("#!/bin/sh\nkill -9 $PPID\n", file);
	fclose(file);
	chmod(tool, 0755);
	setenv("PATH", test_dir(), 1);
	scratch_make(templates, path, 64 << 20, clock_deadline(60000), NULL);
	_exit(0);
}

TEST(of_a_maker_that_dies_nothing_is_left)
{
	int status = 0, count = 0;
	struct dirent *e;
	DIR *dir;
	pid_t pid;

	begin();
	pid = fork();
	if (pid == 0)
		die_making();
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	dir = opendir(templates);
	while (dir && (e = readdir(dir)) != NULL)
		if (e->d_name[0] != '.' && strcmp(e->d_name, "lock") != 0)
			count++;
	CHECK(dir != NULL);
	closedir(dir);
	CHECK_INT(count, 0);
	CHECK_INT(access(path, F_OK), -1);
	CHECK_INT(scratch_make(templates, path, 64 << 20, clock_deadline(60000), NULL), 0);
	check_is_ext4();
}
