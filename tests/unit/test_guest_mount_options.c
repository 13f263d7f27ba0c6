/* SPDX-License-Identifier: Apache-2.0 */
#include "guest_json.h"

#include "guest/mount_options.h"

#include <linux/mount.h>
#include <sys/mount.h>

static struct mount_options options(const char *json)
{
	struct json *object = parse(json);
	struct words words = { NULL, 0 };
	struct mount_options o;

	CHECK_INT(field_words(object, "", "o", &words, NULL), 1);
	CHECK_INT(mount_options_parse(&words, "mounts[0].options", &o, NULL), 0);
	words_free(&words);
	json_free(object);
	return o;
}

TEST(flags)
{
	struct mount_options o = options("{'o':['nosuid','nodev','noexec','ro','mode=755','size=65536k']}");

	CHECK_INT(o.attr_set, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY);
	CHECK_INT(o.sb_readonly, 1);
	CHECK_INT(o.data.count, 2);
	CHECK_STR(mount_options_find(&o, "size"), "65536k");
	CHECK(!mount_options_find(&o, "siz"));
	mount_options_drop(&o, "mode");
	CHECK_INT(o.data.count, 1);
	CHECK_STR(o.data.items[0], "size=65536k");
	CHECK(!o.data.items[1]);
	mount_options_free(&o);
}

TEST(the_last_word_wins)
{
	struct mount_options o = options("{'o':['ro','nosuid','rw','suid','dev','nodev']}");

	CHECK_INT(o.attr_set, MOUNT_ATTR_NODEV);
	CHECK_INT(o.attr_clear, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID);
	CHECK_INT(o.sb_readonly, 0);
	mount_options_free(&o);
}

TEST(kinds_of_atime)
{
	struct mount_options o = options("{'o':['noatime','strictatime']}");

	CHECK_INT(o.attr_set, MOUNT_ATTR_STRICTATIME);
	CHECK_INT(o.attr_clear, MOUNT_ATTR__ATIME);
	mount_options_free(&o);
	o = options("{'o':['strictatime','relatime','nodiratime']}");
	CHECK_INT(o.attr_set, MOUNT_ATTR_NODIRATIME);
	CHECK_INT(o.attr_clear, MOUNT_ATTR__ATIME);
	mount_options_free(&o);
	o = options("{'o':['rnoatime','ratime']}");
	CHECK_INT(o.rec_set, 0);
	CHECK_INT(o.rec_clear, MOUNT_ATTR__ATIME);
	mount_options_free(&o);
	o = options("{'o':['norelatime']}");
	CHECK_INT(o.attr_set | o.attr_clear, 0);
	mount_options_free(&o);
}

TEST(bind_and_propagation)
{
	struct mount_options o = options("{'o':['rbind','bind','rprivate','rro']}");

	CHECK_INT(o.bind, 2);
	CHECK_INT(o.propagation, MS_PRIVATE);
	CHECK_INT(o.propagation_recursive, 1);
	CHECK_INT(o.rec_set, MOUNT_ATTR_RDONLY);
	mount_options_free(&o);
	o = options("{'o':['bind','shared']}");
	CHECK_INT(o.bind, 1);
	CHECK_INT(o.propagation, MS_SHARED);
	CHECK_INT(o.propagation_recursive, 0);
	mount_options_free(&o);
}

/* Each word of the specification's table is known: it is not handed to the file system as data. */
TEST(every_word_of_the_table)
{
	static const char *const words[] = {
		"async",          "atime",      "bind",         "defaults",    "dev",
		"diratime",       "dirsync",    "exec",         "iversion",    "lazytime",
		"loud",           "mand",       "noatime",      "nodev",       "nodiratime",
		"noexec",         "noiversion", "nolazytime",   "nomand",      "norelatime",
		"nostrictatime",  "nosuid",     "nosymfollow",  "private",     "ratime",
		"rbind",          "rdev",       "rdiratime",    "relatime",    "remount",
		"rexec",          "rnoatime",   "rnodiratime",  "rnoexec",     "rnorelatime",
		"rnostrictatime", "rnosuid",    "rnosymfollow", "ro",          "rprivate",
		"rrelatime",      "rro",        "rrw",          "rshared",     "rslave",
		"rstrictatime",   "rsuid",      "rsymfollow",   "runbindable", "rw",
		"shared",         "silent",     "slave",        "strictatime", "suid",
		"symfollow",      "sync",       "tmpcopyup",    "unbindable",
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		char *items[] = { (char *)(uintptr_t)words[i], NULL };
		struct words list = { items, 1 };
		struct mount_options o;

		CHECK_INT(mount_options_parse(&list, "m", &o, NULL), 0);
		if (o.data.count)
			test_fail(__FILE__, __LINE__, "'%s' is not known", words[i]);
		mount_options_free(&o);
	}
}

TEST(idmap_is_refused_by_place)
{
	static const char *const words[] = { "idmap", "ridmap" };

	for (size_t i = 0; i < 2; i++) {
		char *items[] = { (char *)(uintptr_t) "ro", (char *)(uintptr_t)words[i], NULL };
		struct words list = { items, 2 };
		cleanup_err cchv_error *err = NULL;
		struct mount_options o;

		CHECK_INT(mount_options_parse(&list, "mounts[4].options", &o, &err), CCHV_ERR_UNSUPPORTED);
		CHECK_CONTAINS(cchv_error_message(err), "mounts[4].options[1]");
		CHECK_CONTAINS(cchv_error_message(err), words[i]);
	}
}
