/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper inside guests, static: true | sleep | switches | echo PORT | source PORT | piped PORT | write BYTES |
 * forkexec N. echo, source and piped say "ready" on stdout when they listen. forkexec prints the nanoseconds of one
 * fork, exec of "true" and wait, as the median of N.
 */
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static int listen_on(const char *port)
{
	struct sockaddr_vm addr = { .svm_family = AF_VSOCK,
				    .svm_cid = VMADDR_CID_ANY,
				    .svm_port = (unsigned int)atoi(port) };
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 8) < 0) {
		perror("vsock");
		exit(1);
	}
	if (write(1, "ready\n", 6) != 6)
		exit(1);
	return fd;
}

static int serve_echo(const char *port)
{
	int listener = listen_on(port), fd;
	char data[4096];
	ssize_t n;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		while ((n = read(fd, data, sizeof(data))) > 0)
			if (write(fd, data, (size_t)n) != n)
				break;
		close(fd);
	}
	return 1;
}

static int pour(int fd, uint64_t bytes)
{
	static char data[1 << 16];

	memset(data, 'x', sizeof(data));
	while (bytes) {
		size_t want = bytes < sizeof(data) ? (size_t)bytes : sizeof(data);
		ssize_t n = write(fd, data, want);

		if (n <= 0)
			return 1;
		bytes -= (uint64_t)n;
	}
	return 0;
}

/* As any program's output that somebody else sends on: through a pipe as large as the agent's. */
static int pour_piped(int fd, uint64_t bytes)
{
	int pipe[2], status;
	pid_t pid;

	if (pipe2(pipe, O_CLOEXEC) < 0 || fcntl(pipe[0], F_SETPIPE_SZ, 1 << 20) < 0)
		return 1;
	pid = fork();
	if (pid == 0)
		_exit(pour(pipe[1], bytes));
	close(pipe[1]);
	while (splice(pipe[0], NULL, fd, NULL, 256 << 10, SPLICE_F_MOVE) > 0)
		;
	close(pipe[0]);
	return waitpid(pid, &status, 0) < 0 || status;
}

/* The peer's first line says how many bytes it wants. */
static int serve_source(const char *port, int (*how)(int fd, uint64_t bytes))
{
	int listener = listen_on(port), fd;
	char line[32];

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		ssize_t n = read(fd, line, sizeof(line) - 1);

		if (n > 0) {
			line[n] = '\0';
			how(fd, strtoull(line, NULL, 10));
			shutdown(fd, SHUT_WR);
			/* The receiver closes first. */
			while (read(fd, line, sizeof(line)) > 0)
				;
		}
		close(fd);
	}
	return 1;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int time_forkexec(char *self, int count)
{
	uint64_t times[1000];

	if (count < 1 || count > 1000)
		return 2;
	for (int i = 0; i < count; i++) {
		uint64_t start = now();
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			execl(self, self, "true", (char *)NULL);
			_exit(127);
		}
		if (waitpid(pid, &status, 0) < 0 || status)
			return 1;
		times[i] = now() - start;
	}
	qsort(times, (size_t)count, sizeof(*times), by_value);
	printf("%llu\n", (unsigned long long)times[count / 2]);
	return 0;
}

/* How often PID 1, which has one thread, has been taken off its CPU: to sleep, or for somebody else. */
static int print_switches(void)
{
	FILE *file = fopen("/proc/1/status", "r");
	char line[256];
	long n, total = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %ld", &n) == 1)
			total += n;
	printf("%ld\n", total);
	return file ? 0 : 1;
}

static int print_cmdline(void)
{
	FILE *file = fopen("/proc/cmdline", "r");
	char line[4096];

	if (!file || !fgets(line, sizeof(line), file))
		return 1;
	line[strcspn(line, "\n")] = '\0';
	return fputs(line, stdout) < 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "true") == 0)
		return 0;
	if (argc == 2 && strcmp(argv[1], "sleep") == 0)
		return pause();
	if (argc == 2 && strcmp(argv[1], "switches") == 0)
		return print_switches();
	if (argc == 2 && strcmp(argv[1], "cmdline") == 0)
		return print_cmdline();
	if (argc != 3)
		return 2;
	if (strcmp(argv[1], "echo") == 0)
		return serve_echo(argv[2]);
	if (strcmp(argv[1], "source") == 0)
		return serve_source(argv[2], pour);
	if (strcmp(argv[1], "piped") == 0)
		return serve_source(argv[2], pour_piped);
	if (strcmp(argv[1], "write") == 0)
		return pour(1, strtoull(argv[2], NULL, 10));
	if (strcmp(argv[1], "forkexec") == 0)
		return time_forkexec(argv[0], atoi(argv[2]));
	return 2;
}
