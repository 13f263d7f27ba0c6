/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <cchv/error.h>

#include "examples/qemu/vsock_command.h"

static int parse(const char *text, uint32_t *port)
{
	return vsock_command_parse(text, strlen(text), port);
}

TEST(good_lines_name_a_port)
{
	static const struct {
		const char *text;
		uint32_t port;
		int len;
	} cases[] = {
		{ "CONNECT 1024\n", 1024, 13 },
		{ "connect 0\n", 0, 10 },
		{ "Connect 4294967295\n", 4294967295u, 19 },
		{ "CONNECT  \t 7 \r\n", 7, 15 },
		{ "CONNECT 00000000000000000000007\n", 7, 32 },
		{ "CONNECT 5\npayload that follows it at once", 5, 10 },
		{ "CONNECT +5\n", 5, 11 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t port = 99;

		CHECK_INT(parse(cases[i].text, &port), cases[i].len);
		CHECK_INT(port, cases[i].port);
	}
}

TEST(part_of_a_line_waits_for_the_rest)
{
	static const char line[] = "CONNECT 1024\n";
	uint32_t port;

	for (size_t len = 0; len < sizeof(line) - 2; len++)
		CHECK_INT(vsock_command_parse(line, len, &port), 0);
	CHECK_INT(vsock_command_parse(line, sizeof(line) - 1, &port), 13);
}

TEST(bad_lines_are_refused)
{
	static const char *const cases[] = {
		"\n", "x", "CONNECT\n", "CONNECT1\n", "CONNECT \n", "CONNECT -1\n", "CONNECT 1 2\n", "CONNECT 1x\n",
		"CONNECT 4294967296\n", "CONNECT 18446744073709551617\n", "CONNECT 0x10\n", "CONNECT ++1\n",
		"CONNECT +\n",
		"CONNECT 000000000000000000000007\n", "CONNECT 00000000000000000000000000000", "GET / HTTP/1.1\r\n",
		"\x80\xff",
	};
	uint32_t port;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_INT(parse(cases[i], &port), CCHV_ERR_PROTOCOL);
	CHECK_INT(vsock_command_parse("CONNECT \0001\n", 11, &port), CCHV_ERR_PROTOCOL);
}
