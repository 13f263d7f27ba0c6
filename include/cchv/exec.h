/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process in the guest, a container's init or another one: its settings, its streams, its end. Waiting
 * and signalling live here and nowhere else.
 *
 * Who moves the bytes. With cchv_stdio_config_set_pipe() and cchv_exec_take_fd() you hold the stream's own
 * socket: ordinary read() and write() work in any thread without any call to the library, end of file is
 * real, and nobody copies in between. With cchv_stdio_config_set_fd() the owner copies between your fd and
 * the stream, inside cchv_vm_dispatch(), cchv_vm_poll() and every blocking call on any object of the VM;
 * nothing moves otherwise. A stream that is not set is /dev/null.
 */
#ifndef CCHV_EXEC_H
#define CCHV_EXEC_H

#include <stdint.h>

#include <cchv/error.h>
#include <cchv/stats.h>
#include <cchv/version.h>
#include <cchv/vm.h>

CCHV_BEGIN_DECLS

typedef struct cchv_stdio_config cchv_stdio_config;
typedef struct cchv_exec_config cchv_exec_config;
typedef struct cchv_exec cchv_exec;

/* The streams of a process. With a terminal stdout carries all output; setting stderr
   is then CCHV_ERR_INVALID at the start. */
enum cchv_stream {
	CCHV_STDIN = 0,
	CCHV_STDOUT = 1,
	CCHV_STDERR = 2
};

/* States of a process. Values are only appended. */
enum cchv_exec_state {
	CCHV_EXEC_CREATED = 1, /* a container's init that has not been started */
	CCHV_EXEC_RUNNING = 2,
	CCHV_EXEC_EXITED = 3
};

/* Whom a signal goes to. Values are only appended. */
enum cchv_signal_target {
	CCHV_SIGNAL_GROUP = 1, /* its process group: it and the children that stayed in it */
	CCHV_SIGNAL_LEADER = 2, /* the process alone */
	CCHV_SIGNAL_CONTAINER = 3 /* every process of its container */
};

/* ---- where a process's streams lead ---- */

/**
 * cchv_stdio_config_new() - make settings that lead all streams to /dev/null
 * @ret_config: receives the object (free it with cchv_stdio_config_free())
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_stdio_config_new(cchv_stdio_config **ret_config);

/**
 * cchv_stdio_config_free() - free stdio settings
 * @config: the object; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 */
void cchv_stdio_config_free(cchv_stdio_config *config);

/**
 * cchv_stdio_config_set_fd() - connect a stream with an fd of yours
 * @config: the settings
 * @stream: one of enum cchv_stream
 * @fd:     a file, pipe, socket or terminal, which is copied: you still close yours. Whether it
 *          blocks does not matter, and its flags are not changed.
 *
 * The owner moves the bytes (see the top of this file). Output waits for a slow reader, and then
 * the process waits too. Where the reader of an output is gone, the rest of that stream is
 * discarded and counted; the process never gets SIGPIPE for it. End of file on the input is passed
 * on once.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_SYSTEM when the fd cannot be copied.
 */
int cchv_stdio_config_set_fd(cchv_stdio_config *config, int stream, int fd);

/**
 * cchv_stdio_config_set_pipe() - let cchv_exec_take_fd() hand out a stream
 * @config: the settings
 * @stream: one of enum cchv_stream
 *
 * Replaces what was set for the stream.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_stdio_config_set_pipe(cchv_stdio_config *config, int stream);

/**
 * cchv_stdio_config_set_log() - append an output stream to a log file
 * @config:    the settings
 * @stream:    CCHV_STDOUT or CCHV_STDERR; one file may serve both
 * @path:      absolute path of the file, created with mode 0600 where missing
 * @max_bytes: size in bytes at which the file is renamed to PATH.1, in place of the one before, and
 *             begun anew: at most twice as much is kept; 0 for no limit
 *
 * Alone or together with cchv_stdio_config_set_fd(), not with set_pipe. Clients can attach to a
 * logged stream (cchv_exec_attach()).
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_UNSUPPORTED for CCHV_STDIN.
 */
int cchv_stdio_config_set_log(cchv_stdio_config *config, int stream, const char *path,
			      uint64_t max_bytes);

/**
 * cchv_stdio_config_set_attachable() - keep a stream open for clients that attach
 * @config: the settings
 * @stream: one of enum cchv_stream
 *
 * An input stays open with nobody at the other end, and ends only by cchv_exec_close_stdin(); an
 * output goes to whoever is attached and is discarded otherwise (with set_log it is logged, and
 * attachable anyway). Alone or together with set_fd or set_log, not with set_pipe.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_stdio_config_set_attachable(cchv_stdio_config *config, int stream);

/* ---- what to run ---- */

/**
 * cchv_exec_config_new() - make the settings of a process
 * @ret_config: receives the object (free it with cchv_exec_config_free())
 *
 * Environment, directory, user, capabilities and limits are those of the container's init where
 * they are not set here.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_exec_config_new(cchv_exec_config **ret_config);

/**
 * cchv_exec_config_free() - free the settings of a process
 * @config: the object; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 */
void cchv_exec_config_free(cchv_exec_config *config);

/**
 * cchv_exec_config_set_id() - name the process
 * @config: the settings
 * @id:     1 to 76 letters, digits, '-', '_', '.', the first one a letter or a digit, unique in the
 *          container; "init" is taken; generated by default
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_exec_config_set_id(cchv_exec_config *config, const char *id);

/**
 * cchv_exec_config_set_process_json() - set the whole process as JSON
 * @config: the settings
 * @json:   the "process" object of the OCI runtime specification
 *
 * Replaces everything but id and stdio; later setters change the result. Nothing is taken from the
 * container's init.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_exec_config_set_process_json(cchv_exec_config *config, const char *json);

/**
 * cchv_exec_config_add_arg() - add an argument
 * @config: the settings
 * @arg:    any bytes; the first one is the program, looked up in the container's PATH where it has
 *          no '/'
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_exec_config_add_arg(cchv_exec_config *config, const char *arg);

/**
 * cchv_exec_config_set_env() - set an environment variable
 * @config: the settings
 * @name:   the name, without '='
 * @value:  any bytes
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_exec_config_set_env(cchv_exec_config *config, const char *name, const char *value);

/**
 * cchv_exec_config_unset_env() - remove an environment variable
 * @config: the settings
 * @name:   the name, without '='
 *
 * Also one that would come from the container's init.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_exec_config_unset_env(cchv_exec_config *config, const char *name);

/**
 * cchv_exec_config_set_cwd() - set the working directory
 * @config: the settings
 * @path:   absolute path in the container
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_exec_config_set_cwd(cchv_exec_config *config, const char *path);

/**
 * cchv_exec_config_set_user() - set the user
 * @config: the settings
 * @user:   "name", "uid", "name:group" or "uid:gid", looked up in the container's own files
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_exec_config_set_user(cchv_exec_config *config, const char *user);

/**
 * cchv_exec_config_set_tty() - give the process a terminal
 * @config: the settings
 * @rows:   rows, 1 to 65535; 0 with @cols 0 for a terminal without a size
 * @cols:   columns, 1 to 65535
 *
 * The size is there before the process's first instruction.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_exec_config_set_tty(cchv_exec_config *config, uint32_t rows, uint32_t cols);

/**
 * cchv_exec_config_set_stdio() - set where the streams lead
 * @config: the settings
 * @stdio:  where the streams lead, copied; NULL for /dev/null everywhere
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_SYSTEM when an fd cannot be copied.
 */
int cchv_exec_config_set_stdio(cchv_exec_config *config, cchv_stdio_config *stdio);

/* ---- the process ---- */

/**
 * cchv_vm_exec() - run a process in the VM's only container, or in the bare guest
 * @vm:         the VM
 * @config:     the settings, which are copied
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_exec:   receives the process (free it with cchv_exec_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * The short way for a VM with one container, like cchv_container_exec(). In a VM without containers
 * the process runs as root in the agent's own namespaces, where little more than the agent and the
 * devices is to be seen.
 *
 * Valid in: RUNNING, with at most one container.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: as cchv_container_exec(); CCHV_ERR_STATE with two or more containers.
 */
int cchv_vm_exec(cchv_vm *vm, cchv_exec_config *config, int timeout_ms, cchv_exec **ret_exec,
		 cchv_error **err);

/**
 * cchv_exec_get_id() - lend the process's id
 * @exec: the process
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: the id, valid until the exec is freed; "init" for a container's first process; NULL for
 *         NULL.
 */
const char *cchv_exec_get_id(cchv_exec *exec);

/**
 * cchv_exec_get_pid() - tell the process id in the guest
 * @exec: the process
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: the process id, as the guest's root namespace counts; 0 before the start;
 *         CCHV_ERR_INVALID or CCHV_ERR_FORKED.
 */
int cchv_exec_get_pid(cchv_exec *exec);

/**
 * cchv_exec_get_state() - tell the state of the process
 * @exec: the process
 *
 * The state as of the last call that served the VM; it asks nobody.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: one of enum cchv_exec_state; CCHV_ERR_INVALID or CCHV_ERR_FORKED.
 */
int cchv_exec_get_state(cchv_exec *exec);

/**
 * cchv_exec_get_start_time() - tell when the process was started
 * @exec: the process
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: nanoseconds since the epoch (CLOCK_REALTIME of the host); 0 before the start.
 */
uint64_t cchv_exec_get_start_time(cchv_exec *exec);

/**
 * cchv_exec_get_exit_time() - tell when the process ended
 * @exec: the process
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: nanoseconds since the epoch (CLOCK_REALTIME of the host); 0 before the end.
 */
uint64_t cchv_exec_get_exit_time(cchv_exec *exec);

/**
 * cchv_exec_take_fd() - take the socket of a stream
 * @exec:   the process
 * @stream: one of enum cchv_stream
 * @ret_fd: receives the fd, which is yours to close; a blocking stream socket with close-on-exec
 * @err:    NULL, or receives the error (free it with cchv_error_free())
 *
 * For a stream that was set by cchv_stdio_config_set_pipe(), once for each. On an output, end of
 * file comes when the process and all who inherited the stream have closed it; read it to the end.
 * On the input, shutdown(SHUT_WR) or close() is end of file. Closing an output early discards the
 * rest; a reset means that the VM is gone.
 *
 * Valid in: after the start, in the process that started it; also when the process has ended.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_STATE when it was taken before or is not a pipe; CCHV_ERR_FORKED.
 */
int cchv_exec_take_fd(cchv_exec *exec, int stream, int *ret_fd, cchv_error **err);

/**
 * cchv_exec_close_stdin() - end the input of the process
 * @exec: the process
 * @err:  NULL, or receives the error (free it with cchv_error_free())
 *
 * What has been read from the fd of set_fd before still arrives, then end of file. Of a stream that
 * was taken, close the fd itself.
 *
 * Valid in: RUNNING; a second call, and a call in EXITED, succeed and do nothing.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_STATE for a stream that was taken; CCHV_ERR_VMM_GONE,
 *         CCHV_ERR_GUEST_GONE or CCHV_ERR_NOMEM.
 */
int cchv_exec_close_stdin(cchv_exec *exec, cchv_error **err);

/**
 * cchv_exec_signal() - send a signal to the process
 * @exec:          the process
 * @signal_number: 1 to 64, as on Linux; 0 only looks whether it could be sent
 * @target:        one of enum cchv_signal_target. Each process leads a session and group of its
 *                 own; children that left the group are reached by CCHV_SIGNAL_CONTAINER alone,
 *                 which reaches the other processes of the container, too
 * @timeout_ms:    longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:           NULL, or receives the error (free it with cchv_error_free())
 *
 * Never waits for calls of other threads. Init of a PID namespace gets only signals that it
 * handles, SIGKILL apart: as with every container.
 *
 * Valid in: CREATED (init only), RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND when the process has ended; CCHV_ERR_UNSUPPORTED for an
 *         unknown @target; CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST,
 *         CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL or CCHV_ERR_NOMEM.
 */
int cchv_exec_signal(cchv_exec *exec, int signal_number, int target, int timeout_ms, cchv_error **err);

/**
 * cchv_exec_resize_tty() - tell the process's terminal its new size
 * @exec:       the process
 * @rows:       rows, 1 to 65535
 * @cols:       columns, 1 to 65535
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * The foreground process group gets SIGWINCH.
 *
 * Valid in: RUNNING, with a terminal.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_STATE without a terminal; CCHV_ERR_NOT_FOUND when the process has
 *         ended; CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL or CCHV_ERR_NOMEM.
 */
int cchv_exec_resize_tty(cchv_exec *exec, uint32_t rows, uint32_t cols, int timeout_ms,
			 cchv_error **err);

/**
 * cchv_exec_wait() - wait until the process has ended
 * @exec:          the process
 * @timeout_ms:    longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_exit_code: NULL, or receives 0 to 255; -1 where a signal killed the process
 * @ret_signal:    NULL, or receives the number of the signal that killed the process; 0 where it
 *                 exited by itself
 * @err:           NULL, or receives the error (free it with cchv_error_free())
 *
 * Serves the VM meanwhile. Returns when the process is reaped and its output is drained; a reader
 * that stalls, or a child that holds the stream, delays it by at most one second, and what comes
 * later still flows. Can be called any number of times, by several threads and clients.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK when the process has ended and its end is known; CCHV_ERR_TIMEOUT;
 *         CCHV_ERR_VMM_GONE or CCHV_ERR_GUEST_GONE when the VM ended first, with its reason;
 *         CCHV_ERR_NOT_FOUND when its record was deleted; CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or
 *         CCHV_ERR_NOMEM.
 */
int cchv_exec_wait(cchv_exec *exec, int timeout_ms, int *ret_exit_code, int *ret_signal,
		   cchv_error **err);

/**
 * cchv_exec_get_stats() - count the bytes of the process's streams
 * @exec:      the process
 * @ret_stats: receives "stdin.bytes", "stdout.bytes" and the like (free them with
 *             cchv_stats_free())
 * @err:       NULL, or receives the error (free it with cchv_error_free())
 *
 * What this process moves: the owner knows of each process, a client of those that it has started with
 * streams of its own. Streams that were taken are absent. "stdout.lost_bytes" were discarded because the
 * descriptor took no more, and "stdout.lost_errno" says why: EPIPE when its reader has left, or ENOSPC, EIO
 * and the like; 0 as long as nothing was lost.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_NOT_OWNER or CCHV_ERR_NOMEM.
 */
int cchv_exec_get_stats(cchv_exec *exec, cchv_stats **ret_stats, cchv_error **err);

/**
 * cchv_exec_attach() - connect to the streams of a running process
 * @exec:       the process
 * @stdio:      where the streams lead, copied; by set_fd or set_pipe. Streams that are not set stay
 *              as they are.
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * For a client or another handle of the owner: output from now on goes here too, input is mixed
 * with that of others. The process notices nothing. Wait for its end by cchv_exec_wait() as usual:
 * it comes after the last output.
 *
 * Valid in: RUNNING, for streams that are attachable (set_log, set_attachable).
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_STATE when the process has ended, or a stream is not attachable;
 *         CCHV_ERR_NOT_FOUND, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_exec_attach(cchv_exec *exec, cchv_stdio_config *stdio, int timeout_ms, cchv_error **err);

/**
 * cchv_exec_detach() - end what cchv_exec_attach() began
 * @exec: the process
 * @err:  NULL, or receives the error (free it with cchv_error_free())
 *
 * The process runs on, its input stays open.
 *
 * Valid in: always; without an attachment it succeeds and does nothing.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_NOMEM.
 */
int cchv_exec_detach(cchv_exec *exec, cchv_error **err);

/**
 * cchv_exec_close_output() - have done with the output of a process that has ended
 * @exec: the process
 * @err:  NULL, or receives the error (free it with cchv_error_free())
 *
 * What a child that holds the stream still writes is discarded from now on, and the library's copies of
 * the fds are closed: their reader sees the end. Streams that were taken stay as they are.
 *
 * Valid in: EXITED, in the owner; a second call succeeds and does nothing.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_STATE while it runs; CCHV_ERR_NOT_OWNER; CCHV_ERR_NOT_FOUND when its
 *         record was deleted.
 */
int cchv_exec_close_output(cchv_exec *exec, cchv_error **err);

/**
 * cchv_exec_delete() - drop the record of a process that has ended
 * @exec:       the process
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Until then its end can be asked for by anyone. The record of init goes with its container.
 *
 * Valid in: EXITED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_STATE while it runs, or for init; CCHV_ERR_NOT_FOUND when it was
 *         deleted before; CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL or CCHV_ERR_NOMEM.
 */
int cchv_exec_delete(cchv_exec *exec, int timeout_ms, cchv_error **err);

/**
 * cchv_exec_free() - free a process's handle
 * @exec: the process; NULL is allowed
 *
 * The process runs on, its streams flow on, its record stays.
 *
 * Valid in: always.
 * Threads:  any; no other call on this handle may be running.
 * Since:    0.1
 */
void cchv_exec_free(cchv_exec *exec);

CCHV_END_DECLS

#endif /* CCHV_EXEC_H */
