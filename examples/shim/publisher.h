/* SPDX-License-Identifier: Apache-2.0 */
/* Events on their way to the daemon: one queue, in order. */
#ifndef SHIM_PUBLISHER_H
#define SHIM_PUBLISHER_H

#include "loop.h"
#include "wire.h"

struct publisher;

/* "address": the path of the daemon's ttrpc socket. All texts are copied. */
struct publisher *publisher_new(struct loop *loop, const char *address, const char *namespace);
void publisher_free(struct publisher *publisher);
/* Frees the event. "type" is the bare name, as "containerd.events.TaskExit". */
void publisher_add(struct publisher *publisher, const char *topic, const char *type, struct wire *event);
/* fn is called once nothing is on its way any more, or after so long. Of several calls the last one counts.
 */
void publisher_flush(struct publisher *publisher, uint64_t timeout_ms, void (*fn)(void *data), void *data);

#endif
