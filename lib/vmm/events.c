/* SPDX-License-Identifier: Apache-2.0 */
/* The event stream: see events.h. Enters: bytes, perhaps with holes. Leaves: whole events. */
#include "vmm/events.h"

#include <string.h>

void vmm_events_init(struct vmm_event_parser *parser)
{
	*parser = (struct vmm_event_parser){
		.line = BUF_INIT(VMM_EVENT_MAX), .object = BUF_INIT(VMM_EVENT_MAX),
	};
}

void vmm_events_free(struct vmm_event_parser *parser)
{
	buf_free(&parser->line);
	buf_free(&parser->object);
}

static void drop(struct vmm_event_parser *p)
{
	if (p->inside || p->object.len)
		p->dropped++;
	p->object.len = 0;
	p->inside = 0;
}

static int deliver(struct vmm_event_parser *p, vmm_event_fn fn, void *user_data)
{
	cleanup_json struct json *json = NULL;
	struct vmm_event event = { 0 };
	int r;

	r = json_parse((const char *)p->object.data, p->object.len, &json, NULL);
	p->inside = 0;
	p->object.len = 0;
	if (r == CCHV_ERR_NOMEM)
		return r;
	if (r == CCHV_OK) {
		event.source = json_as_string(json_get(json, "source"));
		event.event = json_as_string(json_get(json, "event"));
		if (json_get_type(json_get(json, "properties")) == JSON_OBJECT)
			event.properties = json_get(json, "properties");
	}
	if (event.source && event.event)
		fn(&event, user_data);
	else
		p->dropped++;
	return CCHV_OK;
}

static int on_line(struct vmm_event_parser *p, vmm_event_fn fn, void *user_data)
{
	const char *line = (const char *)p->line.data;
	size_t len = p->line.len;
	int r;

	if (len && line[len - 1] == '\r')
		len--;
	if (len && line[0] == '{' && (len == 1 || line[len - 1] == '}')) {
		/* The start of an object, whatever we thought to be in. */
		drop(p);
		p->inside = 1;
	}
	if (!p->inside) {
		if (len)
			p->dropped++;
		return CCHV_OK;
	}
	r = buf_append(&p->object, line, len);
	if (r == CCHV_OK)
		r = buf_append_byte(&p->object, '\n');
	if (r == CCHV_ERR_LIMIT) {
		drop(p);
		return CCHV_OK;
	}
	/* Only the outermost brace stands at the start of a line. */
	if (r == CCHV_OK && ((len == 1 && line[0] == '}') || (len > 1 && line[0] == '{')))
		r = deliver(p, fn, user_data);
	return r;
}

int vmm_events_feed(struct vmm_event_parser *parser, const char *data, size_t len, vmm_event_fn fn, void *user_data)
{
	const char *end = data + len;
	int r = CCHV_OK;

	while (data < end && r == CCHV_OK) {
		const char *eol = memchr(data, '\n', (size_t)(end - data));
		size_t n = (size_t)((eol ? eol : end) - data);

		r = buf_append(&parser->line, data, n);
		if (r == CCHV_ERR_LIMIT) {
			/* No line of an event is that long: forget what there is up to the next line feed. */
			parser->line_too_long = 1;
			parser->line.len = 0;
			r = CCHV_OK;
		}
		data += n;
		if (!eol || r < 0)
			break;
		data++;
		if (parser->line_too_long)
			drop(parser);
		else
			r = on_line(parser, fn, user_data);
		parser->line_too_long = 0;
		parser->line.len = 0;
	}
	if (r < 0) {
		parser->line.len = 0;
		drop(parser);
	}
	return r;
}
