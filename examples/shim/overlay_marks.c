/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of overlayfs: see overlay_marks.h. Enters: a directory. Leaves: what is in it. */
#include "overlay_marks.h"

#include <cchv/error.h>
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "fault.h"

#define NAMES_MAX 65536

enum mark { NO_MARK, OPAQUE, OTHER_MARK };

/* "trusted.overlay.opaque" -> "opaque" */
static const char *overlay_word(const char *name)
{
	if (strncmp(name, "trusted.overlay.", 16) == 0)
		return name + 16;
	return strncmp(name, "user.overlay.", 13) == 0 ? name + 13 : NULL;
}

/* What a copied-up file remembers of its origin matters to the host's overlay alone. */
static enum mark mark_of(const char *name)
{
	static const char *const marks[] = { "redirect", "metacopy", "whiteout" };
	const char *word = overlay_word(name);

	if (word && strcmp(word, "opaque") == 0)
		return OPAQUE;
	for (size_t i = 0; word && i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strcmp(word, marks[i]) == 0)
			return OTHER_MARK;
	return NO_MARK;
}

int overlay_marks_is_of_the_host(const char *name)
{
	if (overlay_word(name))
		return mark_of(name) != OTHER_MARK;
	return strncmp(name, "security.", 9) == 0 && strcmp(name, "security.capability") != 0;
}

/* -1 and errno, or the strongest mark. */
static int find_mark(const char *path, char *names)
{
	ssize_t n = llistxattr(path, names, NAMES_MAX);
	enum mark found = NO_MARK;

	if (n < 0)
		return errno == ENOTSUP ? NO_MARK : -1;
	for (const char *name = names; name < names + n; name += strlen(name) + 1)
		if (mark_of(name) > found)
			found = mark_of(name);
	return found;
}

/* Is there anything at that place in a layer below? A link on the way there counts as something. */
static int hides_something(const struct layer_list *lower, const char *below)
{
	for (size_t i = 0; i < lower->count; i++) {
		struct stat st;
		char *path;
		int found;

		if (asprintf(&path, "%s/%s", lower->paths[i], below) < 0)
			return 1;
		found = lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
		free(path);
		if (found)
			return 1;
	}
	return 0;
}

/* 1, 0, or -1 and errno. */
static int is_marked(const FTSENT *entry, size_t root_length, const struct layer_list *lower, char *names)
{
	int mark = find_mark(entry->fts_path, names);

	if (mark == OPAQUE)
		return hides_something(lower, entry->fts_path + root_length);
	return mark < 0 ? -1 : mark == OTHER_MARK;
}

int overlay_marks_find(const char *path, const struct layer_list *lower, char **ret_error)
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
		n = errno ? -1 : is_marked(entry, strlen(path), lower, names);
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
