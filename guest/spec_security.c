/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What confines the processes of a container beyond namespaces: seccomp, masked and read-only paths, personality,
 * memory policy. Enters: the linux object of a specification. Leaves: the members of a spec.
 */
#include "guest/spec.h"

#include "guest/process_sched.h"

#include <linux/mempolicy.h>
#include <string.h>
#include <sys/personality.h>

#ifndef MPOL_PREFERRED_MANY
#define MPOL_PREFERRED_MANY 5
#endif
#define MEMORY_WEIGHTED_INTERLEAVE 6
#define MEMORY_F_NUMA_BALANCING (1 << 13)
#define MEMORY_F_RELATIVE_NODES (1 << 14)
#define MEMORY_F_STATIC_NODES (1 << 15)

struct name_value {
	const char *name;
	int value;
};

static const struct name_value modes[] = {
	{ "MPOL_DEFAULT", 0 },
	{ "MPOL_PREFERRED", 1 },
	{ "MPOL_BIND", 2 },
	{ "MPOL_INTERLEAVE", 3 },
	{ "MPOL_LOCAL", 4 },
	{ "MPOL_PREFERRED_MANY", MPOL_PREFERRED_MANY },
	{ "MPOL_WEIGHTED_INTERLEAVE", MEMORY_WEIGHTED_INTERLEAVE },
};

static const struct name_value mode_flags[] = {
	{ "MPOL_F_NUMA_BALANCING", MEMORY_F_NUMA_BALANCING },
	{ "MPOL_F_RELATIVE_NODES", MEMORY_F_RELATIVE_NODES },
	{ "MPOL_F_STATIC_NODES", MEMORY_F_STATIC_NODES },
};

static const struct name_value *find(const struct name_value *table, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	return NULL;
}

static int parse_paths(const struct json *linux_object, const char *key, struct words *ret, cchv_error **err)
{
	int r = field_words(linux_object, "linux", key, ret, err);

	for (size_t i = 0; r >= 0 && i < ret->count; i++)
		if (ret->items[i][0] != '/')
			return field_bad("linux", key, err, "[%zu] '%s' is not absolute", i, ret->items[i]);
	return r < 0 ? r : CCHV_OK;
}

static int parse_personality(const struct json *linux_object, struct spec *spec, cchv_error **err)
{
	static const char where[] = "linux.personality";
	const struct json *object = NULL;
	struct words flags = { NULL, 0 };
	const char *domain = NULL;
	int r = field_object(linux_object, "linux", "personality", &object, err);

	if (r < 1)
		return r;
	r = field_required(field_text(object, where, "domain", &domain, err), where, "domain", err);
	if (r >= 0)
		r = field_words(object, where, "flags", &flags, err);
	if (r >= 0 && flags.count)
		r = field_bad(where, "flags", err, "unknown flag '%s'", flags.items[0]);
	words_free(&flags);
	if (r < 0)
		return r;
	if (strcmp(domain, "LINUX") == 0)
		spec->personality = PER_LINUX;
	else if (strcmp(domain, "LINUX32") == 0)
		spec->personality = PER_LINUX32;
	else
		return field_bad(where, "domain", err, "unknown domain '%s'", domain);
	spec->has_personality = 1;
	return CCHV_OK;
}

static int parse_memory_policy(const struct json *linux_object, struct spec *spec, cchv_error **err)
{
	static const char where[] = "linux.memoryPolicy";
	struct spec_memory_policy *policy = &spec->memory_policy;
	const struct json *object = NULL;
	const struct name_value *mode;
	struct words flags = { NULL, 0 };
	const char *name = NULL, *nodes = "";
	int r = field_object(linux_object, "linux", "memoryPolicy", &object, err);

	if (r < 1)
		return r;
	r = field_required(field_text(object, where, "mode", &name, err), where, "mode", err);
	if (r >= 0)
		r = field_text(object, where, "nodes", &nodes, err);
	if (r < 0)
		return r;
	mode = find(modes, ARRAY_LEN(modes), name);
	if (!mode)
		return field_bad(where, "mode", err, "unknown mode '%s'", name);
	if (number_list_parse(nodes, policy->nodes, CPU_AFFINITY_CPUS) < 0)
		return field_bad(where, "nodes", err, "'%s' is not a list such as 0-3,7", nodes);
	policy->mode = mode->value;
	r = field_words(object, where, "flags", &flags, err);
	for (size_t i = 0; r >= 0 && i < flags.count; i++) {
		const struct name_value *flag = find(mode_flags, ARRAY_LEN(mode_flags), flags.items[i]);

		if (flag)
			policy->mode |= flag->value;
		else
			r = field_bad(where, "flags", err, "unknown flag '%s'", flags.items[i]);
	}
	words_free(&flags);
	policy->set = 1;
	return r < 0 ? r : CCHV_OK;
}

int spec_parse_security(const struct json *linux_object, struct spec *spec, cchv_error **err)
{
	const struct json *seccomp = NULL;
	int r = field_object(linux_object, "linux", "seccomp", &seccomp, err);

	if (r == 1)
		r = profile_compile(seccomp, &spec->seccomp, &spec->ignored, err);
	if (r >= 0)
		r = parse_paths(linux_object, "maskedPaths", &spec->masked_paths, err);
	if (r >= 0)
		r = parse_paths(linux_object, "readonlyPaths", &spec->readonly_paths, err);
	if (r >= 0)
		r = parse_personality(linux_object, spec, err);
	if (r >= 0)
		r = parse_memory_policy(linux_object, spec, err);
	return r < 0 ? r : CCHV_OK;
}
