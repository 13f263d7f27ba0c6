/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Create. Enters: the request, config.json. Leaves: a container whose init stands ready in a running VM, or
 * nothing at all. The first one of a group makes the VM; others wait for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "annotations.h"
#include "events.h"
#include "guest_spec.h"
#include "log.h"
#include "memory.h"
#include "op.h"
#include "pod.h"
#include "sandbox.h"
#include "service.h"
#include "shared_spaces.h"
#include "sizing.h"
#include "spec_tree.h"
#include "state_file.h"
#include "task_host.h"

#include "cancel_fd.h"
#include "task_delete.h"
#include "vm_making.h"

#include <unistd.h>

#define CREATE_MS 60000
#define UNDO_MS   10000

/* What the thread needs, and what it makes. */
struct create {
	int is_first;
	struct wire options; /* a copy */
	struct vm_making making;
	struct annotations asked;
	cchv_container_config *container_config;
	/* The other containers of the VM: their pids here, their names there. */
	struct {
		int pid;
		char *name;
	} * others;
	size_t other_count;
	const struct shared_spaces *spaces; /* the VM's */
	const char *pause; /* the container that holds the processes of its pod; NULL: it does not ask for it */
	struct pod *pod; /* the sandbox that it is a member of, where that has no container of its own */
};

static void create_free(struct create *c)
{
	for (size_t i = 0; i < c->other_count; i++)
		free(c->others[i].name);
	free(c->others);
	cchv_container_config_free(c->container_config);
	annotations_free(&c->asked);
	wire_free(&c->options);
	free(c);
}

static const char *find_other(const char *path, const char *type, void *data)
{
	const struct create *c = data;
	int pid = guest_spec_pid(path);

	if (!pid)
		return shared_spaces_find(c->spaces, path, type, c->is_first);
	for (size_t i = 0; i < c->other_count; i++)
		if (c->others[i].pid == pid)
			return c->others[i].name;
	if (!c->pod || c->pod->pid != pid)
		return NULL;
	return c->pause && strcmp(type, "pid") == 0 ? c->pause : "";
}

/* ---- in the thread ---- */

static int worse(int a, int b)
{
	return b < a ? b : a;
}

/* Before anything of it is taken. */
static void write_state(struct op *op)
{
	struct create *c = op->result;
	struct state state = {
		.server_pid = getpid(),
		.server_start = state_process_start(getpid()),
		.pid = op->task->init->pid,
		.group = (char *)op->server->flags->group,
		.socket = (char *)op->server->flags->socket,
		.vm = c->making.vm_id,
		.runtime_dir = (char *)cchv_ctx_get_runtime_dir(c->making.ctx),
		.state_dir = (char *)cchv_ctx_get_state_dir(c->making.ctx),
		.container = op->task->lib_id,
		.netns = op->task->host->netns,
	};

	if (state_file_write(op->task->bundle, &state) < 0)
		op_fail(op, CODE_UNKNOWN, "state in %s: %s", op->task->bundle, strerror(errno));
}

static void read_annotations(struct op *op)
{
	struct create *c = op->result;
	yajl_val list = spec_tree_get(op->task->host->spec, "annotations");
	char *text = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && YAJL_IS_OBJECT(list) && i < list->u.object.len; i++) {
		const char *value = YAJL_GET_STRING(list->u.object.values[i]);

		r = annotations_take(&c->asked, &c->making.config, list->u.object.keys[i], value ? value : "", &text);
	}
	/* A member's VM is there already. */
	if (r == 0 && c->is_first)
		r = annotations_apply(&c->asked, &c->making.config);
	if (r < 0)
		op_fail_text(op, r, text);
}

static void add_rootfs(struct op *op)
{
	struct create *c = op->result;
	struct task_host *host = op->task->host;
	const struct shim_config *config = &c->making.config;
	uint64_t scratch_mib = c->asked.scratch_mib ? c->asked.scratch_mib : config->scratch_mib;
	struct rootfs_options options = { .scratch_bytes = scratch_mib << 20 };
	const char *mode = c->asked.rootfs ? c->asked.rootfs : config->rootfs ? config->rootfs : "";
	const char *when = c->asked.write_back ? c->asked.write_back : config->write_back ? config->write_back : "";
	char *text = NULL;
	int r;

	r = rootfs_mode_parse(mode, &options.mode);
	if (r < 0) {
		op_fail(op, CODE_INVALID, "rootfs '%s': neither 'image' nor 'virtiofs'", mode);
		return;
	}
	r = rootfs_write_back_parse(when, &options.write_back);
	if (r < 0) {
		op_fail(op, CODE_INVALID, "write_back '%s': none of 'auto', 'always' and 'never'", when);
		return;
	}
	r = rootfs_add(&host->rootfs, c->making.ctx, &op->task->mounts, op->task->bundle, host->spec, &options,
		       c->container_config, c->making.vm_config, &text);
	if (r == 0)
		r = binds_map(&host->binds, host->spec, op->task->bundle, c->container_config, c->making.vm_config,
			      &text);
	if (r < 0)
		op_fail_text(op, r, text);
}

static void set_spec(struct op *op)
{
	struct create *c = op->result;
	char *text = NULL, *json;
	int r = 0;

	if (c->pod && pod_is_shared(c->pod, op->task->host->spec, "pid"))
		r = pod_pause_need(&c->pod->pause, c->making.ctx, c->making.vm, &c->pause, &text);
	if (r == 0)
		r = guest_spec_adapt(op->task->host->spec, find_other, c, &text);

	if (r < 0) {
		op_fail_text(op, r, text);
		return;
	}
	json = spec_tree_print(op->task->host->spec);
	r = json ? cchv_container_config_set_spec_json(c->container_config, json) : CCHV_ERR_NOMEM;
	r = worse(r, cchv_container_config_set_tty(c->container_config, op->task->init->paths.terminal));
	/* As runc has it: there is no container without a program. */
	r = worse(r, cchv_container_config_set_check_program(c->container_config, 1));
	free(json);
	if (r < 0)
		op_fail_library(op, r, NULL, "specification");
}

static void make_settings(struct op *op)
{
	struct create *c = op->result;
	char *text = NULL;
	int r;

	if (c->is_first) {
		yajl_val spec = op->task->host->spec;
		const char *cgroup = spec_tree_string(spec_tree_get(spec, "linux"), "cgroupsPath");
		struct size size = sizing_of(spec, op->server->sandbox->is_pod, &c->making.config);

		vm_making_configure(&c->making, op, &size, cgroup, op->server->sandbox->is_pod);
	}
	if (op->code)
		return;
	r = cchv_container_config_new(op->task->lib_id, &c->container_config);
	if (r < 0) {
		op_fail_library(op, r, NULL, "settings of the container");
		return;
	}
	r = c->pod ? pod_adapt_member(c->pod, op->task->host->spec, c->container_config, &text) : 0;
	if (r < 0)
		op_fail_text(op, r, text);
	else
		add_rootfs(op);
	if (!op->code)
		set_spec(op);
	if (!op->code && c->is_first)
		vm_making_add_net(&c->making, op, op->task->host->holder.netns_fd);
}

/* Its record and its scratch disk go with it. */
static void drop_container(struct task *task)
{
	cchv_error *error = NULL;
	int r = task->container ? cchv_container_delete(task->container, UNDO_MS, &error) : CCHV_OK;

	if (r < 0 && r != CCHV_ERR_NOT_FOUND)
		log_line(LOG_WARNING, "create '%s': %s", task->id, cchv_error_message(error));
	cchv_error_free(error);
	cchv_container_free(task->container);
	task->container = NULL;
}

static int try_to_make(struct op *op, cchv_error **error)
{
	struct create *c = op->result;
	int r = CCHV_OK;

	if (c->is_first)
		r = vm_making_create(&c->making, &op->task->cancel, error);
	if (r == CCHV_OK)
		r = cchv_container_create(c->making.vm, c->container_config, CREATE_MS, &op->task->container, error);
	if (r == CCHV_OK && c->is_first)
		r = vm_making_boot(&c->making, &op->task->cancel, error);
	return r;
}

static void make_container(struct op *op)
{
	struct create *c = op->result;
	cchv_error *error = NULL;
	int r = try_to_make(op, &error);

	if (r < 0 && c->is_first && vm_making_had_bad_template(&c->making, &op->task->cancel)) {
		drop_container(op->task);
		vm_making_start_over(&c->making, error);
		r = try_to_make(op, &error);
	}
	if (r < 0)
		op_fail_library(op, r, error, "container '%s'", op->task->id);
}

/* The thread's own leftovers; what the task has goes in the loop's. */
static void undo(struct op *op)
{
	struct create *c = op->result;

	cancel_set_vm(&op->task->cancel, NULL);
	if (c->is_first)
		vm_making_stop(&c->making);
	drop_container(op->task);
	task_host_release(op->task->host);
	task_host_run_end_hooks(op->task->host);
	if (c->is_first)
		vm_making_free(&c->making);
}

static void look_at_cancel(struct op *op)
{
	if (!op->code && cancel_is_requested(&op->task->cancel))
		op_fail(op, CODE_ABORTED, "container '%s': nobody wants it any more", op->task->id);
}

static void open_stdio(struct op *op)
{
	struct process *init = op->task->init;
	char *text = NULL;
	int r = stdio_set_open(&init->paths, op->task->id, op->server->flags->namespace, &init->stdio, &text);

	if (r < 0)
		op_fail_text(op, r, text);
}

static void run_hooks(struct op *op)
{
	char *text = NULL;
	int r = task_host_run_create_hooks(op->task->host, &text);

	if (r < 0)
		op_fail_text(op, r, text);
}

static void run(struct op *op)
{
	static void (*const steps[])(struct op *op) = { read_annotations, write_state, open_stdio, run_hooks,
							make_settings, make_container };
	struct sandbox *sandbox = op->server->sandbox;
	struct create *c = op->result;

	cancel_fd_set(op->task->cancel.fd);
	if (c->is_first) {
		vm_making_open(&c->making, op, wire_view_of(c->options.data, c->options.len));
	} else if (sandbox->state == SANDBOX_UP) {
		vm_making_borrow(&c->making, sandbox);
	} else {
		op_fail(op, CODE_PRECONDITION, "container '%s': its group's VM has ended", op->task->id);
	}
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		look_at_cancel(op);
		if (!op->code)
			steps[i](op);
	}
	/* The hooks of the end are for a container that was killed, too, and nobody breaks those off. */
	cancel_fd_set(-1);
	if (op->code)
		undo(op);
}

/* ---- in the loop's ---- */

static void failed(struct op *op)
{
	state_file_remove(op->task->bundle);
	if (((struct create *)op->result)->is_first)
		sandbox_made(op->server->sandbox, 0);
	log_line(LOG_ERROR, "create '%s': %s", op->task->id, op->message);
	task_unlist(op->task);
	op_answer_failure(op);
}

static void on_stand_in_killed(uint32_t events, void *data)
{
	struct task *task = data;

	loop_unwatch(&task->stand_in);
	log_line(LOG_INFO, "container '%s': its process %u was killed, and so it is", task->id,
		 task->init->pid);
	task_kill(task);
}

/* Whoever kills the pid that Create returned means the container. */
static void watch_stand_in(struct task *task)
{
	task->stand_in =
		(struct watch) { .fd = task->host->holder.pid_fd, .fn = on_stand_in_killed, .data = task };
	if (task->stand_in.fd >= 0 && loop_watch(task->server->loop, &task->stand_in, EPOLLIN) < 0)
		log_line(LOG_WARNING, "container '%s': its process cannot be watched", task->id);
}

static void answer_created(struct op *op)
{
	struct wire reply = { 0 };

	events_task_create(op->task);
	wire_put_uint(&reply, 1, op->task->init->pid);
	call_answer(op->call, &reply);
	op->call = NULL;
}

/*
 * It was killed, or deleted, while it was being made: for everybody else it was made, and ended at once without a
 * start, as it would have been had the request waited for the end of Create.
 */
static void finish_cancelled(struct op *op)
{
	struct task *task = op->task;
	struct call *call = task->delete_call;

	answer_created(op);
	process_exited(task->init, task->kill_status, 0);
	task->delete_call = NULL;
	if (call)
		task_delete(task, call);
}

static void cancelled(struct op *op)
{
	log_line(LOG_INFO, "create '%s': broken off", op->task->id);
	op->task->phase = TASK_LIVE;
	stdio_set_close(&op->task->init->stdio, op->server->loop);
	if (((struct create *)op->result)->is_first)
		sandbox_made(op->server->sandbox, 0);
	finish_cancelled(op);
}

static void created(struct op *op)
{
	struct sandbox *sandbox = op->server->sandbox;
	struct create *c = op->result;

	op->task->phase = TASK_LIVE;
	if (c->is_first) {
		vm_making_give(&c->making, sandbox);
		sandbox_made(sandbox, 1);
	}
	watch_stand_in(op->task);
	/* Too late to break it off. */
	if (op->task->kill_status)
		finish_cancelled(op);
	else
		answer_created(op);
}

static void done(struct op *op)
{
	if (op->code && op->task->kill_status)
		cancelled(op);
	else if (op->code)
		failed(op);
	else
		created(op);
	create_free(op->result);
}

static void remember_others(struct server *server, struct create *c)
{
	size_t count = 0;

	for (struct task *t = server->tasks; t; t = t->next)
		count++;
	c->others = need_zero((count + 1) * sizeof(*c->others));
	for (struct task *t = server->tasks; t; t = t->next) {
		if (t->phase != TASK_LIVE)
			continue;
		c->others[c->other_count].pid = (int)t->init->pid;
		c->others[c->other_count++].name = need_copy(t->lib_id);
	}
}

static int is_pod(const struct task *task)
{
	yajl_val annotations = spec_tree_get(task->host->spec, "annotations");

	return spec_tree_get(annotations, "io.containerd.runc.v2.group") ||
	       spec_tree_get(annotations, "io.kubernetes.cri.sandbox-id") ||
	       spec_tree_get(annotations, "io.kubernetes.cri-o.SandboxID");
}

static void submit(struct server *server, struct call *call, struct task *task, struct create *c)
{
	struct sandbox *sandbox = server->sandbox;
	struct op *op = op_new(server, call, task, NULL, run, done);

	op->result = c;
	task->lib_id = vm_making_id(task->id);
	/* Without the sandbox's VM it says so. */
	switch (c->pod ? SANDBOX_UP : sandbox->state) {
	case SANDBOX_NONE:
		sandbox->state = SANDBOX_MAKING;
		sandbox->is_pod = is_pod(task);
		shared_spaces_read(&sandbox->spaces, task->host->spec, task->lib_id);
		c->is_first = 1;
		c->making.vm_id = vm_making_id(server->flags->group);
		op_start_lasting(op);
		break;
	case SANDBOX_MAKING:
		op->job.next = (struct job *)sandbox->waiting;
		sandbox->waiting = op;
		break;
	default: op_start(op); break;
	}
}

void rpc_create(struct server *server, struct call *call, struct request *request)
{
	struct task *task;
	struct create *c;
	char *text = NULL;
	int r;

	if (!request_id_is_valid(request->id) || *request->bundle != '/') {
		call_fail(call, CODE_INVALID, "create: wrong id or bundle");
		return;
	}
	if (task_find(server, request->id)) {
		call_fail(call, CODE_EXISTS, "container %s: already exists", request->id);
		return;
	}
	if (server->pod && server->pod->state != POD_READY) {
		call_fail(call, CODE_PRECONDITION, "container %s: its sandbox %s is not ready: failed precondition",
			  request->id, server->pod->id);
		return;
	}
	if (*request->checkpoint) {
		call_fail(call, CODE_UNIMPLEMENTED, "restoring a checkpoint is not implemented");
		return;
	}
	task = task_new(server, request->id, request->bundle);
	task->init->paths =
		(struct stdio_paths) { request->in, request->out, request->err, request->terminal != 0 };
	request->in = request->out = request->err = NULL;
	task->mounts = request->rootfs;
	request->rootfs = (struct mount_list) { 0 };
	r = task_host_read_spec(task->host, task->id, task->bundle, &text);
	if (r == 0)
		r = task_host_start_holder(task->host, &text);
	if (r < 0) {
		call_fail(call,
			  r == CCHV_ERR_INVALID || r == CCHV_ERR_UNSUPPORTED ? CODE_INVALID : CODE_UNKNOWN,
			  "%s", text ? text : cchv_err_text(r));
		free(text);
		task_unlist(task);
		return;
	}
	/* Known to Pids from here on: a container that is being made is no leak. */
	task->init->pid = (uint32_t)task->host->holder.pid;
	c = need_zero(sizeof(*c));
	wire_put(&c->options, request->any.data, request->any.len);
	c->pod = server->pod;
	c->spaces = &server->sandbox->spaces;
	remember_others(server, c);
	submit(server, call, task, c);
}
