/* SPDX-License-Identifier: Apache-2.0 */
/* Control connections: several hosts at once, each with its requests and all notifications. */
#ifndef GUEST_CONTROL_H
#define GUEST_CONTROL_H

#include "guest/request.h"

int control_new(struct agent *agent, cchv_error **err);
void control_free(struct agent *agent);

/* A connection whose first frame said "control". Takes fd. */
void control_open(struct agent *agent, int fd, const struct json *first);
/* A message to the connection of that number, if it is still there. A message that is poisoned closes it. */
void control_send(struct agent *agent, uint64_t connection, const struct json *message);
/* Bytes of whole frames to every connection that has been greeted. */
void control_broadcast(struct agent *agent, const void *data, size_t len);
/* Send what can be sent without waiting, up to the deadline: before the power goes. */
void control_flush(struct agent *agent, uint64_t deadline);
/* Free connections that ended; between two rounds of the loop, when nobody holds one. */
void control_sweep(struct agent *agent);

/* Of ticket.c. */
struct ticket *ticket_new(uint64_t connection, uint64_t request);
void ticket_free(struct ticket *ticket);
struct json *error_to_json(int code, const char *kind, const cchv_error *err);

#endif
