/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rest of the Sandbox service. Enters: questions about the pod's sandbox, the wish to end it. Leaves: answers from
 * memory, whatever the VM does; and numbers, for which the guest is asked once, with a short limit.
 */
#include "rpc_pod.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "log.h"
#include "op.h"
#include "pod.h"
#include "sandbox.h"
#include "stats_reply.h"

#define STATS_MS 5000

static struct pod *need(struct server *server, struct call *call, const struct request *request)
{
	struct pod *pod = server->pod;

	if (pod && strcmp(pod->id, request->id) == 0)
		return pod;
	call_fail(call, CODE_NOT_FOUND, "sandbox %s: not found", request->id);
	return NULL;
}

/* As containerd names them; the guest's is the host's. */
static const char *architecture(const char *machine)
{
	if (strcmp(machine, "x86_64") == 0)
		return "amd64";
	return strcmp(machine, "aarch64") == 0 ? "arm64" : machine;
}

void rpc_pod_platform(struct server *server, struct call *call, struct request *request)
{
	struct wire reply = { 0 }, platform = { 0 };
	struct utsname name;

	if (!need(server, call, request))
		return;
	uname(&name);
	wire_put_string(&platform, 1, "linux");
	wire_put_string(&platform, 2, architecture(name.machine));
	wire_put_message(&reply, 1, &platform);
	call_answer(call, &reply);
}

void rpc_pod_stop(struct server *server, struct call *call, struct request *request)
{
	struct pod *pod = need(server, call, request);

	if (!pod)
		return;
	pod_stop(pod);
	pod_answer_when_stopped(pod, call);
}

void rpc_pod_wait(struct server *server, struct call *call, struct request *request)
{
	struct pod *pod = need(server, call, request);

	if (pod)
		pod_wait(pod, call);
}

static void put_info(struct wire *reply, const char *name, const char *value)
{
	struct wire entry = { 0 };

	wire_put_string(&entry, 1, name);
	wire_put_string(&entry, 2, value);
	wire_put_message(reply, 4, &entry);
}

void rpc_pod_status(struct server *server, struct call *call, struct request *request)
{
	const struct sandbox *sandbox = server->sandbox;
	struct pod *pod = need(server, call, request);
	struct wire reply = { 0 };

	if (!pod)
		return;
	wire_put_string(&reply, 1, pod->id);
	wire_put_uint(&reply, 2, pod->state == POD_ENDED ? 0 : (uint64_t)pod->pid);
	wire_put_string(&reply, 3, pod->state == POD_READY ? "SANDBOX_READY" : "SANDBOX_NOTREADY");
	if (request->verbose) {
		char *json = pod_info_json(pod);

		put_info(&reply, "info", json ? json : "{}");
		free(json);
	}
	if (request->verbose && sandbox->state == SANDBOX_UP) {
		char number[32];

		put_info(&reply, "vm", sandbox->vm_id);
		snprintf(number, sizeof(number), "%llu", (unsigned long long)sandbox->size.memory_bytes);
		put_info(&reply, "memory_bytes", number);
		snprintf(number, sizeof(number), "%u", sandbox->size.vcpus);
		put_info(&reply, "vcpus", number);
	}
	wire_put_time(&reply, 5, pod->created_ns);
	wire_put_time(&reply, 6, pod->exited_ns);
	call_answer(call, &reply);
}

void rpc_pod_ping(struct server *server, struct call *call, struct request *request)
{
	struct pod *pod = need(server, call, request);

	if (!pod)
		return;
	if (pod->state == POD_ENDED)
		call_fail(call, CODE_UNAVAILABLE, "sandbox %s has ended: unavailable", pod->id);
	else
		call_answer(call, NULL);
}

/* The daemon closes its connection after the answer, and runs "delete": by then there is nothing to delete. */
void rpc_pod_shutdown(struct server *server, struct call *call, struct request *request)
{
	struct pod *pod = server->pod;

	if (pod && strcmp(pod->id, request->id) != 0) {
		call_fail(call, CODE_NOT_FOUND, "sandbox %s: not found", request->id);
		return;
	}
	if (pod && pod->shutdown_call) {
		call_fail(call, CODE_PRECONDITION, "sandbox %s is being shut down: failed precondition", pod->id);
		return;
	}
	if (!pod && server->tasks) {
		/* The VM of tasks is not the Sandbox service's to end. */
		call_fail(call, CODE_NOT_FOUND, "sandbox %s: not found", request->id);
		return;
	}
	if (!pod) {
		server_end_for(server, &call);
		return;
	}
	call->next = NULL;
	pod->shutdown_call = call;
	pod_stop(pod);
	server_look(server);
}

static void run_metrics(struct op *op)
{
	cchv_stats *stats = NULL;
	cchv_error *error = NULL;
	int r = cchv_vm_get_stats(op->server->sandbox->vm, op->timeout_ms, &stats, &error);

	if (r < 0)
		op_fail_library(op, r, error, "sandbox '%s'", op->server->pod->id);
	op->result = stats;
}

/* containerd.types.Metric */
static void metrics_done(struct op *op)
{
	struct wire reply = { 0 }, metric = { 0 };
	cchv_stats *stats = op->result;

	if (op->code) {
		op_answer_failure(op);
		return;
	}
	wire_put_time(&metric, 1, loop_time_ns());
	wire_put_string(&metric, 2, op->server->pod->id);
	stats_reply_put(&metric, 3, stats, op->server->sandbox->size.memory_bytes);
	wire_put_message(&reply, 1, &metric);
	cchv_stats_free(stats);
	call_answer(op->call, &reply);
	op->call = NULL;
}

void rpc_pod_metrics(struct server *server, struct call *call, struct request *request)
{
	struct pod *pod = need(server, call, request);
	struct op *op;

	if (!pod)
		return;
	if (pod->state != POD_READY || server->sandbox->state != SANDBOX_UP) {
		call_fail(call, CODE_NOT_FOUND, "sandbox %s does not run: not found", pod->id);
		return;
	}
	op = op_new(server, call, NULL, NULL, run_metrics, metrics_done);
	op->timeout_ms = call_left_ms(call, STATS_MS);
	op_start(op);
}
