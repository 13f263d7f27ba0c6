/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redirection: see redirect.h. Enters: indexes. Leaves: a clsact qdisc, and on its ingress one u32 filter that
 * matches everything (the classifier that kernels have where matchall is missing) with the action mirred. Its
 * priority is late: whatever a network plugin has put there comes first.
 */
#include "redirect.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>
#include <string.h>

#include <arpa/inet.h>

#define PRIORITY 49147U
/* Before that, and a number of its own, since one number is for one protocol. */
#define EXCEPTIONS (PRIORITY - 1)
#define INGRESS  TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)
#define EGRESS   TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)

static int change_qdisc(struct nl *nl, int index, unsigned short type, unsigned short flags)
{
	char room[NL_ROOM];
	struct tcmsg *body;
	struct nlmsghdr *request = nl_begin(room, type, flags, sizeof(*body), &body);

	body->tcm_family = AF_UNSPEC;
	body->tcm_ifindex = index;
	body->tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
	body->tcm_parent = TC_H_CLSACT;
	mnl_attr_put_strz(request, TCA_KIND, "clsact");
	return nl_ask(nl, request);
}

static struct nlmsghdr *begin_filter(char *room, int index, unsigned int priority, unsigned short type,
				     unsigned short flags)
{
	struct tcmsg *body;
	struct nlmsghdr *request = nl_begin(room, type, flags, sizeof(*body), &body);

	body->tcm_family = AF_UNSPEC;
	body->tcm_ifindex = index;
	body->tcm_parent = INGRESS;
	body->tcm_info = TC_H_MAKE(priority << 16, htons(priority == PRIORITY ? ETH_P_ALL : ETH_P_IP));
	mnl_attr_put_strz(request, TCA_KIND, "u32");
	return request;
}

static void put_action(struct nlmsghdr *request, int to)
{
	struct tc_mirred mirred = { .action = TC_ACT_STOLEN, .eaction = TCA_EGRESS_REDIR, .ifindex = (unsigned int)to };
	struct nlattr *actions = mnl_attr_nest_start(request, TCA_U32_ACT);
	struct nlattr *first = mnl_attr_nest_start(request, 1), *options;

	mnl_attr_put_strz(request, TCA_ACT_KIND, "mirred");
	options = mnl_attr_nest_start(request, TCA_ACT_OPTIONS);
	mnl_attr_put(request, TCA_MIRRED_PARMS, sizeof(mirred), &mirred);
	mnl_attr_nest_end(request, options);
	mnl_attr_nest_end(request, first);
	mnl_attr_nest_end(request, actions);
}

static int add_filter(struct nl *nl, int from, int to)
{
	/* One key that compares no bit. */
	struct {
		struct tc_u32_sel sel;
		struct tc_u32_key key;
	} all = { .sel = { .flags = TC_U32_TERMINAL, .nkeys = 1 } };
	char room[NL_ROOM];
	struct nlmsghdr *request = begin_filter(room, from, PRIORITY, RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL);
	struct nlattr *options = mnl_attr_nest_start(request, TCA_OPTIONS);

	mnl_attr_put(request, TCA_U32_SEL, sizeof(all), &all);
	put_action(request, to);
	mnl_attr_nest_end(request, options);
	return nl_ask(nl, request);
}

/* All filters of our priority: 1 when there were some, 0, or -1. */
static int delete_filters(struct nl *nl, int from, unsigned int priority)
{
	char room[NL_ROOM];

	if (nl_ask(nl, begin_filter(room, from, priority, RTM_DELTFILTER, 0)) == 0)
		return 1;
	/* No such filter, no qdisc, no interface: there is nothing of ours. */
	return errno == ENOENT || errno == EINVAL || errno == ENODEV ? 0 : -1;
}

/* The exceptions last: until they are all gone, so is what they are exceptions of. */
static int delete_filter(struct nl *nl, int from)
{
	int all = delete_filters(nl, from, PRIORITY), some = all < 0 ? -1 : delete_filters(nl, from, EXCEPTIONS);

	return all < 0 || some < 0 ? -1 : all || some;
}

static int count(const struct nlmsghdr *message, void *data)
{
	*(int *)data += message->nlmsg_type == RTM_NEWTFILTER;
	return MNL_CB_OK;
}

static int has_filters(struct nl *nl, int index, unsigned int parent)
{
	char room[NL_ROOM];
	struct tcmsg *body;
	struct nlmsghdr *request = nl_begin(room, RTM_GETTFILTER, 0, sizeof(*body), &body);
	int found = 0;

	body->tcm_family = AF_UNSPEC;
	body->tcm_ifindex = index;
	body->tcm_parent = parent;
	return nl_dump(nl, request, count, &found) < 0 ? -1 : found;
}

int redirect_except(struct nl *nl, int from, const struct redirect_match *match)
{
	struct {
		struct tc_u32_sel sel;
		struct tc_u32_key key;
	} one = { .sel = { .flags = TC_U32_TERMINAL, .nkeys = 1 },
		  .key = { .off = match->offset, .val = match->address & match->mask, .mask = match->mask } };
	char room[NL_ROOM];
	struct nlmsghdr *request = begin_filter(room, from, EXCEPTIONS, RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL);
	struct nlattr *options = mnl_attr_nest_start(request, TCA_OPTIONS);

	/* Without an action, it goes on as if there was no rule. */
	mnl_attr_put(request, TCA_U32_SEL, sizeof(one), &one);
	mnl_attr_nest_end(request, options);
	return nl_ask(nl, request);
}

int redirect_remove(struct nl *nl, int from)
{
	int r = delete_filter(nl, from);

	if (r <= 0)
		return r;
	if (has_filters(nl, from, INGRESS) != 0 || has_filters(nl, from, EGRESS) != 0)
		return 0;
	if (change_qdisc(nl, from, RTM_DELQDISC, 0) < 0 && errno != ENOENT && errno != EINVAL && errno != ENODEV)
		return -1;
	return 0;
}

int redirect_add(struct nl *nl, int from, int to)
{
	if (delete_filter(nl, from) < 0)
		return -1;
	/* One that is there serves: clsact, or ingress, which has the same place. */
	if (change_qdisc(nl, from, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL) < 0 && errno != EEXIST)
		return -1;
	return add_filter(nl, from, to);
}
