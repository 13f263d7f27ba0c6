/* SPDX-License-Identifier: Apache-2.0 */
/* The loopback of a namespace: see loopback.h. */
#include "loopback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <netinet/ether.h>
#include <string.h>

#include "redirect.h"

#define LO_INDEX 1
/* Link-local, as this link is; whoever else uses them loses nothing but these two. */
#define OUR_END   "169.254.254.254"
#define GUEST_END "169.254.254.253"
#define LOOPBACK  "127.0.0.1"

static uint32_t ip(const char *text)
{
	struct in_addr address = { 0 };

	inet_pton(AF_INET, text, &address);
	return address.s_addr;
}

/* Frames from and to 127.0.0.1 are no martians there, nor is their sender one of our own. */
static int allow(struct nl *nl, int index)
{
	char room[NL_ROOM];
	struct ifinfomsg *body;
	struct nlmsghdr *request = nl_begin(room, RTM_NEWLINK, 0, sizeof(*body), &body);
	struct nlattr *families, *inet, *conf;

	body->ifi_index = index;
	families = mnl_attr_nest_start(request, IFLA_AF_SPEC);
	inet = mnl_attr_nest_start(request, AF_INET);
	conf = mnl_attr_nest_start(request, IFLA_INET_CONF);
	mnl_attr_put_u32(request, IPV4_DEVCONF_ROUTE_LOCALNET, 1);
	mnl_attr_put_u32(request, IPV4_DEVCONF_ACCEPT_LOCAL, 1);
	mnl_attr_nest_end(request, conf);
	mnl_attr_nest_end(request, inet);
	mnl_attr_nest_end(request, families);
	return nl_ask(nl, request);
}

static int add_address(struct nl *nl, int index)
{
	char room[NL_ROOM];
	struct ifaddrmsg *body;
	struct nlmsghdr *request = nl_begin(room, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, sizeof(*body), &body);

	body->ifa_family = AF_INET;
	body->ifa_prefixlen = 32;
	body->ifa_scope = RT_SCOPE_LINK;
	body->ifa_index = (unsigned int)index;
	mnl_attr_put_u32(request, IFA_LOCAL, ip(OUR_END));
	mnl_attr_put_u32(request, IFA_ADDRESS, ip(OUR_END));
	return nl_ask(nl, request);
}

static int add_neighbour(struct nl *nl, int index, const char *mac)
{
	char room[NL_ROOM];
	struct ndmsg *body;
	struct nlmsghdr *request = nl_begin(room, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, sizeof(*body), &body);
	struct ether_addr address;

	if (!ether_aton_r(mac, &address)) {
		errno = EINVAL;
		return -1;
	}
	body->ndm_family = AF_INET;
	body->ndm_ifindex = index;
	body->ndm_state = NUD_PERMANENT;
	mnl_attr_put_u32(request, NDA_DST, ip(GUEST_END));
	mnl_attr_put(request, NDA_LLADDR, sizeof(address), &address);
	return nl_ask(nl, request);
}

/* The table that comes first has it, in the place of what says that it is here: the longest prefix wins. */
static struct nlmsghdr *begin_route(char *room, struct rtmsg **ret_body)
{
	struct nlmsghdr *request = nl_begin(room, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, sizeof(**ret_body),
					    ret_body);

	(*ret_body)->rtm_family = AF_INET;
	(*ret_body)->rtm_dst_len = 32;
	(*ret_body)->rtm_table = RT_TABLE_LOCAL;
	mnl_attr_put_u32(request, RTA_DST, ip(LOOPBACK));
	return request;
}

static int add_route(struct nl *nl, int index)
{
	char room[NL_ROOM];
	struct rtmsg *body;
	struct nlmsghdr *request = begin_route(room, &body);

	body->rtm_type = RTN_UNICAST;
	body->rtm_protocol = RTPROT_STATIC;
	body->rtm_scope = RT_SCOPE_UNIVERSE;
	body->rtm_flags = RTNH_F_ONLINK;
	mnl_attr_put_u32(request, RTA_OIF, (unsigned int)index);
	mnl_attr_put_u32(request, RTA_GATEWAY, ip(GUEST_END));
	mnl_attr_put_u32(request, RTA_PREFSRC, ip(OUR_END));
	return nl_ask(nl, request);
}

void loopback_restore(struct nl *nl)
{
	char room[NL_ROOM];
	struct rtmsg *body;
	struct nlmsghdr *request = begin_route(room, &body);

	body->rtm_type = RTN_LOCAL;
	body->rtm_protocol = RTPROT_KERNEL;
	body->rtm_scope = RT_SCOPE_HOST;
	mnl_attr_put_u32(request, RTA_OIF, LO_INDEX);
	mnl_attr_put_u32(request, RTA_PREFSRC, ip(LOOPBACK));
	nl_ask(nl, request);
}

/* Where the guest answers to; its loopback is open to what comes through this interface. */
static int tell_guest(const struct tap_device *tap, cchv_net_config *net)
{
	int r = cchv_net_config_add_route(net, OUR_END "/32", NULL, 0);

	if (r == CCHV_OK)
		r = cchv_net_config_add_neighbour(net, OUR_END, tap->mac);
	if (r == CCHV_OK)
		r = cchv_net_config_set_route_localnet(net, 1);
	if (r == CCHV_OK)
		return 0;
	errno = r == CCHV_ERR_NOMEM ? ENOMEM : EINVAL;
	return -1;
}

int loopback_move(struct nl *nl, const struct tap_device *tap, const struct link *link, cchv_net_config *net)
{
	/* What comes from elsewhere for the loopback, or as if from us, is the host's, which drops it: martians. */
	const struct redirect_match strangers[] = {
		{ .offset = offsetof(struct iphdr, daddr), .address = htonl(INADDR_LOOPBACK & 0xff000000U),
		  .mask = htonl(0xff000000U) },
		{ .offset = offsetof(struct iphdr, saddr), .address = ip(OUR_END), .mask = ~0U },
	};
	const struct redirect_match answers = { .offset = offsetof(struct iphdr, daddr), .address = ip(OUR_END),
						.mask = ~0U };

	for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
		if (redirect_except(nl, link->index, &strangers[i]) < 0)
			return -1;
	if (redirect_except(nl, tap->index, &answers) < 0 || allow(nl, tap->index) < 0 ||
	    add_address(nl, tap->index) < 0 || add_neighbour(nl, tap->index, link->mac) < 0 ||
	    tell_guest(tap, net) < 0)
		return -1;
	/* Last: until then it is where it was. */
	return add_route(nl, tap->index);
}
