/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a process, told once: when the agent's record of it is here and its output has passed through, or one
 * second later. Enters: "exited", the VM's end, bytes that moved. Leaves: waits that return, events, exit records.
 */
#include "exec.h"

#include <string.h>

#include "attach.h"
#include "base/clock.h"
#include "base/export.h"
#include "ctx.h"
#include "event.h"
#include "exit_record.h"

static void push_end(struct exec *exec)
{
	struct event_info info = {
		.type = CCHV_EVENT_EXEC_EXITED, .container_id = exec->container->id, .exec_id = exec->id,
		.exit_code = exec->exit_code, .signal = exec->signal, .time_ns = exec->exit_time,
	};

	vm_push_event(exec->vm, &info);
}

static void on_deleted(struct channel_call *call)
{
	struct exec *exec = call->user_data;

	channel_call_drop(call);
	exec_release(exec);
}

/* The start that nobody waited for came to its end: take the record away. */
static void delete_abandoned(struct exec *exec)
{
	exec->delete_call.fn = on_deleted;
	exec->delete_call.user_data = exec;
	exec_ref(exec);
	if (channel_call_start(exec->vm->agent, &exec->delete_call, "exec.delete", exec_params(exec), NULL) < 0)
		exec_release(exec);
}

static void record_init(struct exec *exec)
{
	struct exit_record record = {
		.exit_code = exec->exit_code, .signal = exec->signal, .time_ns = exec->exit_time, .oom = exec->oom,
		.reason = exec->gone ? exec->gone_text : exec->failed ? "not started" : "exited",
	};
	cleanup_err cchv_error *error = NULL;

	if (exec->container->dir && exit_record_write(exec->container->dir, &record, &error) < 0)
		log_error(&exec->vm->ctx->log, "container '%s': %s", exec->container->id, cchv_error_message(error));
}

/* How long what a handle has attached to may come after the end. */
static uint64_t attached_until(const struct exec *exec)
{
	return exec->ended_at + EXEC_DRAIN_MS * NS_PER_MS;
}

/* The one place where an end becomes known. */
static void publish(struct exec *exec)
{
	exec->phase = EXEC_ENDED;
	exec->ended_at = clock_mono_ns();
	/* Whoever polls for what it has attached to is woken when it is not waited for any longer. */
	loop_timer_set(exec->drain_timer, attach_has_output(exec) ? attached_until(exec) : CLOCK_NEVER);
	exec->vm->guest->unpublished--;
	if (exec == exec->container->init)
		record_init(exec);
	if (!exec->gone && !exec->abandoned && !exec->is_quiet)
		push_end(exec);
	if (exec == exec->container->init)
		container_set_state(exec->container, CCHV_CONTAINER_STOPPED);
	guest_ack(exec->vm);
	if (exec->abandoned && !exec->gone && exec != exec->container->init)
		delete_abandoned(exec);
}

void exec_check_end(struct exec *exec)
{
	exec_ref(exec);
	if (exec->phase == EXEC_ENDING) {
		uint64_t deadline = exec_streams_drain_deadline(exec);

		if (exec->drain_deadline > deadline)
			exec->drain_deadline = deadline;
		if ((exec_streams_are_drained(exec) && !attach_has_output(exec)) || clock_passed(exec->drain_deadline))
			publish(exec);
		else
			loop_timer_set(exec->drain_timer, exec->drain_deadline);
	}
	exec_release(exec);
}

void exec_begin_end(struct exec *exec)
{
	exec->phase = EXEC_ENDING;
	exec->vm->guest->unpublished++;
	exec->drain_deadline = clock_deadline(EXEC_DRAIN_MS);
	/* A terminal must not be read for a process that is gone. */
	exec_stream_end_input(exec);
	exec_check_end(exec);
}

void exec_on_exited(struct exec *exec, const struct json *message)
{
	if (exec->phase >= EXEC_ENDING || exec->exit_is_early)
		return;
	if (exec_parse_exit(exec, message) < 0) {
		exec_on_gone(exec, CCHV_ERR_PROTOCOL, "the agent told its end in no sensible way");
		return;
	}
	if (exec->phase == EXEC_STARTING)
		exec->exit_is_early = 1;
	else
		exec_begin_end(exec);
}

/* Nothing more comes but what lies in the sockets, so the end is told at once, before that of the VM. */
void exec_on_gone(struct exec *exec, int code, const char *text)
{
	/* A start fails by its own call. */
	if (exec->phase == EXEC_ENDED || exec->phase == EXEC_STARTING)
		return;
	exec_ref(exec);
	exec_streams_drain(exec);
	if (exec->phase != EXEC_ENDING && exec->phase != EXEC_ENDED) {
		exec->gone = code;
		exec->gone_text = mem_strdup(text);
		exec->exit_time = clock_real_ns();
		exec->vm->guest->unpublished++;
		exec_stream_end_input(exec);
	}
	/* An end that was known already is the truth. */
	if (exec->phase != EXEC_ENDED)
		publish(exec);
	exec_release(exec);
}

void exec_init_failed(struct exec *exec, int code)
{
	/* As a shell has it. */
	exec->exit_code = code == CCHV_ERR_NOT_FOUND ? 127 : 126;
	exec->signal = 0;
	exec->exit_time = clock_real_ns();
	exec->phase = EXEC_ENDED;
	record_init(exec);
	container_set_state(exec->container, CCHV_CONTAINER_STOPPED);
}

static void on_state(struct channel_call *call)
{
	struct exec *exec = call->user_data;
	cleanup_json struct json *state = NULL;
	const char *word = "";
	int code = channel_call_finish(call, &state, NULL);

	exec_ref(exec);
	json_get_string(state, "state", &word, NULL);
	if (code == CCHV_OK && strcmp(word, "exited") == 0)
		exec_on_exited(exec, state);
	else if (code == CCHV_ERR_NOT_FOUND)
		exec_on_gone(exec, CCHV_ERR_NOT_FOUND, "its record was deleted, and its end was not heard");
	exec_release(exec);
}

void exec_ask_state(struct exec *exec)
{
	if (exec->phase != EXEC_ALIVE || exec->state_call.channel)
		return;
	exec->state_call.fn = on_state;
	exec->state_call.user_data = exec;
	if (channel_call_start(exec->vm->agent, &exec->state_call, "exec.state", exec_params(exec), NULL) < 0)
		log_warning(&exec->vm->ctx->log, "process '%s': its state could not be asked for", exec->id);
}

static int result(const struct exec *exec, int *ret_exit_code, int *ret_signal, cchv_error **err)
{
	if (exec->deleted)
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "process '%s': its record was deleted", exec->id);
	if (exec->gone)
		return err_set(err, exec->gone, 0, "process '%s': %s", exec->id,
		               exec->gone_text ? exec->gone_text : cchv_err_text(exec->gone));
	if (ret_exit_code)
		*ret_exit_code = exec->exit_code;
	if (ret_signal)
		*ret_signal = exec->signal;
	return CCHV_OK;
}

/*
 * What a handle has attached to comes before the end, if it comes in a second: an end that nobody told, since the guest
 * is gone, is known before that. 1: it has come, or it is not waited for any longer.
 */
static int wait_for_attached(cchv_exec *handle, uint64_t deadline)
{
	const struct exec *exec = handle->exec;
	uint64_t limit = attached_until(exec) < deadline ? attached_until(exec) : deadline;

	while (attach_has_output(exec) && exec->phase == EXEC_ENDED)
		if (vm_serve(handle->vm, limit, NULL) < 0)
			return clock_passed(attached_until(exec)) || limit != deadline;
	return 1;
}

CCHV_API int cchv_exec_wait(cchv_exec *exec, int timeout_ms, int *ret_exit_code, int *ret_signal, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r;

	err_clear(err);
	if (!exec)
		return err_set(err, CCHV_ERR_INVALID, 0, "exec_wait: NULL argument");
	r = vm_enter(exec->vm, err);
	if (r < 0)
		return r;
	while (r == CCHV_OK && exec->exec->phase != EXEC_ENDED && !exec->exec->deleted)
		r = vm_serve(exec->vm, deadline, err);
	if (exec->exec->phase == EXEC_ENDED && !wait_for_attached(exec, deadline)) {
		r = err_set(err, CCHV_ERR_TIMEOUT, 0, "process '%s' has ended, and its output has not come yet",
		            exec->exec->id);
	} else if (exec->exec->phase == EXEC_ENDED) {
		cchv_error_free(err ? steal(err) : NULL);
		r = result(exec->exec, ret_exit_code, ret_signal, err);
	} else if (r == CCHV_OK && exec->exec->deleted) {
		r = result(exec->exec, NULL, NULL, err);
	} else if (r == CCHV_ERR_TIMEOUT) {
		r = err_set(err, r, 0, "process '%s' has not ended yet", exec->exec->id);
	}
	vm_leave(exec->vm);
	return r;
}
