/* SPDX-License-Identifier: Apache-2.0 */
/* A session: see session.h. Enters: keys, signals, the VM's readiness. Leaves: the end of one process. */
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#define DETACH_FIRST  0x10 /* ctrl-p */
#define DETACH_SECOND 0x11 /* ctrl-q */

static struct termios saved_termios;
static int termios_saved;
static int signal_fd = -1;

static const int watched[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT };

static void restore_terminal(void)
{
	if (termios_saved)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &saved_termios);
	termios_saved = 0;
}

void session_end(void)
{
	restore_terminal();
	if (signal_fd >= 0)
		close(signal_fd);
	signal_fd = -1;
}

static int make_raw(void)
{
	struct termios raw;

	if (!isatty(STDIN_FILENO))
		return 0;
	if (tcgetattr(STDIN_FILENO, &saved_termios) < 0)
		return fail("terminal: %m");
	raw = saved_termios;
	cfmakeraw(&raw);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
		return fail("terminal: %m");
	termios_saved = 1;
	atexit(restore_terminal);
	return 0;
}

int session_begin(int tty, int interactive)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
		sigaddset(&set, watched[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return fail("signals: %m");
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0)
		return fail("signalfd: %m");
	/* A reader that left, as in "| head": the write says so, and the library counts it. */
	signal(SIGPIPE, SIG_IGN);
	if (tty && interactive)
		return make_raw();
	return 0;
}

void session_check_terminal(int tty, int interactive)
{
	if (tty && interactive && !isatty(STDIN_FILENO))
		warn("stdin is not a terminal, though -t is given: the output is a terminal's all the same");
}

void session_get_size(uint32_t *rows, uint32_t *cols)
{
	struct winsize size;

	*rows = *cols = 0;
	for (int fd = 0; fd <= 2; fd++) {
		if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col) {
			*rows = size.ws_row;
			*cols = size.ws_col;
			return;
		}
	}
}

cchv_stdio_config *session_stdio(int tty, int interactive)
{
	cchv_stdio_config *stdio = NULL;

	if (cchv_stdio_config_new(&stdio) < 0) {
		fail("out of memory");
		return NULL;
	}
	if ((interactive && cchv_stdio_config_set_fd(stdio, CCHV_STDIN, STDIN_FILENO) < 0) ||
	    cchv_stdio_config_set_fd(stdio, CCHV_STDOUT, STDOUT_FILENO) < 0 ||
	    (!tty && cchv_stdio_config_set_fd(stdio, CCHV_STDERR, STDERR_FILENO) < 0)) {
		fail("standard streams: %m");
		cchv_stdio_config_free(stdio);
		return NULL;
	}
	return stdio;
}

int start_failure_status(const cchv_error *error)
{
	if (cchv_error_origin(error) != CCHV_ORIGIN_GUEST)
		return EXIT_OURS;
	/* A program that cannot run has one of two codes; the guest's own troubles (time, memory) have others. */
	switch (cchv_error_code(error)) {
	case CCHV_ERR_NOT_FOUND: return EXIT_NOT_FOUND;
	case CCHV_ERR_DENIED: return EXIT_NOT_EXECUTABLE;
	default: return EXIT_OURS;
	}
}

static void resize(struct session *s)
{
	uint32_t rows, cols;

	session_get_size(&rows, &cols);
	/* A process that has just ended has no terminal any more: nothing to report. */
	if (rows && cols)
		cchv_exec_resize_tty(s->exec, rows, cols, 2000, NULL);
}

static void die_of(int signal_number)
{
	sigset_t one;

	restore_terminal();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
	sigemptyset(&one);
	sigaddset(&one, signal_number);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
}

static void take_signals(struct session *s)
{
	struct signalfd_siginfo info;

	while (read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGWINCH || info.ssi_signo == SIGCONT) {
			if (s->tty)
				resize(s);
		} else if (s->forward_signals) {
			int own = info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2;
			int target = s->whole_group && !own ? CCHV_SIGNAL_GROUP : CCHV_SIGNAL_LEADER;
			cchv_error *err = NULL;
			int r = cchv_exec_signal(s->exec, (int)info.ssi_signo, target, 5000, &err);

			if (r < 0 && r != CCHV_ERR_NOT_FOUND)
				warn("signal %d: %s", (int)info.ssi_signo, cchv_error_message(err));
			cchv_error_free(err);
		} else {
			/* Not ours to pass on (attach without a right to it, exec of a client): it ends this
			 * command. */
			die_of((int)info.ssi_signo);
		}
	}
}

static int is_reader_that_left(uint64_t error_number)
{
	return error_number == EPIPE || error_number == ECONNRESET;
}

static int lost_reader(const struct session *s)
{
	uint64_t out = 0, error_output = 0;
	cchv_stats *stats = NULL;

	/* Without the numbers nothing is known to be lost. */
	if (cchv_exec_get_stats(s->exec, &stats, NULL) < 0)
		return 0;
	cchv_stats_find(stats, "stdout.lost_errno", &out);
	cchv_stats_find(stats, "stderr.lost_errno", &error_output);
	cchv_stats_free(stats);
	return is_reader_that_left(out) || is_reader_that_left(error_output);
}

/* Once: a process that wants to go on without a reader does. */
static void break_pipe(struct session *s)
{
	cchv_error *err = NULL;
	int r;

	if (!s->breaks_pipe || !lost_reader(s))
		return;
	s->breaks_pipe = 0;
	r = cchv_exec_signal(s->exec, SIGPIPE, CCHV_SIGNAL_GROUP, 5000, &err);
	if (r < 0 && r != CCHV_ERR_NOT_FOUND)
		warn("signal %d: %s", SIGPIPE, cchv_error_message(err));
	cchv_error_free(err);
}

/* Pass keys on until the detach keys come. 1: detach; 0: go on. *held: a ctrl-p waits for its successor. */
static int pass_keys(struct session *s, int *held, int *open)
{
	unsigned char in[4096], out[2 * sizeof(in)];
	ssize_t n = read(STDIN_FILENO, in, sizeof(in));
	size_t o = 0, sent = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		close(s->stdin_fd);
		s->stdin_fd = -1;
		*open = 0;
		return 0;
	}
	for (ssize_t i = 0; i < n; i++) {
		if (*held && in[i] == DETACH_SECOND)
			return 1;
		if (*held)
			out[o++] = DETACH_FIRST;
		*held = in[i] == DETACH_FIRST;
		if (!*held)
			out[o++] = in[i];
	}
	while (sent < o) {
		ssize_t w = write(s->stdin_fd, out + sent, o - sent);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0) {
			*open = 0;
			return 0;
		}
		sent += (size_t)w;
	}
	return 0;
}

/* A reader that left wanted no more; anything else that kept output from being written is our failure. */
static int tell_loss(cchv_stats *stats, const char *stream)
{
	char *name = xprintf("%s.lost_errno", stream);
	uint64_t number = 0, bytes = 0;

	cchv_stats_find(stats, name, &number);
	free(name);
	if (!number || is_reader_that_left(number))
		return 0;
	name = xprintf("%s.lost_bytes", stream);
	cchv_stats_find(stats, name, &bytes);
	free(name);
	return fail("%s: %llu bytes of output could not be written: %s", stream, (unsigned long long)bytes,
		    strerror((int)number));
}

static int tell_losses(struct session *s)
{
	cchv_stats *stats = NULL;
	cchv_error *err = NULL;
	int r;

	r = cchv_exec_get_stats(s->exec, &stats, &err);
	cchv_error_free(err);
	if (r == CCHV_ERR_NOT_OWNER)
		return 0; /* attached to: its owner has all in the log */
	if (r < 0)
		return fail("whether all output was written is unknown: %s", cchv_err_text(r));
	r = tell_loss(stats, "stdout");
	r = tell_loss(stats, "stderr") ? EXIT_OURS : r;
	cchv_stats_free(stats);
	return r;
}

/* 1 when the process has ended: *ret_status and *ret_result are set. */
static int look(struct session *s, int *ret_status, enum session_result *ret_result)
{
	cchv_error *err = NULL;
	int code, sig, r;

	r = cchv_exec_wait(s->exec, 0, &code, &sig, &err);
	if (r == CCHV_ERR_TIMEOUT) {
		cchv_error_free(err);
		return 0;
	}
	if (r < 0) {
		restore_terminal();
		*ret_status = fail_error(err, "the process's end is unknown");
		*ret_result = SESSION_FAILED;
	} else {
		*ret_status = sig ? 128 + sig : code;
		if (tell_losses(s) && *ret_status == 0)
			*ret_status = EXIT_OURS;
		*ret_result = SESSION_EXITED;
	}
	return 1;
}

enum session_result session_run(struct session *s, int *ret_status)
{
	struct pollfd p[4] = { { .fd = cchv_vm_get_fd(s->vm), .events = POLLIN },
			       { .fd = signal_fd, .events = POLLIN },
			       { .fd = s->detachable ? STDIN_FILENO : -1, .events = POLLIN },
			       /* The end of its reader is told without being asked for. */
			       { .fd = s->leaves ? STDOUT_FILENO : -1, .events = 0 } };
	enum session_result result;
	int held = 0, open = 1;

	while (!look(s, ret_status, &result)) {
		cchv_event *event;

		if (poll(p, 4, -1) < 0 && errno != EINTR) {
			*ret_status = fail("poll: %m");
			return SESSION_FAILED;
		}
		if (p[3].revents & (POLLERR | POLLHUP))
			die_of(SIGPIPE);
		if (p[3].revents)
			p[3].fd = -1; /* not open at all: nobody was meant to read */
		if (p[1].revents)
			take_signals(s);
		if (p[2].revents && pass_keys(s, &held, &open))
			return SESSION_DETACHED;
		if (!open)
			p[2].fd = -1;
		cchv_vm_dispatch(s->vm, NULL);
		/* Nobody here wants the events, but the descriptor stays readable while they wait. */
		while (cchv_vm_next_event(s->vm, &event) > 0)
			cchv_event_free(event);
		break_pipe(s);
	}
	return result;
}
