/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What "start" is given and answers: see bootstrap.h. Enters: an Any with the options (up to containerd 2.2),
 * or BootstrapParams. Both begin with two texts; only in the second they are our id and namespace.
 */
#include "bootstrap.h"

#include <stdlib.h>
#include <string.h>

/* Of the task service that a daemon which speaks BootstrapParams shall call. 3 would promise the Sandbox API.
 */
#define TASK_VERSION 2

static int is_text(const struct wire_field *field, const char *text)
{
	return field->type == WIRE_BYTES && field->bytes.len == strlen(text) &&
	       memcmp(field->bytes.data, text, field->bytes.len) == 0;
}

static int is_params(struct wire_view view, const struct flags *flags)
{
	int has_id = 0, has_namespace = 0;
	struct wire_field field;

	while (wire_next(&view, &field) > 0) {
		if (field.number == 1)
			has_id = flags->id && is_text(&field, flags->id);
		if (field.number == 2)
			has_namespace = flags->namespace && is_text(&field, flags->namespace);
	}
	return has_id && has_namespace;
}

static int read_params(struct wire_view view, struct bootstrap *ret)
{
	struct wire_field field, inner;
	int r;

	while ((r = wire_next(&view, &field)) > 0) {
		struct wire_view extension = field.bytes;

		if (field.number == 3)
			ret->log_level = (int)field.value;
		if (field.number == 9 && wire_take_string(&field, &ret->socket_dir) < 0)
			return -1;
		if (field.number != 8)
			continue;
		while (wire_next(&extension, &inner) > 0)
			if (inner.number == 1 && inner.type == WIRE_BYTES && !ret->options.len)
				ret->options = inner.bytes;
	}
	return r;
}

int bootstrap_read(struct wire_view input, const struct flags *flags, struct bootstrap *ret)
{
	struct wire_any any;
	int r;

	*ret = (struct bootstrap) { .is_params = is_params(input, flags) };
	if (ret->is_params)
		return read_params(input, ret);
	r = wire_read_any(input, &any);
	wire_any_free(&any);
	if (r == 0)
		ret->options = input;
	return r;
}

void bootstrap_free(struct bootstrap *bootstrap)
{
	free(bootstrap->socket_dir);
	*bootstrap = (struct bootstrap) { 0 };
}

void bootstrap_put_reply(struct wire *out, const struct bootstrap *bootstrap, const char *address)
{
	if (!bootstrap->is_params) {
		/* The one form that every release reads. */
		wire_put(out, address, strlen(address));
		return;
	}
	wire_put_uint(out, 1, TASK_VERSION);
	wire_put_string(out, 2, address);
	wire_put_string(out, 3, "ttrpc");
}
