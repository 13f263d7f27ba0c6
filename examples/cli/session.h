/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: the terminal, the signals and the loop of a command that waits for one process. The terminal is
 * put back in every way that the command can end.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "cli.h"

struct session {
	cchv_vm *vm;
	cchv_exec *exec;
	int tty;             /* the process has a terminal */
	int forward_signals; /* SIGTERM and the like go to the process */
	int whole_group;     /* to its group, but for SIGUSR1 and SIGUSR2, which mean what the process says */
	int detachable;      /* ctrl-p ctrl-q leaves; stdin is then pumped here */
	int stdin_fd;        /* the stream's socket with detachable, else -1 */
	int breaks_pipe;     /* its group gets SIGPIPE when output found no reader here, as a local writer would */
	int leaves;          /* without a reader of its output the command is of no use: it ends as by SIGPIPE */
};

/* Raw mode for stdin when it is a terminal, and block the signals that the loop reads. Before the start. */
int session_begin(int tty, int interactive);
void session_end(void);
/* A warning where -i and -t are given and stdin is no terminal: the output is a terminal's all the same. */
void session_check_terminal(int tty, int interactive);
/* The size of the caller's terminal; 0 0 where there is none. */
void session_get_size(uint32_t *rows, uint32_t *cols);

enum session_result { SESSION_EXITED, SESSION_DETACHED, SESSION_FAILED };
/*
 * Until the process has ended and its output is out. EXITED: *ret_status is what the shell sees; output that could
 * not be written (a full disk, not a reader that left) is told, and makes a 0 a 125. FAILED: an
 * error line was written, *ret_status is 125 (the VM or the agent is gone).
 */
enum session_result session_run(struct session *session, int *ret_status);
/* The streams for session_run(): stdin only when interactive. NULL after an error line. */
cchv_stdio_config *session_stdio(int tty, int interactive);

/* The exit code for a process that could not be started: 127, 126 or 125. */
int start_failure_status(const cchv_error *error);

#endif
