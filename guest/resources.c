/* SPDX-License-Identifier: Apache-2.0 */
/* Limits for cgroup v2: see resources.h. Enters: linux.resources. Leaves: files and values, or an error. */
#include "guest/resources.h"

#include "guest/resources_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHERE "linux.resources"
#define DEFAULT_PERIOD 100000

uint64_t resources_cpu_weight(uint64_t shares)
{
	if (shares < 2)
		shares = 2;
	if (shares > 262144)
		shares = 262144;
	return 1 + (shares - 2) * 9999 / 262142;
}

uint64_t resources_io_weight(uint64_t weight)
{
	if (weight < 10)
		weight = 10;
	if (weight > 1000)
		weight = 1000;
	return 1 + (weight - 10) * 9999 / 990;
}

int resources_add(struct resources *res, cchv_error **err, int optional, const char *file, const char *format,
                  ...)
{
	struct resource_write *writes = mem_realloc_array(res->writes, res->count + 1, sizeof(*writes));
	struct resource_write write = { .optional = optional };
	va_list args;

	if (!writes)
		return err_nomem(err);
	res->writes = writes;
	write.file = mem_strdup(file);
	va_start(args, format);
	write.value = mem_vprintf(format, args);
	va_end(args);
	if (!write.file || !write.value) {
		free(write.file);
		free(write.value);
		return err_nomem(err);
	}
	writes[res->count++] = write;
	return CCHV_OK;
}

int resources_ignore(struct resources *res, const char *where, const char *key, cchv_error **err)
{
	return words_add(&res->ignored, field_join(where, key).path) < 0 ? err_nomem(err) : CCHV_OK;
}

static int add_limit(struct resources *res, const char *file, int64_t value, cchv_error **err)
{
	return value < 0 ? resources_add(res, err, 0, file, "max")
	                 : resources_add(res, err, 0, file, "%" PRId64, value);
}

/* memory.swap of cgroup v1 counts memory and swap together, memory.swap.max swap alone. */
static int parse_swap(struct resources *res, int64_t swap, int64_t limit, int has_limit, cchv_error **err)
{
	if (swap < 0)
		return resources_add(res, err, 1, "memory.swap.max", "max");
	if (swap == 0)
		return CCHV_OK;
	if (!has_limit || limit < 0)
		return field_bad(WHERE ".memory", "swap", err, "needs a memory limit beside it");
	if (swap < limit)
		return field_bad(WHERE ".memory", "swap", err, "below the memory limit");
	/* A guest has no swap unless somebody makes some: without the file nothing can be swapped either. */
	return resources_add(res, err, 1, "memory.swap.max", "%" PRId64, (swap - limit));
}

static int parse_memory_rest(struct resources *res, const struct json *memory, cchv_error **err)
{
	static const char where[] = WHERE ".memory";
	int64_t number = 0;
	uint64_t swappiness = 0;
	int flag = 0, r;

	r = field_i64(memory, where, "kernel", -1, INT64_MAX, &number, err);
	if (r == 1)
		r = resources_ignore(res, where, "kernel", err);
	if (r >= 0 && (r = field_i64(memory, where, "kernelTCP", -1, INT64_MAX, &number, err)) == 1)
		r = resources_ignore(res, where, "kernelTCP", err);
	if (r >= 0 && (r = field_u64(memory, where, "swappiness", &swappiness, err)) == 1)
		r = swappiness > 100 ? field_bad(where, "swappiness", err, "over 100")
		                     : resources_ignore(res, where, "swappiness", err);
	if (r >= 0 && (r = field_bool(memory, where, "disableOOMKiller", &flag, err)) == 1 && flag)
		r = field_refused(where, "disableOOMKiller", err, "cgroup v2 has no such switch");
	if (r >= 0 && (r = field_bool(memory, where, "useHierarchy", &flag, err)) == 1 && !flag)
		r = resources_ignore(res, where, "useHierarchy", err);
	if (r >= 0)
		r = field_bool(memory, where, "checkBeforeUpdate", &res->check_before_update, err);
	return r < 0 ? r : CCHV_OK;
}

static int parse_memory(struct resources *res, const struct json *resources, cchv_error **err)
{
	static const char where[] = WHERE ".memory";
	int64_t limit = -1, reservation = 0, swap = 0;
	const struct json *memory = NULL;
	int has_limit, r;

	r = field_object(resources, WHERE, "memory", &memory, err);
	if (r < 0)
		return r;
	has_limit = field_i64(memory, where, "limit", -1, INT64_MAX, &limit, err);
	if (has_limit < 0)
		return has_limit;
	if (has_limit && limit == 0)
		has_limit = 0; /* unset, in the words of those who write specifications */
	r = field_i64(memory, where, "swap", -1, INT64_MAX, &swap, err);
	if (r == 1)
		r = parse_swap(res, swap, limit, has_limit, err);
	if (r >= 0 && has_limit) {
		res->memory_limit = limit < 0 ? UINT64_MAX : (uint64_t)limit;
		r = add_limit(res, "memory.max", limit, err);
	}
	if (r >= 0 && (r = field_i64(memory, where, "reservation", -1, INT64_MAX, &reservation, err)) == 1)
		r = reservation ? add_limit(res, "memory.low", reservation, err) : CCHV_OK;
	return r < 0 ? r : parse_memory_rest(res, memory, err);
}

static int parse_cpu_time(struct resources *res, const struct json *cpu, cchv_error **err)
{
	static const char where[] = WHERE ".cpu";
	uint64_t period = 0, burst = 0;
	int64_t quota = 0;
	int has_quota, has_burst, r;

	has_quota = field_i64(cpu, where, "quota", -1, INT64_MAX, &quota, err);
	if (has_quota < 0)
		return has_quota;
	r = field_u64(cpu, where, "period", &period, err);
	if (r < 0)
		return r;
	if (period && (period < 1000 || period > 1000000))
		return field_bad(where, "period", err,
		                 "%" PRIu64 " is not between 1000 and 1000000 microseconds", period);
	if (quota > 0 && quota < 1000)
		return field_bad(where, "quota", err, "%" PRId64 " is below 1000 microseconds", quota);
	if (quota > 0)
		r = resources_add(res, err, 0, "cpu.max", "%" PRId64 " %" PRIu64, quota,
		                  (period ? period : DEFAULT_PERIOD));
	else if ((has_quota && quota < 0) || period)
		r = resources_add(res, err, 0, "cpu.max", "max %" PRIu64, (period ? period : DEFAULT_PERIOD));
	if (r < 0)
		return r;
	has_burst = field_u64(cpu, where, "burst", &burst, err);
	if (has_burst < 0)
		return has_burst;
	if (has_burst && burst && quota > 0 && burst > (uint64_t)quota)
		return field_bad(where, "burst", err, "over the quota");
	return has_burst && burst ? resources_add(res, err, 0, "cpu.max.burst", "%" PRIu64, burst) : CCHV_OK;
}

/* "0-3,7": what the kernel takes; anything else would be a riddle in its answer. */
static int check_list(const char *where, const char *key, const char *text, cchv_error **err)
{
	if (text[strspn(text, "0123456789-,")])
		return field_bad(where, key, err, "'%s' is not a list such as 0-3,7", text);
	return CCHV_OK;
}

static int parse_cpu(struct resources *res, const struct json *resources, cchv_error **err)
{
	static const char where[] = WHERE ".cpu";
	static const char *const lists[][2] = { { "cpus", "cpuset.cpus" }, { "mems", "cpuset.mems" } };
	const struct json *cpu = NULL;
	uint64_t shares = 0, number = 0;
	int64_t idle = 0, runtime = 0;
	int r = field_object(resources, WHERE, "cpu", &cpu, err);

	if (r < 1)
		return r;
	r = field_u64(cpu, where, "shares", &shares, err);
	if (r == 1 && shares)
		r = resources_add(res, err, 0, "cpu.weight", "%" PRIu64, resources_cpu_weight(shares));
	if (r >= 0)
		r = parse_cpu_time(res, cpu, err);
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(lists); i++) {
		const char *text = NULL;

		r = field_text(cpu, where, lists[i][0], &text, err);
		if (r == 1 && *text)
			r = check_list(where, lists[i][0], text, err);
		if (r >= 0 && text && *text)
			r = resources_add(res, err, 0, lists[i][1], "%s", text);
	}
	if (r >= 0 && (r = field_i64(cpu, where, "idle", 0, 1, &idle, err)) == 1 && idle)
		r = resources_add(res, err, 0, "cpu.idle", "1");
	if (r >= 0 &&
	    (r = field_i64(cpu, where, "realtimeRuntime", INT64_MIN, INT64_MAX, &runtime, err)) == 1 &&
	    runtime)
		r = field_refused(where, "realtimeRuntime", err, "cgroup v2 has no realtime groups");
	if (r >= 0 && (r = field_u64(cpu, where, "realtimePeriod", &number, err)) == 1 && number)
		r = field_refused(where, "realtimePeriod", err, "cgroup v2 has no realtime groups");
	return r < 0 ? r : CCHV_OK;
}

static int parse_pids(struct resources *res, const struct json *resources, cchv_error **err)
{
	const struct json *pids = NULL;
	int64_t limit = 0;
	int r = field_object(resources, WHERE, "pids", &pids, err);

	if (r < 1)
		return r;
	r = field_i64(pids, WHERE ".pids", "limit", INT64_MIN, INT64_MAX, &limit, err);
	return r < 1 ? r : add_limit(res, "pids.max", limit, err);
}

int resources_parse(const struct json *resources, int update, struct resources *ret_resources,
                    cchv_error **err)
{
	struct resources res = { .memory_limit = UINT64_MAX };
	const struct json *devices = NULL;
	int r;

	r = field_array(resources, WHERE, "devices", &devices, err);
	if (r >= 0) {
		res.has_devices = r == 1;
		r = parse_memory(&res, resources, err);
	}
	if (r >= 0)
		r = parse_cpu(&res, resources, err);
	if (r >= 0)
		r = parse_pids(&res, resources, err);
	if (r >= 0)
		r = resources_parse_block(&res, resources, err);
	if (r >= 0)
		r = resources_parse_others(&res, resources, err);
	/* Callers send the whole of resources again; the device list was fixed at create. */
	if (r >= 0 && update && res.has_devices)
		r = resources_ignore(&res, WHERE, "devices", err);
	if (r < 0) {
		resources_free(&res);
		return r;
	}
	*ret_resources = res;
	return CCHV_OK;
}

void resources_free(struct resources *res)
{
	for (size_t i = 0; i < res->count; i++) {
		free(res->writes[i].file);
		free(res->writes[i].value);
	}
	free(res->writes);
	words_free(&res->ignored);
	*res = (struct resources){ 0 };
}
