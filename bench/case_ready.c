/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm-ready: spawn of the VMM to the agent's hello, against the same QEMU, kernel and modules to the first
 * instruction of a bare /init, marked on a port. vm-running: the same to the end of cchv_vm_boot(), when the
 * guest has its identity and its memory. Only where the VMM is cchv-qemu: a Cloud Hypervisor has no such port
 * in its default build.
 */
#include "bench.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int ours(struct bench *bench, const uint64_t *hello_ns, double *ret_hello, double *ret_running)
{
	uint64_t start = mono_ns();
	cchv_vm *vm = vm_start(bench, "bench-ready", 0);

	*ret_running = (double)(mono_ns() - start);
	*ret_hello = (double)(*hello_ns - start);
	cchv_vm_free(vm);
	if (vm && *hello_ns < start)
		fprintf(stderr, "cchv-bench: the library did not tell of a hello\n");
	return vm && *hello_ns >= start ? 0 : -1;
}

/* Till the byte arrives. The devices that cost nothing before /init are left out, in QEMU's favour. */
static int bare(const char *kernel, const char *initrd, const char *cmdline, double *ret_ns)
{
	const char *const argv[] = { "qemu-system-x86_64",
				     "-M",
				     "pc",
				     "-accel",
				     "tcg,thread=multi,tb-size=512", /* as cchv-qemu has it */
				     "-cpu",
				     "max,-erms,-fsrm", /* as cchv-qemu has it */
				     "-nodefaults",
				     "-no-user-config",
				     "-display",
				     "none",
				     "-m",
				     "256M",
				     "-smp",
				     "1",
				     "-kernel",
				     kernel,
				     "-initrd",
				     initrd,
				     "-append",
				     cmdline,
				     "-chardev",
				     "file,id=mark,path=/dev/stdout",
				     "-device",
				     "isa-debugcon,iobase=0xe9,chardev=mark",
				     NULL };
	posix_spawn_file_actions_t actions;
	uint64_t start = mono_ns();
	char byte = 0;
	int fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	r = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	if (r == 0) {
		r = read(fds[0], &byte, 1) == 1 && byte == '!' ? 0 : -1;
		*ret_ns = (double)(mono_ns() - start);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	close(fds[0]);
	if (r)
		fprintf(stderr, "cchv-bench: the bare guest did not reach its /init\n");
	return r ? -1 : 0;
}

/* Pairs of one start each, so that what else the machine does falls on both. */
static int measure(struct bench *bench, const uint64_t *hello_ns, struct figure *ready, struct figure *running)
{
	char *kernel = NULL, *initramfs = NULL, cmdline[4096], initrd[128];
	int r;

	snprintf(initrd, sizeof(initrd), "%s/bare.img", bench->directory);
	r = vm_parts(bench, &kernel, &initramfs);
	if (r == 0)
		r = vm_cmdline(bench, cmdline, sizeof(cmdline));
	if (r == 0)
		r = initrd_with(initramfs, bench->bare_init, "init", initrd);
	for (int i = 0; i < bench->runs && r == 0; i++) {
		double hello, end, init;

		if (ours(bench, hello_ns, &hello, &end) < 0 || bare(kernel, initrd, cmdline, &init) < 0) {
			r = -1;
			break;
		}
		samples_add(&ready->a, hello);
		samples_add(&ready->b, init);
		samples_add(&running->a, end);
		samples_add(&running->b, init);
	}
	free(kernel);
	free(initramfs);
	return r;
}

int case_ready(struct bench *bench)
{
	struct figure ready = { .name = "vm-ready",
				.what = "spawn to hello / same QEMU and kernel to a bare /init",
				.unit = "ratio",
				.target = 1.15,
				.a_name = "libcchv",
				.b_name = "bare QEMU",
				.samples_unit = "ns" };
	struct figure running = ready;
	struct bench own = *bench;
	uint64_t hello_ns = 0;
	int r;

	running.name = "vm-running";
	running.what = "spawn to the end of cchv_vm_boot / the same";
	if (bench_hello_context(bench, &hello_ns, &own.ctx) < 0)
		return -1;
	r = measure(&own, &hello_ns, &ready, &running);
	cchv_ctx_free(own.ctx);
	if (r < 0)
		return -1;
	ready.value = samples_ratio(&ready.a, &ready.b);
	running.value = samples_ratio(&running.a, &running.b);
	result_add(&ready);
	result_add(&running);
	return 0;
}
