/* SPDX-License-Identifier: Apache-2.0 */
/* The public side of templates: see <cchv/template.h>. Enters: settings, keys. Leaves: keys, descriptions. */
#include <cchv/template.h>

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "ctx.h"
#include "template_build.h"
#include "template_key.h"
#include "template_note.h"
#include "template_store.h"
#include "vm_config.h"
#include "vmm/choose.h"

/* The parts that a VM without wishes of its own would get. */
struct found_parts {
	struct vmm_choice vmm;
	char *kernel, *initramfs;
};

static void parts_free(struct found_parts *parts)
{
	vmm_choice_free(&parts->vmm);
	free(parts->kernel);
	free(parts->initramfs);
}

static int find_parts(cchv_ctx *ctx, struct found_parts *parts, struct template_parts *ret, cchv_error **err)
{
	int r = vmm_choose(ctx->vmm, &parts->vmm, err);

	if (r == CCHV_OK)
		r = vmm_find_kernel(ctx->state_dir, &parts->kernel, err);
	if (r == CCHV_OK)
		r = vmm_find_initramfs(ctx->state_dir, parts->kernel, &parts->initramfs, err);
	if (r < 0)
		return r;
	*ret = (struct template_parts){
		.vmm = parts->vmm.path, .vmm_kind = parts->vmm.kind,
		.kernel = parts->kernel, .initramfs = parts->initramfs,
	};
	return CCHV_OK;
}

/* 1: it is there; 0: it is not, or is of no use, or has served its time. */
static int is_there(cchv_ctx *ctx, const char *key, cchv_error **err)
{
	cleanup_template struct template *template = NULL;
	int r = template_open(ctx, key, &template, NULL);

	return r == CCHV_ERR_NOMEM ? err_nomem(err) : r == CCHV_OK && !template_is_old(template);
}

/* With the lock of all builders. Why it failed is of interest to those who would have it built by themselves. */
static int build_or_note(cchv_ctx *ctx, const char *key, const struct template_parts *parts, uint64_t deadline,
                         cchv_error **err)
{
	cleanup_err cchv_error *error = NULL, *lost = NULL;
	int r = template_build(ctx, key, parts, deadline, &error);

	if (r == CCHV_OK)
		template_note_remove(ctx, key);
	else if (template_note_write(ctx, key, cchv_error_message(error), &lost) < 0)
		log_warning(&ctx->log, "template '%.12s': %s", key, cchv_error_message(lost));
	return r < 0 ? err_move(err, &error, r) : r;
}

static int build(cchv_ctx *ctx, uint64_t deadline, char key[SHA256_HEX_SIZE], cchv_error **err)
{
	__attribute__((cleanup(parts_free))) struct found_parts found = { 0 };
	struct template_parts parts;
	cleanup_close int lock = -1;
	int r = find_parts(ctx, &found, &parts, err);

	if (r == CCHV_OK)
		r = template_key(&parts, key, err);
	if (r == CCHV_OK)
		r = is_there(ctx, key, err);
	if (r != 0)
		return r;
	r = template_lock(ctx, deadline, &lock, err);
	/* Another builder may have made it meanwhile. */
	if (r == CCHV_OK)
		r = is_there(ctx, key, err);
	return r != 0 ? r : build_or_note(ctx, key, &parts, deadline, err);
}

CCHV_API int cchv_template_build(cchv_ctx *ctx, cchv_vm_config *config, int timeout_ms, char **ret_key,
                                 cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	char key[SHA256_HEX_SIZE], *copy;
	const char *why;
	int r;

	err_clear(err);
	if (!ctx || !ret_key)
		return err_set(err, CCHV_ERR_INVALID, 0, "template_build: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r < 0)
		return r;
	why = config ? template_why_not(config) : NULL;
	if (why)
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "no template can be made for such a VM: %s", why);
	r = ctx_make_runtime_dir(ctx, err);
	if (r == CCHV_OK)
		r = build(ctx, deadline, key, err);
	if (r < 0)
		return r;
	copy = mem_strdup(key);
	if (!copy)
		return err_nomem(err);
	*ret_key = copy;
	return CCHV_OK;
}

CCHV_API int cchv_template_list(cchv_ctx *ctx, cchv_list **ret_keys, cchv_error **err)
{
	int r;

	err_clear(err);
	if (!ctx || !ret_keys)
		return err_set(err, CCHV_ERR_INVALID, 0, "template_list: NULL argument");
	r = ctx_check_process(ctx, err);
	return r < 0 ? r : template_list(ctx, ret_keys, err);
}

CCHV_API int cchv_template_get_info_json(cchv_ctx *ctx, const char *key, char **ret_json, cchv_error **err)
{
	cleanup_template struct template *template = NULL;
	cleanup_buf struct buf text = BUF_INIT(65536);
	int r;

	err_clear(err);
	if (!ctx || !key || !ret_json)
		return err_set(err, CCHV_ERR_INVALID, 0, "template_get_info_json: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r == CCHV_OK)
		r = template_open(ctx, key, &template, err);
	if (r < 0)
		return r;
	if (json_print(template->info, 1, &text) < 0)
		return err_nomem(err);
	*ret_json = buf_take_string(&text);
	return *ret_json ? CCHV_OK : err_nomem(err);
}

CCHV_API int cchv_template_remove(cchv_ctx *ctx, const char *key, cchv_error **err)
{
	int r;

	err_clear(err);
	if (!ctx || !key)
		return err_set(err, CCHV_ERR_INVALID, 0, "template_remove: NULL argument");
	r = ctx_check_process(ctx, err);
	return r < 0 ? r : template_remove(ctx, key, err);
}
