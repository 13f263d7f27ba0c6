/* SPDX-License-Identifier: Apache-2.0 */
/* Which function answers which call. */
#ifndef SHIM_SERVICE_H
#define SHIM_SERVICE_H

#include "request.h"
#include "server.h"
#include "task.h"

void service_call(struct server *server, struct call *call);

/* Each takes the call over. Texts of the request that it keeps it takes by setting them to NULL. */
void rpc_create(struct server *server, struct call *call, struct request *request);
void rpc_start(struct server *server, struct call *call, struct request *request);
void rpc_exec(struct server *server, struct call *call, struct request *request);
void rpc_delete(struct server *server, struct call *call, struct request *request);
void rpc_kill(struct server *server, struct call *call, struct request *request);
void rpc_resize_pty(struct server *server, struct call *call, struct request *request);
void rpc_close_io(struct server *server, struct call *call, struct request *request);
void rpc_pause(struct server *server, struct call *call, struct request *request);
void rpc_resume(struct server *server, struct call *call, struct request *request);
void rpc_update(struct server *server, struct call *call, struct request *request);
void rpc_stats(struct server *server, struct call *call, struct request *request);
void rpc_state(struct server *server, struct call *call, struct request *request);
void rpc_pids(struct server *server, struct call *call, struct request *request);
void rpc_wait(struct server *server, struct call *call, struct request *request);
void rpc_connect(struct server *server, struct call *call, struct request *request);
void rpc_shutdown(struct server *server, struct call *call, struct request *request);

/* The task that a request is about; NULL when the call was answered with "not found". */
struct task *service_need_task(struct server *server, struct call *call, const struct request *request);
/* The same for its process. */
struct process *service_need_process(struct server *server, struct call *call, const struct request *request);
/* The same, and it runs. */
struct process *service_need_running(struct server *server, struct call *call, const struct request *request);

#endif
