/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting on the host: see root_mount.h. Enters: options as words. Leaves: calls of mount(2). */
#include "root_mount.h"

#include <cchv/error.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"

#define DATA_MAX 4095 /* the kernel takes one page, with the NUL */

static const struct flag_word {
	const char *word;
	unsigned long set, clear;
} flag_words[] = {
	{ "ro", MS_RDONLY, 0 }, { "rw", 0, MS_RDONLY },
	{ "nosuid", MS_NOSUID, 0 }, { "suid", 0, MS_NOSUID },
	{ "nodev", MS_NODEV, 0 }, { "dev", 0, MS_NODEV },
	{ "noexec", MS_NOEXEC, 0 }, { "exec", 0, MS_NOEXEC },
	{ "sync", MS_SYNCHRONOUS, 0 }, { "async", 0, MS_SYNCHRONOUS },
	{ "dirsync", MS_DIRSYNC, 0 },
	{ "noatime", MS_NOATIME, 0 }, { "atime", 0, MS_NOATIME },
	{ "nodiratime", MS_NODIRATIME, 0 }, { "diratime", 0, MS_NODIRATIME },
	{ "relatime", MS_RELATIME, 0 }, { "norelatime", 0, MS_RELATIME },
	{ "strictatime", MS_STRICTATIME, 0 },
	{ "bind", MS_BIND, 0 }, { "rbind", MS_BIND | MS_REC, 0 },
	{ "defaults", 0, 0 },
};

static int apply_flag(const char *option, unsigned long *flags)
{
	for (size_t i = 0; i < sizeof(flag_words) / sizeof(flag_words[0]); i++) {
		if (strcmp(flag_words[i].word, option) == 0) {
			*flags = (*flags | flag_words[i].set) & ~flag_words[i].clear;
			return 1;
		}
	}
	return 0;
}

/* What is no flag goes to the file system. skip: a prefix that is left out, or NULL. */
static char *join_data(const struct mount_entry *mount, const char *skip, unsigned long *flags)
{
	char *data = strdup(""), *more;

	for (size_t i = 0; data && i < mount->option_count; i++) {
		const char *option = mount->options[i];

		if (apply_flag(option, flags) || (skip && strncmp(option, skip, strlen(skip)) == 0))
			continue;
		if (asprintf(&more, "%s%s%s", data, *data ? "," : "", option) < 0)
			more = NULL;
		free(data);
		data = more;
	}
	return data;
}

/* The directory that all paths of "a:b:c" are in; its length, 0 when there is none but the root. */
static size_t common_directory(const char *list)
{
	size_t common = strcspn(list, ":"), end;

	for (const char *p = list; p; p = strchr(p, ':')) {
		p += *p == ':';
		for (end = 0; end < common && p[end] && p[end] != ':' && p[end] == list[end];)
			end++;
		common = end;
	}
	while (common && list[common - 1] != '/')
		common--;
	return common > 1 ? common - 1 : 0;
}

/* "/x/a:/x/b" -> "a:b" */
static char *strip_directory(const char *list, size_t n)
{
	char *text = malloc(strlen(list) + 1), *to = text;

	for (const char *p = list; text && p;) {
		const char *end = strchr(p, ':');
		size_t len = (end ? (size_t)(end - p) : strlen(p)) - n - 1;

		if (to != text)
			*to++ = ':';
		memcpy(to, p + n + 1, len);
		to += len;
		p = end ? end + 1 : NULL;
	}
	if (text)
		*to = '\0';
	return text;
}

/* In a child, whose working directory is its own. Only calls that are safe there. */
static int mount_from(const char *directory, const struct mount_entry *entry, const char *target,
		      unsigned long flags, const char *data)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (chdir(directory) < 0 || mount(entry->source, target, "overlay", flags, data) < 0)
			_exit(errno > 0 && errno < 256 ? errno : EINVAL);
		_exit(0);
	}
	if (pid < 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
	return errno ? -1 : 0;
}

/* More layers than fit into a page: relative to the directory that they have in common. */
static int mount_long_overlay(const struct mount_entry *entry, const char *target)
{
	const char *lower = mount_get_option(entry, "lowerdir");
	char *directory = NULL, *relative = NULL, *rest = NULL, *data = NULL;
	unsigned long flags = 0;
	size_t n = lower && !strchr(lower, '\\') ? common_directory(lower) : 0;
	int r = -1;

	errno = E2BIG;
	if (!n)
		return -1;
	directory = strndup(lower, n);
	relative = strip_directory(lower, n);
	rest = join_data(entry, "lowerdir=", &flags);
	if (!directory || !relative || !rest ||
	    asprintf(&data, "lowerdir=%s%s%s", relative, *rest ? "," : "", rest) < 0) {
		data = NULL;
		errno = ENOMEM;
	} else if (strlen(data) > DATA_MAX) {
		errno = E2BIG;
	} else {
		r = mount_from(directory, entry, target, flags, data);
	}
	free(directory);
	free(relative);
	free(rest);
	free(data);
	return r;
}

static int mount_bind(const struct mount_entry *entry, const char *target, unsigned long flags)
{
	struct stat st;

	if (stat(entry->source, &st) < 0 || mount(entry->source, target, NULL, flags & (MS_BIND | MS_REC), NULL) < 0)
		return -1;
	flags &= ~(unsigned long)MS_REC;
	if (flags == MS_BIND)
		return 0;
	if (mount(NULL, target, NULL, MS_REMOUNT | flags, NULL) < 0) {
		int reason = errno;

		umount2(target, MNT_DETACH);
		errno = reason;
		return -1;
	}
	return 0;
}

static int mount_one(const struct mount_entry *entry, const char *target)
{
	unsigned long flags = 0;
	char *data = join_data(entry, NULL, &flags);
	int r;

	if (!data)
		return -1;
	if (strcmp(entry->type, "bind") == 0 || strcmp(entry->type, "rbind") == 0 || flags & MS_BIND)
		r = mount_bind(entry, target, flags | MS_BIND);
	else if (strcmp(entry->type, "overlay") == 0 && strlen(data) > DATA_MAX)
		r = mount_long_overlay(entry, target);
	else
		r = mount(entry->source, target, entry->type, flags, *data ? data : NULL);
	free(data);
	return r;
}

static int mount_entry_at(const struct mount_entry *entry, const char *target, char **ret_error)
{
	char *path = NULL;
	int r = CCHV_OK;

	if (strchr(entry->type, '/'))
		return fault_set(ret_error, CCHV_ERR_UNSUPPORTED,
				 "root file system: mounts of type '%s' are not supported", entry->type);
	if (strstr(entry->target, ".."))
		return fault_set(ret_error, CCHV_ERR_INVALID, "root file system: the target '%s' leads out of it",
				 entry->target);
	if (asprintf(&path, "%s%s%s", target, *entry->target && *entry->target != '/' ? "/" : "", entry->target) < 0)
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	if (mount_one(entry, path) < 0) {
		int reason = errno;

		r = fault_set(ret_error, fault_code(reason), "root file system: mount '%s' (%s) on '%s': %s",
			      entry->source, entry->type, path, strerror(reason));
	}
	free(path);
	return r;
}

int root_mount(const struct mount_list *mounts, const char *target, char **ret_error)
{
	int r = CCHV_OK;

	for (size_t i = 0; i < mounts->count && r == CCHV_OK; i++)
		r = mount_entry_at(&mounts->items[i], target, ret_error);
	if (r < 0)
		root_unmount(target, NULL);
	return r;
}

int root_unmount(const char *target, char **ret_error)
{
	for (;;) {
		if (umount2(target, UMOUNT_NOFOLLOW) == 0)
			continue;
		if (errno == EBUSY && umount2(target, UMOUNT_NOFOLLOW | MNT_DETACH) == 0)
			continue;
		/* Not mounted, or not there at all. */
		if (errno == EINVAL || errno == ENOENT || errno == ENOTDIR)
			return CCHV_OK;
		return fault_set(ret_error, fault_code(errno), "unmount '%s': %s", target, strerror(errno));
	}
}
