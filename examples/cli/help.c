/* SPDX-License-Identifier: Apache-2.0 */
/* What `cchv COMMAND --help` says of a command's options, and what the exit codes mean. Every option that a command
 * takes is here: a test reads the list from these texts, and runs each. */
#include "commands.h"

#include <string.h>

#define FORMAT_TABLE "      --format table|json   a table (default), or a line of JSON for each\n"
#define FORMAT_TEXT  "      --format text|json    text (default) or JSON\n"

static const struct {
	const char *command, *text;
} options[] = {
	{ "start", "  -a, --attach              show the output, wait for the end and return its code\n"
		   "  -i, --interactive         the same, with stdin\n" },
	{ "attach", "      --no-stdin            output only\n" },
	{ "logs", "  -f, --follow              go on with what comes, until the container ends\n"
		  "  -n, --tail LINES|all      only the last lines of each stream\n" },
	{ "ps", "  -a, --all                 those that do not run, too\n"
		"  -q, --quiet               ids only\n"
		"      --no-trunc            whole commands\n" FORMAT_TABLE },
	{ "stop", "  -t, --time SECONDS        kill after that time (default 10; -1: never)\n"
		  "      --timeout SECONDS     the same\n" },
	{ "kill", "  -s, --signal SIGNAL       by name or number (default KILL)\n" },
	{ "rm", "  -f, --force               kill those that run; none with that name is no failure\n" },
	{ "stats", "      --no-stream           once\n" FORMAT_TABLE },
	{ "events", FORMAT_TEXT },
	{ "image", "  import SOURCE... [--name NAME]   dir:PATH, tar:PATH (several are layers), oci:PATH[:TAG],\n"
		   "                                   docker://REF\n"
		   "  pull REFERENCE                   from a registry\n"
		   "  ls [--format table|json]         what is in the cache\n"
		   "  rm NAME|DIGEST...                remove images\n" },
	{ "template", "  build [--detach]                 make this machine's template; --detach: at idle priority\n"
		      "  ls [--format table|json]         what there is\n"
		      "  rm KEY... | --all                remove templates\n" },
	{ "snapshot", "  create CONTAINER [NAME]          keep a running container with its VM; prints the name\n"
		      "  restore NAME [--name NEW]        a new container that goes on where the kept one stood\n"
		      "  ls [--format table|json]         what there is\n"
		      "  rm NAME...                       remove snapshots\n" },
	{ "info", FORMAT_TEXT },
	{ "version", FORMAT_TEXT },
};

const char exit_codes_help[] =
	"\nExit codes of run, create, start, exec and attach: the process's own, or 128 + the number of the signal\n"
	"that ended it; 127: program, working directory or user not found; 126: found, but it cannot be run or\n"
	"entered; 125: it could not be done, whatever the reason. Of the other commands: 0; 1: not all could be\n"
	"done; 125: wrong usage.\n";

const char *command_options_help(const char *command)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (strcmp(options[i].command, command) == 0)
			return options[i].text;
	return NULL;
}
