/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An import's own directory in <cache>/tmp, and the lock that makes several imports of one thing one. The flock on
 * the directory says that the import lives: what is left without one is anybody's to clear away.
 */
#ifndef IMAGE_JOB_H
#define IMAGE_JOB_H

#include "image/cache.h"
#include "image/progress.h"

struct job {
	char *dir;
	int fd;
};

int job_open(const struct cache *cache, struct job *ret, cchv_error **err);
void job_close(struct job *job); /* removes the directory */
#define cleanup_job __attribute__((cleanup(job_close)))
char *job_path(const struct job *job, const char *name);

/* Called for each thing that was removed. */
typedef int (*job_removed_fn)(const char *name, void *user_data, cchv_error **err);

/* Remove directories of imports that are no more; with locks, unused lock files too. removed may be NULL. */
int job_sweep(const struct cache *cache, int with_locks, job_removed_fn removed, void *user_data, cchv_error **err);

/* One import per key at a time. A zeroed lock with fd -1 is none. */
struct job_lock {
	char *path;
	int fd;
};

int job_lock_key(const struct cache *cache, const char *key, cchv_progress *progress, struct job_lock *ret,
                 cchv_error **err);
void job_unlock(struct job_lock *lock); /* removes the file */
#define cleanup_job_lock __attribute__((cleanup(job_unlock)))

#endif
