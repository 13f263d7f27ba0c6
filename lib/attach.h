/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaching to running processes: the owner's listener <run_dir>/attach.sock with those who came through it
 * (attach_server.c), and the ends that a handle holds (attach_client.c). One connection for each stream; after the
 * first frame and its answer they carry raw bytes:
 *
 *   {"kind":"attach","version":1,"container":C,"exec":E,"stream":"stdout"}    {"kind":"close_stdin",...,"exec":E}
 *   {"result":{}}  or  {"error":{"code":-3,"message":"..."}}
 *
 * The process notices nothing of who comes and goes. Who lags more than ATTACH_MAX_LAG behind is disconnected.
 */
#ifndef LIB_ATTACH_H
#define LIB_ATTACH_H

#include "exec.h"

#define ATTACH_VERSION 1
#define ATTACH_MAX_LAG (1U << 20)

/* ---- the owner's side ---- */

/* Listen, if this is the owner and it does not yet. */
int attach_server_need(cchv_vm *vm, cchv_error **err);
void attach_server_free(struct attach_server *server);   /* NULL is fine */
/* Join a stream: socket is taken in any case. */
int attach_join(struct exec_stream *stream, int socket, cchv_error **err);
/* Bytes of an output, for all who are there. */
void attach_tee(struct exec_stream *stream, const void *data, size_t len);
/* An input's source, given to the pump as source_data, has ended. */
void attach_source_ended(struct attached *attached);
/* No more bytes: what waits is still sent, then they are closed. */
void attach_stream_ended(struct exec_stream *stream);

/* ---- a handle's side ---- */

void attach_end_all(cchv_exec *handle);
void attach_end_everybody(struct exec *exec);      /* of all handles of the process */
/* 1 while output that a handle of the process has attached to has not come to its end. */
int attach_has_output(const struct exec *exec);
/* 1: *ret_fd is set; 0: nothing was attached to that stream by set_pipe. */
int attach_end_take(cchv_exec *handle, int stream, int *ret_fd, cchv_error **err);
/* Ask the owner to end a process's input. The lock is given up meanwhile. */
int attach_ask_close_stdin(struct exec *exec, uint64_t deadline, cchv_error **err);

#endif
