/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_stub.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

static cchv_exec *exec;

static void begin(void (*script)(int listener), int with_stdin)
{
	cchv_stdio_config *stdio = NULL;

	stub_begin(script);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_attachable(stdio, CCHV_STDOUT), 0);
	if (with_stdin)
		CHECK_INT(cchv_stdio_config_set_attachable(stdio, CCHV_STDIN), 0);
	exec = stub_start(stdio);
	cchv_stdio_config_free(stdio);
}

static void end(void)
{
	cchv_exec_free(exec);
	stub_end();
}

/* What the owner's socket answers to a first frame, on a connection of our own. */
static const char *knock(const char *json, int *ret_fd)
{
	static struct buf text = BUF_INIT(4096);
	cleanup_json struct json *message = NULL, *reply = NULL;
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/attach.sock", test_dir());
	fd = fd_unix_connect(path, clock_deadline(PATIENCE_MS));
	CHECK(fd >= 0);
	CHECK_INT(json_parse(json, strlen(json), &message, NULL), 0);
	CHECK_INT(frame_send(fd, message, clock_deadline(PATIENCE_MS), NULL), 0);
	stub_until_readable(fd);
	text.len = 0;
	if (frame_recv(fd, &reply, clock_deadline(PATIENCE_MS), NULL) < 0)
		buf_append_string(&text, "closed");
	else
		CHECK_INT(json_print(reply, 0, &text), 0);
	if (ret_fd)
		*ret_fd = fd;
	else
		close(fd);
	return buf_string(&text);
}

#define ATTACH(stream) \
	"{\"kind\":\"attach\",\"version\":1,\"container\":\"\",\"exec\":\"e\",\"stream\":\"" stream "\"}"

/* Writes a line for each byte that comes on a pipe. */
static int trigger[2];

static void write_when_told(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");
	char line[32], byte;
	int number = 0;

	close(trigger[1]);
	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	while (read(trigger[0], &byte, 1) == 1) {
		snprintf(line, sizeof(line), "line %d\n", ++number);
		peer_write(out, line);
	}
	shutdown(out, SHUT_WR);
	snprintf(line, sizeof(line), "%d", number * 7);
	{
		char text[256];

		snprintf(text, sizeof(text),
		         "{\"seq\":1,\"event\":\"exited\",\"container\":\"\",\"exec\":\"e\",\"pid\":7,"
		         "\"status\":0,\"time_ns\":1,\"bytes\":{\"stdout\":%d}}", number * 7);
		peer_send(fd, text);
	}
	peer_expect_close(out);
	script_end(fd);
}

/* How many lines were written when the last tell() returned. */
static unsigned int told;

/* The lines have come: "from now on" is after them. */
static void tell(unsigned int times)
{
	uint64_t deadline = clock_deadline(PATIENCE_MS);

	for (unsigned int i = 0; i < times; i++)
		CHECK_INT(write(trigger[1], "x", 1), 1);
	told += times;
	while (pump_out_received(exec->exec->streams[CCHV_STDOUT].out) < told * 7)
		stub_round(deadline);
}

static void begin_told(void)
{
	told = 0;
	CHECK_INT(pipe2(trigger, O_CLOEXEC), 0);
	begin(write_when_told, 0);
	close(trigger[0]);
}

TEST(output_from_now_on_for_everybody)
{
	cchv_exec *other = NULL;
	cchv_stdio_config *stdio = NULL;
	char text[64] = { 0 };
	int fds[2], socket, late, code = -1;

	begin_told();
	tell(1);
	CHECK_STR(knock(ATTACH("stdout"), &socket), "{\"result\":{}}");
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_fd(stdio, CCHV_STDOUT, fds[1]), 0);
	/* Another handle of the owner. */
	CHECK_INT(vm_enter(vm, NULL), 0);
	CHECK_INT(exec_handle_new(exec->exec, &other, NULL), 0);
	vm_leave(vm);
	CHECK_INT(cchv_exec_attach(other, stdio, PATIENCE_MS, NULL), 0);
	CHECK_INT(cchv_exec_attach(other, stdio, PATIENCE_MS, NULL), CCHV_ERR_STATE);
	close(fds[1]);
	cchv_stdio_config_free(stdio);
	tell(1);
	CHECK_STR(knock(ATTACH("stdout"), &late), "{\"result\":{}}");
	tell(1);
	close(trigger[1]);
	/* The handle that is attached has everything when its wait returns. */
	CHECK_INT(cchv_exec_wait(other, PATIENCE_MS, &code, NULL, NULL), 0);
	CHECK_INT(code, 0);
	CHECK_INT(read(fds[0], text, sizeof(text)), 14);
	CHECK_STR(text, "line 2\nline 3\n");
	CHECK_INT(read(fds[0], text, sizeof(text)), 0);
	CHECK_INT(fd_read_full(socket, text, sizeof(text), clock_deadline(PATIENCE_MS)), 14);
	CHECK_INT(fd_read_full(late, text, sizeof(text), clock_deadline(PATIENCE_MS)), 7);
	CHECK(memcmp(text, "line 3\n", 7) == 0);
	close(fds[0]);
	close(socket);
	close(late);
	cchv_exec_free(other);
	end();
}

/* Looks without waiting, as an event loop does, until the end is known; how long after the start that was. */
static uint64_t poll_for_end(cchv_exec *handle, uint64_t start, uint64_t give_up_ms, int *ret)
{
	struct pollfd p = { .fd = cchv_vm_get_fd(vm), .events = POLLIN };

	while ((*ret = cchv_exec_wait(handle, 0, NULL, NULL, NULL)) == CCHV_ERR_TIMEOUT &&
	       clock_mono_ns() < start + give_up_ms * NS_PER_MS) {
		poll(&p, 1, 20);
		cchv_vm_dispatch(vm, NULL);
	}
	return (clock_mono_ns() - start) / NS_PER_MS;
}

TEST(who_polls_has_all_of_it_before_the_end)
{
	cchv_stdio_config *stdio = NULL;
	char full[4096] = { 0 }, text[64] = { 0 };
	uint64_t start;
	int fds[2], r;

	begin_told();
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(fcntl(fds[1], F_SETPIPE_SZ, sizeof(full)), sizeof(full));
	CHECK_INT(write(fds[1], full, sizeof(full)), sizeof(full));
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_fd(stdio, CCHV_STDOUT, fds[1]), 0);
	CHECK_INT(cchv_exec_attach(exec, stdio, 1000, NULL), 0);
	close(fds[1]);
	cchv_stdio_config_free(stdio);
	start = clock_mono_ns();
	CHECK_INT(write(trigger[1], "x", 1), 1);
	close(trigger[1]);
	/* Nobody reads, for less than the second that an end waits. */
	if (poll_for_end(exec, start, 500, &r) < EXEC_DRAIN_MS)
		CHECK_INT(r, CCHV_ERR_TIMEOUT);
	CHECK_INT(fd_read_full(fds[0], full, sizeof(full), clock_deadline(1000)), sizeof(full));
	poll_for_end(exec, clock_mono_ns(), 10000, &r);
	CHECK_INT(r, 0);
	CHECK_INT(read(fds[0], text, sizeof(text)), 7);
	CHECK_STR(text, "line 1\n");
	close(fds[0]);
	end();
}

TEST(nobody_waits_longer_for_who_does_not_read)
{
	cchv_stdio_config *stdio = NULL;
	char full[4096] = { 0 };
	uint64_t start;
	int fds[2], r;

	begin_told();
	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(fcntl(fds[1], F_SETPIPE_SZ, sizeof(full)), sizeof(full));
	CHECK_INT(write(fds[1], full, sizeof(full)), sizeof(full));
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_fd(stdio, CCHV_STDOUT, fds[1]), 0);
	CHECK_INT(cchv_exec_attach(exec, stdio, 1000, NULL), 0);
	cchv_stdio_config_free(stdio);
	start = clock_mono_ns();
	CHECK_INT(write(trigger[1], "x", 1), 1);
	close(trigger[1]);
	CHECK(poll_for_end(exec, start, 10 * EXEC_DRAIN_MS, &r) >= EXEC_DRAIN_MS);
	CHECK_INT(r, 0);
	close(fds[0]);
	close(fds[1]);
	end();
}

TEST(who_leaves_is_not_missed)
{
	int socket, code = -1;

	begin_told();
	CHECK_STR(knock(ATTACH("stdout"), &socket), "{\"result\":{}}");
	close(socket);
	tell(3);
	close(trigger[1]);
	CHECK_INT(cchv_exec_wait(exec, PATIENCE_MS, &code, NULL, NULL), 0);
	CHECK_INT(code, 0);
	end();
}

TEST(detaching_leaves_the_process_alone)
{
	cchv_stdio_config *stdio = NULL;
	char text[64] = { 0 };
	int fd = -1, code = -1;

	begin_told();
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_pipe(stdio, CCHV_STDOUT), 0);
	CHECK_INT(cchv_exec_attach(exec, stdio, PATIENCE_MS, NULL), 0);
	CHECK_INT(cchv_exec_take_fd(exec, CCHV_STDOUT, &fd, NULL), 0);
	tell(1);
	CHECK_INT(read(fd, text, sizeof(text)), 7);
	close(fd);
	CHECK_INT(cchv_exec_attach(exec, stdio, PATIENCE_MS, NULL), 0);
	CHECK_INT(cchv_exec_detach(exec, NULL), 0);
	CHECK_INT(cchv_exec_detach(exec, NULL), 0);
	tell(1);
	cchv_stdio_config_free(stdio);
	close(trigger[1]);
	CHECK_INT(cchv_exec_wait(exec, PATIENCE_MS, &code, NULL, NULL), 0);
	end();
}

static void write_for_ever(int listener)
{
	int fd = script_control(listener), out;
	unsigned long long id = script_expect(fd, "exec.start");
	char block[65536];

	memset(block, 'y', sizeof(block));
	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	for (int i = 0; i < 64; i++)
		if (fd_write_full(out, block, sizeof(block), clock_deadline(PATIENCE_MS)) < 0)
			_exit(70);
	shutdown(out, SHUT_WR);
	peer_send(fd, EXITED(1, 0, "{\"stdout\":4194304}"));
	peer_expect_close(out);
	script_end(fd);
}

TEST(who_lags_is_disconnected_and_the_process_never_waits)
{
	char block[65536];
	int socket, code = -1;
	size_t total = 0;
	ssize_t n;

	begin(write_for_ever, 0);
	CHECK_STR(knock(ATTACH("stdout"), &socket), "{\"result\":{}}");
	CHECK_INT(cchv_exec_wait(exec, PATIENCE_MS, &code, NULL, NULL), 0);
	CHECK_INT(code, 0);
	while ((n = read(socket, block, sizeof(block))) > 0)
		total += (size_t)n;
	CHECK(total > 0 && total < 4194304);
	close(socket);
	end();
}

static void echo_input(int listener)
{
	int fd = script_control(listener), in, out;
	unsigned long long id = script_expect(fd, "exec.start");
	char text[8] = { 0 };

	in = script_stream(listener, "stdin");
	out = script_stream(listener, "stdout");
	script_reply(fd, id, "{\"pid\":7}");
	if (fd_read_full(in, text, 4, clock_deadline(PATIENCE_MS)) != 4 || strcmp(text, "abcd") != 0)
		_exit(71);
	id = script_expect(fd, "exec.close_stdin");
	script_reply(fd, id, "{}");
	close(in);
	shutdown(out, SHUT_WR);
	peer_send(fd, EXITED(1, 0, "{}"));
	peer_expect_close(out);
	script_end(fd);
}

/* So many bytes have gone to the process. */
static void wait_for_input(uint64_t bytes)
{
	uint64_t deadline = clock_deadline(PATIENCE_MS);

	while (pump_in_sent(exec->exec->streams[CCHV_STDIN].in) < bytes)
		stub_round(deadline);
}

TEST(input_is_mixed_and_ends_only_when_told)
{
	cchv_stdio_config *stdio = NULL;
	int one, two = -1, code = -1;

	begin(echo_input, 1);
	CHECK_STR(knock(ATTACH("stdin"), &one), "{\"result\":{}}");
	CHECK_INT(cchv_stdio_config_new(&stdio), 0);
	CHECK_INT(cchv_stdio_config_set_pipe(stdio, CCHV_STDIN), 0);
	CHECK_INT(cchv_exec_attach(exec, stdio, PATIENCE_MS, NULL), 0);
	CHECK_INT(cchv_exec_take_fd(exec, CCHV_STDIN, &two, NULL), 0);
	cchv_stdio_config_free(stdio);
	CHECK_INT(write(one, "ab", 2), 2);
	wait_for_input(2);
	/* A client's end is not the end. */
	close(one);
	stub_serve(50);
	CHECK_INT(write(two, "cd", 2), 2);
	wait_for_input(4);
	CHECK_STR(knock("{\"kind\":\"close_stdin\",\"version\":1,\"container\":\"\",\"exec\":\"e\"}", NULL),
	          "{\"result\":{}}");
	CHECK_INT(cchv_exec_wait(exec, PATIENCE_MS, &code, NULL, NULL), 0);
	CHECK_INT(code, 0);
	close(two);
	end();
}

TEST(what_makes_no_sense_is_refused)
{
	int fd, code;

	begin_told();
	CHECK_CONTAINS(knock(ATTACH("stderr"), NULL), "\"code\":-3");
	CHECK_CONTAINS(knock(ATTACH("stdlog"), NULL), "\"code\":-15");
	CHECK_CONTAINS(knock("{\"kind\":\"attach\",\"version\":1,\"exec\":\"f\",\"stream\":\"stdout\"}",
	                     NULL), "\"code\":-6");
	CHECK_CONTAINS(knock("{\"kind\":\"attach\",\"version\":1,\"container\":5}", NULL), "\"code\":-15");
	CHECK_CONTAINS(knock("{\"kind\":\"attach\",\"version\":2}", NULL), "\"code\":-8");
	CHECK_CONTAINS(knock("{\"kind\":\"sing\",\"version\":1}", NULL), "\"code\":-8");
	fd = fd_unix_connect(vm->guest->attach ? "/nonexistent" : "", 0);
	CHECK_INT(fd, -1);
	close(trigger[1]);
	CHECK_INT(cchv_exec_wait(exec, PATIENCE_MS, &code, NULL, NULL), 0);
	CHECK_CONTAINS(knock(ATTACH("stdout"), NULL), "\"code\":-3");
	end();
}

TEST(rubbish_and_silence_are_shown_out)
{
	char path[200], byte;
	uint64_t start;
	int fds[3], code;

	begin_told();
	snprintf(path, sizeof(path), "%s/attach.sock", test_dir());
	start = clock_mono_ns();
	for (int i = 0; i < 3; i++)
		fds[i] = fd_unix_connect(path, clock_deadline(PATIENCE_MS));
	CHECK_INT(write(fds[0], "\xff\xff\xff\xff", 4), 4);
	/* Input before the answer. */
	CHECK_INT(write(fds[1], "\x02\0\0\0{}x", 7), 7);
	for (int i = 0; i < 2; i++) {
		stub_until_readable(fds[i]);
		/* Closed; with what it did not read left, that is a reset. */
		CHECK(recv(fds[i], &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET);
	}
	/* Silence, for five seconds. */
	stub_until_readable(fds[2]);
	CHECK_INT(recv(fds[2], &byte, 1, MSG_DONTWAIT), 0);
	CHECK(clock_mono_ns() - start > 4500 * NS_PER_MS);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(trigger[1]);
	CHECK_INT(cchv_exec_wait(exec, PATIENCE_MS, &code, NULL, NULL), 0);
	end();
	CHECK_INT(access(path, F_OK), -1);
}
