/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies, now or later: see request.h. Enters: what a handler found. Leaves: one frame to the connection that asked,
 * if it is still there.
 */
#include "guest/request.h"

#include "guest/control.h"

#include <errno.h>

struct ticket {
	uint64_t connection;
	uint64_t request;
};

struct ticket *ticket_new(uint64_t connection, uint64_t request)
{
	struct ticket *t = mem_zalloc(sizeof(*t));

	if (!t)
		return NULL;
	t->connection = connection;
	t->request = request;
	return t;
}

void ticket_free(struct ticket *ticket)
{
	free(ticket);
}

struct ticket *reply_defer(struct reply *reply)
{
	return steal(&reply->ticket);
}

/* An error without an errno still needs a name that the other side can act on. */
static int errno_of(int code, const cchv_error *err)
{
	int number = cchv_error_errno(err);

	if (number)
		return number;
	switch (code) {
	case CCHV_ERR_NOMEM:
		return ENOMEM;
	case CCHV_ERR_INVALID:
	case CCHV_ERR_PROTOCOL:
		return EINVAL;
	case CCHV_ERR_STATE:
		return EBUSY;
	case CCHV_ERR_TIMEOUT:
		return ETIMEDOUT;
	case CCHV_ERR_NOT_FOUND:
		return ENOENT;
	case CCHV_ERR_EXISTS:
		return EEXIST;
	case CCHV_ERR_UNSUPPORTED:
		return EOPNOTSUPP;
	case CCHV_ERR_DENIED:
		return EACCES;
	case CCHV_ERR_LIMIT:
		return ENOBUFS;
	default:
		return EIO;
	}
}

struct json *error_to_json(int code, const char *kind, const cchv_error *err)
{
	struct json *j = json_new_object();

	json_set_string(j, "errno", err_errno_name(errno_of(code, err)));
	json_set_string(j, "kind", kind ? kind : "other");
	json_set_string(j, "message", err ? cchv_error_message(err) : cchv_err_text(code));
	return j;
}

void ticket_done(struct agent *agent, struct ticket *ticket, int r, struct json *result, const char *kind,
                 cchv_error *err)
{
	cleanup_json struct json *message = json_new_object();

	json_set_u64(message, "id", ticket->request);
	if (r < 0) {
		json_set(message, "error", error_to_json(r, kind, err));
		json_free(result);
	} else {
		json_set(message, "result", result ? result : json_new_object());
	}
	control_send(agent, ticket->connection, message);
	cchv_error_free(err);
	free(ticket);
}
