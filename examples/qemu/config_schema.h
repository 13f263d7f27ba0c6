/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of the configurations, as tables for config.c. */
#ifndef QEMU_CONFIG_SCHEMA_H
#define QEMU_CONFIG_SCHEMA_H

#include <stdint.h>

#include "config.h"

enum field_type {
	FIELD_BOOL, FIELD_UNSIGNED, FIELD_STRING, FIELD_ENUM, FIELD_MAC, FIELD_OBJECT, FIELD_OBJECTS, FIELD_STRINGS,
	FIELD_NUMBERS,
};

#define FIELD_REQUIRED 1u       /* absent: refused */
#define FIELD_OMIT_FALSE 2u     /* false is not shown */
#define FIELD_DISCARD 4u        /* checked and forgotten */
#define FIELD_RANDOM 8u         /* absent: made up (MAC) */

struct schema;

struct field {
	const char *key;
	enum field_type type;
	unsigned int flags;
	uint64_t max;                   /* of numbers */
	const char *fallback;           /* JSON text when it is absent; NULL: stays absent */
	const char *const *names;       /* of enums, NULL-ended */
	const struct schema *schema;    /* of objects */
	const char *alias;
};

struct schema {
	const struct field *fields;     /* the last one has no key */
	int deny_unknown;
};

const struct schema *config_schema(enum config_kind kind);

#endif
