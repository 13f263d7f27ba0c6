/* SPDX-License-Identifier: Apache-2.0 */
/* Events: see event_stream.h. Enters: what happened. Leaves: JSON on the monitor's descriptor, and a log line. */
#include "event_stream.h"

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"

#define EVENT_MAX 4096

void event_stream_init(struct event_stream *stream, int fd, const struct log_sink *log)
{
	stream->fd = fd;
	stream->start_ns = clock_mono_ns();
	stream->log = log;
	/* A reader that stalls costs it events, never the VM's time. */
	if (fd >= 0)
		fd_set_nonblock(fd, 1);
}

void event_stream_close(struct event_stream *stream)
{
	fd_close(&stream->fd);
}

static int print_string(struct buf *out, const char *text)
{
	cleanup_json struct json *j = json_new_string(text);

	return j ? json_print(j, 0, out) : CCHV_ERR_NOMEM;
}

static int print_properties(struct buf *out, const struct event_property *properties, size_t count)
{
	int r = CCHV_OK;

	if (!count)
		return buf_append_string(out, "null");
	for (size_t i = 0; r == CCHV_OK && i < count; i++) {
		r = buf_append_string(out, i ? ",\n    " : "{\n    ");
		if (r == CCHV_OK)
			r = print_string(out, properties[i].name);
		if (r == CCHV_OK)
			r = buf_append_string(out, ": ");
		if (r == CCHV_OK)
			r = print_string(out, properties[i].value);
	}
	return r == CCHV_OK ? buf_append_string(out, "\n  }") : r;
}

int event_print(struct buf *out, uint64_t age_ns, const char *source, const char *event,
                const struct event_property *properties, size_t count)
{
	int r;

	r = buf_printf(out, "{\n  \"timestamp\": {\n    \"secs\": %llu,\n    \"nanos\": %llu\n  },\n"
	               "  \"source\": \"%s\",\n  \"event\": \"%s\",\n  \"properties\": ",
	               (unsigned long long)(age_ns / NS_PER_S), (unsigned long long)(age_ns % NS_PER_S),
	               source, event);
	if (r == CCHV_OK)
		r = print_properties(out, properties, count);
	return r == CCHV_OK ? buf_append_string(out, "\n}\n\n") : r;
}

void event_emit_with(const struct event_stream *stream, const char *source, const char *event,
                     const struct event_property *properties, size_t count)
{
	cleanup_buf struct buf text = BUF_INIT(EVENT_MAX);
	ssize_t n;

	log_info(stream->log, "Event: source = %s event = %s%s%s%s%s", source, event, count ? " " : "",
	         count ? properties[0].name : "", count ? " = " : "", count ? properties[0].value : "");
	if (stream->fd < 0)
		return;
	if (event_print(&text, clock_mono_ns() - stream->start_ns, source, event, properties, count) < 0) {
		log_error(stream->log, "event %s/%s: out of memory", source, event);
		return;
	}
	do
		n = write(stream->fd, text.data, text.len);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)text.len)
		log_warning(stream->log, "event %s/%s: the monitor does not take it", source, event);
}

void event_emit(const struct event_stream *stream, const char *source, const char *event)
{
	event_emit_with(stream, source, event, NULL, 0);
}
