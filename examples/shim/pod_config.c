/* SPDX-License-Identifier: Apache-2.0 */
/* A pod's configuration: see pod_config.h. Enters: bytes of the daemon. Leaves: checked values. */
#include "pod_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cchv/error.h>

#include "fault.h"
#include "memory.h"

#define PAIRS_MAX 4096

/* ---- maps ---- */

const char *pod_pairs_find(const struct pod_pairs *pairs, const char *name)
{
	for (size_t i = 0; i < pairs->count; i++)
		if (strcmp(pairs->items[i].name, name) == 0)
			return pairs->items[i].value;
	return NULL;
}

void pod_pairs_free(struct pod_pairs *pairs)
{
	for (size_t i = 0; i < pairs->count; i++) {
		free(pairs->items[i].name);
		free(pairs->items[i].value);
	}
	free(pairs->items);
	*pairs = (struct pod_pairs){ 0 };
}

static void keep(struct pod_pairs *pairs, char *name, char *value)
{
	struct pod_pair *items;

	for (size_t i = 0; i < pairs->count; i++) {
		if (strcmp(pairs->items[i].name, name) != 0)
			continue;
		free(name);
		free(pairs->items[i].value);
		pairs->items[i].value = value;
		return;
	}
	items = need_zero((pairs->count + 1) * sizeof(*items));
	if (pairs->count)
		memcpy(items, pairs->items, pairs->count * sizeof(*items));
	items[pairs->count++] = (struct pod_pair){ name, value };
	free(pairs->items);
	pairs->items = items;
}

int pod_pairs_add(struct pod_pairs *pairs, struct wire_view entry)
{
	char *name = NULL, *value = NULL;
	struct wire_field field;
	int r;

	while ((r = wire_next(&entry, &field)) > 0) {
		if (field.number == 1)
			r = wire_take_string(&field, &name);
		else if (field.number == 2)
			r = wire_take_string(&field, &value);
		if (r < 0)
			break;
	}
	if (r < 0 || pairs->count >= PAIRS_MAX) {
		free(name);
		free(value);
		return CCHV_ERR_INVALID;
	}
	keep(pairs, name ? name : need_copy(""), value ? value : need_copy(""));
	return 0;
}

/* ---- DNS ---- */

/* One line of a file: a text that would make two of it is none. */
static int put_word(FILE *out, const char *before, const struct wire_field *field, const char *after)
{
	char *word = NULL;
	int r = wire_take_string(field, &word);

	for (const char *p = word; r == 0 && *p; p++)
		if ((unsigned char)*p <= ' ')
			r = -1;
	if (r == 0)
		fprintf(out, "%s%s%s", before, word, after);
	free(word);
	return r;
}

/* The words of one field, all on one line, or each on its own. */
static int put_words(FILE *out, struct wire_view dns, unsigned int number, const char *keyword, int one_line)
{
	struct wire_field field;
	int r, count = 0;

	while ((r = wire_next(&dns, &field)) > 0) {
		char before[32];

		if (field.number != number)
			continue;
		snprintf(before, sizeof(before), "%s ", one_line && count ? "" : keyword);
		if (put_word(out, before, &field, one_line ? "" : "\n") < 0)
			return -1;
		count++;
	}
	if (one_line && count)
		fputc('\n', out);
	return r;
}

/* { 1 servers, 2 searches, 3 options } */
static int read_dns(struct wire_view dns, char **ret_text)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int r;

	if (!out)
		return -1;
	r = put_words(out, dns, 2, "search", 1);
	if (r == 0)
		r = put_words(out, dns, 1, "nameserver", 0);
	if (r == 0)
		r = put_words(out, dns, 3, "options", 1);
	if (fclose(out) != 0)
		r = -1;
	free(*ret_text);
	*ret_text = NULL;
	if (r == 0 && len)
		*ret_text = text;
	else
		free(text);
	return r;
}

/* ---- the Linux part ---- */

/* NamespaceOption { 1 network, 2 pid, 3 ipc } of LinuxSandboxSecurityContext { 1 namespace_options } */
static int read_namespaces(struct wire_view context, struct pod_config *config)
{
	struct wire_field field, inner;
	int r, q = 0;

	while (q == 0 && (r = wire_next(&context, &field)) > 0) {
		struct wire_view options = field.bytes;

		if (field.number != 1 || field.type != WIRE_BYTES)
			continue;
		while ((q = wire_next(&options, &inner)) > 0) {
			if (inner.number == 1)
				config->network = inner.value;
			if (inner.number == 2)
				config->pid = inner.value;
			if (inner.number == 3)
				config->ipc = inner.value;
		}
	}
	return q < 0 ? q : r;
}

/* LinuxContainerResources { 1 cpu_period, 2 cpu_quota, 4 memory_limit_in_bytes } */
static int read_resources(struct wire_view resources, struct pod_config *config)
{
	struct wire_field field;
	int r;

	while ((r = wire_next(&resources, &field)) > 0) {
		if (field.number == 1)
			config->cpu_period = (int64_t)field.value;
		if (field.number == 2)
			config->cpu_quota = (int64_t)field.value;
		if (field.number == 4)
			config->memory_limit = (int64_t)field.value;
	}
	return r;
}

/* LinuxPodSandboxConfig { 1 cgroup_parent, 2 security_context, 3 sysctls, 5 resources } */
static int read_linux(struct wire_view view, struct pod_config *config)
{
	struct wire_field field;
	int r, q = 0;

	while (q == 0 && (r = wire_next(&view, &field)) > 0) {
		switch (field.number) {
		case 1: q = wire_take_string(&field, &config->cgroup_parent); break;
		case 2: q = read_namespaces(field.bytes, config); break;
		case 3: q = pod_pairs_add(&config->sysctls, field.bytes); break;
		case 5: q = read_resources(field.bytes, config); break;
		default: break;
		}
	}
	return q < 0 ? q : r;
}

/* PodSandboxConfig { 2 hostname, 4 dns_config, 7 annotations, 8 linux } */
static int read_all(struct wire_view view, struct pod_config *config)
{
	struct wire_field field;
	int r, q = 0;

	while (q == 0 && (r = wire_next(&view, &field)) > 0) {
		switch (field.number) {
		case 2: q = wire_take_string(&field, &config->hostname); break;
		case 4: q = read_dns(field.bytes, &config->resolv_conf); break;
		case 7: q = pod_pairs_add(&config->annotations, field.bytes); break;
		case 8: q = read_linux(field.bytes, config); break;
		default: break;
		}
	}
	return q < 0 ? q : r;
}

static void drop_empty(char **text)
{
	if (*text && !**text) {
		free(*text);
		*text = NULL;
	}
}

int pod_config_read(struct wire_view options, struct pod_config *ret, char **ret_error)
{
	struct wire_any any;
	int r = 0;

	*ret = (struct pod_config){ 0 };
	if (wire_read_any(options, &any) < 0)
		r = fault_set(ret_error, CCHV_ERR_INVALID, "the sandbox's options are malformed");
	else if (any.value.len && strcmp(wire_any_name(&any), "runtime.v1.PodSandboxConfig") == 0 &&
		 read_all(any.value, ret) < 0)
		r = fault_set(ret_error, CCHV_ERR_INVALID, "the pod's configuration is malformed");
	wire_any_free(&any);
	drop_empty(&ret->hostname);
	drop_empty(&ret->cgroup_parent);
	return r;
}

void pod_config_free(struct pod_config *config)
{
	free(config->hostname);
	free(config->resolv_conf);
	free(config->cgroup_parent);
	pod_pairs_free(&config->annotations);
	pod_pairs_free(&config->sysctls);
	*config = (struct pod_config){ 0 };
}
