/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: see net_address.h. Enters: text from the host. Leaves: bytes. */
#include "guest/net_address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int net_address_parse(const char *text, struct net_address *ret)
{
	char address[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	struct net_address a = { 0 };

	if (len >= sizeof(address))
		return -1;
	memcpy(address, text, len);
	address[len] = '\0';
	if (inet_pton(AF_INET, address, a.bytes) == 1)
		a.family = AF_INET, a.len = 4;
	else if (inet_pton(AF_INET6, address, a.bytes) == 1)
		a.family = AF_INET6, a.len = 16;
	else
		return -1;
	a.prefix = a.len * 8;
	if (slash) {
		char *end;
		unsigned long prefix;

		if (!isdigit((unsigned char)slash[1]))
			return -1;
		prefix = strtoul(slash + 1, &end, 10);
		if (*end || prefix > a.len * 8)
			return -1;
		a.prefix = (unsigned int)prefix;
	}
	*ret = a;
	return 0;
}

static int digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

int net_mac_parse(const char *text, uint8_t mac[6])
{
	for (int i = 0; i < 6; i++) {
		if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]))
			return -1;
		mac[i] = (uint8_t)(digit(text[0]) << 4 | digit(text[1]));
		text += 2;
		if (*text != (i < 5 ? ':' : '\0'))
			return -1;
		text++;
	}
	return 0;
}
