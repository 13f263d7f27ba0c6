/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: see device.h. Enters: a PCI address as the VMM reported it. Leaves: the node that the kernel made for the
 * device, found below the address in sysfs, never guessed by letter.
 */
#include "guest/device.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/uevent.h"
#include "guest/worker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_MS 5000
#define MAX_TIMEOUT_MS 600000
#define ABSENT_MS 5000
#define MAX_DEPTH 6 /* pmem: virtio, ndbus, region, namespace, block, node */

struct await {
	struct await *next;
	struct agent *agent;
	char *address;
	enum device_kind kind;
	struct loop_timer *timer;
	device_fn fn;
	void *user_data;
};

struct devices {
	struct await *list;
};

int devices_new(struct agent *agent, cchv_error **err)
{
	agent->devices = mem_zalloc(sizeof(*agent->devices));
	return agent->devices ? CCHV_OK : err_nomem(err);
}

static struct await *await_unlink(struct await *a)
{
	struct await **link = &a->agent->devices->list;

	while (*link != a)
		link = &(*link)->next;
	*link = a->next;
	return a;
}

static void await_free(struct await *a)
{
	loop_timer_free(a->timer);
	free(a->address);
	free(a);
}

void devices_free(struct agent *agent)
{
	if (!agent->devices)
		return;
	while (agent->devices->list)
		await_free(await_unlink(agent->devices->list));
	free(agent->devices);
	agent->devices = NULL;
}

int device_kind_parse(const char *name, enum device_kind *ret_kind)
{
	static const char *const names[] = { "disk", "pmem", "net", "fs" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(names[i], name) == 0) {
			*ret_kind = (enum device_kind)i;
			return CCHV_OK;
		}
	}
	return CCHV_ERR_INVALID;
}

/* dddd:bb:dd.f, hexadecimal: it becomes part of a path. */
static int address_is_valid(const char *a)
{
	static const char form[] = "xxxx:xx:xx.x";

	if (strlen(a) != strlen(form))
		return 0;
	for (size_t i = 0; form[i]; i++)
		if (form[i] == 'x' ? !strchr("0123456789abcdef", a[i]) : a[i] != form[i])
			return 0;
	return 1;
}

/*
 * The first entry of the directory `wanted` anywhere below, links not followed. Closes fd. *ret_name stays NULL when
 * there is none.
 */
static int find_below(int fd, const char *wanted, int depth, char **ret_name)
{
	struct dirent *entry;
	DIR *directory = fdopendir(fd);
	int r = CCHV_OK;

	if (!directory) {
		close(fd);
		return CCHV_OK;
	}
	while (r == 0 && !*ret_name && (entry = readdir(directory))) {
		int child, here;

		if (entry->d_name[0] == '.' || entry->d_type != DT_DIR)
			continue;
		if (!wanted) {
			*ret_name = mem_strdup(entry->d_name);
			if (!*ret_name)
				r = CCHV_ERR_NOMEM;
			continue;
		}
		here = strcmp(entry->d_name, wanted) == 0;
		if (depth == 0 && !here)
			continue;
		child = openat(dirfd(directory), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child >= 0)
			r = find_below(child, here ? NULL : wanted, depth - 1, ret_name);
	}
	closedir(directory);
	return r;
}

/* The virtioN of a virtio-fs counts once its driver has it. */
static int find_virtio(int fd, char **ret_name)
{
	char path[300];
	struct dirent *entry;
	DIR *directory = fdopendir(fd);

	if (!directory) {
		close(fd);
		return CCHV_OK;
	}
	while (!*ret_name && (entry = readdir(directory))) {
		if (strncmp(entry->d_name, "virtio", 6) != 0 || entry->d_type != DT_DIR)
			continue;
		snprintf(path, sizeof(path), "%s/driver", entry->d_name);
		if (faccessat(dirfd(directory), path, F_OK, 0) < 0)
			continue;
		*ret_name = mem_strdup(entry->d_name);
		if (!*ret_name) {
			closedir(directory);
			return CCHV_ERR_NOMEM;
		}
	}
	closedir(directory);
	return CCHV_OK;
}

static int find_node(int fd, enum device_kind kind, char **ret_node)
{
	cleanup_free char *name = NULL;
	int r;

	if (kind == DEVICE_FS)
		return find_virtio(fd, ret_node);
	r = find_below(fd, kind == DEVICE_NET ? "net" : "block", MAX_DEPTH, &name);
	if (r < 0 || !name)
		return r;
	*ret_node = kind == DEVICE_NET ? steal(&name) : mem_printf("/dev/%s", name);
	return *ret_node ? CCHV_OK : CCHV_ERR_NOMEM;
}

static int open_directory(const char *address)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/", address);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int device_find(const char *pci_address, enum device_kind kind, char **ret_node, const char **kind_of_error,
                cchv_error **err)
{
	char *node = NULL;
	int fd, r;

	if (!address_is_valid(pci_address))
		return fail(kind_of_error, err, "device", EINVAL, "'%.64s' is no PCI address", pci_address);
	fd = open_directory(pci_address);
	if (fd < 0)
		return fail(kind_of_error, err, "device", ENOENT, "device '%s'", pci_address);
	r = find_node(fd, kind, &node);
	if (r < 0)
		return err_nomem(err);
	if (!node)
		return fail(kind_of_error, err, "device", ENOENT, "device '%s' has no node of that kind", pci_address);
	/* devtmpfs makes the node before anybody is told; a node that is missing is one that was just removed. */
	if (node[0] == '/' && access(node, F_OK) < 0) {
		free(node);
		return fail(kind_of_error, err, "device", ENOENT, "device '%s': its node", pci_address);
	}
	*ret_node = node;
	return CCHV_OK;
}

static int rescan(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	cleanup_close int fd = open("/sys/bus/pci/rescan", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "1", 1) < 0)
		return fail(kind, err, "device", errno, "rescan the PCI bus");
	return CCHV_OK;
}

static void rescanned(struct agent *agent, void *user_data, int r, struct json *result, const char *kind,
                      cchv_error *err)
{
	if (r < 0)
		log_error(&agent->log, "%s", cchv_error_message(err));
	json_free(result);
	cchv_error_free(err);
	devices_changed(agent);
}

static int is_present(const char *address)
{
	cleanup_close int fd = open_directory(address);

	return fd >= 0;
}

static void finish(struct await *a, const char *node)
{
	struct agent *agent = a->agent;

	await_unlink(a);
	a->fn(agent, node, a->user_data);
	await_free(a);
}

/* 1: it was there, and the callback has been. */
static int look(struct await *a)
{
	cleanup_free char *node = NULL;

	if (device_find(a->address, a->kind, &node, NULL, NULL) < 0)
		return 0;
	finish(a, node);
	return 1;
}

void devices_changed(struct agent *agent)
{
	struct await *a = agent->devices->list;

	/* From the start again after each call, since it may change the list. */
	while (a)
		a = look(a) ? agent->devices->list : a->next;
}

static void on_deadline(void *user_data)
{
	struct await *a = user_data;

	if (!look(a))
		finish(a, NULL);
}

int device_await(struct agent *agent, const char *pci_address, enum device_kind kind, uint64_t deadline,
                 device_fn fn, void *user_data, cchv_error **err)
{
	struct await *a = mem_zalloc(sizeof(*a));
	cleanup_err cchv_error *ignored = NULL;

	if (!a)
		return err_nomem(err);
	a->agent = agent;
	a->kind = kind;
	a->fn = fn;
	a->user_data = user_data;
	a->address = mem_strdup(pci_address);
	if (!a->address || loop_timer_new(agent->loop, on_deadline, a, &a->timer, NULL) < 0) {
		await_free(a);
		return err_nomem(err);
	}
	a->next = agent->devices->list;
	agent->devices->list = a;
	if (look(a))
		return CCHV_OK;
	loop_timer_set(a->timer, deadline);
	if (!is_present(pci_address) && worker_start(agent, rescan, NULL, -1, rescanned, NULL, &ignored) < 0)
		log_error(&agent->log, "%s", cchv_error_message(ignored));
	return CCHV_OK;
}

/*
 * The kernel shows a disk before it can be opened, and tells of it when that is possible. Asked in a worker alone: who
 * opens it waits until the kernel has read the partition table.
 */
static int can_be_opened(const char *node)
{
	cleanup_close int fd = node[0] == '/' ? open(node, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;

	return node[0] != '/' || fd >= 0 || errno != ENXIO;
}

int device_wait_blocking(const char *pci_address, enum device_kind kind, uint64_t deadline, char **ret_node,
                         const char **kind_of_error, cchv_error **err)
{
	/* Open before the first look, so that what appears in between is not missed. */
	cleanup_close int events = uevent_open();
	uint64_t absent = clock_deadline(ABSENT_MS);
	int rescanned_once = 0;

	if (events < 0)
		return fail(kind_of_error, err, "device", errno, "listen to uevents");
	for (;;) {
		cleanup_err cchv_error *why = NULL;
		int on_bus = is_present(pci_address);
		int r = device_find(pci_address, kind, ret_node, kind_of_error, &why);

		if (r == 0 && can_be_opened(*ret_node))
			return CCHV_OK;
		if (r == 0)
			free(steal(ret_node));
		else if (cchv_error_errno(why) != ENOENT)
			return err_move(err, &why, r);
		if (!on_bus && !rescanned_once) {
			struct json *nothing = NULL;

			rescanned_once = 1;
			r = rescan(NULL, &nothing, kind_of_error, err);
			if (r < 0)
				return r;
			continue;
		}
		/* On the bus its driver is at work, which a busy host delays; else it rarely comes. */
		if (uevent_wait(events, on_bus || absent > deadline ? deadline : absent) < 0)
			return fail(kind_of_error, err, "device", ETIMEDOUT, "device '%s' did not appear", pci_address);
	}
}

static void awaited(struct agent *agent, const char *node, void *user_data)
{
	struct json *result = NULL;
	const char *kind = "device";
	cchv_error *err = NULL;
	int r = CCHV_OK;

	if (node) {
		result = json_new_object();
		json_set_string(result, "path", node);
	} else {
		r = fail(&kind, &err, "device", ETIMEDOUT, "the device did not appear");
	}
	ticket_done(agent, user_data, r, result, kind, err);
}

static int get_params(const struct json *params, const char **ret_address, enum device_kind *ret_kind,
                      struct reply *reply)
{
	const char *kind = "disk";

	if (json_get_string(params, "device", ret_address, NULL) != 1 || !address_is_valid(*ret_address))
		return fail(&reply->kind, &reply->err, "device", EINVAL, "'device' is no PCI address");
	if (json_get_string(params, "kind", &kind, NULL) < 0 || device_kind_parse(kind, ret_kind) < 0)
		return fail(&reply->kind, &reply->err, "device", EINVAL, "'kind' is none of disk, pmem, net, fs");
	return CCHV_OK;
}

int device_wait(struct agent *agent, const struct json *params, struct reply *reply)
{
	uint64_t timeout_ms = DEFAULT_TIMEOUT_MS;
	const char *address = NULL;
	enum device_kind kind;
	struct ticket *ticket;
	int r = get_params(params, &address, &kind, reply);

	if (r < 0)
		return r;
	if (json_get_u64(params, "timeout_ms", &timeout_ms, NULL) < 0 || timeout_ms > MAX_TIMEOUT_MS)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'timeout_ms' is no time");
	ticket = reply_defer(reply);
	r = device_await(agent, address, kind, clock_deadline((int)timeout_ms), awaited, ticket, &reply->err);
	return r < 0 ? r : REPLY_LATER;
}

/* An exclusive open fails while a file system has the disk, in whatever mount namespace. */
static int release(void *arg, struct json **ret_result, const char **kind, cchv_error **err)
{
	const char *node = arg;
	cleanup_close int fd = open(node, O_RDONLY | O_EXCL | O_CLOEXEC);

	if (fd < 0)
		return fail(kind, err, "device", errno, "'%s' is in use", node);
	if (fsync(fd) < 0)
		return fail(kind, err, "device", errno, "sync '%s'", node);
	return CCHV_OK;
}

int device_release(struct agent *agent, const struct json *params, struct reply *reply)
{
	static const enum device_kind kinds[] = { DEVICE_DISK, DEVICE_NET };
	cleanup_free char *node = NULL;
	const char *address = NULL;
	enum device_kind ignored;
	int r = get_params(params, &address, &ignored, reply);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(kinds) && !node; i++)
		device_find(address, kinds[i], &node, NULL, NULL);
	if (!node || node[0] != '/')
		return CCHV_OK; /* gone already, or nothing that holds data */
	return worker_reply(agent, reply, release, node, -1);
}
