/* SPDX-License-Identifier: Apache-2.0 */
/* The little of rtnetlink that an interface needs: one request, its acknowledgement. */
#ifndef GUEST_NETLINK_H
#define GUEST_NETLINK_H

#include <linux/netlink.h>
#include <stddef.h>
#include <stdint.h>

#define NETLINK_MAX 1024

struct netlink_message {
	union {
		struct nlmsghdr header;
		uint8_t bytes[NETLINK_MAX];
	};
	int full; /* an attribute did not fit: sending fails with EMSGSIZE */
};

/* Begin a request whose fixed part is copied from body. */
void netlink_begin(struct netlink_message *message, uint16_t type, uint16_t flags, const void *body,
                   size_t len);
void netlink_put(struct netlink_message *message, uint16_t attribute, const void *data, size_t len);
void netlink_put_u32(struct netlink_message *message, uint16_t attribute, uint32_t value);

/* -1 and errno. */
int netlink_open(void);
/* Send and wait for the kernel's answer. 0, or -1 with its errno. */
int netlink_talk(int fd, struct netlink_message *message);

#endif
