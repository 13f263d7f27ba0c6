/* SPDX-License-Identifier: Apache-2.0 */
/* What json.c, json_parse.c and json_bytes.c share: the node. Nobody else includes this. */
#ifndef BASE_JSON_NODE_H
#define BASE_JSON_NODE_H

#include "base/json.h"

struct json_item {
	char *key; /* NULL in arrays */
	struct json *value;
};

struct json {
	enum json_type type;
	int boolean;
	int poisoned; /* a child is missing because memory ran out */
	char *text;   /* of numbers and strings; NUL-ended */
	size_t len;
	struct json_item *items;
	size_t count;
	size_t room;
};

struct json *json_node(enum json_type type);
struct json *json_node_text(enum json_type type, const char *text, size_t len);
int json_node_add(struct json *parent, char *key, struct json *value); /* takes both */

#endif
