/* SPDX-License-Identifier: Apache-2.0 */
/* Trees from lists: see copy_tree.h. Enters: entries from the host. Leaves: files below one directory. */
#include "guest/copy_tree.h"

#include "guest/field.h"

#include "base/fd.h"
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY ".cchv-new"

/* Below the directory, by names alone. */
static int path_is_safe(const char *path)
{
	while (*path) {
		size_t len = strcspn(path, "/");

		if (!len || len > NAME_MAX || strncmp(path, ".", len) == 0 ||
		    strncmp(path, "..", len < 2 ? 2 : len) == 0)
			return 0;
		path += len;
		if (*path == '/' && !*++path)
			return 0;
	}
	return 1;
}

static int parse_type(const char *name, enum copy_type *ret)
{
	static const char *const names[] = {
		[COPY_FILE] = "file", [COPY_DIR] = "dir", [COPY_SYMLINK] = "symlink"
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], name) == 0) {
			*ret = (enum copy_type)i;
			return 1;
		}
	return 0;
}

static int parse_data(const struct json *item, const char *where, struct copy_entry *entry, cchv_error **err)
{
	const char *key = entry->type == COPY_SYMLINK ? "target" : "data";
	int r;

	if (entry->type == COPY_DIR)
		return CCHV_OK;
	r = json_get_bytes(item, key, &entry->data, &entry->len, NULL);
	if (r == CCHV_ERR_NOMEM)
		return err_nomem(err);
	if (r < 0)
		return field_bad(where, key, err, "not a string");
	if (r == 0 && entry->type == COPY_FILE) {
		entry->data = mem_strdup("");
		return entry->data ? CCHV_OK : err_nomem(err);
	}
	if (entry->type == COPY_SYMLINK && (r == 0 || !entry->len || strlen(entry->data) != entry->len))
		return field_bad(where, key, err, "no target of a link");
	return CCHV_OK;
}

static int parse_entry(const struct json *item, const char *where, struct copy_entry *entry, cchv_error **err)
{
	const char *type = NULL;
	int64_t mode;
	int r = field_required(field_bytes(item, where, "path", &entry->path, err), where, "path", err);

	if (r >= 0)
		r = field_required(field_text(item, where, "type", &type, err), where, "type", err);
	if (r < 0)
		return r;
	if (!path_is_safe(entry->path))
		return field_bad(where, "path", err, "'%s' is no path below the mount", entry->path);
	if (!parse_type(type, &entry->type))
		return field_bad(where, "type", err, "'%s' is none of file, dir, symlink", type);
	mode = entry->type == COPY_DIR ? 0755 : 0644;
	r = field_i64(item, where, "mode", 0, 07777, &mode, err);
	entry->mode = (mode_t)mode;
	if (r >= 0)
		r = field_u32(item, where, "uid", &entry->uid, err);
	if (r >= 0)
		r = field_u32(item, where, "gid", &entry->gid, err);
	return r < 0 ? r : parse_data(item, where, entry, err);
}

int copy_list_parse(const struct json *entries, struct copy_list *ret_list, cchv_error **err)
{
	struct copy_list list = { NULL, 0 };
	size_t total = 0;
	int r = CCHV_OK;

	if (json_get_type(entries) != JSON_ARRAY)
		return field_bad("", "entries", err, "not an array");
	if (json_count(entries) > COPY_MAX_ENTRIES)
		return err_set(err, CCHV_ERR_LIMIT, EFBIG, "more than %d entries", COPY_MAX_ENTRIES);
	list.entries = mem_zalloc((json_count(entries) + 1) * sizeof(*list.entries));
	if (!list.entries)
		return err_nomem(err);
	for (size_t i = 0; r >= 0 && i < json_count(entries); i++) {
		struct copy_entry *entry = &list.entries[list.count++];
		const struct json *item;
		struct field_place place;

		r = field_item(entries, "", "entries", i, &place, &item, err);
		if (r >= 0)
			r = parse_entry(item, place.path, entry, err);
		total += entry->len;
		if (r >= 0 && total > COPY_MAX_BYTES)
			r = err_set(err, CCHV_ERR_LIMIT, EFBIG, "more than %u bytes", COPY_MAX_BYTES);
		if (r >= 0 && !*entry->path && entry->type != COPY_DIR &&
		    (entry->type != COPY_FILE || json_count(entries) > 1))
			r = field_bad(place.path, "path", err, "empty, and neither the only file nor a directory");
	}
	if (r < 0) {
		copy_list_free(&list);
		return r;
	}
	*ret_list = list;
	return CCHV_OK;
}

void copy_list_free(struct copy_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->entries[i].path);
		free(list->entries[i].data);
	}
	free(list->entries);
	*list = (struct copy_list){ NULL, 0 };
}

int copy_list_is_file(const struct copy_list *list)
{
	return list->count == 1 && !*list->entries[0].path && list->entries[0].type == COPY_FILE;
}

static int broken(const char *path, cchv_error **err)
{
	return err_set(err, CCHV_ERR_SYSTEM, errno, "copy '%s'", path);
}

/* A directory of that name in parent, in place of anything else. A descriptor, or -1 with errno. */
static int make_dir(int parent_fd, const char *name)
{
	static const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(parent_fd, name, flags);

	if (fd >= 0)
		return fd;
	if ((errno == ENOTDIR || errno == ELOOP) && unlinkat(parent_fd, name, 0) < 0)
		return -1;
	if (mkdirat(parent_fd, name, 0755) < 0)
		return -1;
	return openat(parent_fd, name, flags);
}

/* The directory that holds path, its missing parents made. *ret_name is the last part. */
static int open_parent(int dir_fd, const char *path, const char **ret_name)
{
	int fd = fd_copy(dir_fd);

	while (fd >= 0 && strchr(path, '/')) {
		char name[NAME_MAX + 1];
		size_t len = strcspn(path, "/");
		int next;

		memcpy(name, path, len);
		name[len] = '\0';
		next = make_dir(fd, name);
		fd_close(&fd);
		fd = next;
		path += len + 1;
	}
	*ret_name = path;
	return fd;
}

/* The mount itself has the path "". */
static int write_dir(int dir_fd, const struct copy_entry *entry, cchv_error **err)
{
	const char *name;
	cleanup_close int parent = open_parent(dir_fd, entry->path, &name);
	cleanup_close int fd = parent < 0 ? -1 : *name ? make_dir(parent, name) : fd_copy(dir_fd);

	if (fd < 0 || fchown(fd, entry->uid, entry->gid) < 0 || fchmod(fd, entry->mode) < 0)
		return broken(entry->path, err);
	return CCHV_OK;
}

static int write_contents(int fd, const struct copy_entry *entry)
{
	if (fd_pwrite_full(fd, entry->data, entry->len, 0) < 0 || ftruncate(fd, (off_t)entry->len) < 0)
		return -1;
	return fchown(fd, entry->uid, entry->gid) < 0 ? -1 : fchmod(fd, entry->mode);
}

/* Put what lies under the temporary name in place; a directory that is in the way goes. */
static int replace(int parent, const char *name)
{
	struct stat st;

	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
		char path[64];
		cleanup_free char *victim = NULL;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", parent);
		victim = mem_printf("%s/%s", path, name);
		if (!victim || path_remove_tree(victim, NULL) < 0)
			return -1;
	}
	return renameat(parent, TEMPORARY, parent, name);
}

static int write_file(int dir_fd, const struct copy_entry *entry, cchv_error **err)
{
	const char *name;
	cleanup_close int parent = open_parent(dir_fd, entry->path, &name);
	cleanup_close int fd = -1;

	if (parent < 0 || (unlinkat(parent, TEMPORARY, 0) < 0 && errno != ENOENT))
		return broken(entry->path, err);
	fd = openat(parent, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write_contents(fd, entry) < 0 || replace(parent, name) < 0)
		return broken(entry->path, err);
	return CCHV_OK;
}

static int write_link(int dir_fd, const struct copy_entry *entry, cchv_error **err)
{
	const char *name;
	cleanup_close int parent = open_parent(dir_fd, entry->path, &name);

	if (parent < 0 || (unlinkat(parent, TEMPORARY, 0) < 0 && errno != ENOENT))
		return broken(entry->path, err);
	if (symlinkat(entry->data, parent, TEMPORARY) < 0 ||
	    fchownat(parent, TEMPORARY, entry->uid, entry->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    replace(parent, name) < 0)
		return broken(entry->path, err);
	return CCHV_OK;
}

/* Is path an entry, or a directory that leads to one? */
static int is_listed(const struct copy_list *list, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < list->count; i++) {
		const char *entry = list->entries[i].path;

		if (strncmp(entry, path, len) == 0 && (!entry[len] || entry[len] == '/'))
			return 1;
	}
	return 0;
}

static int remove_unlisted(int fd, const char *prefix, const struct copy_list *list, unsigned int depth);

static int check_name(int fd, const char *prefix, const char *name, const struct copy_list *list,
                      unsigned int depth)
{
	cleanup_free char *path = *prefix ? mem_printf("%s/%s", prefix, name) : mem_strdup(name);
	cleanup_free char *victim = NULL;
	cleanup_close int child = -1;

	if (!path) {
		errno = ENOMEM;
		return -1;
	}
	if (is_listed(list, path)) {
		child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		return child < 0 ? 0 : remove_unlisted(child, path, list, depth - 1);
	}
	victim = mem_printf("/proc/self/fd/%d/%s", fd, name);
	return !victim || path_remove_tree(victim, NULL) < 0 ? -1 : 0;
}

static int remove_unlisted(int fd, const char *prefix, const struct copy_list *list, unsigned int depth)
{
	int copy = depth ? fd_copy(fd) : (errno = ELOOP, -1);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		fd_close(&copy);
		return -1;
	}
	rewinddir(dir);
	while (r == 0 && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = check_name(fd, prefix, entry->d_name, list, depth);
	closedir(dir);
	return r;
}

static int is_switch(const struct copy_entry *entry)
{
	return entry->type == COPY_SYMLINK && strcmp(entry->path, "..data") == 0;
}

int copy_tree_write(int dir_fd, const struct copy_list *list, cchv_error **err)
{
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < list->count; i++)
		if (list->entries[i].type == COPY_DIR)
			r = write_dir(dir_fd, &list->entries[i], err);
	for (size_t i = 0; r == CCHV_OK && i < list->count; i++)
		if (list->entries[i].type == COPY_FILE)
			r = write_file(dir_fd, &list->entries[i], err);
	for (size_t i = 0; r == CCHV_OK && i < list->count; i++)
		if (is_switch(&list->entries[i]))
			r = write_link(dir_fd, &list->entries[i], err);
	for (size_t i = 0; r == CCHV_OK && i < list->count; i++)
		if (list->entries[i].type == COPY_SYMLINK && !is_switch(&list->entries[i]))
			r = write_link(dir_fd, &list->entries[i], err);
	if (r == CCHV_OK && remove_unlisted(dir_fd, "", list, 64) < 0)
		return broken(".", err);
	return r;
}

int copy_file_write(const char *path, const struct copy_entry *entry, cchv_error **err)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 || write_contents(fd, entry) < 0 ? broken(path, err) : CCHV_OK;
}
