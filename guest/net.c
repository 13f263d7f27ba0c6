/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An interface of the guest: net.configure. Enters: MAC or PCI address, and what the host's network looks like.
 * Leaves: an interface that is up under the right name, with addresses, routes and neighbours. Asking twice is asking
 * once. Works in a worker, since the interface may still have to appear.
 */
#include "guest/container.h"

#include "guest/device.h"
#include "guest/field.h"
#include "guest/net_address.h"
#include "guest/netlink.h"
#include "guest/uevent.h"
#include "guest/worker.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS 20000
#define WORKER_MS 30000

struct interface {
	int netlink;
	int index;
	char name[IFNAMSIZ];
};

/* ---- finding ---- */

static int read_mac(const char *name, uint8_t mac[6])
{
	char path[64 + IFNAMSIZ], text[32];
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/class/net/%.15s/address", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -1;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return net_mac_parse(text, mac);
}

static int find_mac(const uint8_t wanted[6], char name[IFNAMSIZ])
{
	DIR *dir = opendir("/sys/class/net");
	struct dirent *entry;
	int found = 0;

	while (dir && !found && (entry = readdir(dir))) {
		uint8_t mac[6];

		if (entry->d_name[0] == '.' || read_mac(entry->d_name, mac) < 0 ||
		    memcmp(mac, wanted, 6) != 0)
			continue;
		snprintf(name, IFNAMSIZ, "%.15s", entry->d_name);
		found = 1;
	}
	if (dir)
		closedir(dir);
	return found;
}

static int wait_mac(const char *text, char name[IFNAMSIZ], const char **kind, cchv_error **err)
{
	uint64_t deadline = clock_deadline(WAIT_MS);
	cleanup_close int events = uevent_open();
	uint8_t mac[6];

	if (net_mac_parse(text, mac) < 0)
		return fail(kind, err, "device", EINVAL, "mac: '%s' is no address", text);
	if (events < 0)
		return fail(kind, err, "device", errno, "listen to uevents");
	while (!find_mac(mac, name))
		if (uevent_wait(events, deadline) < 0)
			return fail(kind, err, "device", ETIMEDOUT,
			            "no interface with the address '%s' appeared", text);
	return CCHV_OK;
}

static int find_interface(const struct json *params, char name[IFNAMSIZ], const char **kind, cchv_error **err)
{
	const char *mac = NULL, *device = NULL;
	cleanup_free char *node = NULL;
	int r = field_text(params, "", "device", &device, err);

	if (r >= 0)
		r = field_text(params, "", "mac", &mac, err);
	if (r < 0)
		return r;
	if (!device)
		return mac ? wait_mac(mac, name, kind, err)
		           : fail(kind, err, "device", EINVAL, "neither 'device' nor 'mac'");
	r = device_wait_blocking(device, DEVICE_NET, clock_deadline(WAIT_MS), &node, kind, err);
	if (r == CCHV_OK)
		snprintf(name, IFNAMSIZ, "%.15s", node);
	return r;
}

/* ---- the link ---- */

static int change_link(const struct interface *i, unsigned int flags, unsigned int change, uint16_t attribute,
                       const void *data, size_t len)
{
	const struct ifinfomsg body = { .ifi_index = i->index, .ifi_flags = flags, .ifi_change = change };
	struct netlink_message message;

	netlink_begin(&message, RTM_NEWLINK, 0, &body, sizeof(body));
	if (data)
		netlink_put(&message, attribute, data, len);
	return netlink_talk(i->netlink, &message);
}

static int name_is_valid(const char *name)
{
	size_t len = strlen(name);

	if (!len || len >= IFNAMSIZ || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	for (; *name; name++)
		if (*name == '/' || *name == ':' || *name <= ' ' || *name == 0x7f)
			return 0;
	return 1;
}

static int rename_link(struct interface *i, const char *name, cchv_error **err)
{
	if (strcmp(i->name, name) == 0)
		return CCHV_OK;
	if (!name_is_valid(name))
		return field_bad("", "name", err, "'%s' is no name of an interface", name);
	/* Older kernels rename only what is down. */
	if (change_link(i, 0, IFF_UP, 0, NULL, 0) < 0 ||
	    change_link(i, 0, 0, IFLA_IFNAME, name, strlen(name) + 1) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "rename '%s' to '%s'", i->name, name);
	snprintf(i->name, sizeof(i->name), "%s", name);
	return CCHV_OK;
}

/* The host has made sure that nobody else has the address; to ask the network for a second helps nobody. */
static void no_dad(const struct interface *i)
{
	char path[64 + IFNAMSIZ];
	cleanup_close int fd = -1;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/accept_dad", i->name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, "0", 1);
}

/* The host has somebody who wants to get to services of the loopback, and keeps all others from it. */
static int allow_loopback(const struct interface *i, const struct json *params, cchv_error **err)
{
	char path[64 + IFNAMSIZ];
	cleanup_close int fd = -1;
	int is_wanted = 0, r = field_bool(params, "", "localnet", &is_wanted, err);

	if (r < 0 || !is_wanted)
		return r < 0 ? r : CCHV_OK;
	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/route_localnet", i->name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1", 1) != 1)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "localnet of '%s'", i->name);
	return CCHV_OK;
}

static int set_link(struct interface *i, const struct json *params, cchv_error **err)
{
	const char *name = NULL;
	uint32_t mtu = 0;
	int r = field_text(params, "", "name", &name, err);

	if (r == 1 && *name)
		r = rename_link(i, name, err);
	if (r >= 0)
		r = field_u32(params, "", "mtu", &mtu, err);
	if (r < 0)
		return r;
	if (mtu && change_link(i, 0, 0, IFLA_MTU, &mtu, sizeof(mtu)) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "mtu %u of '%s'", mtu, i->name);
	no_dad(i);
	if (change_link(i, IFF_UP, IFF_UP, 0, NULL, 0) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "bring '%s' up", i->name);
	return CCHV_OK;
}

/* ---- what it knows ---- */

static int add_address(const struct interface *i, const char *text, const char *where, cchv_error **err)
{
	struct netlink_message message;
	struct net_address a;
	struct ifaddrmsg body;

	if (net_address_parse(text, &a) < 0)
		return field_bad(where, "", err, "'%s' is no address", text);
	body = (struct ifaddrmsg){ .ifa_family = (uint8_t)a.family,
		                   .ifa_prefixlen = (uint8_t)a.prefix,
		                   .ifa_index = (uint32_t)i->index };
	netlink_begin(&message, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof(body));
	netlink_put(&message, IFA_LOCAL, a.bytes, a.len);
	netlink_put(&message, IFA_ADDRESS, a.bytes, a.len);
	if (a.family == AF_INET6)
		netlink_put_u32(&message, IFA_FLAGS, IFA_F_NODAD);
	if (a.family == AF_INET && a.prefix < 31) {
		uint8_t broadcast[4];
		uint32_t mask = a.prefix ? 0xffffffffU >> a.prefix : 0xffffffffU;

		for (int b = 0; b < 4; b++)
			broadcast[b] = (uint8_t)(a.bytes[b] | mask >> (24 - 8 * b));
		netlink_put(&message, IFA_BROADCAST, broadcast, 4);
	}
	if (netlink_talk(i->netlink, &message) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "address '%s' of '%s'", text, i->name);
	return CCHV_OK;
}

struct route {
	struct net_address destination, gateway, source;
	int has_destination, has_gateway, has_source;
	uint32_t metric, mtu;
	int is_onlink; /* the gateway is reached through the interface, whatever the addresses say */
	int scope; /* -1: what fits */
};

static int parse_address(const struct json *item, const char *where, const char *key, struct net_address *ret,
                         cchv_error **err)
{
	const char *text = NULL;
	int r = field_text(item, where, key, &text, err);

	if (r < 1 || !*text || strcmp(text, "default") == 0)
		return r < 0 ? r : 0;
	return net_address_parse(text, ret) < 0 ? field_bad(where, key, err, "'%s' is no address", text) : 1;
}

/* A name, or the kernel's number. */
static int parse_scope(const struct json *item, const char *where, int *ret, cchv_error **err)
{
	static const struct {
		const char *name;
		int scope;
	} names[] = { { "global", RT_SCOPE_UNIVERSE },
		      { "universe", RT_SCOPE_UNIVERSE },
		      { "site", RT_SCOPE_SITE },
		      { "link", RT_SCOPE_LINK },
		      { "host", RT_SCOPE_HOST } };
	const char *text = NULL;
	uint64_t number;

	*ret = -1;
	if (json_as_u64(json_get(item, "scope"), &number) == 0 && number <= 255) {
		*ret = (int)number;
		return CCHV_OK;
	}
	if (field_text(item, where, "scope", &text, err) < 0)
		return CCHV_ERR_INVALID;
	for (size_t i = 0; text && *text && i < ARRAY_LEN(names); i++)
		if (strcmp(names[i].name, text) == 0)
			*ret = names[i].scope;
	return text && *text && *ret < 0 ? field_bad(where, "scope", err, "unknown scope '%s'", text)
	                                 : CCHV_OK;
}

static int parse_route(const struct json *item, const char *where, struct route *route, cchv_error **err)
{
	int r;

	*route = (struct route){ 0 };
	r = route->has_destination = parse_address(item, where, "destination", &route->destination, err);
	if (r >= 0)
		r = route->has_gateway = parse_address(item, where, "gateway", &route->gateway, err);
	if (r >= 0)
		r = route->has_source = parse_address(item, where, "source", &route->source, err);
	if (r >= 0)
		r = field_u32(item, where, "metric", &route->metric, err);
	if (r >= 0)
		r = field_u32(item, where, "mtu", &route->mtu, err);
	if (r >= 0)
		r = field_bool(item, where, "onlink", &route->is_onlink, err);
	if (r >= 0)
		r = parse_scope(item, where, &route->scope, err);
	if (r >= 0 && !route->has_destination && !route->has_gateway && !json_get(item, "destination"))
		return field_bad(where, "", err, "neither destination nor gateway");
	return r < 0 ? r : CCHV_OK;
}

/* RTA_METRICS holds attributes of its own. */
static void put_route_mtu(struct netlink_message *message, uint32_t mtu)
{
	struct {
		struct rtattr header;
		uint32_t value;
	} metric = { { sizeof(metric), RTAX_MTU }, mtu };

	netlink_put(message, RTA_METRICS, &metric, sizeof(metric));
}

static int add_route(const struct interface *i, const struct route *route, const char *where,
                     cchv_error **err)
{
	const struct net_address *any = route->has_destination ? &route->destination
	                                : route->has_gateway   ? &route->gateway
	                                                       : &route->source;
	struct rtmsg body = { .rtm_family = (uint8_t)(any->family ? any->family : AF_INET),
		              .rtm_table = RT_TABLE_MAIN,
		              .rtm_protocol = RTPROT_STATIC,
		              .rtm_type = RTN_UNICAST };
	struct netlink_message message;

	body.rtm_dst_len = (uint8_t)(route->has_destination ? route->destination.prefix : 0);
	body.rtm_scope = (uint8_t)(route->scope >= 0            ? route->scope
	                           : route->has_gateway         ? RT_SCOPE_UNIVERSE
	                           : body.rtm_family == AF_INET ? RT_SCOPE_LINK
	                                                        : RT_SCOPE_UNIVERSE);
	if (route->is_onlink && route->has_gateway)
		body.rtm_flags |= RTNH_F_ONLINK;
	netlink_begin(&message, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof(body));
	netlink_put_u32(&message, RTA_OIF, (uint32_t)i->index);
	if (body.rtm_dst_len)
		netlink_put(&message, RTA_DST, route->destination.bytes, route->destination.len);
	if (route->has_gateway)
		netlink_put(&message, RTA_GATEWAY, route->gateway.bytes, route->gateway.len);
	if (route->has_source)
		netlink_put(&message, RTA_PREFSRC, route->source.bytes, route->source.len);
	if (route->metric)
		netlink_put_u32(&message, RTA_PRIORITY, route->metric);
	if (route->mtu)
		put_route_mtu(&message, route->mtu);
	if (netlink_talk(i->netlink, &message) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s of '%s'", where, i->name);
	return CCHV_OK;
}

/* Those without a gateway first: they are the way to the gateways. */
static int add_routes(const struct interface *i, const struct json *list, cchv_error **err)
{
	int r = CCHV_OK;

	for (int with_gateway = 0; with_gateway < 2; with_gateway++) {
		for (size_t n = 0; r >= 0 && n < json_count(list); n++) {
			struct field_place place;
			const struct json *item;
			struct route route;

			r = field_item(list, "", "routes", n, &place, &item, err);
			if (r >= 0)
				r = parse_route(item, place.path, &route, err);
			if (r >= 0 && route.has_gateway == with_gateway)
				r = add_route(i, &route, place.path, err);
		}
	}
	return r;
}

static int add_neighbour(const struct interface *i, const struct json *item, const char *where,
                         cchv_error **err)
{
	struct netlink_message message;
	struct net_address address;
	const char *text = NULL;
	struct ndmsg body;
	uint8_t mac[6];
	int r = field_required(parse_address(item, where, "address", &address, err), where, "address", err);

	if (r >= 0)
		r = field_required(field_text(item, where, "mac", &text, err), where, "mac", err);
	if (r < 0)
		return r;
	if (net_mac_parse(text, mac) < 0)
		return field_bad(where, "mac", err, "'%s' is no address", text);
	body = (struct ndmsg){ .ndm_family = (uint8_t)address.family,
		               .ndm_ifindex = i->index,
		               .ndm_state = NUD_PERMANENT };
	netlink_begin(&message, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &body, sizeof(body));
	netlink_put(&message, NDA_DST, address.bytes, address.len);
	netlink_put(&message, NDA_LLADDR, mac, sizeof(mac));
	if (netlink_talk(i->netlink, &message) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s of '%s'", where, i->name);
	return CCHV_OK;
}

static int set_network(const struct interface *i, const struct json *params, cchv_error **err)
{
	const struct json *routes = NULL, *neighbours = NULL, *item;
	struct words addresses = { NULL, 0 };
	int r = allow_loopback(i, params, err);

	if (r >= 0)
		r = field_words(params, "", "addresses", &addresses, err);

	for (size_t n = 0; r >= 0 && n < addresses.count; n++) {
		char where[32];

		snprintf(where, sizeof(where), "addresses[%zu]", n);
		r = add_address(i, addresses.items[n], where, err);
	}
	words_free(&addresses);
	if (r >= 0)
		r = field_array(params, "", "routes", &routes, err);
	if (r >= 0)
		r = add_routes(i, routes, err);
	if (r >= 0)
		r = field_array(params, "", "neighbours", &neighbours, err);
	for (size_t n = 0; r >= 0 && n < json_count(neighbours); n++) {
		struct field_place place;

		r = field_item(neighbours, "", "neighbours", n, &place, &item, err);
		if (r >= 0)
			r = add_neighbour(i, item, place.path, err);
	}
	return r < 0 ? r : CCHV_OK;
}

static int work(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	const struct json *params = arg;
	cleanup_close int netlink = netlink_open();
	struct interface i = { .netlink = netlink };
	int r;

	*kind = "device";
	if (netlink < 0)
		return fail(kind, err, "device", errno, "netlink");
	r = find_interface(params, i.name, kind, err);
	if (r < 0)
		return r;
	i.index = (int)if_nametoindex(i.name);
	if (!i.index)
		return fail(kind, err, "device", errno, "interface '%s'", i.name);
	r = set_link(&i, params, err);
	if (r >= 0)
		r = set_network(&i, params, err);
	if (r < 0)
		return r;
	*ret_result = json_new_object();
	json_set_string(*ret_result, "name", i.name);
	return CCHV_OK;
}

int net_configure(struct agent *agent, const struct json *params, struct reply *reply)
{
	/* The worker has a copy of everything, params too. */
	return worker_reply(agent, reply, work, (void *)(uintptr_t)params, WORKER_MS);
}
