/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding streams: see stream.h. Enters: connections with a token. Leaves: descriptors for execs. The token is what
 * keeps one host's stream from another's; it binds once.
 */
#include "guest/stream.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/exec.h"
#include "wire/protocol.h"

#include <string.h>
#include <unistd.h>

struct waiting {
	struct waiting *next;
	int fd;
	enum stream_name name;
	uint64_t deadline;
	char token[PROTOCOL_TOKEN_LENGTH + 1];
	char container[PROTOCOL_MAX_ID + 1];
	char exec[PROTOCOL_MAX_ID + 1];
};

struct streams {
	struct pumps *pumps;
	struct waiting *list;  /* oldest first */
	size_t count;
	struct loop_timer *timer;
};

static const char *const names[] = { "stdin", "stdout", "stderr" };

const char *stream_name_text(enum stream_name name)
{
	return names[name];
}

int stream_token_is_valid(const char *token)
{
	return strlen(token) == PROTOCOL_TOKEN_LENGTH &&
	       strspn(token, "0123456789abcdefABCDEF") == PROTOCOL_TOKEN_LENGTH;
}

int stream_token_equals(const char *a, const char *b)
{
	unsigned char different = 0;

	for (size_t i = 0; i < PROTOCOL_TOKEN_LENGTH; i++)
		different |= (unsigned char)(a[i] ^ b[i]);
	return !different;
}

static void remove_waiting(struct streams *s, struct waiting **link, int close_it)
{
	struct waiting *w = *link;

	*link = w->next;
	s->count--;
	if (close_it)
		close(w->fd);
	free(w);
}

/* All wait equally long, so the first is the next to go. */
static void arm(struct streams *s)
{
	loop_timer_set(s->timer, s->list ? s->list->deadline : CLOCK_NEVER);
}

static void on_timer(void *user_data)
{
	struct streams *s = user_data;

	while (s->list && clock_passed(s->list->deadline))
		remove_waiting(s, &s->list, 1);
	arm(s);
}

int streams_new(struct agent *agent, cchv_error **err)
{
	struct streams *s = mem_zalloc(sizeof(*s));
	int r;

	if (!s)
		return err_nomem(err);
	agent->streams = s;
	r = pumps_new(agent->loop, &s->pumps, err);
	return r < 0 ? r : loop_timer_new(agent->loop, on_timer, s, &s->timer, err);
}

void streams_free(struct agent *agent)
{
	struct streams *s = agent->streams;

	if (!s)
		return;
	while (s->list)
		remove_waiting(s, &s->list, 1);
	loop_timer_free(s->timer);
	pumps_free(s->pumps);
	free(s);
	agent->streams = NULL;
}

struct pumps *streams_pumps(struct agent *agent)
{
	return agent->streams->pumps;
}

size_t stream_waiting(const struct agent *agent)
{
	return agent->streams->count;
}

static int copy_member(const struct json *first, const char *key, char *out, size_t size)
{
	const char *value = NULL;

	if (json_get_string(first, key, &value, NULL) != 1 || strlen(value) >= size)
		return 0;
	strcpy(out, value);
	return 1;
}

static int parse(const struct json *first, struct waiting *w)
{
	const char *name = NULL;

	if (!copy_member(first, "token", w->token, sizeof(w->token)) || !stream_token_is_valid(w->token) ||
	    !copy_member(first, "container", w->container, sizeof(w->container)) ||
	    !copy_member(first, "exec", w->exec, sizeof(w->exec)) ||
	    json_get_string(first, "stream", &name, NULL) != 1)
		return 0;
	for (int i = 0; i < STREAM_COUNT; i++) {
		if (strcmp(names[i], name) == 0) {
			w->name = (enum stream_name)i;
			return 1;
		}
	}
	return 0;
}

/* 1: it waits now (and fd is the list's); 0: no room. */
static int keep(struct streams *s, const struct waiting *parsed, int fd)
{
	struct waiting **last = &s->list, *w;

	if (s->count >= PROTOCOL_MAX_UNBOUND)
		return 0;
	w = mem_memdup(parsed, sizeof(*parsed));
	if (!w)
		return 0;
	w->fd = fd;
	w->next = NULL;
	w->deadline = clock_deadline(PROTOCOL_UNBOUND_MS);
	while (*last)
		last = &(*last)->next;
	*last = w;
	s->count++;
	arm(s);
	return 1;
}

void stream_open(struct agent *agent, int fd, const struct json *first)
{
	struct waiting parsed = { 0 };

	if (!parse(first, &parsed)) {
		close(fd);
		return;
	}
	switch (exec_offer_stream(agent, parsed.container, parsed.exec, parsed.name, parsed.token, fd)) {
	case EXEC_STREAM_TAKEN:
		return;
	case EXEC_STREAM_REFUSED:
		break;
	case EXEC_STREAM_UNKNOWN:
		if (keep(agent->streams, &parsed, fd))
			return;
		break;
	}
	close(fd);
}

int stream_take(struct agent *agent, const char *container, const char *exec, enum stream_name name,
                const char *token)
{
	struct streams *s = agent->streams;
	struct waiting **link = &s->list;
	int fd = -1;

	while (*link) {
		struct waiting *w = *link;

		if (w->name != name || strcmp(w->container, container) != 0 || strcmp(w->exec, exec) != 0) {
			link = &w->next;
			continue;
		}
		if (fd < 0 && stream_token_equals(w->token, token)) {
			fd = w->fd;
			remove_waiting(s, link, 0);
		} else {
			remove_waiting(s, link, 1);
		}
	}
	arm(s);
	return fd;
}

void stream_drop(struct agent *agent, const char *container, const char *exec)
{
	struct streams *s = agent->streams;
	struct waiting **link = &s->list;

	while (*link) {
		if (strcmp((*link)->container, container) == 0 && strcmp((*link)->exec, exec) == 0)
			remove_waiting(s, link, 1);
		else
			link = &(*link)->next;
	}
	arm(s);
}
