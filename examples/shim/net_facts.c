/* SPDX-License-Identifier: Apache-2.0 */
/* What the host knows of an interface: see net_facts.h. Enters: messages of the kernel. Leaves: settings. */
#include "net_facts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"

#define ATTRIBUTES_MAX 64

struct facts {
	int index;
	cchv_net_config *config;
	FILE *text;
	int code; /* of the first setter that refused, or CCHV_ERR_UNSUPPORTED */
	const char *what;
};

struct attributes {
	const struct nlattr *items[ATTRIBUTES_MAX];
};

static int pick(const struct nlattr *attribute, void *data)
{
	uint16_t type = mnl_attr_get_type(attribute);

	if (type < ATTRIBUTES_MAX)
		((struct attributes *)data)->items[type] = attribute;
	return MNL_CB_OK;
}

static int fail(struct facts *f, int code, const char *what)
{
	f->code = code;
	f->what = what;
	return MNL_CB_ERROR;
}

/* "10.0.0.1"; NULL: no attribute, or none of an address. */
static const char *address_text(int family, const struct nlattr *attribute, char out[INET6_ADDRSTRLEN])
{
	size_t size = family == AF_INET ? 4 : 16;

	if (!attribute || (family != AF_INET && family != AF_INET6) || mnl_attr_get_payload_len(attribute) != size)
		return NULL;
	return inet_ntop(family, mnl_attr_get_payload(attribute), out, INET6_ADDRSTRLEN);
}

static uint32_t u32_of(const struct nlattr *attribute)
{
	return attribute && mnl_attr_get_payload_len(attribute) == 4 ? mnl_attr_get_u32(attribute) : 0;
}

/* ---- addresses ---- */

/* A peer is what the prefix is of, and it is reached directly. */
static int add_peer(struct facts *f, const char *peer, unsigned int prefix)
{
	char route[INET6_ADDRSTRLEN + 5];
	int r;

	snprintf(route, sizeof(route), "%s/%u", peer, prefix);
	fprintf(f->text, "peer %s\n", route);
	r = cchv_net_config_add_route(f->config, route, NULL, 0);
	return r < 0 ? fail(f, r, "the peer of an address") : MNL_CB_OK;
}

static int on_address(const struct nlmsghdr *message, void *data)
{
	const struct ifaddrmsg *body = mnl_nlmsg_get_payload(message);
	char local[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN], cidr[INET6_ADDRSTRLEN + 5];
	const char *own, *peer;
	struct attributes a = { { NULL } };
	struct facts *f = data;
	unsigned int prefix;
	int r;

	if (message->nlmsg_type != RTM_NEWADDR || mnl_nlmsg_get_payload_len(message) < sizeof(*body) ||
	    (int)body->ifa_index != f->index)
		return MNL_CB_OK;
	mnl_attr_parse(message, sizeof(*body), pick, &a);
	own = address_text(body->ifa_family, a.items[IFA_LOCAL], local);
	peer = address_text(body->ifa_family, a.items[IFA_ADDRESS], other);
	if (!own) {
		own = peer;
		peer = NULL;
	}
	if (!own)
		return MNL_CB_OK;
	prefix = body->ifa_prefixlen;
	if (peer && strcmp(peer, own) != 0) {
		prefix = body->ifa_family == AF_INET ? 32 : 128;
	} else {
		peer = NULL;
	}
	snprintf(cidr, sizeof(cidr), "%s/%u", own, prefix);
	fprintf(f->text, "address %s\n", cidr);
	r = cchv_net_config_add_address(f->config, cidr);
	if (r < 0)
		return fail(f, r, "an address");
	return peer ? add_peer(f, peer, body->ifa_prefixlen) : MNL_CB_OK;
}

/* ---- routes ---- */

struct route {
	int family;
	unsigned int prefix;
	const struct nlattr *destination, *gateway, *source;
	uint32_t metric, mtu;
	int is_onlink;
};

static int is_for_the_guest(const struct rtmsg *body, const struct attributes *a)
{
	const uint8_t *destination = a->items[RTA_DST] ? mnl_attr_get_payload(a->items[RTA_DST]) : NULL;
	uint32_t table = a->items[RTA_TABLE] ? u32_of(a->items[RTA_TABLE]) : body->rtm_table;

	if (table != RT_TABLE_MAIN || body->rtm_type != RTN_UNICAST || body->rtm_flags & RTM_F_CLONED ||
	    body->rtm_protocol == RTPROT_KERNEL)
		return 0;
	if (body->rtm_family == AF_INET6 && destination && mnl_attr_get_payload_len(a->items[RTA_DST]) == 16)
		return !(destination[0] == 0xff || (destination[0] == 0xfe && (destination[1] & 0xc0) == 0x80));
	return body->rtm_family == AF_INET || body->rtm_family == AF_INET6;
}

static int add_route(struct facts *f, const struct route *route)
{
	char destination[INET6_ADDRSTRLEN], gateway[INET6_ADDRSTRLEN], source[INET6_ADDRSTRLEN],
		cidr[INET6_ADDRSTRLEN + 5];
	const char *to = address_text(route->family, route->destination, destination);
	const char *via = address_text(route->family, route->gateway, gateway);
	const char *from = address_text(route->family, route->source, source);
	int r;

	snprintf(cidr, sizeof(cidr), "%s/%u", to ? to : route->family == AF_INET ? "0.0.0.0" : "::", route->prefix);
	fprintf(f->text, "route %s via %s from %s metric %u mtu %u onlink %d\n", cidr, via ? via : "-",
		from ? from : "-", route->metric, route->mtu, route->is_onlink);
	r = cchv_net_config_add_route(f->config, cidr, via, route->metric);
	if (r == CCHV_OK && from)
		r = cchv_net_config_set_route_source(f->config, from);
	if (r == CCHV_OK && route->mtu)
		r = cchv_net_config_set_route_mtu(f->config, route->mtu);
	if (r == CCHV_OK && route->is_onlink && via)
		r = cchv_net_config_set_route_onlink(f->config, 1);
	return r < 0 ? fail(f, r, "a route") : MNL_CB_OK;
}

/* Of several ways the first one through this interface. 1 when there is one. */
static int take_hop(const struct nlattr *multipath, int index, struct route *route)
{
	const struct rtnexthop *hop = mnl_attr_get_payload(multipath);
	size_t left = mnl_attr_get_payload_len(multipath), step;

	while (left >= sizeof(*hop) && hop->rtnh_len >= sizeof(*hop) && hop->rtnh_len <= left) {
		struct attributes a = { { NULL } };

		if (hop->rtnh_ifindex == index) {
			mnl_attr_parse_payload((const char *)hop + sizeof(*hop), hop->rtnh_len - sizeof(*hop), pick,
					       &a);
			route->gateway = a.items[RTA_GATEWAY];
			route->is_onlink = (hop->rtnh_flags & RTNH_F_ONLINK) != 0;
			return 1;
		}
		step = RTNH_ALIGN((size_t)hop->rtnh_len);
		left -= step < left ? step : left;
		hop = (const struct rtnexthop *)((const char *)hop + step);
	}
	return 0;
}

static int on_route(const struct nlmsghdr *message, void *data)
{
	const struct rtmsg *body = mnl_nlmsg_get_payload(message);
	struct attributes a = { { NULL } }, metrics = { { NULL } };
	struct facts *f = data;
	struct route route;

	if (message->nlmsg_type != RTM_NEWROUTE || mnl_nlmsg_get_payload_len(message) < sizeof(*body))
		return MNL_CB_OK;
	mnl_attr_parse(message, sizeof(*body), pick, &a);
	if (!is_for_the_guest(body, &a))
		return MNL_CB_OK;
	if (a.items[RTA_METRICS])
		mnl_attr_parse_nested(a.items[RTA_METRICS], pick, &metrics);
	route = (struct route){ .family = body->rtm_family, .prefix = body->rtm_dst_len,
				.destination = a.items[RTA_DST], .gateway = a.items[RTA_GATEWAY],
				.source = a.items[RTA_PREFSRC],
				.metric = u32_of(a.items[RTA_PRIORITY]), .mtu = u32_of(metrics.items[RTAX_MTU]),
				.is_onlink = (body->rtm_flags & RTNH_F_ONLINK) != 0 };
	if (a.items[RTA_MULTIPATH]) {
		if (!take_hop(a.items[RTA_MULTIPATH], f->index, &route))
			return MNL_CB_OK;
	} else if ((int)u32_of(a.items[RTA_OIF]) != f->index) {
		return MNL_CB_OK;
	}
	/* A gateway of the other family. */
	if (a.items[RTA_VIA])
		return fail(f, CCHV_ERR_UNSUPPORTED, "a route of IPv4 through IPv6");
	return add_route(f, &route);
}

/* ---- neighbours ---- */

static int on_neighbour(const struct nlmsghdr *message, void *data)
{
	const struct ndmsg *body = mnl_nlmsg_get_payload(message);
	char address[INET6_ADDRSTRLEN], mac[18];
	struct attributes a = { { NULL } };
	struct facts *f = data;
	const uint8_t *bytes;
	int r;

	if (message->nlmsg_type != RTM_NEWNEIGH || mnl_nlmsg_get_payload_len(message) < sizeof(*body) ||
	    body->ndm_ifindex != f->index || !(body->ndm_state & NUD_PERMANENT))
		return MNL_CB_OK;
	mnl_attr_parse(message, sizeof(*body), pick, &a);
	if (!address_text(body->ndm_family, a.items[NDA_DST], address) || !a.items[NDA_LLADDR] ||
	    mnl_attr_get_payload_len(a.items[NDA_LLADDR]) != 6)
		return MNL_CB_OK;
	bytes = mnl_attr_get_payload(a.items[NDA_LLADDR]);
	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4],
		 bytes[5]);
	fprintf(f->text, "neighbour %s %s\n", address, mac);
	r = cchv_net_config_add_neighbour(f->config, address, mac);
	return r < 0 ? fail(f, r, "a neighbour") : MNL_CB_OK;
}

/* ---- all of it ---- */

static int dump(struct nl *nl, unsigned short type, int family, mnl_cb_t fn, struct facts *f)
{
	char room[NL_ROOM];
	struct rtmsg *body; /* the longest of the three; each begins with the family */
	struct nlmsghdr *request = nl_begin(room, type, 0, sizeof(*body), &body);

	body->rtm_family = (unsigned char)family;
	return nl_dump(nl, request, fn, f);
}

static int set_link(const struct link *link, struct facts *f)
{
	int r = cchv_net_config_set_mac(f->config, link->mac);

	if (r == CCHV_OK)
		r = cchv_net_config_set_mtu(f->config, link->mtu);
	if (r == CCHV_OK)
		r = cchv_net_config_set_guest_name(f->config, link->name);
	fprintf(f->text, "link %s %s mtu %u\n", link->name, link->mac, link->mtu);
	return r < 0 ? fail(f, r, "its MAC address, MTU or name") : 0;
}

int net_facts_read(struct nl *nl, const struct link *link, cchv_net_config *config, char **ret_text, char **ret_error)
{
	struct facts f = { .index = link->index, .config = config };
	char *text = NULL;
	size_t size;
	int r;

	f.text = open_memstream(&text, &size);
	if (!f.text)
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	r = set_link(link, &f);
	/* Addresses first, both families in one; then the ways. */
	if (r == 0)
		r = dump(nl, RTM_GETADDR, AF_UNSPEC, on_address, &f);
	if (r == 0)
		r = dump(nl, RTM_GETROUTE, AF_INET, on_route, &f);
	if (r == 0)
		r = dump(nl, RTM_GETROUTE, AF_INET6, on_route, &f);
	if (r == 0)
		r = dump(nl, RTM_GETNEIGH, AF_UNSPEC, on_neighbour, &f);
	if (r < 0 && f.code)
		r = fault_set(ret_error, f.code, "%s: %s", f.what, cchv_err_text(f.code));
	else if (r < 0)
		r = fault_set(ret_error, fault_code(errno), "rtnetlink: %s", strerror(errno));
	if (fclose(f.text) != 0 && r == 0)
		r = fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	if (r < 0)
		free(text);
	else
		*ret_text = text;
	return r;
}
