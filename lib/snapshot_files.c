/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a snapshot: see snapshot_files.h. Enters: a directory. Leaves: names, sizes, checksums. JSON is small and is
 * summed; memory and disks are not: to read gigabytes would cost more than the restore itself.
 */
#include "snapshot_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "image/sha256.h"

#define CHUNK 65536

static const char *const rooms[] = { "vmm", "disks", "specs" };

static int is_summed(const char *name)
{
	size_t len = strlen(name);

	return len > 5 && strcmp(name + len - 5, ".json") == 0;
}

static int sum(int fd, char hex[SHA256_HEX_SIZE])
{
	uint8_t data[CHUNK];
	struct sha256 hash;
	off_t at = 0;
	ssize_t n;

	sha256_init(&hash);
	while ((n = fd_pread_full(fd, data, sizeof(data), at)) > 0) {
		sha256_update(&hash, data, (size_t)n);
		at += n;
	}
	sha256_final_hex(&hash, hex);
	return n < 0 ? -1 : 0;
}

/* ---- writing ---- */

static int seal_file(int room, const char *room_name, const char *name, struct json *files, cchv_error **err)
{
	cleanup_close int fd = openat(room, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_free char *path = mem_printf("%s/%s", room_name, name);
	struct json *entry = json_new_object();
	char hex[SHA256_HEX_SIZE];
	struct stat st;

	/* The list owns it, whatever becomes of it. */
	if (!path || json_append(files, entry) < 0)
		return err_nomem(err);
	if (fd < 0 || fsync(fd) < 0 || fstat(fd, &st) < 0 || fchmod(fd, 0400) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "snapshot: file '%s'", path);
	json_set_string(entry, "name", path);
	json_set_u64(entry, "bytes", (uint64_t)st.st_size);
	if (!is_summed(name))
		return CCHV_OK;
	if (sum(fd, hex) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "snapshot: read '%s'", path);
	json_set_string(entry, "sha256", hex);
	return CCHV_OK;
}

static int seal_room(const char *dir, const char *name, struct json *files, cchv_error **err)
{
	cleanup_free char *path = mem_printf("%s/%s", dir, name);
	DIR *room = path ? opendir(path) : NULL;
	struct dirent *entry;
	int r = CCHV_OK;

	if (!path)
		return err_nomem(err);
	if (!room)
		return err_set(err, err_code_of_errno(errno), errno, "snapshot '%s'", path);
	while (r == CCHV_OK && (entry = readdir(room)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = seal_file(dirfd(room), name, entry->d_name, files, err);
	closedir(room);
	return r < 0 ? r : path_fsync_dir(path, err);
}

int snapshot_files_seal(const char *dir, struct json **ret_files, cchv_error **err)
{
	cleanup_json struct json *files = json_new_array();
	int r = files ? CCHV_OK : err_nomem(err);

	for (size_t i = 0; r == CCHV_OK && i < ARRAY_LEN(rooms); i++)
		r = seal_room(dir, rooms[i], files, err);
	if (r == CCHV_OK)
		*ret_files = steal(&files);
	return r;
}

/* ---- reading ---- */

/* "room/name", and nothing that leads elsewhere. */
static int is_name(const char *name)
{
	const char *slash = strchr(name, '/');

	if (!slash || strchr(slash + 1, '/') || slash[1] == '.' || !slash[1])
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(rooms); i++)
		if (strncmp(name, rooms[i], (size_t)(slash - name)) == 0 && !rooms[i][slash - name])
			return 1;
	return 0;
}

static int check_file(const char *dir, const char *name, uint64_t bytes, const char *wanted, cchv_error **err)
{
	cleanup_free char *path = mem_printf("%s/%s", dir, name);
	cleanup_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	char hex[SHA256_HEX_SIZE];
	struct stat st;

	if (!path)
		return err_nomem(err);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "it is damaged: '%s' is missing", name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", name);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != bytes)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "it is damaged: '%s' has another size than it had", name);
	if (!is_summed(name))
		return CCHV_OK;
	if (sum(fd, hex) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "read '%s'", name);
	if (!wanted || strcmp(wanted, hex) != 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "it is damaged: '%s' is not what was written", name);
	return CCHV_OK;
}

int snapshot_files_check(const char *dir, const struct json *files, cchv_error **err)
{
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < json_count(files); i++) {
		const struct json *file = json_at(files, i);
		const char *name = json_as_string(json_get(file, "name"));
		uint64_t bytes;

		if (!name || !is_name(name) || json_get_u64(file, "bytes", &bytes, NULL) != 1)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "it is damaged: its list of files makes no sense");
		r = check_file(dir, name, bytes, json_as_string(json_get(file, "sha256")), err);
	}
	return r;
}
