/* SPDX-License-Identifier: Apache-2.0 */
/* exec. Enters: options, a container, a command. Leaves: the process's output and exit code. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "commands.h"
#include "launch.h"
#include "session.h"

const char exec_options_help[] = "\nOptions:\n"
				 "  -d, --detach           do not wait for the command's end\n"
				 "  -i, --interactive      keep stdin open\n"
				 "  -t, --tty              give the process a terminal\n"
				 "  -e, --env NAME[=VALUE] set a variable\n"
				 "  -w, --workdir DIR      working directory\n"
				 "  -u, --user USER[:GROUP] user\n"
				 "\nSIGINT, SIGTERM, SIGQUIT and SIGHUP of this command go to the process and what it\n"
				 "started in its group, SIGUSR1 and SIGUSR2 to the process alone. What they\n"
				 "write after this command's stdout or stderr has lost its reader gets them SIGPIPE.\n";

struct exec_options {
	int detach, interactive, tty;
	cchv_exec_config *config;
};

static int set_env(cchv_exec_config *config, const char *text)
{
	char *name = xstrdup(text), *value = strchr(name, '=');
	int r = CCHV_OK;

	if (value)
		*value++ = '\0';
	else
		value = getenv(name);
	if (value)
		r = cchv_exec_config_set_env(config, name, value);
	free(name);
	return r;
}

static int parse(int argc, char **argv, struct exec_options *o)
{
	static const struct option options[] = {
		{ "detach", no_argument, NULL, 'd' },
		{ "interactive", no_argument, NULL, 'i' },
		{ "tty", no_argument, NULL, 't' },
		{ "env", required_argument, NULL, 'e' },
		{ "workdir", required_argument, NULL, 'w' },
		{ "user", required_argument, NULL, 'u' },
		{ NULL, 0, NULL, 0 },
	};
	int c, r = CCHV_OK;

	while ((c = getopt_long(argc, argv, "+dite:w:u:", options, NULL)) != -1) {
		switch (c) {
		case 'd': o->detach = 1; break;
		case 'i': o->interactive = 1; break;
		case 't': o->tty = 1; break;
		case 'e': r = set_env(o->config, optarg); break;
		case 'w': r = cchv_exec_config_set_cwd(o->config, optarg); break;
		case 'u': r = cchv_exec_config_set_user(o->config, optarg); break;
		default: return EXIT_OURS;
		}
		if (r < 0)
			return fail("-%c '%s': %s", c, optarg, cchv_err_text(r));
	}
	if (argc - optind >= 2 && strcmp(argv[optind + 1], "--") == 0) {
		argv[optind + 1] = argv[optind];
		optind++;
	}
	if (argc - optind < 2)
		return usage_error("exec", "no container or no command given");
	for (int i = optind + 1; i < argc && r == CCHV_OK; i++)
		r = cchv_exec_config_add_arg(o->config, argv[i]);
	return r < 0 ? fail("command: %s", cchv_err_text(r)) : 0;
}

static int run(struct client *c, struct exec_options *o)
{
	cchv_stdio_config *stdio = NULL;
	cchv_exec *exec = NULL;
	cchv_error *err = NULL;
	uint32_t rows, cols;
	int status = 0;

	session_get_size(&rows, &cols);
	if (o->tty && cchv_exec_config_set_tty(o->config, rows, cols) < 0)
		return fail("terminal of %u rows and %u columns: refused", rows, cols);
	if (!o->detach) {
		session_check_terminal(o->tty, o->interactive);
		status = session_begin(o->tty, o->interactive);
		stdio = status == 0 ? session_stdio(o->tty, o->interactive) : NULL;
		if (!stdio)
			return EXIT_OURS;
		if (cchv_exec_config_set_stdio(o->config, stdio) < 0)
			status = fail("standard streams: %m");
	}
	if (status == 0 && cchv_container_exec(c->container, o->config, CALL_MS, &exec, &err) < 0) {
		session_end();
		status = start_failure_status(err);
		fail_error(err, "exec in '%s'", c->record->name);
	} else if (status == 0 && !o->detach) {
		struct session s = {
			.vm = c->vm, .exec = exec, .tty = o->tty, .forward_signals = 1, .stdin_fd = -1,
			/* What it has started ends with it, as at ^C in a shell. */
			.whole_group = 1, .breaks_pipe = 1
		};

		if (session_run(&s, &status) == SESSION_EXITED)
			cchv_exec_delete(exec, CALL_MS, NULL);
	}
	session_end();
	cchv_stdio_config_free(stdio);
	cchv_exec_free(exec);
	return status;
}

int cmd_exec(int argc, char **argv)
{
	struct exec_options o = { 0 };
	struct client c = { 0 };
	cchv_ctx *ctx;
	int r;

	if (cchv_exec_config_new(&o.config) < 0)
		return fail("out of memory");
	r = parse(argc, argv, &o);
	if (r == 0) {
		ctx = open_context();
		r = client_open(ctx, argv[optind], &c);
		if (r == 0)
			r = run(&c, &o);
		client_close(&c);
		cchv_ctx_free(ctx);
	}
	cchv_exec_config_free(o.config);
	return r;
}
