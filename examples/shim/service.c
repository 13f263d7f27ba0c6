/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The services on the socket: see service.h. Enters: calls. Leaves: each to its function, with its message
 * read. The task service of version 2 and 3 is one: the messages are the same.
 */
#include "service.h"

#include <stddef.h>
#include <string.h>

#include "rpc_pod.h"

#define AT(member) offsetof(struct request, member)
#define ID                                                                                                   \
	{                                                                                                    \
		1, SLOT_TEXT, AT(id)                                                                         \
	}
#define EXEC_ID                                                                                              \
	{                                                                                                    \
		2, SLOT_TEXT, AT(exec_id)                                                                    \
	}
#define END                                                                                                  \
	{                                                                                                    \
		0, SLOT_TEXT, 0                                                                              \
	}

static const struct slot id_slots[] = { ID, END };
static const struct slot process_slots[] = { ID, EXEC_ID, END };
static const struct slot create_slots[] = {
	ID,
	{ 2, SLOT_TEXT, AT(bundle) },
	{ 3, SLOT_MOUNT, AT(rootfs) },
	{ 4, SLOT_NUMBER, AT(terminal) },
	{ 5, SLOT_TEXT, AT(in) },
	{ 6, SLOT_TEXT, AT(out) },
	{ 7, SLOT_TEXT, AT(err) },
	{ 8, SLOT_TEXT, AT(checkpoint) },
	{ 10, SLOT_VIEW, AT(any) },
	END,
};
static const struct slot exec_slots[] = {
	ID,
	EXEC_ID,
	{ 3, SLOT_NUMBER, AT(terminal) },
	{ 4, SLOT_TEXT, AT(in) },
	{ 5, SLOT_TEXT, AT(out) },
	{ 6, SLOT_TEXT, AT(err) },
	{ 7, SLOT_VIEW, AT(any) },
	END,
};
static const struct slot kill_slots[] = {
	ID, EXEC_ID, { 3, SLOT_NUMBER, AT(signal) }, { 4, SLOT_NUMBER, AT(all) }, END,
};
static const struct slot resize_slots[] = {
	ID, EXEC_ID, { 3, SLOT_NUMBER, AT(width) }, { 4, SLOT_NUMBER, AT(height) }, END,
};
static const struct slot close_slots[] = { ID, EXEC_ID, { 3, SLOT_NUMBER, AT(close_stdin) }, END };
static const struct slot update_slots[] = { ID, { 2, SLOT_VIEW, AT(any) }, END };
static const struct slot shutdown_slots[] = { ID, { 2, SLOT_NUMBER, AT(now) }, END };

static const struct slot pod_create_slots[] = {
	ID,
	{ 2, SLOT_TEXT, AT(bundle) },
	{ 4, SLOT_VIEW, AT(any) },
	{ 5, SLOT_TEXT, AT(netns) },
	END,
};
static const struct slot pod_status_slots[] = { ID, { 2, SLOT_NUMBER, AT(verbose) }, END };

struct method {
	const char *name;
	const struct slot *slots;
	void (*fn)(struct server *server, struct call *call, struct request *request);
};

static const struct method task_methods[] = {
	{ "State", process_slots, rpc_state },    { "Create", create_slots, rpc_create },
	{ "Start", process_slots, rpc_start },    { "Delete", process_slots, rpc_delete },
	{ "Pids", id_slots, rpc_pids },           { "Pause", id_slots, rpc_pause },
	{ "Resume", id_slots, rpc_resume },       { "Kill", kill_slots, rpc_kill },
	{ "Exec", exec_slots, rpc_exec },         { "ResizePty", resize_slots, rpc_resize_pty },
	{ "CloseIO", close_slots, rpc_close_io }, { "Update", update_slots, rpc_update },
	{ "Wait", process_slots, rpc_wait },      { "Stats", id_slots, rpc_stats },
	{ "Connect", id_slots, rpc_connect },     { "Shutdown", shutdown_slots, rpc_shutdown },
	/* Checkpoint is not there: it is answered as a method that nobody knows. */
	{ NULL, NULL, NULL },
};

/* What a sandbox shall be limited to is said once, when it is made: containerd has no UpdateSandbox either. */
static const struct method pod_methods[] = {
	{ "CreateSandbox", pod_create_slots, rpc_pod_create }, { "StartSandbox", id_slots, rpc_pod_start },
	{ "Platform", id_slots, rpc_pod_platform },            { "StopSandbox", id_slots, rpc_pod_stop },
	{ "WaitSandbox", id_slots, rpc_pod_wait },             { "SandboxStatus", pod_status_slots, rpc_pod_status },
	{ "PingSandbox", id_slots, rpc_pod_ping },             { "ShutdownSandbox", id_slots, rpc_pod_shutdown },
	{ "SandboxMetrics", id_slots, rpc_pod_metrics },       { NULL, NULL, NULL },
};

static const struct {
	const char *name;
	const struct method *methods;
} services[] = {
	{ "containerd.task.v2.Task", task_methods },
	{ "containerd.task.v3.Task", task_methods },
	{ "containerd.runtime.sandbox.v1.Sandbox", pod_methods },
};

static const struct method *find_methods(const char *service)
{
	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		if (strcmp(services[i].name, service) == 0)
			return services[i].methods;
	return NULL;
}

void service_call(struct server *server, struct call *call)
{
	const char *service = call->request.service, *name = call->request.method;
	const struct method *method = find_methods(service);
	struct request request;

	if (!method) {
		call_fail(call, CODE_UNIMPLEMENTED, "service %s is not implemented", service);
		return;
	}
	for (; method->name; method++) {
		if (strcmp(method->name, name) != 0)
			continue;
		if (request_read(call->request.payload, method->slots, &request) < 0)
			call_fail(call, CODE_INVALID, "%s: malformed request", name);
		else
			method->fn(server, call, &request);
		request_free(&request);
		return;
	}
	call_fail(call, CODE_UNIMPLEMENTED, "method %s of %s is not implemented", name, service);
}

struct task *service_need_task(struct server *server, struct call *call, const struct request *request)
{
	struct task *task = task_find(server, request->id);

	if (!task)
		call_fail(call, CODE_NOT_FOUND, "container %s: not found", request->id);
	return task;
}

struct process *service_need_process(struct server *server, struct call *call, const struct request *request)
{
	struct task *task = service_need_task(server, call, request);
	struct process *process = task ? task_find_process(task, request->exec_id) : NULL;

	if (task && !process)
		call_fail(call, CODE_NOT_FOUND, "container %s: process %s: not found", request->id,
			  request->exec_id);
	return process;
}

struct process *service_need_running(struct server *server, struct call *call, const struct request *request)
{
	struct process *process = service_need_process(server, call, request);

	if (!process || process->state == PROCESS_RUNNING)
		return process;
	if (process->state == PROCESS_STOPPED)
		call_fail(call, CODE_NOT_FOUND, "process already finished: not found");
	else
		call_fail(call, CODE_PRECONDITION, "process is not running: failed precondition");
	return NULL;
}
