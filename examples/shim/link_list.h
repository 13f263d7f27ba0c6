/* SPDX-License-Identifier: Apache-2.0 */
/* The interfaces of a network namespace that a VM can have. Enters: RTM_NEWLINK. Leaves: what they are. */
#ifndef SHIM_LINK_LIST_H
#define SHIM_LINK_LIST_H

#include <linux/if.h>
#include <stdint.h>

#include "nl.h"

/* Taps of ours, so that nobody mirrors them; the kernel puts a number there. */
#define LINK_TAP_PREFIX "cchv"

struct link {
	int index;
	char name[IFNAMSIZ];
	char mac[18];
	uint32_t mtu;
	int is_up;
};

struct link_list {
	struct link *items;
	size_t count;
	int has_tap; /* a tap of a VM is there: by its name */
};

/* Ethernet interfaces that are nobody's port, but for taps. 0, or -1 and errno. */
int link_list_read(struct nl *nl, struct link_list *ret_list);
void link_list_clear(struct link_list *list);
/* One message. MNL_CB_OK or MNL_CB_ERROR. data: a struct link_list. */
int link_list_parse(const struct nlmsghdr *message, void *data);

#endif
