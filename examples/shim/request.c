/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the task service: see request.h. Enters: bytes of the daemon. Leaves: checked values. */
#include "request.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define ID_MAX 76

static int read_option(const struct wire_field *field, struct mount_list *list)
{
	char *text = NULL;
	int r = wire_take_string(field, &text);

	if (r == 0 && mount_list_add_option(list, text) < 0)
		r = -1;
	free(text);
	return r;
}

/* containerd.types.Mount */
static int read_mount(struct wire_view view, struct mount_list *list)
{
	char *texts[3] = { NULL, NULL, NULL };
	struct wire_view again = view;
	struct wire_field field;
	int r;

	while ((r = wire_next(&view, &field)) > 0)
		if (field.number <= 3 && (r = wire_take_string(&field, &texts[field.number - 1])) < 0)
			break;
	if (r == 0)
		r = mount_list_add(list, texts[0], texts[1], texts[2]) < 0 ? -1 : 0;
	for (int i = 0; i < 3; i++)
		free(texts[i]);
	while (r == 0 && wire_next(&again, &field) > 0)
		if (field.number == 4)
			r = read_option(&field, list);
	return r;
}

static int read_slot(const struct slot *slot, const struct wire_field *field, struct request *request)
{
	void *where = (char *)request + slot->offset;

	switch (slot->kind) {
	case SLOT_TEXT: return wire_take_string(field, where);
	case SLOT_NUMBER: *(uint64_t *)where = field->value; return field->type == WIRE_VARINT ? 0 : -1;
	case SLOT_VIEW: *(struct wire_view *)where = field->bytes; return field->type == WIRE_BYTES ? 0 : -1;
	case SLOT_MOUNT: return field->type == WIRE_BYTES ? read_mount(field->bytes, where) : -1;
	}
	return -1;
}

int request_read(struct wire_view body, const struct slot *slots, struct request *ret)
{
	struct wire_field field;
	int r;

	*ret = (struct request) { 0 };
	while ((r = wire_next(&body, &field)) > 0) {
		const struct slot *slot = slots;

		while (slot->number && slot->number != field.number)
			slot++;
		if (slot->number && read_slot(slot, &field, ret) < 0)
			return -1;
	}
	for (const struct slot *slot = slots; slot->number; slot++) {
		char **text = (char **)((char *)ret + slot->offset);

		if (slot->kind == SLOT_TEXT && !*text)
			*text = need_copy("");
	}
	if (!ret->exec_id)
		ret->exec_id = need_copy("");
	return r;
}

void request_free(struct request *request)
{
	free(request->id);
	free(request->exec_id);
	free(request->bundle);
	free(request->in);
	free(request->out);
	free(request->err);
	free(request->checkpoint);
	free(request->netns);
	mount_list_clear(&request->rootfs);
}

int request_id_is_valid(const char *id)
{
	size_t len = strlen(id);
	int separated = 1;

	if (!len || len > ID_MAX)
		return 0;
	for (; *id; id++) {
		int is_separator = *id == '.' || *id == '_' || *id == '-';

		if (!is_separator && !(isalnum((unsigned char)*id) && (unsigned char)*id < 128))
			return 0;
		if (is_separator && separated)
			return 0;
		separated = is_separator;
	}
	return !separated;
}
