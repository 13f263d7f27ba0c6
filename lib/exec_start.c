/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a process: the streams are dialled and the request is sent at once; the reply comes when the program runs,
 * or could not be run. Enters: a process, streams. Leaves: a running process, or why there is none. A start that
 * nobody waits for any more (its time ran out) is undone as soon as its reply is there.
 */
#include "exec.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "event.h"
#include "exec_config.h"

static void on_killed(struct channel_call *call)
{
	struct exec *exec = call->user_data;
	int code = call->code;

	channel_call_drop(call);
	/* No such process: then its end will not be told. */
	if (code < 0 && exec->listed && exec->phase < EXEC_ENDING && exec != exec->container->init)
		exec_unlist(exec);
	exec_release(exec);
}

/* Nobody knows of it: end it, whatever it is. The rest is exec_end.c's, when its end is told. */
static void kill_abandoned(struct exec *exec)
{
	struct json *params = exec_params(exec);

	json_set_string(params, "scope", "group");
	json_set_u64(params, "signal", SIGKILL);
	exec->kill_call.fn = on_killed;
	exec->kill_call.user_data = exec;
	exec_ref(exec);
	if (channel_call_start(exec->vm->agent, &exec->kill_call, "exec.signal", params, NULL) < 0)
		exec_release(exec);
}

static void started(struct exec *exec, const struct json *result)
{
	struct event_info info = { .type = CCHV_EVENT_EXEC_STARTED, .container_id = exec->container->id,
	                           .exec_id = exec->id };
	uint64_t pid = 0;

	json_get_u64(result, "pid", &pid, NULL);
	exec->pid = info.pid = (int)pid;
	exec->start_time = clock_real_ns();
	exec->phase = EXEC_ALIVE;
	if (exec->container->init == exec)
		container_set_state(exec->container, CCHV_CONTAINER_RUNNING);
	if (exec->abandoned) {
		kill_abandoned(exec);
	} else {
		if (!exec->is_quiet)
			vm_push_event(exec->vm, &info);
		exec_streams_begin(exec);
	}
	if (exec->exit_is_early)
		exec_begin_end(exec);
}

void exec_on_started(struct exec *exec, const struct json *message)
{
	if (exec->is_ours || exec_parse_start(exec, message) < 0 || exec->phase != EXEC_NEW)
		return;
	exec->phase = EXEC_ALIVE;
	if (exec->container->init == exec)
		container_set_state(exec->container, CCHV_CONTAINER_RUNNING);
}

static void not_started(struct exec *exec, int code, cchv_error *error)
{
	/* A stream that failed before is why. */
	if (!exec->failed) {
		exec->failed = code;
		exec->failure = error;
	} else {
		cchv_error_free(error);
	}
	exec_streams_close(exec);
	/* The connection broke: perhaps the agent did start it. */
	if (code == CCHV_ERR_GUEST_GONE && vm_check_alive(exec->vm, NULL) == CCHV_OK)
		kill_abandoned(exec);
	if (exec == exec->container->init)
		exec_init_failed(exec, code);
	else if (exec->abandoned)
		exec_unlist(exec);
}

static void on_start_reply(struct channel_call *call)
{
	struct exec *exec = call->user_data;
	cleanup_json struct json *result = NULL;
	cchv_error *error = NULL;
	int code = channel_call_finish(call, &result, &error);

	exec_ref(exec);
	if (code == CCHV_OK)
		started(exec, result);
	else
		not_started(exec, code, error);
	exec_release(exec);
}

static int wait_for_start(struct exec *exec, uint64_t deadline, cchv_error **err)
{
	int r = CCHV_OK;

	while (r == CCHV_OK && exec->listed && exec->phase == EXEC_STARTING && !exec->failed)
		r = vm_serve(exec->vm, deadline, err);
	if (!exec->listed)
		return err_set(err, CCHV_ERR_STATE, 0, "process '%s': its container was let go of", exec->id);
	if (exec->failed) {
		cchv_error *error = steal(&exec->failure);

		/* Of a stream: the agent's own refusal is still to come. */
		exec->abandoned = exec->start_call.channel != NULL;
		return err_move(err, &error, exec->failed);
	}
	if (exec->phase != EXEC_STARTING) {
		cchv_error_free(err ? steal(err) : NULL);
		return CCHV_OK;
	}
	exec->abandoned = 1;
	return r == CCHV_ERR_TIMEOUT ? err_prefix(err, r, "process '%s': not started", exec->id) : r;
}

static int send_start(struct exec *exec, struct json *process, struct json *archive, const cchv_stdio_config *stdio,
                      cchv_error **err)
{
	struct json *params = exec_params(exec);

	if (process)
		json_set(params, "process", process);
	if (archive)
		json_set(params, "archive", archive);
	json_set(params, "streams", exec_streams_json(exec));
	if (stdio && stdio->rows) {
		json_set_u64(params, "rows", stdio->rows);
		json_set_u64(params, "cols", stdio->cols);
	}
	if (!params)
		return err_nomem(err);
	exec->start_call.fn = on_start_reply;
	exec->start_call.user_data = exec;
	exec->phase = EXEC_STARTING;
	exec->is_ours = 1;
	return channel_call_start(exec->vm->agent, &exec->start_call, "exec.start", params, err);
}

int exec_start(struct exec *exec, struct json *process, struct json *archive, const cchv_stdio_config *stdio,
               uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *own_process = process, *own_archive = archive;
	enum exec_phase before = exec->phase;
	int r;

	r = exec_streams_open(exec, stdio, deadline, err);
	if (r == CCHV_OK)
		r = send_start(exec, steal(&own_process), steal(&own_archive), stdio, err);
	exec_ref(exec);
	if (r < 0) {
		exec_streams_close(exec);
		exec->phase = before;
	} else {
		r = wait_for_start(exec, deadline, err);
	}
	/* An abandoned one stays until its reply, and an init as long as its container. */
	if (r < 0 && exec->listed && !exec->abandoned && exec != exec->container->init)
		exec_unlist(exec);
	exec_release(exec);
	return r;
}

static int make_id(char id[32], cchv_error **err)
{
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return err_set(err, CCHV_ERR_SYSTEM, 0, "getrandom");
	snprintf(id, 32, "exec-%016llx", (unsigned long long)number);
	return CCHV_OK;
}

static int check(struct container *container, const cchv_exec_config *config, const struct json *process,
                 cchv_error **err)
{
	int tty = 0;

	if (json_get_bool(process, "terminal", &tty, err) < 0)
		return err_prefix(err, CCHV_ERR_INVALID, "exec: process");
	if (config->id && exec_find(container, config->id))
		return err_set(err, CCHV_ERR_EXISTS, 0, "process '%s' of container '%s' exists", config->id,
		               container->id);
	return config->stdio ? stdio_config_check(config->stdio, tty, err) : CCHV_OK;
}

int exec_run(struct container *container, cchv_exec_config *config, uint64_t deadline, cchv_exec **ret_exec,
             cchv_error **err)
{
	cleanup_json struct json *process = NULL;
	cchv_exec *handle = NULL;
	struct exec *exec = NULL;
	char generated[32];
	int tty = 0, r;

	r = exec_config_build(config, container->process, &process, err);
	if (r == CCHV_OK)
		r = check(container, config, process, err);
	if (r == CCHV_OK && !config->id)
		r = make_id(generated, err);
	if (r == CCHV_OK)
		r = vm_need_agent(container->vm, deadline, err);
	if (r == CCHV_OK && !container->listed)
		r = err_set(err, CCHV_ERR_NOT_FOUND, 0, "container '%s' was deleted", container->id);
	if (r == CCHV_OK)
		r = exec_new(container, config->id ? config->id : generated, &exec, err);
	if (r < 0)
		return r;
	json_get_bool(process, "terminal", &tty, NULL);
	exec->tty = tty;
	r = exec_handle_new(exec, &handle, err);
	if (r < 0) {
		exec_unlist(exec);
		return r;
	}
	r = exec_start(exec, steal(&process), NULL, config->stdio, deadline, err);
	if (r < 0) {
		exec_release(exec);
		vm_unref(handle->vm);
		free(handle);
		return r;
	}
	*ret_exec = handle;
	return CCHV_OK;
}
