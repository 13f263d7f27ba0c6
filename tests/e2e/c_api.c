/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library from C, on real VMs: cases one after the other, in one VM unless they make their own. They are in
 * c_streams.c, c_processes.c, c_terminals.c, c_refusals.c and c_deaths.c. Enters: STATE RUN IMAGE BYTES COUNT CASE...
 * Leaves: 0, or 1 and a line.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "c_world.h"

static const struct c_case *find(const char *name)
{
	static const struct c_case *const tables[] = { c_stream_cases, c_process_cases, c_terminal_cases,
		                                       c_refusal_cases, c_death_cases };

	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
		for (const struct c_case *c = tables[t]; c->name; c++)
			if (strcmp(c->name, name) == 0)
				return c;
	return NULL;
}

int main(int argc, char **argv)
{
	struct world w = { 0 };

	if (argc < 7)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	open_world(&w, argv + 1);
	w.bytes = strtoull(argv[4], NULL, 10);
	w.count = strtoull(argv[5], NULL, 10);
	for (int i = 6; i < argc; i++) {
		const struct c_case *c = find(argv[i]);

		wanted(c != NULL, argv[i]);
		current_case = c->name;
		if (!c->own_world && !w.vm)
			start_vm(&w, NULL);
		c->run(&w);
	}
	if (!find(argv[6])->own_world)
		end_vm(&w);
	close_world(&w);
	return 0;
}
