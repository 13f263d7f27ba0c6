/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of API calls: see http.h. Enters: calls. Leaves: replies and failures, one callback each. */
#include "vmm/http_call.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "vmm/reply.h"

struct vmm_http {
	struct loop *loop;
	int dir_fd;
	int keep;
	char *socket_name;
	char *dead;                 /* why all calls end at once; NULL while the VMM may live */
	struct vmm_call *current;
	struct vmm_call *queue;
	struct http_curl *curl;     /* from the first call on */
	struct http_fds *fds;       /* while current carries descriptors */
	struct loop_timer *limit;   /* of the call under way */
	struct loop_timer *next;    /* starts the queue's first, outside of everything else */
};

static void call_free(struct vmm_call *call)
{
	if (!call)
		return;
	for (size_t i = 0; i < call->fd_count; i++)
		fd_close(&call->fds[i]);
	free(call->fds);
	free(call->method);
	free(call->name);
	free(call->body);
	free(call);
}

/* The call is over: its callback may make new ones, so it is taken out first. */
static void complete(struct vmm_http *http, struct vmm_call *call, int result, struct json *body,
                     cchv_error *error)
{
	if (call == http->current) {
		http->current = NULL;
		loop_timer_set(http->limit, CLOCK_NEVER);
	}
	if (http->queue)
		loop_timer_set(http->next, clock_mono_ns());
	if (call->fn)
		call->fn(result, &body, &error, call->user_data);
	json_free(body);
	cchv_error_free(error);
	call_free(call);
}

void vmm_http_fail(struct vmm_http *http, cchv_error *error)
{
	struct vmm_call *call = http->current;
	int code = error ? cchv_error_code(error) : CCHV_ERR_NOMEM;

	http_fds_free(steal(&http->fds));
	err_prefix(&error, code, "%s", call->name);
	complete(http, call, code, NULL, error);
}

void vmm_http_finish(struct vmm_http *http, int status, const char *body, size_t len)
{
	struct vmm_call *call = http->current;
	struct json *json = NULL;
	cchv_error *error = NULL;
	int r = CCHV_OK;

	if (status < 200 || status > 299) {
		cleanup_free char *text = vmm_reply_error_text(status, body, len);

		r = text ? err_set_from(&error, CCHV_ERR_VMM, CCHV_ORIGIN_VMM, 0, "%s: %s", call->name, text)
			 : err_nomem(&error);
	} else if (len) {
		r = json_parse(body, len, &json, &error);
		if (r < 0)
			err_prefix(&error, r, "%s: the VMM's reply", call->name);
	}
	http_fds_free(steal(&http->fds));
	complete(http, call, r, json, error);
}

static void on_limit(void *user_data)
{
	struct vmm_http *http = user_data;
	cchv_error *error = NULL;

	http_curl_cancel(http->curl);
	err_set(&error, CCHV_ERR_TIMEOUT, 0, "the VMM does not answer within %llu ms",
	        (unsigned long long)http->current->limit_ms);
	vmm_http_fail(http, error);
}

static int start(struct vmm_http *http, const struct vmm_call *call, cchv_error **err)
{
	if (http->dead)
		return err_set(err, CCHV_ERR_VMM_GONE, 0, "%s", http->dead);
	if (call->fd_count)
		return http_fds_start(http, http->loop, http->dir_fd, http->socket_name, call, &http->fds, err);
	if (!http->curl) {
		int r = http_curl_new(http, http->loop, http->dir_fd, http->socket_name, http->keep, &http->curl, err);

		if (r < 0)
			return r;
	}
	return http_curl_start(http->curl, call, err);
}

static void on_next(void *user_data)
{
	struct vmm_http *http = user_data;
	cchv_error *error = NULL;

	if (http->current || !http->queue)
		return;
	http->current = http->queue;
	http->queue = http->current->next;
	http->current->next = NULL;
	loop_timer_set(http->limit, clock_mono_ns() + http->current->limit_ms * NS_PER_MS);
	if (start(http, http->current, &error) < 0)
		vmm_http_fail(http, error);
}

int vmm_http_new(struct loop *loop, int dir_fd, const char *name, int keep, struct vmm_http **ret_http,
                 cchv_error **err)
{
	struct vmm_http *http = mem_zalloc(sizeof(*http));
	int r;

	if (!http)
		return err_nomem(err);
	http->loop = loop;
	http->keep = keep;
	http->socket_name = mem_strdup(name);
	http->dir_fd = fd_copy(dir_fd);
	if (http->dir_fd < 0)
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "API socket '%s': directory", name);
	else
		r = http->socket_name ? CCHV_OK : err_nomem(err);
	if (r == CCHV_OK)
		r = loop_timer_new(loop, on_limit, http, &http->limit, err);
	if (r == CCHV_OK)
		r = loop_timer_new(loop, on_next, http, &http->next, err);
	if (r < 0) {
		vmm_http_free(http);
		return r;
	}
	*ret_http = http;
	return CCHV_OK;
}

void vmm_http_abort(struct vmm_http *http, const char *text)
{
	if (!http->dead)
		http->dead = mem_strdup(text);
	http_curl_cancel(http->curl);
	while (http->current || http->queue) {
		struct vmm_call *call = http->current;
		cchv_error *error = NULL;

		if (!call) {
			call = http->queue;
			http->queue = call->next;
			http->current = call;
		}
		err_set(&error, CCHV_ERR_VMM_GONE, 0, "%s", text);
		vmm_http_fail(http, error);
	}
}

void vmm_http_free(struct vmm_http *http)
{
	if (!http)
		return;
	vmm_http_abort(http, "the VM's handle was freed");
	http_curl_free(http->curl);
	loop_timer_free(http->limit);
	loop_timer_free(http->next);
	fd_close(&http->dir_fd);
	free(http->socket_name);
	free(http->dead);
	free(http);
}

static int call_set_body(struct vmm_call *call, const struct json *body, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(VMM_REPLY_MAX);
	int r;

	if (!body)
		return CCHV_OK;
	r = json_print(body, 0, &text);
	if (r < 0)
		return err_set(err, r, 0, "%s: the request cannot be written", call->name);
	call->body_len = text.len;
	call->body = buf_take_string(&text);
	return call->body ? CCHV_OK : err_nomem(err);
}

static int call_set_fds(struct vmm_call *call, const int *fds, size_t count, cchv_error **err)
{
	if (!count)
		return CCHV_OK;
	if (count > VMM_CALL_MAX_FDS)
		return err_set(err, CCHV_ERR_LIMIT, 0, "%s: more than %d descriptors", call->name, VMM_CALL_MAX_FDS);
	call->fds = mem_realloc_array(NULL, count, sizeof(*call->fds));
	if (!call->fds)
		return err_nomem(err);
	for (; call->fd_count < count; call->fd_count++) {
		call->fds[call->fd_count] = fd_copy(fds[call->fd_count]);
		if (call->fds[call->fd_count] < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: copy descriptor", call->name);
	}
	return CCHV_OK;
}

static int enqueue(struct vmm_http *http, const char *method, const char *name, struct json *body, const int *fds,
                   size_t fd_count, uint64_t limit_ms, vmm_reply_fn fn, void *user_data,
                   struct vmm_call **ret_call, cchv_error **err)
{
	struct vmm_call *call = mem_zalloc(sizeof(*call)), **last;
	cleanup_json struct json *taken = body;
	int r;

	if (!call)
		return err_nomem(err);
	call->http = http;
	call->limit_ms = limit_ms;
	call->fn = fn;
	call->user_data = user_data;
	call->method = mem_strdup(method);
	call->name = mem_strdup(name);
	r = call->method && call->name ? CCHV_OK : err_nomem(err);
	if (r == CCHV_OK)
		r = call_set_body(call, taken, err);
	if (r == CCHV_OK)
		r = call_set_fds(call, fds, fd_count, err);
	if (r < 0) {
		call_free(call);
		return r;
	}
	for (last = &http->queue; *last; last = &(*last)->next)
		;
	*last = call;
	if (!http->current)
		loop_timer_set(http->next, clock_mono_ns());
	*ret_call = call;
	return CCHV_OK;
}

int vmm_http_call(struct vmm_http *http, const char *method, const char *name, struct json *body,
                  uint64_t limit_ms, vmm_reply_fn fn, void *user_data, struct vmm_call **ret_call,
                  cchv_error **err)
{
	return enqueue(http, method, name, body, NULL, 0, limit_ms, fn, user_data, ret_call, err);
}

int vmm_http_call_fds(struct vmm_http *http, const char *name, struct json *body, const int *fds, size_t fd_count,
                      uint64_t limit_ms, vmm_reply_fn fn, void *user_data, struct vmm_call **ret_call,
                      cchv_error **err)
{
	return enqueue(http, "PUT", name, body, fds, fd_count, limit_ms, fn, user_data, ret_call, err);
}

void vmm_call_forget(struct vmm_call *call)
{
	struct vmm_http *http = call->http;

	call->fn = NULL;
	if (call == http->current)
		return;
	for (struct vmm_call **c = &http->queue; *c; c = &(*c)->next) {
		if (*c == call) {
			*c = call->next;
			call_free(call);
			return;
		}
	}
}
