/* SPDX-License-Identifier: Apache-2.0 */
/* Tap interfaces: opening by name (making them where they are missing), names and counters of open ones. */
#ifndef QEMU_TAP_H
#define QEMU_TAP_H

#include "config.h"

#define TAP_QUEUES_MAX 16

/*
 * As many queues as the configuration has pairs. Without a name the kernel makes "vmtapN". MAC, MTU and address are
 * set where given, and the interface is up. *count is in: room, out: opened.
 */
int tap_open(const struct json *net, int *fds, size_t *count, struct fault *fault);

/* The interface of a tap descriptor; name has room for IFNAMSIZ. 0, -1 with errno. */
int tap_name(int fd, char *name);

struct tap_counters { uint64_t rx_bytes, rx_frames, tx_bytes, tx_frames; };    /* as the guest sees them */

/* Of the interface, in whatever network namespace it is. 0, -1 with errno. */
int tap_read_counters(int fd, struct tap_counters *counters);
/* Find the interface in a text of /proc/net/dev. 1 found, 0 not. */
int tap_parse_counters(const char *text, const char *name, struct tap_counters *counters);

#endif
