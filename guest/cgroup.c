/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cgroups: see cgroup.h. Enters: names and values. Leaves: directories and files of cgroup2. Each container has one
 * below "containers"; whatever its processes make inside stays below it and goes with it.
 */
#include "guest/cgroup.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARENT "containers"
#define FILE_MAX (256U << 10)

struct cgroup {
	char *path;
	int dir_fd;
};

static int read_file(int dir_fd, const char *file, struct buf *buf)
{
	cleanup_close int fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	do {
		n = buf_read_fd(buf, fd, 65536);
	} while (n > 0);
	return n < 0 || !buf_string(buf) ? -1 : 0;
}

static int write_file(int dir_fd, const char *file, const char *value)
{
	cleanup_close int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);
	size_t len = strlen(value);

	return fd < 0 || write(fd, value, len) != (ssize_t)len ? -1 : 0;
}

/* All controllers that the kernel offers here, one by one: one that cannot be had is missed when it is needed. */
static int hand_down(int dir_fd)
{
	struct buf controllers = BUF_INIT(FILE_MAX);
	char *rest, *name;

	if (read_file(dir_fd, "cgroup.controllers", &controllers) < 0) {
		buf_free(&controllers);
		return -1;
	}
	rest = (char *)controllers.data;
	for (name = strtok_r(rest, " \n", &rest); name; name = strtok_r(NULL, " \n", &rest)) {
		char word[64];

		snprintf(word, sizeof(word), "+%s", name);
		(void)!write_file(dir_fd, "cgroup.subtree_control", word);
	}
	buf_free(&controllers);
	return 0;
}

int cgroup_prepare(const char *root, cchv_error **err)
{
	cleanup_close int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_close int parent_fd = -1;

	if (root_fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "cgroup '%s'", root);
	if (hand_down(root_fd) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "cgroup '%s': controllers", root);
	if (mkdirat(root_fd, PARENT, 0755) < 0 && errno != EEXIST)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "cgroup '%s/%s'", root, PARENT);
	parent_fd = openat(root_fd, PARENT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent_fd < 0 || hand_down(parent_fd) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "cgroup '%s/%s': controllers", root, PARENT);
	return CCHV_OK;
}

int cgroup_new(const char *root, const char *name, struct cgroup **ret_cgroup, cchv_error **err)
{
	struct cgroup *cgroup = mem_zalloc(sizeof(*cgroup));

	if (!cgroup)
		return err_nomem(err);
	cgroup->dir_fd = -1;
	cgroup->path = mem_printf("%s/%s/%s", root, PARENT, name);
	if (!cgroup->path) {
		cgroup_free(cgroup);
		return err_nomem(err);
	}
	if (mkdir(cgroup->path, 0755) == 0 || errno == EEXIST)
		cgroup->dir_fd = open(cgroup->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cgroup->dir_fd < 0) {
		int r = err_set(err, CCHV_ERR_SYSTEM, errno, "cgroup '%s'", cgroup->path);

		cgroup_free(cgroup);
		return r;
	}
	if (cgroup_is_populated(cgroup)) {
		cgroup_free(cgroup);
		return err_set(err, CCHV_ERR_EXISTS, EEXIST, "cgroup '%s' has processes", name);
	}
	*ret_cgroup = cgroup;
	return CCHV_OK;
}

void cgroup_free(struct cgroup *cgroup)
{
	if (!cgroup)
		return;
	fd_close(&cgroup->dir_fd);
	free(cgroup->path);
	free(cgroup);
}

const char *cgroup_path(const struct cgroup *cgroup)
{
	return cgroup->path;
}

int cgroup_fd(const struct cgroup *cgroup)
{
	return cgroup->dir_fd;
}

/* The number behind a word of a flat file; 0 and *ret as it was when it is not there. */
static int find_number(const char *text, const char *word, uint64_t *ret)
{
	size_t len = strlen(word);

	for (const char *line = text; line && *line;
	     line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (strncmp(line, word, len) == 0 && line[len] == ' ') {
			*ret = strtoull(line + len + 1, NULL, 10);
			return 1;
		}
	}
	return 0;
}

static uint64_t read_word(const struct cgroup *cgroup, const char *file, const char *word)
{
	struct buf buf = BUF_INIT(FILE_MAX);
	uint64_t value = 0;

	if (read_file(cgroup->dir_fd, file, &buf) == 0)
		find_number(buf_string(&buf), word, &value);
	buf_free(&buf);
	return value;
}

int cgroup_is_populated(const struct cgroup *cgroup)
{
	return read_word(cgroup, "cgroup.events", "populated") != 0;
}

uint64_t cgroup_oom_kills(const struct cgroup *cgroup)
{
	return read_word(cgroup, "memory.events", "oom_kill");
}

/* A file with one number. 1, or 0 when it is absent or "max". */
static int read_number(const struct cgroup *cgroup, const char *file, uint64_t *ret)
{
	struct buf buf = BUF_INIT(FILE_MAX);
	int found = 0;

	if (read_file(cgroup->dir_fd, file, &buf) == 0 && buf.len && buf.data[0] >= '0' &&
	    buf.data[0] <= '9') {
		*ret = strtoull(buf_string(&buf), NULL, 10);
		found = 1;
	}
	buf_free(&buf);
	return found;
}

static int check_usage(const struct cgroup *cgroup, const struct resources *resources, cchv_error **err)
{
	uint64_t current = 0;

	if (!resources->check_before_update || resources->memory_limit == UINT64_MAX)
		return CCHV_OK;
	if (read_number(cgroup, "memory.current", &current) && current > resources->memory_limit)
		return err_set(err, CCHV_ERR_INVALID, EBUSY,
		               "linux.resources.memory.limit: %" PRIu64 " is below the %" PRIu64
		               " bytes in use",
		               resources->memory_limit, current);
	return CCHV_OK;
}

int cgroup_apply(const struct cgroup *cgroup, const struct resources *resources, cchv_error **err)
{
	int r = check_usage(cgroup, resources, err);

	for (size_t i = 0; r == CCHV_OK && i < resources->count; i++) {
		const struct resource_write *w = &resources->writes[i];

		if (write_file(cgroup->dir_fd, w->file, w->value) == 0 || (errno == ENOENT && w->optional))
			continue;
		r = err_set(err, errno == ENOENT ? CCHV_ERR_UNSUPPORTED : CCHV_ERR_SYSTEM, errno,
		            "linux.resources: '%s' to %s", w->value, w->file);
	}
	return r;
}

/* The kernel reports a change of cgroup.events as an exceptional condition. 0, or -1 with errno. */
static int wait_change(int events_fd, uint64_t deadline)
{
	struct pollfd fd = { .fd = events_fd, .events = POLLPRI };
	char text[256];

	if (clock_passed(deadline)) {
		errno = ETIMEDOUT;
		return -1;
	}
	if (poll(&fd, 1, clock_left_ms(deadline)) < 0 && errno != EINTR)
		return -1;
	/* Reading it arms the next report. */
	return lseek(events_fd, 0, SEEK_SET) < 0 || read(events_fd, text, sizeof(text)) < 0 ? -1 : 0;
}

int cgroup_freeze(const struct cgroup *cgroup, int frozen, uint64_t deadline, cchv_error **err)
{
	cleanup_close int events = openat(cgroup->dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);

	if (events < 0 || write_file(cgroup->dir_fd, "cgroup.freeze", frozen ? "1" : "0") < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "freeze '%s'", cgroup->path);
	while ((read_word(cgroup, "cgroup.events", "frozen") != 0) != (frozen != 0)) {
		int r;

		if (wait_change(events, deadline) == 0)
			continue;
		r = err_set(err, err_code_of_errno(errno), errno, "freeze '%s'", cgroup->path);
		(void)!write_file(cgroup->dir_fd, "cgroup.freeze", "0");
		return r;
	}
	return CCHV_OK;
}

int cgroup_kill(const struct cgroup *cgroup)
{
	return write_file(cgroup->dir_fd, "cgroup.kill", "1");
}

static int signal_dir(int dir_fd, int signal_number, unsigned int depth)
{
	struct buf procs = BUF_INIT(16U << 20);
	int count = 0, copy;
	struct dirent *entry;
	DIR *dir;

	if (read_file(dir_fd, "cgroup.procs", &procs) == 0) {
		char *rest = (char *)procs.data, *line;

		for (line = strtok_r(rest, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
			pid_t pid = (pid_t)strtol(line, NULL, 10);

			/* 0 is a process of a namespace that we do not see, and would be ourselves. */
			if (pid > 1 && kill(pid, signal_number) == 0)
				count++;
		}
	}
	buf_free(&procs);
	copy = depth ? openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	dir = copy < 0 ? NULL : fdopendir(copy);
	while (dir && (entry = readdir(dir))) {
		cleanup_close int child = -1;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		child = openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (child >= 0)
			count += signal_dir(child, signal_number, depth - 1);
	}
	if (dir)
		closedir(dir);
	else
		fd_close(&copy);
	return count;
}

int cgroup_signal(const struct cgroup *cgroup, int signal_number)
{
	return signal_dir(cgroup->dir_fd, signal_number, 32);
}

/* Children first. 0, or -1 with errno. */
static int remove_tree(int parent_fd, const char *name, unsigned int depth)
{
	int fd = depth ? openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			remove_tree(dirfd(dir), entry->d_name, depth - 1);
	if (dir)
		closedir(dir);
	return unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -1 : 0;
}

int cgroup_remove(const char *path, uint64_t deadline, cchv_error **err)
{
	cleanup_free char *name = mem_printf("%s/cgroup.events", path);
	cleanup_close int events = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;

	if (!name)
		return err_nomem(err);
	/* A process that is dead but not yet reaped holds its cgroup for a moment. */
	while (remove_tree(AT_FDCWD, path, 32) < 0)
		if (errno != EBUSY || events < 0 || wait_change(events, deadline) < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "remove cgroup '%s'", path);
	return CCHV_OK;
}

static void add_number(const struct cgroup *cgroup, const char *file, const char *key, struct json *result)
{
	uint64_t value;

	if (read_number(cgroup, file, &value))
		json_set_u64(result, key, value);
}

static void add_words(const struct cgroup *cgroup, const char *file, const char *const words[][2],
                      size_t count, uint64_t scale, struct json *result)
{
	struct buf buf = BUF_INIT(FILE_MAX);

	if (read_file(cgroup->dir_fd, file, &buf) == 0)
		for (size_t i = 0; i < count; i++) {
			uint64_t value;

			if (find_number(buf_string(&buf), words[i][0], &value))
				json_set_u64(result, words[i][1], value * scale);
		}
	buf_free(&buf);
}

/* io.stat has a line for each disk: "8:0 rbytes=1 wbytes=2 rios=3 wios=4 ...". */
static void add_io(const struct cgroup *cgroup, struct json *result)
{
	static const char *const words[][2] = {
		{ " rbytes=", "io.read_bytes" },
		{ " wbytes=", "io.write_bytes" },
		{ " rios=", "io.read_ops" },
		{ " wios=", "io.write_ops" },
	};
	struct buf buf = BUF_INIT(FILE_MAX);
	int there = read_file(cgroup->dir_fd, "io.stat", &buf) == 0;

	for (size_t i = 0; there && i < ARRAY_LEN(words); i++) {
		uint64_t sum = 0;

		for (const char *p = strstr(buf_string(&buf), words[i][0]); p; p = strstr(p + 1, words[i][0]))
			sum += strtoull(p + strlen(words[i][0]), NULL, 10);
		json_set_u64(result, words[i][1], sum);
	}
	buf_free(&buf);
}

int cgroup_stats(const struct cgroup *cgroup, struct json *result)
{
	static const char *const cpu_times[][2] = {
		{ "usage_usec", "cpu.usage_ns" },
		{ "user_usec", "cpu.user_ns" },
		{ "system_usec", "cpu.system_ns" },
		{ "throttled_usec", "cpu.throttled_ns" },
	};
	static const char *const cpu_counts[][2] = {
		{ "nr_periods", "cpu.periods" },
		{ "nr_throttled", "cpu.throttled_periods" },
	};
	static const char *const memory[][2] = {
		{ "anon", "memory.anon_bytes" },
		{ "file", "memory.file_bytes" },
		{ "kernel", "memory.kernel_bytes" },
		{ "shmem", "memory.shmem_bytes" },
		{ "inactive_file", "memory.inactive_file_bytes" },
		{ "pgfault", "memory.page_faults" },
		{ "pgmajfault", "memory.major_faults" },
	};

	add_number(cgroup, "memory.current", "memory.current_bytes", result);
	add_number(cgroup, "memory.peak", "memory.peak_bytes", result);
	add_number(cgroup, "memory.max", "memory.limit_bytes", result);
	add_number(cgroup, "memory.swap.current", "memory.swap_bytes", result);
	add_number(cgroup, "pids.current", "pids.current", result);
	add_number(cgroup, "pids.max", "pids.limit", result);
	add_words(cgroup, "cpu.stat", cpu_times, ARRAY_LEN(cpu_times), 1000, result);
	add_words(cgroup, "cpu.stat", cpu_counts, ARRAY_LEN(cpu_counts), 1, result);
	add_words(cgroup, "memory.stat", memory, ARRAY_LEN(memory), 1, result);
	add_io(cgroup, result);
	json_set_u64(result, "memory.oom_kills", cgroup_oom_kills(cgroup));
	return CCHV_OK;
}
