/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams before they are pumps: a connection says which stream of which exec it is, and shows the token that the
 * host chose for it; exec.start says the same. Whichever comes first waits for the other: a connection 5 s, at most
 * 64 of them.
 */
#ifndef GUEST_STREAM_H
#define GUEST_STREAM_H

#include "guest/agent.h"
#include "guest/pump.h"

enum stream_name { STREAM_STDIN, STREAM_STDOUT, STREAM_STDERR, STREAM_COUNT };

const char *stream_name_text(enum stream_name name);

int streams_new(struct agent *agent, cchv_error **err);
void streams_free(struct agent *agent);
struct pumps *streams_pumps(struct agent *agent);

/* A connection whose first frame said "stream". Takes fd: gives it to the exec, keeps it, or closes it. */
void stream_open(struct agent *agent, int fd, const struct json *first);
/* The waiting connection of that stream, or -1. One with the right names and a wrong token is closed. */
int stream_take(struct agent *agent, const char *container, const char *exec, enum stream_name name,
                const char *token);
/* The exec will not be: close what waits for it. */
void stream_drop(struct agent *agent, const char *container, const char *exec);
size_t stream_waiting(const struct agent *agent);

int stream_token_is_valid(const char *token);
/* In a time that does not tell how much of it is right. */
int stream_token_equals(const char *a, const char *b);

#endif
