/* SPDX-License-Identifier: Apache-2.0 */
/* What a VMM answers: HTTP as it is spoken on the API socket, and the error bodies in it. */
#ifndef VMM_REPLY_H
#define VMM_REPLY_H

#include "base/buf.h"
#include "base/error.h"

#define VMM_REPLY_MAX (4U << 20) /* bytes of a reply's body */

struct vmm_reply_head {
	int status;        /* 200 to 599 */
	size_t body;       /* offset of the body */
	size_t body_len;
};

/*
 * Look for one whole reply at the start of buf; interim (1xx) ones are skipped. 1: *ret_head is set; 0: more bytes
 * are needed; CCHV_ERR_PROTOCOL: this is no HTTP; CCHV_ERR_LIMIT: a body over VMM_REPLY_MAX.
 */
int vmm_reply_parse(struct buf *buf, struct vmm_reply_head *ret_head, cchv_error **err);

/*
 * One line for people out of the body of a refusal: a JSON array of causes (the last one first, since it says
 * what went wrong), an object with "error" that may be broken, text, or nothing. NULL when out of memory.
 */
char *vmm_reply_error_text(int status, const char *body, size_t len);

#endif
