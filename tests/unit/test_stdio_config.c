/* SPDX-License-Identifier: Apache-2.0 */
#include "stdio_config.h"
#include "test.h"

#include <cchv/container.h>
#include <fcntl.h>

TEST(by_default_all_lead_nowhere)
{
	cleanup_stdio_config cchv_stdio_config *config = NULL;

	CHECK_INT(cchv_stdio_config_new(&config), 0);
	for (int i = 0; i < STDIO_STREAMS; i++)
		CHECK(!stdio_stream_is_set(&config->streams[i]));
	CHECK_INT(stdio_config_check(config, 1, NULL), 0);
}

TEST(an_fd_is_copied_with_close_on_exec)
{
	cleanup_stdio_config cchv_stdio_config *config = NULL, *copy = NULL;
	int fds[2];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(cchv_stdio_config_new(&config), 0);
	CHECK_INT(cchv_stdio_config_set_fd(config, CCHV_STDOUT, fds[1]), 0);
	CHECK(config->streams[CCHV_STDOUT].fd != fds[1]);
	CHECK(fcntl(config->streams[CCHV_STDOUT].fd, F_GETFD) & FD_CLOEXEC);
	CHECK_INT(stdio_config_copy(config, &copy), 0);
	CHECK(copy->streams[CCHV_STDOUT].fd != config->streams[CCHV_STDOUT].fd);
	/* Replaced, not leaked: the harness counts. */
	CHECK_INT(cchv_stdio_config_set_fd(config, CCHV_STDOUT, fds[1]), 0);
	close(fds[0]);
	close(fds[1]);
}

TEST(a_later_choice_replaces_an_earlier_one)
{
	cleanup_stdio_config cchv_stdio_config *config = NULL;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	CHECK_INT(cchv_stdio_config_new(&config), 0);
	CHECK_INT(cchv_stdio_config_set_fd(config, CCHV_STDOUT, fd), 0);
	CHECK_INT(cchv_stdio_config_set_log(config, CCHV_STDOUT, "/var/log/x", 100), 0);
	CHECK_INT(cchv_stdio_config_set_attachable(config, CCHV_STDOUT), 0);
	CHECK(config->streams[CCHV_STDOUT].fd >= 0);
	CHECK_INT(cchv_stdio_config_set_pipe(config, CCHV_STDOUT), 0);
	CHECK_INT(config->streams[CCHV_STDOUT].fd, -1);
	CHECK(!config->streams[CCHV_STDOUT].log_path);
	CHECK_INT(config->streams[CCHV_STDOUT].attachable, 0);
	CHECK_INT(cchv_stdio_config_set_fd(config, CCHV_STDOUT, fd), 0);
	CHECK_INT(config->streams[CCHV_STDOUT].pipe, 0);
	close(fd);
}

TEST(wrong_arguments_are_refused)
{
	cleanup_stdio_config cchv_stdio_config *config = NULL;

	CHECK_INT(cchv_stdio_config_new(NULL), CCHV_ERR_INVALID);
	CHECK_INT(cchv_stdio_config_new(&config), 0);
	CHECK_INT(cchv_stdio_config_set_fd(NULL, 1, 1), CCHV_ERR_INVALID);
	CHECK_INT(cchv_stdio_config_set_fd(config, 3, 1), CCHV_ERR_INVALID);
	CHECK_INT(cchv_stdio_config_set_fd(config, -1, 1), CCHV_ERR_INVALID);
	CHECK_INT(cchv_stdio_config_set_fd(config, 1, -1), CCHV_ERR_INVALID);
	CHECK_INT(cchv_stdio_config_set_fd(config, 1, 1000000), CCHV_ERR_SYSTEM);
	CHECK_INT(cchv_stdio_config_set_pipe(config, 3), CCHV_ERR_INVALID);
	CHECK_INT(cchv_stdio_config_set_log(config, CCHV_STDIN, "/x", 0), CCHV_ERR_UNSUPPORTED);
	CHECK_INT(cchv_stdio_config_set_log(config, CCHV_STDOUT, "x", 0), CCHV_ERR_INVALID);
	CHECK_INT(cchv_stdio_config_set_attachable(config, 7), CCHV_ERR_INVALID);
	CHECK_INT(cchv_stdio_config_set_tty_size(NULL, 24, 80), CCHV_ERR_INVALID);
	CHECK_INT(cchv_stdio_config_set_tty_size(config, 0, 80), CCHV_ERR_INVALID);
	CHECK_INT(cchv_stdio_config_set_tty_size(config, 24, 65536), CCHV_ERR_INVALID);
}

TEST(the_whole_is_checked_by_name)
{
	cleanup_stdio_config cchv_stdio_config *config = NULL;
	cchv_error *err = NULL;
	int reader = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK_INT(cchv_stdio_config_new(&config), 0);
	CHECK_INT(cchv_stdio_config_set_pipe(config, CCHV_STDERR), 0);
	CHECK_INT(stdio_config_check(config, 0, NULL), 0);
	CHECK_INT(stdio_config_check(config, 1, &err), CCHV_ERR_INVALID);
	CHECK_CONTAINS(cchv_error_message(err), "stderr");
	CHECK_INT(cchv_stdio_config_set_fd(config, CCHV_STDOUT, reader), 0);
	CHECK_INT(stdio_config_check(config, 0, &err), CCHV_ERR_INVALID);
	CHECK_CONTAINS(cchv_error_message(err), "stdout");
	cchv_error_free(err);
	CHECK_INT(cchv_stdio_config_set_log(config, CCHV_STDOUT, "/l", 10), 0);
	CHECK_INT(cchv_stdio_config_set_log(config, CCHV_STDERR, "/l", 20), 0);
	CHECK_INT(stdio_config_check(config, 0, NULL), CCHV_ERR_INVALID);
	close(reader);
}
