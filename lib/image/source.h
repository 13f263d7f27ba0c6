/* SPDX-License-Identifier: Apache-2.0 */
/* What to import, as a user says it: "dir:PATH", "tar:PATH"..., "oci:PATH[:TAG]", "docker://REFERENCE". */
#ifndef IMAGE_SOURCE_H
#define IMAGE_SOURCE_H

#include <stddef.h>

enum source_kind { SOURCE_NONE, SOURCE_DIR, SOURCE_TAR, SOURCE_OCI, SOURCE_DOCKER };

#define SOURCE_LAYERS_MAX 1024

struct source {
	enum source_kind kind;
	char **paths;   /* TAR: the lowest first; DIR, OCI: one; DOCKER: the reference */
	size_t count;
	char *tag;      /* OCI: or NULL */
	char *text;     /* the whole, for people */
};

/* CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_UNSUPPORTED (scheme), CCHV_ERR_LIMIT, CCHV_ERR_NOMEM. */
int source_add(struct source *source, const char *text);
int source_copy(const struct source *source, struct source *ret); /* CCHV_OK or CCHV_ERR_NOMEM */
void source_clear(struct source *source);

#endif
