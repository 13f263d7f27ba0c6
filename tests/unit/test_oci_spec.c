/* SPDX-License-Identifier: Apache-2.0 */
#include "oci_spec.h"
#include "json_text.h"

TEST(the_default_is_dockers)
{
	cleanup_json struct json *spec = oci_spec_new("box");

	CHECK_STR(json_as_string(json_get(spec, "hostname")), "box");
	CHECK_INT(json_count(json_get(spec, "mounts")), 7);
	CHECK(oci_mount_has_option(oci_spec_find_mount(spec, "/dev/shm"), "size=65536k"));
	CHECK(oci_mount_has_option(oci_spec_find_mount(spec, "/sys"), "ro"));
	CHECK(!oci_mount_is_bind(oci_spec_find_mount(spec, "/proc")));
	CHECK_STR(text_of(json_find(spec, "linux.namespaces")),
	          "[{\"type\":\"pid\"},{\"type\":\"mount\"},{\"type\":\"uts\"},{\"type\":\"ipc\"},"
	          "{\"type\":\"cgroup\"}]");
	CHECK_STR(text_of(json_find(spec, "linux.resources")), "{\"devices\":[{\"allow\":false,"
	                                                       "\"access\":\"rwm\"}]}");
}

TEST(limits_come_and_go)
{
	cleanup_json struct json *spec = json_of("{\"linux\":{\"resources\":{\"memory\":{\"swap\":5,"
	                                         "\"reservation\":1}}}}");

	CHECK_INT(oci_spec_set_memory_limit(spec, 1 << 20), 0);
	CHECK_INT(oci_spec_set_cpu_limit(spec, 1500), 0);
	CHECK_INT(oci_spec_set_pids_limit(spec, 77), 0);
	CHECK_STR(text_of(json_find(spec, "linux.resources")),
	          "{\"memory\":{\"reservation\":1,\"limit\":1048576},\"cpu\":{\"period\":100000,"
	          "\"quota\":150000},"
	          "\"pids\":{\"limit\":77}}");
	CHECK_INT(oci_spec_set_cpu_limit(spec, 1), 0);
	CHECK_STR(text_of(json_find(spec, "linux.resources.cpu")), "{\"period\":100000,\"quota\":1000}");
	CHECK_INT(oci_spec_set_memory_limit(spec, 0), 0);
	CHECK_INT(oci_spec_set_cpu_limit(spec, 0), 0);
	CHECK_INT(oci_spec_set_pids_limit(spec, 0), 0);
	CHECK_STR(text_of(json_find(spec, "linux.resources")), "{\"memory\":{\"reservation\":1},\"cpu\":{},"
	                                                       "\"pids\":{}}");
}

TEST(another_type_in_the_way_is_refused)
{
	cleanup_json struct json *spec = json_of("{\"linux\":[],\"root\":1,\"mounts\":{}}");

	CHECK_INT(oci_spec_set_memory_limit(spec, 1), CCHV_ERR_INVALID);
	CHECK_INT(oci_spec_set_readonly(spec, 1), CCHV_ERR_INVALID);
	CHECK_INT(oci_spec_add_mount(spec, "/a", "bind", "/b", NULL), CCHV_ERR_INVALID);
}

TEST(mounts_are_added_and_judged)
{
	cleanup_json struct json *spec = json_new_object();
	const struct json *mount;

	CHECK_INT(oci_spec_add_mount(spec, "/a", "bind", "/src", "ro,,rbind,"), 0);
	CHECK_INT(oci_spec_add_mount(spec, "/b", "none", "/src", "bind"), 0);
	CHECK_INT(oci_spec_add_mount(spec, "/c", "tmpfs", "t", NULL), 0);
	mount = oci_spec_find_mount(spec, "/a");
	CHECK_STR(text_of(mount), "{\"destination\":\"/a\",\"type\":\"bind\",\"source\":\"/src\","
	                          "\"options\":[\"ro\",\"rbind\"]}");
	CHECK(oci_mount_is_bind(mount));
	CHECK(oci_mount_is_bind(oci_spec_find_mount(spec, "/b")));
	CHECK(!oci_mount_is_bind(oci_spec_find_mount(spec, "/c")));
	CHECK(!oci_spec_find_mount(spec, "/d"));
}

static void apply(const char *config, const char *args, const char *env, const char *cwd, size_t entrypoint)
{
	cleanup_json struct json *spec = oci_spec_new("h");
	size_t got = 99;

	CHECK_INT(oci_spec_apply_image(spec, config, &got, NULL), 0);
	CHECK_INT(got, entrypoint);
	CHECK_STR(text_of(json_find(spec, "process.args")), args);
	CHECK_STR(text_of(json_find(spec, "process.env")), env);
	CHECK_STR(json_as_string(json_find(spec, "process.cwd")), cwd);
}

TEST(an_images_config_is_applied)
{
	static const char path[] = "[\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"]";

	apply("{}", "[]", path, "/", 0);
	apply("{\"Entrypoint\":[\"/entry\",\"-x\"],\"Cmd\":[\"postgres\"],\"Env\":[\"PATH=/p\",\"A=b\"],"
	      "\"WorkingDir\":\"/w\"}",
	      "[\"/entry\",\"-x\",\"postgres\"]", "[\"PATH=/p\",\"A=b\"]", "/w", 2);
	apply("{\"Cmd\":[\"sh\"],\"Entrypoint\":null,\"Env\":null,"
	      "\"WorkingDir\":\"\"}", "[\"sh\"]", path, "/", 0);
	/* The whole configuration, as it lies in a registry; a relative directory. */
	apply("{\"os\":\"linux\",\"config\":{\"Cmd\":[\"x\"],"
	      "\"WorkingDir\":\"app\"}}", "[\"x\"]", path, "/app", 0);
}

TEST(an_images_user_is_for_the_guest_to_look_up)
{
	cleanup_json struct json *spec = oci_spec_new("h");
	size_t entrypoint;

	CHECK_INT(oci_spec_apply_image(spec, "{\"User\":\"postgres\"}", &entrypoint, NULL), 0);
	CHECK_STR(text_of(json_find(spec, "process.user")),
	          "{\"uid\":0,\"gid\":0,\"username\":\"postgres\"}");
}

TEST(a_malformed_image_config_is_refused)
{
	static const char *const texts[] = {
		"{", "{\"Cmd\":\"sh\"}", "{\"Entrypoint\":{}}", "{\"Env\":[\"NOVALUE\"]}", "{\"Env\":[5]}",
		        "{\"Env\":\"A=1\"}",
		"{\"WorkingDir\":5}", "{\"User\":[]}", "{\"Cmd\":[1]}", "{\"User\":\":\"}",
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		cleanup_json struct json *spec = oci_spec_new("h");
		cleanup_err cchv_error *err = NULL;
		size_t entrypoint;

		CHECK_INT(oci_spec_apply_image(spec, texts[i], &entrypoint, &err), CCHV_ERR_PROTOCOL);
		CHECK_CONTAINS(cchv_error_message(err), "image config");
	}
}
