/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/fd.h"
#include "guest/passwd.h"

#include <fcntl.h>
#include <sys/stat.h>

static int root;

static void write_file(const char *name, const char *text)
{
	int fd = openat(root, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_INT(write(fd, text, strlen(text)), (long long)strlen(text));
	close(fd);
}

static void make_root(const char *passwd, const char *group)
{
	root = open(test_dir(), O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(root >= 0);
	CHECK_INT(mkdirat(root, "etc", 0755), 0);
	if (passwd)
		write_file("etc/passwd", passwd);
	if (group)
		write_file("etc/group", group);
}

static void check_user(const char *text, uint32_t uid, uint32_t gid, const char *home, size_t groups)
{
	struct passwd_user user = { 0 };
	cleanup_err cchv_error *err = NULL;

	if (passwd_lookup(root, text, &user, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, cchv_error_message(err));
	CHECK_INT(user.uid, uid);
	CHECK_INT(user.gid, gid);
	if (home)
		CHECK_STR(user.home, home);
	else
		CHECK(!user.home);
	CHECK_INT(user.group_count, groups);
	passwd_user_free(&user);
}

static void check_error(const char *text, int code, const char *part)
{
	struct passwd_user user = { 0 };
	cleanup_err cchv_error *err = NULL;

	CHECK_INT(passwd_lookup(root, text, &user, &err), code);
	CHECK_CONTAINS(cchv_error_message(err), part);
}

#define PASSWD \
	"root:x:0:0:root:/root:/bin/sh\ngames:x:5:60:games:/usr/games:/usr/sbin/nologin\n12:x:77:78::/twelve:\n"
#define GROUP "root:x:0:\ntty:x:5:root,games\ngames:x:60:\naudio:x:29:x,games,y\nvideo:x:44:gamesx\n"

TEST(names_and_numbers)
{
	make_root(PASSWD, GROUP);
	check_user("root", 0, 0, "/root", 1);
	check_user("games", 5, 60, "/usr/games", 2);
	check_user("5", 5, 60, "/usr/games", 2);
	check_user("games:tty", 5, 5, "/usr/games", 0);
	check_user("games:44", 5, 44, "/usr/games", 0);
	check_user("1000", 1000, 0, NULL, 0);
	check_user("1000:1001", 1000, 1001, NULL, 0);
	check_user("12", 77, 78, "/twelve", 0);
	close(root);
}

TEST(unknown_and_malformed)
{
	make_root(PASSWD, GROUP);
	check_error("nosuch", CCHV_ERR_NOT_FOUND, "no user 'nosuch'");
	check_error("games:nosuch", CCHV_ERR_NOT_FOUND, "no group 'nosuch'");
	check_error("", CCHV_ERR_INVALID, "USER[:GROUP]");
	check_error(":tty", CCHV_ERR_INVALID, "USER[:GROUP]");
	check_error("games:", CCHV_ERR_INVALID, "USER[:GROUP]");
	check_error("a:b:c", CCHV_ERR_INVALID, "USER[:GROUP]");
	check_error("-1", CCHV_ERR_NOT_FOUND, "-1");
	check_error("4294967295", CCHV_ERR_NOT_FOUND, "4294967295");
	check_error("99999999999", CCHV_ERR_NOT_FOUND, "99999999999");
	close(root);
}

TEST(broken_lines_are_passed_over)
{
	make_root("\n:::\nx\ngames:x:abc:1::/no:\ngames:x:-5:1::/no:\ngames:x:5\n#c\ngames:x:6:7:g:relative\n"
	          "last:x:9:10::/l",
	          "g:x:\ng\ng:x:y:\ng:x:11");
	check_user("games", 6, 7, NULL, 0);
	check_user("last", 9, 10, "/l", 0);
	check_user("last:g", 9, 11, "/l", 0);
	close(root);
}

TEST(long_lines)
{
	size_t len = 200000;
	char *text = malloc(len + 200);
	char *p = text;

	memset(p, 'a', len);
	p += len;
	p += sprintf(p, "games:x:1:1::/wrong:\nfill:x:2:2:");
	memset(p - 200000, 'a', 1); /* the first line is one name of 200,000 bytes */
	sprintf(p, "short:/fill:/bin/sh\ngames:x:5:60::/right:/bin/sh");
	make_root(text, NULL);
	check_user("games", 5, 60, "/right", 0);
	check_user("fill", 2, 2, "/fill", 0);
	memset(text, 'b', 10000);
	sprintf(text + 10000, ":x:4:4::/b:\n");
	write_file("etc/passwd", text);
	text[10000] = '\0';
	check_user(text, 4, 4, "/b", 0);
	free(text);
	close(root);
}

TEST(links_stay_inside)
{
	make_root(NULL, NULL);
	check_user("7", 7, 0, NULL, 0);
	check_error("root", CCHV_ERR_NOT_FOUND, "root");
	CHECK_INT(mkdirat(root, "real", 0755), 0);
	write_file("real/passwd", "games:x:5:60::/g:");
	CHECK_INT(symlinkat("/real/passwd", root, "etc/passwd"), 0);
	check_user("games", 5, 60, "/g", 0);
	/* The host's file is not the image's. */
	CHECK_INT(unlinkat(root, "etc/passwd", 0), 0);
	CHECK_INT(symlinkat("../../../../../../etc/passwd", root, "etc/passwd"), 0);
	check_error("root", CCHV_ERR_NOT_FOUND, "root");
	CHECK_INT(unlinkat(root, "etc/passwd", 0), 0);
	CHECK_INT(mkfifoat(root, "etc/passwd", 0600), 0);
	check_error("root", CCHV_ERR_NOT_FOUND, "root");
	CHECK_INT(unlinkat(root, "etc/passwd", 0), 0);
	CHECK_INT(symlinkat("passwd", root, "etc/passwd"), 0);
	check_error("root", CCHV_ERR_NOT_FOUND, "root");
	close(root);
}

TEST(home_of_a_uid)
{
	cleanup_free char *home = NULL;

	make_root(PASSWD, GROUP);
	CHECK_INT(passwd_home(root, 5, &home, NULL), 0);
	CHECK_STR(home, "/usr/games");
	free(steal(&home));
	CHECK_INT(passwd_home(root, 4242, &home, NULL), 0);
	CHECK(!home);
	close(root);
}

TEST(out_of_memory)
{
	make_root(PASSWD, GROUP);
	for (uint64_t n = 1; n < 200; n++) {
		struct passwd_user user = { 0 };
		int r;

		mem_fail_from(n);
		r = passwd_lookup(root, "games", &user, NULL);
		mem_fail_from(0);
		passwd_user_free(&user);
		if (r == CCHV_OK) {
			close(root);
			CHECK(n > 3);
			return;
		}
	}
	CHECK(!"always out of memory");
}
