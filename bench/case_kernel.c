/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel: a cold VM of the small kernel against one of Debian's cloud kernel, both of this build tree, on the same VMM:
 * spawn of the VMM to the agent's hello, and the guest's pages that the host holds once the guest is idle.
 */
#include "bench.h"

#include <dirent.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VM_ID     "bench-kernel"
#define MEMORY    (256ULL << 20)
#define SETTLE_MS 3000
/* The smallest zone of a guest's memory; a VMM's other mappings of that size are files. */
#define ZONE_BYTES (16UL << 20)

struct kernel {
	const char *name;
	char vmlinux[PATH_MAX], initramfs[PATH_MAX];
};

enum { NO_ZONE, ANONYMOUS, MEMFD };

/* What a mapping is, by the line that begins it; -1: the line begins none. */
static int zone_kind(const char *line)
{
	unsigned long start, end, inode;
	char path[256] = "";

	if (sscanf(line, "%lx-%lx %*s %*s %*s %lu %255s", &start, &end, &inode, path) < 3)
		return -1;
	if (end - start < ZONE_BYTES)
		return NO_ZONE;
	return strncmp(path, "/memfd:", 7) == 0 ? MEMFD : path[0] == '\0' ? ANONYMOUS : NO_ZONE;
}

/* A VMM whose guest's memory is a memfd has other large mappings of its own: translated code. */
static double zones_of(const char *pid)
{
	double bytes[3] = { 0 };
	int kind = NO_ZONE, k;
	char path[300], line[512];
	FILE *file;
	long kib;

	snprintf(path, sizeof(path), "/proc/%s/smaps", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		k = zone_kind(line);
		if (k >= 0)
			kind = k;
		else if (sscanf(line, "Rss: %ld kB", &kib) == 1)
			bytes[kind] += (double)kib * 1024;
	}
	if (file)
		fclose(file);
	return bytes[MEMFD] > 0 ? bytes[MEMFD] : bytes[ANONYMOUS];
}

/* What the largest holder among the VM's processes has: VMM and QEMU both live in its run directory. */
static double guest_bytes(struct bench *bench)
{
	char run[PATH_MAX], wanted[PATH_MAX], path[300], cwd[PATH_MAX];
	DIR *proc = opendir("/proc");
	struct dirent *e;
	double most = 0;

	snprintf(run, sizeof(run), "%s/run/" VM_ID, bench->directory);
	if (!realpath(run, wanted))
		wanted[0] = '\0';
	while (proc && (e = readdir(proc)) != NULL) {
		ssize_t n;
		double bytes;

		snprintf(path, sizeof(path), "/proc/%s/cwd", e->d_name);
		n = atoi(e->d_name) > 0 ? readlink(path, cwd, sizeof(cwd) - 1) : -1;
		if (n < 0)
			continue;
		cwd[n] = '\0';
		bytes = strcmp(cwd, wanted) == 0 ? zones_of(e->d_name) : 0;
		most = bytes > most ? bytes : most;
	}
	if (proc)
		closedir(proc);
	return most;
}

static cchv_vm_config *settings(const struct kernel *kernel)
{
	cchv_vm_config *config = NULL;

	if (cchv_vm_config_new(&config) < 0 || cchv_vm_config_set_id(config, VM_ID) < 0 ||
	    cchv_vm_config_set_vcpus(config, 1, 1) < 0 || cchv_vm_config_set_memory(config, MEMORY) < 0 ||
	    cchv_vm_config_set_start(config, CCHV_START_COLD) < 0 ||
	    cchv_vm_config_set_kernel(config, kernel->vmlinux) < 0 ||
	    cchv_vm_config_set_initramfs(config, kernel->initramfs) < 0) {
		cchv_vm_config_free(config);
		return NULL;
	}
	return config;
}

/* Until the guest has had nothing to tell for a while. */
static void settle(cchv_vm *vm)
{
	struct pollfd p = { .fd = cchv_vm_get_fd(vm), .events = POLLIN };
	cchv_event *event;

	while (poll(&p, 1, SETTLE_MS) > 0) {
		cchv_vm_dispatch(vm, NULL);
		while (cchv_vm_next_event(vm, &event) > 0)
			cchv_event_free(event);
	}
}

static int start(struct bench *bench, const struct kernel *kernel, const uint64_t *hello_ns, double *ret_ns,
		 double *ret_bytes)
{
	cchv_vm_config *config = settings(kernel);
	cchv_error *err = NULL;
	cchv_vm *vm = NULL;
	uint64_t began = mono_ns();
	int r;

	if (!config)
		return complain(kernel->vmlinux, NULL);
	r = cchv_vm_create(bench->ctx, config, CALL_MS, &vm, &err);
	if (r == CCHV_OK)
		r = cchv_vm_boot(vm, CALL_MS, &err);
	if (r == CCHV_OK) {
		*ret_ns = (double)(*hello_ns - began);
		settle(vm);
		*ret_bytes = guest_bytes(bench);
	}
	cchv_vm_free(vm);
	cchv_vm_config_free(config);
	if (r < 0)
		return complain(kernel->name, err);
	if (*hello_ns < began || *ret_bytes <= 0) {
		fprintf(stderr, "cchv-bench: %s: no hello, or no memory of the guest was seen\n", kernel->name);
		return -1;
	}
	return 0;
}

/* The build tree has both, or the case cannot be. */
static int find(struct kernel *kernel, const char *directory, const char *vmlinux, const char *initramfs)
{
	snprintf(kernel->vmlinux, sizeof(kernel->vmlinux), "%s/%s", directory, vmlinux);
	snprintf(kernel->initramfs, sizeof(kernel->initramfs), "%s/%s", directory, initramfs);
	if (access(kernel->vmlinux, R_OK) == 0 && access(kernel->initramfs, R_OK) == 0)
		return 0;
	fprintf(stderr, "cchv-bench: no %s kernel: '%s' (made by guest/kernel/build.sh, guest/kernel-package.sh)\n",
		kernel->name, kernel->vmlinux);
	return -1;
}

int case_kernel(struct bench *bench)
{
	struct figure time = { .name = "kernel-start",
			       .what = "spawn to hello, small kernel / Debian's",
			       .unit = "ratio",
			       .target = 0.5,
			       .a_name = "guest/kernel",
			       .b_name = "Debian's cloud kernel",
			       .samples_unit = "ns" };
	struct figure memory = time;
	struct kernel small = { .name = "small" }, debian = { .name = "Debian" };
	struct bench own = *bench;
	uint64_t hello_ns = 0;
	double ns = 0, bytes = 0;
	int r = 0;

	memory.name = "kernel-memory";
	memory.what = "the guest's pages when idle, small kernel / Debian's";
	memory.samples_unit = "bytes";
	if (find(&small, bench->kernels, "vmlinux", "initramfs.img") < 0 ||
	    find(&debian, bench->kernels, "kernel/vmlinuz", "kernel/initramfs.img") < 0 ||
	    bench_hello_context(bench, &hello_ns, &own.ctx) < 0)
		return -1;
	for (int i = 0; i < 2 * bench->runs && r == 0; i++) {
		int is_small = i % 2 == 0;

		r = start(&own, is_small ? &small : &debian, &hello_ns, &ns, &bytes);
		if (r == 0) {
			samples_add(is_small ? &time.a : &time.b, ns);
			samples_add(is_small ? &memory.a : &memory.b, bytes);
		}
	}
	cchv_ctx_free(own.ctx);
	if (r < 0)
		return -1;
	time.value = samples_ratio(&time.a, &time.b);
	memory.value = samples_ratio(&memory.a, &memory.b);
	result_add(&time);
	result_add(&memory);
	return 0;
}
