/* SPDX-License-Identifier: Apache-2.0 */
/* A call's inside, for http.c and its two transports: libcurl (http_curl.c) and by hand, with fds (http_fds.c). */
#ifndef VMM_HTTP_CALL_H
#define VMM_HTTP_CALL_H

#include "vmm/http.h"

#include "base/buf.h"

#define VMM_CALL_MAX_FDS 64

struct vmm_call {
	struct vmm_http *http;
	struct vmm_call *next;
	char *method;
	char *name;
	char *body;             /* NULL: none */
	size_t body_len;
	int *fds;
	size_t fd_count;
	uint64_t limit_ms;
	vmm_reply_fn fn;        /* NULL: forgotten */
	void *user_data;
};

/* A transport has the reply of the call under way (status and body, lent), or its failure (error, taken). */
void vmm_http_finish(struct vmm_http *http, int status, const char *body, size_t len);
void vmm_http_fail(struct vmm_http *http, cchv_error *error);

struct http_curl;

int http_curl_new(struct vmm_http *http, struct loop *loop, int dir_fd, const char *name, int keep,
                  struct http_curl **ret_curl, cchv_error **err);
void http_curl_free(struct http_curl *curl);
int http_curl_start(struct http_curl *curl, const struct vmm_call *call, cchv_error **err);
/* Leave the call under way and its connection; nothing when there is none. */
void http_curl_cancel(struct http_curl *curl);

struct http_fds;

int http_fds_start(struct vmm_http *http, struct loop *loop, int dir_fd, const char *name,
                   const struct vmm_call *call, struct http_fds **ret_fds, cchv_error **err);
void http_fds_free(struct http_fds *fds);

#endif
