/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uevents: see uevent.h. Enters: messages of the kernel, by netlink. Leaves: drivers loaded for what was plugged, and
 * a nudge for those who wait for a device. Messages can be lost when many come at once; then everything is looked at.
 */
#include "guest/uevent.h"

#include "base/fd.h"
#include "guest/device.h"
#include "guest/module.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>

#define MESSAGE_MAX 8192
#define RECEIVE_BUFFER (1 << 20)

struct uevents {
	int fd;
	struct loop_source *source;
};

int uevent_open(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	cleanup_close int fd = -1;
	int size = RECEIVE_BUFFER;

	fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -1;
	/* A wish: overruns are handled. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		errno = 0;
	return fd_steal(&fd);
}

/* One message of the kernel (port 0) into data; 0: none; -1: some were lost. */
static ssize_t receive(int fd, char *data, size_t size)
{
	for (;;) {
		struct sockaddr_nl from = { 0 };
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, data, size, MSG_DONTWAIT, (struct sockaddr *)&from, &len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == ENOBUFS ? -1 : 0;
		if (n > 0 && from.nl_pid == 0)
			return n;
	}
}

int uevent_wait(int fd, uint64_t deadline)
{
	char data[MESSAGE_MAX];

	if (fd_wait(fd, POLLIN, deadline) < 0)
		return -1;
	while (receive(fd, data, sizeof(data)) != 0)
		;
	return 0;
}

const char *uevent_get(const char *message, size_t len, const char *key)
{
	size_t key_len = strlen(key);

	for (size_t at = 0; at < len;) {
		size_t rest = strnlen(message + at, len - at);

		if (at + rest == len)
			break; /* not ended: not a string */
		if (rest > key_len && memcmp(message + at, key, key_len) == 0 && message[at + key_len] == '=')
			return message + at + key_len + 1;
		at += rest + 1;
	}
	return NULL;
}

static void handle(struct agent *agent, const char *message, size_t len)
{
	const char *action = uevent_get(message, len, "ACTION");
	const char *alias = uevent_get(message, len, "MODALIAS");

	if (action && alias && strcmp(action, "add") == 0)
		module_hotplug(agent, alias);
}

static void on_message(uint32_t events, void *user_data)
{
	struct agent *agent = user_data;
	char data[MESSAGE_MAX];
	cleanup_err cchv_error *err = NULL;
	ssize_t n;

	while ((n = receive(agent->uevents->fd, data, sizeof(data))) != 0) {
		if (n > 0)
			handle(agent, data, (size_t)n);
		else if (module_coldplug(agent, &err) < 0)
			log_error(&agent->log, "%s", cchv_error_message(err));
	}
	devices_changed(agent);
}

int uevents_new(struct agent *agent, cchv_error **err)
{
	struct uevents *u = mem_zalloc(sizeof(*u));

	if (!u)
		return err_nomem(err);
	agent->uevents = u;
	u->fd = uevent_open();
	if (u->fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "listen to uevents");
	return loop_add(agent->loop, u->fd, EPOLLIN, on_message, agent, &u->source, err);
}

void uevents_free(struct agent *agent)
{
	struct uevents *u = agent->uevents;

	if (!u)
		return;
	loop_source_free(u->source);
	fd_close(&u->fd);
	free(u);
	agent->uevents = NULL;
}
