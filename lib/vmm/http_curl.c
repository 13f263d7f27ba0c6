/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API calls by libcurl: one easy handle, driven by the loop through curl's socket and timer callbacks. Enters: a
 * call. Leaves: vmm_http_finish() or vmm_http_fail(), never inside of a callback of curl.
 */
#include "vmm/http_call.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/fd.h"
#include "vmm/curl.h"
#include "vmm/reply.h"

struct http_curl {
	struct vmm_http *http;
	struct loop *loop;
	const struct curl_api *api;
	int dir_fd;
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;
	struct loop_timer *timer;
	struct buf reply;
	int busy;                   /* easy is in multi */
	int too_long;
	char message[CURL_ERROR_SIZE];
};

/* What curl wants to know of one descriptor; lives until curl says REMOVE. */
struct watch {
	struct http_curl *curl;
	struct loop_source *source;
	int fd;
};

static cchv_error *failure(struct http_curl *c, CURLcode code)
{
	const char *text = c->message[0] ? c->message : c->api->easy_strerror(code);
	cchv_error *error = NULL;

	switch (code) {
	case CURLE_OUT_OF_MEMORY:
		err_nomem(&error);
		break;
	case CURLE_COULDNT_CONNECT:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_PARTIAL_FILE:
		err_set_from(&error, CCHV_ERR_VMM_GONE, CCHV_ORIGIN_VMM, 0, "no answer from the VMM: %s", text);
		break;
	case CURLE_WRITE_ERROR:
		if (c->too_long)
			err_set(&error, CCHV_ERR_LIMIT, 0, "the VMM's reply has more than %u bytes", VMM_REPLY_MAX);
		else
			err_nomem(&error);
		break;
	default:
		err_set_from(&error, CCHV_ERR_PROTOCOL, CCHV_ORIGIN_VMM, 0, "the VMM's reply is no HTTP: %s", text);
	}
	return error;
}

/* After each step: has the call ended? */
static void check_done(struct http_curl *c)
{
	CURLcode code = CURLE_OK;
	int left, done = 0;
	long status = 0;
	CURLMsg *m;

	if (!c->busy)
		return;
	while ((m = c->api->multi_info_read(c->multi, &left))) {
		if (m->msg == CURLMSG_DONE) {
			code = m->data.result;
			done = 1;
		}
	}
	if (!done)
		return;
	c->api->easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	c->api->multi_remove_handle(c->multi, c->easy);
	c->busy = 0;
	if (code == CURLE_OK)
		vmm_http_finish(c->http, (int)status, (const char *)c->reply.data, c->reply.len);
	else
		vmm_http_fail(c->http, failure(c, code));
}

static void step(struct http_curl *c, int fd, int events)
{
	cchv_error *error = NULL;
	CURLMcode code;
	int running;

	code = c->api->multi_socket_action(c->multi, fd, events, &running);
	check_done(c);
	/* Where a descriptor could not be watched, for lack of memory, the transfer would never end by itself. */
	if (code == CURLM_OK || !c->busy)
		return;
	http_curl_cancel(c);
	err_set(&error, CCHV_ERR_NOMEM, 0, "libcurl gave the call up (%d)", (int)code);
	vmm_http_fail(c->http, error);
}

static void on_ready(uint32_t events, void *user_data)
{
	struct watch *w = user_data;
	int what = 0;

	if (events & EPOLLIN)
		what |= CURL_CSELECT_IN;
	if (events & EPOLLOUT)
		what |= CURL_CSELECT_OUT;
	if (events & (EPOLLERR | EPOLLHUP))
		what |= CURL_CSELECT_ERR;
	/* A peer that answered and hung up: the answer counts. */
	if (events & EPOLLIN)
		what &= ~CURL_CSELECT_ERR;
	step(w->curl, w->fd, what);
}

static void on_timer(void *user_data)
{
	step(user_data, CURL_SOCKET_TIMEOUT, 0);
}

static int want_socket(CURL *easy, curl_socket_t fd, int what, void *user_data, void *data)
{
	struct http_curl *c = user_data;
	struct watch *w = data;
	uint32_t events = 0;

	if (what == CURL_POLL_REMOVE) {
		if (w)
			loop_source_free(w->source);
		free(w);
		return 0;
	}
	if (what & CURL_POLL_IN)
		events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		events |= EPOLLOUT;
	if (w)
		return loop_source_set_events(w->source, events) < 0 ? -1 : 0;
	w = mem_zalloc(sizeof(*w));
	if (!w)
		return -1;
	w->curl = c;
	w->fd = fd;
	if (loop_add(c->loop, fd, events, on_ready, w, &w->source, NULL) < 0) {
		free(w);
		return -1;
	}
	c->api->multi_assign(c->multi, fd, w);
	return 0;
}

static int want_timer(CURLM *multi, long timeout_ms, void *user_data)
{
	struct http_curl *c = user_data;

	loop_timer_set(c->timer, timeout_ms < 0 ? CLOCK_NEVER : clock_mono_ns() + (uint64_t)timeout_ms * NS_PER_MS);
	return 0;
}

static size_t on_body(char *data, size_t size, size_t count, void *user_data)
{
	struct http_curl *c = user_data;
	int r = buf_append(&c->reply, data, size * count);

	c->too_long = r == CCHV_ERR_LIMIT;
	return r == CCHV_OK ? size * count : 0;
}

static int set_options(struct http_curl *c, const char *socket_path, int keep)
{
	const struct curl_api *a = c->api;
	int bad = 0;

#define SET(handle, option, value) (bad |= a->easy_setopt(handle, option, value) != CURLE_OK)
	SET(c->easy, CURLOPT_UNIX_SOCKET_PATH, socket_path);
	SET(c->easy, CURLOPT_PROXY, "");
	SET(c->easy, CURLOPT_NOPROXY, "*");
	SET(c->easy, CURLOPT_NOSIGNAL, 1L);
	SET(c->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(c->easy, CURLOPT_ERRORBUFFER, c->message);
	SET(c->easy, CURLOPT_WRITEFUNCTION, on_body);
	SET(c->easy, CURLOPT_WRITEDATA, c);
	SET(c->easy, CURLOPT_HTTPHEADER, c->headers);
	SET(c->easy, CURLOPT_FORBID_REUSE, keep ? 0L : 1L);
	/* Limits of time are the caller's timer. */
	SET(c->easy, CURLOPT_CONNECTTIMEOUT, 0L);
#undef SET
	bad |= a->multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, want_socket) != CURLM_OK;
	bad |= a->multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c) != CURLM_OK;
	bad |= a->multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, want_timer) != CURLM_OK;
	bad |= a->multi_setopt(c->multi, CURLMOPT_TIMERDATA, c) != CURLM_OK;
	bad |= a->multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, 1L) != CURLM_OK;
	return bad ? -1 : 0;
}

static int add_header(struct http_curl *c, const char *text)
{
	struct curl_slist *more = c->api->slist_append(c->headers, text);

	if (!more)
		return -1;
	c->headers = more;
	return 0;
}

int http_curl_new(struct vmm_http *http, struct loop *loop, int dir_fd, const char *name, int keep,
                  struct http_curl **ret_curl, cchv_error **err)
{
	const struct curl_api *api = curl_load(err);
	struct http_curl *c;
	char path[108];
	int r;

	if (!api)
		return CCHV_ERR_NOT_FOUND;
	c = mem_zalloc(sizeof(*c));
	if (!c)
		return err_nomem(err);
	c->http = http;
	c->loop = loop;
	c->api = api;
	c->reply.max = VMM_REPLY_MAX;
	c->dir_fd = fd_copy(dir_fd);
	/* Through the directory's descriptor: however long its path is, this fits a socket address. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", c->dir_fd, name);
	r = loop_timer_new(loop, on_timer, c, &c->timer, err);
	if (r == CCHV_OK) {
		c->multi = api->multi_init();
		c->easy = api->easy_init();
		/* "Expect:" alone turns the 100-continue dance off. */
		if (c->dir_fd < 0 || !c->multi || !c->easy || add_header(c, "Expect:") < 0 ||
		    add_header(c, "Content-Type: application/json") < 0 || set_options(c, path, keep) < 0)
			r = err_set(err, CCHV_ERR_SYSTEM, 0, "libcurl: cannot be set up");
	}
	if (r < 0) {
		http_curl_free(c);
		return r;
	}
	*ret_curl = c;
	return CCHV_OK;
}

int http_curl_start(struct http_curl *c, const struct vmm_call *call, cchv_error **err)
{
	const struct curl_api *a = c->api;
	char url[128];
	int bad = 0;

	snprintf(url, sizeof(url), "http://localhost/api/v1/%s", call->name);
	c->reply.len = 0;
	c->too_long = 0;
	c->message[0] = '\0';
	bad |= a->easy_setopt(c->easy, CURLOPT_URL, url) != CURLE_OK;
	bad |= a->easy_setopt(c->easy, CURLOPT_HTTPGET, 1L) != CURLE_OK;
	if (call->body) {
		bad |= a->easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len) != CURLE_OK;
		bad |= a->easy_setopt(c->easy, CURLOPT_COPYPOSTFIELDS, call->body) != CURLE_OK;
	}
	bad |= a->easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, call->method) != CURLE_OK;
	if (bad)
		return err_set(err, CCHV_ERR_SYSTEM, 0, "libcurl: cannot be set up");
	if (a->multi_add_handle(c->multi, c->easy) != CURLM_OK)
		return err_set(err, CCHV_ERR_SYSTEM, 0, "libcurl: cannot start a call");
	c->busy = 1;
	return CCHV_OK;
}

void http_curl_cancel(struct http_curl *c)
{
	if (!c || !c->busy)
		return;
	/* Removing a handle in the middle of a transfer closes its connection. */
	c->api->multi_remove_handle(c->multi, c->easy);
	c->busy = 0;
}

void http_curl_free(struct http_curl *c)
{
	if (!c)
		return;
	http_curl_cancel(c);
	if (c->easy)
		c->api->easy_cleanup(c->easy);
	if (c->multi)
		c->api->multi_cleanup(c->multi);
	c->api->slist_free_all(c->headers);
	loop_timer_free(c->timer);
	fd_close(&c->dir_fd);
	buf_free(&c->reply);
	free(c);
}
