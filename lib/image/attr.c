/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes of files, by descriptor and path. Enters: attributes. Leaves: those that images carry. */
#include "image/attr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

int attr_is_kept(const char *name)
{
	if (strncmp(name, "user.", 5) == 0 || strcmp(name, "security.capability") == 0)
		return 1;
	if (strncmp(name, "trusted.", 8) == 0)
		return strncmp(name + 8, "overlay.", 8) != 0;
	return strcmp(name, "system.posix_acl_access") == 0 || strcmp(name, "system.posix_acl_default") == 0;
}

/* The calls of the xattr family know no directory descriptor; /proc reaches it without following path itself. */
static int proc_path(char *out, size_t room, int root_fd, const char *path)
{
	int n = snprintf(out, room, "/proc/self/fd/%d/%s", root_fd, path);

	if (n < 0 || (size_t)n >= room) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return 0;
}

#define PROC_PATH_MAX (4096 + 32)

int attr_list(int root_fd, const char *path, struct buf *names, int *ret_dropped, cchv_error **err)
{
	cleanup_free char *list = NULL;
	char full[PROC_PATH_MAX];
	ssize_t n;

	if (proc_path(full, sizeof(full), root_fd, path) < 0)
		return err_set(err, CCHV_ERR_LIMIT, errno, "'%s'", path);
	n = llistxattr(full, NULL, 0);
	if (n == 0 || (n < 0 && errno == ENOTSUP))
		return CCHV_OK;
	list = mem_alloc(ATTR_LIST_MAX);
	if (!list)
		return err_nomem(err);
	n = llistxattr(full, list, ATTR_LIST_MAX);
	if (n < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': extended attributes", path);
	for (char *p = list; p < list + n; p += strlen(p) + 1) {
		if (!attr_is_kept(p))
			*ret_dropped = 1;
		else if (buf_append(names, p, strlen(p) + 1) < 0)
			return err_nomem(err);
	}
	return CCHV_OK;
}

int attr_read(int root_fd, const char *path, const char *name, struct buf *value, cchv_error **err)
{
	char full[PROC_PATH_MAX];
	ssize_t n;

	if (proc_path(full, sizeof(full), root_fd, path) < 0)
		return err_set(err, CCHV_ERR_LIMIT, errno, "'%s'", path);
	if (buf_reserve(value, ATTR_VALUE_MAX) < 0)
		return err_nomem(err);
	n = lgetxattr(full, name, value->data + value->len, ATTR_VALUE_MAX);
	if (n < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': attribute '%s'", path, name);
	value->len += (size_t)n;
	return CCHV_OK;
}

int attr_write(int root_fd, const char *path, const char *name, const void *value, size_t len, cchv_error **err)
{
	char full[PROC_PATH_MAX];

	if (proc_path(full, sizeof(full), root_fd, path) < 0)
		return err_set(err, CCHV_ERR_LIMIT, errno, "'%s'", path);
	if (lsetxattr(full, name, value, len, 0) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': attribute '%s' of %zu bytes", path, name,
		               len);
	return CCHV_OK;
}

int attr_clear(int root_fd, const char *path, cchv_error **err)
{
	cleanup_buf struct buf names = BUF_INIT(ATTR_LIST_MAX);
	char full[PROC_PATH_MAX];
	int dropped = 0, r = attr_list(root_fd, path, &names, &dropped, err);
	const char *name = (const char *)names.data, *end = name + names.len;

	if (r < 0)
		return r;
	if (names.len && proc_path(full, sizeof(full), root_fd, path) < 0)
		return err_set(err, CCHV_ERR_LIMIT, errno, "'%s'", path);
	for (; name < end; name += strlen(name) + 1)
		if (lremovexattr(full, name) < 0 && errno != ENODATA)
			return err_set(err, err_code_of_errno(errno), errno, "'%s': attribute '%s'", path, name);
	return CCHV_OK;
}
