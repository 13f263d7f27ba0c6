/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request, read piece by piece, with the limits of Cloud Hypervisor's server: lines up to 1024 bytes with
 * their CRLF, bodies up to 51200, a Content-Length as the only framing, GET, PUT and PATCH.
 */
#ifndef QEMU_HTTP_REQUEST_H
#define QEMU_HTTP_REQUEST_H

#include <http_parser.h>

#include "base/buf.h"

#define HTTP_LINE_MAX 1024
#define HTTP_BODY_MAX 51200
#define HTTP_HEAD_MAX 65536

enum http_method_kind { HTTP_METHOD_GET, HTTP_METHOD_PUT, HTTP_METHOD_PATCH };

enum http_feed { HTTP_FEED_MORE, HTTP_FEED_DONE, HTTP_FEED_BAD };

struct http_request {
	http_parser parser;
	struct buf path;
	struct buf body;
	struct buf field;               /* the header line that is being read */
	struct buf value;
	size_t line_len;
	size_t head_len;
	int in_head;
	int last_byte;
	int expect_continue;            /* to be answered with 100 once */
	int done;
	char problem[160];              /* why it is bad */
};

void http_request_init(struct http_request *request);
void http_request_reset(struct http_request *request);  /* ready for the next one */
void http_request_free(struct http_request *request);

/* Take bytes; *ret_used says how many belonged to this request. DONE and BAD stay until reset. */
enum http_feed http_request_feed(struct http_request *request, const void *data, size_t len, size_t *ret_used);

enum http_method_kind http_request_method(const struct http_request *request);
const char *http_request_path(struct http_request *request);   /* without scheme and host; lent */

#endif
