/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 127.0.0.1 of a network namespace, in the guest. "kubectl port-forward" connects to it from inside the namespace, and
 * means what listens on the loopback of the pod, which is the guest's. So the namespace sends what goes to that address
 * through one tap; its own end of the way is an address of the tap that the guest has a way back to. The kernel does
 * all of it: nobody listens, and nothing has to know of ports. A service sees 169.254.254.254 as its peer. The rest of
 * 127.0.0.0/8 stays where it was (but for answers to 127.0.0.1), and so does ::1, which IPv6 takes from no interface
 * but the loopback.
 *
 * Enters: a tap, the guest's MAC address. Leaves: an address, a neighbour, a route, rules of tc.
 */
#ifndef SHIM_LOOPBACK_H
#define SHIM_LOOPBACK_H

#include <cchv/cchv.h>

#include "link_list.h"
#include "nl.h"
#include "tap_device.h"

/*
 * Between the tap and the interface that is tied to it, before the VM has the tap; net gets the guest's part. 0, or -1
 * and errno.
 */
int loopback_move(struct nl *nl, const struct tap_device *tap, const struct link *link, cchv_net_config *net);
/* The address is the namespace's own again. (When the tap goes first, the route of all of 127.0.0.0/8 has it.) */
void loopback_restore(struct nl *nl);

#endif
