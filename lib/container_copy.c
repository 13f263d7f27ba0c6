/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying files in and out: the agent packs or unpacks a tar stream in the container's mounts, as a process whose
 * stdin or stdout the stream is. Enters: a path, an fd. Leaves: the stream.
 */
#include "exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "stdio_config.h"

#define UNDO_MS 5000
/* Of a guest that has said nothing for so long, nothing is expected. */
#define SILENCE_MS 8000
#define SILENT_UNDO_MS 1000

#define LINE_MAX_BYTES 512U

/* What the agent says of its failure: one line, which may be missing, too long, or no text. */
static void read_line(int fd, char *line, size_t size)
{
	ssize_t n = read(fd, line, size - 1);

	line[n > 0 ? n : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
}

/* Exit codes of the agent (guest/PROTOCOL.md, archive): 1 when something failed, 2 for a stream that is none. */
static int judge(const struct exec *exec, const char *what, const char *path, int said_fd, cchv_error **err)
{
	char line[LINE_MAX_BYTES];

	if (exec->gone)
		return err_set(err, exec->gone, 0, "%s '%s': %s", what, path,
		               exec->gone_text ? exec->gone_text : "the VM has ended");
	if (exec->signal)
		return err_set_from(err, CCHV_ERR_GUEST, CCHV_ORIGIN_GUEST, 0, "%s '%s': killed by signal %d",
		                    what, path,
		                    exec->signal);
	if (exec->exit_code == 0)
		return CCHV_OK;
	read_line(said_fd, line, sizeof(line));
	return err_set_from(err, exec->exit_code == 2 ? CCHV_ERR_INVALID : CCHV_ERR_GUEST, CCHV_ORIGIN_GUEST, 0,
	                    "%s '%s': %s", what, path, *line ? line : "it failed, and said no more");
}

/* Its time ran out, or the other side is broken: end it, and let its record go. */
static void give_up(struct exec *exec, int timeout_ms)
{
	struct json *params = exec_params(exec);

	json_set_string(params, "scope", "group");
	json_set_u64(params, "signal", 9);
	guest_call(exec->vm, "exec.signal", params, clock_deadline(timeout_ms), NULL, NULL);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* It could have said something: it runs, and whoever takes it has room. */
static int is_silent(const struct exec *exec)
{
	const struct pump_out *out = exec->streams[CCHV_STDOUT].out;

	return exec->vm->state == CCHV_VM_RUNNING && !(out && pump_out_stalled_since(out));
}

/* Serves the VM once. *silence: 0, or until when something must have come, after which it is CCHV_ERR_TIMEOUT. */
static int serve(struct exec *exec, uint64_t *silence, uint64_t deadline, cchv_error **err)
{
	const struct exec_stream *stream = &exec->streams[CCHV_STDOUT];
	uint64_t before = stream->out ? pump_out_received(stream->out) : 0;
	int r = vm_serve(exec->vm, *silence ? earlier(*silence, deadline) : deadline, err);

	if (!*silence || (r < 0 && r != CCHV_ERR_TIMEOUT))
		return r;
	if ((stream->out && pump_out_received(stream->out) != before) || !is_silent(exec))
		*silence = clock_deadline(SILENCE_MS);
	else if (r == CCHV_ERR_TIMEOUT && *silence <= deadline)
		return r;
	if (r == CCHV_ERR_TIMEOUT && clock_mono_ns() < deadline) {
		cchv_error_free(err ? steal(err) : NULL);
		return CCHV_OK;
	}
	return r;
}

/* A guest may send for ever: nobody waits for the end of what is not wanted any more. */
static int wait_for_end(struct exec *exec, uint64_t *silence, uint64_t deadline, cchv_error **err)
{
	int r = CCHV_OK, is_quiet;

	while (r == CCHV_OK && exec->listed && exec->phase != EXEC_ENDED && !exec->is_over &&
	       !exec_stream_lost(exec, CCHV_STDOUT))
		r = serve(exec, silence, deadline, err);
	is_quiet = r == CCHV_ERR_TIMEOUT && *silence && *silence <= deadline;
	if (exec->phase == EXEC_ENDED || exec->is_over)
		cchv_error_free(err ? steal(err) : NULL);
	if (exec->phase != EXEC_ENDED && exec->listed)
		give_up(exec, is_quiet ? SILENT_UNDO_MS : UNDO_MS);
	if (exec->is_over)
		return CCHV_OK;
	if (r == CCHV_OK && exec->phase != EXEC_ENDED && exec_stream_lost(exec, CCHV_STDOUT))
		return err_set(err, CCHV_ERR_SYSTEM, EPIPE, "the fd took no more");
	return exec->phase == EXEC_ENDED ? CCHV_OK : r < 0 ? r : err_set(err, CCHV_ERR_STATE, 0,
	                                                                 "the VM was let go of");
}

static int check_length(const struct exec *exec, const char *what, const char *path, cchv_error **err)
{
	if (!exec->is_over)
		return CCHV_OK;
	return err_set_from(err, CCHV_ERR_LIMIT, CCHV_ORIGIN_GUEST, 0, "%s '%s': more than %llu bytes came", what, path,
	                    (unsigned long long)exec->max_output);
}

/* The bytes that the reader's side did not take are a failure here: the copy would be cut short. */
static int check_lost(const struct exec *exec, const char *what, const char *path, cchv_error **err)
{
	if (!exec_stream_lost(exec, CCHV_STDOUT))
		return CCHV_OK;
	return err_set(err, CCHV_ERR_SYSTEM, EPIPE, "%s '%s': the fd took no more", what, path);
}

/* Its output may be still on its way to a slow fd when its end is known. (What it says is short, or not waited for.) */
static int wait_for_output(struct exec *exec, uint64_t deadline, cchv_error **err)
{
	int r = CCHV_OK;

	while (r == CCHV_OK && exec->listed && exec->streams[CCHV_STDOUT].out && !exec_stream_lost(exec, CCHV_STDOUT))
		r = vm_serve(exec->vm, deadline, err);
	return r;
}

static int run_archive(struct container *container, const char *op, const char *path,
                       cchv_stdio_config *stdio, uint64_t max_bytes, int silence_ms, int said_fd,
                       uint64_t deadline, cchv_error **err)
{
	uint64_t silence = silence_ms ? clock_deadline(silence_ms) : 0;
	uint64_t start = silence ? earlier(silence, deadline) : deadline;
	struct json *archive = json_new_object();
	struct exec *exec = NULL;
	uint64_t number = 0;
	char id[32];
	int r;

	json_set_string(archive, "op", op);
	json_set_string(archive, "path", path);
	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
		json_free(archive);
		return err_set(err, CCHV_ERR_SYSTEM, errno, "getrandom");
	}
	snprintf(id, sizeof(id), "copy-%016llx", (unsigned long long)number);
	r = vm_need_agent(container->vm, start, err);
	if (r == CCHV_OK)
		r = exec_new(container, id, &exec, err);
	if (r < 0) {
		json_free(archive);
		return r;
	}
	exec->is_quiet = 1;
	exec->max_output = max_bytes;
	exec_ref(exec);
	r = exec_start(exec, NULL, archive, stdio, start, err);
	if (r == CCHV_OK)
		r = wait_for_end(exec, &silence, deadline, err);
	if (r == CCHV_OK)
		r = wait_for_output(exec, deadline, err);
	if (r == CCHV_OK)
		r = check_length(exec, op, path, err);
	if (r == CCHV_OK)
		r = judge(exec, op, path, said_fd, err);
	if (r == CCHV_OK)
		r = check_lost(exec, op, path, err);
	if (exec->listed && exec->phase == EXEC_ENDED && !exec->gone) {
		guest_call(exec->vm, "exec.delete", exec_params(exec), clock_deadline(UNDO_MS), NULL, NULL);
		exec_unlist(exec);
	} else if (exec->listed) {
		exec->abandoned = 1;
	}
	exec_release(exec);
	return r;
}

static int copy(cchv_container *handle, const char *what, const char *op, const char *path, int stream,
                int fd, uint64_t max_bytes, int silence_ms, int timeout_ms, cchv_error **err)
{
	cleanup_stdio_config cchv_stdio_config *stdio = NULL;
	cleanup_close int said_fd = -1, say_fd = -1;
	uint64_t deadline = clock_deadline(timeout_ms);
	int said[2], r;

	err_clear(err);
	if (!path || path[0] != '/' || fd < 0)
		return err_set(err, CCHV_ERR_INVALID, 0, "%s: wrong argument", what);
	/* A pipe holds as much of its words as anybody reads. */
	if (pipe2(said, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: pipe", what);
	said_fd = said[0];
	say_fd = said[1];
	r = cchv_stdio_config_new(&stdio);
	if (r == CCHV_OK)
		r = cchv_stdio_config_set_fd(stdio, CCHV_STDERR, say_fd);
	if (r == CCHV_OK)
		r = cchv_stdio_config_set_fd(stdio, stream, fd);
	if (r < 0)
		return err_set(err, r, r == CCHV_ERR_SYSTEM ? errno : 0, "%s: fd %d", what, fd);
	r = stdio_config_check(stdio, 0, err);
	if (r < 0)
		return r;
	r = container_enter(handle, what, err);
	if (r < 0)
		return r;
	if (!handle->container->in_guest)
		r = err_set(err, CCHV_ERR_STATE, 0, "container '%s': its VM has not booted",
		            handle->container->id);
	if (r == CCHV_OK)
		r = run_archive(handle->container, op, path, stdio, max_bytes, silence_ms, said_fd, deadline, err);
	vm_leave(handle->vm);
	return r;
}

CCHV_API int cchv_container_copy_out(cchv_container *container, const char *path, int fd, uint64_t max_bytes,
                                     int timeout_ms, cchv_error **err)
{
	return copy(container, "container_copy_out", "read", path, CCHV_STDOUT, fd, max_bytes, 0, timeout_ms, err);
}

CCHV_API int cchv_container_copy_changes(cchv_container *container, int fd, uint64_t max_bytes, int timeout_ms,
                                         cchv_error **err)
{
	return copy(container, "container_copy_changes", "changes", "/", CCHV_STDOUT, fd, max_bytes, SILENCE_MS,
	            timeout_ms, err);
}

CCHV_API int cchv_container_copy_in(cchv_container *container, const char *directory, int fd, int timeout_ms,
                                    cchv_error **err)
{
	return copy(container, "container_copy_in", "write", directory, CCHV_STDIN, fd, 0, 0, timeout_ms, err);
}
