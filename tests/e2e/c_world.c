/* SPDX-License-Identifier: Apache-2.0 */
/* See c_world.h. Enters: STATE RUN IMAGE of the test. Leaves: handles of a VM, a container, its processes. */
#include "c_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *current_case = "the beginning";

void die(const char *what, cchv_error *err)
{
	fprintf(stderr, "%s: %s: %s\n", current_case, what, err ? cchv_error_message(err) : "wrong");
	exit(1);
}

void wanted(int condition, const char *what)
{
	if (!condition)
		die(what, NULL);
}

void check_refusal(const char *call, int result, int want_code, int want_errno, const char *part, cchv_error *err)
{
	const char *message = err ? cchv_error_message(err) : "";

	if (result != want_code || !err || cchv_error_code(err) != want_code ||
	    (want_errno && cchv_error_errno(err) != want_errno) || !strstr(message, part) || strchr(message, '\n')) {
		fprintf(stderr, "%s: %s: %d (%s, errno %d, '%s') in place of %s, errno %d, '%s'\n", current_case, call,
		        result, cchv_err_name(result), err ? cchv_error_errno(err) : 0, message,
		        cchv_err_name(want_code), want_errno, part);
		exit(1);
	}
	cchv_error_free(err);
}

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void open_world(struct world *w, char **argv)
{
	w->argv = argv;
	MUST(cchv_ctx_new(&w->ctx, &err));
	wanted(cchv_ctx_set_state_dir(w->ctx, argv[0]) == CCHV_OK, "state directory");
	wanted(cchv_ctx_set_runtime_dir(w->ctx, argv[1]) == CCHV_OK, "runtime directory");
	MUST(cchv_image_open(w->ctx, argv[2], &w->image, &err));
}

void start_vm(struct world *w, const char *id)
{
	static const char *const args[] = { "sh", "-c", "while :; do sleep 0.2; done" };
	cchv_container_config *settings = NULL;
	cchv_vm_config *config = NULL;

	wanted(cchv_vm_config_new(&config) == CCHV_OK, "config");
	wanted(cchv_vm_config_set_memory(config, 256 << 20) == CCHV_OK, "memory");
	wanted(!id || cchv_vm_config_set_id(config, id) == CCHV_OK, "id");
	MUST(cchv_vm_create(w->ctx, config, PATIENCE_MS, &w->vm, &err));
	MUST(cchv_container_config_new_from_image("main", w->image, &settings, &err));
	for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)
		wanted(cchv_container_config_add_arg(settings, args[i]) == CCHV_OK, "argument");
	MUST(cchv_container_create(w->vm, settings, PATIENCE_MS, &w->container, &err));
	MUST(cchv_vm_boot(w->vm, 90000, &err));
	MUST(cchv_container_start(w->container, NULL, PATIENCE_MS, &w->init, &err));
	cchv_container_config_free(settings);
	cchv_vm_config_free(config);
}

void end_vm(struct world *w)
{
	MUST(cchv_vm_shutdown(w->vm, PATIENCE_MS, &err));
	MUST(cchv_container_delete(w->container, 30000, &err));
	cchv_vm_free(w->vm);
	cchv_container_free(w->container);
	wanted(cchv_exec_signal(w->init, 15, CCHV_SIGNAL_GROUP, 1000, NULL) < 0,
	       "a handle of a VM that is gone says so");
	cchv_exec_free(w->init);
}

void close_world(struct world *w)
{
	cchv_ctx_free(w->ctx);
	cchv_image_free(w->image);
}

void serve(struct world *w)
{
	cchv_event *event;

	MUST(cchv_vm_poll(w->vm, 50, &err));
	while (cchv_vm_next_event(w->vm, &event) > 0)
		cchv_event_free(event);
}

cchv_exec *run(struct world *w, const char *const *argv, int pipes)
{
	return run_on_terminal(w, argv, pipes, 0, 0);
}

cchv_exec *run_on_terminal(struct world *w, const char *const *argv, int pipes, uint32_t rows, uint32_t cols)
{
	cchv_exec_config *config = NULL;
	cchv_stdio_config *stdio = NULL;
	cchv_exec *exec = NULL;

	wanted(cchv_exec_config_new(&config) == CCHV_OK && cchv_stdio_config_new(&stdio) == CCHV_OK, "config");
	for (; *argv; argv++)
		wanted(cchv_exec_config_add_arg(config, *argv) == CCHV_OK, "argument");
	for (int stream = 0; stream < 3; stream++)
		if (pipes & STREAM(stream))
			wanted(cchv_stdio_config_set_pipe(stdio, stream) == CCHV_OK, "pipe");
	wanted(!rows || cchv_exec_config_set_tty(config, rows, cols) == CCHV_OK, "terminal");
	wanted(cchv_exec_config_set_stdio(config, stdio) == CCHV_OK, "stdio");
	MUST(cchv_container_exec(w->container, config, PATIENCE_MS, &exec, &err));
	cchv_stdio_config_free(stdio);
	cchv_exec_config_free(config);
	return exec;
}

cchv_exec *run_script(struct world *w, const char *script, int pipes)
{
	const char *const argv[] = { "sh", "-c", script, NULL };

	return run(w, argv, pipes);
}

int take(cchv_exec *exec, int stream)
{
	int fd = -1;

	MUST(cchv_exec_take_fd(exec, stream, &fd, &err));
	return fd;
}

size_t read_all(int fd, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n = 1;

	while (len < size - 1 && (n = read(fd, text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	wanted(n >= 0, "read");
	text[len] = '\0';
	close(fd);
	return len;
}

int read_line(int fd, char *line, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size - 1) {
		n = read(fd, line + len, 1);
		wanted(n >= 0, "read");
		if (n == 0)
			return -1;
		if (line[len] == '\n')
			break;
		len++;
	}
	if (len && line[len - 1] == '\r')
		len--;
	line[len] = '\0';
	return (int)len;
}

void expect_text(int fd, const char *text)
{
	char found[4096];

	read_all(fd, found, sizeof(found));
	if (strcmp(found, text) != 0) {
		fprintf(stderr, "%s: '%s' in place of '%s'\n", current_case, found, text);
		exit(1);
	}
}

void expect_end(cchv_exec *exec, int want_code, int want_signal)
{
	int code, sig;

	MUST(cchv_exec_wait(exec, 120000, &code, &sig, &err));
	if (code != want_code || sig != want_signal) {
		fprintf(stderr, "%s: code %d signal %d, not %d and %d\n", current_case, code, sig, want_code,
		        want_signal);
		exit(1);
	}
	MUST(cchv_exec_delete(exec, 10000, &err));
	cchv_exec_free(exec);
}

void expect_script(struct world *w, const char *script, const char *output)
{
	cchv_exec *exec = run_script(w, script, STREAM(CCHV_STDOUT));

	expect_text(take(exec, CCHV_STDOUT), output);
	expect_end(exec, 0, 0);
}

int vmm_pid(struct world *w, cchv_vm *vm)
{
	char path[4200], text[16384], *at;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s/vm.json", w->argv[1], cchv_vm_get_id(vm));
	file = fopen(path, "re");
	wanted(file != NULL, path);
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	at = strstr(text, "\"vmm\"");
	at = at ? strstr(at, "\"pid\"") : NULL;
	at = at ? strchr(at, ':') : NULL;
	wanted(at != NULL, "the VMM's pid");
	return atoi(at + 1);
}

uint64_t anonymous_bytes(int pid)
{
	char path[64], line[256];
	uint64_t kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	wanted(file != NULL, path);
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, "RssAnon:", 8) == 0)
			kib = strtoull(line + 8, NULL, 10);
	fclose(file);
	return kib * 1024;
}
