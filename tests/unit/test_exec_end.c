/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_stub.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

static cchv_exec *exec;
static int reader;
static int with_log; /* then bytes are copied, and a pipe holds 64 KiB of them, not 16 pieces of any size */

/* One process whose stdout goes to a pipe of ours. */
static void begin(void (*script)(int listener))
{
	cchv_stdio_config *stdio = NULL;
	int fds[2];

	stub_begin(script);
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_fd(stdio, CCHV_STDOUT, fds[1]), 0);
	if (with_log) {
		char path[200];

		snprintf(path, sizeof(path), "%s/log", test_dir());
		CHECK_INT(cchv_stdio_config_set_log(stdio, CCHV_STDOUT, path, 0), 0);
	}
	close(fds[1]);
	reader = fds[0];
	exec = stub_start(stdio);
	cchv_stdio_config_free(stdio);
}

static void end(void)
{
	close(reader);
	cchv_exec_free(exec);
	stub_end();
}

static int wait_ms(int *ret_code)
{
	uint64_t start = clock_mono_ns();

	CHECK_INT(cchv_exec_wait(exec, 10000, ret_code, NULL, NULL), 0);
	return (int)((clock_mono_ns() - start) / NS_PER_MS);
}

static void tell_the_end_before_the_bytes(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");

	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	peer_send(fd, EXITED(1, 0, "{\"stdout\":9}"));
	poll(NULL, 0, 300);
	peer_write(out, "last words");
	shutdown(out, SHUT_WR);
	peer_expect_close(out);
	script_end(fd);
}

TEST(the_end_waits_for_the_last_byte)
{
	char text[16] = { 0 };
	int code = -1, ms;

	begin(tell_the_end_before_the_bytes);
	ms = wait_ms(&code);
	CHECK(ms >= 250 && ms < 950);
	CHECK(read(reader, text, sizeof(text)) >= 9);
	end();
}

static void promise_too_much(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");

	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	peer_send(fd, EXITED(1, 0, "{\"stdout\":100}"));
	script_expect(fd, "ack");
	/* A grandchild holds the stream, and writes later. */
	peer_write(out, "late");
	shutdown(out, SHUT_WR);
	peer_expect_close(out);
	script_end(fd);
}

TEST(bytes_that_do_not_come_delay_it_by_one_second)
{
	char text[16] = { 0 };
	int code = -1, ms;

	begin(promise_too_much);
	ms = wait_ms(&code);
	CHECK(ms >= 900 && ms < 2000);
	CHECK_STR(stub_events(), "exec_started exited(0/0) ");
	/* What comes later still flows. */
	stub_serve(200);
	CHECK_INT(read(reader, text, sizeof(text)), 4);
	CHECK_STR(text, "late");
	CHECK_INT(read(reader, text, sizeof(text)), 0);
	end();
}

static void hold_the_stream(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");

	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	peer_write(out, "own");
	peer_send(fd, EXITED(1, 0, "{\"stdout\":3}"));
	script_expect(fd, "ack");
	/* The host closes, though we did not. */
	peer_expect_close(out);
	script_end(fd);
}

TEST(output_that_is_closed_has_ended)
{
	char text[16] = { 0 };

	begin(hold_the_stream);
	wait_ms(NULL);
	CHECK_INT(cchv_exec_close_output(exec, NULL), 0);
	CHECK_INT(read(reader, text, sizeof(text)), 3);
	CHECK_INT(read(reader, text, sizeof(text)), 0);
	CHECK_INT(cchv_exec_close_output(exec, NULL), 0);
	end();
}

static void write_much(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");
	char block[100000];

	memset(block, 'x', sizeof(block));
	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	if (fd_write_full(out, block, sizeof(block), clock_deadline(5000)) < 0)
		_exit(51);
	shutdown(out, SHUT_WR);
	poll(NULL, 0, 2000);
	peer_send(fd, EXITED(1, 0, "{\"stdout\":100000}"));
	peer_expect_close(out);
	script_end(fd);
}

TEST(a_reader_that_was_stuck_before_has_had_its_second)
{
	char block[4096];
	int code = -1, ms;
	size_t total = 0;
	ssize_t n;

	with_log = 1;
	begin(write_much);
	/* The pipe is full from the first moment on, the exit comes after 2 s; a second more would be one too many. */
	ms = wait_ms(&code);
	CHECK(ms >= 1500 && ms < 2900);
	while (total < 100000) {
		n = read(reader, block, sizeof(block));
		CHECK(n > 0);
		total += (size_t)n;
		stub_serve(1);
	}
	end();
}

static void sleep_on(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");

	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	peer_write(out, "before");
	/* Until the VMM is "killed": the host closes. */
	script_end(fd);
	close(out);
}

static void *stop_soon(void *unused)
{
	struct pollfd output = { .fd = reader, .events = POLLIN };

	(void)unused;
	CHECK_INT(poll(&output, 1, 10000), 1);
	stub_stop();
	return NULL;
}

TEST(the_end_of_the_vm_ends_a_wait)
{
	cleanup_err cchv_error *err = NULL;
	char text[16] = { 0 };
	pthread_t thread;
	int code = 5;

	begin(sleep_on);
	CHECK_INT(pthread_create(&thread, NULL, stop_soon, NULL), 0);
	CHECK_INT(cchv_exec_wait(exec, 10000, &code, NULL, &err), CCHV_ERR_VMM_GONE);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_CONTAINS(cchv_error_message(err), "VMM killed by signal 9");
	cchv_error_free(steal(&err));
	CHECK_INT(code, 5);
	CHECK_INT(cchv_exec_get_state(exec), CCHV_EXEC_EXITED);
	/* Output that had come is there; and there is no made-up exit. */
	CHECK_INT(read(reader, text, sizeof(text)), 6);
	CHECK_STR(stub_events(), "exec_started state stopped ");
	CHECK_INT(cchv_exec_signal(exec, 9, CCHV_SIGNAL_GROUP, 1000, &err), CCHV_ERR_VMM_GONE);
	end();
}

static void be_asked(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");

	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	peer_send(fd, "{\"seq\":5,\"event\":\"lost\"}");
	id = script_expect(fd, "exec.state");
	script_reply(fd, id,
	             "{\"state\":\"exited\",\"pid\":7,\"status\":1024,\"time_ns\":1,\"bytes\":{\"stdout\":0}}");
	script_end(fd);
	close(out);
}

TEST(lost_notifications_are_made_up_for)
{
	int code = -1;

	begin(be_asked);
	wait_ms(&code);
	CHECK_INT(code, 4);
	end();
}

static void talk_nonsense(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");

	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	peer_send(fd, EXITED(1, 4991, "{}"));
	script_end(fd);
	close(out);
}

TEST(a_wait_status_that_is_none_is_no_exit_code)
{
	cleanup_err cchv_error *err = NULL;
	int code = 7;

	/* 0x137f: stopped, not ended. */
	begin(talk_nonsense);
	CHECK_INT(cchv_exec_wait(exec, 5000, &code, NULL, &err), CCHV_ERR_PROTOCOL);
	CHECK_INT(code, 7);
	end();
}

static void end_when_signalled(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");

	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	id = script_expect(fd, "exec.signal");
	script_reply(fd, id, "{}");
	peer_send(fd, EXITED(1, 15, "{\"stdout\":0}"));
	script_end(fd);
	close(out);
}

static void *wait_in_a_thread(void *ret_signal)
{
	CHECK_INT(cchv_exec_wait(exec, 5000, NULL, ret_signal, NULL), 0);
	return NULL;
}

TEST(several_threads_wait_while_another_signals)
{
	pthread_t threads[4];
	int signals[4] = { 0 };

	begin(end_when_signalled);
	for (int i = 0; i < 4; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, wait_in_a_thread, &signals[i]), 0);
	poll(NULL, 0, 100);
	CHECK_INT(cchv_exec_signal(exec, 15, CCHV_SIGNAL_LEADER, 5000, NULL), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_INT(pthread_join(threads[i], NULL), 0);
		CHECK_INT(signals[i], 15);
	}
	CHECK_STR(stub_events(), "exec_started exited(-1/15) ");
	CHECK_INT(cchv_exec_signal(exec, 15, CCHV_SIGNAL_GROUP, 1000, NULL), CCHV_ERR_NOT_FOUND);
	end();
}

/* Three signals, each to others. */
static void be_signalled(int listener)
{
	static const char *const scopes[] = { "\"scope\":\"group\"", "\"scope\":\"leader\"",
	                                      "\"scope\":\"container\"" };
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");

	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	for (int i = 0; i < 3; i++) {
		const char *got = peer_recv(fd);

		if (sscanf(got, "{\"id\":%llu", &id) != 1 || !strstr(got, "exec.signal") || !strstr(got, scopes[i]))
			_exit(41);
		script_reply(fd, id, "{}");
	}
	peer_send(fd, EXITED(1, 15, "{\"stdout\":0}"));
	script_end(fd);
	close(out);
}

TEST(signals_go_to_whom_they_are_meant_for)
{
	cleanup_err cchv_error *err = NULL;
	int signal = 0;

	begin(be_signalled);
	for (int target = CCHV_SIGNAL_GROUP; target <= CCHV_SIGNAL_CONTAINER; target++)
		CHECK_INT(cchv_exec_signal(exec, 10, target, 5000, NULL), 0);
	CHECK_INT(cchv_exec_signal(exec, 10, 0, 5000, &err), CCHV_ERR_UNSUPPORTED);
	CHECK_INT(cchv_exec_signal(exec, 10, CCHV_SIGNAL_CONTAINER + 1, 5000, NULL), CCHV_ERR_UNSUPPORTED);
	CHECK_INT(cchv_exec_wait(exec, 5000, NULL, &signal, NULL), 0);
	CHECK_INT(signal, 15);
	end();
}

/* Says nothing: the host may close at any moment. */
static void stay_silent(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");

	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	script_end(fd);
	close(out);
}

TEST(looking_once)
{
	cleanup_err cchv_error *err = NULL;
	uint64_t start = clock_mono_ns();

	begin(stay_silent);
	start = clock_mono_ns();
	CHECK_INT(cchv_exec_wait(exec, 0, NULL, NULL, &err), CCHV_ERR_TIMEOUT);
	/* Ten times the promise: a loaded machine is not a fault of ours. */
	CHECK(clock_mono_ns() - start < 2000 * NS_PER_MS);
	CHECK_INT(cchv_exec_delete(exec, 0, NULL), CCHV_ERR_STATE);
	CHECK_INT(cchv_exec_close_output(exec, NULL), CCHV_ERR_STATE);
	end();
}
