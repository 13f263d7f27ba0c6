/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/path.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char *in_dir(const char *name)
{
	char *path = mem_printf("%s/%s", test_dir(), name);

	CHECK(path);
	return path;
}

TEST(atomic_write_replaces_and_leaves_no_scrap)
{
	cleanup_free char *path = in_dir("f"), *other = in_dir("nodir/f");
	struct buf b = BUF_INIT(100);
	cchv_error *err = NULL;

	CHECK_INT(path_write_atomic(path, "one", 3, 0600, NULL), 0);
	CHECK_INT(path_write_atomic(path, "two!", 4, 0640, NULL), 0);
	CHECK_INT(path_read_file(path, &b, NULL), 0);
	CHECK_STR(buf_string(&b), "two!");
	CHECK_INT(path_write_atomic(other, "x", 1, 0600, &err), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(cchv_error_message(err), "nodir");
	cchv_error_free(err);
	buf_free(&b);
	CHECK_INT(remove(path), 0);
	CHECK_INT(rmdir(test_dir()), 0);
	CHECK_INT(mkdir(test_dir(), 0700), 0);
}

TEST(a_file_over_the_limit_is_named)
{
	cleanup_free char *path = in_dir("big");
	struct buf exact = BUF_INIT(5), small = BUF_INIT(4);
	cchv_error *err = NULL;

	CHECK_INT(path_write_atomic(path, "12345", 5, 0600, NULL), 0);
	CHECK_INT(path_read_file(path, &exact, NULL), 0);
	CHECK_INT(path_read_file(path, &small, &err), CCHV_ERR_LIMIT);
	CHECK_CONTAINS(cchv_error_message(err), path);
	cchv_error_free(err);
	buf_free(&exact);
	buf_free(&small);
}

TEST(remove_does_not_follow_links)
{
	cleanup_free char *keep = in_dir("keep"), *tree = in_dir("tree"), *sub = in_dir("tree/a/b"),
	                  *link = in_dir("tree/a/link"), *kept = in_dir("keep/file");

	CHECK_INT(path_make_dirs(keep, 0755, NULL), 0);
	CHECK_INT(path_write_atomic(kept, "x", 1, 0600, NULL), 0);
	CHECK_INT(path_make_dirs(sub, 0755, NULL), 0);
	CHECK_INT(symlink(keep, link), 0);
	CHECK_INT(path_remove_tree(tree, NULL), 0);
	CHECK(access(tree, F_OK) < 0);
	CHECK_INT(access(kept, F_OK), 0);
	CHECK_INT(path_remove_tree(tree, NULL), 0);
}

/* Deeper than any path can name, with few descriptors; names like those that are used on the way are in it. */
TEST(remove_tree_at_any_depth)
{
	cleanup_free char *tree = in_dir("deep"), *kept = in_dir("deep-not");
	struct rlimit few = { 32, 32 };
	int fd = open(test_dir(), O_RDONLY | O_DIRECTORY);

	CHECK_INT(path_make_dirs(kept, 0755, NULL), 0);
	CHECK_INT(mkdirat(fd, "deep", 0755), 0);
	for (int i = 0; i < 5000; i++) {
		int next = openat(fd, i ? "d" : "deep", O_RDONLY | O_DIRECTORY);

		CHECK(next >= 0);
		CHECK_INT(mkdirat(next, "d", 0755), 0);
		CHECK_INT(mkdirat(next, ".removed-1", 0755), 0);
		CHECK_INT(symlinkat(kept, next, "link"), 0);
		close(fd);
		fd = next;
	}
	close(fd);
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
	CHECK_INT(path_remove_tree(tree, NULL), 0);
	CHECK(access(tree, F_OK) < 0);
	CHECK_INT(access(kept, F_OK), 0);
}

TEST(make_dirs_refuses_a_file_in_the_way)
{
	cleanup_free char *file = in_dir("f"), *below = in_dir("f/g");
	cchv_error *err = NULL;

	CHECK_INT(path_write_atomic(file, "", 0, 0600, NULL), 0);
	CHECK(path_make_dirs(below, 0755, &err) < 0);
	CHECK(err);
	cchv_error_free(err);
	CHECK(path_make_dirs(file, 0755, NULL) < 0);
}

TEST(programs_are_found_on_path_only)
{
	cleanup_free char *tool = in_dir("tool"), *found = NULL;

	CHECK_INT(path_write_atomic(tool, "#!/bin/sh\n", 10, 0755, NULL), 0);
	CHECK_INT(setenv("PATH", ":/nonexistent", 1), 0);
	CHECK_INT(chdir(test_dir()), 0);
	CHECK_INT(path_find_program("tool", &found, NULL), CCHV_ERR_NOT_FOUND);
	CHECK_INT(setenv("PATH", test_dir(), 1), 0);
	CHECK_INT(path_find_program("tool", &found, NULL), 0);
	CHECK_STR(found, tool);
	CHECK_INT(path_find_program(test_dir(), &found, NULL), CCHV_ERR_NOT_FOUND);
}

TEST(names)
{
	static const char *const good[] = { "a", "A9", "web-1_x.y", "0" };
	static const char *const bad[] = { "", ".", "..", "-a", "a/b", "a b", "a\n", "\xc3\xbc", "_x", "123456789" };

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		CHECK_INT(path_name_is_valid(good[i], 64), 1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(path_name_is_valid(bad[i], 8), 0);
}
