/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/pump_out.h"
#include "peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

static struct loop *loop;
static struct pump_scratch *scratch;
static struct pump_out *pump;
static int guest, moves, ended;
static uint64_t teed, tee_sum;

static void see(const void *data, size_t len, void *user_data)
{
	(void)user_data;
	for (size_t i = 0; i < len; i++)
		tee_sum += ((const uint8_t *)data)[i] * (teed + i);
	teed += len;
}

static void moved(void *user_data)
{
	(void)user_data;
	moves++;
	ended = pump_out_has_ended(pump);
}

static void begin(int sink, int with_tee)
{
	struct pump_out_hooks hooks = { .tee = with_tee ? see : NULL, .moved = moved };
	int sockets[2];

	CHECK_INT(loop_new(&loop, NULL), 0);
	scratch = mem_alloc(sizeof(*scratch));
	CHECK_INT(fd_socketpair(sockets), 0);
	CHECK_INT(fd_set_nonblock(sockets[0], 1), 0);
	guest = sockets[1];
	CHECK_INT(pump_out_new(loop, scratch, sockets[0], sink, &hooks, NULL, &pump, NULL), 0);
}

static void end(void)
{
	pump_out_free(pump);
	loop_free(loop);
	free(scratch);
	close(guest);
}

/* A child that sends a known pattern and half-closes; the sum is that of see(). */
static void guest_sends(uint64_t total)
{
	uint8_t block[65536];

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)(i * 31 + i / 251);
	if (fork() != 0)
		return;
	/* No end of a pipe may stay open in here. */
	if (dup2(guest, 0) != 0 || close_range(3, ~0U, 0) < 0)
		_exit(2);
	for (uint64_t sent = 0; sent < total;) {
		size_t n = total - sent < sizeof(block) ? (size_t)(total - sent) : sizeof(block);

		if (fd_write_full(0, block, n, clock_deadline(20000)) < 0)
			_exit(1);
		sent += n;
	}
	shutdown(0, SHUT_WR);
	_exit(0);
}

static uint64_t pattern_sum(uint64_t total)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < total; i++)
		sum += (uint8_t)((i % 65536) * 31 + (i % 65536) / 251) * i;
	return sum;
}

/* A child that adds up what it reads from fd, slowly at first, and tells by its exit code. */
static pid_t reader(int fd, int other, uint64_t total, int patience_ms)
{
	uint64_t seen = 0, sum = 0;
	uint8_t block[5000];
	pid_t pid = fork();
	ssize_t n;

	if (pid)
		return pid;
	close(other);
	poll(NULL, 0, patience_ms);
	while ((n = read(fd, block, sizeof(block))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			sum += block[i] * (seen + (uint64_t)i);
		seen += (uint64_t)n;
	}
	_exit(n < 0 || seen != total || sum != pattern_sum(total));
}

static void expect_success(pid_t pid)
{
	int status;

	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
}

static void copy_to_pipe(uint64_t total, int with_tee, int patience_ms)
{
	int fds[2];
	pid_t pid;

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	/* Before the pump is there: its copy of the pipe must not be inherited. */
	pid = reader(fds[0], fds[1], total, patience_ms);
	begin(fds[1], with_tee);
	guest_sends(total);
	close(fds[1]);
	close(fds[0]);
	/* Only the pump holds the pipe now: its end is the reader's end of file. */
	run_until(loop, &ended);
	CHECK_INT(pump_out_received(pump), total);
	CHECK_INT(pump_out_lost(pump), 0);
	expect_success(pid);
	if (with_tee) {
		CHECK_INT(teed, total);
		CHECK(tee_sum == pattern_sum(total));
	}
	end();
}

TEST(every_byte_reaches_a_pipe)
{
	copy_to_pipe(3000001, 0, 0);
}

TEST(every_byte_reaches_a_slow_pipe_and_the_tee)
{
	copy_to_pipe(3000001, 1, 200);
}

TEST(every_byte_reaches_a_slow_pipe_by_splice)
{
	copy_to_pipe(1000001, 0, 200);
}

TEST(an_empty_stream_ends)
{
	copy_to_pipe(0, 0, 0);
}

TEST(a_blocking_socket_is_a_sink_too)
{
	int fds[2];
	pid_t pid;

	CHECK_INT(fd_socketpair(fds), 0);
	pid = reader(fds[0], fds[1], 2000001, 100);
	begin(fds[1], 0);
	guest_sends(2000001);
	close(fds[1]);
	close(fds[0]);
	run_until(loop, &ended);
	expect_success(pid);
	end();
}

TEST(files_and_dev_null_are_sinks_too)
{
	char path[200];
	off_t size;
	int fd;

	snprintf(path, sizeof(path), "%s/out", test_dir());
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	CHECK_INT(write(fd, "head", 4), 4);
	begin(fd, 0);
	guest_sends(500000);
	run_until(loop, &ended);
	size = lseek(fd, 0, SEEK_END);
	CHECK_INT(size, 500004);
	close(fd);
	end();

	ended = 0;
	fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	begin(fd, 0);
	guest_sends(500000);
	run_until(loop, &ended);
	CHECK_INT(pump_out_received(pump), 500000);
	close(fd);
	end();
}

TEST(without_a_sink_the_tee_has_it_all)
{
	begin(-1, 1);
	guest_sends(700000);
	run_until(loop, &ended);
	CHECK_INT(teed, 700000);
	CHECK(tee_sum == pattern_sum(700000));
	end();
}

/* The default action of SIGPIPE would end this test. */
static void lose_reader(int with_tee)
{
	int fds[2];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	begin(fds[1], with_tee);
	close(fds[1]);
	close(fds[0]);
	guest_sends(1000000);
	run_until(loop, &ended);
	CHECK_INT(pump_out_received(pump), 1000000);
	CHECK_INT(pump_out_lost(pump), 1000000);
	CHECK_INT(pump_out_lost_errno(pump), EPIPE);
	end();
}

TEST(a_reader_that_left_is_no_sigpipe)
{
	lose_reader(0);
}

TEST(a_reader_that_left_does_not_touch_the_tee)
{
	lose_reader(1);
	CHECK_INT(teed, 1000000);
}

TEST(a_reader_that_leaves_while_bytes_wait)
{
	int fds[2];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	begin(fds[1], 0);
	close(fds[1]);
	guest_sends(1000000);
	while (!pump_out_stalled_since(pump))
		CHECK(loop_run_once(loop, clock_deadline(5000), NULL) > 0);
	CHECK(!pump_out_has_passed(pump, pump_out_received(pump)));
	/* Stalled: nothing is ready, so nothing spins. */
	CHECK_INT(loop_run_once(loop, clock_deadline(50), NULL), 0);
	close(fds[0]);
	run_until(loop, &ended);
	CHECK_INT(pump_out_received(pump), 1000000);
	CHECK(pump_out_lost(pump) > 0);
	end();
}

TEST(memory_is_bounded_while_the_reader_stalls)
{
	int fds[2];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	begin(fds[1], 1);
	guest_sends(50000000);
	while (!pump_out_stalled_since(pump))
		CHECK(loop_run_once(loop, clock_deadline(5000), NULL) > 0);
	CHECK_INT(loop_run_once(loop, clock_deadline(50), NULL), 0);
	CHECK(pump_out_received(pump) <= 65536 + PUMP_CHUNK);
	close(fds[0]);
	close(fds[1]);
	end();
}

TEST(a_hang_up_while_bytes_wait_does_not_spin)
{
	int fds[2];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	begin(fds[1], 1);
	guest_sends(150000);
	while (!pump_out_stalled_since(pump))
		CHECK(loop_run_once(loop, clock_deadline(5000), NULL) > 0);
	wait(NULL);
	close(guest);
	guest = -1;
	/* One call may tell of the hang-up; then there is silence. */
	loop_run_once(loop, clock_deadline(50), NULL);
	CHECK_INT(loop_run_once(loop, clock_deadline(50), NULL), 0);
	close(fds[1]);
	for (char block[4096]; !ended;) {
		CHECK(read(fds[0], block, sizeof(block)) > 0);
		CHECK(loop_run_once(loop, clock_deadline(20), NULL) >= 0);
	}
	CHECK_INT(pump_out_received(pump), 150000);
	close(fds[0]);
	end();
}

TEST(a_sink_not_open_for_writing_is_refused)
{
	struct pump_out_hooks hooks = { .moved = moved };
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), sockets[2];

	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(fd_socketpair(sockets), 0);
	CHECK_INT(pump_out_new(loop, NULL, sockets[0], fd, &hooks, NULL, &pump, NULL), CCHV_ERR_INVALID);
	close(sockets[1]);
	close(fd);
	loop_free(loop);
}
