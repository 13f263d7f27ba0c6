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

static void check_content(const char *name, const char *expected)
{
	char path[600], value[40] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
	f = fopen(path, "re");
	CHECK(f && fgets(value, sizeof(value), f));
	CHECK_STR(value, expected);
	fclose(f);
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
	check_content("a/b/c/memory.max", "123456789");
	snprintf(text, sizeof(text), "%s/a/b/c/memory.max", test_dir());
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

static void check_usual(const char *self, const char *expected)
{
	struct cgroup g;
	char text[600];

	CHECK_INT(cgroup_plan_usual(test_dir(), self, "id", &g, NULL), 0);
	CHECK(g.usual);
	CHECK_INT(g.count, expected ? 1 : 0);
	snprintf(text, sizeof(text), "%s%s", test_dir(), expected ? expected : "");
	if (expected)
		CHECK_STR(g.dirs[0], text);
	cgroup_free(&g);
}

TEST(the_usual_one_on_v1)
{
	check_usual("4:memory:/a/b\n", NULL);
	make("memory");
	make("cpu");
	make("memory/a");
	make("memory/a/b");
	check_usual("9:name=systemd:/x\n4:memory:/a/b\n1:cpu:/y\n0::/z\n", "/memory/a/b/cchv-id");
	check_usual("4:memory:/a/b", "/memory/a/b/cchv-id");
	check_usual("4:memory:/\n0::/\n", "/memory/cchv-id");
	check_usual("4:memory:/", "/memory/cchv-id");
	/* What is mounted there begins elsewhere; no such line at all; something that only looks like it. */
	check_usual("4:memory:/docker/123\n", "/memory/cchv-id");
	check_usual("", "/memory/cchv-id");
	check_usual("4:hugetlb,memory:/a\n", "/memory/a/cchv-id");
	check_usual("4:memory2:/a\n5:x:/memory:/a\n", "/memory/cchv-id");
}

TEST(the_usual_one_on_v2)
{
	put("cgroup.controllers", "memory");
	make("a");
	/* Not below our own: a cgroup with processes cannot pass the limit down. */
	check_usual("0::/a\n", "/cchv-id");
}

TEST(adopted)
{
	struct json *made = json_new_array();
	struct cgroup g;

	put("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
	put("memory.limit_in_bytes", "");
	json_append(made, json_new_string(test_dir()));
	CHECK_INT(cgroup_adopt(test_dir(), made, &g, NULL), 0);
	CHECK_INT(json_count(g.made), 1);
	/* Kills before its time are not its news. */
	CHECK_INT(cgroup_had_oom(&g), 0);
	put("memory.oom_control", "oom_kill 2\n");
	CHECK_INT(cgroup_had_oom(&g), 1);
	cgroup_set_limit(&g, 4096, NULL);
	check_content("memory.limit_in_bytes", "4096");
	cgroup_free(&g);
	CHECK_INT(cgroup_adopt(NULL, NULL, &g, NULL), 0);
	CHECK_INT(g.count, 0);
	cgroup_free(&g);
	json_free(made);
}
