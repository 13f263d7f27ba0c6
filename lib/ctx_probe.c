/* SPDX-License-Identifier: Apache-2.0 */
/* Looking what is here: cchv_ctx_probe(). Enters: the host. Leaves: findings, each with what to do about it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/export.h"
#include "base/path.h"
#include "ctx.h"
#include "findings.h"
#include "program_version.h"
#include "virtiofsd.h"
#include "vmm/choose.h"
#include "vmm/curl.h"
#include "vmm/kernel_release.h"

static int add(cchv_findings *f, const char *name, int status, const char *text, const char *advice,
               cchv_error **err)
{
	return findings_add(f, name, status, text ? text : "", status == CCHV_FINDING_OK ? NULL : advice) < 0
		       ? err_nomem(err) : CCHV_OK;
}

static int probe_vmm(cchv_ctx *ctx, cchv_findings *f, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	cleanup_free char *text = NULL;
	struct vmm_choice c = { 0 };
	int r;

	if (vmm_choose(ctx->vmm, &c, &error) < 0)
		return add(f, "vmm", CCHV_FINDING_MISSING, cchv_error_message(error),
		           "install cloud-hypervisor, or build cchv-qemu and put it on PATH", err);
	text = mem_printf("%s: %s", c.path, c.reason);
	r = text ? add(f, "vmm", CCHV_FINDING_OK, text, NULL, err) : err_nomem(err);
	vmm_choice_free(&c);
	return r;
}

static int probe_hardware(cchv_findings *f, cchv_error **err)
{
	cleanup_free char *kvm = NULL, *cpu = NULL;
	int works, r;

	works = vmm_kvm_works(&kvm, err);
	if (works < 0)
		return works;
	r = add(f, "kvm", works ? CCHV_FINDING_OK : CCHV_FINDING_WARN, kvm,
	        "VMs are emulated without it, which is slow: turn virtualisation on, join the group kvm", err);
	if (r < 0)
		return r;
	works = vmm_cpu_works(&cpu, err);
	if (works < 0)
		return works;
	return add(f, "cpu", works ? CCHV_FINDING_OK : CCHV_FINDING_WARN, cpu,
	           "VMs are emulated here, which is slow: use a host with hardware virtualisation", err);
}

/* Its path, and which Linux it is where the file tells: with two of them, that says which one VMs boot. */
static int add_kernel(cchv_findings *f, const char *path, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	cleanup_free char *release = NULL, *text = NULL;

	if (vmm_kernel_release(path, &release, &error) < 0)
		return add(f, "kernel", CCHV_FINDING_WARN, cchv_error_message(error),
		           "VMs need it: make it readable, or take it away", err);
	text = release ? mem_printf("%s: Linux %s", path, release) : mem_strdup(path);
	return text ? add(f, "kernel", CCHV_FINDING_OK, text, NULL, err) : err_nomem(err);
}

static int probe_payload(cchv_ctx *ctx, cchv_findings *f, cchv_error **err)
{
	cleanup_free char *kernel = NULL, *initramfs = NULL;
	cleanup_err cchv_error *error = NULL;
	int r;

	if (vmm_find_kernel(ctx->state_dir, &kernel, &error) < 0)
		r = add(f, "kernel", CCHV_FINDING_MISSING, cchv_error_message(error),
		        "build the project, or put a vmlinuz into the state directory's kernels/", err);
	else
		r = add_kernel(f, kernel, err);
	if (r < 0)
		return r;
	cchv_error_free(steal(&error));
	if (vmm_find_initramfs(ctx->state_dir, kernel, &initramfs, &error) < 0)
		return add(f, "initramfs", CCHV_FINDING_MISSING, cchv_error_message(error),
		           "build the project, or put its initramfs.img beside the kernel", err);
	return add(f, "initramfs", CCHV_FINDING_OK, initramfs, NULL, err);
}

/* Of a path that may not exist yet, the nearest part that does: can we make the rest there? */
static int can_use(const char *path, char *reason, size_t room)
{
	cleanup_free char *part = mem_strdup(path);
	struct stat st;

	while (part && lstat(part, &st) < 0 && errno == ENOENT) {
		char *slash = strrchr(part, '/');

		if (!slash || slash == part)
			break;
		*slash = '\0';
	}
	if (part && access(part, W_OK | X_OK) == 0)
		return 1;
	snprintf(reason, room, "%s: %s: %s", path, part ? part : "", strerror(errno));
	return 0;
}

static int probe_dir(cchv_findings *f, const char *name, const char *path, int on_disk, cchv_error **err)
{
	char reason[512];

	if (!can_use(path, reason, sizeof(reason)))
		return add(f, name, CCHV_FINDING_MISSING, reason, "make it writable, or set another directory", err);
	if (on_disk && path_on_tmpfs(path, NULL) == 1) {
		snprintf(reason, sizeof(reason), "%.400s lies on a tmpfs", path);
		return add(f, name, CCHV_FINDING_WARN, reason,
		           "images and scratch disks would live in memory: set a directory on a disk", err);
	}
	return add(f, name, CCHV_FINDING_OK, path, NULL, err);
}

/* A program on PATH, with what it says about its version. */
static int probe_program(cchv_findings *f, const char *name, const char *program, const char *flag, int status,
                         const char *advice, cchv_error **err)
{
	cleanup_free char *path = NULL, *line = NULL, *text = NULL;
	cleanup_err cchv_error *error = NULL;

	if (path_find_program(program, &path, NULL) < 0) {
		text = mem_printf("%s is not on PATH", program);
		return text ? add(f, name, status, text, advice, err) : err_nomem(err);
	}
	if (flag && program_version(path, flag, &line, &error) < 0)
		return add(f, name, status, cchv_error_message(error), advice, err);
	text = line ? mem_printf("%s: %s", path, line) : mem_strdup(path);
	return text ? add(f, name, CCHV_FINDING_OK, text, NULL, err) : err_nomem(err);
}

static int probe_parts(cchv_findings *f, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	cleanup_free char *qemu = NULL, *virtiofsd = NULL;
	int flavour, r;

	if (curl_load(&error))
		r = add(f, "libcurl", CCHV_FINDING_OK, "it can be opened", NULL, err);
	else
		r = add(f, "libcurl", CCHV_FINDING_MISSING, cchv_error_message(error),
		        "install it (package libcurl4)", err);
	if (r < 0)
		return r;
	if (vmm_find_cchv_qemu(&qemu, NULL) == CCHV_OK)
		r = add(f, "cchv-qemu", CCHV_FINDING_OK, qemu, NULL, err);
	else
		r = add(f, "cchv-qemu", CCHV_FINDING_WARN, "neither with the library nor on PATH",
		        "build it: it runs VMs where hardware virtualisation is missing", err);
	if (r < 0)
		return r;
	cchv_error_free(steal(&error));
	if (virtiofsd_find(&virtiofsd, &flavour, &error) == CCHV_OK)
		return add(f, "virtiofsd", CCHV_FINDING_OK, virtiofsd, NULL, err);
	return add(f, "virtiofsd", CCHV_FINDING_WARN, cchv_error_message(error),
	           "directories of the host cannot be shared without it", err);
}

static const struct {
	const char *name, *program, *flag, *advice;
} programs[] = {
	{ "cloud-hypervisor", "cloud-hypervisor", "--version", "install it on hosts with hardware virtualisation" },
	{ "qemu", "qemu-system-x86_64", "--version", "install it for hosts without hardware virtualisation "
	                                             "(package qemu-system-x86, version 10 or newer)" },
	{ "mkfs.erofs", "mkfs.erofs", NULL, "images cannot be imported without it (package erofs-utils)" },
	{ "mkfs.ext4", "mkfs.ext4", NULL, "scratch disks cannot be made without it (package e2fsprogs)" },
	{ "umoci", "umoci", NULL, "OCI layouts cannot be imported without it (package umoci)" },
	{ "skopeo", "skopeo", NULL, "registries cannot be pulled from without it (package skopeo)" },
};

CCHV_API int cchv_ctx_probe(cchv_ctx *ctx, cchv_findings **ret_findings, cchv_error **err)
{
	cleanup_findings cchv_findings *f = findings_new();
	int r;

	err_clear(err);
	if (!ctx || !ret_findings)
		return err_set(err, CCHV_ERR_INVALID, 0, "ctx_probe: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r == CCHV_OK && !f)
		r = err_nomem(err);
	if (r == CCHV_OK)
		r = probe_vmm(ctx, f, err);
	if (r == CCHV_OK)
		r = probe_hardware(f, err);
	if (r == CCHV_OK)
		r = probe_payload(ctx, f, err);
	if (r == CCHV_OK)
		r = probe_dir(f, "runtime_dir", ctx->runtime_dir, 0, err);
	if (r == CCHV_OK)
		r = probe_dir(f, "state_dir", ctx->state_dir, 1, err);
	if (r == CCHV_OK)
		r = probe_parts(f, err);
	for (size_t i = 0; i < ARRAY_LEN(programs) && r == CCHV_OK; i++)
		r = probe_program(f, programs[i].name, programs[i].program, programs[i].flag, CCHV_FINDING_WARN,
		                  programs[i].advice, err);
	if (r == CCHV_OK)
		*ret_findings = steal(&f);
	return r;
}
