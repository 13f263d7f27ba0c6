/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper: a process of its own, so that what it mounts is seen by nobody and goes with it, and its memory too.
 * Enters: a job on its standard input. Leaves: one line on its standard output, "ok DIGEST" or "CODE text".
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chain.h"
#include "fault.h"
#include "root_image.h"
#include "root_mount.h"
#include "rootfs.h"

#define JOB_MAX (4U << 20)

static int read_job(char **ret_data, size_t *ret_size, char **ret_error)
{
	char *data = malloc(JOB_MAX);
	size_t size = 0;
	ssize_t n = 1;

	if (!data)
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	while (n > 0 && size < JOB_MAX) {
		n = read(0, data + size, JOB_MAX - size);
		if (n > 0)
			size += (size_t)n;
	}
	if (n != 0) {
		free(data);
		return fault_set(ret_error, CCHV_ERR_SYSTEM, "root file system: read the job: %s",
				 n < 0 ? strerror(errno) : "too long");
	}
	*ret_data = data;
	*ret_size = size;
	return CCHV_OK;
}

/* Where the mounts go: an empty directory, which several helpers may use, each in its own namespace. */
static int make_place(const char *state_dir, char **ret_place, char **ret_error)
{
	char *place;

	if (asprintf(&place, "%s/shim/root", state_dir) < 0)
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	if ((mkdir(place, 0700) < 0 && errno != EEXIST) || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		int r = fault_set(ret_error, fault_code(errno), "root file system: a place to mount it, '%s': %s",
				  place, strerror(errno));

		free(place);
		return r;
	}
	*ret_place = place;
	return CCHV_OK;
}

static int import(cchv_ctx *ctx, const char *place, char **ret_digest, char **ret_error)
{
	cchv_image_source *source = NULL;
	cchv_image *image = NULL;
	cchv_error *err = NULL;
	char *text = NULL;
	int r = asprintf(&text, "dir:%s", place) < 0 ? CCHV_ERR_NOMEM : cchv_image_source_new(&source);

	if (r == CCHV_OK)
		r = cchv_image_source_add(source, text);
	if (r == CCHV_OK)
		r = cchv_image_import(ctx, source, NULL, NULL, &image, &err);
	if (r == CCHV_OK) {
		*ret_digest = strdup(cchv_image_get_digest(image));
		r = *ret_digest ? CCHV_OK : CCHV_ERR_NOMEM;
	}
	if (r < 0)
		fault_take(ret_error, r, err, "root file system");
	cchv_image_free(image);
	cchv_image_source_free(source);
	free(text);
	return r;
}

/* Whoever held the lock before us may have built it. 1, 0 or a code. */
static int find(cchv_ctx *ctx, const struct root_job *job, char **ret_digest, char **ret_error)
{
	cchv_image *image = NULL;
	char *digest = NULL;
	int r = chain_find(job->state_dir, job->key, &digest, ret_error);

	if (r <= 0)
		return r;
	if (cchv_image_open(ctx, digest, &image, NULL) == CCHV_OK) {
		cchv_image_free(image);
		*ret_digest = digest;
		return 1;
	}
	free(digest);
	return 0;
}

static int build(cchv_ctx *ctx, const struct root_job *job, char **ret_digest, char **ret_error)
{
	char *place = NULL;
	int r = make_place(job->state_dir, &place, ret_error);

	if (r == CCHV_OK)
		r = root_mount(job->mounts, place, ret_error);
	if (r == CCHV_OK)
		r = import(ctx, place, ret_digest, ret_error);
	free(place);
	return r;
}

static int run(const struct root_job *job, char **ret_digest, char **ret_error)
{
	cchv_error *err = NULL;
	cchv_ctx *ctx = NULL;
	int lock = -1, r = cchv_ctx_new(&ctx, &err);

	if (r == CCHV_OK)
		r = cchv_ctx_set_state_dir(ctx, job->state_dir);
	if (r == CCHV_OK)
		r = cchv_ctx_set_log_fd(ctx, CCHV_LOG_WARNING, 2);
	if (r < 0) {
		cchv_ctx_free(ctx);
		return fault_take(ret_error, r, err, "root file system");
	}
	/* Without a key the lock is one for all of them. */
	r = chain_lock(job->state_dir, job->key, &lock, ret_error);
	if (r == CCHV_OK && *job->key)
		r = find(ctx, job, ret_digest, ret_error);
	if (r == 0) {
		r = build(ctx, job, ret_digest, ret_error);
		if (r == CCHV_OK && *job->key)
			r = chain_store(job->state_dir, job->key, *ret_digest, ret_error);
	}
	if (lock >= 0)
		close(lock);
	cchv_ctx_free(ctx);
	return r < 0 ? r : CCHV_OK;
}

int rootfs_helper_main(int argc, char **argv)
{
	struct mount_list mounts = { 0 };
	char *data = NULL, *digest = NULL, *error = NULL;
	struct root_job job;
	size_t size = 0;
	int r;

	/* Nobody wants the image any more when the shim is gone; one that died before this line has closed the pipe. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = read_job(&data, &size, &error);
	if (r == CCHV_OK && (root_job_read(data, size, &job, &mounts) < 0 || job.state_dir[0] != '/'))
		r = fault_set(&error, CCHV_ERR_INVALID, "root file system: the job is malformed");
	if (r == CCHV_OK)
		r = run(&job, &digest, &error);
	if (r == CCHV_OK)
		printf("ok %s\n", digest);
	else
		printf("%d %s\n", r, error ? error : cchv_err_text(r));
	free(digest);
	free(error);
	mount_list_clear(&mounts);
	free(data);
	return fflush(stdout) == 0 && r == CCHV_OK ? 0 : 1;
}
