/* SPDX-License-Identifier: Apache-2.0 */
/* Sources: see image/source.h. Enters: a user's text. Leaves: a kind and paths. */
#include "image/source.h"

#include "base/mem.h"

#include <cchv/error.h>
#include <string.h>
#include <sys/stat.h>

static const struct scheme {
	const char *prefix;
	enum source_kind kind;
} schemes[] = {
	{ "dir:", SOURCE_DIR },
	{ "tar:", SOURCE_TAR },
	{ "oci:", SOURCE_OCI },
	{ "docker://", SOURCE_DOCKER },
};

void source_clear(struct source *source)
{
	for (size_t i = 0; i < source->count; i++)
		free(source->paths[i]);
	free(source->paths);
	free(source->tag);
	free(source->text);
	*source = (struct source){ 0 };
}

static int append_path(struct source *source, char *path)
{
	char **paths = path ? mem_realloc_array(source->paths, source->count + 1, sizeof(*paths)) : NULL;

	if (!paths) {
		free(path);
		return CCHV_ERR_NOMEM;
	}
	source->paths = paths;
	source->paths[source->count++] = path;
	return CCHV_OK;
}

/* A colon in the last part begins the tag, unless a directory has that very name. */
static int add_oci(struct source *source, const char *path)
{
	const char *colon = strrchr(path, ':');
	struct stat st;

	if (!colon || strchr(colon, '/') || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
		return append_path(source, mem_strdup(path));
	if (!colon[1] || colon == path)
		return CCHV_ERR_INVALID;
	source->tag = mem_strdup(colon + 1);
	if (!source->tag)
		return CCHV_ERR_NOMEM;
	return append_path(source, mem_strndup(path, (size_t)(colon - path)));
}

/* What skopeo would take for an option, or for something else than a reference, ends here. */
static int is_reference(const char *text)
{
	if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || (*text >= '0' && *text <= '9') ||
	      *text == '['))
		return 0;
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f)
			return 0;
	return 1;
}

static int add_text(struct source *source, const char *text)
{
	char *joined = source->text ? mem_printf("%s %s", source->text, text) : mem_strdup(text);

	if (!joined)
		return CCHV_ERR_NOMEM;
	free(source->text);
	source->text = joined;
	return CCHV_OK;
}

static int add(struct source *source, enum source_kind kind, const char *rest)
{
	if (kind == SOURCE_DOCKER ? !is_reference(rest) : rest[0] != '/')
		return CCHV_ERR_INVALID;
	if (strlen(rest) >= 4096)
		return CCHV_ERR_INVALID;
	if (source->kind != SOURCE_NONE && (source->kind != kind || kind != SOURCE_TAR))
		return CCHV_ERR_INVALID;
	if (source->count >= SOURCE_LAYERS_MAX)
		return CCHV_ERR_LIMIT;
	return kind == SOURCE_OCI ? add_oci(source, rest) : append_path(source, mem_strdup(rest));
}

int source_add(struct source *source, const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		size_t n = strlen(schemes[i].prefix);
		int r;

		if (strncmp(text, schemes[i].prefix, n) != 0)
			continue;
		r = add(source, schemes[i].kind, text + n);
		if (r == CCHV_OK)
			r = add_text(source, text);
		if (r == CCHV_OK)
			source->kind = schemes[i].kind;
		return r;
	}
	return CCHV_ERR_UNSUPPORTED;
}

int source_copy(const struct source *source, struct source *ret)
{
	struct source copy = { .kind = source->kind };
	int r = CCHV_OK;

	if (mem_replace_string(&copy.tag, source->tag) < 0 || mem_replace_string(&copy.text, source->text) < 0)
		r = CCHV_ERR_NOMEM;
	for (size_t i = 0; i < source->count && r == CCHV_OK; i++)
		r = append_path(&copy, mem_strdup(source->paths[i]));
	if (r < 0)
		source_clear(&copy);
	else
		*ret = copy;
	return r;
}
