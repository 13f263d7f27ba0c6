/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading HTTP requests: see http_request.h. Enters: bytes of a client. Leaves: method, path and body of a request
 * within the limits, or the words that the client is told.
 */
#include "http_request.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static int refuse(struct http_request *r, const char *problem)
{
	if (!r->problem[0])
		snprintf(r->problem, sizeof(r->problem), "%s", problem);
	return -1;
}

static struct http_request *of(http_parser *parser)
{
	return parser->data;
}

static int on_url(http_parser *parser, const char *at, size_t length)
{
	return buf_append(&of(parser)->path, at, length) < 0 ? refuse(of(parser), "Invalid request.") : 0;
}

static int header_ends(struct http_request *r)
{
	const char *name = buf_string(&r->field), *value = buf_string(&r->value);

	if (!name || !value)
		return refuse(r, "Invalid request.");
	if (strcasecmp(name, "expect") == 0 && strcasecmp(value, "100-continue") == 0)
		r->expect_continue = 1;
	if (strcasecmp(name, "accept-encoding") == 0 &&
	    (strcasestr(value, "identity;q=0") || (strcasestr(value, "*;q=0") && !strcasestr(value, "identity"))))
		return refuse(r, "Invalid header. Reason: Invalid value. Key:Accept-Encoding");
	r->field.len = r->value.len = 0;
	return 0;
}

static int on_field(http_parser *parser, const char *at, size_t length)
{
	struct http_request *r = of(parser);

	if (r->value.len && header_ends(r))
		return -1;
	return buf_append(&r->field, at, length) < 0 ? refuse(r, "Invalid request.") : 0;
}

static int on_value(http_parser *parser, const char *at, size_t length)
{
	return buf_append(&of(parser)->value, at, length) < 0 ? refuse(of(parser), "Invalid request.") : 0;
}

static int on_headers_complete(http_parser *parser)
{
	struct http_request *r = of(parser);
	uint64_t announced = parser->content_length == ULLONG_MAX ? 0 : parser->content_length;

	if (r->field.len && header_ends(r))
		return -1;
	if (parser->method != HTTP_GET && parser->method != HTTP_PUT && parser->method != HTTP_PATCH)
		return refuse(r, "Invalid HTTP Method: Unsupported HTTP method.");
	if (parser->http_major != 1 || parser->http_minor > 1)
		return refuse(r, "Invalid HTTP Version: Unsupported HTTP version.");
	if (parser->upgrade || parser->flags & F_CHUNKED)
		return refuse(r, "Invalid request.");
	if (announced > HTTP_BODY_MAX) {
		snprintf(r->problem, sizeof(r->problem), "Request payload with size %llu is larger than the limit of "
		         "%d allowed by server.", (unsigned long long)announced, HTTP_BODY_MAX);
		return -1;
	}
	if (!announced)
		r->expect_continue = 0;
	return 0;
}

static int on_body(http_parser *parser, const char *at, size_t length)
{
	return buf_append(&of(parser)->body, at, length) < 0 ? refuse(of(parser), "Invalid request.") : 0;
}

static int on_message_complete(http_parser *parser)
{
	of(parser)->done = 1;
	/* What follows belongs to the next request. */
	http_parser_pause(parser, 1);
	return 0;
}

static const http_parser_settings settings = {
	.on_url = on_url,
	.on_header_field = on_field,
	.on_header_value = on_value,
	.on_headers_complete = on_headers_complete,
	.on_body = on_body,
	.on_message_complete = on_message_complete,
};

void http_request_init(struct http_request *request)
{
	memset(request, 0, sizeof(*request));
	request->path.max = HTTP_LINE_MAX;
	request->field.max = HTTP_LINE_MAX;
	request->value.max = HTTP_LINE_MAX;
	request->body.max = HTTP_BODY_MAX;
	http_request_reset(request);
}

void http_request_reset(struct http_request *r)
{
	http_parser_init(&r->parser, HTTP_REQUEST);
	r->parser.data = r;
	r->path.len = r->body.len = r->field.len = r->value.len = 0;
	r->line_len = r->head_len = 0;
	r->in_head = 1;
	r->last_byte = 0;
	r->expect_continue = r->done = 0;
	r->problem[0] = '\0';
}

void http_request_free(struct http_request *request)
{
	buf_free(&request->path);
	buf_free(&request->body);
	buf_free(&request->field);
	buf_free(&request->value);
}

/* Measure the lines of the head; the parser itself is more generous. 0, or 1 when one is too long or has no CR. */
static int check_lines(struct http_request *r, const uint8_t *data, size_t len)
{
	for (size_t i = 0; r->in_head && i < len; i++) {
		if (data[i] == '\n' && r->last_byte != '\r')
			return refuse(r, "Invalid request.");
		if (++r->line_len > HTTP_LINE_MAX || (r->line_len == HTTP_LINE_MAX && data[i] != '\n'))
			return refuse(r, r->head_len < r->line_len ? "Invalid request." :
			              "Invalid header. Reason: Invalid content length.");
		if (++r->head_len > HTTP_HEAD_MAX)
			return refuse(r, "Overflow occurred when parsing a request.");
		r->last_byte = data[i];
		if (data[i] == '\n') {
			/* An empty line instead of a request line; the parser would skip it. */
			if (r->head_len == 2)
				return refuse(r, "Invalid request.");
			r->in_head = r->line_len > 2;
			r->line_len = 0;
		}
	}
	return 0;
}

enum http_feed http_request_feed(struct http_request *r, const void *data, size_t len, size_t *ret_used)
{
	enum http_errno error;

	*ret_used = 0;
	if (r->done)
		return HTTP_FEED_DONE;
	if (r->problem[0] || check_lines(r, data, len))
		return HTTP_FEED_BAD;
	*ret_used = http_parser_execute(&r->parser, &settings, data, len);
	error = HTTP_PARSER_ERRNO(&r->parser);
	if (r->done)
		return HTTP_FEED_DONE;
	if (error == HPE_INVALID_METHOD)
		refuse(r, "Invalid HTTP Method: Unsupported HTTP method.");
	else if (error == HPE_INVALID_VERSION)
		refuse(r, "Invalid HTTP Version: Unsupported HTTP version.");
	else if (error != HPE_OK)
		refuse(r, "Invalid request.");
	return r->problem[0] ? HTTP_FEED_BAD : HTTP_FEED_MORE;
}

enum http_method_kind http_request_method(const struct http_request *request)
{
	switch (request->parser.method) {
	case HTTP_GET:
		return HTTP_METHOD_GET;
	case HTTP_PUT:
		return HTTP_METHOD_PUT;
	default:
		return HTTP_METHOD_PATCH;
	}
}

const char *http_request_path(struct http_request *request)
{
	const char *path = buf_string(&request->path), *slash;

	if (!path)
		return "";
	if (strncmp(path, "http://", 7) != 0)
		return path;
	slash = strchr(path + 7, '/');
	return slash ? slash : "";
}
