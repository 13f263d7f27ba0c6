/* SPDX-License-Identifier: Apache-2.0 */
/* template build|ls|rm. Enters: keys. Leaves: templates in the state directory, or a list of them. */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commands.h"
#include "document.h"
#include "launch.h"
#include "table.h"

/* At idle priority a busy machine leaves little. */
#define IDLE_BUILD_MS 1800000

/* Into the background, where it takes nothing from others. 1: this is the process that goes on there. */
static int detach(void)
{
	const struct sched_param none = { 0 };
	int null_fd;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid < 0 ? fail("template: fork: %m") : 0;
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd <= 2; fd++)
		if (null_fd < 0 || dup2(null_fd, fd) < 0)
			_exit(EXIT_OURS);
	setsid();
	/* As far as this machine allows it: a build at full speed is a build, too. */
	setpriority(PRIO_PROCESS, 0, 19);
	sched_setscheduler(0, SCHED_IDLE, &none);
	return 1;
}

static int template_build(int argc, char **argv)
{
	int detached = argc == 2 && strcmp(argv[1], "--detach") == 0, r = 0;
	cchv_error *err = NULL;
	char *key = NULL;
	cchv_ctx *ctx;

	if (argc != 1 && !detached)
		return usage_error("template", "build: unknown argument '%s'", argv[1]);
	if (detached) {
		r = detach();
		if (r != 1)
			return r;
		r = 0;
	}
	ctx = open_context();
	if (cchv_template_build(ctx, NULL, detached ? IDLE_BUILD_MS : BOOT_MS, &key, &err) < 0)
		r = fail_error(err, "template");
	else
		puts(key);
	cchv_free(key);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}

static void list_one(cchv_ctx *ctx, const char *key, int json, struct table *t)
{
	char *text = NULL;
	yajl_val info;

	/* Removed by another process since it was listed, or damaged: no VM would start from it. */
	if (cchv_template_get_info_json(ctx, key, &text, NULL) < 0)
		return;
	info = document_parse(text);
	if (json) {
		yajl_gen g = document_new(0);

		put_tree(g, NULL, info);
		document_print(g, stdout);
	} else {
		const char *kernel = document_string(info, "kernel");

		table_add_owned(t, xprintf("%.12s", key));
		table_add_owned(t, format_ago(document_u64(info, "created_ns", 0)));
		table_add_owned(t, format_size(document_u64(info, "memory_used_bytes", 0)));
		table_add(t, kernel ? kernel : "");
	}
	yajl_tree_free(info);
	cchv_free(text);
}

static int template_ls(int argc, char **argv)
{
	static const char *const headings[] = { "KEY", "CREATED", "MEMORY", "KERNEL", NULL };
	struct table *t = table_new(headings);
	cchv_list *keys = NULL;
	cchv_error *err = NULL;
	cchv_ctx *ctx;
	int json = 0, r = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--format") == 0 && i + 1 < argc)
			json = format_is_json("template", argv[++i]);
		else if (strncmp(argv[i], "--format=", 9) == 0)
			json = format_is_json("template", argv[i] + 9);
		else
			json = usage_error("template", "ls: unknown argument '%s'", argv[i]) ? -1 : 0;
		if (json < 0)
			return EXIT_OURS;
	}
	ctx = open_context();
	if (cchv_template_list(ctx, &keys, &err) < 0) {
		r = fail_error(err, "list the templates");
	} else {
		for (int i = 0; i < cchv_list_get_count(keys); i++)
			list_one(ctx, cchv_list_get(keys, i), json, t);
		if (!json)
			table_print_and_free(t);
	}
	cchv_list_free(keys);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}

/* The one key that begins with the words given; the words themselves where it is none or not the only one. */
static const char *find_key(cchv_list *keys, const char *start)
{
	const char *found = NULL;

	for (int i = 0; i < cchv_list_get_count(keys); i++) {
		const char *key = cchv_list_get(keys, i);

		if (*start && strncmp(key, start, strlen(start)) == 0) {
			if (found)
				return start;
			found = key;
		}
	}
	return found ? found : start;
}

static int template_rm(int argc, char **argv)
{
	int all = argc == 2 && strcmp(argv[1], "--all") == 0, r = 0;
	cchv_list *keys = NULL;
	cchv_error *err = NULL;
	cchv_ctx *ctx;

	if (argc < 2)
		return usage_error("template", "rm needs a key, the start of one, or --all");
	ctx = open_context();
	if (cchv_template_list(ctx, &keys, &err) < 0)
		r = fail_error(err, "list the templates") ? 1 : 0;
	for (int i = 0; r == 0 && i < (all ? cchv_list_get_count(keys) : argc - 1); i++) {
		const char *key = all ? cchv_list_get(keys, i) : find_key(keys, argv[i + 1]);

		if (cchv_template_remove(ctx, key, &err) < 0)
			r = fail_error(err, "template rm") ? 1 : 0;
		else
			puts(key);
	}
	cchv_list_free(keys);
	cchv_ctx_free(ctx);
	return r;
}

int cmd_template(int argc, char **argv)
{
	if (argc < 2)
		return usage_error("template", "build, ls or rm?");
	if (strcmp(argv[1], "build") == 0)
		return template_build(argc - 1, argv + 1);
	if (strcmp(argv[1], "ls") == 0 || strcmp(argv[1], "list") == 0)
		return template_ls(argc - 1, argv + 1);
	if (strcmp(argv[1], "rm") == 0)
		return template_rm(argc - 1, argv + 1);
	return usage_error("template", "no command 'template %s'", argv[1]);
}
