/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stdout: bytes through "cchv exec" against a raw vsock stream; and against one whose program writes into a pipe that
 * another one splices into the stream, which is what a container's stdout has to be.
 */
#include "bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES      (256ULL << 20)
#define PORT       5002
#define PIPED_PORT 5003

/* Read to the end; the rate in bytes per second from the first byte on, 0 when the count is wrong. */
static double drain(int fd)
{
	static char data[1 << 16];
	uint64_t total = 0, start = 0;
	ssize_t n;

	while ((n = read(fd, data, sizeof(data))) > 0) {
		if (!start)
			start = mono_ns();
		total += (uint64_t)n;
	}
	return total == BYTES ? (double)total * 1e9 / (double)(mono_ns() - start) : 0;
}

static double through_cli(struct bench *bench, const char *id)
{
	char state[96], runtime[96], bytes[24];
	const char *const argv[] = { bench->cli, "--state-dir",  state,   "--runtime-dir", runtime, "exec",
				     id,         "/bench-guest", "write", bytes,           NULL };
	posix_spawn_file_actions_t actions;
	double rate = 0;
	int fds[2], status = -1;
	pid_t pid;

	snprintf(state, sizeof(state), "%s/state", bench->directory);
	snprintf(runtime, sizeof(runtime), "%s/run", bench->directory);
	snprintf(bytes, sizeof(bytes), "%llu", BYTES);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return 0;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	if (posix_spawn(&pid, bench->cli, &actions, NULL, (char *const *)argv, environ) == 0) {
		close(fds[1]);
		rate = drain(fds[0]);
		waitpid(pid, &status, 0);
	} else {
		close(fds[1]);
	}
	posix_spawn_file_actions_destroy(&actions);
	close(fds[0]);
	return status == 0 ? rate : 0;
}

static double raw(struct bench *bench, const char *id, unsigned int port)
{
	char bytes[24];
	int n = snprintf(bytes, sizeof(bytes), "%llu\n", BYTES), fd = vm_dial(bench, id, port);
	double rate = 0;

	if (fd >= 0 && write(fd, bytes, (size_t)n) == n)
		rate = drain(fd);
	if (fd >= 0)
		close(fd);
	return rate;
}

int case_stdout(struct bench *bench)
{
	struct figure f = { .name = "stdout",
			    .what = "stdout through the CLI / a raw vsock stream",
			    .unit = "ratio",
			    .target = 0.8,
			    .at_least = 1,
			    .a_name = "CLI",
			    .b_name = "raw",
			    .samples_unit = "bytes/s" };
	struct figure piped = { .name = "stdout-piped",
				.what = "stdout through the CLI / a vsock stream behind a pipe",
				.unit = "ratio",
				.target = 0.8,
				.at_least = 1,
				.a_name = "CLI",
				.b_name = "piped",
				.samples_unit = "bytes/s" };
	char id[64] = "";
	cchv_vm *vm = vm_start(bench, "bench-stdout", 1);
	cchv_exec *server = vm ? vm_serve(vm, "source", "5002") : NULL;
	cchv_exec *piper = server ? vm_serve(vm, "piped", "5003") : NULL;
	int r = piper && container_start(bench, id, sizeof(id)) == 0 ? 0 : -1;

	for (int i = 0; i < bench->runs && r == 0; i++) {
		double a = through_cli(bench, id), b = raw(bench, "bench-stdout", PORT);
		double c = raw(bench, "bench-stdout", PIPED_PORT);

		samples_add(&f.a, a);
		samples_add(&f.b, b);
		samples_add(&piped.a, a);
		samples_add(&piped.b, c);
		if (a <= 0 || b <= 0 || c <= 0)
			r = complain("a stream did not arrive whole", NULL);
	}
	if (*id)
		container_end(bench, id);
	cchv_exec_free(piper);
	cchv_exec_free(server);
	cchv_vm_free(vm);
	if (r < 0)
		return r;
	f.value = samples_ratio(&f.a, &f.b);
	result_add(&f);
	piped.value = samples_ratio(&piped.a, &piped.b);
	result_add(&piped);
	return 0;
}
