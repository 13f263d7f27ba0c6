/* SPDX-License-Identifier: Apache-2.0 */
/* What a shell cannot find out about the process that it is: probe QUESTION... prints one answer each. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *error_name(void)
{
	static char number[16];

	switch (errno) {
	case EPERM:
		return "EPERM";
	case ENOSYS:
		return "ENOSYS";
	case EAFNOSUPPORT:
		return "EAFNOSUPPORT";
	case EACCES:
		return "EACCES";
	case EROFS:
		return "EROFS";
	case ENOENT:
		return "ENOENT";
	}
	snprintf(number, sizeof(number), "%d", errno);
	return number;
}

static void answer(long r)
{
	printf("%s\n", r < 0 ? error_name() : "ok");
}

static void limits(void)
{
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit r;

		getrlimit(i, &r);
		printf("%llu %llu\n", (unsigned long long)r.rlim_cur, (unsigned long long)r.rlim_max);
	}
}

static void descriptors(void)
{
	for (int fd = 0; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d ", fd);
	printf("\n");
}

static void window_size(void)
{
	struct winsize size;

	if (ioctl(0, TIOCGWINSZ, &size) == 0)
		printf("%u %u\n", size.ws_row, size.ws_col);
}

static void clock_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	printf("%lld\n", (long long)t.tv_sec);
}

static void policy(void)
{
	int mode = -1;
	unsigned long nodes[16] = { 0 };

	syscall(SYS_get_mempolicy, &mode, nodes, 1024, NULL, 0);
	printf("%d %lx\n", mode, nodes[0]);
}

static void scheduler(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} s = { .size = sizeof(s) };

	if (syscall(SYS_sched_getattr, 0, &s, sizeof(s), 0) < 0) {
		answer(-1);
		return;
	}
	printf("%u %d %u %llu %llu %llu\n", s.policy, s.nice, s.priority, (unsigned long long)s.runtime,
	       (unsigned long long)s.deadline, (unsigned long long)s.period);
}

static int ask(const char *q)
{
	if (strcmp(q, "vsock") == 0)
		answer(syscall(SYS_socket, 40, SOCK_STREAM, 0));
	else if (strcmp(q, "vsock-high") == 0)
		answer(syscall(SYS_socket, 0x100000028ULL, SOCK_STREAM, 0));
	else if (strcmp(q, "io-uring") == 0)
		answer(syscall(425, 1, (char[120]){ 0 }));
	else if (strcmp(q, "unix") == 0)
		answer(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
	else if (strcmp(q, "limits") == 0)
		limits();
	else if (strcmp(q, "winsize") == 0)
		window_size();
	else if (strcmp(q, "fds") == 0)
		descriptors();
	else if (strcmp(q, "nice") == 0)
		printf("%d %d\n", sched_getscheduler(0), getpriority(PRIO_PROCESS, 0));
	else if (strcmp(q, "sched") == 0)
		scheduler();
	else if (strcmp(q, "ioprio") == 0)
		printf("%ld\n", syscall(SYS_ioprio_get, 1, 0));
	else if (strcmp(q, "personality") == 0)
		printf("%x\n", (unsigned int)personality(0xffffffff));
	else if (strcmp(q, "mempolicy") == 0)
		policy();
	else if (strcmp(q, "monotonic") == 0)
		clock_of(CLOCK_MONOTONIC);
	else if (strcmp(q, "boottime") == 0)
		clock_of(CLOCK_BOOTTIME);
	else if (strcmp(q, "uname") == 0)
		answer(syscall(SYS_uname, NULL) < 0 && errno == EFAULT ? 0 : -1);
	else if (strcmp(q, "keyring") == 0)
		answer(syscall(SYS_keyctl, 0, -3, 0));
	else
		return -1;
	return 0;
}

/* What the route to an address says. */
static void path_mtu(const char *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = -1;
	socklen_t len = sizeof(mtu);

	inet_pton(AF_INET, address, &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 || getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &len) < 0)
		answer(-1);
	else
		printf("%d\n", mtu);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "open") == 0) {
		answer(open(argv[2], O_RDONLY));
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "write") == 0) {
		answer(open(argv[2], O_WRONLY | O_CREAT, 0600));
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "path_mtu") == 0) {
		path_mtu(argv[2]);
		return 0;
	}
	for (int i = 1; i < argc; i++)
		if (ask(argv[i]) < 0)
			return 2;
	return 0;
}
