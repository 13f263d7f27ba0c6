/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMM's API, over its Unix socket. Calls are queued and made one after the other (the VMM works so, too), on
 * one persistent connection, without blocking: a call's end is a callback of the loop. An idle connection is not
 * watched. A call that is given up goes on at the VMM; its connection is not used again when it timed out.
 */
#ifndef VMM_HTTP_H
#define VMM_HTTP_H

#include "base/json.h"
#include "base/loop.h"

struct vmm_http;
struct vmm_call;

/*
 * The end of a call. CCHV_OK: *body is what the VMM answered, or NULL for nothing. Otherwise *error says what
 * happened: CCHV_ERR_VMM (it refused), VMM_GONE (no connection, or it broke), TIMEOUT, PROTOCOL, NOMEM. Both may be
 * taken with steal().
 */
typedef void (*vmm_reply_fn)(int result, struct json **body, cchv_error **error, void *user_data);

/* dir_fd: the run directory's, copied; name: the socket in it. keep: one connection for all calls, else one each. */
int vmm_http_new(struct loop *loop, int dir_fd, const char *name, int keep, struct vmm_http **ret_http,
                 cchv_error **err);
/* Pending calls end with VMM_GONE. Not inside a callback of this object. */
void vmm_http_free(struct vmm_http *http);
/*
 * Queue a call: method "GET" or "PUT", name such as "vm.create"; body (taken in any case) or NULL. It may take
 * limit_ms from when its turn comes. fn runs exactly once, unless the call is forgotten, and never inside of this.
 */
int vmm_http_call(struct vmm_http *http, const char *method, const char *name, struct json *body,
                  uint64_t limit_ms, vmm_reply_fn fn, void *user_data, struct vmm_call **ret_call,
                  cchv_error **err);
/* The same with descriptors, copied, that travel with the request. */
int vmm_http_call_fds(struct vmm_http *http, const char *name, struct json *body, const int *fds, size_t fd_count,
                      uint64_t limit_ms, vmm_reply_fn fn, void *user_data, struct vmm_call **ret_call,
                      cchv_error **err);
/* The callback will not run. A call that has not begun is dropped, one under way goes on. */
void vmm_call_forget(struct vmm_call *call);
/* The VMM is known to be dead: end all calls with VMM_GONE and this text, and all later ones. */
void vmm_http_abort(struct vmm_http *http, const char *text);

#endif
