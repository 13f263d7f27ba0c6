/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks and processes as objects: see task.h. What happens to them is in process.c. */
#include "task.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "server.h"
#include "task_host.h"

/* ---- finding ---- */

struct task *task_find(struct server *server, const char *id)
{
	struct task *task = server->tasks;

	while (task && strcmp(task->id, id) != 0)
		task = task->next;
	return task;
}

struct process *task_find_process(struct task *task, const char *exec_id)
{
	struct process *process = task->execs;

	if (!*exec_id)
		return task->init;
	while (process && strcmp(process->id, exec_id) != 0)
		process = process->next;
	return process;
}

struct process *task_find_by_library(struct server *server, const char *container_id, const char *exec_id)
{
	struct task *task = server->tasks;
	struct process *process;

	while (task && strcmp(task->lib_id, container_id) != 0)
		task = task->next;
	if (!task || strcmp(exec_id, "init") == 0)
		return task ? task->init : NULL;
	for (process = task->execs; process; process = process->next)
		if (strcmp(process->lib_id, exec_id) == 0)
			break;
	return process;
}

/* ---- processes ---- */

struct process *process_new(struct task *task, const char *id)
{
	struct process *process = need_zero(sizeof(*process)), **p = &task->execs;

	process->task = task;
	process->loop = task->server->loop;
	process->refs = 1;
	process->id = need_copy(id);
	/* "init" is the library's own name for the first process; no id of containerd ends with a dash. */
	process->lib_id = strcmp(id, "init") == 0 ? need_copy("init-") : need_copy(id);
	process->stdio = (struct stdio_set)STDIO_SET_INIT;
	if (!*id) {
		task->init = process;
		return process;
	}
	while (*p)
		p = &(*p)->next;
	*p = process;
	return process;
}

struct process *process_ref(struct process *process)
{
	/* Its task stays, too. */
	task_ref(process->task);
	process->refs++;
	return process;
}

static void process_free(struct process *process)
{
	stdio_set_close(&process->stdio, process->loop);
	stdio_paths_free(&process->paths);
	cchv_exec_free(process->exec);
	free(process->spec);
	free(process->lib_id);
	free(process->id);
	free(process);
}

void process_unref(struct process *process)
{
	struct task *task = process->task;

	if (--process->refs == 0)
		process_free(process);
	task_unref(task);
}

/* The list's own reference, which has no part in its task's. */
static void let_go(struct process *process)
{
	while (process->waiters) {
		struct call *call = process->waiters;

		process->waiters = call->next;
		call_fail(call, CODE_NOT_FOUND, "process was deleted: not found");
	}
	process_kill_pending(process);
	if (--process->refs == 0)
		process_free(process);
}

void process_unlist(struct process *process)
{
	struct process **p = &process->task->execs;

	while (*p && *p != process)
		p = &(*p)->next;
	if (!*p)
		return;
	*p = process->next;
	let_go(process);
}

/* ---- tasks ---- */

struct task *task_new(struct server *server, const char *id, const char *bundle)
{
	struct task *task = need_zero(sizeof(*task)), **p = &server->tasks;

	task->server = server;
	task->refs = 1;
	task->listed = 1;
	task->id = need_copy(id);
	task->bundle = need_copy(bundle);
	task->host = task_host_new();
	cancel_init(&task->cancel);
	process_new(task, "");
	while (*p)
		p = &(*p)->next;
	*p = task;
	return task;
}

struct task *task_ref(struct task *task)
{
	task->refs++;
	return task;
}

void task_unref(struct task *task)
{
	if (--task->refs)
		return;
	cchv_container_free(task->container);
	task_host_free(task->host);
	cancel_destroy(&task->cancel);
	mount_list_clear(&task->mounts);
	free(task->lib_id);
	free(task->bundle);
	free(task->id);
	free(task);
}

void task_unlist(struct task *task)
{
	struct task **p = &task->server->tasks;

	if (!task->listed)
		return;
	while (*p != task)
		p = &(*p)->next;
	*p = task->next;
	task->listed = 0;
	loop_clear_timer(&task->exit_timer);
	loop_unwatch(&task->stand_in);
	while (task->execs) {
		struct process *process = task->execs;

		task->execs = process->next;
		let_go(process);
	}
	let_go(task->init);
	task_unref(task);
}
