/* SPDX-License-Identifier: Apache-2.0 */
/* Users and groups of an image: see passwd.h. Enters: two text files of the image. Leaves: numbers and a home. */
#include "guest/passwd.h"

#include "guest/rootpath.h"

#include "base/buf.h"
#include "base/fd.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LIMIT (16U << 20)
#define LINE_LIMIT 65536U

/* A file read line by line; a line over the limit is skipped whole. */
struct lines {
	int fd;
	struct buf buf;
	size_t used;     /* of buf: lines that were handed out */
	size_t total;
	int end;
};

static void lines_close(struct lines *lines)
{
	fd_close(&lines->fd);
	buf_free(&lines->buf);
}

/* 0; an absent file, or one that is no regular file, has no lines. */
static int lines_open(struct lines *lines, int root_fd, const char *path, cchv_error **err)
{
	struct stat st;

	*lines = (struct lines){ .fd = -1, .buf = BUF_INIT(LINE_LIMIT + 1) };
	lines->fd = rootpath_open(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (lines->fd < 0) {
		if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
			return CCHV_OK;
		return err_set(err, CCHV_ERR_SYSTEM, errno, "open '%s' in the root file system", path);
	}
	if (fstat(lines->fd, &st) < 0 || !S_ISREG(st.st_mode))
		fd_close(&lines->fd);
	return CCHV_OK;
}

/* 1: *ret_line is the next line, NUL-ended, valid until the next call; 0: no more; negative: an error. */
static int lines_next(struct lines *lines, char **ret_line, cchv_error **err)
{
	int skipping = 0;

	if (lines->fd < 0)
		return 0;
	for (;;) {
		char *start = (char *)lines->buf.data + lines->used;
		size_t left = lines->buf.len - lines->used;
		char *newline = left ? memchr(start, '\n', left) : NULL;
		ssize_t n;

		if (newline) {
			*newline = '\0';
			lines->used += (size_t)(newline - start) + 1;
			*ret_line = start;
			if (!skipping)
				return 1;
			skipping = 0;
			continue;
		}
		if (lines->end) {
			if (!left || skipping)
				return 0;
			if (buf_append_byte(&lines->buf, 0) < 0)
				return 0;
			*ret_line = (char *)lines->buf.data + lines->used;
			lines->used = lines->buf.len;
			return 1;
		}
		buf_consume(&lines->buf, lines->used);
		lines->used = 0;
		if (lines->buf.len >= LINE_LIMIT) {
			skipping = 1;
			lines->buf.len = 0;
		}
		n = buf_read_fd(&lines->buf, lines->fd, 65536);
		if (n < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "read the user database of the image");
		lines->total += (size_t)n;
		lines->end = n == 0 || lines->total > FILE_LIMIT;
	}
}

static int as_id(const char *text, uint32_t *ret)
{
	unsigned long long value;
	char *end;

	if (!isdigit((unsigned char)*text) || strlen(text) > 10)
		return 0;
	value = strtoull(text, &end, 10);
	if (*end || value >= UINT32_MAX)
		return 0;
	*ret = (uint32_t)value;
	return 1;
}

/* Split in place at colons; the number of fields, at most max (the last one keeps the rest). */
static size_t split(char *line, char **fields, size_t max)
{
	size_t count = 0;

	for (;;) {
		char *colon = strchr(line, ':');

		fields[count++] = line;
		if (!colon || count == max)
			return count;
		*colon = '\0';
		line = colon + 1;
	}
}

/* The first passwd line with that name, or (name NULL) with user->uid. 1 found, 0 not. */
static int find_user(int root_fd, const char *name, struct passwd_user *user, char **ret_name, cchv_error **err)
{
	struct lines lines;
	char *line;
	int r = lines_open(&lines, root_fd, "/etc/passwd", err);

	while (r == CCHV_OK && (r = lines_next(&lines, &line, err)) == 1) {
		char *f[7];
		size_t count = split(line, f, ARRAY_LEN(f));
		uint32_t uid, gid;

		r = CCHV_OK;
		if (count < 4 || !*f[0] || !as_id(f[2], &uid) || !as_id(f[3], &gid))
			continue;
		if (name ? strcmp(f[0], name) != 0 : uid != user->uid)
			continue;
		user->uid = uid;
		user->gid = gid;
		*ret_name = mem_strdup(f[0]);
		if (count >= 6 && *f[5] == '/')
			user->home = mem_strdup(f[5]);
		r = !*ret_name || (count >= 6 && *f[5] == '/' && !user->home) ? err_nomem(err) : 1;
		break;
	}
	lines_close(&lines);
	return r;
}

/* The gid of a group by name. 1 found, 0 not. */
static int find_group(int root_fd, const char *name, uint32_t *ret_gid, cchv_error **err)
{
	struct lines lines;
	char *line;
	int r = lines_open(&lines, root_fd, "/etc/group", err);

	while (r == CCHV_OK && (r = lines_next(&lines, &line, err)) == 1) {
		char *f[4];

		r = CCHV_OK;
		if (split(line, f, ARRAY_LEN(f)) >= 3 && strcmp(f[0], name) == 0 && as_id(f[2], ret_gid)) {
			r = 1;
			break;
		}
	}
	lines_close(&lines);
	return r;
}

static int lists(char *members, const char *name)
{
	for (char *member = strtok_r(members, ",", &members); member; member = strtok_r(NULL, ",", &members))
		if (strcmp(member, name) == 0)
			return 1;
	return 0;
}

/* All groups that list the user. */
static int find_groups_of(int root_fd, const char *name, struct passwd_user *user, cchv_error **err)
{
	struct lines lines;
	char *line;
	int r = lines_open(&lines, root_fd, "/etc/group", err);

	while (r == CCHV_OK && (r = lines_next(&lines, &line, err)) == 1) {
		char *f[4];
		uint32_t gid, *groups;

		r = CCHV_OK;
		if (split(line, f, ARRAY_LEN(f)) < 4 || !as_id(f[2], &gid) || !lists(f[3], name))
			continue;
		if (user->group_count == PASSWD_MAX_GROUPS)
			break;
		groups = mem_realloc_array(user->groups, user->group_count + 1, sizeof(*groups));
		if (!groups) {
			r = err_nomem(err);
			break;
		}
		user->groups = groups;
		groups[user->group_count++] = gid;
	}
	lines_close(&lines);
	return r;
}

static int lookup_user(int root_fd, const char *text, struct passwd_user *user, char **ret_name, cchv_error **err)
{
	int r;

	/* A name of digits is a name first, as everywhere else in the field. */
	r = find_user(root_fd, text, user, ret_name, err);
	if (r != 0)
		return r;
	if (!as_id(text, &user->uid))
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no user '%s' in the container's /etc/passwd", text);
	user->gid = 0;
	return find_user(root_fd, NULL, user, ret_name, err);
}

static int lookup(int root_fd, char *text, struct passwd_user *user, cchv_error **err)
{
	cleanup_free char *name = NULL;
	char *group = strchr(text, ':');
	int r;

	if (group)
		*group++ = '\0';
	if (!*text || (group && (!*group || strchr(group, ':'))))
		return err_set(err, CCHV_ERR_INVALID, 0, "user '%s%s%s' is not of the form USER[:GROUP]", text,
		               group ? ":" : "", group ? group : "");
	r = lookup_user(root_fd, text, user, &name, err);
	if (r < 0)
		return r;
	if (!group)
		return name ? find_groups_of(root_fd, name, user, err) : CCHV_OK;
	r = find_group(root_fd, group, &user->gid, err);
	if (r == 0 && !as_id(group, &user->gid))
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no group '%s' in the container's /etc/group", group);
	return r < 0 ? r : CCHV_OK;
}

int passwd_lookup(int root_fd, const char *text, struct passwd_user *ret_user, cchv_error **err)
{
	cleanup_free char *copy = mem_strdup(text);
	struct passwd_user user = { 0 };
	int r;

	if (!copy)
		return err_nomem(err);
	r = lookup(root_fd, copy, &user, err);
	if (r < 0) {
		passwd_user_free(&user);
		return r;
	}
	*ret_user = user;
	return CCHV_OK;
}

int passwd_home(int root_fd, uint32_t uid, char **ret_home, cchv_error **err)
{
	struct passwd_user user = { .uid = uid };
	cleanup_free char *name = NULL;
	int r = find_user(root_fd, NULL, &user, &name, err);

	if (r < 0) {
		passwd_user_free(&user);
		return r;
	}
	*ret_home = steal(&user.home);
	return CCHV_OK;
}

void passwd_user_free(struct passwd_user *user)
{
	free(user->home);
	free(user->groups);
	*user = (struct passwd_user){ 0 };
}
