/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates on disk: <state>/templates/<key>/ holds the guest's memory (ram), the VMM's snapshot (config.json,
 * state.json and whatever else it writes), and template.json, which is written last. A template is built in tmp/,
 * under the lock of all builders, and renamed when it is whole: what lies under its key was finished. From then on it
 * is only read. Beside it, <key>.starts has a byte for each VM that has started from it.
 */
#ifndef LIB_TEMPLATE_STORE_H
#define LIB_TEMPLATE_STORE_H

#include <cchv/ctx.h>
#include <cchv/findings.h>
#include <cchv/list.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "image/sha256.h"

#define TEMPLATE_RAM "ram"
#define TEMPLATE_CONFIG "config.json"
#define TEMPLATE_INFO "template.json"
#define TEMPLATE_CONFIG_MAX (1U << 20)

struct template {
	char *dir;
	struct json *info;
	int lock_fd; /* shared: nobody removes it meanwhile */
};

/* CCHV_ERR_NOT_FOUND: there is none; CCHV_ERR_PROTOCOL: it is damaged. Held until it is freed. */
int template_open(cchv_ctx *ctx, const char *key, struct template **ret_template, cchv_error **err);
void template_free(struct template *template);
/* It is still of use, and to be replaced: all VMs from it have their kernel at the same address. */
int template_is_old(const struct template *template);
/* A VM has started from it. */
void template_count_start(const struct template *template);
/* The VMM's config in a template's directory. */
int template_read_config(const char *dir, struct json **ret_config, cchv_error **err);
/* Keys, sorted. */
int template_list(cchv_ctx *ctx, cchv_list **ret_keys, cchv_error **err);
/* CCHV_ERR_NOT_FOUND; CCHV_ERR_EXISTS while a VM is just being started from it. Those that were are left alone. */
int template_remove(cchv_ctx *ctx, const char *key, cchv_error **err);

/* The lock of all builders; it makes the directories. CCHV_ERR_TIMEOUT: another one is still at it. */
int template_lock(cchv_ctx *ctx, uint64_t deadline, int *ret_fd, cchv_error **err);
/* With that lock: an empty directory to build in. What a builder that died had left is gone then. */
int template_begin(cchv_ctx *ctx, char **ret_dir, cchv_error **err);
/* Make it durable and read-only, and give it its name. info is taken. A damaged one of that key is replaced. */
int template_publish(cchv_ctx *ctx, const char *dir, const char *key, struct json *info, cchv_error **err);
/* What builders that died have left. */
int template_prune(cchv_ctx *ctx, cchv_findings *findings);

/*
 * A copy of its memory, for one VM that must share it with other processes. It has a name until it is dropped: then it
 * belongs to whoever has opened it meanwhile. Locked, so that nobody takes it for what a dead owner has left.
 */
struct template_copy {
	char *path;
	int fd;
};
#define TEMPLATE_COPY_INIT { NULL, -1 }
int template_copy_ram(cchv_ctx *ctx, const struct template *template, const char *vm_id,
                      struct template_copy *ret_copy, cchv_error **err);
void template_copy_drop(struct template_copy *copy);

/*
 * The contents of a guest's memory: pages that are all zeroes do not count, so that a hole is the same as zeroes.
 * *ret_used: the bytes of the others.
 */
int template_hash_ram(const char *path, char ret_hex[SHA256_HEX_SIZE], uint64_t *ret_used, cchv_error **err);

DEFINE_CLEANUP(template, struct template, template_free)
#define cleanup_template __attribute__((cleanup(template_cleanup)))

#endif
