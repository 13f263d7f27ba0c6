/* SPDX-License-Identifier: Apache-2.0 */
/* The context: see <cchv/ctx.h>. Enters: settings. Leaves: the same, shared and counted. */
#include "ctx.h"

#include "base/error.h"
#include "base/export.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

CCHV_API const char *cchv_version(void)
{
	return CCHV_PACKAGE_VERSION;
}

/* A relative path would change its meaning with the caller's working directory. */
static int is_absolute(const char *path)
{
	return path && path[0] == '/' && strlen(path) < 3000;
}

static char *user_state_dir(uid_t uid)
{
	char storage[4096];
	struct passwd pw, *found = NULL;

	if (getpwuid_r(uid, &pw, storage, sizeof(storage), &found) != 0 || !found || !is_absolute(pw.pw_dir))
		return mem_printf("/tmp/cchv-%u", uid);
	return mem_printf("%s/.local/share/cchv", pw.pw_dir);
}

CCHV_API int cchv_ctx_new(cchv_ctx **ret_ctx, cchv_error **err)
{
	uid_t uid = geteuid();
	cchv_ctx *ctx;

	err_clear(err);
	if (!ret_ctx)
		return err_set(err, CCHV_ERR_INVALID, 0, "ctx_new: NULL argument");
	ctx = mem_zalloc(sizeof(*ctx));
	if (!ctx)
		return err_nomem(err);
	atomic_init(&ctx->refs, 1);
	ctx->pid = getpid();
	ctx->log = (struct log_sink)LOG_SINK_INIT;
	ctx->runtime_dir = uid ? mem_printf("/run/user/%u/cchv", uid) : mem_strdup("/run/cchv");
	ctx->state_dir = uid ? user_state_dir(uid) : mem_strdup("/var/lib/cchv");
	ctx->vmm = mem_strdup("auto");
	if (!ctx->runtime_dir || !ctx->state_dir || !ctx->vmm) {
		ctx_unref(ctx);
		return err_nomem(err);
	}
	*ret_ctx = ctx;
	return CCHV_OK;
}

cchv_ctx *ctx_ref(cchv_ctx *ctx)
{
	atomic_fetch_add(&ctx->refs, 1);
	return ctx;
}

void ctx_unref(cchv_ctx *ctx)
{
	if (!ctx || atomic_fetch_sub(&ctx->refs, 1) != 1)
		return;
	log_sink_release(&ctx->log);
	free(ctx->runtime_dir);
	free(ctx->state_dir);
	free(ctx->vmm);
	free(ctx);
}

CCHV_API void cchv_ctx_free(cchv_ctx *ctx)
{
	ctx_unref(ctx);
}

int ctx_check_process(const cchv_ctx *ctx, cchv_error **err)
{
	if (ctx->pid != getpid())
		return err_set(err, CCHV_ERR_FORKED, 0, "the context belongs to process %d", ctx->pid);
	return CCHV_OK;
}

int ctx_make_runtime_dir(cchv_ctx *ctx, cchv_error **err)
{
	return path_make_dirs(ctx->runtime_dir, 0700, err);
}

int ctx_make_state_dir(cchv_ctx *ctx, cchv_error **err)
{
	return path_make_dirs(ctx->state_dir, 0700, err);
}

CCHV_API int cchv_ctx_set_runtime_dir(cchv_ctx *ctx, const char *path)
{
	if (!ctx || !is_absolute(path))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&ctx->runtime_dir, path);
}

CCHV_API int cchv_ctx_set_state_dir(cchv_ctx *ctx, const char *path)
{
	if (!ctx || !is_absolute(path))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&ctx->state_dir, path);
}

CCHV_API const char *cchv_ctx_get_runtime_dir(cchv_ctx *ctx)
{
	return ctx ? ctx->runtime_dir : NULL;
}

CCHV_API const char *cchv_ctx_get_state_dir(cchv_ctx *ctx)
{
	return ctx ? ctx->state_dir : NULL;
}

CCHV_API int cchv_ctx_set_vmm(cchv_ctx *ctx, const char *path_or_auto)
{
	if (!ctx || !path_or_auto || !*path_or_auto)
		return CCHV_ERR_INVALID;
	return mem_replace_string(&ctx->vmm, path_or_auto);
}

CCHV_API int cchv_ctx_set_template_building(cchv_ctx *ctx, int on)
{
	if (!ctx)
		return CCHV_ERR_INVALID;
	ctx->template_building = on != 0;
	return CCHV_OK;
}

static int level_is_valid(int level)
{
	return level >= CCHV_LOG_ERROR && level <= CCHV_LOG_DEBUG;
}

CCHV_API int cchv_ctx_set_log(cchv_ctx *ctx, int max_level, cchv_log_fn fn, void *user_data,
                              cchv_release_fn release)
{
	if (!ctx || !level_is_valid(max_level)) {
		if (release)
			release(user_data);
		return CCHV_ERR_INVALID;
	}
	log_sink_release(&ctx->log);
	ctx->log.max_level = fn ? max_level : -1;
	ctx->log.fn = fn;
	ctx->log.user_data = user_data;
	ctx->log.release = release;
	return CCHV_OK;
}

CCHV_API int cchv_ctx_set_log_fd(cchv_ctx *ctx, int max_level, int fd)
{
	int copy;

	if (!ctx || !level_is_valid(max_level) || fd < 0)
		return CCHV_ERR_INVALID;
	copy = fd_copy(fd);
	if (copy < 0)
		return errno == EBADF ? CCHV_ERR_INVALID : CCHV_ERR_SYSTEM;
	log_sink_release(&ctx->log);
	ctx->log.max_level = max_level;
	ctx->log.fd = copy;
	return CCHV_OK;
}
