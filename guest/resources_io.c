/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rarer limits: block IO, huge pages, RDMA, raw cgroup v2 files, and the network classes that cgroup v2 does not
 * have. Enters: linux.resources. Leaves: files and values, or an error.
 */
#include "guest/resources_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHERE "linux.resources"

/* One device's member of an io.max or io.weight line. */
static int parse_throttle(struct resources *res, const struct json *block, const char *key, const char *word,
                          cchv_error **err)
{
	static const char where[] = WHERE ".blockIO";
	const struct json *list = NULL, *item;
	int r = field_array(block, where, key, &list, err);

	for (size_t i = 0; r >= 0 && i < json_count(list); i++) {
		struct field_place place;
		int64_t major = 0, minor = 0;
		uint64_t rate = 0;

		r = field_item(list, where, key, i, &place, &item, err);
		if (r >= 0)
			r = field_required(field_i64(item, place.path, "major", 0, 4095, &major, err),
			                   place.path, "major", err);
		if (r >= 0)
			r = field_required(field_i64(item, place.path, "minor", 0, 1048575, &minor, err),
			                   place.path, "minor", err);
		if (r >= 0)
			r = field_required(field_u64(item, place.path, "rate", &rate, err), place.path,
			                   "rate", err);
		if (r >= 0)
			r = rate ? resources_add(res, err, 0, "io.max", "%" PRId64 ":%" PRId64 " %s=%" PRIu64,
			                         major, minor, word, rate)
			         : resources_add(res, err, 0, "io.max", "%" PRId64 ":%" PRId64 " %s=max",
			                         major, minor, word);
	}
	return r < 0 ? r : CCHV_OK;
}

static int parse_weight_devices(struct resources *res, const struct json *block, cchv_error **err)
{
	static const char where[] = WHERE ".blockIO";
	const struct json *list = NULL, *item;
	int r = field_array(block, where, "weightDevice", &list, err);

	for (size_t i = 0; r >= 0 && i < json_count(list); i++) {
		struct field_place place;
		int64_t major = 0, minor = 0, weight = 0, leaf = 0;

		r = field_item(list, where, "weightDevice", i, &place, &item, err);
		if (r >= 0)
			r = field_required(field_i64(item, place.path, "major", 0, 4095, &major, err),
			                   place.path, "major", err);
		if (r >= 0)
			r = field_required(field_i64(item, place.path, "minor", 0, 1048575, &minor, err),
			                   place.path, "minor", err);
		if (r >= 0 && (r = field_i64(item, place.path, "leafWeight", 0, 1000, &leaf, err)) == 1)
			r = resources_ignore(res, place.path, "leafWeight", err);
		if (r >= 0 && (r = field_i64(item, place.path, "weight", 0, 1000, &weight, err)) == 1 &&
		    weight)
			r = resources_add(res, err, 1, "io.weight", "%" PRId64 ":%" PRId64 " %" PRIu64, major,
			                  minor, resources_io_weight((uint64_t)weight));
	}
	return r < 0 ? r : CCHV_OK;
}

int resources_parse_block(struct resources *res, const struct json *resources, cchv_error **err)
{
	static const char where[] = WHERE ".blockIO";
	static const char *const throttles[][2] = {
		{ "throttleReadBpsDevice", "rbps" },
		{ "throttleWriteBpsDevice", "wbps" },
		{ "throttleReadIOPSDevice", "riops" },
		{ "throttleWriteIOPSDevice", "wiops" },
	};
	const struct json *block = NULL;
	int64_t weight = 0, leaf = 0;
	int r = field_object(resources, WHERE, "blockIO", &block, err);

	if (r < 1)
		return r;
	r = field_i64(block, where, "weight", 0, 1000, &weight, err);
	if (r == 1 && weight)
		r = resources_add(res, err, 1, "io.weight", "%" PRIu64,
		                  resources_io_weight((uint64_t)weight));
	if (r >= 0 && (r = field_i64(block, where, "leafWeight", 0, 1000, &leaf, err)) == 1)
		r = resources_ignore(res, where, "leafWeight", err);
	if (r >= 0)
		r = parse_weight_devices(res, block, err);
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(throttles); i++)
		r = parse_throttle(res, block, throttles[i][0], throttles[i][1], err);
	return r;
}

static int parse_hugepages(struct resources *res, const struct json *resources, cchv_error **err)
{
	const struct json *list = NULL, *item;
	int r = field_array(resources, WHERE, "hugepageLimits", &list, err);

	for (size_t i = 0; r >= 0 && i < json_count(list); i++) {
		struct field_place place;
		const char *size = NULL;
		uint64_t limit = 0;
		char file[64];
		size_t digits;

		r = field_item(list, WHERE, "hugepageLimits", i, &place, &item, err);
		if (r >= 0)
			r = field_required(field_text(item, place.path, "pageSize", &size, err), place.path,
			                   "pageSize", err);
		if (r >= 0)
			r = field_required(field_u64(item, place.path, "limit", &limit, err), place.path,
			                   "limit", err);
		if (r < 0)
			break;
		digits = strspn(size, "0123456789");
		if (!digits || digits > 6 || !strchr("KMG", size[digits]) ||
		    strcmp(size + digits + 1, "B") != 0)
			return field_bad(place.path, "pageSize", err, "'%s' is not a size such as 2MB", size);
		snprintf(file, sizeof(file), "hugetlb.%s.max", size);
		r = resources_add(res, err, 0, file, "%" PRIu64, limit);
		snprintf(file, sizeof(file), "hugetlb.%s.rsvd.max", size);
		if (r >= 0)
			r = resources_add(res, err, 1, file, "%" PRIu64, limit);
	}
	return r < 0 ? r : CCHV_OK;
}

static int parse_rdma(struct resources *res, const struct json *resources, cchv_error **err)
{
	static const char where[] = WHERE ".rdma";
	const struct json *rdma = NULL;
	int r = field_object(resources, WHERE, "rdma", &rdma, err);

	for (size_t i = 0; r >= 0 && i < json_count(rdma); i++) {
		const char *device = json_key_at(rdma, i);
		struct field_place place = field_join(where, device);
		const struct json *limits = NULL;
		uint32_t handles = 0, objects = 0;
		int has_handles, has_objects;

		r = field_object(rdma, where, device, &limits, err);
		if (r < 1)
			continue;
		has_handles = field_u32(limits, place.path, "hcaHandles", &handles, err);
		has_objects = has_handles < 0 ? 0
		                              : field_u32(limits, place.path, "hcaObjects", &objects, err);
		if (has_handles < 0 || has_objects < 0)
			return CCHV_ERR_INVALID;
		if (!has_handles && !has_objects)
			return field_bad(where, device, err, "needs hcaHandles or hcaObjects");
		if (strpbrk(device, " \n"))
			return field_bad(where, device, err, "is no device name");
		if (has_handles)
			r = resources_add(res, err, 0, "rdma.max", "%s hca_handle=%u", device, handles);
		if (r >= 0 && has_objects)
			r = resources_add(res, err, 0, "rdma.max", "%s hca_object=%u", device, objects);
	}
	return r < 0 ? r : CCHV_OK;
}

/* Lines of a value are written one by one, since the kernel takes one line per write. */
static int parse_unified(struct resources *res, const struct json *resources, cchv_error **err)
{
	static const char where[] = WHERE ".unified";
	const struct json *unified = NULL;
	int r = field_object(resources, WHERE, "unified", &unified, err);

	for (size_t i = 0; r >= 0 && i < json_count(unified); i++) {
		const char *file = json_key_at(unified, i), *value = NULL;

		r = field_text(unified, where, file, &value, err);
		if (r < 1)
			continue;
		/* A file of a controller, and nothing that moves processes or reaches other cgroups. */
		if (strchr(file, '/') || !strchr(file, '.') || file[0] == '.' ||
		    strncmp(file, "cgroup.", 7) == 0)
			return field_bad(where, file, err, "is no file of a controller");
		while (r >= 0 && *value) {
			size_t len = strcspn(value, "\n");

			if (len)
				r = resources_add(res, err, 0, file, "%.*s", (int)len, value);
			value += len + (value[len] == '\n');
		}
	}
	return r < 0 ? r : CCHV_OK;
}

/* net_cls and net_prio are of cgroup v1: whoever asks for them would get nothing. */
static int parse_network(struct resources *res, const struct json *resources, cchv_error **err)
{
	static const char where[] = WHERE ".network";
	const struct json *network = NULL, *priorities = NULL;
	uint32_t class_id = 0;
	int r = field_object(resources, WHERE, "network", &network, err);

	if (r < 1)
		return r;
	r = field_u32(network, where, "classID", &class_id, err);
	if (r == 1 && class_id)
		return field_refused(where, "classID", err, "cgroup v2 has no network classes");
	if (r >= 0)
		r = field_array(network, where, "priorities", &priorities, err);
	if (r == 1 && json_count(priorities))
		return field_refused(where, "priorities", err, "cgroup v2 has no network priorities");
	return r < 0 ? r : CCHV_OK;
}

int resources_parse_others(struct resources *res, const struct json *resources, cchv_error **err)
{
	int r = parse_hugepages(res, resources, err);

	if (r >= 0)
		r = parse_rdma(res, resources, err);
	if (r >= 0)
		r = parse_network(res, resources, err);
	/* Last: who writes raw files means them to win. */
	return r < 0 ? r : parse_unified(res, resources, err);
}
