/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far an import is, told by one thread and read by others. All functions take NULL for "nobody looks", and
 * then cancelling is impossible.
 */
#ifndef IMAGE_PROGRESS_H
#define IMAGE_PROGRESS_H

#include <stdint.h>

#include "base/error.h"

typedef struct cchv_progress cchv_progress; /* as <cchv/image.h> has it */

int progress_new(cchv_progress **ret_progress); /* CCHV_OK, CCHV_ERR_NOMEM, CCHV_ERR_SYSTEM */
cchv_progress *progress_ref(cchv_progress *progress);
void progress_unref(cchv_progress *progress);

/* A new phase begins, done is 0 again. phase lives for ever. */
void progress_begin(cchv_progress *progress, const char *phase, uint64_t total);
void progress_add(cchv_progress *progress, uint64_t bytes);
void progress_set(cchv_progress *progress, uint64_t done);

void progress_cancel(cchv_progress *progress);
int progress_check(cchv_progress *progress, cchv_error **err); /* CCHV_OK, or CCHV_ERR_STATE when cancelled */
int progress_get_cancel_fd(cchv_progress *progress);           /* readable when cancelled; -1 for NULL */

/* The reader's side. */
int progress_get_fd(cchv_progress *progress);
uint64_t progress_get_done(cchv_progress *progress);
uint64_t progress_get_total(cchv_progress *progress);
const char *progress_get_phase(cchv_progress *progress);

#endif
