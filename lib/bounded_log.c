/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded log: see bounded_log.h. Enters: text of guests and VMMs. Leaves: the newest of it, in a file. */
#include "bounded_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

/* What is looked at for the last line. */
#define LAST_LINE_MAX 4096

int bounded_log_open(struct bounded_log *log, int dir_fd, const char *name, size_t limit, cchv_error **err)
{
	struct stat st;

	log->limit = limit;
	log->fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (log->fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "log '%s'", name);
	log->size = fstat(log->fd, &st) == 0 ? (size_t)st.st_size : 0;
	return CCHV_OK;
}

void bounded_log_close(struct bounded_log *log)
{
	fd_close(&log->fd);
}

/* Keep the newest half, from the first line that is whole. */
static void trim(struct bounded_log *log)
{
	size_t keep = log->limit / 2;
	char *text = mem_alloc(keep), *start;
	ssize_t n;

	n = text && log->size > keep ? fd_pread_full(log->fd, text, keep, (off_t)(log->size - keep)) : -1;
	if (n <= 0) {
		/* Without memory for the old text it goes altogether: the limit holds. */
		log->size = ftruncate(log->fd, 0) == 0 ? 0 : log->size;
		free(text);
		return;
	}
	start = memchr(text, '\n', (size_t)n);
	start = start ? start + 1 : text;
	n -= start - text;
	if (fd_pwrite_full(log->fd, start, (size_t)n, 0) == 0 && ftruncate(log->fd, n) == 0)
		log->size = (size_t)n;
	free(text);
}

void bounded_log_write(struct bounded_log *log, const char *data, size_t len)
{
	if (log->fd < 0)
		return;
	if (len > log->limit / 2) {
		data += len - log->limit / 2;
		len = log->limit / 2;
	}
	if (log->size + len > log->limit)
		trim(log);
	if (log->size + len <= log->limit && fd_pwrite_full(log->fd, data, len, (off_t)log->size) == 0)
		log->size += len;
}

char *bounded_log_tail(const struct bounded_log *log, size_t max)
{
	size_t len = log->size < max ? log->size : max;
	char *text = mem_alloc(len + 1);
	ssize_t n;

	if (!text)
		return NULL;
	n = log->fd < 0 ? 0 : fd_pread_full(log->fd, text, len, (off_t)(log->size - len));
	text[n > 0 ? n : 0] = '\0';
	return text;
}

char *bounded_log_last_line(const struct bounded_log *log)
{
	cleanup_free char *tail = bounded_log_tail(log, LAST_LINE_MAX);
	size_t len = tail ? strlen(tail) : 0;
	char *start;

	while (len && strchr("\r\n \t", tail[len - 1]))
		tail[--len] = '\0';
	if (!len)
		return NULL;
	start = strrchr(tail, '\n');
	start = start ? start + 1 : tail;
	for (char *p = start; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	return mem_strdup(start);
}
