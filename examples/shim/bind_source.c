/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of the host: see bind_source.h. Enters: a path. Leaves: what the kernel says of it. */
#include "bind_source.h"

#include <errno.h>
#include <fts.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define KEPT_ENTRIES_MAX 2048

/* The kubelet's volumes of text: a link "..data" to a directory of the moment, and links into that. */
static int is_kept(const char *path)
{
	struct stat st;
	char *link;
	int r;

	if (asprintf(&link, "%s/..data", path) < 0)
		return 0;
	r = lstat(link, &st) == 0 && S_ISLNK(st.st_mode);
	free(link);
	return r;
}

/* Links that are copied count as what they lead to; a name more than once is no harm. */
static int fits_a_copy(const char *path)
{
	char *copy = strdup(path), *roots[] = { copy, NULL };
	FTS *tree = copy ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
	uint64_t bytes = 0;
	size_t entries = 0;
	int fits = tree != NULL;
	FTSENT *entry;

	while (fits && (entry = fts_read(tree))) {
		struct stat st;

		if (entry->fts_info == FTS_DP)
			continue;
		if (entry->fts_info == FTS_SL && stat(entry->fts_path, &st) == 0 && S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_size;
		else if (entry->fts_info == FTS_F)
			bytes += (uint64_t)entry->fts_statp->st_size;
		else if (entry->fts_info != FTS_D && entry->fts_info != FTS_SL)
			fits = 0;
		/* Files and the links to them: each is counted twice, so there is room to grow. */
		fits = fits && bytes <= BIND_COPY_MAX && ++entries <= KEPT_ENTRIES_MAX;
	}
	if (tree)
		fts_close(tree);
	free(copy);
	return fits;
}

/* The root of a tmpfs, not a directory somewhere in one such as /run/x. */
static int is_own_tmpfs(const char *path, const struct stat *st, struct statfs *fs)
{
	struct stat parent;
	char *up;
	int r;

	if (statfs(path, fs) < 0 || fs->f_type != TMPFS_MAGIC || asprintf(&up, "%s/..", path) < 0)
		return 0;
	r = stat(up, &parent) == 0 && parent.st_dev != st->st_dev;
	free(up);
	return r;
}

static void look_at_directory(const char *path, const struct stat *st, struct bind_source *ret)
{
	struct statfs fs;

	ret->kind = BIND_DIRECTORY;
	if (is_kept(path) && fits_a_copy(path)) {
		ret->kind = BIND_KEPT_DIRECTORY;
	} else if (is_own_tmpfs(path, st, &fs)) {
		ret->kind = BIND_TMPFS;
		ret->bytes = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	}
}

static int is_of_the_kernel(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC ||
					  fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC ||
					  fs.f_type == DEBUGFS_MAGIC || fs.f_type == TRACEFS_MAGIC ||
					  fs.f_type == SECURITYFS_MAGIC || fs.f_type == BPF_FS_MAGIC);
}

int bind_source_look(const char *path, struct bind_source *ret_source)
{
	struct bind_source source = { 0 };
	struct stat st;

	if (stat(path, &st) < 0)
		return -1;
	if (is_of_the_kernel(path))
		source.kind = BIND_KERNEL;
	else if (S_ISDIR(st.st_mode))
		look_at_directory(path, &st, &source);
	else if (S_ISREG(st.st_mode))
		source.kind = st.st_size <= BIND_COPY_MAX ? BIND_SMALL_FILE : BIND_FILE;
	else if (S_ISBLK(st.st_mode))
		source.kind = BIND_BLOCK_DEVICE;
	else if (S_ISCHR(st.st_mode))
		source.kind = BIND_CHAR_DEVICE;
	else
		source.kind = S_ISSOCK(st.st_mode) ? BIND_SOCKET : BIND_FIFO;
	source.device = S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode) ? st.st_rdev : st.st_dev;
	source.mode = st.st_mode;
	source.uid = st.st_uid;
	source.gid = st.st_gid;
	*ret_source = source;
	return 0;
}

static int is_block_node(const char *path, dev_t device)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == device;
}

/* The kernel's name for it, which is the node's in every /dev. */
static char *named_by_kernel(dev_t device)
{
	static const char key[] = "DEVNAME=";
	char path[64], line[300], *node = NULL;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/uevent", major(device), minor(device));
	file = fopen(path, "re");
	while (file && !node && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, key, sizeof(key) - 1) == 0 && asprintf(&node, "/dev/%s", line + sizeof(key) - 1) < 0)
			node = NULL;
	}
	if (file)
		fclose(file);
	return node;
}

char *block_node_find(dev_t device)
{
	char *node = named_by_kernel(device), *other;

	if (node && is_block_node(node, device))
		return node;
	free(node);
	if (asprintf(&other, "/dev/block/%u:%u", major(device), minor(device)) < 0)
		return NULL;
	node = is_block_node(other, device) ? realpath(other, NULL) : NULL;
	free(other);
	if (!node)
		errno = ENODEV;
	return node;
}
