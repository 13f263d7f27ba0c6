/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "examples/shim/chain.h"

#include <cchv/error.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static char *path_in(const char *name)
{
	char *path;

	CHECK(asprintf(&path, "%s/%s", test_dir(), name) > 0);
	return path;
}

static void make_dir(const char *name)
{
	char *path = path_in(name);

	CHECK_INT(mkdir(path, 0755), 0);
	free(path);
}

static void write_file(const char *name, const char *text)
{
	char *path = path_in(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK_INT(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	free(path);
}

static char *key_of(const char *first, const char *second)
{
	struct layer_list layers = { 0 };
	char *a = path_in(first), *b = path_in(second), *key = NULL, *error = NULL;

	CHECK_INT(layer_list_add(&layers, a), CCHV_OK);
	CHECK_INT(layer_list_add(&layers, b), CCHV_OK);
	CHECK_INT(chain_key(&layers, &key, &error), CCHV_OK);
	layer_list_clear(&layers);
	free(a);
	free(b);
	return key;
}

/* Frees both. */
static int same(char *a, char *b)
{
	int r = strcmp(a, b) == 0;

	free(a);
	free(b);
	return r;
}

TEST(a_key_is_the_same_until_something_is_another)
{
	char *top;

	make_dir("top");
	make_dir("bottom");
	write_file("bottom/f", "x");
	CHECK(same(key_of("top", "bottom"), key_of("top", "bottom")));
	CHECK(!same(key_of("top", "bottom"), key_of("bottom", "top")));
	/* An entry of the top layer. */
	top = key_of("top", "bottom");
	write_file("top/g", "");
	CHECK(!same(top, key_of("top", "bottom")));
}

static void wait_for_tick(void)
{
	struct timespec before, now;

	clock_gettime(CLOCK_REALTIME_COARSE, &before);
	do
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	while (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec);
}

TEST(a_directory_made_anew_is_another_one)
{
	char *before, *path = path_in("bottom");

	make_dir("top");
	make_dir("bottom");
	before = key_of("top", "bottom");
	CHECK_INT(rmdir(path), 0);
	/* Many file systems give the same inode number again, which is the point. The clock of birth times has ticks:
	   two births within one of them are not told apart where there is no generation. */
	wait_for_tick();
	make_dir("bottom");
	CHECK(!same(before, key_of("top", "bottom")));
	free(path);
}

TEST(a_missing_layer_is_named)
{
	struct layer_list layers = { 0 };
	char *key = NULL, *error = NULL;

	CHECK_INT(layer_list_add(&layers, "/nonexistent/layer"), CCHV_OK);
	CHECK_INT(chain_key(&layers, &key, &error), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(error, "'/nonexistent/layer'");
	layer_list_clear(&layers);
	free(error);
}

TEST(what_was_stored_is_found_by_the_whole_key_alone)
{
	char *digest = NULL, *error = NULL;
	char command[400];

	CHECK_INT(chain_find(test_dir(), "key\n", &digest, &error), 0);
	CHECK_INT(chain_store(test_dir(), "key\n", "sha256:ab", &error), CCHV_OK);
	CHECK_INT(chain_find(test_dir(), "key\n", &digest, &error), 1);
	CHECK_STR(digest, "sha256:ab");
	CHECK_INT(chain_find(test_dir(), "key", &digest, &error), 0);
	CHECK_INT(chain_store(test_dir(), "key\n", "sha256:cd", &error), CCHV_OK);
	free(digest);
	CHECK_INT(chain_find(test_dir(), "key\n", &digest, &error), 1);
	CHECK_STR(digest, "sha256:cd");
	free(digest);
	/* As if another key had the same hash; then as if it had been cut short. */
	snprintf(command, sizeof(command), "cd '%s'/shim/chains && for f in *; do printf 'sha256:ab\\nother' >$f; done",
		 test_dir());
	CHECK_INT(system(command), 0);
	CHECK_INT(chain_find(test_dir(), "key\n", &digest, &error), 0);
	snprintf(command, sizeof(command), "cd '%s'/shim/chains && for f in *; do : >$f; done", test_dir());
	CHECK_INT(system(command), 0);
	CHECK_INT(chain_find(test_dir(), "key\n", &digest, &error), 0);
}

TEST(one_builder_at_a_time)
{
	int lock, fds[2];
	char byte, *error = NULL;
	struct pollfd p;
	pid_t pid;

	CHECK_INT(chain_lock(test_dir(), "k", &lock, &error), CCHV_OK);
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		int second;

		/* The lock goes with the last copy of the descriptor. */
		close(lock);
		_exit(write(fds[1], "b", 1) != 1 || chain_lock(test_dir(), "k", &second, NULL) != CCHV_OK ||
		      write(fds[1], "l", 1) != 1);
	}
	CHECK_INT(read(fds[0], &byte, 1), 1);
	p = (struct pollfd){ fds[0], POLLIN, 0 };
	CHECK_INT(poll(&p, 1, 200), 0);
	close(lock);
	CHECK_INT(read(fds[0], &byte, 1), 1);
	CHECK_INT(byte, 'l');
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	close(fds[0]);
	close(fds[1]);
}

TEST(equal_contents_have_equal_keys)
{
	char *a = path_in("a"), *b = path_in("b"), *ka = NULL, *kb = NULL, *error = NULL, *link = path_in("b/l");

	make_dir("a");
	make_dir("a/etc");
	write_file("a/etc/hosts", "");
	write_file("a/.dockerenv", "");
	make_dir("b");
	write_file("b/.dockerenv", "");
	make_dir("b/etc");
	write_file("b/etc/hosts", "");
	CHECK_INT(chain_key_of_contents(a, &ka, &error), CCHV_OK);
	CHECK_INT(chain_key_of_contents(b, &kb, &error), CCHV_OK);
	CHECK_STR(ka, kb);
	free(kb);
	write_file("b/etc/hosts", "x");
	CHECK_INT(chain_key_of_contents(b, &kb, &error), CCHV_OK);
	CHECK(strcmp(ka, kb) != 0);
	free(kb);
	write_file("b/etc/hosts", "");
	CHECK_INT(symlink("/proc/mounts", link), 0);
	CHECK_INT(chain_key_of_contents(b, &kb, &error), CCHV_OK);
	CHECK(strcmp(ka, kb) != 0);
	free(kb);
	free(ka);
	for (int i = 0; i < 70; i++) {
		char name[20];

		snprintf(name, sizeof(name), "a/%d", i);
		write_file(name, "");
	}
	CHECK_INT(chain_key_of_contents(a, &ka, &error), CCHV_ERR_LIMIT);
	free(a);
	free(b);
	free(link);
	free(error);
}
