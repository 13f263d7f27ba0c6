/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context: where VMs and their state lie, which VMM runs them, where the log goes. Set it up in one
 * thread, then share it between threads; it must outlive nothing: objects made from it keep it alive.
 */
#ifndef CCHV_CTX_H
#define CCHV_CTX_H

#include <cchv/error.h>
#include <cchv/findings.h>
#include <cchv/list.h>
#include <cchv/version.h>

CCHV_BEGIN_DECLS

typedef struct cchv_ctx cchv_ctx;

/* Levels of the log. Values are fixed for ever and only appended. */
enum cchv_log_level {
	CCHV_LOG_ERROR = 0,
	CCHV_LOG_WARNING = 1,
	CCHV_LOG_INFO = 2,
	CCHV_LOG_DEBUG = 3
};

/* Called with one finished line, without a line feed, in the thread that caused it. */
typedef void (*cchv_log_fn)(int level, const char *message, void *user_data);
/* Called once when the library will not use @user_data any more. */
typedef void (*cchv_release_fn)(void *user_data);

/**
 * cchv_ctx_new() - make a context
 * @ret_ctx: receives the context; free it with cchv_ctx_free()
 * @err:     NULL, or receives the error (free it with cchv_error_free())
 *
 * Nothing is touched on the host. Directories are the defaults of root or of the user, the VMM is "auto".
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_ctx_new(cchv_ctx **ret_ctx, cchv_error **err);

/**
 * cchv_ctx_free() - give a context back
 * @ctx: the context, or NULL
 *
 * Objects made from it stay valid; its memory goes with the last of them.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 */
void cchv_ctx_free(cchv_ctx *ctx);

/**
 * cchv_ctx_set_runtime_dir() - where sockets and locks of running VMs lie
 * @ctx:  the context
 * @path: an absolute path; it is made (mode 0700) when first needed
 *
 * The default is /run/cchv for root, /run/user/UID/cchv for others.
 *
 * Valid in: before the context's first use.
 * Threads:  one at a time per context.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_ctx_set_runtime_dir(cchv_ctx *ctx, const char *path);

/**
 * cchv_ctx_set_state_dir() - where images, volumes, kernels and containers' state lie
 * @ctx:  the context
 * @path: an absolute path on a disk (scratch disks never lie in a tmpfs); it is made (mode 0700) when first
 *        needed
 *
 * The default is /var/lib/cchv for root, .local/share/cchv in the user's home directory for others.
 *
 * Valid in: before the context's first use.
 * Threads:  one at a time per context.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_ctx_set_state_dir(cchv_ctx *ctx, const char *path);

/**
 * cchv_ctx_get_runtime_dir() - lend the path of the runtime directory
 * @ctx: the context
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: the absolute path, valid until the context is freed or set anew; NULL for NULL. It may not exist yet.
 */
const char *cchv_ctx_get_runtime_dir(cchv_ctx *ctx);

/**
 * cchv_ctx_get_state_dir() - lend the path of the state directory
 * @ctx: the context
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: the absolute path, valid until the context is freed or set anew; NULL for NULL. It may not exist yet.
 */
const char *cchv_ctx_get_state_dir(cchv_ctx *ctx);

/**
 * cchv_ctx_set_vmm() - which VMM runs the VMs
 * @ctx:          the context
 * @path_or_auto: the path of a program that speaks Cloud Hypervisor's command line and API, its name on PATH,
 *                or "auto"
 *
 * "auto" takes cloud-hypervisor where hardware virtualisation works, cchv-qemu otherwise; cchv_ctx_probe()
 * says which and why.
 *
 * Valid in: before the context's first use.
 * Threads:  one at a time per context.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_ctx_set_vmm(cchv_ctx *ctx, const char *path_or_auto);

/**
 * cchv_ctx_set_template_building() - have missing templates built in the background
 * @ctx: the context
 * @on:  0 for no (the default), anything else for yes
 *
 * A VM that may start from a template (CCHV_START_AUTO) and finds none starts cold. When it is up, the command
 * cchv (that belongs to this library, or on PATH) is started as "cchv template build --detach": a process of its
 * own, at idle priority, which builds the template and ends. It may outlive the caller. One at a time builds for a
 * state directory; starting it takes the VM's cchv_vm_boot() some milliseconds. Where building fails, or a VM
 * from a template does not come up, cchv_vm_get_start() tells so for an hour, and nothing is built by itself
 * meanwhile; cchv_template_build() tries at once.
 *
 * Off by default, since a library starts no processes that its caller does not know of; the command has it on.
 *
 * Valid in: before the context's first use.
 * Threads:  one at a time per context.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_ctx_set_template_building(cchv_ctx *ctx, int on);

/**
 * cchv_ctx_set_log() - receive the log
 * @ctx:       the context
 * @max_level: the highest enum cchv_log_level wanted
 * @fn:        called for each line, or NULL for no log
 * @user_data: handed to @fn
 * @release:   NULL, or called once when @user_data is not needed any more, also when this call fails
 *
 * Valid in: before the context's first use.
 * Threads:  one at a time per context; @fn runs in whichever thread made the library log.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_ctx_set_log(cchv_ctx *ctx, int max_level, cchv_log_fn fn, void *user_data, cchv_release_fn release);

/**
 * cchv_ctx_set_log_fd() - write the log to a file descriptor
 * @ctx:       the context
 * @max_level: the highest enum cchv_log_level wanted
 * @fd:        copied; the caller still closes its own
 *
 * Each line is written by one write(): time, level, text.
 *
 * Valid in: before the context's first use.
 * Threads:  one at a time per context.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_SYSTEM.
 */
int cchv_ctx_set_log_fd(cchv_ctx *ctx, int max_level, int fd);

/**
 * cchv_ctx_probe() - look what is here, what is missing, and what to do
 * @ctx:          the context
 * @ret_findings: receives the findings (free them with cchv_findings_free())
 * @err:          NULL, or receives the error (free it with cchv_error_free())
 *
 * Names: "vmm" (which one is used, and why), "kvm", "cpu", "kernel", "initramfs", "runtime_dir",
 * "state_dir", "libcurl", "cloud-hypervisor", "cchv-qemu", "qemu", "virtiofsd", "mkfs.erofs", "mkfs.ext4",
 * "umoci", "skopeo". VMs can start where nothing is CCHV_FINDING_MISSING, which only "vmm", "kernel",
 * "initramfs", "runtime_dir", "state_dir" and "libcurl" can be. What else is not here is
 * CCHV_FINDING_WARN, with what is lost as its advice: no image can be imported without "mkfs.erofs", but
 * VMs still run from images that are there.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, also when things are missing; CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_ctx_probe(cchv_ctx *ctx, cchv_findings **ret_findings, cchv_error **err);

/**
 * cchv_ctx_get_versions_json() - tell what a VM would be made of now
 * @ctx:      the context
 * @ret_json: receives an object (free it with cchv_free())
 * @err:      NULL, or receives the error (free it with cchv_error_free())
 *
 * Members: "libcchv" (the library's version), "protocol" (that of host and agent which it speaks, a number),
 * "vmm" ("name", "path", "version" as the program says it, "reason", and with cchv-qemu "qemu", which has
 * "path" and "version"), "kernel" ("path", and "version" where the file tells), "agent" ("path" of its
 * initramfs, and "version" and "protocol" where that tells). What is not there, or cannot say its version, has
 * "error", one line with the reason. Nothing is booted; the VMM and QEMU are run once with --version.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, also when things are missing; CCHV_ERR_INVALID, CCHV_ERR_FORKED or CCHV_ERR_NOMEM.
 */
int cchv_ctx_get_versions_json(cchv_ctx *ctx, char **ret_json, cchv_error **err);

/**
 * cchv_ctx_prune() - remove what dead owners left
 * @ctx:         the context
 * @ret_removed: NULL, or receives what was removed (CCHV_FINDING_REMOVED) and what could not be
 *               (CCHV_FINDING_WARN); free it with cchv_findings_free()
 * @err:         NULL, or receives the error (free it with cchv_error_free())
 *
 * Kills VMMs whose owner is dead and records CCHV_STOP_OWNER_DIED, then removes processes, mounts, sockets,
 * cgroups and files of VMs that are gone, unfinished images, templates and snapshots (those in snapshots/ of
 * the state directory), and templates of a kernel, an agent, a VMM or a host that has changed since. VMs with a
 * living owner are not touched, nor are finished images
 * (cchv_image_prune()). One thing that cannot be removed does not stop the rest.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, also when something could not be removed (a finding says so); CCHV_ERR_DENIED or
 *         CCHV_ERR_SYSTEM when the directories cannot be read; CCHV_ERR_NOMEM.
 */
int cchv_ctx_prune(cchv_ctx *ctx, cchv_findings **ret_removed, cchv_error **err);

/**
 * cchv_ctx_list_vms() - list the VMs of the runtime directory
 * @ctx:     the context
 * @ret_ids: receives their ids, oldest first, orphans among them (free it with cchv_list_free())
 * @err:     NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_DENIED, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_ctx_list_vms(cchv_ctx *ctx, cchv_list **ret_ids, cchv_error **err);

CCHV_END_DECLS

#endif
