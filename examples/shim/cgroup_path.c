/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of cgroup paths: see cgroup_path.h. Enters: what kubelet, Docker or ctr wrote. Leaves: a path.
 *
 * "a-b.slice:prefix:name" is a unit of systemd: its slice lies below the slices that its name is made of, and the unit
 * is prefix-name.scope in it.
 */
#include "cgroup_path.h"

#include <cchv/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "memory.h"

#define SLICE         ".slice"
#define DEFAULT_SLICE "system.slice"

static int has_end(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len > end_len && strcmp(text + len - end_len, end) == 0;
}

/* No ".." on the way, and nothing that would be another path once it is joined to a root. */
static int is_safe(const char *path)
{
	for (const char *p = path; p; p = strchr(p, '/')) {
		while (*p == '/')
			p++;
		if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2]))
			return 0;
	}
	return strcspn(path, "\n") == strlen(path);
}

static int wrong(const char *text, const char *what, char **ret_error)
{
	return fault_set(ret_error, CCHV_ERR_INVALID, "linux.cgroupsPath '%s': %s", text, what);
}

/* "a-b-c.slice" -> "/a.slice/a-b.slice/a-b-c.slice"; NULL: it is no slice. */
static char *expand_slice(const char *slice)
{
	char *path = need_copy(""), *longer;

	if (strcmp(slice, "-" SLICE) == 0)
		return path;
	if (!has_end(slice, SLICE) || *slice == '-' || strchr(slice, '/') || strstr(slice, "--") ||
	    has_end(slice, "-" SLICE)) {
		free(path);
		return NULL;
	}
	for (const char *p = strchr(slice, '-'); p; p = strchr(p + 1, '-')) {
		longer = need_text("%s/%.*s" SLICE, path, (int)(p - slice), slice);
		free(path);
		path = longer;
	}
	longer = need_text("%s/%s", path, slice);
	free(path);
	return longer;
}

static char *unit_name(const char *prefix, const char *name)
{
	if (has_end(name, SLICE))
		return need_copy(name);
	return *prefix ? need_text("%s-%s.scope", prefix, name) : need_text("%s.scope", name);
}

/* text: "slice:prefix:name". */
static int systemd_path(const char *text, char **ret_path, char **ret_error)
{
	char *copy = need_copy(text), *rest = copy;
	const char *slice = strsep(&rest, ":"), *prefix = strsep(&rest, ":"), *name = rest;
	char *dir = expand_slice(*slice ? slice : DEFAULT_SLICE), *unit;
	int r = 0;

	if (!dir || !*name || strchr(prefix, '/') || strchr(name, '/')) {
		r = wrong(text, dir ? "its unit has no proper name" : "its first part is no slice", ret_error);
	} else {
		unit = unit_name(prefix, name);
		*ret_path = need_text("%s/%s", dir, unit);
		free(unit);
	}
	free(dir);
	free(copy);
	return r;
}

static int is_unit(const char *text)
{
	const char *first = strchr(text, ':'), *second = first ? strchr(first + 1, ':') : NULL;

	return *text != '/' && second && !strchr(second + 1, ':');
}

int cgroup_path_of(const char *text, enum cgroup_style style, char **ret_path, char **ret_error)
{
	*ret_path = NULL;
	if (!text || !*text)
		return 0;
	if (!is_safe(text))
		return wrong(text, "it leads out of its place", ret_error);
	if (style != CGROUP_PLAIN && is_unit(text))
		return systemd_path(text, ret_path, ret_error);
	while (*text == '/')
		text++;
	*ret_path = *text ? need_text("/%s", text) : NULL;
	return 0;
}

char *cgroup_path_text(const char *parent, const char *id)
{
	const char *base = parent ? strrchr(parent, '/') : NULL;

	if (!parent || !*parent)
		return NULL;
	base = base ? base + 1 : parent;
	return has_end(base, SLICE) ? need_text("%s:cchv:%s", base, id) : need_text("%s/%s", parent, id);
}
