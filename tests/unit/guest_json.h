/* SPDX-License-Identifier: Apache-2.0 */
/* JSON for the tests of the guest's parsers: single quotes stand for double ones. */
#ifndef TESTS_UNIT_GUEST_JSON_H
#define TESTS_UNIT_GUEST_JSON_H

#include "test.h"

#include "base/json.h"

static inline struct json *parse(const char *text)
{
	cleanup_free char *copy = strdup(text);
	struct json *json = NULL;

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	CHECK_INT(json_parse(copy, strlen(copy), &json, NULL), 0);
	return json;
}

#endif
