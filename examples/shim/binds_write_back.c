/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that the host wants back, such as the last words that the kubelet shows of a container. Enters: a tar stream
 * of the guest. Leaves: contents of files that are there already.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bind_source.h"
#include "binds_private.h"
#include "fault.h"
#include "tar_file.h"

/* One file, what a tar stream has around it, and two lengths of a path. */
#define STREAM_MAX (BIND_COPY_MAX + (64U << 10))

int binds_add_log(struct binds *binds, const char *destination, const char *source)
{
	struct bind_log *logs = reallocarray(binds->logs, binds->log_count + 1, sizeof(*logs)), log;

	if (!logs)
		return CCHV_ERR_NOMEM;
	binds->logs = logs;
	log = (struct bind_log){ strdup(destination), strdup(source) };
	if (!log.destination || !log.source) {
		free(log.destination);
		free(log.source);
		return CCHV_ERR_NOMEM;
	}
	logs[binds->log_count++] = log;
	return CCHV_OK;
}

void binds_free(struct binds *binds)
{
	if (!binds)
		return;
	for (size_t i = 0; i < binds->log_count; i++) {
		free(binds->logs[i].destination);
		free(binds->logs[i].source);
	}
	free(binds->logs);
	free(binds);
}

/* The same file as before, not another one in its place: whoever looks at it may have it open. */
static int write_file(const char *path, const char *contents, size_t length)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW), r = 0, reason;

	if (fd < 0)
		return -1;
	while (length && r == 0) {
		ssize_t n = write(fd, contents, length);

		if (n < 0 && errno != EINTR)
			r = -1;
		if (n > 0) {
			contents += n;
			length -= (size_t)n;
		}
	}
	reason = errno;
	if (close(fd) < 0 && r == 0)
		return -1;
	errno = reason;
	return r;
}

/* fd has the stream, from its beginning. */
static int write_stream(const struct bind_log *log, int fd, char **ret_error)
{
	const char *contents;
	struct stat st;
	size_t length;
	void *data;
	int r = CCHV_OK;

	if (fstat(fd, &st) < 0 || st.st_size == 0)
		return fault_set(ret_error, CCHV_ERR_PROTOCOL, "mount '%s': nothing came back", log->destination);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return fault_set(ret_error, CCHV_ERR_SYSTEM, "mount '%s': %s", log->destination, strerror(errno));
	if (tar_file_find(data, (size_t)st.st_size, &contents, &length) < 0)
		r = fault_set(ret_error, CCHV_ERR_PROTOCOL, "mount '%s': what came back is no file", log->destination);
	else if (length > BIND_COPY_MAX)
		r = fault_set(ret_error, CCHV_ERR_LIMIT, "mount '%s': %zu bytes are too many", log->destination,
			      length);
	else if (length && write_file(log->source, contents, length) < 0)
		r = fault_set(ret_error, fault_code(errno), "mount '%s': write '%s': %s", log->destination, log->source,
			      strerror(errno));
	munmap(data, (size_t)st.st_size);
	return r;
}

static int write_back(const struct bind_log *log, cchv_container *container, int timeout_ms, char **ret_error)
{
	cchv_error *err = NULL;
	int fd = memfd_create("write-back", MFD_CLOEXEC), r;

	if (fd < 0)
		return fault_set(ret_error, CCHV_ERR_SYSTEM, "mount '%s': %s", log->destination, strerror(errno));
	r = cchv_container_copy_out(container, log->destination, fd, STREAM_MAX, timeout_ms, &err);
	if (r < 0)
		fault_take(ret_error, r, err, "mount '%s'", log->destination);
	else
		r = write_stream(log, fd, ret_error);
	close(fd);
	return r;
}

int binds_write_back(struct binds *binds, cchv_container *container, int timeout_ms, char **ret_error)
{
	int r = CCHV_OK;

	for (size_t i = 0; binds && i < binds->log_count && r == CCHV_OK; i++)
		r = write_back(&binds->logs[i], container, timeout_ms, ret_error);
	return r;
}
