/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of processes: exact in both directions, slow readers, ends of input, /dev/null. Enters: a world. Leaves:
 * nothing; the process ends where something is wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "c_world.h"

static uint64_t check_pattern(int fd, uint64_t at, uint64_t seed)
{
	static unsigned char data[1 << 16];
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

static cchv_exec *run_gen(struct world *w, uint64_t bytes, const char *seed)
{
	char size[24];
	const char *const gen[] = { "probe", "gen", size, seed, NULL };

	snprintf(size, sizeof(size), "%llu", (unsigned long long)bytes);
	return run(w, gen, STREAM(CCHV_STDOUT));
}

static void case_streams(struct world *w)
{
	const char *const sink[] = { "probe", "check", "4", NULL };
	char text[64];
	cchv_exec *exec;
	int fd;

	exec = run_gen(w, w->bytes, "3");
	fd = take(exec, CCHV_STDOUT);
	wanted(check_pattern(fd, 0, 3) == w->bytes, "length of stdout");
	close(fd);
	expect_end(exec, 0, 0);

	exec = run(w, sink, STREAM(CCHV_STDIN) | STREAM(CCHV_STDOUT));
	fd = take(exec, CCHV_STDIN);
	send_pattern(fd, w->bytes, 4);
	close(fd); /* the end of the input */
	snprintf(text, sizeof(text), "%llu ok\n", (unsigned long long)w->bytes);
	expect_text(take(exec, CCHV_STDOUT), text);
	expect_end(exec, 0, 0);
}

/* What a reader does not take stays where it is: in bounded memory of everybody, and in nobody's way. */
static void slow_reader(struct world *w)
{
	uint64_t before, others = anonymous_bytes(vmm_pid(w, w->vm)), start;
	unsigned char first[100];
	cchv_exec *exec;
	int fd;

	expect_script(w, "echo x", "x\n"); /* what the first of all needs is there */
	before = anonymous_bytes(getpid());
	exec = run_gen(w, w->bytes, "5");
	fd = take(exec, CCHV_STDOUT);
	for (size_t n = 0; n < sizeof(first);) {
		ssize_t got = read(fd, first + n, sizeof(first) - n);

		wanted(got > 0, "the first bytes");
		n += (size_t)got;
	}
	start = now_ms();
	for (int i = 0; i < 5; i++)
		expect_script(w, "echo x", "x\n");
	wanted(now_ms() - start < 50000, "five short processes took too long");
	wanted(anonymous_bytes(getpid()) < before + (8 << 20), "the owner's memory");
	wanted(anonymous_bytes(vmm_pid(w, w->vm)) < others + (32 << 20), "the VMM's memory");
	wanted(cchv_exec_get_state(exec) == CCHV_EXEC_RUNNING, "the writer waits");
	wanted(check_pattern(fd, sizeof(first), 5) == w->bytes, "all of it in the end");
	close(fd);
	expect_end(exec, 0, 0);
}

/* A stream that the library pumps to an fd: a reader that stalls does not stall a call. */
static void slow_reader_of_an_fd(struct world *w)
{
	cchv_exec_config *config = NULL;
	cchv_stdio_config *stdio = NULL;
	cchv_exec *exec = NULL;
	char size[24];
	const char *const argv[] = { "probe", "gen", size, "6" };
	int fds[2];
	uint64_t before = anonymous_bytes(getpid());

	snprintf(size, sizeof(size), "%llu", (unsigned long long)w->bytes);
	wanted(pipe(fds) == 0, "pipe");
	wanted(cchv_exec_config_new(&config) == CCHV_OK && cchv_stdio_config_new(&stdio) == CCHV_OK, "config");
	for (int i = 0; i < 4; i++)
		wanted(cchv_exec_config_add_arg(config, argv[i]) == CCHV_OK, "argument");
	wanted(cchv_stdio_config_set_fd(stdio, CCHV_STDOUT, fds[1]) == CCHV_OK, "fd");
	wanted(cchv_exec_config_set_stdio(config, stdio) == CCHV_OK, "stdio");
	MUST(cchv_container_exec(w->container, config, PATIENCE_MS, &exec, &err));
	cchv_stdio_config_free(stdio);
	cchv_exec_config_free(config);
	close(fds[1]);
	for (int i = 0; i < 3; i++)
		expect_script(w, "echo x", "x\n");
	REFUSED(cchv_exec_wait(exec, 2000, NULL, NULL, &err), CCHV_ERR_TIMEOUT, 0, "");
	wanted(anonymous_bytes(getpid()) < before + (8 << 20), "the owner's memory");
	/* A reader that leaves is a loss, and no signal for anybody. */
	close(fds[0]);
	expect_end(exec, 0, 0);
}

/* What was not asked for is /dev/null. */
static void case_null(struct world *w)
{
	static const char script[] = "cat; all=$(for i in 0 1 2; do readlink /proc/$$/fd/$i; done); "
				     "echo $all > /tmp/null; exit 3";

	expect_end(run_script(w, script, 0), 3, 0);
	expect_script(w, "cat /tmp/null", "/dev/null /dev/null /dev/null\n");
	expect_end(run_script(w, "test /dev/null = $(readlink /proc/$$/fd/1)", STREAM(CCHV_STDERR)), 0, 0);
}

static void give(cchv_exec *exec, size_t bytes)
{
	static char data[1 << 16];
	int fd = take(exec, CCHV_STDIN);

	while (bytes) {
		ssize_t n = write(fd, data, bytes < sizeof(data) ? bytes : sizeof(data));

		wanted(n > 0, "write");
		bytes -= (size_t)n;
	}
	close(fd);
}

/* The end of the input comes once, after the last byte, whatever the length; and by an fd of ours as well. */
static void case_end_of_input(struct world *w)
{
	static const size_t lengths[] = { 0, 1, 4095, 4096, 65535, 65537, 1 << 20 };
	static const char *const argv[] = { "probe", "eof", NULL };
	char text[64];

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		cchv_exec *exec = run(w, argv, STREAM(CCHV_STDIN) | STREAM(CCHV_STDOUT));

		give(exec, lengths[i]);
		snprintf(text, sizeof(text), "%zu eof eof\n", lengths[i]);
		expect_text(take(exec, CCHV_STDOUT), text);
		expect_end(exec, 0, 0);
	}
}

/* Input that is pumped from an fd of ours ends with it, or by close_stdin: counted, nothing cut off. */
static void case_counted_input(struct world *w, uint64_t by_close)
{
	static const char *const argv[] = { "probe", "eof" };
	cchv_exec_config *config = NULL;
	cchv_stdio_config *stdio = NULL;
	cchv_exec *exec = NULL;
	char data[50000] = "";
	int in[2], out[2];

	wanted(pipe(in) == 0 && pipe(out) == 0, "pipe");
	wanted(cchv_exec_config_new(&config) == CCHV_OK && cchv_stdio_config_new(&stdio) == CCHV_OK, "config");
	for (int i = 0; i < 2; i++)
		wanted(cchv_exec_config_add_arg(config, argv[i]) == CCHV_OK, "argument");
	wanted(cchv_stdio_config_set_fd(stdio, CCHV_STDIN, in[0]) == CCHV_OK, "stdin");
	wanted(cchv_stdio_config_set_fd(stdio, CCHV_STDOUT, out[1]) == CCHV_OK, "stdout");
	wanted(cchv_exec_config_set_stdio(config, stdio) == CCHV_OK, "stdio");
	MUST(cchv_container_exec(w->container, config, PATIENCE_MS, &exec, &err));
	cchv_stdio_config_free(stdio);
	cchv_exec_config_free(config);
	close(in[0]);
	close(out[1]);
	wanted(write(in[1], data, sizeof(data)) == (ssize_t)sizeof(data), "write");
	if (by_close) {
		cchv_stats *stats = NULL;
		int64_t index = -1;

		/* Its bytes are on their way before the end is asked for: what is in the pipe is not part of it. */
		for (uint64_t start = now_ms(); index < 0; cchv_stats_free(stats)) {
			serve(w);
			MUST(cchv_exec_get_stats(exec, &stats, &err));
			for (int i = 0; i < cchv_stats_get_count(stats); i++)
				if (strcmp(cchv_stats_get_name(stats, i), "stdin.bytes") == 0 &&
				    cchv_stats_get_value(stats, i) == sizeof(data))
					index = i;
			wanted(now_ms() - start < PATIENCE_MS, "the input is moved");
		}
		MUST(cchv_exec_close_stdin(exec, &err));
		MUST(cchv_exec_close_stdin(exec, &err)); /* and once */
	} else {
		close(in[1]);
	}
	expect_end(exec, 0, 0);
	expect_text(out[0], "50000 eof eof\n");
	if (by_close)
		close(in[1]);
}

static void case_input(struct world *w)
{
	case_null(w);
	case_end_of_input(w);
	case_counted_input(w, 0);
	case_counted_input(w, 1);
}

static void case_slow(struct world *w)
{
	slow_reader(w);
	slow_reader_of_an_fd(w);
}

const struct c_case c_stream_cases[] = {
	{ "streams", case_streams, 0 },
	{ "slow", case_slow, 0 },
	{ "input", case_input, 0 },
	{ NULL, NULL, 0 },
};
