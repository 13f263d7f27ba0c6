/* SPDX-License-Identifier: Apache-2.0 */
/* Processes as objects: see exec.h. Enters: ids, the agent's states. Leaves: handles, and what they tell. */
#include "exec.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach.h"
#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"

static void on_drain_timer(void *user_data)
{
	exec_check_end(user_data);
}

int exec_new(struct container *container, const char *id, struct exec **ret_exec, cchv_error **err)
{
	struct exec *exec = mem_zalloc(sizeof(*exec)), **last = &container->execs;
	int r;

	if (!exec)
		return err_nomem(err);
	exec->refs = 1;
	exec->vm = container->vm;
	exec->container = container;
	exec->exit_code = -1;
	for (int i = 0; i < STDIO_STREAMS; i++) {
		exec->streams[i].exec = exec;
		exec->streams[i].number = i;
		exec->streams[i].fd = -1;
	}
	exec->id = mem_strdup(id ? id : "init");
	r = exec->id ? loop_timer_new(exec->vm->loop, on_drain_timer, exec, &exec->drain_timer, err) : err_nomem(err);
	if (r < 0) {
		exec_unref(exec);
		return r;
	}
	while (*last)
		last = &(*last)->next;
	*last = exec;
	exec->listed = 1;
	if (!id)
		container->init = exec;
	*ret_exec = exec;
	return CCHV_OK;
}

void exec_ref(struct exec *exec)
{
	exec->refs++;
}

void exec_unref(struct exec *exec)
{
	if (!exec || --exec->refs > 0)
		return;
	cchv_error_free(exec->failure);
	free(exec->gone_text);
	free(exec->id);
	free(exec);
}

/* One that holds a reference while it is open. */
static void drop_held_call(struct exec *exec, struct channel_call *call)
{
	int open = call->channel != NULL;

	channel_call_drop(call);
	if (open)
		exec_unref(exec);
}

void exec_unlist(struct exec *exec)
{
	struct exec **p = &exec->container->execs;

	if (!exec->listed)
		return;
	while (*p != exec)
		p = &(*p)->next;
	*p = exec->next;
	if (exec->container->init == exec)
		exec->container->init = NULL;
	exec->listed = 0;
	exec->next = NULL;
	exec->container = NULL;
	channel_call_drop(&exec->start_call);
	channel_call_drop(&exec->stdin_call);
	channel_call_drop(&exec->state_call);
	drop_held_call(exec, &exec->kill_call);
	drop_held_call(exec, &exec->delete_call);
	attach_end_everybody(exec);
	exec_streams_close(exec);
	loop_timer_free(exec->drain_timer);
	exec->drain_timer = NULL;
	exec_unref(exec);
}

void exec_tidy(struct exec *exec)
{
	/* The container keeps its init, with its end, as long as it is there. */
	if (exec->listed && exec->refs == 1 && exec->phase == EXEC_ENDED && exec != exec->container->init &&
	    exec_streams_have_ended(exec) && !exec->stdin_call.channel)
		exec_unlist(exec);
}

void exec_release(struct exec *exec)
{
	if (!exec->listed) {
		exec_unref(exec);
		return;
	}
	exec->refs--;
	exec_tidy(exec);
}

const char *exec_wire_id(const struct exec *exec)
{
	return strcmp(exec->id, "init") == 0 ? "" : exec->id;
}

struct json *exec_params(const struct exec *exec)
{
	struct json *params = container_params(exec->container);

	json_set_string(params, "exec", exec_wire_id(exec));
	return params;
}

struct exec *exec_find(struct container *container, const char *id)
{
	for (struct exec *exec = container->execs; exec; exec = exec->next)
		if (strcmp(exec->id, id) == 0)
			return exec;
	return NULL;
}

int exec_handle_new(struct exec *exec, cchv_exec **ret_handle, cchv_error **err)
{
	cchv_exec *handle = mem_zalloc(sizeof(*handle));

	if (!handle)
		return err_nomem(err);
	handle->vm = vm_ref(exec->vm);
	handle->exec = exec;
	exec_ref(exec);
	*ret_handle = handle;
	return CCHV_OK;
}

/* Times of the guest are those of its own clock: never in the future, and never before the start. */
static uint64_t sane_time(uint64_t time_ns, uint64_t start)
{
	uint64_t now = clock_real_ns();

	return time_ns < start || time_ns > now ? now : time_ns;
}

int exec_parse_start(struct exec *exec, const struct json *message)
{
	uint64_t pid = 0, time_ns = 0;

	if (json_get_u64(message, "pid", &pid, NULL) != 1 || pid == 0 || pid > INT32_MAX ||
	    json_get_u64(message, "time_ns", &time_ns, NULL) < 0)
		return CCHV_ERR_PROTOCOL;
	exec->pid = (int)pid;
	exec->start_time = sane_time(time_ns, 1);
	return CCHV_OK;
}

int exec_parse_exit(struct exec *exec, const struct json *message)
{
	uint64_t status = 0, time_ns = 0, bytes;
	int oom = 0;

	if (json_get_u64(message, "status", &status, NULL) != 1 || status > INT32_MAX ||
	    json_get_u64(message, "time_ns", &time_ns, NULL) < 0 || json_get_bool(message, "oom", &oom, NULL) < 0)
		return CCHV_ERR_PROTOCOL;
	if (WIFEXITED((int)status)) {
		exec->exit_code = WEXITSTATUS((int)status);
		exec->signal = 0;
	} else if (WIFSIGNALED((int)status)) {
		exec->exit_code = -1;
		exec->signal = WTERMSIG((int)status);
	} else {
		return CCHV_ERR_PROTOCOL;
	}
	exec->oom = oom;
	exec->exit_time = sane_time(time_ns, exec->start_time);
	for (int i = CCHV_STDOUT; i < STDIO_STREAMS; i++)
		if (json_get_u64(json_get(message, "bytes"), stdio_stream_name(i), &bytes, NULL) == 1)
			exec->streams[i].expected = bytes;
	return CCHV_OK;
}

int exec_from_state(struct container *container, const char *id, const struct json *state, struct exec **ret_exec,
                    cchv_error **err)
{
	struct exec *exec = exec_find(container, id ? id : "init");
	const char *word = "";
	uint64_t pid = 0;
	int r = CCHV_OK;

	if (json_get_string(state, "state", &word, NULL) != 1 || json_get_u64(state, "pid", &pid, NULL) < 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "exec.state: the agent's reply is malformed");
	if (!exec)
		r = exec_new(container, id, &exec, err);
	if (r < 0)
		return r;
	/* One that has ended and that nobody holds goes with its end. */
	exec_ref(exec);
	if (exec->phase == EXEC_NEW) {
		exec->pid = (int)pid;
		exec->phase = EXEC_ALIVE;
	}
	if (strcmp(word, "exited") == 0)
		exec_on_exited(exec, state);
	*ret_exec = exec;
	return CCHV_OK;
}

CCHV_API void cchv_exec_free(cchv_exec *exec)
{
	cchv_vm *vm;

	if (!exec)
		return;
	vm = exec->vm;
	/* In a child of a fork the lock may be held by nobody that exists, and the loop is the parent's. */
	if (vm->process != getpid()) {
		free(exec);
		return;
	}
	pthread_mutex_lock(&vm->lock);
	attach_end_all(exec);
	exec_check_end(exec->exec);
	exec_release(exec->exec);
	pthread_mutex_unlock(&vm->lock);
	free(exec);
	vm_unref(vm);
}

CCHV_API const char *cchv_exec_get_id(cchv_exec *exec)
{
	return exec ? exec->exec->id : NULL;
}

/* For getters without an error: the lock, also when the VM's handle was freed. */
static int look(cchv_exec *exec)
{
	if (!exec)
		return CCHV_ERR_INVALID;
	if (exec->vm->process != getpid())
		return CCHV_ERR_FORKED;
	pthread_mutex_lock(&exec->vm->lock);
	return CCHV_OK;
}

CCHV_API int cchv_exec_get_pid(cchv_exec *exec)
{
	int r = look(exec), pid;

	if (r < 0)
		return r;
	pid = exec->exec->pid;
	pthread_mutex_unlock(&exec->vm->lock);
	return pid;
}

CCHV_API int cchv_exec_get_state(cchv_exec *exec)
{
	int r = look(exec), state;

	if (r < 0)
		return r;
	switch (exec->exec->phase) {
	case EXEC_NEW:
	case EXEC_STARTING:
		state = CCHV_EXEC_CREATED;
		break;
	case EXEC_ENDED:
		state = CCHV_EXEC_EXITED;
		break;
	default:
		state = CCHV_EXEC_RUNNING;
	}
	pthread_mutex_unlock(&exec->vm->lock);
	return state;
}

CCHV_API uint64_t cchv_exec_get_start_time(cchv_exec *exec)
{
	uint64_t time_ns;

	if (look(exec) < 0)
		return 0;
	time_ns = exec->exec->start_time;
	pthread_mutex_unlock(&exec->vm->lock);
	return time_ns;
}

CCHV_API uint64_t cchv_exec_get_exit_time(cchv_exec *exec)
{
	uint64_t time_ns;

	if (look(exec) < 0)
		return 0;
	time_ns = exec->exec->phase == EXEC_ENDED ? exec->exec->exit_time : 0;
	pthread_mutex_unlock(&exec->vm->lock);
	return time_ns;
}
