/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and names that host and agent share; guest/PROTOCOL.md explains them. */
#ifndef WIRE_PROTOCOL_H
#define WIRE_PROTOCOL_H

#define PROTOCOL_VERSION 1
#define PROTOCOL_AGENT_PORT 1024U   /* guest: control and stream connections */
#define PROTOCOL_ANNOUNCE_PORT 1023U /* host: the agent says once that it is ready */
#define PROTOCOL_HOST_CID 2U

/* "cchv agent version 0.1.0 of protocol 1": the agent's file has it, so that what is in an initramfs can be told. */
#define PROTOCOL_AGENT_BANNER "cchv agent version "
#define PROTOCOL_AGENT_BANNER_OF " of protocol "

#define PROTOCOL_TOKEN_LENGTH 32    /* hexadecimal digits */
#define PROTOCOL_MAX_CONTROL 256    /* control connections at a time */
#define PROTOCOL_MAX_UNBOUND (3 * PROTOCOL_MAX_CONTROL) /* stream connections that wait for their exec */
#define PROTOCOL_UNBOUND_MS 20000   /* for each other: a busy guest lets in some hundred connections in a second */
#define PROTOCOL_FIRST_FRAME_MS 5000
#define PROTOCOL_UNACKED_EXIT_MS 10000 /* an empty VM with unacknowledged exits powers off */
#define PROTOCOL_MAX_ID 128         /* bytes of a container or exec id */

#endif
