/* SPDX-License-Identifier: Apache-2.0 */
/* What a file says about itself behind words that are known. */
#ifndef VMM_BANNER_H
#define VMM_BANNER_H

#include "base/error.h"

#define BANNER_RELEASE_MAX 64
#define BANNER_SEARCH_MAX ((off_t)64 << 20)

/* What follows the banner, as far as the file goes (max bytes of banner_find()). 1: that is it, 0: look on. */
typedef int (*banner_take_fn)(const uint8_t *text, size_t len, void *out);

/*
 * Look through the file's first 64 MiB for the banner; take() is shown what follows each. 1 found, 0 not,
 * CCHV_ERR_NOMEM. max: as many bytes behind the banner as take() may want to see.
 */
int banner_find(int fd, const char *banner, size_t max, banner_take_fn take, void *out);

/* A digit first, then what uname may say, up to a blank: "6.12.117-cchv (builder@host)". Its length; 0: it is none. */
size_t banner_release(const uint8_t *text, size_t len);

#endif
