/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: numbered, kept (the last 1024), sent to every control connection, sent again on resume. */
#ifndef GUEST_NOTIFY_H
#define GUEST_NOTIFY_H

#include "guest/agent.h"

#define NOTIFY_KEPT 1024

int notify_new(struct agent *agent, cchv_error **err);
void notify_free(struct agent *agent);

/* Takes event (an object with "event" and its members; NULL counts as lost), numbers it, sends it. Its number. */
uint64_t notify_send(struct agent *agent, struct json *event);
typedef void (*notify_fn)(const void *data, size_t len, void *user_data);
/* Every notification after that number, oldest first; if some of them are gone, a "lost" comes first. */
void notify_replay(const struct agent *agent, uint64_t after, notify_fn fn, void *user_data);
uint64_t notify_last(const struct agent *agent);

#endif
