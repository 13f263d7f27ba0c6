/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/clock.h"
#include "base/fd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

TEST(descriptors_travel_and_surplus_ones_are_closed)
{
	int pair[2], null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC), got[1];
	int sent[3] = { null_fd, null_fd, null_fd };
	size_t count = 1;
	char c;

	CHECK_INT(fd_socketpair(pair), 0);
	CHECK_INT(fd_send_with_fds(pair[0], "x", 1, sent, 3), 1);
	CHECK_INT(fd_recv_with_fds(pair[1], &c, 1, got, &count), 1);
	CHECK_INT(count, 1);
	CHECK(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
	close(got[0]);
	close(null_fd);
	close(pair[0]);
	close(pair[1]);
}

TEST(a_socket_path_longer_than_sun_path_works)
{
	char path[400];
	int listener, client, n = snprintf(path, sizeof(path), "%s", test_dir());
	struct stat st;

	for (int i = 0; i < 6; i++) {
		n += snprintf(path + n, sizeof(path) - (size_t)n, "/a-directory-with-a-long-name-%d", i);
		CHECK_INT(mkdir(path, 0700), 0);
	}
	snprintf(path + n, sizeof(path) - (size_t)n, "/socket");
	CHECK(strlen(path) > 107);
	listener = fd_unix_listen(path, 1);
	CHECK(listener >= 0);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 0777, 0600);
	client = fd_unix_connect(path, clock_deadline(1000));
	CHECK(client >= 0);
	CHECK(fd_unix_listen(path, 1) < 0 && errno == EADDRINUSE);
	close(client);
	close(listener);
	CHECK(fd_unix_connect(path, clock_deadline(1000)) < 0 && errno == ECONNREFUSED);
}

TEST(writing_to_a_closed_peer_raises_no_signal)
{
	int pair[2];

	CHECK_INT(fd_socketpair(pair), 0);
	close(pair[1]);
	CHECK(fd_write_full(pair[0], "x", 1, clock_deadline(1000)) < 0 && errno == EPIPE);
	close(pair[0]);
}

TEST(whole_transfers_keep_their_deadline)
{
	char data[100] = "";
	int pair[2];

	CHECK_INT(fd_socketpair(pair), 0);
	CHECK_INT(fd_write_full(pair[0], "abc", 3, clock_deadline(1000)), 0);
	CHECK(fd_read_full(pair[1], data, 100, clock_deadline(30)) < 0 && errno == ETIMEDOUT);
	CHECK_INT(fd_write_full(pair[0], "abc", 3, clock_deadline(1000)), 0);
	close(pair[0]);
	CHECK_INT(fd_read_full(pair[1], data, 100, clock_deadline(1000)), 3);
	close(pair[1]);
}
