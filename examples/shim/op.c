/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that block: see op.h. Enters: calls of the daemon. Leaves: their answers; errors as the task
 * service has them. */
#include "op.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

static void run(struct job *job)
{
	struct op *op = (struct op *)job;

	op->run(op);
}

static void done(struct job *job)
{
	struct op *op = (struct op *)job;
	struct server *server = op->server;

	op->done(op);
	if (op->process)
		process_unref(op->process);
	if (op->task)
		task_unref(op->task);
	free(op->message);
	free(op->text);
	free(op);
	server_look(server);
}

struct op *op_new(struct server *server, struct call *call, struct task *task, struct process *process,
		  void (*fn)(struct op *op), void (*end)(struct op *op))
{
	struct op *op = need_zero(sizeof(*op));

	op->job = (struct job) { .run = run, .done = done };
	op->server = server;
	op->call = call;
	op->task = task ? task_ref(task) : NULL;
	op->process = process ? process_ref(process) : NULL;
	op->run = fn;
	op->done = end;
	return op;
}

void op_start(struct op *op)
{
	jobs_add(op->server->jobs, &op->job);
}

void op_start_lasting(struct op *op)
{
	jobs_add_lasting(op->server->jobs, &op->job);
}

/* As the daemon tells them apart: most are unknown, and their text is what counts. */
static int code_of(int library_code)
{
	switch (library_code) {
	case CCHV_ERR_INVALID:
	case CCHV_ERR_UNSUPPORTED: return CODE_INVALID;
	case CCHV_ERR_EXISTS: return CODE_EXISTS;
	case CCHV_ERR_STATE: return CODE_PRECONDITION;
	case CCHV_ERR_TIMEOUT: return CODE_DEADLINE;
	default: return CODE_UNKNOWN;
	}
}

static void keep(struct op *op, int code, int library_code, char *message)
{
	if (op->code) {
		free(message);
		return;
	}
	op->code = code;
	op->library_code = library_code;
	op->message = message;
}

void op_fail(struct op *op, int code, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	keep(op, code, 0, need_copy(text));
}

/*
 * Docker's and containerd's clients look for what Go calls an error ("no such file or directory", "permission
 * denied") to tell 127 and 126 from the rest: the C library's words, but in lower case.
 */
static void speak_as_go(char *message, int error_number)
{
	const char *words = error_number > 0 ? strerrordesc_np(error_number) : NULL;

	if (!words || !*words)
		return;
	for (char *at = message; (at = strstr(at, words)); at++)
		*at = (char)tolower((unsigned char)*at);
}

void op_fail_library(struct op *op, int library_code, cchv_error *error, const char *format, ...)
{
	char text[512];
	char *message;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	message = need_text("%s: %s", text, error ? cchv_error_message(error) : cchv_err_text(library_code));
	speak_as_go(message, error ? cchv_error_errno(error) : 0);
	keep(op, code_of(library_code), library_code, message);
	cchv_error_free(error);
}

void op_fail_text(struct op *op, int library_code, char *text)
{
	keep(op, code_of(library_code), library_code, text ? text : need_copy(cchv_err_text(library_code)));
}

void op_answer_failure(struct op *op)
{
	if (op->call)
		call_fail(op->call, op->code, "%s", op->message);
	op->call = NULL;
}

void op_answer_empty(struct op *op)
{
	if (op->code) {
		op_answer_failure(op);
		return;
	}
	if (op->call)
		call_answer(op->call, NULL);
	op->call = NULL;
}
