/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a network device: see <cchv/device.h>. Enters: values. Leaves: struct cchv_net_config. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/export.h"
#include "base/fd.h"
#include "base/path.h"
#include "device.h"

#define NAME_MAX_BYTES 15 /* of an interface */
#define LIST_MAX 256

CCHV_API int cchv_net_config_new(cchv_net_config **ret_config)
{
	cchv_net_config *c;

	if (!ret_config)
		return CCHV_ERR_INVALID;
	c = mem_zalloc(sizeof(*c));
	if (!c)
		return CCHV_ERR_NOMEM;
	*ret_config = c;
	return CCHV_OK;
}

CCHV_API void cchv_net_config_free(cchv_net_config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->fd_count; i++)
		fd_close(&config->fds[i]);
	free(config->fds);
	free(config->id);
	free(config->tap);
	free(config->mac);
	free(config->guest_name);
	json_free(config->addresses);
	json_free(config->routes);
	json_free(config->neighbours);
	json_free(config->dns_servers);
	json_free(config->dns_searches);
	json_free(config->dns_options);
	free(config);
}

static int copy_list(struct json **slot, const struct json *list)
{
	if (!list)
		return CCHV_OK;
	*slot = json_copy(list);
	return *slot ? CCHV_OK : CCHV_ERR_NOMEM;
}

static int copy_fds(cchv_net_config *copy, const cchv_net_config *config)
{
	if (!config->fd_count)
		return CCHV_OK;
	copy->fds = mem_realloc_array(NULL, config->fd_count, sizeof(int));
	if (!copy->fds)
		return CCHV_ERR_NOMEM;
	for (; copy->fd_count < config->fd_count; copy->fd_count++) {
		copy->fds[copy->fd_count] = fd_copy(config->fds[copy->fd_count]);
		if (copy->fds[copy->fd_count] < 0)
			return CCHV_ERR_SYSTEM;
	}
	return CCHV_OK;
}

int net_config_copy(const cchv_net_config *config, cchv_net_config **ret_copy)
{
	cleanup_net_config cchv_net_config *c = mem_zalloc(sizeof(*c));
	int r;

	if (!c)
		return CCHV_ERR_NOMEM;
	c->mtu = config->mtu;
	c->pairs = config->pairs;
	c->route_localnet = config->route_localnet;
	if (mem_replace_string(&c->id, config->id) < 0 || mem_replace_string(&c->tap, config->tap) < 0 ||
	    mem_replace_string(&c->mac, config->mac) < 0 ||
	    mem_replace_string(&c->guest_name, config->guest_name) < 0 ||
	    copy_list(&c->addresses, config->addresses) < 0 || copy_list(&c->routes, config->routes) < 0 ||
	    copy_list(&c->neighbours, config->neighbours) < 0 ||
	    copy_list(&c->dns_servers, config->dns_servers) < 0 ||
	    copy_list(&c->dns_searches, config->dns_searches) < 0 ||
	    copy_list(&c->dns_options, config->dns_options) < 0)
		return CCHV_ERR_NOMEM;
	r = copy_fds(c, config);
	if (r < 0)
		return r;
	*ret_copy = steal(&c);
	return CCHV_OK;
}

CCHV_API int cchv_net_config_set_id(cchv_net_config *config, const char *id)
{
	if (!config || !id || !path_name_is_valid(id, DEVICE_ID_MAX))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->id, id);
}

/* What the kernel takes as the name of an interface. */
static int is_interface_name(const char *name)
{
	size_t len = name ? strlen(name) : 0;

	if (len < 1 || len > NAME_MAX_BYTES || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	return strpbrk(name, "/: \t\n\v\f\r") == NULL;
}

CCHV_API int cchv_net_config_set_tap(cchv_net_config *config, const char *name)
{
	if (!config || !is_interface_name(name))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->tap, name);
}

CCHV_API int cchv_net_config_add_tap_fd(cchv_net_config *config, int fd)
{
	int copy, *more;

	if (!config || fd < 0)
		return CCHV_ERR_INVALID;
	if (config->fd_count >= DEVICE_MAX_QUEUES)
		return CCHV_ERR_LIMIT;
	copy = fd_copy(fd);
	if (copy < 0)
		return errno == EBADF ? CCHV_ERR_INVALID : CCHV_ERR_SYSTEM;
	more = mem_realloc_array(config->fds, config->fd_count + 1, sizeof(int));
	if (!more) {
		fd_close(&copy);
		return CCHV_ERR_NOMEM;
	}
	config->fds = more;
	config->fds[config->fd_count++] = copy;
	return CCHV_OK;
}

/* Six pairs of hex digits; the lowest bit of the first byte marks a group. */
static int is_unicast_mac(const char *mac)
{
	if (!mac || strlen(mac) != 17)
		return 0;
	for (int i = 0; i < 17; i++) {
		if (i % 3 == 2 ? mac[i] != ':' : !strchr("0123456789abcdefABCDEF", mac[i]))
			return 0;
	}
	return strchr("02468aceACE", mac[1]) != NULL && strcmp(mac, "00:00:00:00:00:00") != 0;
}

CCHV_API int cchv_net_config_set_mac(cchv_net_config *config, const char *mac)
{
	if (!config || !is_unicast_mac(mac))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->mac, mac);
}

CCHV_API int cchv_net_config_set_mtu(cchv_net_config *config, uint32_t mtu)
{
	if (!config || mtu < 68 || mtu > 65535)
		return CCHV_ERR_INVALID;
	config->mtu = mtu;
	return CCHV_OK;
}

CCHV_API int cchv_net_config_set_queues(cchv_net_config *config, uint32_t pairs)
{
	if (!config || pairs < 1 || pairs > DEVICE_MAX_QUEUES)
		return CCHV_ERR_INVALID;
	config->pairs = pairs;
	return CCHV_OK;
}

CCHV_API int cchv_net_config_set_guest_name(cchv_net_config *config, const char *name)
{
	if (!config || !is_interface_name(name))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->guest_name, name);
}

/* AF_INET, AF_INET6, or -1. */
static int ip_family(const char *text)
{
	struct in6_addr address;

	if (text && inet_pton(AF_INET, text, &address) == 1)
		return AF_INET;
	return text && inet_pton(AF_INET6, text, &address) == 1 ? AF_INET6 : -1;
}

/* An address and "/" and a prefix length that fits its family; the family, or -1. */
static int cidr_family(const char *text)
{
	char ip[INET6_ADDRSTRLEN];
	const char *slash = text ? strchr(text, '/') : NULL;
	int family, prefix = 0;

	if (!slash || (size_t)(slash - text) >= sizeof(ip) || !slash[1] || strlen(slash + 1) > 3)
		return -1;
	memcpy(ip, text, (size_t)(slash - text));
	ip[slash - text] = '\0';
	for (const char *p = slash + 1; *p; p++) {
		if (*p < '0' || *p > '9')
			return -1;
		prefix = prefix * 10 + (*p - '0');
	}
	family = ip_family(ip);
	return family < 0 || prefix > (family == AF_INET ? 32 : 128) ? -1 : family;
}

/* Append to a list that is made at its first member; takes item in any case. */
static int list_append(struct json **slot, struct json *item)
{
	if (!*slot)
		*slot = json_new_array();
	if (!*slot || !item || json_count(*slot) >= LIST_MAX) {
		int r = *slot && item ? CCHV_ERR_LIMIT : CCHV_ERR_NOMEM;

		json_free(item);
		return r;
	}
	return json_append(*slot, item);
}

CCHV_API int cchv_net_config_add_address(cchv_net_config *config, const char *cidr)
{
	if (!config || cidr_family(cidr) < 0)
		return CCHV_ERR_INVALID;
	return list_append(&config->addresses, json_new_string(cidr));
}

CCHV_API int cchv_net_config_add_route(cchv_net_config *config, const char *destination, const char *gateway,
				       uint32_t metric)
{
	cleanup_json struct json *route = NULL;
	int family = cidr_family(destination);

	if (!config || family < 0 || (gateway && ip_family(gateway) != family))
		return CCHV_ERR_INVALID;
	route = json_new_object();
	if (!route || json_set_string(route, "destination", destination) < 0 ||
	    (gateway && json_set_string(route, "gateway", gateway) < 0) ||
	    (metric && json_set_u64(route, "metric", metric) < 0))
		return CCHV_ERR_NOMEM;
	return list_append(&config->routes, steal(&route));
}

/* Setters of the route that was added last. */
static struct json *last_route(cchv_net_config *config)
{
	size_t count = config ? json_count(config->routes) : 0;

	return count ? json_edit_at(config->routes, count - 1) : NULL;
}

CCHV_API int cchv_net_config_set_route_source(cchv_net_config *config, const char *ip)
{
	struct json *route = last_route(config);

	if (!config || ip_family(ip) < 0)
		return CCHV_ERR_INVALID;
	if (!route)
		return CCHV_ERR_STATE;
	if (ip_family(ip) != cidr_family(json_as_string(json_get(route, "destination"))))
		return CCHV_ERR_INVALID;
	return json_set_string(route, "source", ip);
}

CCHV_API int cchv_net_config_set_route_mtu(cchv_net_config *config, uint32_t mtu)
{
	struct json *route = last_route(config);

	if (!config || mtu < 68 || mtu > 65535)
		return CCHV_ERR_INVALID;
	return route ? json_set_u64(route, "mtu", mtu) : CCHV_ERR_STATE;
}

CCHV_API int cchv_net_config_set_route_onlink(cchv_net_config *config, int onlink)
{
	struct json *route = last_route(config);

	if (!config || onlink < 0 || onlink > 1)
		return CCHV_ERR_INVALID;
	return route ? json_set_bool(route, "onlink", onlink) : CCHV_ERR_STATE;
}

CCHV_API int cchv_net_config_set_route_localnet(cchv_net_config *config, int localnet)
{
	if (!config || localnet < 0 || localnet > 1)
		return CCHV_ERR_INVALID;
	config->route_localnet = localnet;
	return CCHV_OK;
}

CCHV_API int cchv_net_config_add_neighbour(cchv_net_config *config, const char *ip, const char *mac)
{
	cleanup_json struct json *neighbour = NULL;

	if (!config || ip_family(ip) < 0 || !is_unicast_mac(mac))
		return CCHV_ERR_INVALID;
	neighbour = json_new_object();
	if (!neighbour || json_set_string(neighbour, "address", ip) < 0 ||
	    json_set_string(neighbour, "mac", mac) < 0)
		return CCHV_ERR_NOMEM;
	return list_append(&config->neighbours, steal(&neighbour));
}

CCHV_API int cchv_net_config_add_dns_server(cchv_net_config *config, const char *ip)
{
	if (!config || ip_family(ip) < 0)
		return CCHV_ERR_INVALID;
	return list_append(&config->dns_servers, json_new_string(ip));
}

/* One word of resolv.conf. */
static int is_word(const char *text)
{
	size_t len = text ? strlen(text) : 0;

	if (len < 1 || len > 255)
		return 0;
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return 0;
	return 1;
}

CCHV_API int cchv_net_config_add_dns_search(cchv_net_config *config, const char *domain)
{
	if (!config || !is_word(domain))
		return CCHV_ERR_INVALID;
	return list_append(&config->dns_searches, json_new_string(domain));
}

CCHV_API int cchv_net_config_add_dns_option(cchv_net_config *config, const char *option)
{
	if (!config || !is_word(option))
		return CCHV_ERR_INVALID;
	return list_append(&config->dns_options, json_new_string(option));
}
