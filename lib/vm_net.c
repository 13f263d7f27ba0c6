/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network devices of a VM. Enters: settings. Leaves: what they left open (MAC, MTU, queues) filled in; the
 * interface set up by the agent.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctx.h"
#include "net_query.h"
#include "vm_api.h"
#include "vm_config.h"
#include "vm_device.h"

/* FNV-1a: the MAC of one VM's device is the same each time, without anything to remember. */
static uint64_t hash(const char *text, uint64_t seed)
{
	for (; *text; text++)
		seed = (seed ^ (unsigned char)*text) * 1099511628211ULL;
	return seed;
}

static void derive_mac(const char *vm_id, const char *device_id, char *ret_mac)
{
	uint64_t h = hash(device_id, hash(vm_id, 14695981039346656037ULL) * 31);

	/* 02: locally administered, unicast. */
	snprintf(ret_mac, 18, "02:%02x:%02x:%02x:%02x:%02x", (unsigned int)(h >> 32 & 0xff),
	         (unsigned int)(h >> 24 & 0xff), (unsigned int)(h >> 16 & 0xff), (unsigned int)(h >> 8 & 0xff),
	         (unsigned int)(h & 0xff));
}

int vm_net_resolve(cchv_vm *vm, const cchv_net_config *net, const char *id, char *ret_mac, uint32_t *ret_mtu,
                   uint32_t *ret_pairs, cchv_error **err)
{
	uint32_t vcpus = vm_config_vcpus(vm->config), pairs;
	struct net_tap tap = { 0 };
	int r;

	if (net->tap) {
		r = net_query_tap(vm->config->netns_fd, net->tap, &tap, err);
		if (r < 0)
			return err_prefix(err, r, "network device '%s'", id);
		if (!tap.is_tun)
			return err_set(err, CCHV_ERR_INVALID, 0,
			               "network device '%s': interface '%s' is no tap", id, net->tap);
		if (tap.has_carrier && !tap.multi_queue)
			return err_set(err, CCHV_ERR_EXISTS, EBUSY, "network device '%s': tap '%s' is in use", id,
			               net->tap);
		pairs = net->pairs ? net->pairs : tap.multi_queue ? vcpus : 1;
	} else {
		net_query_tap_fd(net->fds[0], &tap);
		pairs = (uint32_t)net->fd_count;
		if (net->pairs && net->pairs != pairs)
			return err_set(err, CCHV_ERR_INVALID, 0, "network device '%s': %u queue pairs, but %u fds", id,
			               net->pairs, pairs);
	}
	if (pairs > vcpus)
		return err_set(err, CCHV_ERR_INVALID, 0,
		               "network device '%s': %u queue pairs are more than the %u vCPUs",
		               id, pairs, vcpus);
	if (net->mac)
		snprintf(ret_mac, 18, "%s", net->mac);
	else
		derive_mac(vm->id, id, ret_mac);
	*ret_mtu = net->mtu ? net->mtu : tap.mtu;
	*ret_pairs = pairs;
	return CCHV_OK;
}

/* The first of eth0, eth1, ... that no other device of the VM has. */
static char *next_name(const cchv_vm *vm)
{
	for (unsigned int n = 0;; n++) {
		char *name = mem_printf("eth%u", n);
		int taken = 0;

		if (!name)
			return NULL;
		for (const struct vm_device *d = vm->devices; d && !taken; d = d->next)
			taken = (d->guest_name && strcmp(d->guest_name, name) == 0) ||
				(d->net && d->net->guest_name && strcmp(d->net->guest_name, name) == 0);
		if (!taken)
			return name;
		free(name);
	}
}

static struct json *configure_params(const struct vm_device *d)
{
	struct json *p = json_new_object();

	json_set_string(p, "device", d->address);
	json_set_string(p, "name", d->guest_name);
	if (d->net->mtu)
		json_set_u64(p, "mtu", d->net->mtu);
	json_set(p, "addresses", d->net->addresses ? json_copy(d->net->addresses) : json_new_array());
	json_set(p, "routes", d->net->routes ? json_copy(d->net->routes) : json_new_array());
	if (d->net->route_localnet)
		json_set_bool(p, "localnet", 1);
	json_set(p, "neighbours", d->net->neighbours ? json_copy(d->net->neighbours) : json_new_array());
	return p;
}

int vm_net_up(cchv_vm *vm, struct vm_device *device, uint64_t deadline, cchv_error **err)
{
	int r;

	if (device->net_is_up)
		return CCHV_OK;
	if (!device->guest_name)
		device->guest_name = device->net->guest_name ? mem_strdup(device->net->guest_name) : next_name(vm);
	if (!device->guest_name)
		return err_nomem(err);
	r = vm_ask(vm, "net.configure", configure_params(device), deadline, NULL, err);
	if (r < 0)
		return err_prefix(err, r, "network device '%s'", device->id);
	device->net_is_up = 1;
	return CCHV_OK;
}

static int append_words(struct buf *out, const char *keyword, const struct json *list, int one_line)
{
	int r = CCHV_OK;

	for (size_t i = 0; i < json_count(list) && r == CCHV_OK; i++)
		r = one_line ? buf_printf(out, "%s%s", i ? " " : "", json_as_string(json_at(list, i)))
			     : buf_printf(out, "%s %s\n", keyword, json_as_string(json_at(list, i)));
	return r;
}

/* The words of all devices behind one keyword, on one line: a second "search" line would replace the first. */
static int append_line(const cchv_vm *vm, struct buf *out, const char *keyword, size_t offset)
{
	cleanup_buf struct buf words = BUF_INIT(65536);
	int r = CCHV_OK;

	for (const struct vm_device *d = vm->devices; d && r == CCHV_OK; d = d->next) {
		const struct json *list = d->net ? *(struct json *const *)((const char *)d->net + offset) : NULL;

		if (json_count(list) && words.len)
			r = buf_append_byte(&words, ' ');
		if (r == CCHV_OK)
			r = append_words(&words, keyword, list, 1);
	}
	if (r == CCHV_OK && words.len)
		r = buf_printf(out, "%s %s\n", keyword, buf_string(&words));
	return r;
}

char *vm_resolv_conf(const cchv_vm *vm)
{
	cleanup_buf struct buf out = BUF_INIT(262144);
	int r;

	r = append_line(vm, &out, "search", offsetof(cchv_net_config, dns_searches));
	for (const struct vm_device *d = vm->devices; d && r == CCHV_OK; d = d->next)
		if (d->net)
			r = append_words(&out, "nameserver", d->net->dns_servers, 0);
	if (r == CCHV_OK)
		r = append_line(vm, &out, "options", offsetof(cchv_net_config, dns_options));
	return r < 0 || !out.len ? NULL : buf_take_string(&out);
}
