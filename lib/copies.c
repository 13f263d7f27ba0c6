/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copied mounts: see copies.h. Enters: files of the host, and the kernel's word that they changed. Leaves: copy.put
 * requests. A change is looked at after a short pause, since editors and Kubernetes make several at once.
 */
#include "copies.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/channel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "copy_entries.h"
#include "ctx.h"
#include "etc_files.h"

#define PAUSE_MS 100
#define MAX_TEXT (16U << 20)
#define EVENTS (IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | \
                IN_MOVE_SELF)

struct copy {
	struct container_copies *copies;
	struct container_map *map;
	char *destination;
	char *source;
	struct channel_call call;
	int is_again;                /* it changed while a put was under way */
};

struct container_copies {
	struct container *container;
	int inotify;
	struct loop_source *loop_source;
	struct loop_timer *timer;
	struct copy *items;
	size_t count;
};

/* FNV-1a of the text, never 0 but for lack of memory. */
static uint64_t hash_entries(const struct json *entries)
{
	cleanup_buf struct buf text = BUF_INIT(MAX_TEXT);
	uint64_t hash = 14695981039346656037ULL;

	if (json_print(entries, 0, &text) < 0)
		return 0;
	for (size_t i = 0; i < text.len; i++)
		hash = (hash ^ text.data[i]) * 1099511628211ULL;
	return hash ? hash : 1;
}

static struct json *put_params(const struct container *container, const char *destination,
                               struct json *entries)
{
	struct json *params = container_params(container);

	json_set_string(params, "destination", destination);
	json_set(params, "entries", entries);
	return params;
}

static int put(struct container *container, const char *destination, struct json *entries, uint64_t deadline,
               cchv_error **err)
{
	int r;

	if (!entries)
		return err_nomem(err);
	r = guest_call(container->vm, "copy.put", put_params(container, destination, entries), deadline, NULL,
	               err);
	return r < 0 ? err_prefix(err, r, "container '%s': mount '%s'", container->id, destination) : r;
}

int copies_put(struct container *container, uint64_t deadline, cchv_error **err)
{
	cchv_container_config *config = container->config;
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < config->map_count; i++) {
		struct json *entries = NULL;

		if (config->maps[i].kind != CCHV_MOUNT_COPY)
			continue;
		r = copy_entries_read(config->maps[i].source, &entries, err);
		if (r < 0)
			return err_prefix(err, r, "container '%s': mount '%s'", container->id,
			                  config->maps[i].destination);
		config->maps[i].copied = hash_entries(entries);
		r = put(container, config->maps[i].destination, entries, deadline, err);
	}
	for (int i = 0; r == CCHV_OK && i < ETC_FILES; i++) {
		cleanup_free char *text = NULL;

		if (!etc_file_is_wanted(container, i))
			continue;
		text = etc_file_text(container, i);
		r = text ? put(container, etc_file_path(i), copy_entries_of_text(text, 0644), deadline, err)
		         : err_nomem(err);
	}
	return r;
}

/* ---- keeping them current ---- */

static void put_again(struct copy *copy);

static void on_put(struct channel_call *call)
{
	struct copy *copy = call->user_data;
	struct container *container = copy->copies->container;
	cleanup_err cchv_error *error = NULL;

	if (channel_call_finish(call, NULL, &error) < 0) {
		copy->map->copied = 0;
		log_warning(&container->vm->ctx->log, "container '%s': mount '%s' was not renewed: %s",
		            container->id,
		            copy->destination, cchv_error_message(error));
	}
	if (copy->is_again)
		put_again(copy);
}

/* Of all copies, the one that an event was about is put again: what a container has written to another one is its. */
static int has_changed(struct copy *copy, const struct json *entries)
{
	uint64_t hash = hash_entries(entries);

	if (hash && hash == copy->map->copied)
		return 0;
	copy->map->copied = hash;
	return 1;
}

static void put_again(struct copy *copy)
{
	struct container *container = copy->copies->container;
	cleanup_err cchv_error *error = NULL;
	struct json *entries = NULL;
	int r;

	copy->is_again = copy->call.channel != NULL;
	if (copy->is_again || !container->vm->agent)
		return;
	r = copy_entries_read(copy->source, &entries, &error);
	if (r == CCHV_OK && !has_changed(copy, entries)) {
		json_free(entries);
		return;
	}
	copy->call.fn = on_put;
	copy->call.user_data = copy;
	if (r == CCHV_OK)
		r = channel_call_start(container->vm->agent, &copy->call, "copy.put",
		                       put_params(container, copy->destination, entries), &error);
	if (r < 0) {
		copy->map->copied = 0;
		log_warning(&container->vm->ctx->log, "container '%s': mount '%s' was not renewed: %s",
		            container->id,
		            copy->destination, cchv_error_message(error));
	}
}

/* The source, what a link there leads to, and the directory in which another one may take its place. */
static void watch_source(struct container_copies *copies, const struct copy *copy)
{
	char real[PATH_MAX], parent[PATH_MAX];
	char *slash;

	inotify_add_watch(copies->inotify, copy->source, EVENTS);
	snprintf(parent, sizeof(parent), "%s", copy->source);
	slash = strrchr(parent, '/');
	if (slash && slash != parent) {
		*slash = '\0';
		inotify_add_watch(copies->inotify, parent, IN_CREATE | IN_MOVED_TO);
	}
	if (realpath(copy->source, real) && strcmp(real, copy->source) != 0)
		inotify_add_watch(copies->inotify, real, EVENTS);
}

static void on_timer(void *user_data)
{
	struct container_copies *copies = user_data;

	for (size_t i = 0; i < copies->count; i++) {
		watch_source(copies, &copies->items[i]);
		put_again(&copies->items[i]);
	}
}

static void on_change(uint32_t events, void *user_data)
{
	struct container_copies *copies = user_data;
	char buffer[4096] __attribute__((aligned(8)));

	(void)events;
	/* Which one does not matter: they are small, and one that is as it was is left alone. */
	if (read(copies->inotify, buffer, sizeof(buffer)) > 0)
		loop_timer_set(copies->timer, clock_deadline(PAUSE_MS));
}

void copies_free(struct container_copies *copies)
{
	if (!copies)
		return;
	for (size_t i = 0; i < copies->count; i++) {
		channel_call_drop(&copies->items[i].call);
		free(copies->items[i].destination);
		free(copies->items[i].source);
	}
	free(copies->items);
	loop_source_free(copies->loop_source);
	loop_timer_free(copies->timer);
	fd_close(&copies->inotify);
	free(copies);
}

static size_t count_copies(const cchv_container_config *config)
{
	size_t n = 0;

	for (size_t i = 0; i < config->map_count; i++)
		n += config->maps[i].kind == CCHV_MOUNT_COPY;
	return n;
}

static int fill(struct container_copies *copies, const cchv_container_config *config)
{
	copies->items = mem_zalloc(count_copies(config) * sizeof(*copies->items));
	if (!copies->items)
		return CCHV_ERR_NOMEM;
	for (size_t i = 0; i < config->map_count; i++) {
		struct copy *copy = &copies->items[copies->count];

		if (config->maps[i].kind != CCHV_MOUNT_COPY)
			continue;
		copies->count++;
		copy->copies = copies;
		copy->map = &config->maps[i];
		copy->destination = mem_strdup(config->maps[i].destination);
		copy->source = mem_strdup(config->maps[i].source);
		if (!copy->destination || !copy->source)
			return CCHV_ERR_NOMEM;
	}
	return CCHV_OK;
}

int copies_watch(struct container *container, cchv_error **err)
{
	struct container_copies *copies;
	int r;

	if (!count_copies(container->config) || container->copies)
		return CCHV_OK;
	copies = mem_zalloc(sizeof(*copies));
	if (!copies)
		return err_nomem(err);
	copies->container = container;
	copies->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	r = copies->inotify < 0 ? err_set(err, CCHV_ERR_SYSTEM, errno, "container '%s': inotify",
	                                  container->id)
	                        : CCHV_OK;
	if (r == CCHV_OK && fill(copies, container->config) < 0)
		r = err_nomem(err);
	if (r == CCHV_OK)
		r = loop_timer_new(container->vm->loop, on_timer, copies, &copies->timer, err);
	if (r == CCHV_OK)
		r = loop_add(container->vm->loop, copies->inotify, EPOLLIN, on_change, copies,
		             &copies->loop_source, err);
	if (r < 0) {
		copies_free(copies);
		return r;
	}
	for (size_t i = 0; i < copies->count; i++)
		watch_source(copies, &copies->items[i]);
	container->copies = copies;
	return CCHV_OK;
}
