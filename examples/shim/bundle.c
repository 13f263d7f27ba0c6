/* SPDX-License-Identifier: Apache-2.0 */
/* The shim's own files in a bundle: see bundle.h. */
#include "bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int give_up(int fd, const char *path)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	unlink(path);
	errno = saved;
	return -1;
}

int bundle_write(const char *bundle, const char *name, const void *data, size_t len)
{
	char path[PATH_MAX], temporary[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", bundle, name) >= (int)sizeof(path) ||
	    snprintf(temporary, sizeof(temporary), "%s/.%s", bundle, name) >= (int)sizeof(temporary)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	if (write_all(fd, data, len) < 0)
		return give_up(fd, temporary);
	if (close(fd) < 0 || rename(temporary, path) < 0)
		return give_up(-1, temporary);
	return 0;
}

/* The whole file. 0, or -1 with errno and nothing allocated. */
static int read_all(int fd, size_t max, char **ret_data, size_t *ret_len)
{
	size_t len = 0, size = 4096;
	char *data = malloc(size), *grown;

	for (;;) {
		ssize_t n = data ? read(fd, data + len, size - len - 1) : -1;

		if (n < 0 && data && errno == EINTR)
			continue;
		if (n < 0)
			break;
		len += (size_t)n;
		if (n == 0) {
			data[len] = '\0';
			*ret_data = data;
			*ret_len = len;
			return 0;
		}
		if (len > max) {
			errno = EFBIG;
			break;
		}
		if (len + 1 < size)
			continue;
		grown = realloc(data, size * 2);
		if (!grown)
			break;
		data = grown;
		size *= 2;
	}
	free(data);
	return -1;
}

int bundle_read(const char *bundle, const char *name, size_t max, char **ret_data, size_t *ret_len)
{
	char path[PATH_MAX];
	int fd, r, saved;

	if (snprintf(path, sizeof(path), "%s/%s", bundle, name) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	r = read_all(fd, max, ret_data, ret_len);
	saved = errno;
	close(fd);
	errno = saved;
	return r;
}

int bundle_write_exit(const char *bundle, const struct exit_note *note)
{
	char text[96];
	int len = snprintf(text, sizeof(text), "%" PRIu32 " %" PRIu32 " %" PRIu64 "\n", note->pid,
			   note->status, note->time_ns);

	return bundle_write(bundle, BUNDLE_EXIT, text, (size_t)len);
}

int bundle_read_exit(const char *bundle, struct exit_note *ret)
{
	struct exit_note note;
	char *text;
	size_t len;
	int n;

	if (bundle_read(bundle, BUNDLE_EXIT, 4096, &text, &len) < 0)
		return 0;
	n = sscanf(text, "%" SCNu32 " %" SCNu32 " %" SCNu64, &note.pid, &note.status, &note.time_ns);
	free(text);
	if (n != 3)
		return 0;
	*ret = note;
	return 1;
}
