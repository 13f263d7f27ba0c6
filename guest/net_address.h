/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as text: of networks and of Ethernet. */
#ifndef GUEST_NET_ADDRESS_H
#define GUEST_NET_ADDRESS_H

#include <stdint.h>

struct net_address {
	int family; /* AF_INET or AF_INET6 */
	unsigned int prefix; /* all bits without "/N" */
	unsigned int len; /* 4 or 16 */
	uint8_t bytes[16];
};

/* "10.0.0.2/24", "fd00::2/64", without a prefix too. 0, or -1. */
int net_address_parse(const char *text, struct net_address *ret);
/* "52:54:00:12:34:56". 0, or -1. */
int net_mac_parse(const char *text, uint8_t mac[6]);

#endif
