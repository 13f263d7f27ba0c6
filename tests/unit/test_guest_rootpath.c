/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/fd.h"
#include "guest/rootpath.h"

#include <fcntl.h>
#include <sys/stat.h>

static int root;

static void make_root(void)
{
	root = open(test_dir(), O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(root >= 0);
}

static int exists(const char *path, mode_t type)
{
	struct stat st;

	return fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && (st.st_mode & S_IFMT) == type;
}

static void make_target(const char *path, int directory)
{
	int fd = rootpath_make_target(root, path, directory);

	if (fd < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
	close(fd);
}

TEST(targets_are_made)
{
	make_root();
	make_target("/a/b/c", 1);
	CHECK(exists("a/b/c", S_IFDIR));
	make_target("/a/f", 0);
	CHECK(exists("a/f", S_IFREG));
	make_target("a/f", 0);
	make_target("/", 1);
	make_target("//x//./y/../z/", 1);
	CHECK(exists("x/z", S_IFDIR));
	close(root);
}

TEST(dangling_links_get_their_target)
{
	make_root();
	CHECK_INT(mkdirat(root, "etc", 0755), 0);
	CHECK_INT(symlinkat("../run/systemd/resolve/stub.conf", root, "etc/resolv.conf"), 0);
	make_target("/etc/resolv.conf", 0);
	CHECK(exists("run/systemd/resolve/stub.conf", S_IFREG));
	CHECK(exists("etc/resolv.conf", S_IFLNK));
	CHECK_INT(symlinkat("/run/x/y", root, "etc/abs"), 0);
	make_target("/etc/abs", 0);
	CHECK(exists("run/x/y", S_IFREG));
	CHECK_INT(symlinkat("/system/etc", root, "etc2"), 0);
	make_target("/etc2/hosts", 0);
	CHECK(exists("system/etc/hosts", S_IFREG));
	CHECK_INT(symlinkat("usr/bin", root, "bin"), 0);
	make_target("/bin/deep/er", 1);
	CHECK(exists("usr/bin/deep/er", S_IFDIR));
	CHECK_INT(symlinkat("nowhere/d", root, "dir"), 0);
	make_target("/dir", 1);
	CHECK(exists("nowhere/d", S_IFDIR));
	close(root);
}

TEST(nothing_leads_out)
{
	char outside[] = "/tmp/rootpath-outside-XXXXXX";
	char path[128];
	struct stat st;

	CHECK(mkdtemp(outside));
	make_root();
	CHECK_INT(symlinkat(outside, root, "abs"), 0);
	snprintf(path, sizeof(path), "../../../../../../..%s", outside);
	CHECK_INT(symlinkat(path, root, "rel"), 0);
	make_target("/abs/file", 0);
	make_target("/rel/dir", 1);
	snprintf(path, sizeof(path), "/../../../..%s/direct", outside);
	make_target(path, 0);
	snprintf(path, sizeof(path), "%s/file", outside);
	CHECK_INT(stat(path, &st), -1);
	CHECK(exists(path + 1, S_IFREG));
	snprintf(path, sizeof(path), "%s/dir", outside);
	CHECK_INT(stat(path, &st), -1);
	snprintf(path, sizeof(path), "%s/direct", outside);
	CHECK_INT(stat(path, &st), -1);
	CHECK(exists(path + 1, S_IFREG));
	CHECK_INT(rmdir(outside), 0);
	close(root);
}

TEST(loops_and_lengths_are_errors)
{
	char name[300];

	make_root();
	CHECK_INT(symlinkat("b", root, "a"), 0);
	CHECK_INT(symlinkat("a", root, "b"), 0);
	CHECK_INT(rootpath_make_target(root, "/a/x", 0), -1);
	CHECK_INT(errno, ELOOP);
	CHECK_INT(rootpath_make_target(root, "/a", 1), -1);
	CHECK_INT(errno, ELOOP);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CHECK_INT(rootpath_make_target(root, name, 0), -1);
	CHECK_INT(errno, ENAMETOOLONG);
	name[255] = '\0';
	make_target(name, 0);
	CHECK_INT(rootpath_make_target(root, "/n/../", 0), -1);
	CHECK_INT(openat(root, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0, 1);
	CHECK_INT(rootpath_make_target(root, "/f/x", 0), -1);
	CHECK_INT(errno, ENOTDIR);
	close(root);
	for (int fd = 3; fd < 20; fd++)
		close(fd);
}

TEST(owner_and_mode_of_directories)
{
	struct stat st;
	int fd;

	if (geteuid() != 0)
		return;
	make_root();
	fd = rootpath_make_dirs(root, "/srv/no/such", 0755, 1000, 1001);
	CHECK(fd >= 0);
	CHECK_INT(fstat(fd, &st), 0);
	CHECK_INT(st.st_uid, 1000);
	CHECK_INT(st.st_gid, 1001);
	close(fd);
	close(root);
}

TEST(parent_and_name)
{
	char *name = NULL;
	int fd;

	make_root();
	CHECK_INT(symlinkat("/c/d", root, "link"), 0);
	fd = rootpath_parent(root, "/link", &name);
	CHECK(fd >= 0);
	CHECK_STR(name, "d");
	CHECK(exists("c", S_IFDIR));
	free(name);
	close(fd);
	CHECK_INT(rootpath_parent(root, "/", &name), -1);
	CHECK_INT(errno, EISDIR);
	close(root);
}
