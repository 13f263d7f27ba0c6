/* SPDX-License-Identifier: Apache-2.0 */
/* The deletion of a task, which may have to wait for its VM's end. */
#ifndef SHIM_TASK_DELETE_H
#define SHIM_TASK_DELETE_H

struct call;
struct task;

/* Delete it; the call is answered when it is gone. Its init does not run. */
void task_delete(struct task *task, struct call *call);
/* The VM has ended: a deletion that waited for it goes on. */
void task_delete_go_on(struct task *task);

#endif
