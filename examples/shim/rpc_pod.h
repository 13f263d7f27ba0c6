/* SPDX-License-Identifier: Apache-2.0 */
/* The service containerd.runtime.sandbox.v1.Sandbox. Each takes the call over. */
#ifndef SHIM_RPC_POD_H
#define SHIM_RPC_POD_H

#include "request.h"
#include "server.h"

void rpc_pod_create(struct server *server, struct call *call, struct request *request);
void rpc_pod_start(struct server *server, struct call *call, struct request *request);
void rpc_pod_platform(struct server *server, struct call *call, struct request *request);
void rpc_pod_stop(struct server *server, struct call *call, struct request *request);
void rpc_pod_wait(struct server *server, struct call *call, struct request *request);
void rpc_pod_status(struct server *server, struct call *call, struct request *request);
void rpc_pod_ping(struct server *server, struct call *call, struct request *request);
void rpc_pod_shutdown(struct server *server, struct call *call, struct request *request);
void rpc_pod_metrics(struct server *server, struct call *call, struct request *request);

#endif
