/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces: see link_list.h. Enters: messages of the kernel. Leaves: a list. */
#include "link_list.h"

#include <linux/if_arp.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attributes {
	const struct nlattr *name, *mac, *mtu, *info, *master;
};

static int pick(const struct nlattr *attribute, void *data)
{
	struct attributes *a = data;

	switch (mnl_attr_get_type(attribute)) {
	case IFLA_IFNAME:
		if (mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) == 0)
			a->name = attribute;
		break;
	case IFLA_ADDRESS:
		if (mnl_attr_get_payload_len(attribute) == 6)
			a->mac = attribute;
		break;
	case IFLA_MTU:
		if (mnl_attr_validate(attribute, MNL_TYPE_U32) == 0)
			a->mtu = attribute;
		break;
	case IFLA_LINKINFO:
		a->info = attribute;
		break;
	case IFLA_MASTER:
		a->master = attribute;
		break;
	}
	return MNL_CB_OK;
}

static int pick_kind(const struct nlattr *attribute, void *data)
{
	if (mnl_attr_get_type(attribute) == IFLA_INFO_KIND && mnl_attr_validate(attribute, MNL_TYPE_STRING) == 0)
		*(const struct nlattr **)data = attribute;
	return MNL_CB_OK;
}

/* Taps are what others have made to be read, and an ifb only passes on. */
static int is_kind(const struct nlattr *info, const char *kind)
{
	const struct nlattr *found = NULL;

	if (info)
		mnl_attr_parse_nested(info, pick_kind, &found);
	return found && strncmp(mnl_attr_get_str(found), kind, mnl_attr_get_payload_len(found)) == 0;
}

static int add(struct link_list *list, const struct link *link)
{
	struct link *items = reallocarray(list->items, list->count + 1, sizeof(*items));

	if (!items)
		return MNL_CB_ERROR;
	list->items = items;
	items[list->count++] = *link;
	return MNL_CB_OK;
}

int link_list_parse(const struct nlmsghdr *message, void *data)
{
	const struct ifinfomsg *body = mnl_nlmsg_get_payload(message);
	struct attributes a = { 0 };
	struct link_list *list = data;
	const uint8_t *mac;
	struct link link;

	if (message->nlmsg_type != RTM_NEWLINK || mnl_nlmsg_get_payload_len(message) < sizeof(*body))
		return MNL_CB_OK;
	mnl_attr_parse(message, sizeof(*body), pick, &a);
	if (!a.name || !a.mac || !a.mtu || body->ifi_type != ARPHRD_ETHER || body->ifi_flags & IFF_LOOPBACK)
		return MNL_CB_OK;
	if (is_kind(a.info, "tun") || is_kind(a.info, "ifb")) {
		list->has_tap |= strncmp(mnl_attr_get_str(a.name), LINK_TAP_PREFIX, strlen(LINK_TAP_PREFIX)) == 0;
		return MNL_CB_OK;
	}
	if (a.master)
		return MNL_CB_OK;
	link = (struct link){ .index = body->ifi_index, .mtu = mnl_attr_get_u32(a.mtu),
			      .is_up = (body->ifi_flags & IFF_UP) != 0 };
	mac = mnl_attr_get_payload(a.mac);
	snprintf(link.name, sizeof(link.name), "%s", mnl_attr_get_str(a.name));
	snprintf(link.mac, sizeof(link.mac), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
		 mac[5]);
	return add(list, &link);
}

int link_list_read(struct nl *nl, struct link_list *ret_list)
{
	struct link_list list = { 0 };
	char room[NL_ROOM];
	struct ifinfomsg *body;
	struct nlmsghdr *request = nl_begin(room, RTM_GETLINK, 0, sizeof(*body), &body);

	if (nl_dump(nl, request, link_list_parse, &list) < 0) {
		link_list_clear(&list);
		return -1;
	}
	*ret_list = list;
	return 0;
}

void link_list_clear(struct link_list *list)
{
	free(list->items);
	*list = (struct link_list){ 0 };
}
