/* SPDX-License-Identifier: Apache-2.0 */
/* CreateSandbox, StartSandbox. Enters: a pod's configuration, its network. Leaves: a VM that waits for containers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations.h"
#include "cancel_fd.h"
#include "log.h"
#include "memory.h"
#include "op.h"
#include "pod.h"
#include "rpc_pod.h"
#include "sandbox.h"
#include "sizing.h"
#include "state_file.h"
#include "vm_making.h"

void rpc_pod_create(struct server *server, struct call *call, struct request *request)
{
	char *text = NULL;
	int r = 0;

	if (!request_id_is_valid(request->id) || *request->bundle != '/') {
		call_fail(call, CODE_INVALID, "create sandbox: wrong id or bundle");
		return;
	}
	if (server->pod || server->sandbox->state != SANDBOX_NONE) {
		call_fail(call, CODE_EXISTS, "sandbox %s: already exists", request->id);
		return;
	}
	server->pod = pod_new(server, request->id, request->bundle, request->netns, request->any, &r, &text);
	if (server->pod)
		call_answer(call, NULL);
	else
		call_fail(call, r == CCHV_ERR_INVALID || r == CCHV_ERR_UNSUPPORTED ? CODE_INVALID : CODE_UNKNOWN, "%s",
			  text ? text : cchv_err_text(r));
	free(text);
}

/* ---- in the thread ---- */

struct starting {
	struct pod *pod;
	struct vm_making making;
};

/* Before anything of it is taken. */
static void write_state(struct op *op, const struct starting *s)
{
	struct state state = {
		.server_pid = getpid(),
		.server_start = state_process_start(getpid()),
		.group = (char *)op->server->flags->group,
		.socket = (char *)op->server->flags->socket,
		.vm = s->making.vm_id,
		.runtime_dir = (char *)cchv_ctx_get_runtime_dir(s->making.ctx),
		.state_dir = (char *)cchv_ctx_get_state_dir(s->making.ctx),
		.netns = s->pod->netns,
	};

	if (state_file_write(s->pod->bundle, &state) < 0)
		op_fail(op, CODE_UNKNOWN, "state in %s: %s", s->pod->bundle, strerror(errno));
}

static void read_annotations(struct op *op, struct starting *s)
{
	const struct pod_pairs *list = &s->pod->config.annotations;
	struct annotations asked = { 0 };
	char *text = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < list->count; i++)
		r = annotations_take(&asked, &s->making.config, list->items[i].name, list->items[i].value, &text);
	if (r == 0)
		r = annotations_apply(&asked, &s->making.config);
	annotations_free(&asked);
	if (r < 0)
		op_fail_text(op, r, text);
}

static void configure(struct op *op, struct starting *s)
{
	const struct pod_config *config = &s->pod->config;
	struct size size = sizing_of_limits(config->memory_limit, config->cpu_quota, config->cpu_period,
					    &s->making.config);
	char *cgroup = cgroup_path_text(config->cgroup_parent, s->pod->id);
	int r;

	vm_making_configure(&s->making, op, &size, cgroup, 1);
	free(cgroup);
	if (op->code)
		return;
	r = cchv_vm_config_set_hostname(s->making.vm_config, config->hostname);
	if (r < 0)
		op_fail_library(op, r, NULL, "hostname '%s'", config->hostname);
}

static int try_to_boot(struct starting *s, cchv_error **error)
{
	int r = vm_making_create(&s->making, &s->pod->cancel, error);

	return r == CCHV_OK ? vm_making_boot(&s->making, &s->pod->cancel, error) : r;
}

static void boot(struct op *op, struct starting *s)
{
	cchv_error *error = NULL;
	int r = try_to_boot(s, &error);

	if (r < 0 && vm_making_had_bad_template(&s->making, &s->pod->cancel)) {
		vm_making_start_over(&s->making, error);
		r = try_to_boot(s, &error);
	}
	if (r < 0)
		op_fail_library(op, r, error, "sandbox '%s'", s->pod->id);
}

static int goes_on(struct op *op, struct starting *s)
{
	if (!op->code && cancel_is_requested(&s->pod->cancel))
		op_fail(op, CODE_ABORTED, "sandbox '%s': nobody wants it any more", s->pod->id);
	return !op->code;
}

static void run(struct op *op)
{
	struct starting *s = op->result;

	cancel_fd_set(s->pod->cancel.fd);
	if (goes_on(op, s))
		vm_making_open(&s->making, op, wire_view_of(s->pod->options.data, s->pod->options.len));
	if (goes_on(op, s))
		read_annotations(op, s);
	if (goes_on(op, s))
		write_state(op, s);
	if (goes_on(op, s))
		configure(op, s);
	if (goes_on(op, s))
		vm_making_add_net(&s->making, op, s->pod->holder.netns_fd);
	if (goes_on(op, s))
		boot(op, s);
	cancel_fd_set(-1);
	if (!op->code)
		return;
	cancel_set_vm(&s->pod->cancel, NULL);
	vm_making_stop(&s->making);
	vm_making_free(&s->making);
}

/* ---- in the loop's ---- */

static void failed(struct op *op, struct pod *pod)
{
	log_line(LOG_ERROR, "start sandbox '%s': %s", pod->id, op->message);
	sandbox_made(op->server->sandbox, 0);
	op_answer_failure(op);
	pod_ended(pod, 0);
}

static void put_spec(struct wire *reply, const struct pod *pod)
{
	char *json = pod_spec_json(pod);
	struct wire spec = { 0 };

	if (json)
		wire_put(&spec, json, strlen(json));
	wire_put_any(reply, 3, "types.containerd.io/opencontainers/runtime-spec/1/Spec", &spec);
	free(json);
}

static void started(struct op *op, struct starting *s)
{
	struct pod *pod = s->pod;
	struct wire reply = { 0 };

	vm_making_give(&s->making, op->server->sandbox);
	pod->state = POD_READY;
	pod->created_ns = loop_time_ns();
	sandbox_made(op->server->sandbox, 1);
	wire_put_uint(&reply, 1, (uint64_t)pod->pid);
	wire_put_time(&reply, 2, pod->created_ns);
	put_spec(&reply, pod);
	call_answer(op->call, &reply);
	op->call = NULL;
	/* Somebody wanted its end too late to break the start off. */
	if (cancel_is_requested(&pod->cancel))
		pod_stop(pod);
}

static void done(struct op *op)
{
	struct starting *s = op->result;

	if (op->code)
		failed(op, s->pod);
	else
		started(op, s);
	free(s);
}

void rpc_pod_start(struct server *server, struct call *call, struct request *request)
{
	struct pod *pod = server->pod;
	struct starting *s;
	struct op *op;

	if (!pod || strcmp(pod->id, request->id) != 0) {
		call_fail(call, CODE_NOT_FOUND, "sandbox %s: not found", request->id);
		return;
	}
	if (pod->state != POD_CREATED) {
		call_fail(call, CODE_PRECONDITION, "sandbox %s: it cannot be started now: failed precondition",
			  pod->id);
		return;
	}
	s = need_zero(sizeof(*s));
	s->pod = pod;
	s->making.vm_id = vm_making_id(pod->id);
	pod->state = POD_STARTING;
	server->sandbox->state = SANDBOX_MAKING;
	server->sandbox->is_pod = 1;
	op = op_new(server, call, NULL, NULL, run, done);
	op->result = s;
	op_start_lasting(op);
}
