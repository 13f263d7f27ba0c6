/* SPDX-License-Identifier: Apache-2.0 */
/* The public face of image/progress.h: see <cchv/image.h>. */
#include <cchv/image.h>

#include "base/export.h"
#include "image/progress.h"

CCHV_API int cchv_progress_new(cchv_progress **ret_progress)
{
	return ret_progress ? progress_new(ret_progress) : CCHV_ERR_INVALID;
}

CCHV_API int cchv_progress_get_fd(cchv_progress *progress)
{
	return progress ? progress_get_fd(progress) : CCHV_ERR_INVALID;
}

CCHV_API uint64_t cchv_progress_get_done(cchv_progress *progress)
{
	return progress ? progress_get_done(progress) : 0;
}

CCHV_API uint64_t cchv_progress_get_total(cchv_progress *progress)
{
	return progress ? progress_get_total(progress) : 0;
}

CCHV_API const char *cchv_progress_get_phase(cchv_progress *progress)
{
	return progress ? progress_get_phase(progress) : NULL;
}

CCHV_API int cchv_progress_cancel(cchv_progress *progress)
{
	if (!progress)
		return CCHV_ERR_INVALID;
	progress_cancel(progress);
	return CCHV_OK;
}

CCHV_API void cchv_progress_free(cchv_progress *progress)
{
	progress_unref(progress);
}
