/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection to the agent: dialling, hello, requests and their replies by id, notifications by sequence
 * number. A connection that breaks while the VMM lives is dialled anew and resumes where it was; what was asked and
 * not answered by then fails with CCHV_ERR_GUEST_GONE. Lives in a loop, under the lock of whoever owns that.
 */
#ifndef AGENT_CHANNEL_H
#define AGENT_CHANNEL_H

#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"

struct agent_channel;

/* Called in the loop's callbacks. None may free the channel; channel_close() is allowed. */
struct channel_hooks {
	/* hello was exchanged, the first time or again */
	void (*ready)(void *user_data);
	/* a notification, each once and in order; "lost" means that some are gone: ask for the states anew */
	void (*event)(const char *event, const struct json *message, void *user_data);
	/* the connection broke and is dialled anew */
	void (*broken)(const cchv_error *error, void *user_data);
	/* the end: nobody answers, rubbish came, or another boot of the guest did (reset is 1). Lent error */
	void (*dead)(int code, int reset, const cchv_error *error, void *user_data);
};

/* A request. The memory is the caller's, and zeroed but for fn and user_data. */
struct channel_call {
	void (*fn)(struct channel_call *call); /* NULL, or called when it is done; may free it */
	void *user_data;

	int done;
	int code;              /* CCHV_OK or an error's */
	struct json *result;
	cchv_error *error;

	const char *method;    /* the channel's */
	uint64_t id;
	struct channel_call *next, *prev;
	struct agent_channel *channel;
};

int channel_new(struct loop *loop, const char *path, const struct log_sink *log, const struct channel_hooks *hooks,
                void *user_data, struct agent_channel **ret_channel, cchv_error **err);
void channel_free(struct agent_channel *channel);   /* calls nobody; calls that are open stay undone. NULL is fine */

/*
 * Dial until the deadline. With wait_for_socket the VMM may yet have to make its socket. Before it is ready
 * requests queue up. With boot_id (may be NULL) notifications after number "after" are asked for.
 */
int channel_connect(struct agent_channel *channel, int wait_for_socket, const char *boot_id, uint64_t after,
                    uint64_t deadline, cchv_error **err);
int channel_is_ready(const struct agent_channel *channel);
const char *channel_get_boot_id(const struct agent_channel *channel);        /* NULL before the first hello */
/*
 * An agent that has no identity yet says "" for its boot id, and tells it in the reply to vm.configure: compared from
 * now on. CCHV_OK or CCHV_ERR_NOMEM.
 */
int channel_set_boot_id(struct agent_channel *channel, const char *boot_id);
const char *channel_get_agent_version(const struct agent_channel *channel);
uint64_t channel_get_seq(const struct agent_channel *channel);               /* of the newest notification seen */

/* Send a request; params are taken in any case (NULL: none). method must live as long as the call. */
int channel_call_start(struct agent_channel *channel, struct channel_call *call, const char *method,
                       struct json *params, cchv_error **err);
/* Forget a call, done or not, and free what it holds: an answer that comes later is dropped. */
void channel_call_drop(struct channel_call *call);
/* Move a done call's end out: its code; *ret_result may be NULL. */
int channel_call_finish(struct channel_call *call, struct json **ret_result, cchv_error **err);

/* Tell the agent that everything up to seq is recorded. Waits for nothing. */
void channel_ack(struct agent_channel *channel, uint64_t seq);

/* Hand the connection over, and be dead; no hook is called. -1: there is none. What was sent to us by then is lost. */
int channel_take_fd(struct agent_channel *channel);

/*
 * The VMM has ended, or is about to be ended: what the agent said before is heard first, then all open calls
 * fail with code and text. No hook but event is called.
 */
void channel_close(struct agent_channel *channel, int code, const char *text);

#endif
