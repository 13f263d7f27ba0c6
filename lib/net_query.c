/* SPDX-License-Identifier: Apache-2.0 */
/* Asking about taps: see net_query.h. Enters: a name and a namespace. Leaves: MTU and queues, by rtnetlink. */
#include "net_query.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define REPLY_MS      2000
#define LINK_LOWER_UP 0x10000 /* IFF_LOWER_UP: <linux/if.h>, which has it, and <net/if.h> exclude each other */

static struct nlattr *next_attr(struct nlattr *a, const char *end)
{
	return (struct nlattr *)((char *)a + NLA_ALIGN(a->nla_len)) > (struct nlattr *)end
		       ? (struct nlattr *)end : (struct nlattr *)((char *)a + NLA_ALIGN(a->nla_len));
}

/* Is a whole attribute at a, in front of end? */
static int attr_ok(const struct nlattr *a, const char *end)
{
	return end - (const char *)a >= (ptrdiff_t)sizeof(*a) && a->nla_len >= sizeof(*a) &&
	       end - (const char *)a >= a->nla_len;
}

static char *attr_data(struct nlattr *a)
{
	return (char *)a + NLA_HDRLEN;
}

static size_t attr_len(const struct nlattr *a)
{
	return a->nla_len - NLA_HDRLEN;
}

static void parse_tun(struct nlattr *data, struct net_tap *tap)
{
	const char *end = (char *)data + data->nla_len;

	for (struct nlattr *a = (struct nlattr *)attr_data(data); attr_ok(a, end); a = next_attr(a, end))
		if ((a->nla_type & NLA_TYPE_MASK) == IFLA_TUN_MULTI_QUEUE && attr_len(a) >= 1)
			tap->multi_queue = *attr_data(a) != 0;
}

static void parse_linkinfo(struct nlattr *info, struct net_tap *tap)
{
	const char *end = (char *)info + info->nla_len;

	for (struct nlattr *a = (struct nlattr *)attr_data(info); attr_ok(a, end); a = next_attr(a, end)) {
		int type = a->nla_type & NLA_TYPE_MASK;

		if (type == IFLA_INFO_KIND && attr_len(a) >= 3)
			tap->is_tun = memcmp(attr_data(a), "tun", 3) == 0;
		else if (type == IFLA_INFO_DATA)
			parse_tun(a, tap);
	}
}

int net_query_parse(const void *data, size_t len, struct net_tap *ret_tap, int *ret_errno)
{
	const struct nlmsghdr *h = data;
	struct net_tap tap = { 0 };
	struct nlattr *a;
	const char *end;

	*ret_errno = 0;
	if (len < sizeof(*h) || h->nlmsg_len < sizeof(*h) || h->nlmsg_len > len)
		return CCHV_ERR_PROTOCOL;
	if (h->nlmsg_type == NLMSG_ERROR) {
		if (h->nlmsg_len < NLMSG_LENGTH(sizeof(struct nlmsgerr)))
			return CCHV_ERR_PROTOCOL;
		*ret_errno = -((struct nlmsgerr *)NLMSG_DATA(h))->error;
		return *ret_errno == ENODEV ? CCHV_ERR_NOT_FOUND : CCHV_ERR_SYSTEM;
	}
	if (h->nlmsg_type != RTM_NEWLINK || h->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifinfomsg)))
		return CCHV_ERR_PROTOCOL;
	end = (const char *)h + h->nlmsg_len;
	tap.has_carrier = (((struct ifinfomsg *)NLMSG_DATA(h))->ifi_flags & LINK_LOWER_UP) != 0;
	a = (struct nlattr *)((char *)NLMSG_DATA(h) + NLMSG_ALIGN(sizeof(struct ifinfomsg)));
	for (; attr_ok(a, end); a = next_attr(a, end)) {
		int type = a->nla_type & NLA_TYPE_MASK;

		if (type == IFLA_MTU && attr_len(a) >= sizeof(tap.mtu))
			memcpy(&tap.mtu, attr_data(a), sizeof(tap.mtu));
		else if (type == IFLA_LINKINFO)
			parse_linkinfo(a, &tap);
	}
	*ret_tap = tap;
	return CCHV_OK;
}

static int netlink_socket(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
}

/* A socket belongs to the namespace that it was made in: the thread goes there and comes back. */
static int socket_in(int netns_fd, cchv_error **err)
{
	cleanup_close int own = -1, fd = -1;

	if (netns_fd >= 0) {
		own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
		if (own < 0 || setns(netns_fd, CLONE_NEWNET) < 0)
			return err_set(err, err_code_of_errno(errno), errno, "enter the network namespace");
	}
	fd = netlink_socket();
	if (netns_fd >= 0 && setns(own, CLONE_NEWNET) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "return to the own network namespace");
	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "netlink socket");
	return fd_steal(&fd);
}

static int ask(int fd, const char *name, struct net_tap *ret_tap, int *ret_errno)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg info;
		struct nlattr a;
		char name[IFNAMSIZ];
	} request = {
		.h = { .nlmsg_len = sizeof(request), .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST },
		.a = { .nla_type = IFLA_IFNAME },
	};
	char reply[32768] __attribute__((aligned(8)));
	size_t len = strlen(name);
	ssize_t n;

	*ret_errno = ENAMETOOLONG;
	if (len >= IFNAMSIZ)
		return CCHV_ERR_NOT_FOUND;
	memcpy(request.name, name, len + 1);
	request.a.nla_len = (uint16_t)(NLA_HDRLEN + len + 1);
	n = send(fd, &request, sizeof(request), 0);
	if (n >= 0)
		n = fd_wait(fd, 1 /* POLLIN */, clock_deadline(REPLY_MS)) < 0 ? -1 : recv(fd, reply, sizeof(reply), 0);
	if (n < 0) {
		*ret_errno = errno;
		return CCHV_ERR_SYSTEM;
	}
	return net_query_parse(reply, (size_t)n, ret_tap, ret_errno);
}

int net_query_tap(int netns_fd, const char *name, struct net_tap *ret_tap, cchv_error **err)
{
	cleanup_close int fd = socket_in(netns_fd, err);
	int error_number, r;

	if (fd < 0) {
		r = fd;
		fd = -1;
		return r;
	}
	r = ask(fd, name, ret_tap, &error_number);
	if (r == CCHV_ERR_NOT_FOUND)
		return err_set(err, r, 0, "no interface '%s'", name);
	return r < 0 ? err_set(err, r, error_number, "interface '%s'", name) : CCHV_OK;
}

void net_query_tap_fd(int fd, struct net_tap *ret_tap)
{
	cleanup_close int netns = -1;
	struct ifreq request = { 0 };

	*ret_tap = (struct net_tap){ 0 };
	if (ioctl(fd, TUNGETIFF, &request) < 0)
		return;
	ret_tap->is_tun = 1;
	ret_tap->multi_queue = (request.ifr_flags & IFF_MULTI_QUEUE) != 0;
	netns = ioctl(fd, TUNGETDEVNETNS, 0);
	if (netns >= 0) {
		int multi_queue = ret_tap->multi_queue;

		fd_set_cloexec(netns, 1);
		if (net_query_tap(netns, request.ifr_name, ret_tap, NULL) == CCHV_OK)
			ret_tap->multi_queue = multi_queue;
	}
}
