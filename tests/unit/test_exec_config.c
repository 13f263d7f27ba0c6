/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_config.h"
#include "json_text.h"

static const char base_text[] =
	"{\"args\":[\"init\"],\"cwd\":\"/srv\",\"env\":[\"PATH=/bin\",\"A=1\",\"B=2\"],\"terminal\":true,"
	"\"consoleSize\":{\"height\":1,\"width\":2},\"user\":{\"uid\":5,\"gid\":6},\"noNewPrivileges\":true}";

static cchv_exec_config *config;

static void begin(void)
{
	CHECK_INT(cchv_exec_config_new(&config), 0);
}

static void expect(const char *expected)
{
	cleanup_json struct json *base = json_of(base_text), *process = NULL;

	CHECK_INT(exec_config_build(config, base, &process, NULL), 0);
	CHECK_STR(text_of(process), expected);
	cchv_exec_config_free(config);
}

TEST(what_is_not_set_is_inits)
{
	begin();
	CHECK_INT(cchv_exec_config_add_arg(config, "ls"), 0);
	CHECK_INT(cchv_exec_config_add_arg(config, "-l"), 0);
	expect("{\"cwd\":\"/srv\",\"env\":[\"PATH=/bin\",\"A=1\",\"B=2\"],\"user\":{\"uid\":5,\"gid\":6},"
	       "\"noNewPrivileges\":true,\"args\":[\"ls\",\"-l\"]}");
}

TEST(what_is_set_lies_over_it)
{
	begin();
	CHECK_INT(cchv_exec_config_add_arg(config, "sh"), 0);
	CHECK_INT(cchv_exec_config_set_env(config, "B", "x"), 0);
	CHECK_INT(cchv_exec_config_set_env(config, "C", "y"), 0);
	CHECK_INT(cchv_exec_config_unset_env(config, "A"), 0);
	CHECK_INT(cchv_exec_config_set_cwd(config, "/tmp"), 0);
	CHECK_INT(cchv_exec_config_set_user(config, "1:2"), 0);
	CHECK_INT(cchv_exec_config_set_tty(config, 37, 123), 0);
	expect("{\"cwd\":\"/tmp\",\"env\":[\"PATH=/bin\",\"B=x\",\"C=y\"],\"user\":{\"uid\":1,\"gid\":2},"
	       "\"noNewPrivileges\":true,\"args\":[\"sh\"],\"terminal\":true,\"consoleSize\":{\"height\":37,"
	       "\"width\":123}}");
}

TEST(unset_and_set_again)
{
	begin();
	CHECK_INT(cchv_exec_config_add_arg(config, "sh"), 0);
	CHECK_INT(cchv_exec_config_unset_env(config, "A"), 0);
	CHECK_INT(cchv_exec_config_set_env(config, "A", "again"), 0);
	CHECK_INT(cchv_exec_config_set_env(config, "B", "x"), 0);
	CHECK_INT(cchv_exec_config_unset_env(config, "B"), 0);
	expect("{\"cwd\":\"/srv\",\"env\":[\"PATH=/bin\",\"A=again\"],\"user\":{\"uid\":5,\"gid\":6},"
	       "\"noNewPrivileges\":true,\"args\":[\"sh\"]}");
}

TEST(a_whole_process_takes_nothing_from_init)
{
	begin();
	CHECK_INT(cchv_exec_config_add_arg(config, "lost"), 0);
	CHECK_INT(cchv_exec_config_set_process_json(config, "{\"args\":[\"a\"],\"cwd\":\"/\"}"), 0);
	CHECK_INT(cchv_exec_config_set_env(config, "X", "1"), 0);
	expect("{\"args\":[\"a\"],\"cwd\":\"/\",\"env\":[\"X=1\"]}");
}

TEST(without_a_program_there_is_nothing_to_run)
{
	cleanup_json struct json *base = json_of(base_text), *process = NULL;
	cleanup_err cchv_error *err = NULL;

	begin();
	CHECK_INT(exec_config_build(config, base, &process, &err), CCHV_ERR_INVALID);
	CHECK_CONTAINS(cchv_error_message(err), "args");
	cchv_exec_config_free(config);
}

TEST(wrong_values_are_refused)
{
	begin();
	CHECK_INT(cchv_exec_config_set_id(config, "init"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_exec_config_set_id(config, "../x"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_exec_config_set_id(config, ""), CCHV_ERR_INVALID);
	CHECK_INT(cchv_exec_config_set_id(config, "e.1-x_Y"), 0);
	CHECK_INT(cchv_exec_config_set_process_json(config, "[]"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_exec_config_set_process_json(config, "{"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_exec_config_set_tty(config, 1, 0), CCHV_ERR_INVALID);
	CHECK_INT(cchv_exec_config_set_tty(config, 65536, 1), CCHV_ERR_INVALID);
	CHECK_INT(cchv_exec_config_set_tty(config, 0, 0), 0);
	CHECK_INT(cchv_exec_config_set_cwd(config, "x"), CCHV_ERR_INVALID);
	CHECK_INT(cchv_exec_config_set_env(config, "A", NULL), CCHV_ERR_INVALID);
	CHECK_INT(cchv_exec_config_set_user(config, ""), CCHV_ERR_INVALID);
	CHECK_INT(cchv_exec_config_add_arg(NULL, "x"), CCHV_ERR_INVALID);
	cchv_exec_config_free(config);
}
