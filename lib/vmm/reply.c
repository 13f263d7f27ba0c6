/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of the VMM: see reply.h. Enters: bytes from the API socket. Leaves: where the body is, one line. */
#include "vmm/reply.h"

#include "base/json.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define HEAD_MAX 16384U
#define TEXT_MAX 1000U

/* The end of the head (past the empty line) in [from, len), or 0. */
static size_t head_end(const struct buf *buf, size_t from)
{
	const uint8_t *p;

	if (buf->len < from + 4)
		return 0;
	p = memmem(buf->data + from, buf->len - from, "\r\n\r\n", 4);
	return p ? (size_t)(p - buf->data) + 4 : 0;
}

/* A decimal number that fills text up to end (blanks around it aside). -1: it is none. */
static int64_t number(const char *text, const char *end)
{
	int64_t value = 0;

	while (text < end && (*text == ' ' || *text == '\t'))
		text++;
	while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (text == end || end - text > 12)
		return -1;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		value = value * 10 + (*text - '0');
	}
	return value;
}

/* "HTTP/1.1 204 " and its like; the reason may be missing. */
static int parse_status(const char *line, const char *end)
{
	int64_t status;

	if (end - line < 12 || memcmp(line, "HTTP/1.", 7) != 0 || !isdigit((unsigned char)line[7]) || line[8] != ' ')
		return -1;
	if (end - line > 12 && line[12] != ' ')
		return -1;
	status = number(line + 9, line + 12);
	return status < 100 || status > 599 ? -1 : (int)status;
}

static int parse_length(const char *head, const char *end, int64_t *ret_length)
{
	static const char key[] = "content-length:";
	int64_t length = 0;

	for (const char *line = head; line < end;) {
		const char *eol = memmem(line, (size_t)(end - line), "\r\n", 2);

		if (!eol)
			eol = end;
		if ((size_t)(eol - line) >= sizeof(key) - 1 && strncasecmp(line, key, sizeof(key) - 1) == 0)
			length = number(line + sizeof(key) - 1, eol);
		if ((size_t)(eol - line) >= 18 && strncasecmp(line, "transfer-encoding:", 18) == 0)
			return -1;
		if (length < 0)
			return -1;
		line = eol + 2;
	}
	*ret_length = length;
	return 0;
}

int vmm_reply_parse(struct buf *buf, struct vmm_reply_head *ret_head, cchv_error **err)
{
	size_t start = 0;

	for (;;) {
		size_t end = head_end(buf, start);
		const char *text = (const char *)buf->data + start, *eol;
		int64_t length;
		int status;

		if (!end && buf->len - start > HEAD_MAX)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "the VMM's reply has a head without an end");
		if (!end)
			return 0;
		eol = memmem(text, end - start, "\r\n", 2);
		status = parse_status(text, eol);
		if (status < 0 || parse_length(eol + 2, (const char *)buf->data + end - 2, &length) < 0)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "the VMM's reply is no HTTP");
		if (status < 200) {
			start = end;
			continue;
		}
		if (status == 204)
			length = 0;
		if (length > VMM_REPLY_MAX)
			return err_set(err, CCHV_ERR_LIMIT, 0, "the VMM's reply has %lld bytes", (long long)length);
		if (buf->len - end < (size_t)length)
			return 0;
		ret_head->status = status;
		ret_head->body = end;
		ret_head->body_len = (size_t)length;
		return 1;
	}
}

/* Append text as one line: runs of blanks and control characters become one space, the ends are trimmed. */
static int append_squeezed(struct buf *out, const char *text, size_t len)
{
	int r = CCHV_OK, blank = 0, any = 0;

	for (size_t i = 0; i < len && r == CCHV_OK && out->len < TEXT_MAX; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c <= ' ' || c == 0x7f) {
			blank = 1;
			continue;
		}
		if (blank && any)
			r = buf_append_byte(out, ' ');
		if (r == CCHV_OK)
			r = buf_append_byte(out, c);
		blank = 0;
		any = 1;
	}
	return r;
}

/* Some causes of the VMM's carry where it was in its own code: nothing for a user. */
static int append_string(struct buf *out, const struct json *item)
{
	static const char trace[] = "\n\nStack backtrace:";
	cleanup_free char *text = NULL;
	const char *end;
	size_t len = 0;

	if (json_as_bytes(item, &text, &len) < 0)
		return CCHV_OK;
	end = memmem(text, len, trace, sizeof(trace) - 1);
	return append_squeezed(out, text, end ? (size_t)(end - text) : len);
}

static int append_array(struct buf *out, const struct json *array)
{
	size_t count = json_count(array);
	int r;

	r = append_string(out, json_at(array, count - 1));
	for (size_t i = 0; i + 1 < count && r == CCHV_OK; i++) {
		r = buf_append_string(out, i ? ": " : " (");
		if (r == CCHV_OK)
			r = append_string(out, json_at(array, i));
	}
	if (count > 1 && r == CCHV_OK)
		r = buf_append_byte(out, ')');
	return r;
}

/* {"error": "text with raw line feeds"}: no JSON, so what lies between the value's first and last quote is taken. */
static int append_broken_object(struct buf *out, const char *body, size_t len)
{
	const char *end = body + len, *p = memmem(body, len, "\"error\"", 7), *q;

	if (!p)
		return append_squeezed(out, body, len);
	p = memchr(p + 7, '"', (size_t)(end - p) - 7);
	q = p ? memrchr(p + 1, '"', (size_t)(end - p) - 1) : NULL;
	if (!q)
		return append_squeezed(out, body, len);
	return append_squeezed(out, p + 1, (size_t)(q - p) - 1);
}

char *vmm_reply_error_text(int status, const char *body, size_t len)
{
	/* TEXT_MAX and the separators of a long array. */
	cleanup_buf struct buf out = BUF_INIT(4 * TEXT_MAX);
	cleanup_json struct json *json = NULL;
	int r;

	if (len)
		json_parse(body, len, &json, NULL);
	if (json_get_type(json) == JSON_ARRAY && json_count(json))
		r = append_array(&out, json);
	else if (json_get_type(json) == JSON_STRING)
		r = append_string(&out, json);
	else if (json_get_type(json) == JSON_OBJECT && json_get_type(json_get(json, "error")) == JSON_STRING)
		r = append_string(&out, json_get(json, "error"));
	else
		r = append_broken_object(&out, body, len);
	if (r == CCHV_OK && !out.len)
		r = buf_printf(&out, "status %d without a reason", status);
	return r == CCHV_ERR_NOMEM ? NULL : buf_take_string(&out);
}
