/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delete: clean up after a container, as the daemon asks after every one of them. Nearly always there is
 * nothing left: the server took its state file away when it deleted the task. Where there is one, the
 * server's program does the work.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bundle.h"
#include "delete_reply.h"
#include "front.h"

static int hand_over(char **argv)
{
	char path[PATH_MAX];

	if (front_server_path(path, sizeof(path)) < 0)
		return front_fail("the server's program is missing: %s", path);
	argv[0] = path;
	execv(path, argv);
	return front_fail("run %s: %s", path, strerror(errno));
}

int cmd_delete(const struct flags *flags, int argc, char **argv)
{
	struct exit_note note = { 0 };
	struct wire out = { 0 };
	int r;

	if (flags->bundle && *flags->bundle && chdir(flags->bundle) < 0 && errno != ENOENT)
		return front_fail("bundle '%s': %s", flags->bundle, strerror(errno));
	if (access(BUNDLE_STATE, F_OK) == 0)
		return hand_over(argv);
	if (!bundle_read_exit(".", &note))
		note = delete_reply_killed(0);
	delete_reply_put(&out, &note);
	r = front_write_stdout(&out) < 0 ? front_fail("standard output: %s", strerror(errno)) : 0;
	wire_free(&out);
	return r;
}
