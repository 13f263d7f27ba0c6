/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts of a namespace: see mountinfo.h. Enters: lines of the kernel. Leaves: their fields, decoded. */
#include "mountinfo.h"

#include <cchv/error.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROOT, PATH, TYPE, SOURCE, OPTIONS, FIELDS };

static int is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* The kernel writes what would end a field, or an option, as a backslash and three octal digits. */
static char *decode(char *text)
{
	char *to = text, *from = text;

	while (*from) {
		if (from[0] == '\\' && is_octal(from[1]) && is_octal(from[2]) && is_octal(from[3])) {
			*to++ = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
	return text;
}

/* "36 35 98:0 /root /path rw,noatime master:1 - type source options": there may be any number of "master:1". */
static int split(char *line, char *fields[FIELDS])
{
	char *word = NULL, *rest = line;

	line[strcspn(line, "\n")] = '\0';
	for (int n = 0; n < 5; n++) {
		word = strsep(&rest, " ");
		if (!word)
			return 0;
		if (n >= 3)
			fields[n - 3] = word;
	}
	do {
		word = strsep(&rest, " ");
	} while (word && strcmp(word, "-") != 0);
	for (int n = TYPE; n < FIELDS; n++) {
		fields[n] = strsep(&rest, " ");
		if (!fields[n])
			return 0;
	}
	return 1;
}

/* A comma in an option's value is encoded, so the list is split first. */
static int add(struct mount_list *list, char *fields[FIELDS])
{
	char *rest = fields[OPTIONS], *option;
	int r = mount_list_add(list, decode(fields[TYPE]), decode(fields[SOURCE]), decode(fields[ROOT]));

	while (r == CCHV_OK && (option = strsep(&rest, ",")))
		r = mount_list_add_option(list, decode(option));
	return r;
}

int mountinfo_find(FILE *text, const char *path, struct mount_list *list)
{
	char *line = NULL, *found = NULL, *fields[FIELDS];
	size_t room = 0;
	int r = 0;

	errno = 0;
	while (r == 0 && getline(&line, &room, text) >= 0) {
		char *copy = strdup(line);

		if (!copy)
			r = CCHV_ERR_NOMEM;
		else if (split(line, fields) && strcmp(decode(fields[PATH]), path) == 0) {
			free(found);
			found = copy;
			copy = NULL;
		}
		free(copy);
	}
	if (r == 0 && ferror(text))
		r = CCHV_ERR_SYSTEM;
	if (r == 0 && found) {
		split(found, fields);
		r = add(list, fields);
		if (r == CCHV_OK)
			r = 1;
	}
	free(line);
	free(found);
	return r;
}

int mountinfo_find_here(const char *path, struct mount_list *list)
{
	FILE *text = fopen("/proc/self/mountinfo", "re");
	int r;

	if (!text)
		return CCHV_ERR_SYSTEM;
	r = mountinfo_find(text, path, list);
	fclose(text);
	return r;
}
