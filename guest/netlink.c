/* SPDX-License-Identifier: Apache-2.0 */
/* rtnetlink: see netlink.h. Enters: a request in parts. Leaves: what the kernel said to it. */
#include "guest/netlink.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void netlink_begin(struct netlink_message *message, uint16_t type, uint16_t flags, const void *body,
                   size_t len)
{
	memset(message, 0, sizeof(*message));
	message->header.nlmsg_len = (uint32_t)NLMSG_LENGTH(len);
	message->header.nlmsg_type = type;
	message->header.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	memcpy(message->bytes + NLMSG_HDRLEN, body, len);
}

void netlink_put(struct netlink_message *message, uint16_t attribute, const void *data, size_t len)
{
	size_t at = NLMSG_ALIGN(message->header.nlmsg_len);
	struct nlattr head = { .nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = attribute };

	if (at + NLA_HDRLEN + NLA_ALIGN(len) > NETLINK_MAX) {
		message->full = 1;
		return;
	}
	memcpy(message->bytes + at, &head, sizeof(head));
	memcpy(message->bytes + at + NLA_HDRLEN, data, len);
	message->header.nlmsg_len = (uint32_t)(at + NLA_HDRLEN + len);
}

void netlink_put_u32(struct netlink_message *message, uint16_t attribute, uint32_t value)
{
	netlink_put(message, attribute, &value, sizeof(value));
}

int netlink_open(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK };
	cleanup_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -1;
	return fd_steal(&fd);
}

int netlink_talk(int fd, struct netlink_message *message)
{
	static uint32_t sequence;
	uint8_t answer[4096];
	ssize_t n;

	if (message->full) {
		errno = EMSGSIZE;
		return -1;
	}
	message->header.nlmsg_seq = ++sequence;
	if (send(fd, message->bytes, message->header.nlmsg_len, 0) < 0)
		return -1;
	for (;;) {
		struct nlmsghdr head;
		int32_t code;

		n = recv(fd, answer, sizeof(answer), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < (ssize_t)(NLMSG_HDRLEN + sizeof(code)))
			return -1;
		memcpy(&head, answer, sizeof(head));
		if (head.nlmsg_seq != sequence || head.nlmsg_type != NLMSG_ERROR)
			continue;
		memcpy(&code, answer + NLMSG_HDRLEN, sizeof(code));
		errno = -code;
		return code ? -1 : 0;
	}
}
