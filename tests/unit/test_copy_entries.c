/* SPDX-License-Identifier: Apache-2.0 */
#include "copy_entries.h"
#include "json_text.h"

#include <fcntl.h>
#include <sys/stat.h>

static char root[100];

static void make(const char *below, const char *text, mode_t mode)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, below);
	if (!text) {
		CHECK_INT(mkdir(path, 0755), 0);
		CHECK_INT(chmod(path, mode), 0);
		return;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(write(fd, text, strlen(text)), strlen(text));
	CHECK_INT(fchmod(fd, mode), 0);
	close(fd);
}

static void make_link(const char *below, const char *target)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s", root, below);
	CHECK_INT(symlink(target, path), 0);
}

static void begin(void)
{
	snprintf(root, sizeof(root), "%s/tree", test_dir());
	CHECK_INT(mkdir(root, 0750), 0);
}

static const struct json *find(const struct json *entries, const char *path)
{
	for (size_t i = 0; i < json_count(entries); i++)
		if (strcmp(json_as_string(json_get(json_at(entries, i), "path")), path) == 0)
			return json_at(entries, i);
	return NULL;
}

static const char *type_of(const struct json *entries, const char *path)
{
	return json_as_string(json_get(find(entries, path), "type"));
}

TEST(a_single_file)
{
	cleanup_json struct json *entries = NULL;
	char path[200];
	uint64_t mode = 0;

	begin();
	make("f", "content\n", 0640);
	snprintf(path, sizeof(path), "%s/f", root);
	CHECK_INT(copy_entries_read(path, &entries, NULL), 0);
	CHECK_INT(json_count(entries), 1);
	CHECK_STR(json_as_string(json_get(json_at(entries, 0), "path")), "");
	CHECK_STR(json_as_string(json_get(json_at(entries, 0), "data")), "content\n");
	CHECK_INT(json_get_u64(json_at(entries, 0), "mode", &mode, NULL), 1);
	CHECK_INT(mode, 0640);
}

/* As Kubernetes mounts config maps: names are links through "..data", which is swapped. */
TEST(a_tree_keeps_its_links)
{
	cleanup_json struct json *entries = NULL;

	begin();
	make("..2025", NULL, 0755);
	make("..2025/key", "value", 0644);
	make_link("..data", "..2025");
	make_link("key", "..data/key");
	make("empty", "", 0600);
	CHECK_INT(copy_entries_read(root, &entries, NULL), 0);
	CHECK_INT(json_count(entries), 6);
	CHECK_STR(type_of(entries, ""), "dir");
	CHECK_STR(type_of(entries, "..2025/key"), "file");
	CHECK_STR(type_of(entries, "key"), "symlink");
	CHECK_STR(json_as_string(json_get(find(entries, "key"), "target")), "..data/key");
	CHECK_STR(json_as_string(json_get(find(entries, "empty"), "data")), "");
}

TEST(links_that_lead_out_are_followed)
{
	cleanup_json struct json *entries = NULL;
	char outside[200];
	int fd;

	begin();
	snprintf(outside, sizeof(outside), "%s/outside", test_dir());
	fd = open(outside, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK_INT(write(fd, "there", 5), 5);
	close(fd);
	make("sub", NULL, 0755);
	make_link("a", outside);
	make_link("b", "../outside");
	make_link("sub/c", "../../outside");
	make_link("sub/d", "../a");
	CHECK_INT(copy_entries_read(root, &entries, NULL), 0);
	CHECK_STR(type_of(entries, "a"), "file");
	CHECK_STR(json_as_string(json_get(find(entries, "b"), "data")), "there");
	CHECK_STR(type_of(entries, "sub/c"), "file");
	CHECK_STR(type_of(entries, "sub/d"), "symlink");
}

TEST(what_is_too_much_or_too_strange_is_refused)
{
	cleanup_json struct json *entries = NULL;
	cleanup_err cchv_error *err = NULL;
	char path[200];

	begin();
	make("big", "", 0644);
	snprintf(path, sizeof(path), "%s/big", root);
	CHECK_INT(truncate(path, COPY_MAX_BYTES), 0);
	CHECK_INT(copy_entries_read(root, &entries, NULL), 0);
	json_free(steal(&entries));
	CHECK_INT(truncate(path, COPY_MAX_BYTES + 1), 0);
	CHECK_INT(copy_entries_read(root, &entries, &err), CCHV_ERR_LIMIT);
	CHECK_CONTAINS(cchv_error_message(err), root);
	CHECK_INT(unlink(path), 0);
	CHECK_INT(mkfifo(path, 0600), 0);
	CHECK_INT(copy_entries_read(root, &entries, &err), CCHV_ERR_INVALID);
	CHECK_INT(copy_entries_read(path, &entries, &err), CCHV_ERR_INVALID);
	CHECK_INT(copy_entries_read("/nonexistent", &entries, &err), CCHV_ERR_NOT_FOUND);
	make_link("loop", "/proc/self/cwd/nonexistent");
	CHECK_INT(unlink(path), 0);
	CHECK_INT(copy_entries_read(root, &entries, &err), CCHV_ERR_NOT_FOUND);
}

TEST(a_link_to_its_own_parents_ends)
{
	cleanup_json struct json *entries = NULL;

	begin();
	make_link("up", "../tree");
	CHECK_INT(copy_entries_read(root, &entries, NULL), 0);
	CHECK_INT(json_count(entries), 3);
	CHECK_STR(type_of(entries, "up"), "dir");
	CHECK_STR(type_of(entries, "up/up"), "symlink");
}

TEST(text_of_our_own)
{
	cleanup_json struct json *entries = copy_entries_of_text("x\n", 0644);

	CHECK_STR(text_of(entries), "[{\"path\":\"\",\"type\":\"file\",\"mode\":420,\"uid\":0,\"gid\":0,"
	                            "\"data\":\"x\\n\"}]");
}
