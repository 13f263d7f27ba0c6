/* SPDX-License-Identifier: Apache-2.0 */
/* Taps: see tap.h. Enters: a network device's configuration, descriptors of clients. Leaves: open queues, numbers. */
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define DEV_FILE_MAX (1u << 20)

#define OPEN_FAILED "Open tap device failed"
#define ENABLE_FAILED "Enabling tap interface failed"

/* In the original's words, which do not name the tap: whoever asked knows it. */
static int failed(struct fault *fault, int error_number, const char *what, const char *step)
{
	fault_os(fault, error_number);
	if (what)
		fault_wrap(fault, "%s", what);
	fault_wrap(fault, "%s", step);
	fault_wrap(fault, "Failed to open taps");
	return fault_wrap(fault, "Cannot create virtio-net device");
}

static int open_queue(const char *name, int multi, char *ret_name, int *ret_fd, struct fault *fault)
{
	cleanup_close int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	int flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | (multi ? IFF_MULTI_QUEUE : 0);
	struct ifreq request = { .ifr_flags = (short)flags };

	if (fd < 0)
		return failed(fault, errno, "Couldn't open /dev/net/tun", OPEN_FAILED);
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, TUNSETIFF, &request) < 0)
		return failed(fault, errno, "Unable to configure tap interface", OPEN_FAILED);
	memcpy(ret_name, request.ifr_name, IFNAMSIZ);
	*ret_fd = fd_steal(&fd);
	return CCHV_OK;
}

static int set_mac(int sock, struct ifreq *request, const char *mac)
{
	unsigned int b[6];

	if (sscanf(mac, "%2x:%2x:%2x:%2x:%2x:%2x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]) != 6) {
		errno = EINVAL;
		return -1;
	}
	request->ifr_hwaddr.sa_family = ARPHRD_ETHER;
	for (int i = 0; i < 6; i++)
		request->ifr_hwaddr.sa_data[i] = (char)b[i];
	return ioctl(sock, SIOCSIFHWADDR, request);
}

static int set_ipv4(int sock, struct ifreq *request, unsigned long command, const char *text)
{
	struct sockaddr_in address = { .sin_family = AF_INET };

	if (inet_pton(AF_INET, text, &address.sin_addr) != 1) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	memcpy(&request->ifr_addr, &address, sizeof(address));
	return ioctl(sock, command, request);
}

/* What may need privileges is done only where it changes something. */
static int configure(const char *name, const struct json *net, struct fault *fault)
{
	cleanup_close int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { 0 };

	if (sock < 0)
		return failed(fault, errno, "Failed to create a socket", OPEN_FAILED);
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (config_has(net, "ip") &&
	    (set_ipv4(sock, &request, SIOCSIFADDR, config_string(net, "ip")) < 0 ||
	     set_ipv4(sock, &request, SIOCSIFNETMASK, config_string(net, "mask")) < 0))
		return failed(fault, errno, NULL, "Setting tap IP and/or netmask failed");
	if (config_has(net, "host_mac") && set_mac(sock, &request, config_string(net, "host_mac")) < 0)
		return failed(fault, errno, NULL, "Setting MAC address failed");
	if (config_has(net, "mtu") && ioctl(sock, SIOCGIFMTU, &request) == 0 &&
	    (uint64_t)request.ifr_mtu != config_u64(net, "mtu")) {
		request.ifr_mtu = (int)config_u64(net, "mtu");
		if (ioctl(sock, SIOCSIFMTU, &request) < 0)
			return failed(fault, errno, NULL, "Setting MTU failed");
	}
	if (ioctl(sock, SIOCGIFFLAGS, &request) < 0)
		return failed(fault, errno, NULL, ENABLE_FAILED);
	if (request.ifr_flags & IFF_UP)
		return CCHV_OK;
	request.ifr_flags |= IFF_UP;
	return ioctl(sock, SIOCSIFFLAGS, &request) < 0 ? failed(fault, errno, NULL, ENABLE_FAILED) : CCHV_OK;
}

int tap_open(const struct json *net, int *fds, size_t *count, struct fault *fault)
{
	const char *wanted = config_has(net, "tap") ? config_string(net, "tap") : "vmtap%d";
	size_t pairs = (size_t)config_u64(net, "num_queues") / 2, opened = 0, room = *count;
	char name[IFNAMSIZ];
	int r = CCHV_OK;

	*count = 0;
	if (pairs > room)
		return failed(fault, E2BIG, "more queues than cchv-qemu can open", OPEN_FAILED);
	if (strlen(wanted) >= IFNAMSIZ)
		return failed(fault, ENAMETOOLONG, "Unable to configure tap interface", OPEN_FAILED);
	snprintf(name, sizeof(name), "%s", wanted);
	for (; r == CCHV_OK && opened < pairs; opened += r == CCHV_OK)
		r = open_queue(name, pairs > 1, name, &fds[opened], fault);
	if (r == CCHV_OK)
		r = configure(name, net, fault);
	if (r < 0) {
		while (opened)
			fd_close(&fds[--opened]);
		return r;
	}
	*count = opened;
	return CCHV_OK;
}

int tap_name(int fd, char *name)
{
	struct ifreq request = { 0 };

	if (ioctl(fd, TUNGETIFF, &request) < 0)
		return -1;
	memcpy(name, request.ifr_name, IFNAMSIZ);
	name[IFNAMSIZ - 1] = '\0';
	return 0;
}

int tap_parse_counters(const char *text, const char *name, struct tap_counters *counters)
{
	size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL) {
		unsigned long long rx_bytes, rx_frames, tx_bytes, tx_frames;
		const char *p = line + strspn(line, " ");

		if (strncmp(p, name, len) != 0 || p[len] != ':')
			continue;
		if (sscanf(p + len + 1, "%llu %llu %*u %*u %*u %*u %*u %*u %llu %llu", &rx_bytes, &rx_frames,
		           &tx_bytes, &tx_frames) != 4)
			return 0;
		/* What the host receives from the tap is what the guest has sent. */
		*counters = (struct tap_counters){ tx_bytes, tx_frames, rx_bytes, rx_frames };
		return 1;
	}
	return 0;
}

static int read_here(const char *name, struct tap_counters *counters)
{
	cleanup_buf struct buf text = BUF_INIT(DEV_FILE_MAX);
	cleanup_close int fd = open("/proc/thread-self/net/dev", O_RDONLY | O_CLOEXEC);
	const char *words;
	ssize_t n;

	if (fd < 0)
		return -1;
	do
		n = buf_read_fd(&text, fd, 65536);
	while (n > 0 || (n < 0 && errno == EINTR));
	words = n < 0 ? NULL : buf_string(&text);
	if (!words)
		return -1;
	if (tap_parse_counters(words, name, counters))
		return 0;
	errno = ENODEV;
	return -1;
}

int tap_read_counters(int fd, struct tap_counters *counters)
{
	cleanup_close int home = -1, there = -1;
	char name[IFNAMSIZ];
	int r, saved;

	if (tap_name(fd, name) < 0)
		return -1;
	there = ioctl(fd, TUNGETDEVNETNS, 0);
	if (there < 0)
		return read_here(name, counters);
	home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (home < 0)
		return -1;
	/* Without the privilege to change it, the interface is in our own namespace or out of sight. */
	if (setns(there, CLONE_NEWNET) < 0)
		return read_here(name, counters);
	r = read_here(name, counters);
	saved = errno;
	if (setns(home, CLONE_NEWNET) < 0)
		return -1;
	errno = saved;
	return r;
}
