/* SPDX-License-Identifier: Apache-2.0 */
/* attach. Enters: a running container. Leaves: its output from now on, and its exit code; ctrl-p ctrl-q
 * leaves early. */
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "commands.h"
#include "launch.h"
#include "session.h"

static int attach(struct client *c, int with_stdin)
{
	struct session s = {
		.vm = c->vm, .exec = c->init, .tty = c->record->tty, .stdin_fd = -1, .leaves = 1,
		/* A terminal has its keys for that; that of the caller going away is no end of the container. */
		.forward_signals = !c->record->tty
	};
	int interactive = with_stdin && c->record->interactive, keys, status;
	cchv_stdio_config *stdio;
	cchv_error *err = NULL;

	/* Keys pass through here only where a person may type the ones that leave. */
	keys = interactive && s.tty && isatty(STDIN_FILENO);
	if (session_begin(s.tty, interactive))
		return EXIT_OURS;
	stdio = session_stdio(s.tty, interactive && !keys);
	if (!stdio)
		return EXIT_OURS;
	if (keys && cchv_stdio_config_set_pipe(stdio, CCHV_STDIN) < 0) {
		status = fail("stdin: refused");
	} else if (cchv_exec_attach(c->init, stdio, CALL_MS, &err) < 0) {
		session_end();
		status = fail_error(err, "attach to '%s'", c->record->name);
	} else if (keys && cchv_exec_take_fd(c->init, CCHV_STDIN, &s.stdin_fd, &err) < 0) {
		session_end();
		status = fail_error(err, "attach to '%s'", c->record->name);
	} else {
		uint32_t rows, cols;

		s.detachable = keys;
		session_get_size(&rows, &cols);
		if (s.tty && rows)
			cchv_exec_resize_tty(c->init, rows, cols, CALL_MS, NULL);
		if (session_run(&s, &status) == SESSION_DETACHED) {
			cchv_exec_detach(c->init, NULL);
			status = 0;
		}
	}
	session_end();
	if (s.stdin_fd >= 0)
		close(s.stdin_fd);
	cchv_stdio_config_free(stdio);
	return status;
}

int attach_to(cchv_ctx *ctx, const char *name, int with_stdin)
{
	struct client c = { 0 };
	int r = client_open(ctx, name, &c);

	if (r == 0)
		r = attach(&c, with_stdin);
	client_close(&c);
	return r;
}

int cmd_attach(int argc, char **argv)
{
	int first = 1, with_stdin = 1, r;
	cchv_ctx *ctx;

	if (first < argc && strcmp(argv[first], "--no-stdin") == 0) {
		with_stdin = 0;
		first++;
	}
	if (argc - first != 1 || argv[first][0] == '-')
		return usage_error("attach", "exactly one container is needed");
	ctx = open_context();
	r = attach_to(ctx, argv[first], with_stdin);
	cchv_ctx_free(ctx);
	return r;
}
