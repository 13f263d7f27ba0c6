/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_stub.h"

#include <errno.h>
#include <fcntl.h>

static cchv_exec *exec;

static void count_input(int listener)
{
	int fd = script_control(listener), in;
	unsigned long long id = script_expect(fd, "exec.start");
	char block[300000];
	const char *got;

	in = script_stream(listener, "stdin");
	script_reply(fd, id, "{\"pid\":7}");
	if (fd_read_full(in, block, sizeof(block), clock_deadline(10000)) != sizeof(block))
		_exit(60);
	got = peer_recv(fd);
	if (!strstr(got, "exec.close_stdin") || !strstr(got, "\"bytes\":300000}")) {
		fprintf(stderr, "script got %s\n", got);
		_exit(61);
	}
	/* The connection is still open: a close before the count is known would be a loss. */
	if (recv(in, block, 1, MSG_DONTWAIT) != -1)
		_exit(62);
	close(in);
	peer_send(fd, EXITED(1, 0, "{}"));
	script_end(fd);
}

TEST(a_pumped_input_ends_by_its_count)
{
	cchv_stdio_config *stdio = NULL;
	char path[200];
	int fd, code = -1;

	stub_begin(count_input);
	snprintf(path, sizeof(path), "%s/in", test_dir());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(ftruncate(fd, 300000), 0);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_fd(stdio, CCHV_STDIN, fd), 0);
	close(fd);
	exec = stub_start(stdio);
	cchv_stdio_config_free(stdio);
	CHECK_INT(cchv_exec_wait(exec, 10000, &code, NULL, NULL), 0);
	CHECK_INT(code, 0);
	CHECK_INT(cchv_exec_close_stdin(exec, NULL), 0);
	cchv_exec_free(exec);
	stub_end();
}

static void end_early(int listener)
{
	int fd = script_control(listener), in;
	unsigned long long id = script_expect(fd, "exec.start");

	in = script_stream(listener, "stdin");
	script_reply(fd, id, "{\"pid\":7}");
	peer_send(fd, EXITED(1, 0, "{}"));
	peer_expect_close(in);
	script_end(fd);
}

TEST(an_input_is_not_read_for_a_process_that_is_gone)
{
	cchv_stdio_config *stdio = NULL;
	int fds[2], code = -1;
	char byte;

	stub_begin(end_early);
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_fd(stdio, CCHV_STDIN, fds[0]), 0);
	exec = stub_start(stdio);
	cchv_stdio_config_free(stdio);
	CHECK_INT(cchv_exec_wait(exec, 5000, &code, NULL, NULL), 0);
	CHECK_INT(write(fds[1], "x", 1), 1);
	stub_serve(100);
	CHECK_INT(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	close(fds[1]);
	cchv_exec_free(exec);
	stub_end();
}

static void say_both(int listener)
{
	int fd = script_control(listener), out, errors;
	unsigned long long id = script_expect(fd, "exec.start");

	out = script_stream(listener, "stdout");
	errors = script_stream(listener, "stderr");
	script_reply(fd, id, "{\"pid\":7}");
	peer_write(out, "out\n");
	peer_write(errors, "err\n");
	shutdown(out, SHUT_WR);
	shutdown(errors, SHUT_WR);
	peer_send(fd, EXITED(1, 0, "{\"stdout\":4,\"stderr\":4}"));
	peer_expect_close(out);
	peer_expect_close(errors);
	script_end(fd);
}

TEST(one_log_for_two_streams_and_a_pipe_beside_it)
{
	cchv_stdio_config *stdio = NULL;
	char path[200], text[32] = { 0 };
	cchv_stats *stats = NULL;
	uint64_t value = 0;
	int fds[2], fd;

	stub_begin(say_both);
	snprintf(path, sizeof(path), "%s/log", test_dir());
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_log(stdio, CCHV_STDOUT, path, 1000), 0);
	CHECK_INT(cchv_stdio_config_set_log(stdio, CCHV_STDERR, path, 1000), 0);
	CHECK_INT(cchv_stdio_config_set_fd(stdio, CCHV_STDERR, fds[1]), 0);
	close(fds[1]);
	exec = stub_start(stdio);
	cchv_stdio_config_free(stdio);
	CHECK_INT(cchv_exec_wait(exec, 5000, NULL, NULL, NULL), 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_INT(read(fd, text, sizeof(text)), 8);
	CHECK(strstr(text, "out\n") && strstr(text, "err\n"));
	close(fd);
	memset(text, 0, sizeof(text));
	CHECK_INT(read(fds[0], text, sizeof(text)), 4);
	CHECK_STR(text, "err\n");
	close(fds[0]);
	CHECK_INT(cchv_exec_get_stats(exec, &stats, NULL), 0);
	CHECK_INT(cchv_stats_find(stats, "stdout.bytes", &value), 0);
	CHECK_INT(value, 4);
	CHECK_INT(cchv_stats_find(stats, "stderr.lost_bytes", &value), 0);
	CHECK_INT(value, 0);
	CHECK_INT(cchv_stats_find(stats, "stderr.lost_errno", &value), 0);
	CHECK_INT(value, 0);
	cchv_stats_free(stats);
	cchv_exec_free(exec);
	stub_end();
}

TEST(what_a_full_disk_did_not_take_is_counted_with_the_reason)
{
	cchv_stdio_config *stdio = NULL;
	cchv_stats *stats = NULL;
	uint64_t value = 0;
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	stub_begin(say_both);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_fd(stdio, CCHV_STDOUT, fd), 0);
	CHECK_INT(cchv_stdio_config_set_fd(stdio, CCHV_STDERR, fd), 0);
	close(fd);
	exec = stub_start(stdio);
	cchv_stdio_config_free(stdio);
	CHECK_INT(cchv_exec_wait(exec, 5000, NULL, NULL, NULL), 0);
	CHECK_INT(cchv_exec_get_stats(exec, &stats, NULL), 0);
	CHECK_INT(cchv_stats_find(stats, "stdout.lost_bytes", &value), 0);
	CHECK_INT(value, 4);
	CHECK_INT(cchv_stats_find(stats, "stderr.lost_errno", &value), 0);
	CHECK_INT(value, ENOSPC);
	cchv_stats_free(stats);
	cchv_exec_free(exec);
	stub_end();
}

static void never_start(int listener)
{
	int fd = script_control(listener);

	script_end(fd);
}

TEST(a_log_that_cannot_be_opened_starts_nothing)
{
	cchv_stdio_config *stdio = NULL;
	cleanup_err cchv_error *err = NULL;

	stub_begin(never_start);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_log(stdio, CCHV_STDOUT, "/nonexistent/log", 0), 0);
	CHECK_INT(stub_exec(stdio, 5000, &exec, &err), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(cchv_error_message(err), "/nonexistent/log");
	CHECK_INT(stub_count_execs(), 0);
	cchv_stdio_config_free(stdio);
	stub_end();
}

static void run_on(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");

	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	/* The host may have gone by now. */
	send(out, "x", 1, MSG_NOSIGNAL);
	script_end(fd);
	close(out);
}

TEST(handles_outlive_the_vm)
{
	cchv_stdio_config *stdio = NULL;
	cleanup_err cchv_error *err = NULL;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	stub_begin(run_on);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_fd(stdio, CCHV_STDOUT, fd), 0);
	close(fd);
	exec = stub_start(stdio);
	cchv_stdio_config_free(stdio);
	stub_end();
	CHECK_INT(cchv_exec_wait(exec, 0, NULL, NULL, &err), CCHV_ERR_STATE);
	CHECK_INT(cchv_exec_attach(exec, NULL, 0, NULL), CCHV_ERR_INVALID);
	CHECK_STR(cchv_exec_get_id(exec), "e");
	CHECK_INT(cchv_exec_get_pid(exec), 7);
	cchv_exec_free(exec);
}

TEST(a_child_of_fork_only_frees)
{
	cchv_stdio_config *stdio = NULL;
	int fds[2], status;
	char byte;
	pid_t pid;

	stub_begin(run_on);
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_fd(stdio, CCHV_STDOUT, fds[1]), 0);
	close(fds[1]);
	exec = stub_start(stdio);
	cchv_stdio_config_free(stdio);
	pid = fork();
	if (pid == 0) {
		int r = cchv_exec_wait(exec, 0, NULL, NULL, NULL) == CCHV_ERR_FORKED &&
		        cchv_exec_get_pid(exec) == CCHV_ERR_FORKED;

		cchv_exec_free(exec);
		_exit(!r);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
	/* The parent's streams flow on. */
	stub_serve(100);
	CHECK_INT(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	cchv_exec_free(exec);
	stub_end();
}
