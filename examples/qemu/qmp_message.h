/* SPDX-License-Identifier: Apache-2.0 */
/* One message of QEMU's monitor protocol: what it is, and what is in it. */
#ifndef QEMU_QMP_MESSAGE_H
#define QEMU_QMP_MESSAGE_H

#include "base/json.h"

enum qmp_kind { QMP_GREETING, QMP_RETURN, QMP_ERROR, QMP_EVENT };

struct qmp_message {
	enum qmp_kind kind;
	struct json *json;              /* owned: all of it */
	uint64_t id;                    /* of returns and errors; 0: none */
	const struct json *body;        /* the return value, or the event's data; lent */
	const char *text;               /* the event's name, or the error's description; lent */
};

/* A line without its end. Errors: CCHV_ERR_PROTOCOL, CCHV_ERR_NOMEM. */
int qmp_message_parse(const char *line, size_t len, struct qmp_message *message, cchv_error **err);
void qmp_message_free(struct qmp_message *message);

/* {"execute": command, "arguments": arguments, "id": id} and a line feed; arguments (may be NULL) are taken. */
int qmp_message_print(const char *command, struct json *arguments, uint64_t id, struct buf *out);

#endif
