/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduling of a process: see process_sched.h. Enters: JSON from the host. Leaves: numbers, then system calls. */
#include "guest/process_sched.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_CLASS_SHIFT 13

struct name_value {
	const char *name;
	uint64_t value;
};

static const struct name_value policies[] = {
	{ "SCHED_OTHER", 0 }, { "SCHED_FIFO", 1 }, { "SCHED_RR", 2 },       { "SCHED_BATCH", 3 },
	{ "SCHED_ISO", 4 },   { "SCHED_IDLE", 5 }, { "SCHED_DEADLINE", 6 },
};

static const struct name_value flags[] = {
	{ "SCHED_FLAG_RESET_ON_FORK", 0x01 },  { "SCHED_FLAG_RECLAIM", 0x02 },
	{ "SCHED_FLAG_DL_OVERRUN", 0x04 },     { "SCHED_FLAG_KEEP_POLICY", 0x08 },
	{ "SCHED_FLAG_KEEP_PARAMS", 0x10 },    { "SCHED_FLAG_UTIL_CLAMP_MIN", 0x20 },
	{ "SCHED_FLAG_UTIL_CLAMP_MAX", 0x40 },
};

static const struct name_value classes[] = {
	{ "IOPRIO_CLASS_RT", 1 },
	{ "IOPRIO_CLASS_BE", 2 },
	{ "IOPRIO_CLASS_IDLE", 3 },
};

/* What the kernel's sched_setattr() takes, first version. */
struct sched_attributes {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static const struct name_value *find(const struct name_value *table, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	return NULL;
}

static int parse_scheduler(const struct json *process, const char *where, struct process_scheduler *s,
                           cchv_error **err)
{
	struct field_place place = field_join(where, "scheduler");
	struct words words = { NULL, 0 };
	const struct name_value *policy;
	const struct json *object = NULL;
	const char *name = NULL;
	int64_t nice = 0, priority = 0;
	int r = field_object(process, where, "scheduler", &object, err);

	if (r < 1)
		return r;
	r = field_required(field_text(object, place.path, "policy", &name, err), place.path, "policy", err);
	if (r < 0)
		return r;
	policy = find(policies, ARRAY_LEN(policies), name);
	if (!policy)
		return field_bad(place.path, "policy", err, "unknown policy '%s'", name);
	r = field_i64(object, place.path, "nice", -20, 19, &nice, err);
	if (r >= 0)
		r = field_i64(object, place.path, "priority", 0, 99, &priority, err);
	if (r >= 0)
		r = field_u64(object, place.path, "runtime", &s->runtime, err);
	if (r >= 0)
		r = field_u64(object, place.path, "deadline", &s->deadline, err);
	if (r >= 0)
		r = field_u64(object, place.path, "period", &s->period, err);
	if (r >= 0)
		r = field_words(object, place.path, "flags", &words, err);
	for (size_t i = 0; r >= 0 && i < words.count; i++) {
		const struct name_value *flag = find(flags, ARRAY_LEN(flags), words.items[i]);

		if (flag)
			s->flags |= flag->value;
		else
			r = field_bad(place.path, "flags", err, "unknown flag '%s'", words.items[i]);
	}
	words_free(&words);
	s->set = 1;
	s->policy = (uint32_t)policy->value;
	s->nice = (int32_t)nice;
	s->priority = (uint32_t)priority;
	return r < 0 ? r : CCHV_OK;
}

static int parse_io_priority(const struct json *process, const char *where, struct process_spec *spec,
                             cchv_error **err)
{
	struct field_place place = field_join(where, "ioPriority");
	const struct json *object = NULL;
	const struct name_value *class;
	const char *name = NULL;
	int64_t priority = 0;
	int r = field_object(process, where, "ioPriority", &object, err);

	if (r < 1)
		return r;
	r = field_required(field_text(object, place.path, "class", &name, err), place.path, "class", err);
	if (r >= 0)
		r = field_i64(object, place.path, "priority", 0, 7, &priority, err);
	if (r < 0)
		return r;
	class = find(classes, ARRAY_LEN(classes), name);
	if (!class)
		return field_bad(place.path, "class", err, "unknown class '%s'", name);
	spec->has_io_priority = 1;
	spec->io_priority = (int)(class->value << IOPRIO_CLASS_SHIFT) | (int)priority;
	return CCHV_OK;
}

/* One number. Moves *text behind it. */
static int number(const char **text, size_t max, size_t *ret)
{
	char *end;
	unsigned long value;

	if (!isdigit((unsigned char)**text))
		return -1;
	value = strtoul(*text, &end, 10);
	if (value >= max)
		return -1;
	*text = end;
	*ret = value;
	return 0;
}

int number_list_parse(const char *text, uint64_t *mask, size_t max)
{
	memset(mask, 0, max / 8);
	while (*text) {
		size_t first, last;

		if (number(&text, max, &first) < 0)
			return -1;
		last = first;
		if (*text == '-') {
			text++;
			if (number(&text, max, &last) < 0 || last < first)
				return -1;
		}
		for (; first <= last; first++)
			mask[first / 64] |= 1ULL << first % 64;
		if (*text == ',' && text[1])
			text++;
		else if (*text)
			return -1;
	}
	return 0;
}

static int parse_cpus(const struct json *affinity, const char *where, const char *key, cpu_set_t **ret,
                      cchv_error **err)
{
	uint64_t mask[CPU_AFFINITY_CPUS / 64];
	const char *text = NULL;
	int r = field_text(affinity, where, key, &text, err);

	if (r < 1 || !*text)
		return r;
	if (number_list_parse(text, mask, CPU_AFFINITY_CPUS) < 0)
		return field_bad(where, key, err, "'%s' is not a list such as 0-3,7", text);
	static_assert(sizeof(mask) == sizeof(cpu_set_t), "a cpu_set_t has 1024 bits");
	*ret = mem_memdup(mask, sizeof(mask));
	return *ret ? 1 : err_nomem(err);
}

int process_sched_parse(const struct json *process, const char *where, struct process_spec *spec,
                        cchv_error **err)
{
	struct field_place place = field_join(where, "execCPUAffinity");
	const struct json *affinity = NULL;
	int r = parse_scheduler(process, where, &spec->scheduler, err);

	if (r >= 0)
		r = parse_io_priority(process, where, spec, err);
	if (r >= 0)
		r = field_object(process, where, "execCPUAffinity", &affinity, err);
	if (r >= 0)
		r = parse_cpus(affinity, place.path, "initial", &spec->cpu_initial, err);
	if (r >= 0)
		r = parse_cpus(affinity, place.path, "final", &spec->cpu_final, err);
	return r < 0 ? r : CCHV_OK;
}

int process_sched_apply(const struct process_spec *spec)
{
	const struct process_scheduler *s = &spec->scheduler;
	const cpu_set_t *cpus = spec->cpu_final ? spec->cpu_final : spec->cpu_initial;

	if (spec->has_io_priority && syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, spec->io_priority) < 0)
		return -1;
	if (s->set) {
		struct sched_attributes attributes = {
			.size = sizeof(attributes),
			.policy = s->policy,
			.flags = s->flags,
			.nice = s->nice,
			.priority = s->priority,
			.runtime = s->runtime,
			.deadline = s->deadline,
			.period = s->period,
		};

		if (syscall(SYS_sched_setattr, 0, &attributes, 0) < 0)
			return -1;
	}
	return cpus ? sched_setaffinity(0, sizeof(*cpus), cpus) : 0;
}
