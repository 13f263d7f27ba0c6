/* SPDX-License-Identifier: Apache-2.0 */
/* exec, exec-container: a static true from C with default streams, in the bare guest and in a container, against
 * twice (connect and echo one byte) plus the same fork and exec inside. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT 5001

static int time_exec(cchv_vm *vm, double *ret_ns)
{
	const char *const args[] = { "/bench-guest", "true", NULL };
	uint64_t start = mono_ns();
	cchv_exec *exec = vm_helper(vm, args, NULL);
	int code = -1;

	if (exec)
		cchv_exec_wait(exec, CALL_MS, &code, NULL, NULL);
	*ret_ns = (double)(mono_ns() - start);
	if (exec)
		cchv_exec_delete(exec, CALL_MS, NULL);
	cchv_exec_free(exec);
	return code == 0 ? 0 : -1;
}

static int time_echo(struct bench *bench, const char *id, double *ret_ns)
{
	uint64_t start = mono_ns();
	int fd = vm_dial(bench, id, PORT);
	char byte = 'x';

	if (fd < 0 || write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
		return -1;
	*ret_ns = (double)(mono_ns() - start);
	close(fd);
	return 0;
}

/* Of a VM whose only container, if there is one, is where things are run; the echo is always the bare guest's. */
static int measure(struct bench *bench, const char *id, int in_container, struct figure *f)
{
	static const char *const forkexec[] = { "/bench-guest", "forkexec", "50", NULL };
	cchv_vm *vm = vm_start(bench, id, 1);
	cchv_exec *server = vm ? vm_serve(vm, "echo", "5001") : NULL;
	cchv_container *container = server && in_container ? container_in(bench, vm) : NULL;
	int r = server && (container || !in_container) ? 0 : -1;

	/* One unmeasured round warms both sides. */
	for (int i = 0; i <= bench->runs * 4 && r == 0; i++) {
		double exec_ns, echo_ns;
		char text[64];

		r = time_exec(vm, &exec_ns) < 0 || time_echo(bench, id, &echo_ns) < 0 ||
				    (i % 8 == 0 && vm_helper_output(vm, forkexec, text, sizeof(text)) < 0)
			    ? -1
			    : 0;
		if (r == 0 && i > 0) {
			samples_add(&f->a, exec_ns);
			samples_add(&f->b, 2 * echo_ns + atof(text));
		}
	}
	cchv_container_free(container);
	cchv_exec_free(server);
	cchv_vm_free(vm);
	if (r < 0)
		return r;
	f->value = samples_ratio(&f->a, &f->b);
	result_add(f);
	return 0;
}

int case_exec(struct bench *bench)
{
	struct figure f = { .name = "exec",
			    .what = "exec of true / (2 x (connect + echo) + fork and exec inside)",
			    .unit = "ratio",
			    .target = 1.0,
			    .a_name = "exec",
			    .b_name = "floor",
			    .samples_unit = "ns" };

	return measure(bench, "bench-exec", 0, &f);
}

int case_exec_container(struct bench *bench)
{
	struct figure f = { .name = "exec-container",
			    .what = "the same in a container, as is the fork and exec",
			    .unit = "ratio",
			    .target = 1.0,
			    .a_name = "exec",
			    .b_name = "floor",
			    .samples_unit = "ns" };

	return measure(bench, "bench-exec-container", 1, &f);
}
