/* SPDX-License-Identifier: Apache-2.0 */
/* Taps: see tap_device.h. Enters: a namespace. Leaves: open queues. */
#include "tap_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link_list.h"
#include "netns_run.h"

/* A tap belongs to the namespace in which /dev/net/tun was opened. */
static int open_queues(void *data)
{
	struct tap_device *tap = data;

	for (unsigned int i = 0; i < tap->queues; i++) {
		tap->fds[i] = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
		if (tap->fds[i] < 0)
			return -1;
	}
	return 0;
}

static int attach(struct tap_device *tap)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };

	if (tap->queues > 1)
		request.ifr_flags |= IFF_MULTI_QUEUE;
	/* The kernel finds a free number, and writes the name back for the other queues. */
	snprintf(request.ifr_name, sizeof(request.ifr_name), LINK_TAP_PREFIX "%%d");
	for (unsigned int i = 0; i < tap->queues; i++)
		if (ioctl(tap->fds[i], TUNSETIFF, &request) < 0)
			return -1;
	snprintf(tap->name, sizeof(tap->name), "%.15s", request.ifr_name);
	return 0;
}

static int take_index(const struct nlmsghdr *message, void *data)
{
	const struct ifinfomsg *body = mnl_nlmsg_get_payload(message);
	struct tap_device *tap = data;
	const struct nlattr *attribute;

	if (message->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	tap->index = body->ifi_index;
	mnl_attr_for_each(attribute, message, sizeof(*body)) {
		const uint8_t *mac = mnl_attr_get_payload(attribute);

		if (mnl_attr_get_type(attribute) == IFLA_ADDRESS && mnl_attr_get_payload_len(attribute) == 6)
			snprintf(tap->mac, sizeof(tap->mac), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
				 mac[3], mac[4], mac[5]);
	}
	return MNL_CB_OK;
}

/* One message with the link, and the acknowledgement that ends it. */
static int find_index(struct nl *nl, struct tap_device *tap)
{
	char room[NL_ROOM];
	struct ifinfomsg *body;
	struct nlmsghdr *request = nl_begin(room, RTM_GETLINK, 0, sizeof(*body), &body);

	mnl_attr_put_strz(request, IFLA_IFNAME, tap->name);
	if (nl_query(nl, request, take_index, tap) < 0)
		return -1;
	errno = ENODEV;
	return tap->index ? 0 : -1;
}

/* Nothing of the host shall speak on it: no address, which IPv6 would make as soon as it is up. */
static int forbid_addresses(struct nl *nl, const struct tap_device *tap)
{
	char room[NL_ROOM];
	struct ifinfomsg *body;
	struct nlmsghdr *request = nl_begin(room, RTM_NEWLINK, 0, sizeof(*body), &body);
	struct nlattr *families = mnl_attr_nest_start(request, IFLA_AF_SPEC);
	struct nlattr *inet6 = mnl_attr_nest_start(request, AF_INET6);

	body->ifi_index = tap->index;
	mnl_attr_put_u8(request, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
	mnl_attr_nest_end(request, inet6);
	mnl_attr_nest_end(request, families);
	if (nl_ask(nl, request) == 0)
		return 0;
	/* A host without IPv6 has none to forbid. */
	return errno == EAFNOSUPPORT || errno == EOPNOTSUPP || errno == EINVAL ? 0 : -1;
}

static int bring_up(struct nl *nl, const struct tap_device *tap, uint32_t mtu)
{
	char room[NL_ROOM];
	struct ifinfomsg *body;
	struct nlmsghdr *request = nl_begin(room, RTM_NEWLINK, 0, sizeof(*body), &body);

	body->ifi_index = tap->index;
	body->ifi_flags = IFF_UP;
	body->ifi_change = IFF_UP;
	mnl_attr_put_u32(request, IFLA_MTU, mtu);
	return nl_ask(nl, request);
}

int tap_device_open(struct nl *nl, int netns_fd, unsigned int queues, uint32_t mtu, struct tap_device *ret_tap)
{
	struct tap_device tap = { .queues = queues };

	for (unsigned int i = 0; i < TAP_QUEUES_MAX; i++)
		tap.fds[i] = -1;
	if (netns_run(netns_fd, open_queues, &tap) < 0 || attach(&tap) < 0 || find_index(nl, &tap) < 0 ||
	    forbid_addresses(nl, &tap) < 0 || bring_up(nl, &tap, mtu) < 0) {
		tap_device_close(&tap);
		return -1;
	}
	*ret_tap = tap;
	return 0;
}

void tap_device_close(struct tap_device *tap)
{
	int reason = errno;

	for (unsigned int i = 0; i < tap->queues; i++)
		if (tap->fds[i] >= 0)
			close(tap->fds[i]);
	tap->queues = 0;
	errno = reason;
}
