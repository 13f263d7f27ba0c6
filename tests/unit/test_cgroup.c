/* SPDX-License-Identifier: Apache-2.0 */
/* On directories that look like the two kinds of trees: what is made, written, read and removed. */
#include "cgroup.h"

#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>

static void put(const char *name, const char *text)
{
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void make(const char *name)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
	CHECK_INT(mkdir(path, 0700), 0);
}

static int there(const char *name)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
	return access(path, F_OK) == 0;
}

TEST(the_v2_tree)
{
	struct log_sink log = LOG_SINK_INIT;
	struct cgroup g;
	char text[600];

	put("cgroup.controllers", "memory pids");
	make("a");
	CHECK_INT(cgroup_plan(test_dir(), "/a/b/c", &g, NULL), 0);
	CHECK_INT(g.count, 1);
	CHECK_INT(json_count(g.made), 2);
	snprintf(text, sizeof(text), "%s/a/b", test_dir());
	CHECK_STR(json_as_string(json_at(g.made, 0)), text);
	CHECK(!there("a/b"));
	make("a/b");
	make("a/b/c");
	put("a/b/c/memory.max", "");
	put("a/b/c/memory.events", "low 0\noom 3\noom_kill 2\n");
	put("a/b/c/cgroup.procs", "");
	cgroup_make(&g, 123456789, &log);
	CHECK(g.procs_fds[0] >= 0);
	CHECK_INT(cgroup_had_oom(&g), 0);
	put("a/b/c/memory.events", "low 0\noom 4\noom_kill 3\n");
	CHECK_INT(cgroup_had_oom(&g), 1);
	snprintf(text, sizeof(text), "%s/a/b/c/memory.max", test_dir());
	{
		FILE *f = fopen(text, "re");
		char value[40] = "";

		CHECK(f && fgets(value, sizeof(value), f));
		CHECK_STR(value, "123456789");
		fclose(f);
	}
	unlink(text);
	for (size_t i = 0; i < 2; i++) {
		static const char *const files[] = { "memory.events", "cgroup.procs" };

		snprintf(text, sizeof(text), "%s/a/b/c/%s", test_dir(), files[i]);
		unlink(text);
	}
	CHECK_INT(cgroup_remove(g.made, NULL), 0);
	CHECK(!there("a/b") && there("a"));
	/* Removing twice is fine. */
	CHECK_INT(cgroup_remove(g.made, NULL), 0);
	cgroup_free(&g);
}

TEST(v1_controllers)
{
	struct cgroup g;

	make("memory");
	make("cpu");
	CHECK_INT(cgroup_plan(test_dir(), "/x", &g, NULL), 0);
	CHECK_INT(g.count, 2);
	CHECK_CONTAINS(g.dirs[0], "/memory/x");
	CHECK_CONTAINS(g.dirs[1], "/cpu/x");
	cgroup_free(&g);
}

TEST(a_directory_in_use_is_reported)
{
	cchv_error *err = NULL;
	struct cgroup g;

	put("cgroup.controllers", "");
	CHECK_INT(cgroup_plan(test_dir(), "/x", &g, NULL), 0);
	make("x");
	put("x/file", "");
	CHECK_INT(cgroup_remove(g.made, &err), CCHV_ERR_SYSTEM);
	CHECK_CONTAINS(cchv_error_message(err), "/x");
	cchv_error_free(err);
	cgroup_free(&g);
}
