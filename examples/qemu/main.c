/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cchv-qemu: Cloud Hypervisor's API, with QEMU behind it. One thread, one loop, one VM. Enters: a command line, the
 * API socket, SIGTERM and SIGINT. Leaves: exit code 0 after an orderly end (the guest's power-off among them), 1 after
 * a failure, 2 for a wrong command line; when QEMU is killed by a signal, so are we, since the two are one VMM.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api.h"
#include "base/clock.h"
#include "base/fd.h"
#include "options.h"
#include "vmm_log.h"

#define API_BACKLOG 128
#define LAST_REPLY_TIMEOUT_MS 1000
#define BODY_MAX (64u << 20)

struct program_state {
	struct options options;
	struct log_sink log;
	struct loop *loop;
	struct event_stream events;
	struct program *program;
	struct http_server *server;
	struct vm vm;
	int api_lock;
	int signal_fd;
	struct loop_source *signal_source;
	int signalled;
};

static int fail(const struct program_state *s, const char *what, const char *path)
{
	fprintf(stderr, "cchv-qemu: %s%s%s%s: %s\n", what, path ? " '" : "", path ? path : "", path ? "'" : "",
	        strerror(errno));
	log_error(&s->log, "%s %s: %s", what, path ? path : "", strerror(errno));
	return 1;
}

/* A lock beside the socket tells a socket that was left behind from one in use. */
static int lock_api_path(struct program_state *s, const char *path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	cleanup_free char *lock_path = mem_printf("%s.lock", path);

	if (!lock_path)
		return fail(s, "API socket", path);
	s->api_lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (s->api_lock < 0)
		return fail(s, "open", lock_path);
	if (fcntl(s->api_lock, F_OFD_SETLK, &lock) < 0) {
		fprintf(stderr, "cchv-qemu: API socket '%s' is already in use\n", path);
		return 1;
	}
	if (unlink(path) < 0 && errno != ENOENT)
		return fail(s, "remove the stale API socket", path);
	return 0;
}

static int open_api_socket(struct program_state *s)
{
	const char *path = s->options.api_socket_path;
	cleanup_err cchv_error *err = NULL;
	struct stat st;
	int fd = s->options.api_socket_fd, code;

	if (path) {
		code = lock_api_path(s, path);
		if (code)
			return code;
		fd = fd_unix_listen(path, API_BACKLOG);
		if (fd < 0)
			return fail(s, "bind the API socket", path);
	} else if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode) || fd_set_cloexec(fd, 1) < 0) {
		errno = errno ? errno : ENOTSOCK;
		return fail(s, "API socket: the given descriptor", NULL);
	}
	if (http_server_new(s->loop, fd, &s->log, &s->server, &err) < 0) {
		fprintf(stderr, "cchv-qemu: %s\n", cchv_error_message(err));
		return 1;
	}
	return 0;
}

static int open_events(struct program_state *s)
{
	int fd = s->options.event_fd;

	if (s->options.event_path) {
		/* A FIFO without a reader makes this wait, as it does in the original. */
		fd = open(s->options.event_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0)
			return fail(s, "open the event monitor", s->options.event_path);
	} else if (fd >= 0 && fd_set_cloexec(fd, 1) < 0) {
		return fail(s, "event monitor: the given descriptor", NULL);
	}
	event_stream_init(&s->events, fd, &s->log);
	return 0;
}

static void on_signal(uint32_t events, void *user_data)
{
	struct program_state *s = user_data;
	struct signalfd_siginfo info;

	(void)events;
	if (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		log_info(&s->log, "signal %u", info.ssi_signo);
		s->signalled = 1;
	}
}

static int open_signals(struct program_state *s)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, plain = { .sa_handler = SIG_DFL };
	cleanup_err cchv_error *err = NULL;
	sigset_t set;

	sigaction(SIGPIPE, &ignore, NULL);
	/* Inherited as ignored, it would make waitpid() lose QEMU's status. */
	sigaction(SIGCHLD, &plain, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return fail(s, "signals", NULL);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signal_fd < 0 || loop_add(s->loop, s->signal_fd, EPOLLIN, on_signal, s, &s->signal_source, &err) < 0)
		return fail(s, "signals", NULL);
	return 0;
}

static void answer(struct program_state *s, struct http_call *call)
{
	cleanup_buf struct buf body = BUF_INIT(BODY_MAX);
	int status = 500;

	api_handle(&s->vm, call, &status, &body);
	http_server_reply(s->server, call, status, body.len ? &body : NULL);
}

static int on_terminate(struct program_state *s)
{
	struct fault fault = { 0 };
	char text[1024];
	int r;

	s->signalled = 0;
	r = vm_end(&s->vm, &fault);
	if (r < 0)
		log_error(&s->log, "%s", fault_text(&fault, text, sizeof(text)));
	fault_clear(&fault);
	return r < 0 ? 1 : 0;
}

/* One thing at a time, none of them inside a callback: what they call may run the loop themselves. */
static int serve(struct program_state *s)
{
	cleanup_err cchv_error *err = NULL;
	struct http_call *call;
	int code = 0;

	while (!s->vm.finished && !code) {
		if (vm_process(&s->vm))
			continue;
		call = NULL;
		if (s->signalled)
			code = on_terminate(s);
		else if (s->server && (call = http_server_next(s->server)))
			answer(s, call);
		else if (loop_run_once(s->loop, CLOCK_NEVER, &err) < 0) {
			log_error(&s->log, "%s", cchv_error_message(err));
			code = 1;
		}
	}
	if (s->server)
		http_server_flush(s->server, clock_deadline(LAST_REPLY_TIMEOUT_MS));
	return s->vm.died ? 1 : code;
}

static void end_state(struct program_state *s)
{
	vm_free(&s->vm);
	program_free(s->program);
	http_server_free(s->server);
	loop_source_free(s->signal_source);
	fd_close(&s->signal_fd);
	loop_free(s->loop);
	event_stream_close(&s->events);
}

/* QEMU is half of this VMM: who kills it with a signal sees the whole end by it. */
static void die_like(int status)
{
	struct sigaction plain = { .sa_handler = SIG_DFL };
	struct rlimit none = { 0, 0 };
	sigset_t all;

	if (!WIFSIGNALED(status))
		return;
	setrlimit(RLIMIT_CORE, &none);
	sigaction(WTERMSIG(status), &plain, NULL);
	sigfillset(&all);
	raise(WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &all, NULL);
}

static int start(struct program_state *s)
{
	cleanup_err cchv_error *err = NULL;
	int code;

	if (loop_new(&s->loop, &err) < 0 || program_new(s->loop, &s->log, &s->program, &err) < 0) {
		fprintf(stderr, "cchv-qemu: %s\n", cchv_error_message(err));
		return 1;
	}
	vm_init(&s->vm, s->loop, &s->log, &s->events, s->program);
	s->vm.seccomp = s->options.seccomp;
	s->vm.no_shutdown = s->options.no_shutdown;
	code = open_signals(s);
	if (!code)
		code = open_events(s);
	if (!code)
		event_emit(&s->events, "vmm", "starting");
	return code ? code : open_api_socket(s);
}

static int levels(int verbosity)
{
	return verbosity >= 2 ? CCHV_LOG_DEBUG : verbosity == 1 ? CCHV_LOG_INFO : CCHV_LOG_WARNING;
}

int main(int argc, char **argv)
{
	struct program_state s = {
		.log = LOG_SINK_INIT, .events = { .fd = -1 }, .api_lock = -1, .signal_fd = -1,
	};
	char problem[256];
	int code = options_parse(&s.options, argc, argv, problem, sizeof(problem));

	if (code) {
		fprintf(stderr, "error: %s\n\nUsage: cchv-qemu --api-socket <path=PATH|fd=FD> "
		        "[--event-monitor <path=PATH|fd=FD>] [--log-file <FILE>] [-v]...\n", problem);
		return code;
	}
	if (s.options.version) {
		puts("cloud-hypervisor " VMM_BUILD_VERSION " (cchv-qemu)");
		return 0;
	}
	umask(077);
	if (vmm_log_open(&s.log, s.options.log_file, levels(s.options.verbosity)) < 0)
		return fail(&s, "open the log file", s.options.log_file);
	code = start(&s);
	if (!code)
		code = serve(&s);
	end_state(&s);
	if (!code && s.options.api_socket_path)
		unlink(s.options.api_socket_path);
	if (s.vm.died)
		die_like(s.vm.exit_status);
	return code;
}
