/* SPDX-License-Identifier: Apache-2.0 */
/* Small trees of the host: see copy_entries.h. Enters: a path. Leaves: JSON with what is there. */
#include "copy_entries.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

struct reading {
	const char *path;       /* for errors */
	struct json *entries;
	size_t bytes;
};

static int failed(const struct reading *reading, const char *below, cchv_error **err)
{
	return err_set(err, err_code_of_errno(errno), errno, "copy of '%s': '%s'", reading->path, below);
}

static struct json *new_entry(const char *below, const char *type, const struct stat *st)
{
	struct json *entry = json_new_object();

	json_set_string(entry, "path", below);
	json_set_string(entry, "type", type);
	json_set_u64(entry, "mode", st->st_mode & 07777);
	json_set_u64(entry, "uid", st->st_uid);
	json_set_u64(entry, "gid", st->st_gid);
	return entry;
}

static int add(struct reading *reading, struct json *entry, cchv_error **err)
{
	if (json_count(reading->entries) >= COPY_MAX_ENTRIES) {
		json_free(entry);
		return err_set(err, CCHV_ERR_LIMIT, 0, "copy of '%s': more than %d files", reading->path,
		               COPY_MAX_ENTRIES);
	}
	return json_append(reading->entries, entry) < 0 ? err_nomem(err) : CCHV_OK;
}

static int read_file(struct reading *reading, int fd, const struct stat *st, const char *below,
                     cchv_error **err)
{
	cleanup_buf struct buf data = BUF_INIT(COPY_MAX_BYTES + 1);
	struct json *entry;
	ssize_t n;

	while ((n = buf_read_fd(&data, fd, COPY_MAX_BYTES + 1 - data.len)) > 0)
		if (reading->bytes + data.len > COPY_MAX_BYTES)
			return err_set(err, CCHV_ERR_LIMIT, 0,
			               "copy of '%s': larger than %u bytes (use a shared "
			               "directory)", reading->path, COPY_MAX_BYTES);
	if (n < 0)
		return failed(reading, below, err);
	reading->bytes += data.len;
	entry = new_entry(below, "file", st);
	json_set(entry, "data", json_new_bytes(data.data ? data.data : (const uint8_t *)"", data.len));
	return add(reading, entry, err);
}

static int read_node(struct reading *reading, int dir, const char *name, const char *below, int depth,
                     cchv_error **err);

static int read_dir(struct reading *reading, int fd, const struct stat *st, const char *below, int depth,
                    cchv_error **err)
{
	struct dirent *entry;
	DIR *dir;
	int r = add(reading, new_entry(below, "dir", st), err), copy;

	if (r == CCHV_OK && depth >= COPY_MAX_DEPTH)
		return err_set(err, CCHV_ERR_LIMIT, 0, "copy of '%s': deeper than %d", reading->path,
		               COPY_MAX_DEPTH);
	copy = fd_copy(fd);
	dir = copy < 0 ? NULL : fdopendir(copy);
	if (!dir) {
		r = failed(reading, below, err);
		fd_close(&copy);
		return r;
	}
	while (r == CCHV_OK && (errno = 0, entry = readdir(dir))) {
		cleanup_free char *path = NULL;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		path = *below ? mem_printf("%s/%s", below, entry->d_name) : mem_strdup(entry->d_name);
		r = path ? read_node(reading, fd, entry->d_name, path, depth + 1, err) : err_nomem(err);
	}
	if (r == CCHV_OK && errno)
		r = failed(reading, below, err);
	closedir(dir);
	return r;
}

/* A link that stays in the tree, judged by its words alone: relative, and never above where it began. */
static int stays_inside(const char *below, const char *target)
{
	int depth = 0;

	if (target[0] == '/')
		return 0;
	for (const char *p = below; *p; p++)
		depth += *p == '/';
	while (*target) {
		size_t length = strcspn(target, "/");

		if (length == 2 && strncmp(target, "..", 2) == 0)
			depth--;
		else if (length && !(length == 1 && *target == '.'))
			depth++;
		if (depth < 0)
			return 0;
		target += length;
		target += strspn(target, "/");
	}
	return 1;
}

static int read_link(struct reading *reading, int dir, const char *name, const char *below,
                     const struct stat *st,
                     int depth, cchv_error **err)
{
	char target[4096];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
	struct json *entry;
	struct stat behind;
	int fd, r;

	if (n < 0)
		return failed(reading, below, err);
	target[n] = '\0';
	if (stays_inside(below, target)) {
		entry = new_entry(below, "symlink", st);
		json_set_string(entry, "target", target);
		return add(reading, entry, err);
	}
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &behind) < 0) {
		r = failed(reading, below, err);
		fd_close(&fd);
		return r;
	}
	if (S_ISREG(behind.st_mode))
		r = read_file(reading, fd, &behind, below, err);
	else if (S_ISDIR(behind.st_mode))
		r = read_dir(reading, fd, &behind, below, depth, err);
	else
		r = err_set(err, CCHV_ERR_INVALID, 0,
		            "copy of '%s': '%s' leads to something that is neither file nor "
		            "directory", reading->path, below);
	fd_close(&fd);
	return r;
}

static int read_node(struct reading *reading, int dir, const char *name, const char *below, int depth,
                     cchv_error **err)
{
	struct stat st;
	int fd, r;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		/* Gone since the directory was read. */
		return errno == ENOENT ? CCHV_OK : failed(reading, below, err);
	if (S_ISLNK(st.st_mode))
		return read_link(reading, dir, name, below, &st, depth, err);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return err_set(err, CCHV_ERR_INVALID, 0,
		               "copy of '%s': '%s' is neither file, directory nor link",
		               reading->path, below);
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return errno == ENOENT ? CCHV_OK : failed(reading, below, err);
	r = S_ISDIR(st.st_mode) ? read_dir(reading, fd, &st, below, depth, err)
	                        : read_file(reading, fd, &st, below, err);
	fd_close(&fd);
	return r;
}

int copy_entries_read(const char *path, struct json **ret_entries, cchv_error **err)
{
	struct reading reading = { .path = path };
	cleanup_json struct json *entries = json_new_array();
	cleanup_close int fd = -1;
	struct stat st;
	int r;

	if (!entries)
		return err_nomem(err);
	reading.entries = entries;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "copy of '%s'", path);
	if (S_ISDIR(st.st_mode))
		r = read_dir(&reading, fd, &st, "", 0, err);
	else if (S_ISREG(st.st_mode))
		r = read_file(&reading, fd, &st, "", err);
	else
		r = err_set(err, CCHV_ERR_INVALID, 0, "copy of '%s': neither file nor directory", path);
	if (r == CCHV_OK)
		*ret_entries = steal(&entries);
	return r;
}

struct json *copy_entries_of_text(const char *text, unsigned int mode)
{
	struct stat st = { .st_mode = mode };
	struct json *entries = json_new_array(), *entry = new_entry("", "file", &st);

	json_set_string(entry, "data", text);
	json_append(entries, entry);
	return entries;
}
