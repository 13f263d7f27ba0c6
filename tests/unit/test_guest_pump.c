/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/pump.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#define DEADLINE_MS 10000

struct fixture {
	struct loop *loop;
	struct pumps *pumps;
	int process; /* the process's end of its pipe */
	int host;    /* the host's end of the stream */
	int called;
};

static void on_called(void *user_data)
{
	((struct fixture *)user_data)->called++;
}

static void set_up(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->process = f->host = -1;
	signal(SIGPIPE, SIG_IGN);
	CHECK_INT(loop_new(&f->loop, NULL), 0);
	CHECK_INT(pumps_new(f->loop, &f->pumps, NULL), 0);
}

static void tear_down(struct fixture *f)
{
	pumps_free(f->pumps);
	loop_free(f->loop);
	fd_close(&f->process);
	fd_close(&f->host);
}

/* The agent's ends: of a pipe and of a socket, as exec_start.c and listen.c make them. */
static void make_ends(struct fixture *f, int out, int *ret_pipe, int *ret_sock)
{
	int pipe_fds[2], pair[2];

	CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
	CHECK_INT(fd_socketpair(pair), 0);
	f->process = pipe_fds[out ? 1 : 0];
	*ret_pipe = pipe_fds[out ? 0 : 1];
	f->host = pair[0];
	*ret_sock = pair[1];
	CHECK_INT(fd_set_nonblock(*ret_pipe, 1), 0);
	CHECK_INT(fd_set_nonblock(*ret_sock, 1), 0);
}

static struct pump_out *start_out(struct fixture *f)
{
	struct pump_out *p = NULL;
	int pipe_fd, sock;

	make_ends(f, 1, &pipe_fd, &sock);
	CHECK_INT(pump_out_new(f->pumps, pipe_fd, 0, sock, on_called, f, &p, NULL), 0);
	return p;
}

static struct pump_in *start_in(struct fixture *f, int counted)
{
	struct pump_in *p = NULL;
	int pipe_fd, sock;

	make_ends(f, 0, &pipe_fd, &sock);
	CHECK_INT(pump_in_new(f->pumps, sock, pipe_fd, 0, counted, on_called, f, &p, NULL), 0);
	return p;
}

/* Run the loop until nothing happens any more. */
static void settle(struct fixture *f)
{
	uint64_t deadline = clock_deadline(DEADLINE_MS);

	while (loop_run_once(f->loop, clock_deadline(0), NULL) > 0)
		CHECK(!clock_passed(deadline));
	pumps_sweep(f->pumps);
}

static void write_all(int fd, const char *text)
{
	CHECK_INT(fd_write_full(fd, text, strlen(text), clock_deadline(DEADLINE_MS)), 0);
}

static void check_read(int fd, const char *text)
{
	char got[64] = { 0 };

	CHECK_INT(fd_read_full(fd, got, strlen(text), clock_deadline(DEADLINE_MS)), strlen(text));
	CHECK_STR(got, text);
}

static int at_end(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

TEST(output_flows_ends_and_waits_for_the_peer)
{
	struct fixture f;
	struct pump_out *p;

	set_up(&f);
	p = start_out(&f);
	write_all(f.process, "hello");
	settle(&f);
	check_read(f.host, "hello");
	CHECK_INT(pump_out_sent(p), 5);
	CHECK_INT(f.called, 0);
	write_all(f.process, "last");
	fd_close(&f.process);
	settle(&f);
	CHECK_INT(f.called, 1);
	CHECK(pump_out_is_drained(p));
	check_read(f.host, "last");
	CHECK(at_end(f.host));
	pump_out_release(p);
	settle(&f);
	/* Half-closed, and alive until the receiver closes. */
	CHECK_INT(pumps_count(f.pumps), 1);
	fd_close(&f.host);
	settle(&f);
	CHECK_INT(pumps_count(f.pumps), 0);
	tear_down(&f);
}

TEST(output_nobody_reads_waits_in_the_pipe)
{
	static char big[1 << 20];
	struct fixture f;
	struct pump_out *p;
	size_t written = 0, got = 0;
	uint64_t before;
	ssize_t n;

	set_up(&f);
	p = start_out(&f);
	CHECK_INT(fd_set_nonblock(f.process, 1), 0);
	for (;;) {
		n = write(f.process, big, sizeof(big));
		if (n > 0)
			written += (size_t)n;
		before = pump_out_sent(p);
		settle(&f);
		if (n < 0 && pump_out_sent(p) == before)
			break;
	}
	/* The loop sleeps although both sides are stuck. */
	CHECK_INT(loop_run_once(f.loop, clock_deadline(20), NULL), 0);
	CHECK(written < 2 * sizeof(big));
	CHECK_INT(pump_out_lost(p), 0);
	fd_close(&f.process);
	while (got < written) {
		n = read(f.host, big, sizeof(big));
		CHECK(n > 0);
		got += (size_t)n;
		settle(&f);
	}
	CHECK_INT(got, written);
	CHECK_INT(pump_out_sent(p), written);
	CHECK_INT(f.called, 1);
	pump_out_release(p);
	tear_down(&f);
}

TEST(lost_output_is_discarded_and_counted)
{
	struct fixture f;
	struct pump_out *p;
	char block[4096] = { 0 };

	set_up(&f);
	p = start_out(&f);
	write_all(f.process, "seen");
	settle(&f);
	fd_close(&f.host);
	/* Far more than a pipe holds: the process is never blocked, and gets no SIGPIPE. */
	for (int i = 0; i < 100; i++) {
		CHECK_INT(write(f.process, block, sizeof(block)), sizeof(block));
		settle(&f);
	}
	CHECK_INT(pump_out_sent(p) + pump_out_lost(p), 4 + 100 * sizeof(block));
	CHECK(pump_out_lost(p) > 0);
	CHECK_INT(f.called, 0);
	fd_close(&f.process);
	settle(&f);
	CHECK_INT(f.called, 1);
	pump_out_release(p);
	settle(&f);
	CHECK_INT(pumps_count(f.pumps), 0);
	tear_down(&f);
}

TEST(a_host_that_only_half_closes_still_gets_its_output)
{
	struct fixture f;
	struct pump_out *p;

	set_up(&f);
	p = start_out(&f);
	CHECK_INT(shutdown(f.host, SHUT_WR), 0);
	settle(&f);
	write_all(f.process, "still here");
	fd_close(&f.process);
	settle(&f);
	CHECK_INT(pump_out_sent(p), 10);
	CHECK_INT(pump_out_lost(p), 0);
	check_read(f.host, "still here");
	CHECK(at_end(f.host));
	pump_out_release(p);
	tear_down(&f);
}

TEST(output_without_a_connection_is_read_on)
{
	struct fixture f;
	struct pump_out *p = NULL;
	int pipe_fds[2];

	set_up(&f);
	CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
	f.process = pipe_fds[1];
	CHECK_INT(fd_set_nonblock(pipe_fds[0], 1), 0);
	CHECK_INT(pump_out_new(f.pumps, pipe_fds[0], 0, -1, on_called, &f, &p, NULL), 0);
	write_all(f.process, "nobody");
	settle(&f);
	CHECK_INT(pump_out_lost(p), 6);
	fd_close(&f.process);
	settle(&f);
	CHECK_INT(f.called, 1);
	pump_out_release(p);
	tear_down(&f);
}

TEST(a_released_output_pump_goes_on)
{
	struct fixture f;

	set_up(&f);
	pump_out_release(start_out(&f));
	write_all(f.process, "late");
	settle(&f);
	check_read(f.host, "late");
	CHECK_INT(pumps_count(f.pumps), 1);
	fd_close(&f.process);
	settle(&f);
	CHECK_INT(f.called, 0);
	fd_close(&f.host);
	settle(&f);
	CHECK_INT(pumps_count(f.pumps), 0);
	tear_down(&f);
}

TEST(input_ends_with_the_half_close)
{
	struct fixture f;
	struct pump_in *p;

	set_up(&f);
	p = start_in(&f, 0);
	write_all(f.host, "abc");
	settle(&f);
	check_read(f.process, "abc");
	CHECK_INT(shutdown(f.host, SHUT_WR), 0);
	settle(&f);
	CHECK_INT(pump_in_moved(p), 3);
	CHECK_INT(fd_read_full(f.process, (char[1]){ 0 }, 1, clock_deadline(0)), 0);
	/* The receiver closed, as the sender waits for. */
	CHECK(at_end(f.host));
	CHECK_INT(f.called, 0);
	pump_in_release(p);
	tear_down(&f);
}

TEST(counted_input_ends_with_its_count)
{
	struct fixture f;
	struct pump_in *p;

	set_up(&f);
	p = start_in(&f, 1);
	pump_in_limit(p, 6);
	write_all(f.host, "abc");
	settle(&f);
	check_read(f.process, "abc");
	CHECK(!at_end(f.host));
	write_all(f.host, "def-beyond");
	settle(&f);
	check_read(f.process, "def");
	CHECK_INT(fd_read_full(f.process, (char[1]){ 0 }, 1, clock_deadline(0)), 0);
	CHECK_INT(f.called, 0);
	pump_in_release(p);
	tear_down(&f);
}

TEST(the_count_may_come_after_the_half_close)
{
	struct fixture f;
	struct pump_in *p;

	set_up(&f);
	p = start_in(&f, 1);
	write_all(f.host, "abc");
	CHECK_INT(shutdown(f.host, SHUT_WR), 0);
	settle(&f);
	CHECK_INT(f.called, 0);
	check_read(f.process, "abc");
	CHECK_INT(loop_run_once(f.loop, clock_deadline(20), NULL), 0);
	pump_in_limit(p, 3);
	settle(&f);
	CHECK_INT(fd_read_full(f.process, (char[1]){ 0 }, 1, clock_deadline(0)), 0);
	CHECK_INT(f.called, 0);
	pump_in_release(p);
	tear_down(&f);
}

TEST(counted_input_that_ends_early_is_lost_and_the_process_waits)
{
	struct fixture f;
	struct pump_in *p;
	char byte;

	set_up(&f);
	p = start_in(&f, 1);
	pump_in_limit(p, 10);
	write_all(f.host, "abc");
	fd_close(&f.host);
	settle(&f);
	CHECK_INT(f.called, 1);
	check_read(f.process, "abc");
	CHECK_INT(fd_set_nonblock(f.process, 1), 0);
	CHECK_INT(read(f.process, &byte, 1), -1);
	CHECK_INT(errno, EAGAIN);
	/* The host gives it up: now the process may see an end. */
	pump_in_limit(p, 3);
	CHECK_INT(read(f.process, &byte, 1), 0);
	pump_in_release(p);
	tear_down(&f);
}

TEST(a_count_that_never_comes_is_a_loss)
{
	struct fixture f;
	struct pump_in *p;
	uint64_t deadline = clock_deadline(DEADLINE_MS);

	set_up(&f);
	p = start_in(&f, 1);
	fd_close(&f.host);
	while (!f.called && !clock_passed(deadline))
		loop_run_once(f.loop, deadline, NULL);
	CHECK_INT(f.called, 1);
	pump_in_release(p);
	tear_down(&f);
}

TEST(a_process_that_closes_its_stdin_closes_the_connection)
{
	struct fixture f;
	struct pump_in *p;

	set_up(&f);
	p = start_in(&f, 0);
	fd_close(&f.process);
	settle(&f);
	CHECK(at_end(f.host));
	CHECK_INT(f.called, 0);
	pump_in_release(p);
	settle(&f);
	CHECK_INT(pumps_count(f.pumps), 0);
	tear_down(&f);
}

TEST(input_nobody_reads_waits_and_then_flows)
{
	static char big[1 << 20];
	struct fixture f;
	struct pump_in *p;
	size_t written = 0, got = 0;
	uint64_t before;
	ssize_t n;

	set_up(&f);
	p = start_in(&f, 0);
	for (;;) {
		n = send(f.host, big, sizeof(big), MSG_DONTWAIT);
		if (n > 0)
			written += (size_t)n;
		before = pump_in_moved(p);
		settle(&f);
		if (n < 0 && pump_in_moved(p) == before)
			break;
	}
	CHECK_INT(loop_run_once(f.loop, clock_deadline(20), NULL), 0);
	CHECK_INT(shutdown(f.host, SHUT_WR), 0);
	while (got < written) {
		settle(&f);
		n = read(f.process, big, sizeof(big));
		CHECK(n > 0);
		got += (size_t)n;
	}
	CHECK_INT(pump_in_moved(p), written);
	pump_in_release(p);
	tear_down(&f);
}
