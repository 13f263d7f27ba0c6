/* SPDX-License-Identifier: Apache-2.0 */
/* Layers as upper directories: their marks, what they keep and replace, and that nothing leads out. As root. */
#include "image/upper.h"

#include "tar_make.h"
#include "test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static char directory[4096];

static void begin(void)
{
	if (geteuid() != 0) {
		printf("skipped: needs root\n");
		exit(0);
	}
	snprintf(directory, sizeof(directory), "%s/upper", test_dir());
	CHECK_INT(mkdir(directory, 0755), 0);
}

static const char *at(const char *name)
{
	static char path[8192];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static int unpack_some(struct tar_make *t, int keep, uint64_t max_files)
{
	int fd = memfd_create("layer", 0), r;

	tar_make_end(t);
	CHECK(write(fd, t->bytes.data, t->bytes.len) == (ssize_t)t->bytes.len);
	CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
	r = upper_unpack(fd, directory, keep, max_files, NULL);
	close(fd);
	return r;
}

static int unpack(struct tar_make *t, int keep)
{
	return unpack_some(t, keep, 0);
}

static void put(const char *name, const char *text)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static void check_text(const char *name, const char *text)
{
	char have[64] = "";
	int fd = open(at(name), O_RDONLY | O_NOFOLLOW);

	CHECK(fd >= 0);
	CHECK(read(fd, have, sizeof(have) - 1) >= 0);
	close(fd);
	CHECK_STR(have, text);
}

static int is_there(const char *name)
{
	struct stat st;

	return lstat(at(name), &st) == 0;
}

static int is_whiteout(const char *name)
{
	struct stat st;

	return lstat(at(name), &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == 0;
}

static int is_opaque(const char *name)
{
	char value[4] = "";

	return getxattr(at(name), "trusted.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
}

TEST(upper_replaces_all)
{
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	struct stat st;

	begin();
	put("old", "old");
	CHECK_INT(mkdir(at("olddir"), 0755), 0);
	put("olddir/file", "old");
	tar_make_entry(&t, '5', "./", NULL, NULL, 0);
	tar_make_entry(&t, '5', "./dir/", NULL, NULL, 0);
	tar_make_entry(&t, '0', "./dir/file", NULL, "text", 4);
	tar_make_entry(&t, '1', "./dir/link", "./dir/file", NULL, 0);
	tar_make_entry(&t, '0', "./dir/.wh.gone", NULL, NULL, 0);
	tar_make_entry(&t, '5', "./new/", NULL, NULL, 0);
	tar_make_entry(&t, '0', "./new/.wh..wh..opq", NULL, NULL, 0);
	tar_make_entry(&t, '0', "./new/inside", NULL, "in", 2);
	CHECK_INT(unpack(&t, 0), CCHV_OK);
	CHECK(!is_there("old") && !is_there("olddir"));
	check_text("dir/file", "text");
	CHECK_INT(stat(at("dir/link"), &st), 0);
	CHECK_INT((int)st.st_nlink, 2);
	CHECK(is_whiteout("dir/gone"));
	CHECK(!is_there("dir/.wh.gone") && !is_there("new/.wh..wh..opq"));
	CHECK(is_opaque("new") && !is_opaque("dir"));
	check_text("new/inside", "in");
	/* What was put into it has not moved its time. */
	CHECK_INT(stat(at("dir"), &st), 0);
	CHECK_INT((int)st.st_mtime, 0);
}

/* What costs no inode is not counted: links, and the whiteouts, which are one. */
TEST(upper_of_so_many_files)
{
	char name[64];
	struct stat one, other;

	begin();
	for (uint64_t limit = 3; limit <= 4; limit++) {
		cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

		tar_make_entry(&t, '5', "./dir/", NULL, NULL, 0);
		tar_make_entry(&t, '0', "./dir/file", NULL, "text", 4);
		for (int i = 0; i < 20; i++) {
			snprintf(name, sizeof(name), "./dir/link%d", i);
			tar_make_entry(&t, '1', name, "./dir/file", NULL, 0);
			snprintf(name, sizeof(name), "./dir/.wh.%d", i);
			tar_make_entry(&t, '0', name, NULL, NULL, 0);
		}
		tar_make_entry(&t, '2', "./symlink", "dir", NULL, 0);
		tar_make_entry(&t, '0', "./last", NULL, NULL, 0);
		CHECK_INT(unpack_some(&t, 0, limit), limit == 3 ? CCHV_ERR_LIMIT : CCHV_OK);
		CHECK(is_there("last") == (limit == 4));
	}
	CHECK_INT(lstat(at("dir/0"), &one), 0);
	CHECK_INT(lstat(at("dir/19"), &other), 0);
	CHECK(is_whiteout("dir/19") && one.st_ino == other.st_ino);
}

/* A whiteout that was replaced is no whiteout any more for those that follow. */
TEST(upper_after_a_replaced_whiteout)
{
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

	begin();
	tar_make_entry(&t, '0', "./.wh.a", NULL, NULL, 0);
	tar_make_entry(&t, '0', "./a", NULL, "text", 4);
	tar_make_entry(&t, '0', "./.wh.b", NULL, NULL, 0);
	CHECK_INT(unpack(&t, 0), CCHV_OK);
	check_text("a", "text");
	CHECK(is_whiteout("b"));
}

TEST(upper_keeps_what_is_not_named)
{
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

	begin();
	put("kept", "kept");
	put("changed", "old");
	put("removed", "old");
	CHECK_INT(mkdir(at("hidden"), 0755), 0);
	put("hidden/old", "old");
	CHECK_INT(mknod(at("back"), S_IFCHR | 0600, 0), 0);
	tar_make_entry(&t, '5', "./", NULL, NULL, 0);
	tar_make_entry(&t, '0', "./changed", NULL, "new", 3);
	tar_make_entry(&t, '0', "./.wh.removed", NULL, NULL, 0);
	tar_make_entry(&t, '5', "./hidden/", NULL, NULL, 0);
	tar_make_entry(&t, '0', "./hidden/.wh..wh..opq", NULL, NULL, 0);
	tar_make_entry(&t, '0', "./hidden/new", NULL, "new", 3);
	tar_make_entry(&t, '0', "./back", NULL, "back", 4);
	/* The parent is in a layer below alone. */
	tar_make_entry(&t, '0', "./below/.wh.x", NULL, NULL, 0);
	CHECK_INT(unpack(&t, 1), CCHV_OK);
	check_text("kept", "kept");
	check_text("changed", "new");
	CHECK(is_whiteout("removed"));
	CHECK(is_opaque("hidden") && !is_there("hidden/old"));
	check_text("hidden/new", "new");
	check_text("back", "back");
	CHECK(is_whiteout("below/x"));
}

TEST(upper_leads_nowhere)
{
	static const char *const names[] = { "../out", "dir/../../out", "./.wh../out" };
	char out[4200];
	struct stat st;

	begin();
	snprintf(out, sizeof(out), "%s/out", test_dir());
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

		tar_make_entry(&t, '0', names[i], NULL, "x", 1);
		CHECK_INT(unpack(&t, 0), CCHV_ERR_PROTOCOL);
	}
	CHECK(lstat(out, &st) < 0);
	{
		/* A link is followed inside of the directory: its absolute target begins there. */
		cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
		char target[4300];

		snprintf(target, sizeof(target), "%s", test_dir());
		tar_make_entry(&t, '2', "./link", target, NULL, 0);
		tar_make_entry(&t, '0', "./link/out", NULL, "x", 1);
		tar_make_entry(&t, '0', "./link/.wh.upper", NULL, NULL, 0);
		CHECK_INT(unpack(&t, 0), CCHV_OK);
	}
	CHECK(lstat(out, &st) < 0);
	CHECK_INT(lstat(directory, &st), 0);
	CHECK(S_ISDIR(st.st_mode));
	{
		cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

		tar_make_entry(&t, '0', "./dir/.wh...", NULL, NULL, 0);
		CHECK_INT(unpack(&t, 0), CCHV_ERR_PROTOCOL);
	}
}
