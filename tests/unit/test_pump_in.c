/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/pump_in.h"
#include "peer.h"

#include <fcntl.h>
#include <poll.h>

static struct loop *loop;
static struct pump_scratch *scratch;
static struct pump_in *pump;
static int guest, sources_ended, finished, closed, finish_at_end;
static uint64_t finished_bytes;
static const void *last_ended;

static void on_source_ended(void *source_data, void *user_data)
{
	(void)user_data;
	sources_ended++;
	last_ended = source_data;
	if (finish_at_end)
		pump_in_finish(pump);
}

static void on_finished(uint64_t bytes, void *user_data)
{
	(void)user_data;
	CHECK_INT(finished, 0);
	finished = 1;
	finished_bytes = bytes;
}

static void on_closed(void *user_data)
{
	(void)user_data;
	CHECK_INT(closed, 0);
	closed = 1;
}

static const struct pump_in_hooks hooks = {
	.source_ended = on_source_ended, .finished = on_finished, .closed = on_closed,
};

static void begin(void)
{
	int sockets[2];

	CHECK_INT(loop_new(&loop, NULL), 0);
	scratch = mem_alloc(sizeof(*scratch));
	CHECK_INT(fd_socketpair(sockets), 0);
	CHECK_INT(fd_set_nonblock(sockets[0], 1), 0);
	guest = sockets[1];
	CHECK_INT(pump_in_new(loop, scratch, sockets[0], &hooks, NULL, &pump, NULL), 0);
}

static void end(void)
{
	pump_in_free(pump);
	loop_free(loop);
	free(scratch);
	close(guest);
}

/* A child that reads the guest's side and checks the pattern, slowly at first. */
static pid_t guest_reads(size_t total, int patience_ms)
{
	uint8_t block[5000];
	size_t seen = 0;
	pid_t pid = fork();
	ssize_t n;

	if (pid)
		return pid;
	poll(NULL, 0, patience_ms);
	while (seen < total) {
		n = read(guest, block, sizeof(block));
		if (n <= 0)
			_exit(1);
		for (ssize_t i = 0; i < n; i++)
			if (block[i] != (uint8_t)((seen + (size_t)i) * 7 / 3))
				_exit(2);
		seen += (size_t)n;
	}
	_exit(0);
}

static void fill(int fd, size_t total)
{
	uint8_t block[1000];

	for (size_t done = 0; done < total;) {
		size_t n = total - done < sizeof(block) ? total - done : sizeof(block);

		for (size_t i = 0; i < n; i++)
			block[i] = (uint8_t)((done + i) * 7 / 3);
		if (fd_write_full(fd, block, n, clock_deadline(20000)) < 0)
			_exit(1);
		done += n;
	}
}

static void expect_success(pid_t pid)
{
	int status;

	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
}

TEST(a_pipe_of_any_size_arrives_and_is_counted)
{
	static const size_t sizes[] = { 0, 1, 65536, 65537, 3000001 };

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		int fds[2], tag;
		pid_t from, to;

		sources_ended = finished = 0;
		finish_at_end = 1;
		CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
		begin();
		CHECK_INT(pump_in_add_source(pump, fds[0], &tag, NULL, NULL), 0);
		from = fork();
		if (from == 0) {
			close(fds[0]);
			fill(fds[1], sizes[i]);
			_exit(0);
		}
		to = guest_reads(sizes[i], 50);
		close(fds[0]);
		close(fds[1]);
		run_until(loop, &finished);
		CHECK_INT(finished_bytes, sizes[i]);
		CHECK_INT(sources_ended, 1);
		CHECK(last_ended == &tag);
		expect_success(from);
		expect_success(to);
		CHECK_INT(closed, 0);
		end();
	}
}

TEST(a_file_arrives_without_epoll)
{
	char path[200];
	pid_t to;
	int fd;

	snprintf(path, sizeof(path), "%s/in", test_dir());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	fill(fd, 2000003);
	CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
	finish_at_end = 1;
	begin();
	CHECK_INT(pump_in_add_source(pump, fd, NULL, NULL, NULL), 0);
	to = guest_reads(2000003, 50);
	run_until(loop, &finished);
	CHECK_INT(finished_bytes, 2000003);
	expect_success(to);
	close(fd);
	end();
}

TEST(dev_null_ends_at_once)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	finish_at_end = 1;
	begin();
	CHECK_INT(pump_in_add_source(pump, fd, NULL, NULL, NULL), 0);
	run_until(loop, &finished);
	CHECK_INT(finished_bytes, 0);
	close(fd);
	end();
}

TEST(what_was_read_is_sent_before_the_finish)
{
	int fds[2];
	pid_t to;

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
	begin();
	fill(fds[1], 900000);
	CHECK_INT(pump_in_add_source(pump, fds[0], NULL, NULL, NULL), 0);
	/* Until the guest's socket is full. */
	while (loop_run_once(loop, clock_deadline(50), NULL) > 0)
		continue;
	pump_in_finish(pump);
	CHECK_INT(finished, 0);
	to = guest_reads((size_t)pump_in_sent(pump) + 1, 0);
	run_until(loop, &finished);
	/* Of what the source had, the rest was left where it was. */
	CHECK(finished_bytes < 900000);
	expect_success(to);
	CHECK_INT(sources_ended, 0);
	close(fds[0]);
	close(fds[1]);
	end();
}

TEST(a_process_that_does_not_read_holds_its_source_back)
{
	int fds[2];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(fd_set_nonblock(fds[1], 1), 0);
	begin();
	CHECK_INT(pump_in_add_source(pump, fds[0], NULL, NULL, NULL), 0);
	for (int idle = 0; idle < 3;) {
		char block[4096] = { 0 };
		ssize_t n = write(fds[1], block, sizeof(block));

		idle = loop_run_once(loop, clock_deadline(20), NULL) == 0 && n < 0 ? idle + 1 : 0;
	}
	CHECK(pump_in_sent(pump) < 1 << 20);
	CHECK_INT(loop_run_once(loop, clock_deadline(50), NULL), 0);
	close(fds[0]);
	close(fds[1]);
	end();
}

TEST(sources_mix_and_leave)
{
	struct pump_in_source *kept;
	int one[2], two[2], first, second;
	char text[8] = { 0 };

	CHECK_INT(pipe2(one, O_CLOEXEC), 0);
	CHECK_INT(pipe2(two, O_CLOEXEC), 0);
	begin();
	CHECK_INT(pump_in_add_source(pump, one[0], &first, NULL, NULL), 0);
	CHECK_INT(pump_in_add_source(pump, two[0], &second, &kept, NULL), 0);
	CHECK_INT(write(one[1], "a", 1), 1);
	CHECK(loop_run_once(loop, clock_deadline(5000), NULL) > 0);
	CHECK_INT(write(two[1], "b", 1), 1);
	CHECK(loop_run_once(loop, clock_deadline(5000), NULL) > 0);
	CHECK_INT(fd_read_full(guest, text, 2, clock_deadline(5000)), 2);
	CHECK_STR(text, "ab");
	close(one[1]);
	CHECK(loop_run_once(loop, clock_deadline(5000), NULL) > 0);
	CHECK_INT(sources_ended, 1);
	CHECK(last_ended == &first);
	/* The input stays open with nobody at the other end. */
	pump_in_remove_source(kept);
	CHECK_INT(loop_run_once(loop, clock_deadline(20), NULL), 0);
	CHECK_INT(pump_in_is_closed(pump), 0);
	close(one[0]);
	close(two[0]);
	close(two[1]);
	end();
}

TEST(a_guest_that_closes_is_told_once)
{
	int fds[2];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	begin();
	CHECK_INT(pump_in_add_source(pump, fds[0], NULL, NULL, NULL), 0);
	close(guest);
	guest = -1;
	CHECK_INT(write(fds[1], "x", 1), 1);
	run_until(loop, &closed);
	CHECK(pump_in_is_closed(pump));
	CHECK_INT(sources_ended, 1);
	CHECK_INT(pump_in_add_source(pump, fds[0], NULL, NULL, NULL), CCHV_ERR_STATE);
	close(fds[0]);
	close(fds[1]);
	end();
}

TEST(a_guest_that_closes_while_bytes_wait)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/in", test_dir());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	fill(fd, 2000003);
	CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
	begin();
	CHECK_INT(pump_in_add_source(pump, fd, NULL, NULL, NULL), 0);
	while (loop_run_once(loop, clock_deadline(50), NULL) > 0)
		continue;
	close(guest);
	guest = -1;
	run_until(loop, &closed);
	close(fd);
	end();
}
