/* SPDX-License-Identifier: Apache-2.0 */
/* The table of probe's commands: see probe.h. Enters: words. Leaves: the command's own exit code. */
#include "probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void probe_die(const char *what)
{
	fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
	exit(99);
}

uint64_t probe_number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (!*text || *end) {
		errno = EINVAL;
		probe_die(text);
	}
	return value;
}

void probe_write(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			probe_die("write");
		p += n;
		len -= (size_t)n;
	}
}

int main(int argc, char **argv)
{
	static const struct probe_command *const tables[] = { probe_stream_commands, probe_process_commands,
							      probe_file_commands, probe_system_commands };

	if (argc < 2)
		return 98;
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (const struct probe_command *c = tables[t]; c->name; c++)
			if (strcmp(c->name, argv[1]) == 0)
				return c->run(argc - 1, argv + 1);
	fprintf(stderr, "probe: no command '%s'\n", argv[1]);
	return 98;
}
