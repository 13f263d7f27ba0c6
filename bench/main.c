/* SPDX-License-Identifier: Apache-2.0 */
/* cchv-bench: options, the table of cases, the private directories of a run. */
#include "bench.h"

#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct bench_case cases[] = {
	{ "vm-ready", case_ready },      { "exec", case_exec },     { "exec-container", case_exec_container },
	{ "stdout", case_stdout },
	{ "eight", case_many },          { "memory", case_memory }, { "idle", case_idle },
	{ "initramfs", case_initramfs },
	{ "clone", case_clone },         { "kernel", case_kernel },
};

int bench_context(struct bench *bench, cchv_ctx **ret_ctx)
{
	cchv_error *err = NULL;
	cchv_ctx *ctx = NULL;
	char path[96];

	if (cchv_ctx_new(&ctx, &err) < 0)
		return complain("context", err);
	snprintf(path, sizeof(path), "%s/state", bench->directory);
	cchv_ctx_set_state_dir(ctx, path);
	snprintf(path, sizeof(path), "%s/run", bench->directory);
	cchv_ctx_set_runtime_dir(ctx, path);
	*ret_ctx = ctx;
	return 0;
}

/* The library tells of the steps of a boot in its log, and nowhere else. */
static void on_log(int level, const char *text, void *user_data)
{
	uint64_t *hello_ns = user_data;

	(void)level;
	if (strstr(text, "booting: here is the hello"))
		*hello_ns = mono_ns();
}

int bench_hello_context(struct bench *bench, uint64_t *hello_ns, cchv_ctx **ret_ctx)
{
	cchv_ctx *ctx = NULL;

	if (bench_context(bench, &ctx) < 0)
		return -1;
	if (cchv_ctx_set_log(ctx, CCHV_LOG_DEBUG, on_log, hello_ns, NULL) < 0) {
		cchv_ctx_free(ctx);
		return complain("log", NULL);
	}
	*ret_ctx = ctx;
	return 0;
}

/* Programs beside this one in the build tree. */
static char *beside(const char *relative)
{
	char self[PATH_MAX], *path;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return NULL;
	self[n] = '\0';
	if (asprintf(&path, "%s/%s", dirname(self), relative) < 0)
		return NULL;
	return path;
}

static void usage(FILE *to)
{
	fputs("usage: cchv-bench [--runs N] [--json FILE] [CASE...]\ncases:", to);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		fprintf(to, " %s", cases[i].name);
	fputc('\n', to);
}

static int is_wanted(int argc, char **argv, const char *name)
{
	for (int i = optind; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return 1;
	return optind == argc;
}

/* A name that is no case's must not look like a case that had nothing to say. */
static int check_names(int argc, char **argv)
{
	for (int i = optind; i < argc; i++) {
		int known = 0;

		for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
			known |= strcmp(argv[i], cases[k].name) == 0;
		if (!known) {
			fprintf(stderr, "cchv-bench: no case is called '%s'\n", argv[i]);
			return -1;
		}
	}
	return 0;
}

static int run_cases(struct bench *bench, int argc, char **argv)
{
	int failed = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!is_wanted(argc, argv, cases[i].name))
			continue;
		fprintf(stderr, "%s ...\n", cases[i].name);
		if (cases[i].run(bench) < 0) {
			fprintf(stderr, "%s: failed\n", cases[i].name);
			failed++;
		}
	}
	return failed ? -1 : 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "runs", required_argument, NULL, 'n' },
						 { "json", required_argument, NULL, 'j' },
						 { "memory-child", required_argument, NULL, 'm' },
						 { "help", no_argument, NULL, 'h' },
						 { NULL, 0, NULL, 0 } };
	struct bench bench = { .runs = 5,
			       .cli = beside("../examples/cli/cchv"),
			       .guest = beside("bench-guest"),
			       .bare_init = beside("bare-init"),
			       .initramfs = beside("../guest/initramfs.img"),
			       .kernels = beside("../guest") };
	const char *json = NULL, *child = NULL;
	char command[96];
	int c, r;

	while ((c = getopt_long(argc, argv, "n:j:h", options, NULL)) != -1) {
		switch (c) {
		case 'n': bench.runs = atoi(optarg); break;
		case 'j': json = optarg; break;
		case 'm': child = optarg; break;
		case 'h': usage(stdout); return 0;
		default: return 2;
		}
	}
	if (bench.runs < 1 || bench.runs > MAX_RUNS / 4) {
		fprintf(stderr, "cchv-bench: --runs is 1 to %d\n", MAX_RUNS / 4);
		return 2;
	}
	if (check_names(argc, argv) < 0)
		return 2;
	/* On a disk: scratch files never lie in a tmpfs. */
	snprintf(bench.directory, sizeof(bench.directory), "%s",
		 child ? child : "/var/tmp/cchv-bench-XXXXXX");
	if (!child && !mkdtemp(bench.directory)) {
		perror("cchv-bench");
		return 1;
	}
	if (bench_context(&bench, &bench.ctx) < 0)
		return 1;
	if (child)
		return memory_child(&bench);
	r = run_cases(&bench, argc, argv);
	if (result_print() > 0 || r < 0)
		r = 1;
	if (json && result_write_json(&bench, json) < 0)
		r = 1;
	cchv_ctx_free(bench.ctx);
	snprintf(command, sizeof(command), "rm -rf %s", bench.directory);
	return system(command) != 0 || r ? 1 : 0;
}
