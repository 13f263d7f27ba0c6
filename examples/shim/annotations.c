/* SPDX-License-Identifier: Apache-2.0 */
/* Annotations io.cchv.*: see annotations.h. Enters: what users wrote. Leaves: checked values, or one line about it. */
#include "annotations.h"

#include <cchv/error.h>
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"

enum kind { NUMBER, PATH, WORDS, MODE, WHEN };

static const struct annotation {
	const char *name;
	enum kind kind;
	size_t offset;
	uint64_t most; /* of numbers, from 1 */
} table[] = {
	{ ANNOTATION_PREFIX "rootfs", MODE, offsetof(struct annotations, rootfs), 0 },
	{ ANNOTATION_PREFIX "write_back", WHEN, offsetof(struct annotations, write_back), 0 },
	{ ANNOTATION_PREFIX "scratch_mib", NUMBER, offsetof(struct annotations, scratch_mib), 16 << 20 },
	{ ANNOTATION_PREFIX "memory_mib", NUMBER, offsetof(struct annotations, memory_mib), 16 << 20 },
	{ ANNOTATION_PREFIX "vcpus", NUMBER, offsetof(struct annotations, vcpus), 254 },
	{ ANNOTATION_PREFIX "kernel", PATH, offsetof(struct annotations, kernel), 0 },
	{ ANNOTATION_PREFIX "initramfs", PATH, offsetof(struct annotations, initramfs), 0 },
	{ ANNOTATION_PREFIX "cmdline", WORDS, offsetof(struct annotations, cmdline), 0 },
};

#define COUNT (sizeof(table) / sizeof(table[0]))

/* Where the administrator has said nothing: what costs the host nothing. */
static const char *const allowed_by_default[] = { ANNOTATION_PREFIX "rootfs" };

/* A name, or all that begin with what is before a '*' at its end. */
static int is_match(const char *pattern, const char *name)
{
	size_t len = strlen(pattern);

	if (len && pattern[len - 1] == '*')
		return strncmp(pattern, name, len - 1) == 0;
	return strcmp(pattern, name) == 0;
}

static int is_allowed(const struct shim_config *config, const char *name)
{
	const char *const *list = config->allow_annotations ? (const char *const *)config->allow_annotations
							     : allowed_by_default;
	size_t count = config->allow_annotations ? config->allow_count
						  : sizeof(allowed_by_default) / sizeof(allowed_by_default[0]);

	for (size_t i = 0; i < count; i++)
		if (is_match(list[i], name))
			return 1;
	return 0;
}

static int wrong(const struct annotation *a, const char *value, const char *what, char **ret_error)
{
	return fault_set(ret_error, CCHV_ERR_INVALID, "annotation '%s': '%.200s' is %s", a->name, value, what);
}

static int set_number(const struct annotation *a, uint64_t *where, const char *value, char **ret_error)
{
	char *end;

	errno = 0;
	*where = strtoull(value, &end, 10);
	if (isdigit((unsigned char)*value) && !*end && !errno && *where >= 1 && *where <= a->most)
		return 0;
	return fault_set(ret_error, CCHV_ERR_INVALID,
			 "annotation '%s': '%.200s' is not a whole number from 1 to %llu", a->name, value,
			 (unsigned long long)a->most);
}

static int set_text(const struct annotation *a, char **where, const char *value, char **ret_error)
{
	if (a->kind == PATH && *value != '/')
		return wrong(a, value, "not an absolute path", ret_error);
	if (a->kind == MODE && strcmp(value, "image") != 0 && strcmp(value, "virtiofs") != 0)
		return wrong(a, value, "neither 'image' nor 'virtiofs'", ret_error);
	if (a->kind == WHEN && strcmp(value, "auto") != 0 && strcmp(value, "always") != 0 &&
	    strcmp(value, "never") != 0)
		return wrong(a, value, "none of 'auto', 'always' and 'never'", ret_error);
	for (const char *p = value; *p; p++)
		if (iscntrl((unsigned char)*p))
			return wrong(a, "(with control characters)", "not a line of text", ret_error);
	free(*where);
	*where = strdup(value);
	return *where ? 0 : fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
}

int annotations_take(struct annotations *annotations, const struct shim_config *config, const char *name,
		     const char *value, char **ret_error)
{
	const struct annotation *a = table;

	if (strncmp(name, ANNOTATION_PREFIX, strlen(ANNOTATION_PREFIX)) != 0)
		return 0;
	while (a < table + COUNT && strcmp(a->name, name) != 0)
		a++;
	if (a == table + COUNT)
		return fault_set(ret_error, CCHV_ERR_INVALID, "annotation '%.200s': there is none of this name", name);
	if (!is_allowed(config, name))
		return fault_set(ret_error, CCHV_ERR_INVALID,
				 "annotation '%s': the administrator does not allow it "
				 "(allow_annotations in config.toml)", name);
	if (a->kind == NUMBER)
		return set_number(a, (uint64_t *)((char *)annotations + a->offset), value, ret_error);
	return set_text(a, (char **)((char *)annotations + a->offset), value, ret_error);
}

static int replace(char **where, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (!text)
		return 0;
	if (!copy)
		return CCHV_ERR_NOMEM;
	free(*where);
	*where = copy;
	return 0;
}

/* Words of the kernel's command line are added to the administrator's. */
static int add_words(char **where, const char *words)
{
	char *joined;
	size_t len;

	if (!words || !*where)
		return replace(where, words);
	len = strlen(*where) + strlen(words) + 2;
	joined = malloc(len);
	if (!joined)
		return CCHV_ERR_NOMEM;
	memcpy(joined, *where, strlen(*where) + 1);
	joined[strlen(*where)] = ' ';
	memcpy(joined + strlen(*where) + 1, words, strlen(words) + 1);
	free(*where);
	*where = joined;
	return 0;
}

int annotations_apply(const struct annotations *annotations, struct shim_config *config)
{
	if (replace(&config->kernel, annotations->kernel) < 0 ||
	    replace(&config->initramfs, annotations->initramfs) < 0 ||
	    add_words(&config->cmdline, annotations->cmdline) < 0)
		return CCHV_ERR_NOMEM;
	config->least_memory_mib = annotations->memory_mib;
	config->least_vcpus = annotations->vcpus;
	return 0;
}

void annotations_free(struct annotations *annotations)
{
	free(annotations->rootfs);
	free(annotations->write_back);
	free(annotations->kernel);
	free(annotations->initramfs);
	free(annotations->cmdline);
	*annotations = (struct annotations){ 0 };
}
