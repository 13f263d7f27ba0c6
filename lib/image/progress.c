/* SPDX-License-Identifier: Apache-2.0 */
/* Progress: see image/progress.h. Enters: bytes done, by the importing thread. Leaves: the same, and news. */
#include "image/progress.h"

#include "base/fd.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct cchv_progress {
	atomic_int refs;
	_Atomic(const char *) phase;
	_Atomic uint64_t done;
	_Atomic uint64_t total;
	atomic_int told;      /* the news descriptor is readable, or about to be */
	atomic_int cancelled;
	int news_fd;
	int cancel_fd;
};

int progress_new(cchv_progress **ret_progress)
{
	cchv_progress *p = mem_zalloc(sizeof(*p));

	if (!p)
		return CCHV_ERR_NOMEM;
	atomic_init(&p->refs, 1);
	p->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->news_fd < 0 || p->cancel_fd < 0) {
		progress_unref(p);
		return CCHV_ERR_SYSTEM;
	}
	*ret_progress = p;
	return CCHV_OK;
}

cchv_progress *progress_ref(cchv_progress *progress)
{
	if (progress)
		atomic_fetch_add(&progress->refs, 1);
	return progress;
}

void progress_unref(cchv_progress *progress)
{
	if (!progress || atomic_fetch_sub(&progress->refs, 1) != 1)
		return;
	fd_close(&progress->news_fd);
	fd_close(&progress->cancel_fd);
	free(progress);
}

/* An eventfd that is at 1 cannot fail to take another 1. */
static void ring(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* The value is stored before told is looked at, and the reader resets told before it reads: no news is lost. */
static void tell(cchv_progress *p)
{
	if (!atomic_exchange(&p->told, 1))
		ring(p->news_fd);
}

static void heard(cchv_progress *p)
{
	uint64_t count;

	while (read(p->news_fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	atomic_store(&p->told, 0);
}

void progress_begin(cchv_progress *progress, const char *phase, uint64_t total)
{
	if (!progress)
		return;
	atomic_store(&progress->done, 0);
	atomic_store(&progress->total, total);
	atomic_store(&progress->phase, phase);
	tell(progress);
}

void progress_add(cchv_progress *progress, uint64_t bytes)
{
	if (!progress || !bytes)
		return;
	atomic_fetch_add(&progress->done, bytes);
	tell(progress);
}

void progress_set(cchv_progress *progress, uint64_t done)
{
	if (progress && atomic_exchange(&progress->done, done) != done)
		tell(progress);
}

void progress_cancel(cchv_progress *progress)
{
	atomic_store(&progress->cancelled, 1);
	ring(progress->cancel_fd);
}

int progress_check(cchv_progress *progress, cchv_error **err)
{
	if (progress && atomic_load(&progress->cancelled))
		return err_set(err, CCHV_ERR_STATE, 0, "the import was cancelled");
	return CCHV_OK;
}

int progress_get_cancel_fd(cchv_progress *progress)
{
	return progress ? progress->cancel_fd : -1;
}

int progress_get_fd(cchv_progress *progress)
{
	return progress->news_fd;
}

uint64_t progress_get_done(cchv_progress *progress)
{
	heard(progress);
	return atomic_load(&progress->done);
}

uint64_t progress_get_total(cchv_progress *progress)
{
	heard(progress);
	return atomic_load(&progress->total);
}

const char *progress_get_phase(cchv_progress *progress)
{
	heard(progress);
	return atomic_load(&progress->phase);
}
