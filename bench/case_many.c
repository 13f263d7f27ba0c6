/* SPDX-License-Identifier: Apache-2.0 */
/* many: eight VMs at once, each from spawn to hello, against eight in a row, on the cores that are there. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define VMS 8

/* In a process of its own, as eight users would. */
static pid_t start_one(struct bench *bench, int n)
{
	pid_t pid = fork();
	char id[32];

	if (pid == 0) {
		cchv_ctx *ctx = NULL;
		struct bench own = *bench;
		cchv_vm *vm;

		snprintf(id, sizeof(id), "bench-many-%d", n);
		if (bench_context(&own, &ctx) < 0)
			_exit(1);
		own.ctx = ctx;
		vm = vm_start(&own, id, 0);
		cchv_vm_free(vm);
		_exit(vm ? 0 : 1);
	}
	return pid;
}

static int start_all(struct bench *bench, int at_once, double *ret_ns)
{
	uint64_t start = mono_ns();
	int failed = 0, status;

	for (int i = 0; i < VMS; i++) {
		pid_t pid = start_one(bench, i);

		if (!at_once)
			failed |= waitpid(pid, &status, 0) < 0 || status;
	}
	for (int i = 0; i < VMS && at_once; i++)
		failed |= wait(&status) < 0 || status;
	*ret_ns = (double)(mono_ns() - start);
	return failed ? -1 : 0;
}

int case_many(struct bench *bench)
{
	struct figure f = { .name = "eight-at-once",
			    .what = "eight VMs at once / eight in a row",
			    .unit = "ratio",
			    .target = 1.2,
			    .a_name = "at once",
			    .b_name = "in a row",
			    .samples_unit = "ns" };
	int runs = bench->runs < 3 ? bench->runs : 3;

	for (int i = 0; i < runs; i++) {
		double a, b;

		if (start_all(bench, 1, &a) < 0 || start_all(bench, 0, &b) < 0)
			return complain("not all of eight VMs started", NULL);
		samples_add(&f.a, a);
		samples_add(&f.b, b);
	}
	f.value = samples_ratio(&f.a, &f.b);
	result_add(&f);
	return 0;
}
