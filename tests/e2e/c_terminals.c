/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals, and clients that attach and leave. Enters: a world. Leaves: nothing; the process ends where something is
 * wrong.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "c_world.h"

#define BOTH (STREAM(CCHV_STDIN) | STREAM(CCHV_STDOUT))

static void expect_size(int out, uint32_t rows, uint32_t cols)
{
	char line[64], want[64];

	snprintf(want, sizeof(want), "%u %u", rows, cols);
	wanted(read_line(out, line, sizeof(line)) > 0, "a size");
	wanted(strcmp(line, want) == 0, line);
}

/* The size is there with the first instruction; each change reaches the process. */
static void case_tty(struct world *w)
{
	static const uint32_t sizes[][2] = { { 37, 123 }, { 1, 1 }, { 65535, 65535 } };
	static const char *const once[] = { "probe", "size", "0", NULL };
	static const char *const twice[] = { "probe", "size", "2", NULL };
	static const char *const cat[] = { "cat", NULL };
	cchv_exec *exec;
	char text[64];
	int in, out;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		exec = run_on_terminal(w, once, BOTH, sizes[i][0], sizes[i][1]);
		snprintf(text, sizeof(text), "%u %u\r\n", sizes[i][0], sizes[i][1]);
		expect_text(take(exec, CCHV_STDOUT), text);
		expect_end(exec, 0, 0);
	}
	exec = run_on_terminal(w, twice, BOTH, 30, 90);
	out = take(exec, CCHV_STDOUT);
	expect_size(out, 30, 90);
	MUST(cchv_exec_resize_tty(exec, 50, 200, PATIENCE_MS, &err));
	expect_size(out, 50, 200);
	MUST(cchv_exec_resize_tty(exec, 1, 1, PATIENCE_MS, &err));
	expect_size(out, 1, 1);
	close(out);
	expect_end(exec, 0, 0);
	/* The end of the input is the terminal's end-of-file character. */
	exec = run_on_terminal(w, cat, BOTH, 24, 80);
	in = take(exec, CCHV_STDIN);
	wanted(write(in, "abc\n", 4) == 4, "write");
	out = take(exec, CCHV_STDOUT);
	wanted(read_line(out, text, sizeof(text)) == 3 && read_line(out, text, sizeof(text)) == 3, "echo and answer");
	close(in);
	expect_end(exec, 0, 0);
	close(out);
	REFUSED(cchv_exec_resize_tty(w->init, 10, 10, PATIENCE_MS, &err), CCHV_ERR_STATE, 0, "");
}

/* A client of its own, started anew: attaches to an exec, prints what it reads, COUNT lines, or all of it for 0. */
static void case_attach_client(struct world *w)
{
	cchv_container *container = NULL;
	cchv_stdio_config *stdio = NULL;
	cchv_exec *exec = NULL;
	char line[64];
	int out, code;

	MUST(cchv_vm_open(w->ctx, "attached", &w->vm, &err));
	MUST(cchv_vm_open_container(w->vm, "main", PATIENCE_MS, &container, &err));
	MUST(cchv_container_open_exec(container, "counter", PATIENCE_MS, &exec, &err));
	wanted(cchv_stdio_config_new(&stdio) == CCHV_OK, "config");
	wanted(cchv_stdio_config_set_pipe(stdio, CCHV_STDOUT) == CCHV_OK, "pipe");
	MUST(cchv_exec_attach(exec, stdio, PATIENCE_MS, &err));
	out = take(exec, CCHV_STDOUT);
	printf("attached\n");
	fflush(stdout);
	for (uint64_t i = 0; !w->count || i < w->count; i++) {
		if (read_line(out, line, sizeof(line)) < 0)
			break;
		printf("%s\n", line);
		fflush(stdout);
	}
	close(out);
	if (w->count) {
		MUST(cchv_exec_detach(exec, &err));
		MUST(cchv_exec_detach(exec, &err));
		wanted(cchv_exec_get_state(exec) == CCHV_EXEC_RUNNING, "it runs on");
	} else {
		MUST(cchv_exec_wait(exec, PATIENCE_MS, &code, NULL, &err));
		printf("code %d\n", code);
	}
	cchv_stdio_config_free(stdio);
	cchv_exec_free(exec);
	cchv_container_free(container);
	cchv_vm_free(w->vm);
}

/* A client of a process that has ended, whose record is still there. */
static void case_late_client(struct world *w)
{
	cchv_container *container = NULL;
	cchv_stdio_config *stdio = NULL;
	cchv_exec *exec = NULL;
	int code = -1;

	MUST(cchv_vm_open(w->ctx, "attached", &w->vm, &err));
	MUST(cchv_vm_open_container(w->vm, "main", PATIENCE_MS, &container, &err));
	MUST(cchv_container_open_exec(container, "counter", PATIENCE_MS, &exec, &err));
	wanted(cchv_exec_get_state(exec) == CCHV_EXEC_EXITED, "it has ended");
	wanted(strcmp(cchv_exec_get_id(exec), "counter") == 0, "its name");
	wanted(cchv_stdio_config_new(&stdio) == CCHV_OK, "config");
	wanted(cchv_stdio_config_set_pipe(stdio, CCHV_STDOUT) == CCHV_OK, "pipe");
	REFUSED(cchv_exec_attach(exec, stdio, PATIENCE_MS, &err), CCHV_ERR_STATE, 0, "'counter' does not run");
	MUST(cchv_exec_wait(exec, PATIENCE_MS, &code, NULL, &err));
	wanted(code == 6, "its code");
	cchv_stdio_config_free(stdio);
	cchv_container_free(container);
	cchv_vm_free(w->vm);
	cchv_exec_free(exec);
}

/* The client's process; its output is out's other end. */
static pid_t start_client(struct world *w, const char *name, const char *count, int *out)
{
	const char *const argv[] = { "/proc/self/exe", w->argv[0], w->argv[1], w->argv[2], "0", count, name, NULL };
	int fds[2];
	pid_t pid;

	wanted(pipe(fds) == 0, "pipe");
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], 1);
		close(fds[0]);
		close(fds[1]);
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	wanted(pid > 0, "fork");
	close(fds[1]);
	*out = fds[0];
	return pid;
}

/* The owner serves its VM until the client has ended: its status. */
static int serve_client(struct world *w, pid_t pid)
{
	uint64_t start = now_ms();
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		serve(w);
		wanted(now_ms() - start < PATIENCE_MS, "the client ends");
	}
	return status;
}

/* Until it has said that it is attached. */
static void await_client(struct world *w, int out)
{
	struct pollfd p = { .fd = out, .events = POLLIN };
	char line[32];

	for (uint64_t start = now_ms(); poll(&p, 1, 0) == 0;) {
		serve(w);
		wanted(now_ms() - start < PATIENCE_MS, "the client attaches");
	}
	wanted(read_line(out, line, sizeof(line)) > 0 && strcmp(line, "attached") == 0, "the client is attached");
}

/* Numbers that follow each other, after the last one that was seen: the last one of text. */
static long check_numbers(const char *text, long last, int gap_allowed)
{
	long first = 0;

	while (*text && *text != 'c') {
		char *end;
		long n = strtol(text, &end, 10);

		wanted(*end == '\n', text);
		wanted(first == 0 ? (gap_allowed ? n > last : n == last + 1) : n == last + 1, "numbers in a row");
		first = n;
		last = n;
		text = end + 1;
	}
	return last;
}

static cchv_exec *start_counter(struct world *w, const char *log)
{
	static const char script[] = "i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo $i; sleep 0.02; done; "
				     "echo $i > /tmp/last; exit 6";
	const char *const argv[] = { "sh", "-c", script };
	cchv_exec_config *config = NULL;
	cchv_stdio_config *stdio = NULL;
	cchv_exec *exec = NULL;

	wanted(cchv_exec_config_new(&config) == CCHV_OK && cchv_stdio_config_new(&stdio) == CCHV_OK, "config");
	wanted(cchv_exec_config_set_id(config, "counter") == CCHV_OK, "id");
	for (int i = 0; i < 3; i++)
		wanted(cchv_exec_config_add_arg(config, argv[i]) == CCHV_OK, "argument");
	wanted(cchv_stdio_config_set_log(stdio, CCHV_STDOUT, log, 0) == CCHV_OK, "log");
	wanted(cchv_exec_config_set_stdio(config, stdio) == CCHV_OK, "stdio");
	MUST(cchv_container_exec(w->container, config, PATIENCE_MS, &exec, &err));
	cchv_stdio_config_free(stdio);
	cchv_exec_config_free(config);
	return exec;
}

/* Clients come, leave and are killed while the workload runs on: each sees a row without a gap, and the log has all. */
static void case_attach(struct world *w)
{
	static char text[1 << 20];
	char log[4200], want[32];
	long last = 0, end;
	cchv_exec *exec;
	int out, fd, status;
	pid_t pid;

	snprintf(log, sizeof(log), "%s/counter.log", w->argv[1]);
	start_vm(w, "attached");
	exec = start_counter(w, log);
	for (int round = 0; round < 2; round++) {
		pid = start_client(w, "attach-client", "10", &out);
		await_client(w, out);
		status = serve_client(w, pid);
		wanted(status == 0, "a client that detaches");
		read_all(out, text, sizeof(text));
		last = check_numbers(text, last, 1);
	}
	pid = start_client(w, "attach-client", "1000000", &out);
	await_client(w, out);
	kill(pid, SIGKILL);
	serve_client(w, pid);
	close(out);
	pid = start_client(w, "attach-client", "0", &out);
	await_client(w, out);
	expect_end(run_script(w, "touch /tmp/enough", 0), 0, 0);
	status = serve_client(w, pid);
	wanted(status == 0, "a client that sees the end");
	read_all(out, text, sizeof(text));
	end = check_numbers(text, last, 1);
	wanted(strstr(text, "\ncode 6\n") != NULL, "the client's word of the end");
	pid = start_client(w, "late-client", "0", &out);
	wanted(serve_client(w, pid) == 0, "a client that comes late");
	close(out);
	expect_end(exec, 6, 0);
	snprintf(want, sizeof(want), "%ld\n", end);
	expect_script(w, "cat /tmp/last", want);
	fd = open(log, O_RDONLY | O_CLOEXEC);
	wanted(fd >= 0, "the log");
	read_all(fd, text, sizeof(text));
	wanted(check_numbers(text, 0, 0) == end, "the log has all");
	unlink(log);
	end_vm(w);
}

const struct c_case c_terminal_cases[] = {
	{ "tty", case_tty, 0 },
	{ "attach", case_attach, 1 },
	{ "attach-client", case_attach_client, 1 },
	{ "late-client", case_late_client, 1 },
	{ NULL, NULL, 0 },
};
