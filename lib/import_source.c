/* SPDX-License-Identifier: Apache-2.0 */
/* What to import: see <cchv/image.h>. Enters: texts. Leaves: a parsed source. */
#include "import_source.h"

#include "base/export.h"
#include "base/mem.h"

struct cchv_image_source {
	struct source in;
};

const struct source *image_source_get(const cchv_image_source *source)
{
	return &source->in;
}

CCHV_API int cchv_image_source_new(cchv_image_source **ret_source)
{
	cchv_image_source *source;

	if (!ret_source)
		return CCHV_ERR_INVALID;
	source = mem_zalloc(sizeof(*source));
	if (!source)
		return CCHV_ERR_NOMEM;
	*ret_source = source;
	return CCHV_OK;
}

/* On a copy: a source that refuses a text is as it was. */
CCHV_API int cchv_image_source_add(cchv_image_source *source, const char *text)
{
	struct source changed;
	int r;

	if (!source || !text)
		return CCHV_ERR_INVALID;
	r = source_copy(&source->in, &changed);
	if (r < 0)
		return r;
	r = source_add(&changed, text);
	if (r < 0) {
		source_clear(&changed);
		return r;
	}
	source_clear(&source->in);
	source->in = changed;
	return CCHV_OK;
}

CCHV_API void cchv_image_source_free(cchv_image_source *source)
{
	if (!source)
		return;
	source_clear(&source->in);
	free(source);
}
