/* SPDX-License-Identifier: Apache-2.0 */
/* QMP messages: see qmp_message.h. Enters: lines that QEMU wrote. Leaves: replies and events with their parts. */
#include "qmp_message.h"

#include <string.h>

int qmp_message_parse(const char *line, size_t len, struct qmp_message *message, cchv_error **err)
{
	cleanup_json struct json *json = NULL;
	const struct json *id;
	int r = json_parse(line, len, &json, err);

	if (r < 0)
		return err_prefix(err, r, "QEMU's monitor");
	memset(message, 0, sizeof(*message));
	id = json_get(json, "id");
	if (json_get_type(id) == JSON_NUMBER && json_as_u64(id, &message->id) < 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "QEMU's monitor: an id that was not ours");
	if (json_get(json, "QMP")) {
		message->kind = QMP_GREETING;
	} else if (json_get(json, "return")) {
		message->kind = QMP_RETURN;
		message->body = json_get(json, "return");
	} else if (json_get(json, "error")) {
		message->kind = QMP_ERROR;
		message->text = json_as_string(json_find(json, "error.desc"));
	} else if (json_get(json, "event")) {
		message->kind = QMP_EVENT;
		message->text = json_as_string(json_get(json, "event"));
		message->body = json_get(json, "data");
	} else {
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "QEMU's monitor: neither a reply nor an event");
	}
	if (message->kind >= QMP_ERROR && !message->text)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "QEMU's monitor: an error or event without its name");
	message->json = steal(&json);
	return CCHV_OK;
}

void qmp_message_free(struct qmp_message *message)
{
	json_free(message->json);
	memset(message, 0, sizeof(*message));
}

int qmp_message_print(const char *command, struct json *arguments, uint64_t id, struct buf *out)
{
	cleanup_json struct json *all = json_new_object();
	int r;

	json_set_string(all, "execute", command);
	if (arguments)
		json_set(all, "arguments", arguments);
	json_set_u64(all, "id", id);
	r = all ? json_print(all, 0, out) : CCHV_ERR_NOMEM;
	return r == CCHV_OK ? buf_append_byte(out, '\n') : r;
}
