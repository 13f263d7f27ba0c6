/* SPDX-License-Identifier: Apache-2.0 */
/* The events of tasks, as containerd knows them. */
#ifndef SHIM_EVENTS_H
#define SHIM_EVENTS_H

struct process;
struct task;

void events_task_create(const struct task *task);
void events_task_start(const struct task *task);
void events_task_oom(const struct task *task);
void events_task_paused(const struct task *task);
void events_task_resumed(const struct task *task);
void events_task_delete(const struct task *task);
void events_exec_added(const struct process *process);
void events_exec_started(const struct process *process);
/* Of init and of execs. */
void events_exit(const struct process *process);

#endif
