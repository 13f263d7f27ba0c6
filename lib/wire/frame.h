/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames between host and agent: a length word (32 bits, little endian, of the JSON alone) and that many bytes of
 * JSON. guest/PROTOCOL.md has the messages. Neither side trusts the other's lengths.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

#define FRAME_MAX (4U << 20)
#define FRAME_HEADER 4

/* Append one frame to buf (whose max bounds what may wait to be sent). LIMIT: message or buffer too large. */
int frame_append(struct buf *buf, const struct json *message, cchv_error **err);
/*
 * Take the first frame out of buf. 1: *ret_message is set; 0: more bytes are needed; PROTOCOL: length over
 * FRAME_MAX or not an object: the connection is beyond repair.
 */
int frame_take(struct buf *buf, struct json **ret_message, cchv_error **err);
/* The same on a descriptor, with a deadline. frame_recv: PROTOCOL with "closed" when the peer ended before or
   inside. */
int frame_send(int fd, const struct json *message, uint64_t deadline, cchv_error **err);
/* Reads exactly one frame and not one byte more: what follows may be a raw stream. */
int frame_recv(int fd, struct json **ret_message, uint64_t deadline, cchv_error **err);

#endif
