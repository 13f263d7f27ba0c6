/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host knows of an interface: its addresses, its routes and the permanent neighbours behind it. Enters:
 * rtnetlink. Leaves: settings of a network device, and the same as text, to tell whether something has changed.
 */
#ifndef SHIM_NET_FACTS_H
#define SHIM_NET_FACTS_H

#include <cchv/cchv.h>

#include "link_list.h"
#include "nl.h"

/*
 * MAC, MTU, name, and the rest. *ret_text: free() it. 0, or a code and *ret_error without a name in it: what cannot be
 * had is told, not left out. Left out is what the guest's kernel makes itself (routes of addresses), and what means
 * nothing there (other tables than the main one, link-local and multicast routes of IPv6).
 */
int net_facts_read(struct nl *nl, const struct link *link, cchv_net_config *config, char **ret_text, char **ret_error);

#endif
