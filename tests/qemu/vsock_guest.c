/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID 1 of the vsock tests' guest: loads the modules, serves a few ports with a process for each connection, powers
 * off when told. Its programs use the guest kernel's AF_VSOCK and nothing else.
 *
 * Pattern: byte n of a stream is pattern[n % PATTERN_SIZE], so each side can check a stream without the other.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATTERN_SIZE 1048573
#define CHUNK (256 * 1024)

enum { PORT_ECHO = 1000, PORT_SOURCE, PORT_SINK, PORT_COMMAND, PORT_LAST = PORT_COMMAND };

static unsigned char pattern[PATTERN_SIZE + CHUNK];
static unsigned char buffer[CHUNK];

static void fill_pattern(void)
{
	uint32_t x = 12345;

	for (size_t i = 0; i < PATTERN_SIZE; i++) {
		x = x * 1103515245u + 12345u;
		pattern[i] = (unsigned char)(x >> 16);
	}
	memcpy(pattern + PATTERN_SIZE, pattern, CHUNK);
}

static int write_full(int fd, const void *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, (const char *)data + done, len - done);

		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0)
			done += (size_t)n;
	}
	return 0;
}

static int read_full(int fd, void *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = read(fd, (char *)data + done, len - done);

		if (n == 0 || (n < 0 && errno != EINTR))
			return -1;
		if (n > 0)
			done += (size_t)n;
	}
	return 0;
}

/* What each stream begins with, from the host. */
struct order {
	uint64_t bytes;    /* of a source; 0: without end */
	uint32_t wait_ms;  /* before the first byte is read or written */
	uint32_t check;    /* of a sink: compare with the pattern */
};

static void obey_wait(const struct order *order)
{
	struct timespec ts = { order->wait_ms / 1000, (long)(order->wait_ms % 1000) * 1000000 };

	if (order->wait_ms)
		nanosleep(&ts, NULL);
}

static void serve_echo(int fd)
{
	ssize_t n;

	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		if (write_full(fd, buffer, (size_t)n) < 0)
			return;
}

static void serve_source(int fd)
{
	struct order order;
	uint64_t done = 0;

	if (read_full(fd, &order, sizeof(order)) < 0)
		return;
	obey_wait(&order);
	while (!order.bytes || done < order.bytes) {
		size_t part = CHUNK;

		if (order.bytes && order.bytes - done < part)
			part = (size_t)(order.bytes - done);
		if (write_full(fd, pattern + done % PATTERN_SIZE, part) < 0)
			return;
		done += part;
	}
	/* The receiver closes first: wait for its end. */
	shutdown(fd, SHUT_WR);
	while (read(fd, buffer, sizeof(buffer)) > 0)
		;
}

static void serve_sink(int fd)
{
	struct order order;
	uint64_t done = 0, wrong = 0;
	char line[80];
	ssize_t n;

	if (read_full(fd, &order, sizeof(order)) < 0)
		return;
	obey_wait(&order);
	while ((n = read(fd, buffer, sizeof(buffer))) > 0) {
		if (order.check && memcmp(buffer, pattern + done % PATTERN_SIZE, (size_t)n))
			wrong++;
		done += (uint64_t)n;
	}
	snprintf(line, sizeof(line), "%llu %llu %d\n", (unsigned long long)done, (unsigned long long)wrong,
	         n < 0 ? errno : 0);
	write_full(fd, line, strlen(line));
}

static int dial(unsigned int cid, unsigned int port, int type)
{
	struct sockaddr_vm addr = { .svm_family = AF_VSOCK, .svm_cid = cid, .svm_port = port };
	int fd = socket(AF_VSOCK, type | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

static void report(int fd, const char *what, int error)
{
	char line[80];

	snprintf(line, sizeof(line), "%s %d\n", what, error);
	write_full(fd, line, strlen(line));
}

/* Commands of one line; each is answered with one line. */
static void obey(int fd, const char *line)
{
	unsigned int cid = 2, port = 0, count = 0;

	if (sscanf(line, "echo %u", &port) == 1) {
		/* Be the client: what the host's listener says comes back to it, to its end. */
		int peer = dial(2, port, SOCK_STREAM);

		report(fd, peer < 0 ? "failed" : "connected", peer < 0 ? errno : 0);
		if (peer >= 0) {
			serve_echo(peer);
			close(peer);
		}
	} else if (sscanf(line, "dial %u %u", &cid, &port) == 2) {
		int peer = dial(cid, port, SOCK_STREAM);

		report(fd, peer < 0 ? "failed" : "connected", peer < 0 ? errno : 0);
		close(peer);
	} else if (sscanf(line, "hold %u %u", &port, &count) == 2) {
		unsigned int made = 0, failed = 0;

		while (made + failed < count) {
			if (dial(2, port, SOCK_STREAM) < 0)
				failed++;
			else
				made++;
		}
		report(fd, "made", (int)made);
		/* They stay open until the host closes this connection. */
		if (read(fd, buffer, 1) < 0)
			return;
		_exit(0);
	} else if (!strncmp(line, "poweroff", 8)) {
		report(fd, "bye", 0);
		reboot(RB_POWER_OFF);
	} else if (!strncmp(line, "reboot", 6)) {
		reboot(RB_AUTOBOOT);
	} else {
		report(fd, "unknown", 0);
	}
}

static void serve_command(int fd)
{
	char line[128];
	size_t len = 0;

	while (len < sizeof(line) - 1 && read(fd, line + len, 1) == 1) {
		if (line[len++] != '\n')
			continue;
		line[len] = '\0';
		obey(fd, line);
		len = 0;
	}
}

static void serve(int port, int fd)
{
	static void (*const servers[])(int fd) = { serve_echo, serve_source, serve_sink, serve_command };

	servers[port - PORT_ECHO](fd);
	close(fd);
	_exit(0);
}

/* They lie in /modules under numbers, in the order in which they are to be loaded. */
static void load_modules(void)
{
	for (int i = 0;; i++) {
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/modules/%02d", i);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		if (syscall(SYS_finit_module, fd, "", 0) < 0)
			fprintf(stderr, "vsock_guest: load %s: %s\n", path, strerror(errno));
		close(fd);
	}
}

static int listen_on(unsigned int port)
{
	struct sockaddr_vm addr = { .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = port };
	int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 1024) < 0) {
		fprintf(stderr, "vsock_guest: listen on %u: %s\n", port, strerror(errno));
		return -1;
	}
	return fd;
}

int main(void)
{
	struct pollfd fds[PORT_LAST - PORT_ECHO + 1];

	mount("proc", "/proc", "proc", 0, NULL);
	mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	fill_pattern();
	load_modules();
	for (int port = PORT_ECHO; port <= PORT_LAST; port++)
		fds[port - PORT_ECHO] = (struct pollfd){ .fd = listen_on((unsigned int)port), .events = POLLIN };
	/* A marker that the console has, for a person who looks. */
	fprintf(stderr, "vsock_guest: ready\n");
	for (;;) {
		if (poll(fds, PORT_LAST - PORT_ECHO + 1, -1) < 0)
			continue;
		for (int i = 0; i <= PORT_LAST - PORT_ECHO; i++) {
			int fd;

			if (!(fds[i].revents & POLLIN))
				continue;
			fd = accept(fds[i].fd, NULL, NULL);
			if (fd >= 0 && fork() == 0)
				serve(PORT_ECHO + i, fd);
			close(fd);
		}
	}
}
