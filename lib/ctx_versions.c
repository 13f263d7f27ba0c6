/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a VM would be made of now: cchv_ctx_get_versions_json(). Enters: files and programs of the host. Leaves: JSON,
 * in which what is missing has its reason in its place. Nothing is booted.
 */
#include <string.h>

#include "base/export.h"
#include "base/json.h"
#include "base/path.h"
#include "ctx.h"
#include "program_version.h"
#include "vmm/agent_version.h"
#include "vmm/choose.h"
#include "vmm/kernel_release.h"
#include "wire/protocol.h"

/* The reason in place of what was asked for. Only memory ends the whole. */
static int say_why(struct json *object, int r, cchv_error **error, cchv_error **err)
{
	if (r == CCHV_ERR_NOMEM)
		return err_move(err, error, r);
	if (r < 0)
		json_set_string(object, "error", cchv_error_message(*error));
	return CCHV_OK;
}

static int add_program(struct json *object, const char *path, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	cleanup_free char *line = NULL;
	int r = program_version(path, "--version", &line, &error);

	json_set_string(object, "path", path);
	if (r == CCHV_OK)
		json_set_string(object, "version", line);
	return say_why(object, r, &error, err);
}

/* What cchv-qemu runs. */
static int add_qemu(struct json *vmm, cchv_error **err)
{
	struct json *qemu = json_edit(vmm, "qemu", JSON_OBJECT);
	cleanup_err cchv_error *error = NULL;
	cleanup_free char *path = NULL;
	int r = qemu ? path_find_program("qemu-system-x86_64", &path, &error) : err_nomem(&error);

	return r == CCHV_OK ? add_program(qemu, path, err) : say_why(qemu, r, &error, err);
}

static int add_vmm(const cchv_ctx *ctx, struct json *vmm, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	struct vmm_choice choice = { 0 };
	int r = vmm_choose(ctx->vmm, &choice, &error);

	if (r < 0)
		return say_why(vmm, r, &error, err);
	json_set_string(vmm, "name", vmm_kind_name(choice.kind));
	json_set_string(vmm, "reason", choice.reason);
	r = add_program(vmm, choice.path, err);
	if (r == CCHV_OK && choice.kind == VMM_CCHV_QEMU)
		r = add_qemu(vmm, err);
	vmm_choice_free(&choice);
	return r;
}

static int add_kernel(struct json *kernel, const char *path, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	cleanup_free char *release = NULL;
	int r = vmm_kernel_release(path, &release, &error);

	json_set_string(kernel, "path", path);
	if (release)
		json_set_string(kernel, "version", release);
	return say_why(kernel, r, &error, err);
}

static int add_agent(struct json *agent, const char *path, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	struct agent_version version = { .version = NULL };
	int r = vmm_agent_version(path, &version, &error);

	json_set_string(agent, "path", path);
	if (version.version) {
		json_set_string(agent, "version", version.version);
		json_set_u64(agent, "protocol", version.protocol);
	}
	free(version.version);
	return say_why(agent, r, &error, err);
}

static int add_guest(const cchv_ctx *ctx, struct json *kernel, struct json *agent, cchv_error **err)
{
	cleanup_free char *path = NULL, *initramfs = NULL;
	cleanup_err cchv_error *error = NULL;
	int r = vmm_find_kernel(ctx->state_dir, &path, &error);

	r = r == CCHV_OK ? add_kernel(kernel, path, err) : say_why(kernel, r, &error, err);
	if (r < 0)
		return r;
	cchv_error_free(steal(&error));
	r = vmm_find_initramfs(ctx->state_dir, path, &initramfs, &error);
	return r == CCHV_OK ? add_agent(agent, initramfs, err) : say_why(agent, r, &error, err);
}

CCHV_API int cchv_ctx_get_versions_json(cchv_ctx *ctx, char **ret_json, cchv_error **err)
{
	cleanup_json struct json *all = json_new_object();
	cleanup_buf struct buf text = BUF_INIT(65536);
	struct json *vmm, *kernel, *agent;
	char *json;
	int r;

	err_clear(err);
	if (!ctx || !ret_json)
		return err_set(err, CCHV_ERR_INVALID, 0, "ctx_get_versions_json: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r < 0)
		return r;
	json_set_string(all, "libcchv", cchv_version());
	json_set_u64(all, "protocol", PROTOCOL_VERSION);
	vmm = json_edit(all, "vmm", JSON_OBJECT);
	kernel = json_edit(all, "kernel", JSON_OBJECT);
	agent = json_edit(all, "agent", JSON_OBJECT);
	if (!vmm || !kernel || !agent)
		return err_nomem(err);
	r = add_vmm(ctx, vmm, err);
	if (r == CCHV_OK)
		r = add_guest(ctx, kernel, agent, err);
	if (r < 0)
		return r;
	json = json_print(all, 1, &text) < 0 ? NULL : buf_take_string(&text);
	if (!json)
		return err_nomem(err);
	*ret_json = json;
	return CCHV_OK;
}
