/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program at work for an import: mkfs.erofs, a decompressor, skopeo. It dies with us, and when the import is
 * cancelled; what it says on stderr becomes the error. One that shows no sign of life for half an hour is stuck.
 */
#ifndef IMAGE_TOOL_H
#define IMAGE_TOOL_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "image/progress.h"

struct tool {
	const char *name;       /* lent, for messages */
	pid_t pid;              /* 0: ended and reaped */
	int pidfd;
	int out_fd;             /* its stdout, or -1 */
	int err_fd;
	struct buf said;        /* the end of its stderr */
};

struct tool_spec {
	const char *name;           /* looked for in PATH; lent until the tool is freed */
	const char *needed_for;     /* for the message when it is not there */
	const char *const *argv;    /* from argv[1] on; NULL-ended */
	const char *cwd;            /* or NULL */
	int stdin_fd;               /* -1: /dev/null */
	int want_stdout;
};

/*
 * Sign of life: called ten times a second while the tool runs; returns a number that grows with its work, or
 * TOOL_TOO_MUCH to have it killed.
 */
#define TOOL_TOO_MUCH UINT64_MAX
typedef uint64_t (*tool_watch_fn)(void *user_data);

int tool_start(struct tool *tool, const struct tool_spec *spec, cchv_error **err);
/* Bytes of its stdout; 0 at the end. Negative: CCHV_ERR_*. */
ssize_t tool_read(struct tool *tool, void *data, size_t len, cchv_progress *progress, cchv_error **err);
/* Wait for its end; anything but code 0 is an error that carries its last line. watch may be NULL. */
int tool_wait(struct tool *tool, cchv_progress *progress, tool_watch_fn watch, void *user_data, cchv_error **err);
/* All at once. out may be NULL (then spec->want_stdout is 0). */
int tool_run(const struct tool_spec *spec, struct buf *out, cchv_progress *progress, tool_watch_fn watch,
             void *user_data, cchv_error **err);
void tool_free(struct tool *tool); /* kills it when it runs; a zeroed struct is fine */

#define cleanup_tool __attribute__((cleanup(tool_free)))

#endif
