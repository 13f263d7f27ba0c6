/* SPDX-License-Identifier: Apache-2.0 */
/* Execs: the table of processes that hosts started, from exec.start to exec.delete. */
#ifndef GUEST_EXEC_H
#define GUEST_EXEC_H

#include <sys/types.h>

#include "guest/request.h"
#include "guest/stream.h"

int execs_new(struct agent *agent, cchv_error **err);
void execs_free(struct agent *agent);

/* For containers: the ids of a container's execs (running or ended), as an array; NULL when out of memory. */
struct json *exec_list(const struct agent *agent, const char *container);
/* Whether there are records of ends whose notifications are later than the number. */
int exec_unacknowledged(const struct agent *agent, uint64_t acked);
/* How many of its execs run; container NULL: of all. */
size_t exec_running(const struct agent *agent, const char *container);
/* 0 when there is no such exec or it has ended. */
pid_t exec_pid(const struct agent *agent, const char *container, const char *exec);
/* Drop the records of a container that is deleted: none may run (then CCHV_ERR_STATE, EBUSY). */
int exec_forget_all(struct agent *agent, const char *container);
/* Call fn once, when no exec of the container runs any more (at once if so), or when the deadline passes. */
typedef void (*exec_idle_fn)(struct agent *agent, int timed_out, void *user_data);
int exec_wait_idle(struct agent *agent, const char *container, uint64_t deadline, exec_idle_fn fn, void *user_data,
                   cchv_error **err);
/* SIGKILL or another one to every process group of running execs; container NULL: of all. */
void exec_signal_all(struct agent *agent, const char *container, int signal_number);

/* As container_each_name() wants it. */
void exec_each_name(struct agent *agent, const char *container, name_fn fn, void *user_data);
/* Whether one of its processes is between request and reply. */
int exec_any_starting(const struct agent *agent, const char *container);

/* One to the first process of every running exec. */
void exec_signal_leaders(struct agent *agent, int signal_number);

/* A stream connection: fd is the exec's (TAKEN), or stays the caller's. UNKNOWN: exec.start may still come. */
enum exec_stream { EXEC_STREAM_TAKEN, EXEC_STREAM_REFUSED, EXEC_STREAM_UNKNOWN };
enum exec_stream exec_offer_stream(struct agent *agent, const char *container, const char *exec,
                                   enum stream_name name, const char *token, int fd);

/* Handlers. */
int exec_start(struct agent *agent, const struct json *params, struct reply *reply);
int exec_signal(struct agent *agent, const struct json *params, struct reply *reply);
int exec_resize(struct agent *agent, const struct json *params, struct reply *reply);
int exec_close_stdin(struct agent *agent, const struct json *params, struct reply *reply);
int exec_state(struct agent *agent, const struct json *params, struct reply *reply);
int exec_connect(struct agent *agent, const struct json *params, struct reply *reply);
int exec_hold(struct agent *agent, const struct json *params, struct reply *reply);
int exec_delete(struct agent *agent, const struct json *params, struct reply *reply);

#endif
