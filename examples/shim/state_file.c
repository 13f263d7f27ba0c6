/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a container on disk: see state_file.h. Lines of "key value". */
#include "state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bundle.h"

#define FILE_MAX (64U << 10)

static const struct {
	const char *key;
	size_t offset;
} texts[] = {
	{ "group", offsetof(struct state, group) },
	{ "socket", offsetof(struct state, socket) },
	{ "vm", offsetof(struct state, vm) },
	{ "runtime_dir", offsetof(struct state, runtime_dir) },
	{ "state_dir", offsetof(struct state, state_dir) },
	{ "container", offsetof(struct state, container) },
	{ "netns", offsetof(struct state, netns) },
};

#define TEXTS (sizeof(texts) / sizeof(texts[0]))

static char **text_of(const struct state *state, size_t i)
{
	return (char **)((char *)state + texts[i].offset);
}

int state_file_write(const char *bundle, const struct state *state)
{
	char *data = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&data, &len);
	int r;

	if (!f)
		return -1;
	fprintf(f, "server %d %llu\npid %u\n", state->server_pid, state->server_start, state->pid);
	for (size_t i = 0; i < TEXTS; i++)
		if (*text_of(state, i))
			fprintf(f, "%s %s\n", texts[i].key, *text_of(state, i));
	r = fclose(f) == 0 ? bundle_write(bundle, BUNDLE_STATE, data, len) : -1;
	free(data);
	return r;
}

static int read_line(char *line, struct state *state)
{
	char *value = strchr(line, ' ');

	if (!value)
		return *line ? -1 : 0;
	*value++ = '\0';
	if (strcmp(line, "server") == 0)
		return sscanf(value, "%d %llu", &state->server_pid, &state->server_start) == 2 ? 0 : -1;
	if (strcmp(line, "pid") == 0)
		return sscanf(value, "%u", &state->pid) == 1 ? 0 : -1;
	for (size_t i = 0; i < TEXTS; i++)
		if (strcmp(texts[i].key, line) == 0 && !*text_of(state, i))
			*text_of(state, i) = strdup(value);
	return 0;
}

int state_file_read(const char *bundle, struct state *ret)
{
	struct state state = { 0 };
	char *text, *rest, *line;
	size_t len;
	int r = 0;

	if (bundle_read(bundle, BUNDLE_STATE, FILE_MAX, &text, &len) < 0)
		return errno == ENOENT ? 0 : -1;
	rest = text;
	while (r == 0 && (line = strsep(&rest, "\n")))
		r = read_line(line, &state);
	free(text);
	if (r < 0) {
		state_free(&state);
		return -1;
	}
	*ret = state;
	return 1;
}

void state_file_remove(const char *bundle)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", bundle, BUNDLE_STATE) < (int)sizeof(path))
		unlink(path);
}

void state_free(struct state *state)
{
	for (size_t i = 0; i < TEXTS; i++)
		free(*text_of(state, i));
	*state = (struct state) { 0 };
}

unsigned long long state_process_start(pid_t pid)
{
	unsigned long long start = 0;
	char path[32], text[1024], *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	/* The name, in parentheses, may hold anything; field 22 is the 20th behind it. */
	p = strrchr(text, ')');
	for (int i = 0; p && i < 20; i++)
		p = strchr(p + 1, ' ');
	return p && sscanf(p, "%llu", &start) == 1 ? start : 0;
}
