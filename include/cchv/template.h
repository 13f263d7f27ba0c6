/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates. A template is a VM that was booted as far as it goes without knowing whose it is, and kept: VMs that start
 * from it need no boot, and share its memory until they write to it. One template serves all VMs of the same kernel,
 * agent, VMM, processor and host kernel, whatever their size and devices; cchv_vm_config_set_start() says which VMs
 * use it. It is built by cchv_template_build(), and by itself after a cold start where that is wanted
 * (cchv_ctx_set_template_building()). cchv_ctx_prune() removes it once no VM can start from it any more.
 *
 * A VM from a template has randomness, clock, host name, machine id, boot id and network addresses of its own before
 * anything else runs in it. It shares the layout of the kernel's address space with all VMs of that template, which is
 * built anew when it is a week old, or 1000 VMs have started from it, and somebody asks for it, or by itself: where
 * that matters, start cold.
 *
 * A template is named by its key, 64 hexadecimal digits. It lies in the state directory, is never written to after it
 * was built, and is of no use any more once one of its parts has changed: removing it is safe at any time, also while
 * VMs that started from it run.
 */
#ifndef CCHV_TEMPLATE_H
#define CCHV_TEMPLATE_H

#include <cchv/ctx.h>
#include <cchv/error.h>
#include <cchv/list.h>
#include <cchv/version.h>
#include <cchv/vm_config.h>

CCHV_BEGIN_DECLS

/**
 * cchv_template_build() - make the template that fits a VM, if it is not there or has served its time
 * @ctx:        the context
 * @config:     NULL for a VM without wishes of its own, or the VM's settings
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_key:    receives the template's key (free it with cchv_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Boots a VM, which takes as long as a cold start, and reads its memory twice. One process at a time builds, the others
 * wait for it. A build that is cut short leaves nothing that a VM would start from.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_UNSUPPORTED where VMs of such settings start cold, with the reason;
 *         CCHV_ERR_NOT_FOUND for a missing kernel, agent or VMM; CCHV_ERR_DENIED, CCHV_ERR_TIMEOUT,
 *         CCHV_ERR_VMM (the VMM may make no snapshots), CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST,
 *         CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL or CCHV_ERR_SYSTEM.
 */
int cchv_template_build(cchv_ctx *ctx, cchv_vm_config *config, int timeout_ms, char **ret_key, cchv_error **err);

/**
 * cchv_template_list() - list the templates
 * @ctx:      the context
 * @ret_keys: receives their keys, sorted (free it with cchv_list_free())
 * @err:      NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_DENIED or CCHV_ERR_SYSTEM.
 */
int cchv_template_list(cchv_ctx *ctx, cchv_list **ret_keys, cchv_error **err);

/**
 * cchv_template_get_info_json() - describe a template
 * @ctx:      the context
 * @key:      the template's key
 * @ret_json: receives a JSON object (free it with cchv_free())
 * @err:      NULL, or receives the error (free it with cchv_error_free())
 *
 * Members: "key", "created_ns", "vmm" ("kind", "path", "version"), "kernel", "initramfs", "max_vcpus", "memory_bytes"
 * (of the base memory that its VMs share), "memory_used_bytes" (of it, what is not all zeroes), "memory_sha256". More
 * may come.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND; CCHV_ERR_PROTOCOL for a damaged one; CCHV_ERR_DENIED or CCHV_ERR_SYSTEM.
 */
int cchv_template_get_info_json(cchv_ctx *ctx, const char *key, char **ret_json, cchv_error **err);

/**
 * cchv_template_remove() - remove a template
 * @ctx: the context
 * @key: the template's key
 * @err: NULL, or receives the error (free it with cchv_error_free())
 *
 * VMs that have started from it keep what they need.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND; CCHV_ERR_EXISTS while a VM is just being started from it; CCHV_ERR_DENIED or
 *         CCHV_ERR_SYSTEM.
 */
int cchv_template_remove(cchv_ctx *ctx, const char *key, cchv_error **err);

CCHV_END_DECLS

#endif /* CCHV_TEMPLATE_H */
