/* SPDX-License-Identifier: Apache-2.0 */
/* All frames of one interface to another one, by tc. Enters: indexes of interfaces. Leaves: rules of the kernel. */
#ifndef SHIM_REDIRECT_H
#define SHIM_REDIRECT_H

#include "nl.h"

/* What comes in at from leaves at to, before the host sees it. Replaces a rule of ours. 0, or -1 and errno. */
int redirect_add(struct nl *nl, int from, int to);
/* IPv4 that is an exception: the host sees it, as if there was no rule. The numbers are as on the wire. */
struct redirect_match {
	int offset; /* in the header */
	uint32_t address, mask;
};

/* After redirect_add(). Goes with redirect_remove(). 0, or -1 and errno. */
int redirect_except(struct nl *nl, int from, const struct redirect_match *match);
/* Take our rules off, and the place for rules with it if there is no other one. 0 also when there is none. */
int redirect_remove(struct nl *nl, int from);

#endif
