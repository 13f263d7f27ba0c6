/* SPDX-License-Identifier: Apache-2.0 */
/* The table of requests. Enters: a method's name. Leaves: its handler; and the ids that most params carry. */
#include "guest/request.h"

#include "base/path.h"
#include "guest/container.h"
#include "guest/device.h"
#include "guest/exec.h"
#include "guest/power.h"
#include "guest/vm.h"
#include "wire/protocol.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *method;
	request_fn fn;
} requests[] = {
	{ "ack", power_ack },
	{ "container.create", container_create },
	{ "container.delete", container_delete },
	{ "container.list", container_list },
	{ "container.pause", container_pause },
	{ "container.rename", container_rename },
	{ "container.resume", container_resume },
	{ "container.state", container_state },
	{ "container.stats", container_stats },
	{ "container.update", container_update },
	{ "copy.put", copy_put },
	{ "device.release", device_release },
	{ "device.wait", device_wait },
	{ "exec.close_stdin", exec_close_stdin },
	{ "exec.connect", exec_connect },
	{ "exec.delete", exec_delete },
	{ "exec.resize", exec_resize },
	{ "exec.signal", exec_signal },
	{ "exec.start", exec_start },
	{ "exec.state", exec_state },
	{ "net.configure", net_configure },
	{ "vm.configure", vm_configure },
	{ "vm.hold", exec_hold },
	{ "vm.online", vm_online },
	{ "vm.settle", vm_settle },
	{ "vm.shutdown", power_shutdown },
	{ "vm.stats", vm_stats },
	{ "vm.sync", vm_sync },
};

request_fn request_find(const char *method)
{
	for (size_t i = 0; i < ARRAY_LEN(requests); i++)
		if (strcmp(requests[i].method, method) == 0)
			return requests[i].fn;
	return NULL;
}

int request_is_first(const char *method)
{
	return strcmp(method, "vm.configure") == 0 || strcmp(method, "vm.settle") == 0;
}

static int get_id(const struct json *params, const char *key, const char **ret_id, struct reply *reply)
{
	const char *id = NULL;
	int r = json_get_string(params, key, &id, NULL);

	if (r != 1)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'%s' is %s", key,
		            r ? "no string" : "missing");
	/* Ids become names of directories; the host checks them by the same rule. */
	if (*id && !path_name_is_valid(id, PROTOCOL_MAX_ID))
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'%s' is no valid id", key);
	*ret_id = id;
	return CCHV_OK;
}

int request_get_container(const struct json *params, const char **ret_id, struct reply *reply)
{
	return get_id(params, "container", ret_id, reply);
}

int request_get_exec(const struct json *params, const char **ret_id, struct reply *reply)
{
	return get_id(params, "exec", ret_id, reply);
}
