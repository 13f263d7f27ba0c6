/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the kernel about a tap, in whichever network namespace it is. */
#ifndef LIB_NET_QUERY_H
#define LIB_NET_QUERY_H

#include <stdint.h>

#include "base/error.h"

struct net_tap {
	uint32_t mtu;
	int is_tun;        /* made by the tun driver (a tap or a tun) */
	int multi_queue;
	int has_carrier;   /* it is up, and somebody has its other end */
};

/* netns_fd -1: ours. CCHV_ERR_NOT_FOUND: no such interface; CCHV_ERR_DENIED: no right to enter the namespace. */
int net_query_tap(int netns_fd, const char *name, struct net_tap *ret_tap, cchv_error **err);
/* The same for an open queue of a tap; what cannot be found out is left 0. */
void net_query_tap_fd(int fd, struct net_tap *ret_tap);
/* A reply of the kernel to RTM_GETLINK. CCHV_OK, CCHV_ERR_NOT_FOUND, CCHV_ERR_SYSTEM or CCHV_ERR_PROTOCOL. */
int net_query_parse(const void *data, size_t len, struct net_tap *ret_tap, int *ret_errno);

#endif
