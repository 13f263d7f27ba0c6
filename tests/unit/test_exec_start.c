/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_stub.h"

static void start_and_exit(int listener)
{
	int fd = script_control(listener);
	unsigned long long id = script_expect(fd, "exec.start");

	script_reply(fd, id, "{\"pid\":7}");
	peer_send(fd, EXITED(1, 768, "{}"));
	script_expect(fd, "ack");
	peer_expect_close(fd);
}

TEST(one_request_and_one_notification)
{
	int code = -5, signal_number = -5;
	cchv_exec *exec;

	stub_begin(start_and_exit);
	exec = stub_start(NULL);
	CHECK_INT(cchv_exec_get_pid(exec), 7);
	CHECK_STR(cchv_exec_get_id(exec), "e");
	CHECK_INT(cchv_exec_wait(exec, 5000, &code, &signal_number, NULL), 0);
	CHECK_INT(code, 3);
	CHECK_INT(signal_number, 0);
	CHECK_INT(cchv_exec_get_state(exec), CCHV_EXEC_EXITED);
	CHECK_STR(stub_events(), "exec_started exited(3/0) ");
	CHECK_INT(stub_count_execs(), 1);
	cchv_exec_free(exec);
	/* Nobody needs it any more here; the guest keeps its record. */
	CHECK_INT(stub_count_execs(), 0);
	stub_end();
}

static void exit_before_the_reply(int listener)
{
	int fd = script_control(listener);
	unsigned long long id = script_expect(fd, "exec.start");

	peer_send(fd, EXITED(1, 9, "{}"));
	script_reply(fd, id, "{\"pid\":7}");
	script_end(fd);
}

TEST(an_end_that_comes_before_the_reply_is_told_after_the_start)
{
	int code = -5, signal_number = -5;
	cchv_exec *exec;

	stub_begin(exit_before_the_reply);
	exec = stub_start(NULL);
	CHECK_INT(cchv_exec_wait(exec, 5000, &code, &signal_number, NULL), 0);
	CHECK_INT(code, -1);
	CHECK_INT(signal_number, 9);
	CHECK_STR(stub_events(), "exec_started exited(-1/9) ");
	cchv_exec_free(exec);
	stub_end();
}

static void refuse(int listener)
{
	int fd = script_control(listener);

	script_refuse(fd, script_expect(fd, "exec.start"), "program", "ENOENT");
	script_refuse(fd, script_expect(fd, "exec.start"), "program", "EACCES");
	script_end(fd);
}

TEST(a_program_that_cannot_run_leaves_nothing)
{
	cleanup_err cchv_error *err = NULL;
	cchv_exec *exec = NULL;

	stub_begin(refuse);
	CHECK_INT(stub_exec(NULL, 5000, &exec, &err), CCHV_ERR_NOT_FOUND);
	CHECK_INT(cchv_error_errno(err), ENOENT);
	cchv_error_free(steal(&err));
	/* The same id again: the first is forgotten. */
	CHECK_INT(stub_exec(NULL, 5000, &exec, &err), CCHV_ERR_DENIED);
	CHECK(!exec);
	CHECK_INT(stub_count_execs(), 0);
	CHECK_STR(stub_events(), "");
	stub_end();
}

static void answer_too_late(int listener)
{
	int fd = script_control(listener);
	unsigned long long id = script_expect(fd, "exec.start"), kill_id, delete_id;

	/* The host gives up and says so by another request. */
	script_reply(fd, script_expect(fd, "exec.start"), "{\"pid\":8}");
	script_reply(fd, id, "{\"pid\":7}");
	kill_id = script_expect(fd, "exec.signal");
	script_reply(fd, kill_id, "{}");
	peer_send(fd, EXITED(1, 9, "{}"));
	delete_id = script_expect(fd, "ack");
	delete_id = script_expect(fd, "exec.delete");
	script_reply(fd, delete_id, "{}");
	script_end(fd);
}

TEST(a_start_nobody_waits_for_is_undone)
{
	cleanup_err cchv_error *err = NULL;
	cchv_exec *exec = NULL, *other = NULL;
	cchv_exec_config *config = NULL;

	stub_begin(answer_too_late);
	CHECK_INT(stub_exec(NULL, 50, &exec, &err), CCHV_ERR_TIMEOUT);
	CHECK_INT(stub_count_execs(), 1);
	cchv_error_free(steal(&err));
	/* Its id is still taken. */
	CHECK_INT(stub_exec(NULL, 50, &exec, &err), CCHV_ERR_EXISTS);
	CHECK_INT(cchv_exec_config_new(&config), 0);
	CHECK_INT(cchv_exec_config_add_arg(config, "x"), 0);
	CHECK_INT(cchv_vm_exec(vm, config, 5000, &other, NULL), 0);
	cchv_exec_config_free(config);
	for (int i = 0; i < 100 && stub_count_execs() > 1; i++)
		stub_serve(20);
	CHECK_INT(stub_count_execs(), 1);
	CHECK_STR(stub_events(), "exec_started ");
	cchv_exec_free(other);
	stub_end();
}

static void break_off(int listener)
{
	int fd = script_control(listener);
	unsigned long long kill_id;

	script_expect(fd, "exec.start");
	close(fd);
	/* The host comes back, and ends what perhaps was started. */
	fd = script_control(listener);
	kill_id = script_expect(fd, "exec.signal");
	script_refuse(fd, kill_id, "exec", "ENOENT");
	script_end(fd);
}

TEST(a_connection_that_breaks_while_it_starts)
{
	cleanup_err cchv_error *err = NULL;
	cchv_exec *exec = NULL;

	stub_begin(break_off);
	CHECK_INT(stub_exec(NULL, 5000, &exec, &err), CCHV_ERR_GUEST_GONE);
	stub_serve(300);
	CHECK_INT(stub_count_execs(), 0);
	stub_end();
}

static void never_bind(int listener)
{
	int fd = script_control(listener), stream;
	unsigned long long id = script_expect(fd, "exec.start");

	stream = peer_accept(listener);
	peer_read_connect(stream, "CONNECT 1024\n");
	peer_write(stream, "rubbish, no OK\n");
	peer_expect_close(stream);
	script_refuse(fd, id, "stream", "ETIMEDOUT");
	script_end(fd);
}

TEST(a_stream_that_cannot_be_opened_is_why)
{
	cchv_stdio_config *stdio = NULL;
	cleanup_err cchv_error *err = NULL;
	cchv_exec *exec = NULL;

	stub_begin(never_bind);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_pipe(stdio, CCHV_STDOUT), 0);
	CHECK_INT(stub_exec(stdio, 5000, &exec, &err), CCHV_ERR_PROTOCOL);
	CHECK_CONTAINS(cchv_error_message(err), "stdout");
	cchv_stdio_config_free(stdio);
	/* The agent's refusal is waited for in the background. */
	for (int i = 0; i < 100 && stub_count_execs(); i++)
		stub_serve(20);
	CHECK_INT(stub_count_execs(), 0);
	stub_end();
}

static void hand_out(int listener)
{
	int fd = script_control(listener), in, out;
	unsigned long long id = script_expect(fd, "exec.start");
	char text[8] = { 0 };

	in = script_stream(listener, "stdin");
	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	peer_write(out, "hello");
	shutdown(out, SHUT_WR);
	if (fd_read_full(in, text, 3, clock_deadline(5000)) != 3 || strcmp(text, "abc") != 0)
		_exit(50);
	/* The caller's close is the end of input. */
	peer_expect_close(in);
	peer_send(fd, EXITED(1, 0, "{\"stdout\":5}"));
	peer_expect_close(out);
	script_end(fd);
}

TEST(taken_streams_are_the_callers)
{
	cchv_stdio_config *stdio = NULL;
	int in = -1, out = -1, code = -1;
	char text[16] = { 0 };
	cchv_exec *exec;

	stub_begin(hand_out);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_pipe(stdio, CCHV_STDIN), 0);
	CHECK_INT(cchv_stdio_config_set_pipe(stdio, CCHV_STDOUT), 0);
	exec = stub_start(stdio);
	cchv_stdio_config_free(stdio);
	CHECK_INT(cchv_exec_take_fd(exec, CCHV_STDIN, &in, NULL), 0);
	CHECK_INT(cchv_exec_take_fd(exec, CCHV_STDOUT, &out, NULL), 0);
	CHECK_INT(cchv_exec_take_fd(exec, CCHV_STDOUT, &out, NULL), CCHV_ERR_STATE);
	CHECK_INT(cchv_exec_take_fd(exec, CCHV_STDERR, &out, NULL), CCHV_ERR_STATE);
	CHECK_INT(cchv_exec_close_stdin(exec, NULL), CCHV_ERR_STATE);
	/* Blocking, and without any call of the library in between. */
	CHECK_INT(read(out, text, sizeof(text)), 5);
	CHECK_STR(text, "hello");
	CHECK_INT(read(out, text, sizeof(text)), 0);
	CHECK_INT(write(in, "abc", 3), 3);
	close(in);
	close(out);
	CHECK_INT(cchv_exec_wait(exec, 5000, &code, NULL, NULL), 0);
	CHECK_INT(code, 0);
	cchv_exec_free(exec);
	stub_end();
}
