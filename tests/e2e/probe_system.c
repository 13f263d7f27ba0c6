/* SPDX-License-Identifier: Apache-2.0 */
/* The system around a process: clocks, randomness, memory, sockets it may make, the power switch. */
#include <errno.h>
#include <linux/reboot.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

static int64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts) < 0)
		probe_die("clock");
	return (int64_t)ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* clocks SECONDS: "watching"; watch that neither clock goes back; "monotonic NS realtime NS", how far each went */
static int run_clocks(int argc, char **argv)
{
	int64_t mono = now_ns(CLOCK_MONOTONIC), real = now_ns(CLOCK_REALTIME), last_mono = mono, last_real = real;
	int64_t end = mono + (int64_t)probe_number(argv[1]) * 1000000000LL;

	(void)argc;
	puts("watching");
	fflush(stdout);
	while (last_mono < end) {
		int64_t m = now_ns(CLOCK_MONOTONIC), r = now_ns(CLOCK_REALTIME);

		if (m < last_mono || r < last_real) {
			printf("back: monotonic %lld realtime %lld\n", (long long)(m - last_mono),
			       (long long)(r - last_real));
			return 1;
		}
		last_mono = m;
		last_real = r;
		usleep(10000);
	}
	printf("monotonic %lld realtime %lld\n", (long long)(last_mono - mono), (long long)(last_real - real));
	return 0;
}

/* random: milliseconds until 32 bytes of randomness were there, and the bytes */
static int run_random(int argc, char **argv)
{
	int64_t start = now_ns(CLOCK_MONOTONIC);
	unsigned char bytes[32];

	(void)argc, (void)argv;
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		probe_die("getrandom");
	printf("%lld ", (long long)((now_ns(CLOCK_MONOTONIC) - start) / 1000000));
	for (size_t i = 0; i < sizeof(bytes); i++)
		printf("%02x", bytes[i]);
	putchar('\n');
	return 0;
}

/*
 * touch BYTES [wait]: that much memory of one's own, every page written; "touched". In pieces, since the kernel
 * refuses a single one that is larger than all it has.
 */
static int run_touch(int argc, char **argv)
{
	size_t left = (size_t)probe_number(argv[1]);

	while (left) {
		size_t bytes = left < (4 << 20) ? left : (4 << 20);
		char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			probe_die("mmap");
		for (size_t i = 0; i < bytes; i += 4096)
			p[i] = (char)((left + i) >> 12 | 1);
		left -= bytes;
	}
	puts("touched");
	fflush(stdout);
	if (argc > 2)
		pause();
	return 0;
}

/* vsock CID PORT: errno's name of making the socket, then of connecting */
static int run_vsock(int argc, char **argv)
{
	struct sockaddr_vm address = { .svm_family = AF_VSOCK, .svm_cid = (unsigned int)probe_number(argv[1]),
				       .svm_port = (unsigned int)probe_number(argv[2]) };
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);

	(void)argc;
	if (fd < 0) {
		printf("socket %s\n", strerrorname_np(errno));
		return 0;
	}
	printf("socket 0 connect %s\n", connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0
						? strerrorname_np(errno)
						: "0");
	return 0;
}

/* reboot restart|off|halt: errno's name when it is refused */
static int run_reboot(int argc, char **argv)
{
	unsigned int how = strcmp(argv[1], "restart") == 0 ? LINUX_REBOOT_CMD_RESTART
			   : strcmp(argv[1], "off") == 0   ? LINUX_REBOOT_CMD_POWER_OFF
							   : LINUX_REBOOT_CMD_HALT;

	(void)argc;
	if (syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, how, NULL) < 0)
		printf("%s\n", strerrorname_np(errno));
	return 0;
}

/* env-sum: how many variables, how many bytes, and a hash of all of them in order */
static int run_env_sum(int argc, char **argv)
{
	uint64_t h = 0xcbf29ce484222325ULL, bytes = 0, count = 0;

	(void)argc, (void)argv;
	for (char **e = environ; *e; e++, count++)
		for (const unsigned char *p = (unsigned char *)*e;; p++, bytes++) {
			h = (h ^ *p) * 0x100000001b3ULL;
			if (!*p)
				break;
		}
	printf("%llu %llu %016llx\n", (unsigned long long)count, (unsigned long long)bytes,
	       (unsigned long long)h);
	return 0;
}

/* args: each argument in hex, a line each */
static int run_args(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		for (const unsigned char *p = (unsigned char *)argv[i]; *p; p++)
			printf("%02x", *p);
		putchar('\n');
	}
	return 0;
}

/*
 * many NAMES SOCKETS: look for so many names that do not exist (a dentry each) and hold so many TCP connections to
 * ourselves at once: "NAMES SOCKETS" when all of it went well
 */
static int run_many(int argc, char **argv)
{
	uint64_t names = probe_number(argv[1]), sockets = probe_number(argv[2]);
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(address);
	char path[64];

	(void)argc;
	for (uint64_t i = 0; i < names; i++) {
		snprintf(path, sizeof(path), "/tmp/nobody-%llu", (unsigned long long)i);
		if (access(path, F_OK) == 0 || errno != ENOENT)
			probe_die("access");
	}
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, 128) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &len) < 0)
		probe_die("listen");
	for (uint64_t i = 0; i < sockets; i += 2) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (fd < 0 || connect(fd, (struct sockaddr *)&address, len) < 0 || accept(listener, NULL, NULL) < 0)
			probe_die("socket");
	}
	printf("%llu %llu\n", (unsigned long long)names, (unsigned long long)sockets);
	return 0;
}

/* draws COUNT: so many times 16 bytes of the kernel's generator, each by a call of its own, in hex */
static int run_draws(int argc, char **argv)
{
	uint64_t count = probe_number(argv[1]);
	unsigned char bytes[16];

	(void)argc;
	while (count--) {
		if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
			probe_die("getrandom");
		for (size_t i = 0; i < sizeof(bytes); i++)
			printf("%02x", bytes[i]);
		putchar('\n');
	}
	return 0;
}

static int bound(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				       .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		probe_die("bind");
	return fd;
}

/*
 * isn FROM TO: the initial sequence number of a TCP connection between two ports, less the part of it that the kernel
 * takes from the clock: what is left is a hash of the addresses with the kernel's secret
 */
static int run_isn(int argc, char **argv)
{
	uint16_t from = (uint16_t)probe_number(argv[1]), to = (uint16_t)probe_number(argv[2]);
	int raw = socket(AF_INET, SOCK_RAW, IPPROTO_TCP), listener = bound(to), client = bound(from);
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				       .sin_port = htons(to) };
	uint32_t now, seq;
	uint8_t packet[128];

	(void)argc;
	if (raw < 0 || listen(listener, 1) < 0)
		probe_die("listen");
	now = (uint32_t)(now_ns(CLOCK_REALTIME) >> 6);
	if (connect(client, (struct sockaddr *)&address, sizeof(address)) < 0)
		probe_die("connect");
	for (;;) {
		const uint8_t *tcp = packet + 20;

		if (recv(raw, packet, sizeof(packet), 0) < 40)
			probe_die("raw socket");
		/* A SYN alone, from there to there. */
		if ((tcp[0] << 8 | tcp[1]) != from || (tcp[2] << 8 | tcp[3]) != to || (tcp[13] & 0x12) != 0x02)
			continue;
		memcpy(&seq, tcp + 4, sizeof(seq));
		printf("%u\n", ntohl(seq) - now);
		return 0;
	}
}

const struct probe_command probe_system_commands[] = {
	{ "clocks", run_clocks, "SECONDS" }, { "random", run_random, "" },
	{ "touch", run_touch, "BYTES [wait]" }, { "vsock", run_vsock, "CID PORT" },
	{ "reboot", run_reboot, "HOW" },     { "env-sum", run_env_sum, "" },
	{ "args", run_args, "ARG..." },	     { "many", run_many, "NAMES SOCKETS" },
	{ "isn", run_isn, "FROM TO" },	     { "draws", run_draws, "COUNT" },
	{ NULL, NULL, NULL },
};
