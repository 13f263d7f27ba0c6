/* SPDX-License-Identifier: Apache-2.0 */
/* rtnetlink: see nl.h. Enters: messages. Leaves: answers. */
#include "nl.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>

#define NL_DUMP_ROOM 32768 /* of one part of a dump */

int nl_open(struct nl *nl, unsigned int groups)
{
	nl->sequence = 0;
	nl->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!nl->socket)
		return -1;
	if (mnl_socket_bind(nl->socket, groups, MNL_SOCKET_AUTOPID) == 0)
		return 0;
	nl_close(nl);
	return -1;
}

void nl_close(struct nl *nl)
{
	int reason = errno;

	if (nl->socket)
		mnl_socket_close(nl->socket);
	nl->socket = NULL;
	errno = reason;
}

struct nlmsghdr *nl_begin(char *room, unsigned short type, unsigned short flags, size_t size, void *ret_body)
{
	struct nlmsghdr *request = mnl_nlmsg_put_header(room);

	request->nlmsg_type = type;
	request->nlmsg_flags = NLM_F_REQUEST | flags;
	*(void **)ret_body = mnl_nlmsg_put_extra_header(request, size);
	return request;
}

/* The kernel answers as soon as it is asked: nothing here waits for anybody else. */
static int talk(struct nl *nl, struct nlmsghdr *request, mnl_cb_t fn, void *data)
{
	unsigned int port = mnl_socket_get_portid(nl->socket);
	size_t room = NL_DUMP_ROOM;
	char *buffer = malloc(room);
	int r = buffer ? 1 : -1;

	request->nlmsg_seq = ++nl->sequence;
	if (r > 0 && mnl_socket_sendto(nl->socket, request, request->nlmsg_len) < 0)
		r = -1;
	while (r > 0) {
		ssize_t n = mnl_socket_recvfrom(nl->socket, buffer, room);

		r = n < 0 ? -1 : mnl_cb_run(buffer, (size_t)n, nl->sequence, port, fn, data);
	}
	free(buffer);
	return r < 0 ? -1 : 0;
}

int nl_ask(struct nl *nl, struct nlmsghdr *request)
{
	request->nlmsg_flags |= NLM_F_ACK;
	return talk(nl, request, NULL, NULL);
}

int nl_query(struct nl *nl, struct nlmsghdr *request, mnl_cb_t fn, void *data)
{
	request->nlmsg_flags |= NLM_F_ACK;
	return talk(nl, request, fn, data);
}

int nl_dump(struct nl *nl, struct nlmsghdr *request, mnl_cb_t fn, void *data)
{
	request->nlmsg_flags |= NLM_F_DUMP;
	return talk(nl, request, fn, data);
}
