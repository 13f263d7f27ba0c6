/* SPDX-License-Identifier: Apache-2.0 */
/* Logs of output: see log_file.h. Enters: bytes. Leaves: two files of bounded size. */
#include "log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

struct log_file {
	int refs;
	char *path;
	char *old_path;
	uint64_t max_bytes;
	uint64_t size;
	uint64_t lost;
	int fd;
};

static int open_append(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
}

static void destroy(struct log_file *log)
{
	fd_close(&log->fd);
	free(log->path);
	free(log->old_path);
	free(log);
}

int log_file_open(const char *path, uint64_t max_bytes, struct log_file **ret_log, cchv_error **err)
{
	struct log_file *log = mem_zalloc(sizeof(*log));
	struct stat st;
	int r = CCHV_OK;

	if (!log)
		return err_nomem(err);
	log->refs = 1;
	log->max_bytes = max_bytes;
	log->fd = -1;
	log->path = mem_strdup(path);
	log->old_path = mem_printf("%s.1", path);
	if (!log->path || !log->old_path) {
		destroy(log);
		return err_nomem(err);
	}
	log->fd = open_append(path);
	if (log->fd < 0 || fstat(log->fd, &st) < 0)
		r = err_set(err, err_code_of_errno(errno), errno, "log '%s'", path);
	else if (!S_ISREG(st.st_mode))
		r = err_set(err, CCHV_ERR_INVALID, 0, "log '%s': not a regular file", path);
	if (r < 0) {
		destroy(log);
		return r;
	}
	log->size = (uint64_t)st.st_size;
	*ret_log = log;
	return CCHV_OK;
}

struct log_file *log_file_ref(struct log_file *log)
{
	log->refs++;
	return log;
}

void log_file_unref(struct log_file *log)
{
	if (log && --log->refs == 0)
		destroy(log);
}

const char *log_file_path(const struct log_file *log)
{
	return log->path;
}

uint64_t log_file_lost(const struct log_file *log)
{
	return log->lost;
}

/* Where a new file cannot be had, the old one goes on. */
static void rotate(struct log_file *log)
{
	int fd;

	if (rename(log->path, log->old_path) < 0)
		return;
	fd = open_append(log->path);
	if (fd < 0) {
		rename(log->old_path, log->path);
		return;
	}
	fd_close(&log->fd);
	log->fd = fd;
	log->size = 0;
}

static size_t write_some(struct log_file *log, const uint8_t *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(log->fd, data + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	log->size += done;
	return done;
}

void log_file_write(struct log_file *log, const void *data, size_t len)
{
	const uint8_t *at = data;

	while (len) {
		size_t part = len, done;

		if (log->max_bytes && log->size >= log->max_bytes)
			rotate(log);
		/* A chunk that is larger than what is left fills the file to its size. */
		if (log->max_bytes && log->size < log->max_bytes && part > log->max_bytes - log->size)
			part = (size_t)(log->max_bytes - log->size);
		done = write_some(log, at, part);
		if (done < part) {
			log->lost += len - done;
			return;
		}
		at += part;
		len -= part;
	}
}
