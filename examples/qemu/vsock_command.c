/* SPDX-License-Identifier: Apache-2.0 */
/* The CONNECT line: see vsock_command.h. Enters: a host program's bytes. Leaves: a port. */
#include "vsock_command.h"

#include <cchv/error.h>
#include <string.h>
#include <strings.h>

static const char keyword[] = "CONNECT ";

static int is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A decimal number of 32 bits with white space around it, which may have a plus sign as in Cloud Hypervisor. */
static int parse_port(const char *p, const char *end, uint32_t *ret_port)
{
	uint64_t port = 0;

	while (p < end && is_space(*p))
		p++;
	while (p < end && is_space(end[-1]))
		end--;
	if (p < end && *p == '+')
		p++;
	if (p == end)
		return CCHV_ERR_PROTOCOL;
	for (; p < end; p++) {
		if (*p < '0' || *p > '9')
			return CCHV_ERR_PROTOCOL;
		port = port * 10 + (uint64_t)(*p - '0');
		if (port > UINT32_MAX)
			return CCHV_ERR_PROTOCOL;
	}
	*ret_port = (uint32_t)port;
	return CCHV_OK;
}

int vsock_command_parse(const char *data, size_t len, uint32_t *ret_port)
{
	const size_t known = sizeof(keyword) - 1;
	const char *end;
	int r;

	/* Nonsense is refused as soon as it shows, not when its line ends. */
	if (strncasecmp(data, keyword, len < known ? len : known))
		return CCHV_ERR_PROTOCOL;
	end = memchr(data, '\n', len < VSOCK_COMMAND_MAX ? len : VSOCK_COMMAND_MAX);
	if (!end)
		return len < VSOCK_COMMAND_MAX ? 0 : CCHV_ERR_PROTOCOL;
	r = parse_port(data + known, end, ret_port);
	return r < 0 ? r : (int)(end - data) + 1;
}
