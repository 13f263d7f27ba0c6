/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library from C, on real VMs: exact streams by their own sockets, twenty processes from twenty threads, an
 * event loop of one's own, handles freed in any order. Enters: STATE RUN IMAGE CASE. Leaves: 0, or 1 and a line.
 */
#include <cchv/cchv.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define K 0x9E3779B97F4A7C15ULL

struct world {
	cchv_ctx *ctx;
	cchv_image *image;
	cchv_vm *vm;
	cchv_container *container;
	cchv_exec *init;
};

static void die(const char *what, cchv_error *err)
{
	fprintf(stderr, "%s: %s\n", what, err ? cchv_error_message(err) : "wrong");
	exit(1);
}

#define MUST(call)                     \
	do {                           \
		cchv_error *err = NULL; \
		if ((call) < 0)        \
			die(#call, err); \
	} while (0)

static void wanted(int condition, const char *what)
{
	if (!condition)
		die(what, NULL);
}

static void start_world(struct world *w, char **argv)
{
	cchv_container_config *settings = NULL;
	cchv_vm_config *config = NULL;

	MUST(cchv_ctx_new(&w->ctx, &err));
	wanted(cchv_ctx_set_state_dir(w->ctx, argv[1]) == CCHV_OK, "state directory");
	wanted(cchv_ctx_set_runtime_dir(w->ctx, argv[2]) == CCHV_OK, "runtime directory");
	MUST(cchv_image_open(w->ctx, argv[3], &w->image, &err));
	wanted(cchv_vm_config_new(&config) == CCHV_OK, "config");
	wanted(cchv_vm_config_set_memory(config, 256 << 20) == CCHV_OK, "memory");
	MUST(cchv_vm_create(w->ctx, config, 60000, &w->vm, &err));
	MUST(cchv_container_config_new_from_image("main", w->image, &settings, &err));
	wanted(cchv_container_config_add_arg(settings, "sleep") == CCHV_OK, "argument");
	wanted(cchv_container_config_add_arg(settings, "1000000") == CCHV_OK, "argument");
	MUST(cchv_container_create(w->vm, settings, 60000, &w->container, &err));
	MUST(cchv_vm_boot(w->vm, 90000, &err));
	MUST(cchv_container_start(w->container, NULL, 60000, &w->init, &err));
	cchv_container_config_free(settings);
	cchv_vm_config_free(config);
}

/* Children keep their parents: any order of free is right. */
static void end_world(struct world *w)
{
	MUST(cchv_vm_shutdown(w->vm, 60000, &err));
	MUST(cchv_container_delete(w->container, 30000, &err));
	cchv_ctx_free(w->ctx);
	cchv_vm_free(w->vm);
	cchv_image_free(w->image);
	cchv_container_free(w->container);
	wanted(cchv_exec_signal(w->init, 15, CCHV_SIGNAL_GROUP, 1000, NULL) < 0,
	       "a handle of a VM that is gone says so");
	cchv_exec_free(w->init);
}

static cchv_exec *run(struct world *w, const char *const *argv, int pipes)
{
	cchv_exec_config *config = NULL;
	cchv_stdio_config *stdio = NULL;
	cchv_exec *exec = NULL;

	wanted(cchv_exec_config_new(&config) == CCHV_OK && cchv_stdio_config_new(&stdio) == CCHV_OK, "config");
	for (; *argv; argv++)
		wanted(cchv_exec_config_add_arg(config, *argv) == CCHV_OK, "argument");
	for (int stream = 0; stream < 3; stream++)
		if (pipes & 1 << stream)
			wanted(cchv_stdio_config_set_pipe(stdio, stream) == CCHV_OK, "pipe");
	wanted(cchv_exec_config_set_stdio(config, stdio) == CCHV_OK, "stdio");
	MUST(cchv_container_exec(w->container, config, 60000, &exec, &err));
	cchv_stdio_config_free(stdio);
	cchv_exec_config_free(config);
	return exec;
}

static int take(cchv_exec *exec, int stream)
{
	int fd = -1;

	MUST(cchv_exec_take_fd(exec, stream, &fd, &err));
	return fd;
}

static void expect_end(cchv_exec *exec, int want_code, int want_signal)
{
	int code, sig;

	MUST(cchv_exec_wait(exec, 120000, &code, &sig, &err));
	if (code != want_code || sig != want_signal) {
		fprintf(stderr, "code %d signal %d, not %d and %d\n", code, sig, want_code, want_signal);
		exit(1);
	}
	MUST(cchv_exec_delete(exec, 10000, &err));
	cchv_exec_free(exec);
}

static uint64_t check_pattern(int fd, uint64_t seed)
{
	static unsigned char data[1 << 16];
	uint64_t at = 0;
	ssize_t n;

	while ((n = read(fd, data, sizeof(data))) > 0)
		for (ssize_t i = 0; i < n; i++, at++) {
			uint64_t word = (at / 8 + seed) * K;

			if (((unsigned char *)&word)[at % 8] != data[i]) {
				fprintf(stderr, "wrong byte at %llu\n", (unsigned long long)at);
				exit(1);
			}
		}
	wanted(n == 0, "end of the stream");
	return at;
}

static void send_pattern(int fd, uint64_t bytes, uint64_t seed)
{
	uint64_t words[8192];

	for (uint64_t at = 0; at < bytes; at += sizeof(words)) {
		const char *p = (const char *)words;
		size_t left = sizeof(words);

		for (size_t i = 0; i < 8192; i++)
			words[i] = (at / 8 + i + seed) * K;
		while (left) {
			ssize_t n = write(fd, p, left);

			wanted(n > 0, "write");
			p += n;
			left -= (size_t)n;
		}
	}
}

static void case_streams(struct world *w, uint64_t bytes)
{
	char size[24], line[64];
	const char *const gen[] = { "probe", "gen", size, "3", NULL };
	const char *const sink[] = { "probe", "check", "4", NULL };
	cchv_exec *exec;
	ssize_t n;
	int in, out;

	snprintf(size, sizeof(size), "%llu", (unsigned long long)bytes);
	exec = run(w, gen, 1 << CCHV_STDOUT);
	out = take(exec, CCHV_STDOUT);
	wanted(check_pattern(out, 3) == bytes, "length of stdout");
	close(out);
	expect_end(exec, 0, 0);

	exec = run(w, sink, 1 << CCHV_STDIN | 1 << CCHV_STDOUT);
	in = take(exec, CCHV_STDIN);
	out = take(exec, CCHV_STDOUT);
	send_pattern(in, bytes, 4);
	close(in); /* the end of the input */
	n = read(out, line, sizeof(line) - 1);
	wanted(n > 0, "an answer");
	line[n] = '\0';
	strcat(size, " ok\n");
	wanted(strcmp(line, size) == 0, line);
	close(out);
	expect_end(exec, 0, 0);
}

struct worker {
	struct world *w;
	int number;
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	char script[64], line[64] = "", want[64];
	const char *const words[] = { "sh", "-c", script, NULL };
	size_t len = 0;
	cchv_exec *exec;
	ssize_t n;
	int out;

	for (int i = 0; i < 3; i++) {
		snprintf(script, sizeof(script), "echo last %d %d; exit %d", worker->number, i, worker->number);
		snprintf(want, sizeof(want), "last %d %d\n", worker->number, i);
		exec = run(worker->w, words, 1 << CCHV_STDOUT);
		out = take(exec, CCHV_STDOUT);
		for (len = 0; (n = read(out, line + len, sizeof(line) - 1 - len)) > 0;)
			len += (size_t)n;
		line[len] = '\0';
		wanted(strcmp(line, want) == 0, line);
		close(out);
		expect_end(exec, worker->number, 0);
	}
	return NULL;
}

static void case_threads(struct world *w)
{
	pthread_t threads[20];
	struct worker workers[20];

	for (int i = 0; i < 20; i++) {
		workers[i] = (struct worker){ w, i };
		wanted(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "thread");
	}
	for (int i = 0; i < 20; i++)
		pthread_join(threads[i], NULL);
}

/* A loop of our own over the VM's fd: the end of each process arrives as an event. */
static void case_loop(struct world *w)
{
	const char *const words[] = { "sh", "-c", "exit 9", NULL };
	struct pollfd p = { .fd = cchv_vm_get_fd(w->vm), .events = POLLIN };
	cchv_exec *execs[5];
	int ended = 0;

	for (int i = 0; i < 5; i++)
		execs[i] = run(w, words, 0);
	while (ended < 5) {
		cchv_event *event;

		wanted(poll(&p, 1, 60000) == 1, "an event in time");
		MUST(cchv_vm_dispatch(w->vm, &err));
		while (cchv_vm_next_event(w->vm, &event) > 0) {
			if (cchv_event_get_type(event) == CCHV_EVENT_EXEC_EXITED) {
				wanted(cchv_event_get_exit_code(event) == 9, "exit code of an event");
				ended++;
			}
			cchv_event_free(event);
		}
	}
	for (int i = 0; i < 5; i++)
		expect_end(execs[i], 9, 0);
	wanted(cchv_vm_get_fd(w->vm) == p.fd, "the fd is the same");
}

/* Only _free is allowed in a child: everything else says so, and the parent's VM goes on. */
static void case_fork(struct world *w)
{
	const char *const words[] = { "true", NULL };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		cchv_error *err = NULL;
		int r = cchv_exec_wait(w->init, 0, NULL, NULL, &err);

		cchv_error_free(err);
		cchv_exec_free(w->init);
		cchv_container_free(w->container);
		cchv_vm_free(w->vm);
		_exit(r == CCHV_ERR_FORKED ? 0 : 1);
	}
	wanted(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child");
	expect_end(run(w, words, 0), 0, 0);
}

int main(int argc, char **argv)
{
	struct world w = { 0 };

	if (argc != 6)
		return 2;
	start_world(&w, argv);
	if (strcmp(argv[4], "streams") == 0)
		case_streams(&w, strtoull(argv[5], NULL, 10));
	else if (strcmp(argv[4], "threads") == 0)
		case_threads(&w);
	else if (strcmp(argv[4], "loop") == 0)
		case_loop(&w);
	else if (strcmp(argv[4], "fork") == 0)
		case_fork(&w);
	else
		return 2;
	end_world(&w);
	return 0;
}
