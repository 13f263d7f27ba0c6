/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: a pattern whose every 8 bytes say where they belong, so that a byte that is lost, doubled or
 * moved is found with its place. Word i of the pattern with seed s is (i + s) * K.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

#define K     0x9E3779B97F4A7C15ULL
#define CHUNK 65536

static void fill(uint64_t *words, uint64_t first, uint64_t seed, size_t count)
{
	for (size_t i = 0; i < count; i++)
		words[i] = (first + i + seed) * K;
}

static void generate(int fd, uint64_t bytes, uint64_t seed)
{
	uint64_t words[CHUNK / 8], at = 0;

	while (at < bytes) {
		size_t n = bytes - at < CHUNK ? (size_t)(bytes - at) : CHUNK;

		fill(words, at / 8, seed, CHUNK / 8);
		probe_write(fd, words, n);
		at += n;
	}
}

/* gen BYTES [SEED [FD]] */
static int run_gen(int argc, char **argv)
{
	generate(argc > 3 ? (int)probe_number(argv[3]) : 1, probe_number(argv[1]),
		 argc > 2 ? probe_number(argv[2]) : 0);
	return 0;
}

/* gen2 BYTES: seed 1 on stdout and seed 2 on stderr, in turns of odd sizes */
static int run_gen2(int argc, char **argv)
{
	uint64_t bytes = probe_number(argv[1]), at = 0;
	uint64_t one[CHUNK / 8], two[CHUNK / 8];

	(void)argc;
	while (at < bytes) {
		size_t n = bytes - at < CHUNK ? (size_t)(bytes - at) : CHUNK, cut = n / 3;

		fill(one, at / 8, 1, CHUNK / 8);
		fill(two, at / 8, 2, CHUNK / 8);
		probe_write(1, one, cut);
		probe_write(2, two, n);
		probe_write(1, (char *)one + cut, n - cut);
		at += n;
	}
	return 0;
}

/* Read to the end; *ret_bad is the place of the first wrong byte, or -1. */
static uint64_t check(int fd, uint64_t seed, int64_t *ret_bad, unsigned int pause_us)
{
	unsigned char data[CHUNK];
	uint64_t at = 0;
	ssize_t n;

	*ret_bad = -1;
	while ((n = read(fd, data, sizeof(data))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			probe_die("read");
		for (ssize_t i = 0; i < n && *ret_bad < 0; i++, at++) {
			uint64_t word = (at / 8 + seed) * K;

			if (((unsigned char *)&word)[at % 8] != data[i]) {
				*ret_bad = (int64_t)at;
				at += (uint64_t)(n - i);
				goto next;
			}
		}
		if (*ret_bad >= 0)
			at += (uint64_t)n;
next:
		if (pause_us)
			usleep(pause_us);
	}
	return at;
}

/* check [SEED [PAUSE_US]]: "BYTES ok" or "BYTES bad AT" on stdout, code 0 or 1 */
static int run_check(int argc, char **argv)
{
	int64_t bad;
	uint64_t bytes = check(0, argc > 1 ? probe_number(argv[1]) : 0, &bad,
			       argc > 2 ? (unsigned int)probe_number(argv[2]) : 0);

	if (bad < 0)
		printf("%llu ok\n", (unsigned long long)bytes);
	else
		printf("%llu bad %lld\n", (unsigned long long)bytes, (long long)bad);
	return bad >= 0;
}

/* eof: count the bytes of stdin, and look that its end stays the end: "BYTES eof eof" */
static int run_eof(int argc, char **argv)
{
	char data[CHUNK];
	uint64_t bytes = 0;
	ssize_t n;

	(void)argc, (void)argv;
	while ((n = read(0, data, sizeof(data))) > 0)
		bytes += (uint64_t)n;
	if (n < 0)
		probe_die("read");
	printf("%llu eof", (unsigned long long)bytes);
	for (int i = 0; i < 3; i++) {
		n = read(0, data, sizeof(data));
		if (n != 0) {
			printf(" then %zd\n", n);
			return 1;
		}
	}
	puts(" eof");
	return 0;
}

/* echo: every line back at once, to show that a stream works both ways now */
static int run_echo(int argc, char **argv)
{
	char line[CHUNK];

	(void)argc, (void)argv;
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin))
		fputs(line, stdout);
	return 0;
}

/* count MS [FILE]: 1, 2, 3 ... for ever, one line each MS milliseconds, on stdout and appended to FILE */
static int run_count(int argc, char **argv)
{
	struct timespec pause = { (time_t)(probe_number(argv[1]) / 1000),
				  (long)(probe_number(argv[1]) % 1000) * 1000000 };
	FILE *file = argc > 2 ? fopen(argv[2], "a") : NULL;

	if (argc > 2 && !file)
		probe_die(argv[2]);
	for (unsigned long i = 1;; i++) {
		char line[32];
		int n = snprintf(line, sizeof(line), "%lu\n", i);

		probe_write(1, line, (size_t)n);
		if (file && (fputs(line, file) < 0 || fflush(file) < 0))
			probe_die("file");
		nanosleep(&pause, NULL);
	}
}

/* lines COUNT: the numbers from 1 on, a line each, fast */
static int run_lines(int argc, char **argv)
{
	static char out[1 << 20];
	int n = 0;

	(void)argc;
	for (uint64_t i = 1; i <= probe_number(argv[1]); i++) {
		n += snprintf(out + n, sizeof(out) - (size_t)n, "%llu\n", (unsigned long long)i);
		if (n > (int)sizeof(out) - 32) {
			probe_write(1, out, (size_t)n);
			n = 0;
		}
	}
	probe_write(1, out, (size_t)n);
	return 0;
}

/* late SECONDS TEXT: close nothing, wait, then write TEXT; the exit code tells what became of the write */
static int run_late(int argc, char **argv)
{
	(void)argc;
	usleep((useconds_t)(strtod(argv[1], NULL) * 1e6));
	return write(1, argv[2], strlen(argv[2])) == (ssize_t)strlen(argv[2]) ? 0 : 1;
}

const struct probe_command probe_stream_commands[] = {
	{ "gen", run_gen, "BYTES [SEED [FD]]" }, { "gen2", run_gen2, "BYTES" },
	{ "check", run_check, "[SEED [PAUSE_US]]" }, { "eof", run_eof, "" },
	{ "echo", run_echo, "" }, { "count", run_count, "MS [FILE]" },
	{ "lines", run_lines, "COUNT" }, { "late", run_late, "SECONDS TEXT" }, { NULL, NULL, NULL },
};
