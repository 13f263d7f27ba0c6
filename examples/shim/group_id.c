/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The group of a container: see group_id.h. Enters: config.json. Leaves: one text of its annotations. Read by
 * events, so that nothing of a long specification is kept.
 */
#include "group_id.h"

#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

/* In the order of their rank. */
static const char *const annotations[] = {
	"io.containerd.runc.v2.group",
	"io.kubernetes.cri.sandbox-id",
	"io.kubernetes.cri-o.SandboxID",
};

#define KINDS (int)(sizeof(annotations) / sizeof(annotations[0]))

struct scan {
	int depth;
	int inside;  /* in the annotations of the top */
	int pending; /* the key just read is "annotations", at the top */
	int kind;    /* the annotation whose value comes, or -1 */
	char *values[KINDS];
};

static int on_start(void *data)
{
	struct scan *s = data;

	s->depth++;
	if (s->pending && s->depth == 2)
		s->inside = 1;
	s->pending = 0;
	s->kind = -1;
	return 1;
}

static int on_end(void *data)
{
	struct scan *s = data;

	if (s->depth-- == 2)
		s->inside = 0;
	return 1;
}

static int on_key(void *data, const unsigned char *key, size_t len)
{
	struct scan *s = data;

	s->kind = -1;
	s->pending = s->depth == 1 && len == strlen("annotations") && memcmp(key, "annotations", len) == 0;
	for (int i = 0; s->inside && s->depth == 2 && i < KINDS; i++)
		if (strlen(annotations[i]) == len && memcmp(annotations[i], key, len) == 0)
			s->kind = i;
	return 1;
}

static int on_string(void *data, const unsigned char *text, size_t len)
{
	struct scan *s = data;

	s->pending = 0;
	if (s->kind < 0 || !len || memchr(text, 0, len))
		return 1;
	free(s->values[s->kind]);
	s->values[s->kind] = strndup((const char *)text, len);
	s->kind = -1;
	return 1;
}

char *group_id_of(const char *json, unsigned long len, const char *id)
{
	static const yajl_callbacks callbacks = {
		.yajl_string = on_string,
		.yajl_start_map = on_start,
		.yajl_map_key = on_key,
		.yajl_end_map = on_end,
		.yajl_start_array = on_start,
		.yajl_end_array = on_end,
	};
	struct scan s = { .kind = -1 };
	char *found = NULL;
	yajl_handle parser = yajl_alloc(&callbacks, NULL, &s);

	if (!parser)
		return NULL;
	yajl_config(parser, yajl_dont_validate_strings, 1);
	yajl_parse(parser, (const unsigned char *)json, len);
	yajl_free(parser);
	for (int i = 0; i < KINDS; i++) {
		if (!found)
			found = s.values[i];
		else
			free(s.values[i]);
	}
	return found ? found : strdup(id);
}
