/* SPDX-License-Identifier: Apache-2.0 */
/* The events of tasks: see events.h. Enters: tasks and processes. Leaves: messages in the publisher's queue.
 */
#include "events.h"

#include "publisher.h"
#include "server.h"
#include "task.h"

#define PACKAGE "containerd.events."

static void publish(const struct task *task, const char *topic, const char *type, struct wire *event)
{
	publisher_add(task->server->publisher, topic, type, event);
}

void events_task_create(const struct task *task)
{
	const struct process *init = task->init;
	struct wire event = { 0 }, io = { 0 };

	wire_put_string(&event, 1, task->id);
	wire_put_string(&event, 2, task->bundle);
	for (size_t i = 0; i < task->mounts.count; i++) {
		const struct mount_entry *mount = &task->mounts.items[i];
		struct wire m = { 0 };

		wire_put_string(&m, 1, mount->type);
		wire_put_string(&m, 2, mount->source);
		wire_put_string(&m, 3, mount->target);
		for (size_t k = 0; k < mount->option_count; k++)
			wire_put_element(&m, 4, mount->options[k]);
		wire_put_message(&event, 3, &m);
	}
	wire_put_string(&io, 1, init->paths.in);
	wire_put_string(&io, 2, init->paths.out);
	wire_put_string(&io, 3, init->paths.err);
	wire_put_uint(&io, 4, (uint64_t)init->paths.terminal);
	wire_put_message(&event, 4, &io);
	wire_put_uint(&event, 6, init->pid);
	publish(task, "/tasks/create", PACKAGE "TaskCreate", &event);
}

void events_task_start(const struct task *task)
{
	struct wire event = { 0 };

	wire_put_string(&event, 1, task->id);
	wire_put_uint(&event, 2, task->init->pid);
	publish(task, "/tasks/start", PACKAGE "TaskStart", &event);
}

static void publish_id(const struct task *task, const char *topic, const char *type)
{
	struct wire event = { 0 };

	wire_put_string(&event, 1, task->id);
	publish(task, topic, type, &event);
}

void events_task_oom(const struct task *task)
{
	publish_id(task, "/tasks/oom", PACKAGE "TaskOOM");
}

void events_task_paused(const struct task *task)
{
	publish_id(task, "/tasks/paused", PACKAGE "TaskPaused");
}

void events_task_resumed(const struct task *task)
{
	publish_id(task, "/tasks/resumed", PACKAGE "TaskResumed");
}

void events_task_delete(const struct task *task)
{
	const struct process *init = task->init;
	struct wire event = { 0 };

	wire_put_string(&event, 1, task->id);
	wire_put_uint(&event, 2, init->pid);
	wire_put_uint(&event, 3, init->exit_status);
	wire_put_time(&event, 4, init->exited_ns);
	wire_put_string(&event, 5, task->id);
	publish(task, "/tasks/delete", PACKAGE "TaskDelete", &event);
}

void events_exec_added(const struct process *process)
{
	struct wire event = { 0 };

	wire_put_string(&event, 1, process->task->id);
	wire_put_string(&event, 2, process->id);
	publish(process->task, "/tasks/exec-added", PACKAGE "TaskExecAdded", &event);
}

void events_exec_started(const struct process *process)
{
	struct wire event = { 0 };

	wire_put_string(&event, 1, process->task->id);
	wire_put_string(&event, 2, process->id);
	wire_put_uint(&event, 3, process->pid);
	publish(process->task, "/tasks/exec-started", PACKAGE "TaskExecStarted", &event);
}

void events_exit(const struct process *process)
{
	struct wire event = { 0 };

	wire_put_string(&event, 1, process->task->id);
	wire_put_string(&event, 2, *process->id ? process->id : process->task->id);
	wire_put_uint(&event, 3, process->pid);
	wire_put_uint(&event, 4, process->exit_status);
	wire_put_time(&event, 5, process->exited_ns);
	publish(process->task, "/tasks/exit", PACKAGE "TaskExit", &event);
}
