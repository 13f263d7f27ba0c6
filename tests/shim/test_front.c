/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "examples/shim/bootstrap.h"
#include "examples/shim/bundle.h"
#include "examples/shim/delete_reply.h"
#include "examples/shim/flags.h"
#include "examples/shim/group_id.h"
#include "examples/shim/listener.h"
#include "examples/shim/sha256.h"
#include "examples/shim/socket_path.h"

#include <sys/stat.h>

/* ---- flags ---- */

static struct flags parse(int argc, char **argv)
{
	struct flags flags;

	flags_parse(argc, argv, &flags);
	return flags;
}

#define PARSE(...)                                                                                           \
	parse(sizeof((const char *[]) { "x", __VA_ARGS__ }) / sizeof(char *),                                \
	      (char **)(const char *[]) { "x", __VA_ARGS__ })

TEST(flags_as_the_daemon_writes_them)
{
	struct flags f = PARSE("-namespace", "ns", "-address", "/a", "-publish-binary", "/p", "-id", "c1",
			       "-debug", "start");

	CHECK_STR(f.namespace, "ns");
	CHECK_STR(f.address, "/a");
	CHECK_STR(f.publish_binary, "/p");
	CHECK_STR(f.id, "c1");
	CHECK_STR(f.action, "start");
	CHECK(f.debug && !f.info && !f.version);
	f = PARSE("--namespace=ns", "--id=c1", "-bundle", "/b", "-debug=false", "delete");
	CHECK_STR(f.namespace, "ns");
	CHECK_STR(f.id, "c1");
	CHECK_STR(f.bundle, "/b");
	CHECK_STR(f.action, "delete");
	CHECK(!f.debug);
	CHECK(PARSE("-info").info && PARSE("-v").version && PARSE("--version").version);
}

TEST(flags_of_a_later_daemon)
{
	struct flags f = PARSE("-new-switch", "-new-value", "x", "-id", "c1", "-newer=y", "-last", "start");

	CHECK_STR(f.id, "c1");
	CHECK_STR(f.action, "start");
	f = PARSE("-id");
	CHECK_STR(f.id, "");
	CHECK(!f.action);
}

/* ---- standard input of start ---- */

static const struct flags c1 = { .id = "c1", .namespace = "default" };

TEST(options_of_an_older_daemon)
{
	struct wire input = { 0 }, value = { 0 }, out = { 0 };
	struct bootstrap b;

	wire_put_string(&input, 1, "runtimeoptions.v1.Options");
	wire_put_string(&value, 2, "/config");
	wire_put_message(&input, 2, &value);
	CHECK_INT(bootstrap_read(wire_view_of(input.data, input.len), &c1, &b), 0);
	CHECK(!b.is_params && b.options.len == input.len);
	bootstrap_put_reply(&out, &b, "unix:///s");
	CHECK(out.len == 9 && memcmp(out.data, "unix:///s", 9) == 0);
	wire_free(&out);
	wire_free(&input);
	CHECK_INT(bootstrap_read(wire_view_of("", 0), &c1, &b), 0);
	CHECK(!b.is_params && b.options.len == 0);
	CHECK_INT(bootstrap_read(wire_view_of("rubbish", 7), &c1, &b), -1);
}

TEST(parameters_of_a_newer_daemon)
{
	struct wire input = { 0 }, any = { 0 }, extension = { 0 }, out = { 0 };
	struct bootstrap b;

	wire_put_string(&input, 1, "c1");
	wire_put_string(&input, 2, "default");
	wire_put_int(&input, 3, -4);
	wire_put_string(&input, 9, "/run/other");
	wire_put_string(&any, 1, "runtimeoptions.v1.Options");
	wire_put_message(&extension, 1, &any);
	wire_put_message(&input, 8, &extension);
	CHECK_INT(bootstrap_read(wire_view_of(input.data, input.len), &c1, &b), 0);
	CHECK(b.is_params && b.log_level == -4 && b.options.len == 27);
	CHECK_STR(b.socket_dir, "/run/other");
	bootstrap_put_reply(&out, &b, "unix:///run/containerd/s/abc");
	CHECK(out.len == 39 &&
	      memcmp(out.data, "\x08\x02\x12\x1cunix:///run/containerd/s/abc\x1a\x05ttrpc", 39) == 0);
	bootstrap_free(&b);
	wire_free(&out);
	wire_free(&input);
	/* For somebody else they are no parameters of ours. */
	wire_put_string(&input, 1, "c2");
	wire_put_string(&input, 2, "default");
	CHECK_INT(bootstrap_read(wire_view_of(input.data, input.len), &c1, &b), 0);
	CHECK(!b.is_params);
	wire_free(&input);
}

TEST(the_reply_of_delete)
{
	struct exit_note note = { 4242, 137, 1700000000000000005ULL };
	struct wire out = { 0 };

	delete_reply_put(&out, &note);
	CHECK(out.len == 16 &&
	      memcmp(out.data, "\x08\x92\x21\x10\x89\x01\x1a\x08\x08\x80\xe2\xcf\xaa\x06\x10\x05", 16) == 0);
	wire_free(&out);
	/* Never nothing, which would be status 0. */
	note = delete_reply_killed(7);
	delete_reply_put(&out, &note);
	CHECK(out.len > 5 && memcmp(out.data, "\x08\x07\x10\x89\x01\x1a", 6) == 0);
	wire_free(&out);
}

/* ---- the group ---- */

static void check_group(const char *json, const char *expected)
{
	char *group = group_id_of(json, strlen(json), "id");

	CHECK_STR(group, expected);
	free(group);
}

TEST(groups)
{
	check_group("", "id");
	check_group("{}", "id");
	check_group("{\"annotations\":{}}", "id");
	check_group("{\"annotations\":{\"io.containerd.runc.v2.group\":\"g\"}}", "g");
	check_group("{\"annotations\":{\"io.kubernetes.cri.sandbox-id\":\"pod\"}}", "pod");
	check_group("{\"annotations\":{\"io.kubernetes.cri-o.SandboxID\":\"crio\"}}", "crio");
	/* By rank, not by place. */
	check_group("{\"annotations\":{\"io.kubernetes.cri.sandbox-id\":\"pod\",\"io.containerd.runc.v2."
		    "group\":\"g\"}}",
		    "g");
	check_group("{\"annotations\":{\"io.kubernetes.cri.sandbox-id\":\"\"}}", "id");
	check_group("{\"annotations\":null,\"a\":{\"io.containerd.runc.v2.group\":\"g\"}}", "id");
	/* Only at the top, and only texts. */
	check_group("{\"process\":{\"annotations\":{\"io.containerd.runc.v2.group\":\"g\"}}}", "id");
	check_group("{\"x\":[{\"io.containerd.runc.v2.group\":\"g\"}],\"annotations\":{\"x\":{\"io."
		    "containerd.runc.v2.group\":\"g\"}}}",
		    "id");
	check_group("{\"annotations\":{\"io.containerd.runc.v2.group\":[\"g\"]}}", "id");
	check_group("{\"annotations\":{\"io.containerd.runc.v2.group\":\"g\"", "g");
	check_group("no json", "id");
}

/* ---- the socket ---- */

TEST(sha256)
{
	char hex[65], long_text[1000];

	sha256_hex("", 0, hex);
	CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	sha256_hex("abc", 3, hex);
	CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
	CHECK_STR(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	memset(long_text, 'a', sizeof(long_text));
	sha256_hex(long_text, sizeof(long_text), hex);
	CHECK_STR(hex, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}

TEST(socket_paths)
{
	char path[108], same[108], directory[108];

	CHECK_INT(socket_path_make(SOCKET_DIR, "/run/containerd/containerd.sock", "default", "c1", path), 0);
	CHECK_STR(path, SOCKET_DIR "/d25aa4ef11a84e954e74a5bcff06557d0b6ea8d0c00243896f29826694bbd888");
	CHECK_INT(socket_path_make(SOCKET_DIR, "unix:///run/./containerd//x/../containerd.sock", "default",
				   "c1", same),
		  0);
	CHECK_STR(same, path);
	CHECK_INT(socket_path_make(SOCKET_DIR, "/run/containerd/containerd.sock", "default", "c2", same), 0);
	CHECK(strcmp(same, path) != 0);
	/* What containerd gives as the most: 42 characters of a directory. */
	memset(directory, 'd', sizeof(directory));
	directory[0] = '/';
	directory[42] = '\0';
	CHECK_INT(socket_path_make(directory, "/a", "ns", "id", same), 0);
	directory[42] = 'd';
	directory[43] = '\0';
	CHECK_INT(socket_path_make(directory, "/a", "ns", "id", same), -1);
}

TEST(a_listener)
{
	char path[108];
	struct stat st;
	int first = -1, second = -1;

	snprintf(path, sizeof(path), "%s/a/b/s", test_dir());
	CHECK_INT(listener_open(path, &first), 1);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
	/* Somebody is there. */
	CHECK_INT(listener_open(path, &second), 0);
	/* And is not any more. */
	close(first);
	CHECK_INT(listener_open(path, &second), 1);
	listener_remove(path, second);
	CHECK(stat(path, &st) < 0);
	/* A file that is no socket is nobody who listens. */
	CHECK_INT(bundle_write(test_dir(), "file", "x", 1), 0);
	snprintf(path, sizeof(path), "%s/file", test_dir());
	CHECK_INT(listener_open(path, &first), 1);
	listener_remove(path, first);
}

/* ---- files of the bundle ---- */

TEST(exit_notes)
{
	struct exit_note note = { 7, 137, 1234567890123456789ULL }, got = { 0 };

	CHECK_INT(bundle_read_exit(test_dir(), &got), 0);
	CHECK_INT(bundle_write_exit(test_dir(), &note), 0);
	CHECK_INT(bundle_read_exit(test_dir(), &got), 1);
	CHECK(got.pid == 7 && got.status == 137 && got.time_ns == note.time_ns);
	CHECK_INT(bundle_write(test_dir(), BUNDLE_EXIT, "rubbish", 7), 0);
	CHECK_INT(bundle_read_exit(test_dir(), &got), 0);
	CHECK_INT(bundle_write_exit("/does/not/exist", &note), -1);
	CHECK_INT(errno, ENOENT);
}

TEST(long_files)
{
	char *data = malloc(100000), *text;
	size_t len;

	memset(data, 'x', 100000);
	CHECK_INT(bundle_write(test_dir(), "f", data, 100000), 0);
	CHECK_INT(bundle_read(test_dir(), "f", 100000, &text, &len), 0);
	CHECK(len == 100000 && memcmp(text, data, len) == 0 && !text[len]);
	free(text);
	CHECK_INT(bundle_read(test_dir(), "f", 99999, &text, &len), -1);
	CHECK_INT(errno, EFBIG);
	free(data);
}
