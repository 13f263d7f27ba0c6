/* SPDX-License-Identifier: Apache-2.0 */
/* vhost-user messages: see vhost_user_msg.h. Enters: the front end's bytes. Leaves: whole messages of right size. */
#include "vhost_user_msg.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

/* What each known request carries. */
static const struct rule {
	const char *name;
	uint32_t min_size, max_size;
} rules[] = {
	[VHOST_USER_GET_FEATURES] = { "GET_FEATURES", 0, 0 },
	[VHOST_USER_SET_FEATURES] = { "SET_FEATURES", 8, 8 },
	[VHOST_USER_SET_OWNER] = { "SET_OWNER", 0, 0 },
	[VHOST_USER_RESET_OWNER] = { "RESET_OWNER", 0, 0 },
	[VHOST_USER_SET_MEM_TABLE] = { "SET_MEM_TABLE", 8, sizeof(struct vhost_user_mem_table) },
	[VHOST_USER_SET_VRING_NUM] = { "SET_VRING_NUM", 8, 8 },
	[VHOST_USER_SET_VRING_ADDR] = { "SET_VRING_ADDR", 40, 40 },
	[VHOST_USER_SET_VRING_BASE] = { "SET_VRING_BASE", 8, 8 },
	[VHOST_USER_GET_VRING_BASE] = { "GET_VRING_BASE", 8, 8 },
	[VHOST_USER_SET_VRING_KICK] = { "SET_VRING_KICK", 8, 8 },
	[VHOST_USER_SET_VRING_CALL] = { "SET_VRING_CALL", 8, 8 },
	[VHOST_USER_SET_VRING_ERR] = { "SET_VRING_ERR", 8, 8 },
	[VHOST_USER_GET_PROTOCOL_FEATURES] = { "GET_PROTOCOL_FEATURES", 0, 0 },
	[VHOST_USER_SET_PROTOCOL_FEATURES] = { "SET_PROTOCOL_FEATURES", 8, 8 },
	[VHOST_USER_GET_QUEUE_NUM] = { "GET_QUEUE_NUM", 0, 0 },
	[VHOST_USER_SET_VRING_ENABLE] = { "SET_VRING_ENABLE", 8, 8 },
	[VHOST_USER_GET_CONFIG] = { "GET_CONFIG", 12, sizeof(struct vhost_user_config) },
	[VHOST_USER_GET_MAX_MEM_SLOTS] = { "GET_MAX_MEM_SLOTS", 0, 0 },
	[VHOST_USER_ADD_MEM_REG] = { "ADD_MEM_REG", 40, 40 },
	[VHOST_USER_REM_MEM_REG] = { "REM_MEM_REG", 40, 40 },
};

static const struct rule *rule_of(uint32_t request)
{
	return request < ARRAY_LEN(rules) && rules[request].name ? &rules[request] : NULL;
}

const char *vhost_user_msg_name(uint32_t request)
{
	const struct rule *rule = rule_of(request);

	return rule ? rule->name : "?";
}

void vhost_user_msg_clear(struct vhost_user_msg *msg)
{
	for (size_t i = 0; i < msg->fd_count; i++)
		fd_close(&msg->fds[i]);
	msg->fd_count = 0;
	msg->have = 0;
}

int vhost_user_msg_take_fd(struct vhost_user_msg *msg, size_t at)
{
	return at < msg->fd_count ? fd_steal(&msg->fds[at]) : -1;
}

/* Judge a header as soon as it is there, before its payload is waited for. */
static int check_header(const struct vhost_user_header *h, cchv_error **err)
{
	const struct rule *rule = rule_of(h->request);

	if ((h->flags & VHOST_USER_FLAG_VERSION_MASK) != VHOST_USER_FLAG_VERSION)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "vhost-user: request %u of another version", h->request);
	if (h->size > sizeof(union vhost_user_payload) ||
	    (rule && (h->size < rule->min_size || h->size > rule->max_size)))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "vhost-user: request %u (%s) with %u bytes", h->request,
		               vhost_user_msg_name(h->request), h->size);
	return CCHV_OK;
}

/* Read once, up to the given end of the message, with what descriptors come along. */
static int receive_part(struct vhost_user_msg *msg, int sock, void *where, size_t len, cchv_error **err)
{
	size_t count = VHOST_USER_FDS_MAX - msg->fd_count;
	ssize_t n = fd_recv_with_fds(sock, where, len, msg->fds + msg->fd_count, &count);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n < 0 && errno != ECONNRESET)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "vhost-user: receive");
	if (n <= 0)
		return err_set(err, CCHV_ERR_VMM_GONE, 0, "vhost-user: the front end closed the channel");
	msg->fd_count += count;
	msg->have += (size_t)n;
	return 1;
}

int vhost_user_msg_receive(struct vhost_user_msg *msg, int sock, cchv_error **err)
{
	const size_t header_size = sizeof(msg->header);
	int r;

	while (msg->have < header_size) {
		r = receive_part(msg, sock, (char *)&msg->header + msg->have, header_size - msg->have, err);
		if (r <= 0)
			return r;
	}
	r = check_header(&msg->header, err);
	if (r < 0)
		return r;
	while (msg->have < header_size + msg->header.size) {
		size_t at = msg->have - header_size;

		r = receive_part(msg, sock, (char *)&msg->payload + at, msg->header.size - at, err);
		if (r <= 0)
			return r;
	}
	return 1;
}
