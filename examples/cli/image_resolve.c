/* SPDX-License-Identifier: Apache-2.0 */
/* From what the user typed to an image. Enters: a name, path or reference. Leaves: an open image; progress on
 * stderr. */
#include "launch.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct import {
	cchv_ctx *ctx;
	cchv_image_source *source;
	const char *name;
	cchv_progress *progress;
	cchv_image *image;
	cchv_error *error;
	int result;
	int done_fds[2];
};

static void *import_thread(void *argument)
{
	struct import *i = argument;

	i->result = cchv_image_import(i->ctx, i->source, i->name, i->progress, &i->image, &i->error);
	close(i->done_fds[1]);
	return NULL;
}

static void show(cchv_progress *progress)
{
	const char *phase = cchv_progress_get_phase(progress);
	uint64_t done = cchv_progress_get_done(progress), total = cchv_progress_get_total(progress);
	char *size = format_size(done);

	if (phase && total)
		fprintf(stderr, "\r\033[K%s %s (%u %%)", phase, size,
			(unsigned int)(done * 100.0 / (double)total));
	else if (phase)
		fprintf(stderr, "\r\033[K%s %s", phase, done ? size : "");
	free(size);
}

static int import_with_progress(struct import *i)
{
	struct pollfd p[2] = { { .events = POLLIN }, { .events = POLLIN } };
	pthread_t thread;

	if (cchv_progress_new(&i->progress) < 0 || pipe(i->done_fds) < 0)
		return fail("progress: %m");
	if (pthread_create(&thread, NULL, import_thread, i) != 0)
		return fail("progress: no thread");
	p[0].fd = cchv_progress_get_fd(i->progress);
	p[1].fd = i->done_fds[0];
	do {
		poll(p, 2, -1);
		if (p[0].revents)
			show(i->progress);
	} while (!p[1].revents);
	pthread_join(thread, NULL);
	fputs("\r\033[K", stderr);
	close(i->done_fds[0]);
	return 0;
}

int image_import(cchv_ctx *ctx, const struct strings *sources, const char *name, cchv_image **ret_image)
{
	struct import i = { .ctx = ctx, .name = name };
	int r = cchv_image_source_new(&i.source), status = 0;

	for (size_t k = 0; k < sources->count && r == CCHV_OK; k++) {
		r = cchv_image_source_add(i.source, sources->items[k]);
		if (r < 0)
			status = fail("image source '%s': %s", sources->items[k], cchv_err_text(r));
	}
	if (r == CCHV_OK) {
		if (isatty(STDERR_FILENO))
			status = import_with_progress(&i);
		else
			i.result = cchv_image_import(ctx, i.source, name, NULL, &i.image, &i.error);
		if (status == 0 && i.result < 0)
			status = fail_error(i.error, "image '%s'", sources->items[0]);
		else if (status == 0)
			*ret_image = i.image;
	} else if (status == 0) {
		status = fail("out of memory");
	}
	cchv_progress_free(i.progress);
	cchv_image_source_free(i.source);
	return status;
}

static int import_one(cchv_ctx *ctx, char *source, const char *name, cchv_image **ret_image)
{
	struct strings sources = { 0 };
	int r;

	strings_add(&sources, source);
	free(source);
	r = image_import(ctx, &sources, name, ret_image);
	strings_free(&sources);
	return r;
}

int image_resolve(cchv_ctx *ctx, const char *text, int show_progress, cchv_image **ret_image)
{
	cchv_error *err = NULL;
	struct stat st;
	char *path;
	int r;

	if (strncmp(text, "oci:", 4) == 0) {
		path = absolute_path(text + 4);
		if (!path)
			return fail("image '%s': %m", text);
		r = import_one(ctx, xprintf("oci:%s", path), NULL, ret_image);
		free(path);
		return r;
	}
	if (text[0] == '/' || text[0] == '.') {
		path = absolute_path(text);
		if (!path || stat(path, &st) < 0) {
			free(path);
			return fail("image '%s': %m", text);
		}
		if (S_ISDIR(st.st_mode)) {
			r = import_one(ctx, xprintf("dir:%s", path), NULL, ret_image);
		} else {
			r = cchv_image_open(ctx, path, ret_image, &err) < 0
				    ? fail_error(err, "image '%s'", text)
				    : 0;
		}
		free(path);
		return r;
	}
	if (strncmp(text, "docker://", 9) == 0)
		text += 9;
	r = cchv_image_open(ctx, text, ret_image, &err);
	if (r == CCHV_OK)
		return 0;
	if (r != CCHV_ERR_NOT_FOUND)
		return fail_error(err, "image '%s'", text);
	cchv_error_free(err);
	if (show_progress)
		fprintf(stderr, "Image '%s' is not in the cache: pulling it\n", text);
	return import_one(ctx, xprintf("docker://%s", text), text, ret_image);
}
