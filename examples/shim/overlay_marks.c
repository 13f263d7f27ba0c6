/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of overlayfs: see overlay_marks.h. Enters: a directory. Leaves: what is in it. */
#include "overlay_marks.h"

#include <cchv/error.h>
#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "fault.h"

#define NAMES_MAX 65536

/* What a copied-up file remembers of its origin matters to the host's overlay alone. */
static int is_mark(const char *name)
{
	static const char *const marks[] = { "opaque", "redirect", "metacopy", "whiteout" };
	const char *rest = strncmp(name, "trusted.overlay.", 16) == 0 ? name + 16
			   : strncmp(name, "user.overlay.", 13) == 0  ? name + 13
								      : NULL;

	for (size_t i = 0; rest && i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strcmp(rest, marks[i]) == 0)
			return 1;
	return 0;
}

/* 1, 0, or -1 and errno. */
static int has_mark(const char *path, char *names)
{
	ssize_t n = llistxattr(path, names, NAMES_MAX);

	if (n < 0)
		return errno == ENOTSUP ? 0 : -1;
	for (const char *name = names; name < names + n; name += strlen(name) + 1)
		if (is_mark(name))
			return 1;
	return 0;
}

int overlay_marks_find(const char *path, char **ret_error)
{
	char *roots[] = { strdup(path), NULL }, *names = malloc(NAMES_MAX);
	FTS *tree = roots[0] && names ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL) : NULL;
	int found = OVERLAY_EMPTY, n;
	FTSENT *entry;

	errno = tree ? 0 : ENOMEM;
	while (tree && found >= 0 && found != OVERLAY_MARKED && (entry = fts_read(tree))) {
		if (entry->fts_info == FTS_DP)
			continue;
		if (entry->fts_level > 0)
			found = OVERLAY_PLAIN;
		errno = entry->fts_info == FTS_ERR || entry->fts_info == FTS_DNR || entry->fts_info == FTS_NS
				? entry->fts_errno
				: 0;
		n = errno ? -1 : has_mark(entry->fts_path, names);
		if (n < 0)
			found = fault_set(ret_error, fault_code(errno), "upper layer '%s': %s", entry->fts_path,
					  strerror(errno));
		else if (n > 0)
			found = OVERLAY_MARKED;
		errno = 0;
	}
	if (found >= 0 && errno)
		found = fault_set(ret_error, fault_code(errno), "upper layer '%s': %s", path, strerror(errno));
	if (tree)
		fts_close(tree);
	free(roots[0]);
	free(names);
	return found;
}
