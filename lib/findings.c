/* SPDX-License-Identifier: Apache-2.0 */
/* Findings: see <cchv/findings.h>. Enters: what probe and prune saw, one by one. Leaves: the same, by index. */
#include "findings.h"

#include "base/export.h"

#include <limits.h>

struct finding {
	char *name;
	int status;
	char *text;
	char *advice; /* or NULL */
};

struct cchv_findings {
	struct finding *items;
	size_t count;
	size_t room;
};

cchv_findings *findings_new(void)
{
	return mem_zalloc(sizeof(cchv_findings));
}

static void finding_clear(struct finding *f)
{
	free(f->name);
	free(f->text);
	free(f->advice);
}

int findings_add(cchv_findings *findings, const char *name, int status, const char *text, const char *advice)
{
	struct finding f = { .status = status };

	if (!findings)
		return CCHV_OK;
	if (findings->count == findings->room) {
		size_t room = findings->room ? findings->room * 2 : 16;
		struct finding *items = mem_realloc_array(findings->items, room, sizeof(*items));

		if (!items)
			return CCHV_ERR_NOMEM;
		findings->items = items;
		findings->room = room;
	}
	f.name = mem_strdup(name);
	f.text = mem_strdup(text);
	f.advice = advice ? mem_strdup(advice) : NULL;
	if (!f.name || !f.text || (advice && !f.advice)) {
		finding_clear(&f);
		return CCHV_ERR_NOMEM;
	}
	findings->items[findings->count++] = f;
	return CCHV_OK;
}

static const struct finding *find(cchv_findings *findings, int index)
{
	if (!findings || index < 0 || (size_t)index >= findings->count)
		return NULL;
	return &findings->items[index];
}

CCHV_API int cchv_findings_get_count(cchv_findings *findings)
{
	if (!findings)
		return 0;
	return findings->count > INT_MAX ? INT_MAX : (int)findings->count;
}

CCHV_API const char *cchv_findings_get_name(cchv_findings *findings, int index)
{
	const struct finding *f = find(findings, index);

	return f ? f->name : NULL;
}

CCHV_API int cchv_findings_get_status(cchv_findings *findings, int index)
{
	const struct finding *f = find(findings, index);

	return f ? f->status : CCHV_ERR_INVALID;
}

CCHV_API const char *cchv_findings_get_text(cchv_findings *findings, int index)
{
	const struct finding *f = find(findings, index);

	return f ? f->text : NULL;
}

CCHV_API const char *cchv_findings_get_advice(cchv_findings *findings, int index)
{
	const struct finding *f = find(findings, index);

	return f ? f->advice : NULL;
}

CCHV_API void cchv_findings_free(cchv_findings *findings)
{
	if (!findings)
		return;
	for (size_t i = 0; i < findings->count; i++)
		finding_clear(&findings->items[i]);
	free(findings->items);
	free(findings);
}
