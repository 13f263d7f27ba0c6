/* SPDX-License-Identifier: Apache-2.0 */
/* What exec.c, exec_start.c and exec_request.c share: the record of one exec. Nobody else includes this. */
#ifndef GUEST_EXEC_NODE_H
#define GUEST_EXEC_NODE_H

#include "guest/exec.h"
#include "guest/control.h"
#include "guest/process.h"
#include "wire/protocol.h"

#define EXEC_MAX 4096
#define EXEC_BIND_MS PROTOCOL_UNBOUND_MS
#define EXEC_DRAIN_MS 1000

/*
 * BINDING waits for streams. STARTING is forked, its exec has not happened yet. RUNNING lasts until the exit is
 * published, so a little longer than the process. EXITED is a record.
 */
enum exec_phase { EXEC_BINDING, EXEC_STARTING, EXEC_RUNNING, EXEC_EXITED };

struct exec_stream_end {
	int wanted;
	int counted;
	char token[PROTOCOL_TOKEN_LENGTH + 1];
	int sock;      /* -1 until bound, and when the pump has it */
	int connecting; /* a connection in place of the first one may come */
	int ours;      /* our end of the pipe or terminal, until the pump has it */
};

struct exec {
	struct exec *next;
	struct agent *agent;
	char *container, *id;
	enum exec_phase phase;
	struct process_plan *plan;       /* until it runs */
	int terminal;
	int is_archive;                  /* no program, but exec.start's archive */
	struct ticket *ticket;           /* of exec.start, until it is answered */
	struct loop_timer *timer;        /* of binding, then of draining */
	struct exec_stream_end streams[STREAM_COUNT];
	struct pump_in *in;
	struct pump_out *out[STREAM_COUNT];
	uint64_t stdin_limit;            /* close_stdin that came before the pump */
	int master;                      /* of a terminal, for resize; -1 */
	pid_t pid;                       /* 0 before the fork */
	int reaped, status;
	uint64_t time_ns;
	uint64_t drain_deadline;         /* 0 before the process was reaped */
	int report_fd;
	struct loop_source *report;
	struct process_failure failure;
	size_t failure_len;
	struct json *exited;             /* what exec.state says of an ended one */
	uint64_t exit_seq;               /* the notification that told of it */
};

struct exec_waiter {
	struct exec_waiter *next;
	struct agent *agent;
	char *container;
	struct loop_timer *timer;
	exec_idle_fn fn;
	void *user_data;
};

struct execs {
	struct exec *list;
	size_t count;
	struct exec_waiter *waiters;
};

struct exec *exec_find(const struct agent *agent, const char *container, const char *id);
/* Made in BINDING and linked; the caller fills streams and plan. */
struct exec *exec_new(struct agent *agent, const char *container, const char *id, cchv_error **err);
/* Unlink and free; pumps go on by themselves. */
void exec_remove(struct exec *e);
/* All announced streams are there: make the process. */
void exec_launch(struct exec *e);
/* The start failed: answer, close everything, forget it. Takes err. */
void exec_abandon(struct exec *e, int r, const char *kind, cchv_error *err);
/* The process has been reaped, or a stream has ended: publish the exit if there is nothing to wait for. */
void exec_settle(struct exec *e);
int exec_is_active(const struct exec *e);
/* In exec_connect.c: the connection that exec.connect has asked for is there. */
void exec_take_connection(struct exec *e, enum stream_name name, int fd);
/* "token" and "end" of a stream that a request names; value NULL: it does not. */
int exec_parse_stream(struct exec *e, enum stream_name name, const struct json *value, struct reply *reply);
/* The exec that params name. */
int exec_get(struct agent *agent, const struct json *params, struct reply *reply, struct exec **ret_exec);
/* Call the waiters of exec_wait_idle() whose time has come. */
void exec_wake_idle(struct agent *agent);

#endif
