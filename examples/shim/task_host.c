/* SPDX-License-Identifier: Apache-2.0 */
/* What a task has on this machine: see task_host.h. */
#include "task_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "fault.h"
#include "log.h"
#include "memory.h"

#define CONFIG_MAX    (64U << 20)
#define WRITE_BACK_MS 3000

struct task_host *task_host_new(void)
{
	struct task_host *host = need_zero(sizeof(*host));

	host->holder = (struct netns_holder)NETNS_HOLDER_INIT;
	return host;
}

void task_host_release(struct task_host *host)
{
	binds_free(host->binds);
	host->binds = NULL;
	rootfs_release(host->rootfs);
	host->rootfs = NULL;
	netns_holder_stop(&host->holder);
}

void task_host_free(struct task_host *host)
{
	task_host_release(host);
	hooks_free(host->hooks);
	yajl_tree_free(host->spec);
	free(host->netns);
	free(host);
}

int task_host_read_spec(struct task_host *host, const char *id, const char *bundle, char **ret_error)
{
	char why[256] = "", *text;
	const char *path = NULL;
	size_t len;
	int r;

	if (bundle_read(bundle, BUNDLE_CONFIG, CONFIG_MAX, &text, &len) < 0)
		return fault_set(ret_error, fault_code(errno), "%s/%s: %s", bundle, BUNDLE_CONFIG,
				 strerror(errno));
	host->spec = yajl_tree_parse(text, why, sizeof(why));
	free(text);
	if (!host->spec)
		return fault_set(ret_error, CCHV_ERR_INVALID, "%s/%s: %.200s", bundle, BUNDLE_CONFIG,
				 *why ? why : "not JSON");
	r = netns_of_spec(host->spec, &path, ret_error);
	host->netns = need_copy(path);
	return r < 0 ? r : hooks_read(host->spec, id, bundle, &host->hooks, ret_error);
}

int task_host_start_holder(struct task_host *host, char **ret_error)
{
	return netns_holder_start(&host->holder, host->netns, ret_error);
}

int task_host_run_create_hooks(const struct task_host *host, char **ret_error)
{
	pid_t pid = host->holder.pid;
	int r = hooks_run(host->hooks, "prestart", "creating", pid, -1, ret_error);

	if (r == 0)
		r = hooks_run(host->hooks, "createRuntime", "creating", pid, -1, ret_error);
	if (r == 0)
		r = hooks_run(host->hooks, "createContainer", "creating", pid, host->holder.netns_fd, ret_error);
	return r;
}

void task_host_run_end_hooks(struct task_host *host)
{
	char *text = NULL;

	if (hooks_run(host->hooks, "poststop", "stopped", 0, -1, &text) < 0)
		log_line(LOG_WARNING, "%s", text ? text : "poststop hook");
	free(text);
	hooks_free(host->hooks);
	host->hooks = NULL;
}

void task_host_write_back(struct task_host *host, cchv_container *container)
{
	char *text = NULL;

	if (host->binds && container && binds_write_back(host->binds, container, WRITE_BACK_MS, &text) < 0)
		log_line(LOG_WARNING, "%s", text ? text : "files of the container could not be written back");
	free(text);
}
