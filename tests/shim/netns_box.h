/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of mirrored namespaces stand on, as root, each case in two namespaces of its own: "pod", which is
 * mirrored, and "out", where the other ends of its interfaces are. The library's calls are recorded; frames are read
 * and written at the taps as a VMM would.
 */
#ifndef TEST_NETNS_BOX_H
#define TEST_NETNS_BOX_H

#include "tests/unit/test.h"

#include "examples/shim/netns.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

/* ---- in place of the library: what each device was given ---- */

struct cchv_net_config {
	char text[4096], id[65];
	int fds[8], fd_count, last_is_route;
};

static struct cchv_net_config given[8]; /* what the VM has */
static size_t given_count;
static int refuse_next;

static int note(cchv_net_config *net, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int note(cchv_net_config *net, const char *format, ...)
{
	size_t n = strlen(net->text);
	va_list args;

	va_start(args, format);
	vsnprintf(net->text + n, sizeof(net->text) - n, format, args);
	va_end(args);
	return CCHV_OK;
}

int cchv_net_config_new(cchv_net_config **ret_config)
{
	*ret_config = calloc(1, sizeof(**ret_config));
	return CCHV_OK;
}

void cchv_net_config_free(cchv_net_config *net)
{
	for (int i = 0; net && i < net->fd_count; i++)
		close(net->fds[i]);
	free(net);
}

int cchv_net_config_set_id(cchv_net_config *net, const char *id)
{
	snprintf(net->id, sizeof(net->id), "%s", id);
	return CCHV_OK;
}

int cchv_net_config_add_tap_fd(cchv_net_config *net, int fd)
{
	net->fds[net->fd_count++] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return CCHV_OK;
}

int cchv_net_config_set_mac(cchv_net_config *net, const char *mac)
{
	return note(net, "mac %s\n", mac);
}

int cchv_net_config_set_mtu(cchv_net_config *net, uint32_t mtu)
{
	return note(net, "mtu %u\n", mtu);
}

int cchv_net_config_set_guest_name(cchv_net_config *net, const char *name)
{
	return note(net, "name %s\n", name);
}

int cchv_net_config_add_address(cchv_net_config *net, const char *cidr)
{
	return note(net, "address %s\n", cidr);
}

int cchv_net_config_add_route(cchv_net_config *net, const char *destination, const char *gateway, uint32_t metric)
{
	return note(net, "route %s via %s metric %u\n", destination, gateway ? gateway : "-", metric);
}

int cchv_net_config_set_route_source(cchv_net_config *net, const char *ip)
{
	return note(net, " source %s\n", ip);
}

int cchv_net_config_set_route_mtu(cchv_net_config *net, uint32_t mtu)
{
	return note(net, " mtu %u\n", mtu);
}

int cchv_net_config_set_route_onlink(cchv_net_config *net, int onlink)
{
	return note(net, " onlink\n");
}

int cchv_net_config_set_route_localnet(cchv_net_config *net, int localnet)
{
	return note(net, "localnet %d\n", localnet);
}

int cchv_net_config_add_neighbour(cchv_net_config *net, const char *ip, const char *mac)
{
	return note(net, "neighbour %s %s\n", ip, mac);
}

int cchv_vm_config_add_net(cchv_vm_config *config, cchv_net_config *net)
{
	struct cchv_net_config *copy = &given[given_count];

	if (refuse_next)
		return CCHV_ERR_EXISTS;
	*copy = *net;
	for (int i = 0; i < net->fd_count; i++)
		copy->fds[i] = fcntl(net->fds[i], F_DUPFD_CLOEXEC, 3);
	given_count++;
	return CCHV_OK;
}

int cchv_vm_attach_net(cchv_vm *vm, cchv_net_config *net, int timeout_ms, cchv_error **err)
{
	return cchv_vm_config_add_net(NULL, net);
}

static void take_away(size_t i)
{
	for (int n = 0; n < given[i].fd_count; n++)
		close(given[i].fds[n]);
	given_count--;
	memmove(&given[i], &given[i + 1], (given_count - i) * sizeof(given[0]));
}

int cchv_vm_detach(cchv_vm *vm, const char *id, int timeout_ms, cchv_error **err)
{
	for (size_t i = 0; i < given_count; i++) {
		if (strcmp(given[i].id, id) == 0) {
			take_away(i);
			return CCHV_OK;
		}
	}
	return CCHV_ERR_NOT_FOUND;
}

/* ---- two namespaces ---- */

static struct netns_holder pod, out;
static struct netns_mirror *mirror;
static char *error;
static cchv_vm_config *const a_config = (cchv_vm_config *)&pod;
static cchv_vm *const a_vm = (cchv_vm *)&out;

/* $POD and $OUT run a command in there. */
static void sh(const char *command)
{
	char text[3000];

	snprintf(text, sizeof(text), "set -e; POD='nsenter -t %d -n'; OUT='nsenter -t %d -n'; PODPID=%d; OUTPID=%d; %s",
		 (int)pod.pid, (int)out.pid, (int)pod.pid, (int)out.pid, command);
	if (system(text) != 0)
		test_fail(__FILE__, __LINE__, "sh: %s", command);
}

static void begin(void)
{
	if (geteuid() != 0 || access("/dev/net/tun", F_OK) < 0) {
		printf("skipped: needs root and /dev/net/tun\n");
		exit(0);
	}
	CHECK_INT(netns_holder_start(&pod, NULL, &error), CCHV_OK);
	CHECK_INT(netns_holder_start(&out, NULL, &error), CCHV_OK);
}

static void add_veth(void)
{
	sh("$OUT ip link add veth-out address 02:00:00:00:00:01 type veth "
	   "peer name eth0 address 02:00:00:00:00:02 netns $PODPID;"
	   "$OUT ip link set veth-out up");
}

static void open_mirror(unsigned int queues)
{
	CHECK_INT(netns_mirror_new(&mirror, pod.netns_fd, queues, &error), CCHV_OK);
}

static int update(cchv_vm_config *config, cchv_vm *vm)
{
	int r = netns_mirror_update(mirror, config, vm, 1000, &error);

	if (r < 0 && !refuse_next)
		printf("update: %s\n", error ? error : "");
	return r;
}

static void end(void)
{
	netns_mirror_free(mirror);
	while (given_count)
		take_away(given_count - 1);
	netns_holder_stop(&pod);
	netns_holder_stop(&out);
	free(error);
}

/* ---- frames ---- */

/* A packet socket in "out" on its end of the interface. */
static int open_wire(const char *name)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), fd;

	CHECK_INT(setns(out.netns_fd, CLONE_NEWNET), 0);
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
	address.sll_ifindex = (int)if_nametoindex(name);
	CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_INT(setns(own, CLONE_NEWNET), 0);
	close(own);
	return fd;
}

#define VNET_HDR 10 /* in front of each frame of a tap, as the VMM asks for it */

/* A frame of our own kind (0x88b5) with a number, of that length. */
static size_t make_frame(uint8_t *frame, size_t length, uint8_t number)
{
	static const uint8_t head[] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };

	memset(frame, number, length);
	memcpy(frame, head, sizeof(head));
	return length;
}

/* Until it comes: others may be about, such as those of IPv6. */
static void expect_frame(int fd, size_t skip, const uint8_t *frame, size_t length)
{
	static uint8_t data[70000];
	struct pollfd p = { fd, POLLIN, 0 };

	for (;;) {
		ssize_t n;

		CHECK_INT(poll(&p, 1, 10000), 1);
		n = read(fd, data, sizeof(data));
		if (n == (ssize_t)(length + skip) && memcmp(data + skip, frame, length) == 0)
			return;
	}
}

__attribute__((unused)) static void check_both_ways(int tap, const char *wire_name, size_t length)
{
	static uint8_t data[VNET_HDR + 10000];
	int wire = open_wire(wire_name);

	memset(data, 0, sizeof(data));
	make_frame(data + VNET_HDR, length, 0x41);
	CHECK_INT(write(tap, data, VNET_HDR + length), VNET_HDR + length);
	expect_frame(wire, 0, data + VNET_HDR, length);
	make_frame(data + VNET_HDR, length, 0x42);
	CHECK_INT(send(wire, data + VNET_HDR, length, 0), length);
	expect_frame(tap, VNET_HDR, data + VNET_HDR, length);
	close(wire);
}

#endif
