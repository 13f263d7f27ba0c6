/* SPDX-License-Identifier: Apache-2.0 */
/* One operation that blocks: what it works on, run in a thread, and its end in the loop's thread. */
#ifndef SHIM_OP_H
#define SHIM_OP_H

#include "jobs.h"
#include "server.h"
#include "task.h"

struct op {
	struct job job;
	struct server *server;
	struct call *call; /* NULL: nobody waits */
	struct task *task; /* referenced; of these the thread reads what cannot change meanwhile */
	struct process *process;
	void (*run)(struct op *op);
	void (*done)(struct op *op);
	int code; /* of the task service; CODE_OK */
	char *message;
	int library_code; /* what the library answered; 0 */
	int timeout_ms, number, flag;
	uint32_t rows, cols;
	char *text;
	void *result;
};

/* "process" may be NULL. The call is the operation's until done(), which answers it. */
struct op *op_new(struct server *server, struct call *call, struct task *task, struct process *process,
		  void (*run)(struct op *op), void (*done)(struct op *op));
void op_start(struct op *op);
/* In the thread that lives as long as the server. */
void op_start_lasting(struct op *op);

/* In run(). The first failure stays. "error" is freed. */
void op_fail(struct op *op, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
void op_fail_library(struct op *op, int library_code, cchv_error *error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The same with a line of the rooms next door (fault.h), which is freed. */
void op_fail_text(struct op *op, int library_code, char *text);

/* In done(): the call's answer is the failure, or an empty message. */
void op_answer_empty(struct op *op);
void op_answer_failure(struct op *op);

#endif
