/* SPDX-License-Identifier: Apache-2.0 */
/* A client's way to a running container: see client.h. Enters: a name. Leaves: open handles, or an error
 * line. */
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

int client_open_quietly(cchv_ctx *ctx, const char *id, struct client *ret, cchv_error **err)
{
	int r = cchv_vm_open(ctx, id, &ret->vm, err);

	if (r == CCHV_OK)
		r = cchv_vm_open_container(ret->vm, id, CALL_MS, &ret->container, err);
	if (r == CCHV_OK)
		r = cchv_container_open_exec(ret->container, NULL, CALL_MS, &ret->init, err);
	return r;
}

int client_open(cchv_ctx *ctx, const char *name, struct client *ret)
{
	struct client c = { 0 };
	cchv_error *err = NULL;
	int r = record_find(ctx, name, &c.record);

	if (r)
		return r;
	if (c.record->status != STATUS_RUNNING && c.record->status != STATUS_PAUSED)
		r = fail("container '%s' is not running (%s)", name, status_name(c.record->status));
	else if (client_open_quietly(ctx, c.record->id, &c, &err) < 0)
		r = fail_error(err, "container '%s'", name);
	if (r)
		client_close(&c);
	else
		*ret = c;
	return r;
}

void client_close(struct client *c)
{
	cchv_exec_free(c->init);
	cchv_container_free(c->container);
	cchv_vm_free(c->vm);
	record_free(c->record);
	memset(c, 0, sizeof(*c));
}

/* Watch a directory until done(path): 1, or 0 when the time is over, or -1 after an error line. */
static int watch_until(cchv_ctx *ctx, const char *directory, uint32_t mask, int (*done)(const char *), const char *path,
		       int timeout_ms)
{
	int fd = inotify_init1(IN_CLOEXEC), r = 0, left = timeout_ms;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec start, now;
	char events[4096];

	if (fd < 0 || (inotify_add_watch(fd, directory, mask) < 0 && errno != ENOENT))
		r = -1;
	clock_gettime(CLOCK_MONOTONIC, &start);
	/* Looked at after the watch is set, so that no change is missed. */
	while (r == 0 && !(r = done(path)) && left > 0) {
		/* An owner that died changes nothing any more. */
		cchv_ctx_prune(ctx, NULL, NULL);
		if (poll(&p, 1, left < 1000 ? left : 1000) > 0 && read(fd, events, sizeof(events)) < 0 &&
		    errno != EINTR)
			r = -1;
		clock_gettime(CLOCK_MONOTONIC, &now);
		left = timeout_ms - (int)((now.tv_sec - start.tv_sec) * 1000 +
					  (now.tv_nsec - start.tv_nsec) / 1000000);
	}
	if (r < 0)
		fail("watch '%s': %m", directory);
	if (fd >= 0)
		close(fd);
	return r;
}

static int is_gone(const char *path)
{
	return access(path, F_OK) < 0;
}

int client_wait_gone(cchv_ctx *ctx, const char *id, int timeout_ms)
{
	const char *runtime = cchv_ctx_get_runtime_dir(ctx);
	char *path = xprintf("%s/%s", runtime, id);
	int r = watch_until(ctx, runtime, IN_DELETE | IN_MOVED_FROM, is_gone, path, timeout_ms);

	free(path);
	if (r == 0)
		fail("container '%s': its owner does not let go of the VM", id);
	return r > 0 ? 0 : EXIT_OURS;
}

int client_for_each(int argc, char **argv, int first, int (*fn)(cchv_ctx *, const char *, void *), void *data)
{
	cchv_ctx *ctx;
	int r = 0;

	if (first >= argc)
		return usage_error(argv[0], "no container given");
	ctx = open_context();
	for (int i = first; i < argc; i++) {
		int one = fn(ctx, argv[i], data);

		if (one == 0)
			puts(argv[i]);
		/* A command over several containers is no process of its own: its failure is a plain 1. */
		r = r ? r : one ? 1 : 0;
	}
	cchv_ctx_free(ctx);
	return r;
}
