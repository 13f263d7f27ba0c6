/* SPDX-License-Identifier: Apache-2.0 */
/* Cloud Hypervisor's event monitor: one pretty JSON object and an empty line per event, never blocking. */
#ifndef QEMU_EVENT_STREAM_H
#define QEMU_EVENT_STREAM_H

#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"

struct event_stream {
	int fd;                         /* -1: nobody listens */
	uint64_t start_ns;              /* CLOCK_MONOTONIC */
	const struct log_sink *log;
};

struct event_property {
	const char *name;
	const char *value;
};

/* Takes the descriptor (-1: none) and makes it non-blocking. */
void event_stream_init(struct event_stream *stream, int fd, const struct log_sink *log);
void event_stream_close(struct event_stream *stream);

void event_emit(const struct event_stream *stream, const char *source, const char *event);
void event_emit_with(const struct event_stream *stream, const char *source, const char *event,
                     const struct event_property *properties, size_t count);

/* The text of one event. 0 or CCHV_ERR_NOMEM, CCHV_ERR_LIMIT. */
int event_print(struct buf *out, uint64_t age_ns, const char *source, const char *event,
                const struct event_property *properties, size_t count);

#endif
