/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: see argv.h. Enters: configuration and plans. Leaves: words for exec, JSON where QEMU takes it. */
#include "argv.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX (256u << 10)

void argv_init(struct argv *argv)
{
	memset(argv, 0, sizeof(*argv));
}

void argv_free(struct argv *argv)
{
	for (size_t i = 0; i < argv->count; i++)
		free(argv->words[i]);
	memset(argv, 0, sizeof(*argv));
}

static void add_taken(struct argv *argv, char *word)
{
	if (!word || argv->count == ARGV_WORDS) {
		argv->failed = 1;
		free(word);
		return;
	}
	argv->words[argv->count++] = word;
}

void argv_add(struct argv *argv, const char *word)
{
	add_taken(argv, mem_strdup(word));
}

void argv_printf(struct argv *argv, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_taken(argv, mem_vprintf(format, args));
	va_end(args);
}

static void add_json(struct argv *argv, const struct json *json)
{
	cleanup_buf struct buf text = BUF_INIT(WORD_MAX);

	if (json_print(json, 0, &text) < 0)
		argv->failed = 1;
	else
		add_taken(argv, buf_take_string(&text));
}

void argv_add_plan(struct argv *argv, const struct plan *plan)
{
	static const char *const options[] = {
		[STEP_OBJECT] = "-object",
		[STEP_CHARDEV] = "-chardev",
		[STEP_NETDEV] = "-netdev",
		[STEP_BLOCKDEV] = "-blockdev",
		[STEP_DEVICE] = "-device",
	};

	if (plan->failed)
		argv->failed = 1;
	for (size_t i = 0; i < plan->count; i++) {
		argv_add(argv, options[plan->steps[i].kind]);
		if (plan->steps[i].word)
			argv_add(argv, plan->steps[i].word);
		else
			add_json(argv, plan->steps[i].arguments);
	}
	for (size_t i = 0; i < plan->fd_count; i++) {
		if (argv->fd_count == FD_MAX_PASSED) {
			argv->failed = 1;
			return;
		}
		argv->fds[argv->fd_count++] = (struct proc_fd){ plan->fds[i].fd, atoi(plan->fds[i].name) };
	}
}

char *argv_text(const struct argv *argv)
{
	struct buf text = BUF_INIT(WORD_MAX * 4);

	for (size_t i = 0; i < argv->count; i++)
		if (buf_printf(&text, "%s%s", i ? " " : "", argv->words[i]) < 0)
			break;
	return buf_take_string(&text);
}
