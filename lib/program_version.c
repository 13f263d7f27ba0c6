/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says about its version: see program_version.h. Enters: its output. Leaves: one line. */
#include "program_version.h"

#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/proc.h"

#define PATIENCE_MS 10000

int program_version(const char *program, const char *flag, char **ret_line, cchv_error **err)
{
	cleanup_buf struct buf out = BUF_INIT(1024), errors = BUF_INIT(1024);
	const char *const argv[] = { program, flag, NULL };
	struct proc_spawn spawn = { .argv = argv };
	const char *text;
	char *line;
	size_t len;
	int status, r;

	r = proc_run(&spawn, &out, &errors, clock_deadline(PATIENCE_MS), &status, err);
	if (r < 0)
		return r;
	text = buf_string(out.len ? &out : &errors);
	if (!text)
		return err_nomem(err);
	len = strcspn(text, "\r\n");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, CCHV_ERR_SYSTEM, 0, "'%s %s' fails: %.*s", program, flag, (int)len, text);
	if (len == 0)
		return err_set(err, CCHV_ERR_SYSTEM, 0, "'%s %s' says nothing", program, flag);
	line = mem_strndup(text, len);
	if (!line)
		return err_nomem(err);
	*ret_line = line;
	return CCHV_OK;
}
