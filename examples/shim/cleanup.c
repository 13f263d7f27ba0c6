/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleaning up: see cleanup.h. Enters: a state file. Leaves: nothing of what it names, and the truth about the
 * end, or 137 where nobody knows it. All within the daemon's five seconds.
 *
 * A server that lives is asked to end the container by itself, since only it may touch the VM that others may
 * share. It is killed only when it does not answer and the container is the one that the VM was made for: a
 * member of a pod is never worth its siblings.
 */
#include "cleanup.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cchv/cchv.h>

#include "ask.h"
#include "bundle.h"
#include "delete_reply.h"
#include "listener.h"
#include "log.h"
#include "netns.h"
#include "rootfs.h"
#include "state_file.h"
#include "ttrpc.h"

#define ASK_MS  1500
#define KILL_MS 2000

/* A pidfd of the server, if it is still that process. -1: it is dead. */
static int open_server(const struct state *state)
{
	int fd = (int)syscall(SYS_pidfd_open, state->server_pid, 0);

	if (fd >= 0 && state_process_start(state->server_pid) == state->server_start)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int wait_end(int pid_fd, int timeout_ms)
{
	struct pollfd p = { .fd = pid_fd, .events = POLLIN };

	return poll(&p, 1, timeout_ms) > 0;
}

static void put_id(struct wire *request, const char *id)
{
	wire_put_string(request, 1, id);
}

/* The server deletes the container. 0: it did. */
static int ask_server(const struct flags *flags, const struct state *state)
{
	int fd = state->socket ? ask_open(state->socket) : -1, code;
	struct wire request = { 0 };
	unsigned int stream = 0;

	if (fd < 0)
		return -1;
	put_id(&request, flags->id);
	wire_put_uint(&request, 3, SIGKILL);
	wire_put_uint(&request, 4, 1);
	code = ask(fd, &stream, flags->namespace, "Kill", &request, ASK_MS, NULL);
	if (code == CODE_OK) {
		put_id(&request, flags->id);
		code = ask(fd, &stream, flags->namespace, "Wait", &request, ASK_MS, NULL);
	}
	if (code == CODE_OK || code == CODE_NOT_FOUND || code == CODE_PRECONDITION) {
		put_id(&request, flags->id);
		code = ask(fd, &stream, flags->namespace, "Delete", &request, ASK_MS, NULL);
	}
	if (code == CODE_OK || code == CODE_NOT_FOUND) {
		put_id(&request, flags->id);
		ask(fd, &stream, flags->namespace, "Shutdown", &request, ASK_MS, NULL);
	}
	close(fd);
	return code == CODE_OK || code == CODE_NOT_FOUND ? 0 : -1;
}

static void complain(char *text)
{
	if (text)
		log_line(LOG_WARNING, "delete: %s", text);
	free(text);
}

/* The library's part: the VMM, its helpers, its directory, the container's. */
static void prune(const struct state *state)
{
	cchv_findings *removed = NULL;
	cchv_error *error = NULL;
	cchv_ctx *ctx = NULL;
	int r = cchv_ctx_new(&ctx, &error);

	if (r == CCHV_OK && state->runtime_dir)
		r = cchv_ctx_set_runtime_dir(ctx, state->runtime_dir);
	if (r == CCHV_OK && state->state_dir)
		r = cchv_ctx_set_state_dir(ctx, state->state_dir);
	if (r == CCHV_OK)
		r = cchv_ctx_set_log(ctx, log_get_level(), log_from_library, NULL, NULL);
	if (r == CCHV_OK)
		r = cchv_ctx_prune(ctx, &removed, &error);
	if (r < 0)
		log_line(LOG_ERROR, "delete: %s", error ? cchv_error_message(error) : cchv_err_text(r));
	for (int i = 0; i < cchv_findings_get_count(removed); i++)
		log_line(cchv_findings_get_status(removed, i) == CCHV_FINDING_WARN ? LOG_WARNING : LOG_INFO,
			 "delete: %s", cchv_findings_get_text(removed, i));
	cchv_findings_free(removed);
	cchv_error_free(error);
	cchv_ctx_free(ctx);
}

static void clean_after_dead(const struct state *state)
{
	char *text = NULL;
	int fd = -1;

	prune(state);
	if (rootfs_clean(".", &text) < 0)
		complain(text);
	text = NULL;
	if (state->netns && netns_clean(state->netns, &text) < 0)
		complain(text);
	/* Bound anew where nobody listens, which is the proof that nobody does; and gone with it. */
	if (state->socket && listener_open(state->socket, &fd) == 1)
		listener_remove(state->socket, fd);
}

/* 0: it is cleaned up. */
static int clean(const struct flags *flags, const struct state *state)
{
	int server = open_server(state), is_owner = state->group && strcmp(state->group, flags->id) == 0;

	if (server >= 0 && ask_server(flags, state) == 0) {
		close(server);
		return 0;
	}
	if (server >= 0 && !wait_end(server, 0)) {
		if (!is_owner) {
			log_line(LOG_ERROR, "delete '%s': its server does not answer; left to it", flags->id);
			close(server);
			return -1;
		}
		log_line(LOG_WARNING, "delete '%s': its server does not answer; killed", flags->id);
		syscall(SYS_pidfd_send_signal, server, SIGKILL, NULL, 0);
		wait_end(server, KILL_MS);
	}
	if (server >= 0)
		close(server);
	clean_after_dead(state);
	return 0;
}

/* What is known of the end, or becomes known now: whoever asks again hears the same. */
static void tell_end(const struct state *state, int is_clean, struct exit_note *ret)
{
	if (!bundle_read_exit(".", ret)) {
		*ret = delete_reply_killed(state->pid);
		if (is_clean && bundle_write_exit(".", ret) < 0)
			log_line(LOG_WARNING, "delete: %s: %s", BUNDLE_EXIT, strerror(errno));
	}
	if (is_clean)
		state_file_remove(".");
}

int cleanup_run(const struct flags *flags)
{
	struct exit_note note = { 0 };
	struct state state = { 0 };
	struct wire out = { 0 };
	int r = state_file_read(".", &state);

	if (r < 0) {
		fprintf(stderr, "delete '%s': %s: %s\n", flags->id, BUNDLE_STATE, strerror(errno));
		return 1;
	}
	tell_end(&state, r > 0 && clean(flags, &state) == 0, &note);
	state_free(&state);
	delete_reply_put(&out, &note);
	r = out.failed || write(STDOUT_FILENO, out.data, out.len) != (ssize_t)out.len;
	wire_free(&out);
	return r;
}
