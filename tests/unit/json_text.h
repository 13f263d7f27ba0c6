/* SPDX-License-Identifier: Apache-2.0 */
/* JSON in tests: parse a literal, print a tree. */
#ifndef TESTS_UNIT_JSON_TEXT_H
#define TESTS_UNIT_JSON_TEXT_H

#include "base/json.h"
#include "test.h"

static inline struct json *json_of(const char *text)
{
	struct json *json = NULL;

	CHECK_INT(json_parse(text, strlen(text), &json, NULL), 0);
	return json;
}

/* Good until the next call. */
static inline const char *text_of(const struct json *json)
{
	static struct buf text = BUF_INIT(1 << 20);

	text.len = 0;
	CHECK_INT(json_print(json, 0, &text), 0);
	return buf_string(&text);
}

#endif
