/* SPDX-License-Identifier: Apache-2.0 */
/* A tap for a VM. Enters: what it shall be like. Leaves: fds, which are the tap: it goes with the last one. */
#ifndef SHIM_TAP_DEVICE_H
#define SHIM_TAP_DEVICE_H

#include <linux/if.h>
#include <stdint.h>

#include "nl.h"

#define TAP_QUEUES_MAX 64

struct tap_device {
	int index;
	char name[IFNAMSIZ];
	char mac[18]; /* of the host's end */
	int fds[TAP_QUEUES_MAX];
	unsigned int queues;
};

/* In the namespace of netns_fd, which nl is of. Up, without an address of its own. 0, or -1 and errno. */
int tap_device_open(struct nl *nl, int netns_fd, unsigned int queues, uint32_t mtu, struct tap_device *ret_tap);
void tap_device_close(struct tap_device *tap);

#endif
