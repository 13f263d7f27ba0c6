/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMM's event stream: pretty-printed JSON objects, one after the other, of which a full pipe drops pieces. The
 * parser finds its feet again at the next line that is just "{".
 */
#ifndef VMM_EVENTS_H
#define VMM_EVENTS_H

#include "base/buf.h"
#include "base/json.h"

#define VMM_EVENT_MAX 65536 /* bytes of one object; a longer one is dropped */

struct vmm_event {
	const char *source;            /* "vm", "vmm", "virtio-device", "guest"; lent during the callback */
	const char *event;
	const struct json *properties; /* an object, or NULL */
};

typedef void (*vmm_event_fn)(const struct vmm_event *event, void *user_data);

struct vmm_event_parser {
	struct buf line;               /* the line under way */
	struct buf object;             /* the object under way */
	int inside;
	int line_too_long;
	uint64_t dropped;              /* pieces that made no object */
};

void vmm_events_init(struct vmm_event_parser *parser);
void vmm_events_free(struct vmm_event_parser *parser);
/* Bytes as they come, in pieces of any size. CCHV_OK or CCHV_ERR_NOMEM (the rest of the piece is then dropped). */
int vmm_events_feed(struct vmm_event_parser *parser, const char *data, size_t len, vmm_event_fn fn, void *user_data);

#endif
