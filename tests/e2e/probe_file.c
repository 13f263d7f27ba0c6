/* SPDX-License-Identifier: Apache-2.0 */
/* Files: extended attributes, durable counters, trees compared by content, as no applet shows them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* xattrs PATH: "NAME=HEX" a line, sorted; of the path itself, not what it points to */
static int run_xattrs(int argc, char **argv)
{
	static char names[65536], value[65536];
	char *list[1024], line[256];
	ssize_t len = llistxattr(argv[1], names, sizeof(names));
	size_t count = 0;

	(void)argc, (void)line;
	if (len < 0)
		probe_die(argv[1]);
	for (char *p = names; p < names + len && count < 1024; p += strlen(p) + 1)
		list[count++] = p;
	qsort(list, count, sizeof(list[0]), compare);
	for (size_t i = 0; i < count; i++) {
		ssize_t n = lgetxattr(argv[1], list[i], value, sizeof(value));

		if (n < 0)
			probe_die(list[i]);
		printf("%s=", list[i]);
		for (ssize_t k = 0; k < n; k++)
			printf("%02x", (unsigned char)value[k]);
		putchar('\n');
	}
	return 0;
}

static uint64_t hash_bytes(uint64_t h, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ULL;
	return h;
}

static uint64_t hash_file(const char *path, uint64_t *ret_bytes)
{
	static unsigned char data[1 << 16];
	uint64_t h = 0xcbf29ce484222325ULL;
	int fd = open(path, O_RDONLY | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		probe_die(path);
	while ((n = read(fd, data, sizeof(data))) > 0) {
		h = hash_bytes(h, data, (size_t)n);
		*ret_bytes += (uint64_t)n;
	}
	if (n < 0)
		probe_die(path);
	close(fd);
	return h;
}

static void print_entry(const char *path, const struct stat *st, int with_times)
{
	char target[4096];
	uint64_t hash = 0, bytes = 0;

	for (const unsigned char *p = (const unsigned char *)path; *p; p++)
		printf(*p > 32 && *p < 127 && *p != '\\' ? "%c" : "\\%02x", *p);
	printf(" %o %u:%u %u", (unsigned int)st->st_mode, st->st_uid, st->st_gid,
	       S_ISDIR(st->st_mode) ? 0 : (unsigned int)st->st_nlink);
	if (with_times)
		printf(" %lld", (long long)st->st_mtime);
	if (S_ISREG(st->st_mode)) {
		hash = hash_file(path, &bytes);
		printf(" %llu %016llx", (unsigned long long)bytes, (unsigned long long)hash);
	} else if (S_ISLNK(st->st_mode)) {
		ssize_t n = readlink(path, target, sizeof(target));

		printf(" %zd %016llx", n, (unsigned long long)hash_bytes(1, target, n > 0 ? (size_t)n : 0));
	} else if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode)) {
		printf(" %u:%u", major(st->st_rdev), minor(st->st_rdev));
	}
	putchar('\n');
}

static void walk(const char *path, int with_times)
{
	struct dirent **names;
	struct stat st;
	int n;

	if (lstat(path, &st) < 0)
		probe_die(path);
	print_entry(path, &st, with_times);
	if (!S_ISDIR(st.st_mode))
		return;
	n = scandir(path, &names, NULL, alphasort);
	if (n < 0)
		probe_die(path);
	/* Down by name: a whole path can be longer than what the kernel takes. */
	if (chdir(path) < 0)
		probe_die(path);
	for (int i = 0; i < n; i++) {
		if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0)
			walk(names[i]->d_name, with_times);
		free(names[i]);
	}
	free(names);
	if (chdir("..") < 0)
		probe_die("..");
}

/* tree-sum PATH [times]: a line for each entry: name, mode, owner, links, size, hash; depth first */
static int run_walk(int argc, char **argv)
{
	setenv("LC_ALL", "C", 1);
	walk(argv[1], argc > 2);
	return 0;
}

/* commit FILE COUNT: a growing number written over itself, made durable, then printed */
static int run_commit(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);

	(void)argc;
	if (fd < 0)
		probe_die(argv[1]);
	for (uint64_t i = 1; i <= probe_number(argv[2]); i++) {
		char line[24];
		int n = snprintf(line, sizeof(line), "%020llu\n", (unsigned long long)i);

		if (pwrite(fd, line, (size_t)n, 0) != n || fsync(fd) < 0)
			probe_die("commit");
		probe_write(1, line, (size_t)n);
	}
	return 0;
}

/* put FILE BYTES [fsync]: the pattern of zero seed into FILE; errno's name and code 1 when it does not fit */
static int run_put(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	uint64_t bytes = probe_number(argv[2]), at = 0;
	static uint64_t words[8192];

	if (fd < 0) {
		printf("%s\n", strerrorname_np(errno));
		return 1;
	}
	while (at < bytes) {
		size_t n = bytes - at < sizeof(words) ? (size_t)(bytes - at) : sizeof(words);
		ssize_t w;

		for (size_t i = 0; i < 8192; i++)
			words[i] = (at / 8 + i) * 0x9E3779B97F4A7C15ULL;
		w = write(fd, words, n);
		if (w < 0 || (w > 0 && w % 8 && at + (uint64_t)w < bytes)) {
			printf("%s\n", w < 0 ? strerrorname_np(errno) : "SHORT");
			return 1;
		}
		at += (uint64_t)w;
	}
	if (argc > 3 && fsync(fd) < 0) {
		printf("%s\n", strerrorname_np(errno));
		return 1;
	}
	return 0;
}

const struct probe_command probe_file_commands[] = {
	{ "xattrs", run_xattrs, "PATH" },
	{ "tree-sum", run_walk, "PATH [times]" },
	{ "commit", run_commit, "FILE COUNT" },
	{ "put", run_put, "FILE BYTES [fsync]" },
	{ NULL, NULL, NULL },
};
