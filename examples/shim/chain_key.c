/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of chains: see chain.h. Enters: directories. Leaves: what tells them from all others, as text. */
#include "chain.h"

#include <cchv/error.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fault.h"
#include "overlay_marks.h"

#define CONTENTS_ENTRIES_MAX 64
#define CONTENTS_FILE_MAX    4096
#define CONTENTS_DEPTH_MAX   8

/* The kernel's FS_IOC_GETFSUUID (6.9), which older headers do not have. */
struct fs_uuid {
	uint8_t length;
	uint8_t uuid[16];
};
#define GET_FS_UUID _IOR(0x15, 0, struct fs_uuid)

/* "." and ".." are among them, in every file system. */
static int count_entries(int dir_fd, uint64_t *ret_count)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	uint64_t count = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	errno = 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	*ret_count = count;
	return errno ? -1 : 0;
}

static int write_place(FILE *out, int fd, const struct statfs *fs)
{
	struct fs_uuid uuid = { 0 };
	uint64_t id = 0;

	memcpy(&id, &fs->f_fsid, sizeof(fs->f_fsid) < sizeof(id) ? sizeof(fs->f_fsid) : sizeof(id));
	fprintf(out, "fs %lx %" PRIx64, (unsigned long)fs->f_type, id);
	if (ioctl(fd, GET_FS_UUID, &uuid) == 0) {
		fputc(' ', out);
		for (size_t i = 0; i < sizeof(uuid.uuid) && i < uuid.length; i++)
			fprintf(out, "%02x", uuid.uuid[i]);
	}
	return 0;
}

/* 1, or 0 when the inode could not be told from a later one with its number, or -1. */
static int write_layer(FILE *out, int fd, int is_top)
{
	struct statx sx;
	struct statfs fs;
	uint64_t entries;
	long generation = 0; /* the kernel writes an int there, whatever the ioctl's number says */
	int is_telling = 0;

	if (fstatfs(fd, &fs) < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME | STATX_CTIME, &sx) < 0)
		return -1;
	write_place(out, fd, &fs);
	fprintf(out, " inode %" PRIu64, (uint64_t)sx.stx_ino);
	if (ioctl(fd, FS_IOC_GETVERSION, &generation) == 0 && (generation & 0xffffffff) != 0) {
		fprintf(out, " generation %lx", (unsigned long)generation & 0xffffffffUL);
		is_telling = 1;
	}
	if (sx.stx_mask & STATX_BTIME) {
		fprintf(out, " born %lld.%09u", (long long)sx.stx_btime.tv_sec, sx.stx_btime.tv_nsec);
		is_telling = 1;
	}
	if (is_top) {
		if (count_entries(fd, &entries) < 0)
			return -1;
		fprintf(out, " changed %lld.%09u entries %" PRIu64, (long long)sx.stx_ctime.tv_sec,
			sx.stx_ctime.tv_nsec, entries);
	}
	fputc('\n', out);
	return is_telling;
}

int chain_key(const struct layer_list *layers, char **ret_key, char **ret_error)
{
	char *key = NULL;
	size_t size;
	FILE *out = open_memstream(&key, &size);
	int r = out ? CCHV_OK : fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");

	for (size_t i = 0; i < layers->count && r == CCHV_OK; i++) {
		int fd = open(layers->paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		int n = fd < 0 ? -1 : write_layer(out, fd, i == 0);

		if (n < 0)
			r = fault_set(ret_error, fault_code(errno), "layer '%s': %s", layers->paths[i],
				      strerror(errno));
		else if (n == 0)
			r = fault_set(ret_error, CCHV_ERR_UNSUPPORTED,
				      "layer '%s': its file system knows neither generations nor birth times",
				      layers->paths[i]);
		if (fd >= 0)
			close(fd);
	}
	if (out && fclose(out) != 0 && r == CCHV_OK)
		r = fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	if (r < 0)
		free(key);
	else
		*ret_key = key;
	return r;
}

/* ---- by contents ---- */

struct listing {
	FILE *out;
	size_t entries;
};

static int list_directory(struct listing *list, int fd, int depth);

static int write_hex(FILE *out, int fd, off_t size)
{
	uint8_t data[CONTENTS_FILE_MAX];
	ssize_t n = read(fd, data, sizeof(data));

	if (n != size)
		return n < 0 ? -1 : CCHV_ERR_LIMIT;
	fputs(" data ", out);
	for (ssize_t i = 0; i < n; i++)
		fprintf(out, "%02x", data[i]);
	return 0;
}

/* Whoever has attributes that an image carries is not small: they are not written down. */
static int has_attributes(const char *path)
{
	char names[1024];
	ssize_t n = llistxattr(path, names, sizeof(names));

	if (n < 0)
		return errno != ENOTSUP;
	for (const char *name = names; name < names + n; name += strlen(name) + 1)
		if (!overlay_marks_is_of_the_host(name))
			return 1;
	return 0;
}

/* 0, -1 and errno, or CCHV_ERR_LIMIT. */
static int list_entry(struct listing *list, int dir_fd, const char *name, int depth)
{
	char target[4096], path[64 + NAME_MAX];
	struct stat st;
	ssize_t n;
	int fd = -1, r = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, name);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (++list->entries > CONTENTS_ENTRIES_MAX || st.st_size > CONTENTS_FILE_MAX || has_attributes(path))
		return CCHV_ERR_LIMIT;
	fprintf(list->out, "%zu:%s mode %o owner %u:%u device %llx links %u", strlen(name), name, st.st_mode, st.st_uid,
		st.st_gid, (unsigned long long)st.st_rdev, S_ISREG(st.st_mode) ? (unsigned int)st.st_nlink : 0);
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
		fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			return -1;
		if (S_ISREG(st.st_mode))
			r = write_hex(list->out, fd, st.st_size);
		fputc('\n', list->out);
		if (S_ISDIR(st.st_mode))
			r = depth < CONTENTS_DEPTH_MAX ? list_directory(list, fd, depth + 1) : CCHV_ERR_LIMIT;
		close(fd);
	} else if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir_fd, name, target, sizeof(target));
		if (n < 0)
			return -1;
		fprintf(list->out, " link %zd:%.*s\n", n, (int)n, target);
	} else {
		fputc('\n', list->out);
	}
	return r;
}

static int is_entry(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int list_directory(struct listing *list, int fd, int depth)
{
	struct dirent **entries;
	char path[64];
	int count, r = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	count = scandir(path, &entries, is_entry, alphasort);
	if (count < 0)
		return -1;
	for (int i = 0; i < count; i++) {
		if (r == 0)
			r = list_entry(list, fd, entries[i]->d_name, depth);
		free(entries[i]);
	}
	free(entries);
	fputs("end\n", list->out);
	return r;
}

int chain_key_of_contents(const char *path, char **ret_key, char **ret_error)
{
	struct listing list = { 0 };
	char *key = NULL;
	struct stat st;
	size_t size;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (fd < 0 || fstat(fd, &st) < 0 || !(list.out = open_memstream(&key, &size))) {
		r = fault_set(ret_error, fault_code(errno), "layer '%s': %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return r;
	}
	fprintf(list.out, "contents of a directory, mode %o owner %u:%u\n", st.st_mode, st.st_uid, st.st_gid);
	r = list_directory(&list, fd, 0);
	if (r == -1)
		r = fault_set(ret_error, fault_code(errno), "layer '%s': %s", path, strerror(errno));
	else if (r < 0)
		r = fault_set(ret_error, r, "layer '%s' is not small", path);
	close(fd);
	if (fclose(list.out) != 0 && r == 0)
		r = fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	if (r < 0)
		free(key);
	else
		*ret_key = key;
	return r;
}
