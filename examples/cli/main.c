/* SPDX-License-Identifier: Apache-2.0 */
/* The command's front door: options before the command, the table of commands, help, error lines. */
#include "cli.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"

struct globals globals = { .log_level = CCHV_LOG_WARNING };

static const struct command commands[] = {
	{ "run", cmd_run, "[OPTIONS] IMAGE [COMMAND [ARG...]]",
	  "create and start a container in a VM of its own" },
	{ "create", cmd_create, "[OPTIONS] IMAGE [COMMAND [ARG...]]",
	  "create a container without starting it" },
	{ "start", cmd_start, "[-a] [-i] CONTAINER...", "start containers that are not running" },
	{ "exec", cmd_exec, "[OPTIONS] CONTAINER COMMAND [ARG...]", "run a command in a running container" },
	{ "attach", cmd_attach, "CONTAINER", "connect to the streams of a running container" },
	{ "logs", cmd_logs, "[-f] [-n LINES] CONTAINER", "show a container's output" },
	{ "ps", cmd_ps, "[-a] [-q] [--format table|json]", "list containers" },
	{ "stop", cmd_stop, "[-t SECONDS] CONTAINER...", "end containers cleanly" },
	{ "kill", cmd_kill, "[-s SIGNAL] CONTAINER...", "send a signal to containers" },
	{ "wait", cmd_wait, "CONTAINER...", "wait for containers' end and print their exit codes" },
	{ "rm", cmd_rm, "[-f] CONTAINER...", "remove containers" },
	{ "inspect", cmd_inspect, "CONTAINER|IMAGE...", "show all that is known, as JSON" },
	{ "stats", cmd_stats, "[--no-stream] [--format table|json] [CONTAINER...]", "show use of resources" },
	{ "pause", cmd_pause, "CONTAINER...", "freeze the processes of containers" },
	{ "unpause", cmd_unpause, "CONTAINER...", "let frozen containers run again" },
	{ "cp", cmd_cp, "[--max-size SIZE] [--max-files N] CONTAINER:PATH PATH|- or PATH|- CONTAINER:PATH",
	  "copy files out of or into a container" },
	{ "events", cmd_events, "[--format text|json] [CONTAINER...]", "show what happens, as it happens" },
	{ "image", cmd_image, "import|pull|ls|rm ...", "manage the image cache" },
	{ "template", cmd_template, "build [--detach]|ls|rm ...",
	  "manage what VMs start from in place of booting" },
	{ "snapshot", cmd_snapshot, "create|restore|ls|rm ...", "keep running containers, and make new ones of that" },
	{ "clone", cmd_clone, "CONTAINER NEW", "make another container that goes on where a running one stands" },
	{ "prune", cmd_prune, "", "remove what dead owners left behind" },
	{ "info", cmd_info, "[--format text|json]",
	  "show what is here, what is missing, which VMM is used and why" },
	{ "version", cmd_version, "[--format text|json]", "show versions" },
	{ "monitor", cmd_monitor, NULL, NULL },
};

static void print_line(const char *format, va_list args)
{
	fflush(stdout);
	fputs("cchv: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

int fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(format, args);
	va_end(args);
	return EXIT_OURS;
}

void warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(format, args);
	va_end(args);
}

int fail_error(cchv_error *error, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("cchv: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", cchv_error_message(error));
	cchv_error_free(error);
	return EXIT_OURS;
}

int usage_error(const char *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(format, args);
	va_end(args);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(commands[i].name, command) == 0 && commands[i].arguments)
			fprintf(stderr, "usage: cchv %s %s\n", command, commands[i].arguments);
	return EXIT_OURS;
}

int refuse_options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (argv[i][0] == '-' && argv[i][1])
			return usage_error(argv[0], "unknown option '%s'", argv[i]);
	return 0;
}

cchv_ctx *open_context(void)
{
	cchv_error *err = NULL;
	cchv_ctx *ctx = NULL;

	if (cchv_ctx_new(&ctx, &err) < 0)
		exit(fail_error(err, "context"));
	if (globals.state_dir && cchv_ctx_set_state_dir(ctx, globals.state_dir) < 0)
		exit(fail("--state-dir '%s': not an absolute path", globals.state_dir));
	if (globals.runtime_dir && cchv_ctx_set_runtime_dir(ctx, globals.runtime_dir) < 0)
		exit(fail("--runtime-dir '%s': not an absolute path", globals.runtime_dir));
	if (globals.vmm && cchv_ctx_set_vmm(ctx, globals.vmm) < 0)
		exit(fail("--vmm '%s': not a program", globals.vmm));
	cchv_ctx_set_template_building(ctx, !globals.no_builder);
	if (cchv_ctx_set_log_fd(ctx, globals.log_level, STDERR_FILENO) < 0)
		cchv_ctx_set_log(ctx, CCHV_LOG_ERROR, NULL, NULL, NULL);
	return ctx;
}

static void print_help(FILE *to)
{
	fputs("usage: cchv [OPTIONS] COMMAND [ARG...]\n\nA container in a microVM of its own.\n\nOptions:\n"
	      "  --state-dir DIR     images, volumes, containers (default /var/lib/cchv, or the user's)\n"
	      "  --runtime-dir DIR   sockets and locks (default /run/cchv, or the user's)\n"
	      "  --vmm PROGRAM       the VMM, or 'auto'\n"
	      "  --no-builder        build no templates in the background (see 'cchv template')\n"
	      "  -D, --debug         log everything\n"
	      "  --log-level LEVEL   error, warning (default), info, debug\n"
	      "  -h, --help          this text\n"
	      "  -v, --version       the version\n\nCommands:\n",
	      to);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (commands[i].arguments)
			fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].summary);
	fputs(exit_codes_help, to);
	fputs("\n'cchv COMMAND --help' shows a command's options.\n", to);
}

static int parse_level(const char *text)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };

	for (int i = 0; i < 4; i++)
		if (strcmp(names[i], text) == 0)
			return i;
	return -1;
}

static int parse_globals(int argc, char **argv)
{
	static const struct option options[] = {
		{ "state-dir", required_argument, NULL, 's' },
		{ "runtime-dir", required_argument, NULL, 'r' },
		{ "vmm", required_argument, NULL, 'm' },
		{ "no-builder", no_argument, NULL, 'b' },
		{ "debug", no_argument, NULL, 'D' },
		{ "log-level", required_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "+Dhv", options, NULL)) != -1) {
		switch (c) {
		case 's': globals.state_dir = absolute_path(optarg); break;
		case 'r': globals.runtime_dir = absolute_path(optarg); break;
		case 'm': globals.vmm = xstrdup(optarg); break;
		case 'b': globals.no_builder = 1; break;
		case 'D': globals.log_level = CCHV_LOG_DEBUG; break;
		case 'l':
			globals.log_level = parse_level(optarg);
			if (globals.log_level < 0)
				exit(usage_error("", "--log-level '%s': not error, warning, info or debug",
						 optarg));
			break;
		case 'h': print_help(stdout); exit(0);
		case 'v': printf("cchv %s\n", cchv_version()); exit(0);
		default: fputs("Try 'cchv --help'.\n", stderr); exit(EXIT_OURS);
		}
	}
	return optind;
}

static int has_commands(const struct command *command)
{
	return command->run == cmd_image || command->run == cmd_template || command->run == cmd_snapshot;
}

static int help_for(const struct command *command)
{
	printf("usage: cchv %s %s\n\n%s\n", command->name, command->arguments, command->summary);
	if (command->run == cmd_run || command->run == cmd_create)
		fputs(run_options_help, stdout);
	else if (command->run == cmd_exec)
		fputs(exec_options_help, stdout);
	else if (command_options_help(command->name))
		printf("\n%s:\n%s", has_commands(command) ? "Commands" : "Options",
		       command_options_help(command->name));
	return 0;
}

/* A caller's closed descriptor must not become a disk, into which the next error line is written. */
static int fill_standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return -1;
	return 0;
}

int main(int argc, char **argv)
{
	int first, status;

	if (fill_standard_descriptors() < 0)
		return EXIT_OURS;
	first = parse_globals(argc, argv);
	if (first == argc) {
		print_help(stderr);
		return EXIT_OURS;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, argv[first]) != 0)
			continue;
		if (commands[i].arguments && first + 1 < argc && strcmp(argv[first + 1], "--help") == 0)
			return help_for(&commands[i]);
		optind = 0; /* getopt begins anew, on the command's own words */
		status = commands[i].run(argc - first, argv + first);
		/* What was printed must have arrived: a full disk behind stdout is a failure. */
		if ((fflush(stdout) != 0 || ferror(stdout)) && status == 0)
			return fail("writing the output failed");
		return status;
	}
	fail("no command '%s'", argv[first]);
	fputs("Try 'cchv --help'.\n", stderr);
	return EXIT_OURS;
}
