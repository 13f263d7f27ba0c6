/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer with a ceiling. A zeroed struct with max set is a valid empty buffer. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <sys/types.h>

#include "base/mem.h"

struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
	size_t max; /* the ceiling for len */
};

#define BUF_INIT(ceiling) { .max = (ceiling) }

int buf_reserve(struct buf *buf, size_t extra);   /* CCHV_OK, CCHV_ERR_NOMEM, CCHV_ERR_LIMIT */
int buf_append(struct buf *buf, const void *data, size_t len);
int buf_append_string(struct buf *buf, const char *text);
int buf_append_byte(struct buf *buf, uint8_t byte);
int buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *buf, size_t len);    /* drop len bytes from the front */
/* End it with a NUL that is not counted, and lend it; NULL when out of memory. */
const char *buf_string(struct buf *buf);
/* Hand the NUL-ended memory over; the buffer is empty afterwards. NULL when out of memory. */
char *buf_take_string(struct buf *buf);
/* read() once, at most limit bytes. Bytes, 0 at end of file, -1 with errno (ENOBUFS: the ceiling is reached). */
ssize_t buf_read_fd(struct buf *buf, int fd, size_t limit);
void buf_free(struct buf *buf);                   /* leaves a valid empty buffer */

#define cleanup_buf __attribute__((cleanup(buf_free)))

#endif
