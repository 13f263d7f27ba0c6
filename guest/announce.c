/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The announcement: see listen.h. Enters: nothing. Leaves: one frame to the host's port 1023, once per boot. The host
 * may not be listening (it may dial us instead), so a failure is no news.
 */
#include "guest/listen.h"

#include "base/clock.h"
#include "base/fd.h"
#include "wire/frame.h"
#include "wire/protocol.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#define ANNOUNCE_MS 10000

struct announcement {
	struct agent *agent;
	int fd;
	int sent;
	struct loop_source *source;
	struct loop_timer *timer;
};

static void done(struct announcement *a)
{
	loop_source_free(a->source);
	loop_timer_free(a->timer);
	fd_close(&a->fd);
	free(a);
}

static void on_timer(void *user_data)
{
	done(user_data);
}

static int say(struct announcement *a)
{
	cleanup_json struct json *message = json_new_object();

	json_set_string(message, "kind", "announce");
	json_set_u64(message, "version", PROTOCOL_VERSION);
	json_set_string(message, "boot_id", a->agent->boot_id);
	/* A fresh connection has room for it, so this does not wait. */
	return frame_send(a->fd, message, clock_deadline(0), NULL);
}

static void on_event(uint32_t events, void *user_data)
{
	struct announcement *a = user_data;
	int error = 0;
	socklen_t len = sizeof(error);
	uint8_t byte;

	if (!a->sent) {
		if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error || say(a) < 0 ||
		    loop_source_set_events(a->source, EPOLLIN | EPOLLRDHUP) < 0)
			done(a);
		else
			a->sent = 1;
		return;
	}
	/* The host closes first, for the sake of what is under way. */
	if (recv(a->fd, &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN)
		done(a);
}

void announce(struct agent *agent)
{
	struct sockaddr_vm host = { .svm_family = AF_VSOCK, .svm_port = PROTOCOL_ANNOUNCE_PORT,
		                    .svm_cid = VMADDR_CID_HOST };
	struct announcement *a = mem_zalloc(sizeof(*a));

	if (!a)
		return;
	a->agent = agent;
	a->fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (a->fd < 0) {
		free(a);
		return;
	}
	agent_make_private(&a->fd);
	if ((connect(a->fd, (struct sockaddr *)&host, sizeof(host)) < 0 && errno != EINPROGRESS) ||
	    loop_timer_new(agent->loop, on_timer, a, &a->timer, NULL) < 0 ||
	    loop_add(agent->loop, a->fd, EPOLLOUT, on_event, a, &a->source, NULL) < 0) {
		done(a);
		return;
	}
	loop_timer_set(a->timer, clock_deadline(ANNOUNCE_MS));
}
