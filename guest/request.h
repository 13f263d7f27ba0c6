/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and their replies. A handler is named in the table of request.c. It answers
 *   at once:  reply->result (absent: {}), return 0;
 *   by error: reply->err and reply->kind set, return the code: "return fail(&reply->kind, &reply->err, ...)";
 *   later:    keep reply_defer(), return REPLY_LATER, and give the ticket to ticket_done() once.
 * Whoever asked may be gone by then: the ticket knows, the handler need not.
 */
#ifndef GUEST_REQUEST_H
#define GUEST_REQUEST_H

#include "guest/agent.h"

#define REPLY_LATER 1

struct ticket;

struct reply {
	struct json *result;  /* the handler's; taken by the dispatcher */
	const char *kind;     /* a constant; NULL: "other" */
	cchv_error *err;
	struct ticket *ticket;
};

/* A place where the id of a container stands. */
typedef void (*name_fn)(char **name, void *user_data);

typedef int (*request_fn)(struct agent *agent, const struct json *params, struct reply *reply);

/* NULL when out of memory. params do not outlive the handler: copy what is needed. */
struct ticket *reply_defer(struct reply *reply);
/*
 * Answer: r < 0 sends err (and kind), otherwise result ({} for NULL). Takes result and err and frees the ticket. May
 * be called inside the handler too.
 */
void ticket_done(struct agent *agent, struct ticket *ticket, int r, struct json *result, const char *kind,
                 cchv_error *err);

/* The id members of params: a missing or wrong one fails with kind "method". Lent, valid as long as params. */
int request_get_container(const struct json *params, const char **ret_id, struct reply *reply);
int request_get_exec(const struct json *params, const char **ret_id, struct reply *reply);

/* NULL for an unknown method. */
request_fn request_find(const char *method);
/* Whether it may come before vm.configure. */
int request_is_first(const char *method);

#endif
