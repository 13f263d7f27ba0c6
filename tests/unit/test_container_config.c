/* SPDX-License-Identifier: Apache-2.0 */
#include "container_config.h"
#include "json_text.h"
#include "oci_spec.h"

static cchv_container_config *config;

static void begin(void)
{
	CHECK_INT(cchv_container_config_new("box", &config), 0);
	CHECK_INT(cchv_container_config_set_rootfs_fs(config, "root"), 0);
	CHECK_INT(cchv_container_config_add_arg(config, "sh"), 0);
}

static void end(void)
{
	cchv_container_config_free(config);
}

static void refuse(int code, const char *part)
{
	cleanup_err cchv_error *err = NULL;

	CHECK_INT(container_config_check(config, &err), code);
	CHECK_CONTAINS(cchv_error_message(err), part);
}

TEST(ids_and_host_names)
{
	static const char *const bad[] = { "", "-x", ".x", "a/b", "a b", "\xff", NULL };
	char long_id[78];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_INT(cchv_container_config_new(bad[i], &config), CCHV_ERR_INVALID);
	memset(long_id, 'x', 77);
	long_id[77] = '\0';
	CHECK_INT(cchv_container_config_new(long_id, &config), CCHV_ERR_INVALID);
	long_id[76] = '\0';
	CHECK_INT(cchv_container_config_new(long_id, &config), 0);
	CHECK_INT(strlen(json_as_string(json_get(config->spec, "hostname"))), 64);
	CHECK_INT(cchv_container_config_set_hostname(config, long_id), CCHV_ERR_INVALID);
	CHECK_INT(cchv_container_config_set_hostname(config, ""), CCHV_ERR_INVALID);
	end();
}

TEST(a_good_one_passes)
{
	begin();
	CHECK_INT(container_config_check(config, NULL), 0);
	end();
}

TEST(each_bind_of_the_host_must_be_mapped)
{
	begin();
	CHECK_INT(cchv_container_config_set_spec_json(config,
	          "{\"process\":{\"args\":[\"a\"]},\"mounts\":[{\"destination\":\"/proc\",\"type\":\"proc\"},"
	          "{\"destination\":\"/data\",\"type\":\"none\",\"source\":\"/srv\","
	          "\"options\":[\"rbind\"]}]}"), 0);
	refuse(CCHV_ERR_INVALID, "'/data'");
	CHECK_INT(cchv_container_config_map_mount(config, "/data", CCHV_MOUNT_FS, NULL), 0);
	CHECK_INT(container_config_check(config, NULL), 0);
	CHECK_INT(cchv_container_config_map_mount(config, "/other", CCHV_MOUNT_TMPFS, NULL), 0);
	refuse(CCHV_ERR_INVALID, "'/other'");
	end();
}

TEST(a_disk_may_stand_behind_a_device_node)
{
	begin();
	CHECK_INT(cchv_container_config_set_spec_json(config,
	          "{\"process\":{\"args\":[\"a\"]},\"linux\":{\"devices\":[{\"path\":\"/dev/loop5\","
	          "\"type\":\"b\"}]}}"), 0);
	CHECK_INT(cchv_container_config_map_mount(config, "/dev/loop5", CCHV_MOUNT_VOLUME, "disk1"), 0);
	CHECK_INT(container_config_check(config, NULL), 0);
	end();
}

TEST(mounts_are_added_and_mapped_at_once)
{
	begin();
	CHECK_INT(cchv_container_config_add_mount(config, "/d", CCHV_MOUNT_VOLUME, "disk1", "ro"), 0);
	CHECK_INT(cchv_container_config_add_mount(config, "/t", CCHV_MOUNT_TMPFS, NULL, "size=1m"), 0);
	CHECK_INT(cchv_container_config_add_mount(config, "/d", CCHV_MOUNT_TMPFS, NULL, NULL), CCHV_ERR_EXISTS);
	CHECK_INT(cchv_container_config_add_mount(config, "/m", CCHV_MOUNT_TMPFS, "/shm", NULL), CCHV_ERR_INVALID);
	CHECK_INT(cchv_container_config_add_mount(config, "/m", CCHV_MOUNT_TMPFS, "shm", NULL), 0);
	CHECK_INT(cchv_container_config_add_mount(config, "/c", CCHV_MOUNT_COPY, "relative", NULL), CCHV_ERR_INVALID);
	CHECK_INT(cchv_container_config_add_mount(config, "/c", CCHV_MOUNT_COPY, NULL, NULL), CCHV_ERR_INVALID);
	CHECK_INT(cchv_container_config_add_mount(config, "c", CCHV_MOUNT_COPY, "/x", NULL), CCHV_ERR_INVALID);
	CHECK_INT(cchv_container_config_add_mount(config, "/c", 99, "/x", NULL), CCHV_ERR_UNSUPPORTED);
	CHECK_INT(config->map_count, 3);
	CHECK_STR(container_config_find_map(config, "/d")->source, "disk1");
	CHECK(!oci_mount_is_bind(oci_spec_find_mount(config->spec, "/t")));
	CHECK_INT(container_config_check(config, NULL), 0);
	CHECK_INT(cchv_container_config_add_mount(config, "/s", CCHV_MOUNT_SOCKET, "/run/x.sock", NULL), 0);
	refuse(CCHV_ERR_UNSUPPORTED, "'/s'");
	end();
}

TEST(a_root_file_system_is_needed_and_one_only)
{
	begin();
	CHECK_INT(cchv_container_config_set_rootfs_fs(config, NULL), 0);
	refuse(CCHV_ERR_INVALID, "no root file system");
	CHECK_INT(cchv_container_config_set_rootfs_disk(config, "relative", 0), CCHV_ERR_INVALID);
	CHECK_INT(cchv_container_config_set_rootfs_disk(config, "/dev/x", 2), CCHV_ERR_INVALID);
	CHECK_INT(cchv_container_config_set_rootfs_disk(config, "/dev/x", 1), 0);
	CHECK_INT(container_config_check(config, NULL), 0);
	CHECK_INT(cchv_container_config_set_rootfs_fs(config, "/a/path"), 0);
	refuse(CCHV_ERR_INVALID, "exclude");
	CHECK_INT(cchv_container_config_set_rootfs_disk(config, NULL, 0), 0);
	CHECK_INT(container_config_check(config, NULL), 0);
	end();
}

TEST(a_copy_has_the_settings_of_the_root)
{
	cleanup_container_config cchv_container_config *copy = NULL;

	begin();
	CHECK_INT(cchv_container_config_set_rootfs_disk(config, "/dev/x", 1), 0);
	CHECK_INT(cchv_container_config_set_keep_scratch(config, 2), CCHV_ERR_INVALID);
	CHECK_INT(cchv_container_config_set_check_program(config, 2), CCHV_ERR_INVALID);
	CHECK_INT(cchv_container_config_set_check_program(NULL, 1), CCHV_ERR_INVALID);
	CHECK_INT(cchv_container_config_set_keep_scratch(config, 1), 0);
	CHECK_INT(container_config_copy(config, &copy), 0);
	CHECK_STR(copy->rootfs_disk, "/dev/x");
	CHECK_INT(copy->rootfs_disk_readonly, 1);
	CHECK_INT(copy->keep_scratch, 1);
	end();
}

TEST(a_program_is_needed)
{
	begin();
	CHECK_INT(cchv_container_config_clear_args(config), 0);
	refuse(CCHV_ERR_INVALID, "process.args");
	CHECK_INT(cchv_container_config_add_arg(config, ""), 0);
	refuse(CCHV_ERR_INVALID, "process.args");
	end();
}

TEST(commands_follow_the_entrypoint)
{
	begin();
	config->entrypoint = 1;
	CHECK_INT(cchv_container_config_add_arg(config, "cmd"), 0);
	CHECK_INT(cchv_container_config_clear_cmd(config), 0);
	CHECK_INT(cchv_container_config_add_arg(config, "mine"), 0);
	CHECK_STR(text_of(json_find(config->spec, "process.args")), "[\"sh\",\"mine\"]");
	CHECK_INT(cchv_container_config_clear_args(config), 0);
	CHECK_INT(cchv_container_config_add_arg(config, "all"), 0);
	CHECK_INT(cchv_container_config_clear_cmd(config), 0);
	CHECK_STR(text_of(json_find(config->spec, "process.args")), "[]");
	end();
}

TEST(setters_reach_the_specification)
{
	char *json = NULL;

	begin();
	CHECK_INT(cchv_container_config_set_tty(config, 1), 0);
	CHECK_INT(cchv_container_config_set_console_size(config, 5, 6), 0);
	CHECK_INT(cchv_container_config_set_console_size(config, 0, 6), CCHV_ERR_INVALID);
	CHECK_INT(cchv_container_config_set_readonly(config, 1), 0);
	CHECK_INT(cchv_container_config_set_env(config, "A", "b"), 0);
	CHECK_INT(cchv_container_config_unset_env(config, "PATH"), 0);
	CHECK_INT(cchv_container_config_set_memory_limit(config, 1 << 26), 0);
	CHECK_INT(cchv_container_config_set_upper(config, 9, 0), CCHV_ERR_UNSUPPORTED);
	CHECK_INT(cchv_container_config_get_spec_json(config, &json, NULL), 0);
	CHECK_CONTAINS(json, "\"terminal\": true");
	CHECK_CONTAINS(json, "\"A=b\"");
	CHECK(!strstr(json, "PATH="));
	CHECK_INT(json_find(config->spec, "root.readonly") != NULL, 1);
	cchv_free(json);
	end();
}

TEST(a_copy_is_whole_and_its_own)
{
	cchv_container_config *copy = NULL;

	begin();
	CHECK_INT(cchv_container_config_add_mount(config, "/d", CCHV_MOUNT_COPY, "/etc/hosts", "ro"), 0);
	CHECK_INT(cchv_container_config_set_upper(config, CCHV_UPPER_TMPFS, 5), 0);
	CHECK_INT(container_config_copy(config, &copy), 0);
	end();
	CHECK_STR(copy->id, "box");
	CHECK_STR(copy->maps[0].source, "/etc/hosts");
	CHECK_INT(copy->upper, CCHV_UPPER_TMPFS);
	CHECK_INT(container_config_check(copy, NULL), 0);
	cchv_container_config_free(copy);
}
