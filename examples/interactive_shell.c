/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shell on this terminal, in a container of a VM that already runs ("cchv run -d --name web ..." made one):
 * a client, not the owner. Usage: interactive_shell VM [SHELL]
 */
#include <cchv/cchv.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define MINUTE 60000

static struct termios saved;
static volatile sig_atomic_t resized;

static void on_winch(int number)
{
	(void)number;
	resized = 1;
}

static void restore(void)
{
	tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
}

/* err by its address: a call and its error stand side by side among the arguments, in no order. */
static void check(int r, cchv_error **err, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %s\r\n", what, err ? cchv_error_message(*err) : cchv_err_text(r));
	exit(125);
}

int main(int argc, char **argv)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	struct sigaction winch = { .sa_handler = on_winch };
	cchv_exec_config *settings;
	cchv_stdio_config *stdio;
	int code, sig, r;
	cchv_error *err;
	struct termios raw;
	cchv_exec *shell;
	cchv_ctx *ctx;
	cchv_vm *vm;

	if (argc < 2 || tcgetattr(STDIN_FILENO, &saved) < 0) {
		fprintf(stderr, "usage, on a terminal: %s VM [SHELL]\n", argv[0]);
		return 2;
	}
	check(cchv_ctx_new(&ctx, &err), &err, "context");
	if (getenv("CCHV_STATE_DIR"))
		check(cchv_ctx_set_state_dir(ctx, getenv("CCHV_STATE_DIR")), NULL, "CCHV_STATE_DIR");
	if (getenv("CCHV_RUNTIME_DIR"))
		check(cchv_ctx_set_runtime_dir(ctx, getenv("CCHV_RUNTIME_DIR")), NULL, "CCHV_RUNTIME_DIR");
	check(cchv_vm_open(ctx, argv[1], &vm, &err), &err, argv[1]);

	ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	check(cchv_stdio_config_new(&stdio), NULL, "streams");
	check(cchv_stdio_config_set_fd(stdio, CCHV_STDIN, STDIN_FILENO), NULL, "stdin");
	check(cchv_stdio_config_set_fd(stdio, CCHV_STDOUT, STDOUT_FILENO), NULL, "stdout");
	check(cchv_exec_config_new(&settings), NULL, "settings");
	check(cchv_exec_config_add_arg(settings, argc > 2 ? argv[2] : "/bin/sh"), NULL, "shell");
	check(cchv_exec_config_set_tty(settings, size.ws_row, size.ws_col), NULL, "terminal");
	check(cchv_exec_config_set_stdio(settings, stdio), NULL, "streams");

	sigaction(SIGWINCH, &winch, NULL);
	raw = saved;
	cfmakeraw(&raw);
	atexit(restore);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	check(cchv_vm_exec(vm, settings, MINUTE, &shell, &err), &err, "shell");

	/* A signal ends the poll; a new size is passed on, and the VM is served. */
	while ((r = cchv_exec_wait(shell, 0, &code, &sig, &err)) == CCHV_ERR_TIMEOUT) {
		struct pollfd p = { .fd = cchv_vm_get_fd(vm), .events = POLLIN };
		cchv_event *event;

		cchv_error_free(err);
		poll(&p, 1, -1);
		if (resized && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
			cchv_exec_resize_tty(shell, size.ws_row, size.ws_col, 1000, NULL);
		resized = 0;
		check(cchv_vm_dispatch(vm, &err), &err, "serve");
		while (cchv_vm_next_event(vm, &event) > 0)
			cchv_event_free(event);
	}
	check(r, &err, "wait");
	cchv_exec_free(shell);
	cchv_exec_config_free(settings);
	cchv_stdio_config_free(stdio);
	cchv_vm_free(vm);
	cchv_ctx_free(ctx);
	return sig ? 128 + sig : code;
}
