/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of what was built for which key: see chain.h. Enters: keys, digests. Leaves: small files. */
#include "chain.h"

#include <cchv/error.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault.h"

#define FILE_MAX (1U << 20)

/* FNV-1a, as a name. */
static uint64_t hash(const char *text)
{
	uint64_t h = 14695981039346656037ULL;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211ULL;
	return h;
}

static char *path_of(const char *state_dir, const char *key, const char *suffix)
{
	char *path;

	return asprintf(&path, "%s/shim/chains/%016" PRIx64 "%s", state_dir, hash(key), suffix) < 0 ? NULL : path;
}

static int make_directories(const char *state_dir, char **ret_error)
{
	static const char *const names[] = { "", "/shim", "/shim/chains" };
	char *path = NULL;
	int r = CCHV_OK;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && r == CCHV_OK; i++) {
		if (asprintf(&path, "%s%s", state_dir, names[i]) < 0)
			return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			r = fault_set(ret_error, fault_code(errno), "make directory '%s': %s", path, strerror(errno));
		free(path);
	}
	return r;
}

/* "sha256:HEX\n" and the key. A file that is anything else is none of ours, and is built anew. */
static char *digest_in(char *text, const char *key)
{
	char *end = strchr(text, '\n');

	if (!end || strcmp(end + 1, key) != 0)
		return NULL;
	*end = '\0';
	return strncmp(text, "sha256:", 7) == 0 ? strdup(text) : NULL;
}

int chain_find(const char *state_dir, const char *key, char **ret_digest, char **ret_error)
{
	char *path = path_of(state_dir, key, ""), *text = path ? malloc(FILE_MAX) : NULL, *digest = NULL;
	ssize_t n = -1;
	int fd = -1, r = CCHV_OK;

	if (!text) {
		free(path);
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0)
		n = read(fd, text, FILE_MAX - 1);
	if (n < 0 && errno != ENOENT)
		r = fault_set(ret_error, fault_code(errno), "'%s': %s", path, strerror(errno));
	if (n >= 0) {
		text[n] = '\0';
		digest = digest_in(text, key);
	}
	if (fd >= 0)
		close(fd);
	free(path);
	free(text);
	if (digest)
		*ret_digest = digest;
	return r < 0 ? r : digest != NULL;
}

static int write_whole(const char *path, const char *key, const char *digest)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600), r = 0, reason;

	if (fd < 0)
		return -1;
	if (dprintf(fd, "%s\n%s", digest, key) < 0 || fsync(fd) < 0)
		r = -1;
	reason = errno;
	close(fd);
	errno = reason;
	return r;
}

int chain_store(const char *state_dir, const char *key, const char *digest, char **ret_error)
{
	char *path = path_of(state_dir, key, ""), *fresh = path_of(state_dir, key, ".new");
	int r = make_directories(state_dir, ret_error);

	if (r == CCHV_OK && (!path || !fresh))
		r = fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	/* Whoever stores holds the key's lock, so the name is ours alone. */
	if (r == CCHV_OK && (write_whole(fresh, key, digest) < 0 || rename(fresh, path) < 0)) {
		r = fault_set(ret_error, fault_code(errno), "'%s': %s", path, strerror(errno));
		unlink(fresh);
	}
	free(path);
	free(fresh);
	return r;
}

/* The lock file stays: it is empty, and removing it would let two builders in. */
int chain_lock(const char *state_dir, const char *key, int *ret_fd, char **ret_error)
{
	char *path = path_of(state_dir, key, ".lock");
	int r = make_directories(state_dir, ret_error), fd = -1;

	if (r == CCHV_OK && !path)
		r = fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	if (r == CCHV_OK) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		while (fd >= 0 && flock(fd, LOCK_EX) < 0) {
			if (errno == EINTR)
				continue;
			r = -1;
			break;
		}
		if (fd < 0 || r < 0) {
			r = fault_set(ret_error, fault_code(errno), "'%s': %s", path, strerror(errno));
			if (fd >= 0)
				close(fd);
		}
	}
	free(path);
	if (r == CCHV_OK)
		*ret_fd = fd;
	return r;
}
