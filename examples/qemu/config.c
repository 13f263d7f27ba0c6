/* SPDX-License-Identifier: Apache-2.0 */
/* Normalising configurations: see config.h. Enters: a client's JSON. Leaves: the same with types, names, defaults. */
#include "config.h"

#include <ctype.h>
#include <string.h>
#include <sys/random.h>

#include "config_schema.h"

static int normalize_object(const struct schema *schema, const struct json *given, struct json **ret,
                            struct fault *fault);

static int mac_is_valid(const char *text)
{
	if (!text || strlen(text) != 17)
		return 0;
	for (int i = 0; i < 17; i++)
		if (i % 3 == 2 ? text[i] != ':' : !isxdigit((unsigned char)text[i]))
			return 0;
	return 1;
}

static struct json *random_mac(void)
{
	uint8_t b[6];
	cleanup_free char *text = NULL;

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return NULL;
	b[0] = (uint8_t)((b[0] & 0xfc) | 0x02); /* local, unicast */
	text = mem_printf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5]);
	return text ? json_new_string(text) : NULL;
}

static int refuse(const struct field *field, const char *expected, struct fault *fault)
{
	return fault_set(fault, 400, "invalid value for `%s`, expected %s", field->key, expected);
}

static int in_names(const struct field *field, const char *text)
{
	for (size_t i = 0; text && field->names[i]; i++)
		if (strcmp(field->names[i], text) == 0)
			return 1;
	return 0;
}

/* The values that are taken over as they are. 1: it fits. */
static int scalar_fits(const struct field *field, const struct json *value)
{
	uint64_t number;
	int truth;

	switch (field->type) {
	case FIELD_BOOL:
		return json_as_bool(value, &truth) == CCHV_OK;
	case FIELD_UNSIGNED:
	case FIELD_NUMBERS:
		return json_as_u64(value, &number) == CCHV_OK && number <= field->max;
	case FIELD_ENUM:
		return in_names(field, json_as_string(value));
	case FIELD_MAC:
		return mac_is_valid(json_as_string(value));
	default:
		return json_as_string(value) != NULL;
	}
}

static const char *expected_of(const struct field *field)
{
	switch (field->type) {
	case FIELD_BOOL:
		return "a boolean";
	case FIELD_UNSIGNED:
	case FIELD_NUMBERS:
		return "an unsigned number in range";
	case FIELD_ENUM:
		return "one of its variants";
	case FIELD_MAC:
		return "a MAC address";
	case FIELD_OBJECT:
		return "a map";
	case FIELD_OBJECTS:
		return "a sequence";
	default:
		return "a string";
	}
}

static int normalize_array(const struct field *field, const struct json *given, struct json **ret, struct fault *fault)
{
	cleanup_json struct json *out = json_new_array();
	int r;

	if (json_get_type(given) != JSON_ARRAY)
		return refuse(field, "a sequence", fault);
	for (size_t i = 0; i < json_count(given); i++) {
		struct json *item = NULL;

		if (field->type == FIELD_OBJECTS) {
			r = normalize_object(field->schema, json_at(given, i), &item, fault);
			if (r < 0)
				return r;
		} else if (scalar_fits(field, json_at(given, i))) {
			item = json_copy(json_at(given, i));
		} else {
			return refuse(field, expected_of(field), fault);
		}
		if (json_append(out, item) < 0)
			return fault_nomem(fault);
	}
	*ret = steal(&out);
	return *ret ? CCHV_OK : fault_nomem(fault);
}

static int normalize_value(const struct field *field, const struct json *given, struct json **ret,
                           struct fault *fault)
{
	switch (field->type) {
	case FIELD_OBJECT:
		return normalize_object(field->schema, given, ret, fault);
	case FIELD_OBJECTS:
	case FIELD_STRINGS:
	case FIELD_NUMBERS:
		return normalize_array(field, given, ret, fault);
	default:
		if (!scalar_fits(field, given))
			return refuse(field, expected_of(field), fault);
		*ret = json_copy(given);
		return *ret ? CCHV_OK : fault_nomem(fault);
	}
}

static int normalize_fallback(const struct field *field, struct json **ret, struct fault *fault)
{
	cleanup_json struct json *parsed = NULL;

	if (json_parse(field->fallback, strlen(field->fallback), &parsed, NULL) < 0)
		return fault_nomem(fault);
	return normalize_value(field, parsed, ret, fault);
}

static int normalize_field(const struct field *field, const struct json *given, struct json *out, struct fault *fault)
{
	const struct json *value = json_get(given, field->key);
	cleanup_json struct json *result = NULL;
	int truth = 1, r;

	if (!value && field->alias)
		value = json_get(given, field->alias);
	if (json_get_type(value) != JSON_NULL) {
		r = normalize_value(field, value, &result, fault);
	} else if (field->flags & FIELD_REQUIRED) {
		return fault_set(fault, 400, "missing field `%s`", field->key);
	} else if (value && field->fallback) {
		/* null is no value of a field that is not optional. */
		return refuse(field, expected_of(field), fault);
	} else if (field->fallback) {
		r = normalize_fallback(field, &result, fault);
	} else if (field->flags & FIELD_RANDOM) {
		result = random_mac();
		r = result ? CCHV_OK : fault_nomem(fault);
	} else {
		return CCHV_OK;
	}
	if (r < 0)
		return r;
	if (field->flags & FIELD_DISCARD)
		return CCHV_OK;
	if (field->flags & FIELD_OMIT_FALSE && json_as_bool(result, &truth) == CCHV_OK && !truth)
		return CCHV_OK;
	return json_set(out, field->key, steal(&result)) < 0 ? fault_nomem(fault) : CCHV_OK;
}

static int known(const struct schema *schema, const char *key)
{
	for (const struct field *f = schema->fields; f->key; f++)
		if (strcmp(f->key, key) == 0)
			return 1;
	return 0;
}

static int normalize_object(const struct schema *schema, const struct json *given, struct json **ret,
                            struct fault *fault)
{
	cleanup_json struct json *out = json_new_object();
	int r;

	if (json_get_type(given) != JSON_OBJECT)
		return fault_set(fault, 400, "invalid type, expected a map");
	for (size_t i = 0; schema->deny_unknown && i < json_count(given); i++)
		if (!known(schema, json_key_at(given, i)))
			return fault_set(fault, 400, "unknown field `%s`", json_key_at(given, i));
	for (const struct field *f = schema->fields; f->key; f++) {
		r = normalize_field(f, given, out, fault);
		if (r < 0)
			return r;
	}
	*ret = steal(&out);
	return *ret ? CCHV_OK : fault_nomem(fault);
}

int config_normalize(enum config_kind kind, const struct json *given, struct json **ret_config, struct fault *fault)
{
	return normalize_object(config_schema(kind), given, ret_config, fault);
}

uint64_t config_u64(const struct json *object, const char *key)
{
	uint64_t value = 0;

	return json_as_u64(json_get(object, key), &value) == CCHV_OK ? value : 0;
}

int config_has(const struct json *object, const char *key)
{
	return json_get_type(json_get(object, key)) != JSON_NULL;
}

int config_bool(const struct json *object, const char *key)
{
	int value = 0;

	return json_as_bool(json_get(object, key), &value) == CCHV_OK && value;
}

const char *config_string(const struct json *object, const char *key)
{
	return json_as_string(json_get(object, key));
}

/* Trees that are built here are never constant objects; only the getters of json.h lend them as such. */
struct json *config_member(const struct json *object, const char *key)
{
	return (struct json *)json_get(object, key);
}

struct json *config_item(const struct json *array, size_t index)
{
	return (struct json *)json_at(array, index);
}
