/* SPDX-License-Identifier: Apache-2.0 */
#include "net_query.h"

#include "test.h"

#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>

static char reply[512] __attribute__((aligned(8)));
static size_t used;

static void *room(size_t len)
{
	void *p = reply + used;

	used += NLA_ALIGN(len);
	return p;
}

static struct nlattr *attr(int type, const void *data, size_t len)
{
	struct nlattr *a = room(NLA_HDRLEN + len);

	a->nla_type = (uint16_t)type;
	a->nla_len = (uint16_t)(NLA_HDRLEN + len);
	if (data)
		memcpy((char *)a + NLA_HDRLEN, data, len);
	return a;
}

/* A reply as the kernel gives it for a tap with several queues. */
static size_t tap_reply(void)
{
	struct nlmsghdr *h;
	struct nlattr *info, *data;
	uint32_t mtu = 1450;
	uint8_t one = 1;

	memset(reply, 0, sizeof(reply));
	used = 0;
	h = room(sizeof(*h));
	h->nlmsg_type = RTM_NEWLINK;
	room(sizeof(struct ifinfomsg));
	attr(IFLA_IFNAME, "tap0", 5);
	attr(IFLA_MTU, &mtu, sizeof(mtu));
	info = attr(IFLA_LINKINFO | NLA_F_NESTED, NULL, 0);
	attr(IFLA_INFO_KIND, "tun", 4);
	data = attr(IFLA_INFO_DATA, NULL, 0);
	attr(IFLA_TUN_MULTI_QUEUE, &one, 1);
	data->nla_len = (uint16_t)(reply + used - (char *)data);
	info->nla_len = (uint16_t)(reply + used - (char *)info);
	h->nlmsg_len = (uint32_t)used;
	return used;
}

TEST(a_tap)
{
	struct net_tap tap = { 0 };
	int number;

	CHECK_INT(net_query_parse(reply, tap_reply(), &tap, &number), CCHV_OK);
	CHECK_INT(tap.mtu, 1450);
	CHECK_INT(tap.is_tun, 1);
	CHECK_INT(tap.multi_queue, 1);
}

TEST(errors)
{
	struct nlmsghdr *h = (struct nlmsghdr *)reply;
	struct nlmsgerr *e = NLMSG_DATA(h);
	struct net_tap tap;
	int number;

	memset(reply, 0, sizeof(reply));
	h->nlmsg_type = NLMSG_ERROR;
	h->nlmsg_len = NLMSG_LENGTH(sizeof(*e));
	e->error = -ENODEV;
	CHECK_INT(net_query_parse(reply, h->nlmsg_len, &tap, &number), CCHV_ERR_NOT_FOUND);
	CHECK_INT(number, ENODEV);
	e->error = -EPERM;
	CHECK_INT(net_query_parse(reply, h->nlmsg_len, &tap, &number), CCHV_ERR_SYSTEM);
	CHECK_INT(net_query_parse(reply, 10, &tap, &number), CCHV_ERR_PROTOCOL);
}

TEST(cut_and_bent_replies_are_read_within_their_bounds)
{
	size_t len = tap_reply();
	static char original[512];
	struct net_tap tap;
	int number;

	memcpy(original, reply, sizeof(original));
	for (size_t cut = 0; cut < len; cut++) {
		/* A block of exactly that size: a sanitizer sees each byte beyond. */
		char *copy = malloc(cut ? cut : 1);

		memcpy(copy, original, cut);
		if (cut >= sizeof(struct nlmsghdr))
			((struct nlmsghdr *)copy)->nlmsg_len = (uint32_t)cut;
		net_query_parse(copy, cut, &tap, &number);
		free(copy);
	}
	for (size_t at = 16; at < len; at++) {
		char *copy = malloc(len);

		memcpy(copy, original, len);
		copy[at] = (char)0xff;
		net_query_parse(copy, len, &tap, &number);
		copy[at] = 0;
		net_query_parse(copy, len, &tap, &number);
		free(copy);
	}
}

TEST(the_loopback_of_this_machine)
{
	struct net_tap tap;
	cchv_error *err = NULL;

	CHECK_INT(net_query_tap(-1, "lo", &tap, &err), CCHV_OK);
	CHECK(tap.mtu > 0 && !tap.is_tun);
	CHECK_INT(net_query_tap(-1, "no-such-name", &tap, &err), CCHV_ERR_NOT_FOUND);
	CHECK_CONTAINS(cchv_error_message(err), "no-such-name");
	cchv_error_free(err);
}
