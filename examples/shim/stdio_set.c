/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where streams lead: see stdio_set.h. Enters: what the client wrote into its request: a fifo's path,
 * "fifo:", "file:" or "binary:" addresses. Leaves: descriptors.
 */
#include "stdio_set.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"
#include "fifo_reader.h"
#include "logger.h"

/* A client that does not come is none that waits for the end, either. */
#define READER_MS 5000

void stdio_paths_free(struct stdio_paths *paths)
{
	free(paths->in);
	free(paths->out);
	free(paths->err);
	*paths = (struct stdio_paths) { 0 };
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void stdio_set_close_copies(struct stdio_set *set)
{
	for (int i = 0; i < 3; i++)
		close_one(&set->fds[i]);
}

void stdio_set_close_input(struct stdio_set *set)
{
	close_one(&set->hold);
}

/* Behind the scheme, if that is the address's. NULL: it is not. */
static const char *behind(const char *address, const char *scheme)
{
	size_t len = strlen(scheme);

	return strncmp(address, scheme, len) == 0 ? address + len : NULL;
}

static const char *fifo_path(const char *address)
{
	const char *path = behind(address, "fifo://");

	return path ? path : strstr(address, "://") ? NULL : address;
}

int stdio_set_open_input(const struct stdio_paths *paths, struct stdio_set *set, char **ret_error)
{
	const char *address = paths->in, *path = fifo_path(address);
	struct stat st;

	if (!*address)
		return 0;
	if (!path)
		return fault_set(ret_error, CCHV_ERR_UNSUPPORTED,
				 "stdin '%s': not an address that this runtime knows", address);
	set->fds[0] = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (set->fds[0] < 0 || fstat(set->fds[0], &st) < 0)
		return fault_set(ret_error, fault_code(errno), "stdin '%s': %s", path, strerror(errno));
	if (!S_ISFIFO(st.st_mode))
		return 0;
	/* There is a reader: this does not fail for want of one. */
	set->hold = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	return set->hold < 0
		       ? fault_set(ret_error, fault_code(errno), "stdin '%s': %s", path, strerror(errno))
		       : 0;
}

/* Open for both: with a reader of our own, output waits for a client that is away, and is not lost. */
static int open_fifo(const char *path, int *ret_fd)
{
	struct stat st;
	int fd = fifo_open_when_read(path, READER_MS);

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!S_ISFIFO(st.st_mode)) {
		close(fd);
		fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	}
	*ret_fd = fd;
	return fd < 0 ? -1 : 0;
}

static int open_file(const char *path, int *ret_fd)
{
	char parent[PATH_MAX];

	*ret_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (*ret_fd >= 0 || errno != ENOENT)
		return *ret_fd < 0 ? -1 : 0;
	snprintf(parent, sizeof(parent), "%s", path);
	if (mkdir(dirname(parent), 0755) < 0)
		return -1;
	*ret_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	return *ret_fd < 0 ? -1 : 0;
}

static int open_output(const char *address, const char *name, int *ret_fd, char **ret_error)
{
	const char *fifo = fifo_path(address), *file = behind(address, "file://");
	int r;

	if (!fifo && !file)
		return fault_set(ret_error, CCHV_ERR_UNSUPPORTED,
				 "%s '%s': not an address that this runtime knows", name, address);
	r = fifo ? open_fifo(fifo, ret_fd) : open_file(file, ret_fd);
	return r < 0 ? fault_set(ret_error, fault_code(errno), "%s '%s': %s", name, address, strerror(errno))
		     : 0;
}

static int open_all(const struct stdio_paths *paths, const char *id, const char *namespace,
		    struct stdio_set *set, char **ret_error)
{
	int r = 0;

	if (logger_is_address(paths->out))
		return logger_start(paths->out, id, namespace, paths->terminal, set, ret_error);
	if (*paths->out)
		r = open_output(paths->out, "stdout", &set->fds[1], ret_error);
	if (r == 0 && *paths->err && !paths->terminal) {
		/* One file for both is written through one descriptor. */
		if (strcmp(paths->err, paths->out) == 0 && set->fds[1] >= 0)
			set->fds[2] = fcntl(set->fds[1], F_DUPFD_CLOEXEC, 0);
		else
			r = open_output(paths->err, "stderr", &set->fds[2], ret_error);
	}
	return r;
}

int stdio_set_open(const struct stdio_paths *paths, const char *id, const char *namespace,
		   struct stdio_set *ret, char **ret_error)
{
	struct stdio_set set = STDIO_SET_INIT;
	int r = open_all(paths, id, namespace, &set, ret_error);

	if (r == 0) {
		*ret = set;
		return 0;
	}
	stdio_set_close_copies(&set);
	if (set.logger)
		logger_kill(set.logger, set.logger_fd);
	return r;
}

void stdio_set_close(struct stdio_set *set, struct loop *loop)
{
	stdio_set_close_copies(set);
	stdio_set_close_input(set);
	if (set->logger)
		logger_leave(loop, set->logger, set->logger_fd);
	set->logger = 0;
	set->logger_fd = -1;
}

int stdio_set_to_config(const struct stdio_set *set, cchv_stdio_config *config)
{
	static const int streams[] = { CCHV_STDIN, CCHV_STDOUT, CCHV_STDERR };
	int r = CCHV_OK;

	for (int i = 0; i < 3 && r == CCHV_OK; i++)
		if (set->fds[i] >= 0)
			r = cchv_stdio_config_set_fd(config, streams[i], set->fds[i]);
	return r;
}
