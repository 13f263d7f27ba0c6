/* SPDX-License-Identifier: Apache-2.0 */
/* A job for the helper: see root_image.h. Enters: a job, or bytes. Leaves: the other one of them. */
#include <cchv/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "root_image.h"

static void put(FILE *out, const char *text)
{
	fwrite(text, 1, strlen(text) + 1, out);
}

static void put_count(FILE *out, size_t count)
{
	fprintf(out, "%zu", count);
	fputc('\0', out);
}

char *root_job_write(const struct root_job *job, size_t *ret_size)
{
	char *data = NULL;
	FILE *out = open_memstream(&data, ret_size);

	if (!out)
		return NULL;
	put(out, job->state_dir);
	put(out, job->key);
	put_count(out, job->mounts->count);
	for (size_t i = 0; i < job->mounts->count; i++) {
		const struct mount_entry *mount = &job->mounts->items[i];

		put(out, mount->type);
		put(out, mount->source);
		put(out, mount->target);
		put_count(out, mount->option_count);
		for (size_t j = 0; j < mount->option_count; j++)
			put(out, mount->options[j]);
	}
	if (fclose(out) == 0)
		return data;
	free(data);
	return NULL;
}

struct reader {
	char *at, *end;
	int failed;
};

static const char *get(struct reader *reader)
{
	char *text = reader->at, *end = text < reader->end ? memchr(text, 0, (size_t)(reader->end - text)) : NULL;

	if (!end) {
		reader->failed = 1;
		return "";
	}
	reader->at = end + 1;
	return text;
}

/* Each thing that is counted takes a byte at least: more cannot be meant. */
static size_t get_count(struct reader *reader)
{
	const char *text = get(reader);
	char *end;
	unsigned long count = strtoul(text, &end, 10);

	if (!*text || *end || count > (size_t)(reader->end - reader->at))
		reader->failed = 1;
	return reader->failed ? 0 : count;
}

int root_job_read(char *data, size_t size, struct root_job *ret_job, struct mount_list *mounts)
{
	struct reader reader = { data, data + size, 0 };
	size_t count, options;
	int r = CCHV_OK;

	ret_job->state_dir = get(&reader);
	ret_job->key = get(&reader);
	ret_job->mounts = mounts;
	count = get_count(&reader);
	for (size_t i = 0; i < count && r == CCHV_OK; i++) {
		const char *type = get(&reader), *source = get(&reader), *target = get(&reader);

		options = get_count(&reader);
		r = reader.failed ? CCHV_ERR_INVALID : mount_list_add(mounts, type, source, target);
		for (size_t j = 0; j < options && r == CCHV_OK; j++)
			r = mount_list_add_option(mounts, get(&reader));
	}
	return r == CCHV_OK && (reader.failed || reader.at != reader.end) ? CCHV_ERR_INVALID : r;
}
