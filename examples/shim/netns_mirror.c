/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mirror of a network namespace: see netns.h. Enters: interfaces that come, change and go. Leaves: for each one a
 * tap with tc between the two, and a network device of the VM that has the interface's name, MAC and all that
 * the host knows of it. An interface is taken when it is up: whoever sets one up does that last, or nearly so.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"
#include "link_list.h"
#include "loopback.h"
#include "net_facts.h"
#include "netns.h"
#include "netns_run.h"
#include "nl.h"
#include "redirect.h"
#include "tap_device.h"

/* Addresses and routes come one by one, and nobody says which is the last: that long nothing must have come. */
#define QUIET_MS  20
#define SETTLE_MS 1000

#define WATCHED (RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE)

struct mirrored {
	int index;
	char name[IFNAMSIZ];
	char id[24];    /* of the VM's device */
	char *text;     /* what it was when it was plugged */
	int is_there;   /* in the list at hand */
};

struct netns_mirror {
	int netns_fd;
	unsigned int queues;
	struct nl watch;
	struct mirrored *items;
	size_t count;
	int loopback; /* the interface whose tap 127.0.0.1 is behind; 0: none */
};

/* One look at the namespace. */
struct look {
	struct netns_mirror *mirror;
	struct nl nl;
	struct link_list links;
	cchv_vm_config *config;
	cchv_vm *vm;
	int timeout_ms;
	int changes;
};

static int open_watch(void *data)
{
	return nl_open(data, WATCHED);
}

static int open_plain(void *data)
{
	return nl_open(data, 0);
}

int netns_mirror_new(struct netns_mirror **ret_mirror, int netns_fd, unsigned int queues, char **ret_error)
{
	struct netns_mirror *m = calloc(1, sizeof(*m));

	if (!m)
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	m->queues = queues < 1 ? 1 : queues > TAP_QUEUES_MAX ? TAP_QUEUES_MAX : queues;
	m->netns_fd = fcntl(netns_fd, F_DUPFD_CLOEXEC, 3);
	if (m->netns_fd < 0 || netns_run(m->netns_fd, open_watch, &m->watch) < 0 ||
	    fcntl(mnl_socket_get_fd(m->watch.socket), F_SETFL, O_NONBLOCK) < 0) {
		fault_set(ret_error, CCHV_ERR_SYSTEM, "network namespace: watch it: %s", strerror(errno));
		netns_mirror_free(m);
		return CCHV_ERR_SYSTEM;
	}
	*ret_mirror = m;
	return CCHV_OK;
}

int netns_mirror_get_fd(const struct netns_mirror *mirror)
{
	return mnl_socket_get_fd(mirror->watch.socket);
}

static void forget(struct netns_mirror *m, size_t place)
{
	free(m->items[place].text);
	m->count--;
	memmove(&m->items[place], &m->items[place + 1], (m->count - place) * sizeof(m->items[0]));
}

void netns_mirror_free(struct netns_mirror *mirror)
{
	struct nl nl;

	if (!mirror)
		return;
	if (mirror->count && netns_run(mirror->netns_fd, open_plain, &nl) == 0) {
		if (mirror->loopback)
			loopback_restore(&nl);
		for (size_t i = 0; i < mirror->count; i++)
			redirect_remove(&nl, mirror->items[i].index);
		nl_close(&nl);
	}
	while (mirror->count)
		forget(mirror, mirror->count - 1);
	nl_close(&mirror->watch);
	if (mirror->netns_fd >= 0)
		close(mirror->netns_fd);
	free(mirror->items);
	free(mirror);
}

/* ---- in and out ---- */

static int give(struct look *look, cchv_net_config *net, const struct link *link, char **ret_error)
{
	cchv_error *err = NULL;
	int r = look->vm ? cchv_vm_attach_net(look->vm, net, look->timeout_ms, &err)
			 : cchv_vm_config_add_net(look->config, net);

	return r < 0 ? fault_take(ret_error, r, err, "interface '%s'", link->name) : CCHV_OK;
}

/* One interface is enough. */
static int move_loopback(struct look *look, const struct tap_device *tap, const struct link *link,
			 cchv_net_config *net, char **ret_error)
{
	if (look->mirror->loopback)
		return CCHV_OK;
	if (loopback_move(&look->nl, tap, link, net) < 0)
		return fault_set(ret_error, fault_code(errno), "interface '%s': the loopback behind '%s': %s",
				 link->name, tap->name, strerror(errno));
	look->mirror->loopback = link->index;
	return CCHV_OK;
}

static void forget_loopback(struct look *look, int index)
{
	if (look->mirror->loopback != index)
		return;
	loopback_restore(&look->nl);
	look->mirror->loopback = 0;
}

/* The tap is open while the VM is given it; from then on it is the VM's. */
static int tie(struct look *look, cchv_net_config *net, const struct link *link, char **ret_error)
{
	struct tap_device tap;
	int r = CCHV_OK;

	if (tap_device_open(&look->nl, look->mirror->netns_fd, look->mirror->queues, link->mtu, &tap) < 0)
		return fault_set(ret_error, fault_code(errno), "interface '%s': a tap for it: %s", link->name,
				 strerror(errno));
	for (unsigned int i = 0; i < tap.queues && r == CCHV_OK; i++)
		r = cchv_net_config_add_tap_fd(net, tap.fds[i]);
	if (r < 0)
		fault_set(ret_error, r, "interface '%s': %s", link->name, cchv_err_text(r));
	else if (redirect_add(&look->nl, tap.index, link->index) < 0 ||
		 redirect_add(&look->nl, link->index, tap.index) < 0)
		r = fault_set(ret_error, fault_code(errno), "interface '%s': redirect it to '%s': %s", link->name,
			      tap.name, strerror(errno));
	else
		r = move_loopback(look, &tap, link, net, ret_error);
	if (r >= 0)
		r = give(look, net, link, ret_error);
	if (r < 0) {
		forget_loopback(look, link->index);
		redirect_remove(&look->nl, link->index);
	}
	tap_device_close(&tap);
	return r;
}

static int remember(struct netns_mirror *m, const struct mirrored *item)
{
	struct mirrored *items = reallocarray(m->items, m->count + 1, sizeof(*items));

	if (!items)
		return CCHV_ERR_NOMEM;
	m->items = items;
	items[m->count++] = *item;
	return CCHV_OK;
}

/* net has all but the tap. text is taken. */
static int plug(struct look *look, const struct link *link, cchv_net_config *net, char *text, char **ret_error)
{
	struct mirrored item = { .index = link->index, .text = text, .is_there = 1 };
	int r;

	snprintf(item.name, sizeof(item.name), "%s", link->name);
	snprintf(item.id, sizeof(item.id), "if%d", link->index);
	r = cchv_net_config_set_id(net, item.id);
	if (r == CCHV_OK)
		r = remember(look->mirror, &item);
	if (r < 0) {
		free(text);
		return fault_set(ret_error, r, "interface '%s': %s", link->name, cchv_err_text(r));
	}
	r = tie(look, net, link, ret_error);
	if (r < 0)
		forget(look->mirror, look->mirror->count - 1);
	else
		look->changes++;
	return r;
}

static int unplug(struct look *look, size_t place, char **ret_error)
{
	struct mirrored *item = &look->mirror->items[place];
	cchv_error *err = NULL;
	int r = CCHV_OK;

	forget_loopback(look, item->index);
	redirect_remove(&look->nl, item->index);
	if (look->vm)
		r = cchv_vm_detach(look->vm, item->id, look->timeout_ms, &err);
	if (r < 0 && r != CCHV_ERR_NOT_FOUND)
		return fault_take(ret_error, r, err, "interface '%s'", item->name);
	cchv_error_free(err);
	forget(look->mirror, place);
	look->changes++;
	return CCHV_OK;
}

/* ---- looking ---- */

static size_t find(const struct netns_mirror *m, int index)
{
	size_t i = 0;

	while (i < m->count && m->items[i].index != index)
		i++;
	return i;
}

/* New, the same as before, or changed: then it is taken out and put in again. */
static int look_at(struct look *look, const struct link *link, char **ret_error)
{
	struct netns_mirror *m = look->mirror;
	size_t place = find(m, link->index);
	cchv_net_config *net = NULL;
	char *text = NULL, *reason = NULL;
	int r = cchv_net_config_new(&net);

	if (r == CCHV_OK)
		r = net_facts_read(&look->nl, link, net, &text, &reason);
	if (r < 0) {
		fault_set(ret_error, r, "interface '%s': %s", link->name, reason ? reason : cchv_err_text(r));
	} else if (place < m->count && strcmp(m->items[place].text, text) == 0) {
		m->items[place].is_there = 1;
		free(text);
	} else {
		/* Before there is a VM nothing can be taken out again: it gets what the first look has seen. */
		if (place < m->count)
			r = look->vm ? unplug(look, place, ret_error) : 1;
		if (r == CCHV_OK) {
			r = plug(look, link, net, text, ret_error);
		} else {
			m->items[place].is_there = 1;
			free(text);
		}
	}
	free(reason);
	cchv_net_config_free(net);
	return r < 0 ? r : CCHV_OK;
}

static int is_up(const struct link_list *links, int index)
{
	for (size_t i = 0; i < links->count; i++)
		if (links->items[i].index == index)
			return links->items[i].is_up;
	return 0;
}

static int look_around(struct look *look, char **ret_error)
{
	struct netns_mirror *m = look->mirror;
	int r = CCHV_OK;

	if (look->links.has_tap && !m->count)
		return fault_set(ret_error, CCHV_ERR_EXISTS, "network namespace: another VM has its interfaces");
	for (size_t i = 0; i < m->count; i++)
		m->items[i].is_there = 0;
	if (m->loopback && !is_up(&look->links, m->loopback))
		forget_loopback(look, m->loopback);
	for (size_t i = 0; i < look->links.count && r == CCHV_OK; i++)
		if (look->links.items[i].is_up)
			r = look_at(look, &look->links.items[i], ret_error);
	for (size_t i = m->count; i-- > 0 && r == CCHV_OK && look->vm;)
		if (!m->items[i].is_there)
			r = unplug(look, i, ret_error);
	return r;
}

/* 1 when something had come. What it says is in the next dump too; that some was lost means the same. */
static int drain(struct netns_mirror *m)
{
	char buffer[8192];
	int any = 0;

	for (;;) {
		ssize_t n = recv(mnl_socket_get_fd(m->watch.socket), buffer, sizeof(buffer), MSG_DONTWAIT);

		if (n < 0 && errno != ENOBUFS && errno != EINTR)
			return any;
		any = 1;
	}
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void settle(struct netns_mirror *m)
{
	struct pollfd p = { netns_mirror_get_fd(m), POLLIN, 0 };
	int64_t end = now_ms() + SETTLE_MS;

	while (now_ms() < end && poll(&p, 1, QUIET_MS) > 0)
		drain(m);
}

int netns_mirror_update(struct netns_mirror *mirror, cchv_vm_config *config, cchv_vm *vm, int timeout_ms,
			char **ret_error)
{
	struct look look = { .mirror = mirror, .config = config, .vm = vm, .timeout_ms = timeout_ms };
	int r;

	if (drain(mirror) && vm)
		settle(mirror);
	if (netns_run(mirror->netns_fd, open_plain, &look.nl) < 0)
		return fault_set(ret_error, CCHV_ERR_SYSTEM, "network namespace: %s", strerror(errno));
	if (link_list_read(&look.nl, &look.links) < 0)
		r = fault_set(ret_error, CCHV_ERR_SYSTEM, "network namespace: its interfaces: %s", strerror(errno));
	else
		r = look_around(&look, ret_error);
	link_list_clear(&look.links);
	nl_close(&look.nl);
	return r < 0 ? r : look.changes;
}

int netns_clean(const char *path, char **ret_error)
{
	struct link_list links = { 0 };
	struct nl nl;
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1, r = CCHV_OK;

	if (fd < 0)
		return !path || errno == ENOENT || errno == ENOTDIR
			       ? CCHV_OK
			       : fault_set(ret_error, fault_code(errno), "'%s': %s", path, strerror(errno));
	/* What is no namespace any more, such as the file that CNI had mounted one on, has no rules of ours. */
	if (netns_run(fd, open_plain, &nl) < 0) {
		close(fd);
		return errno == EINVAL ? CCHV_OK
				       : fault_set(ret_error, fault_code(errno), "'%s': %s", path, strerror(errno));
	}
	if (link_list_read(&nl, &links) < 0)
		r = fault_set(ret_error, CCHV_ERR_SYSTEM, "'%s': its interfaces: %s", path, strerror(errno));
	for (size_t i = 0; i < links.count && r == CCHV_OK; i++)
		if (redirect_remove(&nl, links.items[i].index) < 0)
			r = fault_set(ret_error, CCHV_ERR_SYSTEM, "interface '%s': %s", links.items[i].name,
				      strerror(errno));
	link_list_clear(&links);
	nl_close(&nl);
	close(fd);
	return r;
}
