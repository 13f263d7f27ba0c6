/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The power button: see button.h. Enters: ACPI's events, which the kernel sends to a generic netlink group (so no input
 * device and no driver but `button` is needed). Leaves: power_button().
 */
#include "guest/button.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/power.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/genetlink.h>
#include <linux/netlink.h>

#define FAMILY "acpi_event"
#define GROUP "acpi_mc_group"
#define REPLY_MS 1000

/* What the kernel sends as attribute 1 of an event (drivers/acpi/event.c). */
struct acpi_event {
	char device_class[20];
	char bus_id[15];
	uint32_t type;
	uint32_t data;
};

static int event_fd = -1;
static struct loop_source *event_source;

/* The attribute of that type among len bytes of attributes; NULL when it is not there or lies about its length. */
static const struct nlattr *find_attribute(const void *data, size_t len, int type)
{
	const char *p = data;

	while (len >= NLA_HDRLEN) {
		const struct nlattr *a = (const struct nlattr *)p;
		size_t step;

		if (a->nla_len < NLA_HDRLEN || a->nla_len > len)
			return NULL;
		if ((a->nla_type & NLA_TYPE_MASK) == type)
			return a;
		step = NLA_ALIGN(a->nla_len);
		if (step >= len)
			return NULL;
		p += step;
		len -= step;
	}
	return NULL;
}

static const void *payload(const struct nlattr *a)
{
	return (const char *)a + NLA_HDRLEN;
}

static size_t payload_len(const struct nlattr *a)
{
	return (size_t)(a->nla_len - NLA_HDRLEN);
}

/* The number of the multicast group out of the answer about the family; 0 when it is not there. */
static uint32_t find_group(const void *attributes, size_t len)
{
	const struct nlattr *groups = find_attribute(attributes, len, CTRL_ATTR_MCAST_GROUPS);
	const char *p = groups ? payload(groups) : NULL;
	size_t left = groups ? payload_len(groups) : 0;

	while (left >= NLA_HDRLEN) {
		const struct nlattr *one = (const struct nlattr *)p, *name, *id;
		size_t step = NLA_ALIGN(one->nla_len);

		if (one->nla_len < NLA_HDRLEN || one->nla_len > left)
			return 0;
		name = find_attribute(payload(one), payload_len(one), CTRL_ATTR_MCAST_GRP_NAME);
		id = find_attribute(payload(one), payload_len(one), CTRL_ATTR_MCAST_GRP_ID);
		if (name && id && payload_len(id) == sizeof(uint32_t) && payload_len(name) == sizeof(GROUP) &&
		    memcmp(payload(name), GROUP, sizeof(GROUP)) == 0) {
			uint32_t number;

			memcpy(&number, payload(id), sizeof(number));
			return number;
		}
		if (step >= left)
			return 0;
		p += step;
		left -= step;
	}
	return 0;
}

static int ask_for_group(int fd, uint32_t *ret_group)
{
	struct {
		struct nlmsghdr n;
		struct genlmsghdr g;
		struct nlattr a;
		char name[NLA_ALIGN(sizeof(FAMILY))];
	} request = { 0 };
	union {
		struct nlmsghdr n;
		char data[8192];
	} answer;
	size_t head = NLMSG_HDRLEN + GENL_HDRLEN;
	ssize_t n;

	request.n.nlmsg_len = sizeof(request);
	request.n.nlmsg_type = GENL_ID_CTRL;
	request.n.nlmsg_flags = NLM_F_REQUEST;
	request.g.cmd = CTRL_CMD_GETFAMILY;
	request.g.version = 1;
	request.a.nla_type = CTRL_ATTR_FAMILY_NAME;
	request.a.nla_len = NLA_HDRLEN + sizeof(FAMILY);
	memcpy(request.name, FAMILY, sizeof(FAMILY));
	if (send(fd, &request, sizeof(request), 0) < 0 || fd_wait(fd, POLLIN, clock_deadline(REPLY_MS)) < 0)
		return -1;
	n = recv(fd, answer.data, sizeof(answer.data), MSG_DONTWAIT);
	if (n < 0)
		return -1;
	errno = ENOENT;
	if ((size_t)n < head || answer.n.nlmsg_type != GENL_ID_CTRL)
		return -1;
	*ret_group = find_group(answer.data + head, (size_t)n - head);
	return *ret_group ? 0 : -1;
}

static void on_event(uint32_t events, void *user_data)
{
	union {
		struct nlmsghdr n;
		char data[2048];
	} message;
	size_t head = NLMSG_HDRLEN + GENL_HDRLEN;
	ssize_t n;

	while ((n = recv(event_fd, message.data, sizeof(message.data), MSG_DONTWAIT)) > 0) {
		const struct nlattr *a = NULL;
		struct acpi_event event = { 0 };

		if ((size_t)n > head)
			a = find_attribute(message.data + head, (size_t)n - head, 1);
		if (!a || payload_len(a) < sizeof(event.device_class))
			continue;
		memcpy(&event, payload(a), payload_len(a) < sizeof(event) ? payload_len(a) : sizeof(event));
		if (strncmp(event.device_class, "button/power", sizeof("button/power") - 1) == 0)
			power_button(user_data);
	}
}

int button_watch(struct agent *agent, cchv_error **err)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK };
	cleanup_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_GENERIC);
	uint32_t group = 0;
	int r;

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || ask_for_group(fd, &group) < 0 ||
	    setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "listen to ACPI events");
	r = loop_add(agent->loop, fd, EPOLLIN, on_event, agent, &event_source, err);
	if (r == 0)
		event_fd = fd_steal(&fd);
	return r;
}
