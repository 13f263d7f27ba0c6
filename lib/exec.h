/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's inside. One struct exec for each process that this handle of the VM knows, whatever number of
 * cchv_exec handles the caller has. exec_start.c brings it to life, exec_stream.c moves its bytes, exec_end.c knows
 * its end, exec_ops.c and exec.c are the calls. Guarded by the VM's lock.
 */
#ifndef LIB_EXEC_H
#define LIB_EXEC_H

#include <cchv/exec.h>

#include "agent/channel.h"
#include "agent/pump_in.h"
#include "agent/pump_out.h"
#include "agent/stream.h"
#include "container.h"
#include "guest.h"
#include "log_file.h"
#include "stdio_config.h"

#define EXEC_DRAIN_MS 1000 /* how long output that does not come, or does not go, delays the end */

struct attached;

struct exec_stream {
	struct exec *exec;
	int number;                    /* enum cchv_stream */
	int set;                       /* announced to the agent */
	char token[PROTOCOL_TOKEN_LENGTH + 1];
	struct stream *opening;
	int fd;                        /* the caller's, until the pump has it; of a pipe, until it is taken; or -1 */
	int is_pipe, taken;
	int attachable;
	struct log_file *log;
	struct pump_out *out;          /* while bytes can come */
	struct pump_in *in;
	struct attached *attached;
	uint64_t expected;             /* bytes that the agent had sent when the process ended */
	uint64_t before;               /* of these, those that it had sent before this connection */
	uint64_t moved, lost;          /* of a pump that is gone */
	int lost_errno;
};

enum exec_phase {
	EXEC_NEW,                      /* a container's init before its start */
	EXEC_STARTING,
	EXEC_ALIVE,
	EXEC_ENDING,                   /* the end is known, output drains */
	EXEC_ENDED,                    /* published */
};

struct exec {
	struct exec *next;
	int refs;                      /* the list's and each handle's */
	int listed;
	cchv_vm *vm;
	struct container *container;   /* valid while listed */
	char *id;                      /* "init" for init */
	enum exec_phase phase;
	int tty;
	int pid;
	uint64_t start_time, exit_time;
	int exit_code, signal;         /* of ENDING and ENDED */
	int oom;
	int gone;                      /* the VM ended first: its code, with gone_text */
	char *gone_text;
	int deleted;                   /* its record is gone */
	int failed;                    /* the start's error, with failure */
	cchv_error *failure;
	int connecting;                /* a call gives it other streams */
	int abandoned;                 /* nobody waits for the start any more: kill what it brings, tell nobody */
	int is_ours;                   /* started by this handle, which hears of it by the reply */
	int is_quiet;                  /* the library's own: no events */
	uint64_t max_output;           /* bytes of stdout, after which it is given up; 0: no limit */
	int is_over;                   /* there were more */
	int exit_is_early;             /* "exited" came before the reply to the start */
	int stdin_closing;             /* no more input: the agent is told, or will be */
	struct channel_call start_call, stdin_call, state_call;
	struct channel_call kill_call, delete_call; /* each holds a reference while it is open */
	struct exec_stream streams[STDIO_STREAMS];
	struct attach_end *ends;       /* what handles hold by cchv_exec_attach() */
	struct loop_timer *drain_timer;
	uint64_t drain_deadline, ended_at; /* CLOCK_MONOTONIC */
};

/* A handle. */
struct cchv_exec {
	cchv_vm *vm;                   /* a reference */
	struct exec *exec;             /* a reference */
	struct attach_end *ends[STDIO_STREAMS]; /* of cchv_exec_attach() */
};

/* ---- exec.c ---- */
/* id NULL: init. Listed in its container, one reference (the list's). */
int exec_new(struct container *container, const char *id, struct exec **ret_exec, cchv_error **err);
void exec_ref(struct exec *exec);
void exec_unref(struct exec *exec);
/* Out of its container's list, and that reference dropped. Everything that moves stops. */
void exec_unlist(struct exec *exec);
/* Out of the list when nothing needs it any more: ended, no handle, no bytes to come. */
void exec_tidy(struct exec *exec);
/* Drop a reference that is not the list's, and tidy. */
void exec_release(struct exec *exec);
/* "" for init, as the wire wants it. */
const char *exec_wire_id(const struct exec *exec);
struct json *exec_params(const struct exec *exec);            /* container and exec; NULL: no memory */
int exec_handle_new(struct exec *exec, cchv_exec **ret_handle, cchv_error **err);
struct exec *exec_find(struct container *container, const char *id);
/* From the agent's exec.state: make or refresh. The caller gets a reference. */
int exec_from_state(struct container *container, const char *id, const struct json *state, struct exec **ret_exec,
                    cchv_error **err);
/* From the agent's messages: the start (pid, start_time), the end. CCHV_OK or CCHV_ERR_PROTOCOL. */
int exec_parse_start(struct exec *exec, const struct json *message);
int exec_parse_exit(struct exec *exec, const struct json *message);

/* ---- exec_start.c ---- */
/* Start and wait for it. extra: members that replace "process" (an archive), or NULL. process is taken, may be NULL. */
int exec_start(struct exec *exec, struct json *process, struct json *archive, const cchv_stdio_config *stdio,
               uint64_t deadline, cchv_error **err);
/* The agent tells that it runs; message says so. */
void exec_on_started(struct exec *exec, const struct json *message);
int exec_run(struct container *container, cchv_exec_config *config, uint64_t deadline, cchv_exec **ret_exec,
             cchv_error **err);

/* ---- exec_stream.c ---- */
int exec_streams_open(struct exec *exec, const cchv_stdio_config *stdio, uint64_t deadline, cchv_error **err);
/* The same in two steps, for one that runs: tokens and sinks; then connections: those that the agent agreed to. */
int exec_streams_prepare(struct exec *exec, const cchv_stdio_config *stdio, cchv_error **err);
int exec_streams_dial_again(struct exec *exec, const struct json *agreed, uint64_t deadline, cchv_error **err);
int exec_streams_are_opening(const struct exec *exec);
struct json *exec_streams_json(const struct exec *exec);      /* "streams" of exec.start; NULL: no memory */
void exec_streams_begin(struct exec *exec);                   /* the process runs: input may flow */
void exec_streams_close(struct exec *exec);                   /* nothing moves any more */
void exec_streams_drain(struct exec *exec);                   /* what lies in the sockets, as far as it goes */
int exec_streams_are_drained(const struct exec *exec);
int exec_streams_have_ended(const struct exec *exec);         /* no pump is left */
uint64_t exec_stream_lost(const struct exec *exec, int number); /* bytes of an output whose reader has left */
/* Until when draining is worth waiting: a stream that was stuck before has had its time. CLOCK_MONOTONIC */
uint64_t exec_streams_drain_deadline(const struct exec *exec);
void exec_stream_finish_input(struct exec *exec);             /* what was read is sent, then the end */
void exec_streams_end_output(struct exec *exec);             /* at once: what still comes is discarded */
void exec_stream_end_input(struct exec *exec);                /* at once: nobody reads any more */

/* ---- exec_end.c ---- */
/* Notifications were lost: ask the agent whether it still runs. */
void exec_ask_state(struct exec *exec);
void exec_on_exited(struct exec *exec, const struct json *message);
void exec_begin_end(struct exec *exec);        /* the members of its end are set */
/* The program of a container's init could not be run: the container has ended with 127 or 126. */
void exec_init_failed(struct exec *exec, int code);
void exec_on_gone(struct exec *exec, int code, const char *text);
/* Bytes moved, or a stream ended: the end may be through. */
void exec_check_end(struct exec *exec);

#endif
