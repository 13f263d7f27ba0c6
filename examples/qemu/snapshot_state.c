/* SPDX-License-Identifier: Apache-2.0 */
/* state.json: see snapshot_state.h. Enters: parts of a machine, or the text of a file. Leaves: the other, checked. */
#include "snapshot_state.h"

#include <stdio.h>
#include <string.h>

#define FORMAT "cchv-qemu"
#define VERSION 1
#define DEVICES_MAX 64
#define BLOCKS_MAX 64

/* FNV-1a: finds what broke, not who broke it. */
static uint64_t digest(const uint8_t *data, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < len; i++)
		h = (h ^ data[i]) * 0x100000001b3ULL;
	return h;
}

struct json *snapshot_state_new(const struct snapshot_host *host)
{
	struct json *state = json_new_object();

	json_set_string(state, "format", FORMAT);
	json_set_u64(state, "version", VERSION);
	json_set_string(state, "qemu", host->qemu);
	json_set_string(state, "accelerator", host->accelerator);
	json_set_string(state, "cpu", host->cpu);
	json_set_string(state, "host_cpu", host->host_cpu);
	return state;
}

int snapshot_state_seal(struct json *state, const struct buf *bytes)
{
	int r = json_set_u64(state, "digest", digest(bytes->data, bytes->len));

	return r < 0 ? r : json_set(state, "state", json_new_bytes(bytes->data, bytes->len));
}

static int is_number(const struct json *object, const char *key)
{
	uint64_t value;

	return json_as_u64(json_get(object, key), &value) == CCHV_OK;
}

static int check_devices(const struct json *devices)
{
	if (json_get_type(devices) != JSON_ARRAY || json_count(devices) > DEVICES_MAX)
		return CCHV_ERR_PROTOCOL;
	for (size_t i = 0; i < json_count(devices); i++) {
		const struct json *d = json_at(devices, i);

		/* All of them are on the bus, behind the machine's own two devices. */
		if (!config_string(d, "id") || !is_number(d, "name") || !is_number(d, "slot") ||
		    config_u64(d, "slot") < 2 || config_u64(d, "slot") > 31 || config_u64(d, "name") > UINT16_MAX)
			return CCHV_ERR_PROTOCOL;
	}
	return CCHV_OK;
}

static int check_memory(const struct json *memory)
{
	const struct json *blocks = json_get(memory, "blocks"), *dimms = json_get(memory, "dimms");

	if (!is_number(memory, "base") || !is_number(memory, "most") || json_get_type(blocks) != JSON_ARRAY ||
	    json_count(blocks) > BLOCKS_MAX || json_get_type(dimms) != JSON_ARRAY || json_count(dimms) > BLOCKS_MAX)
		return CCHV_ERR_PROTOCOL;
	for (size_t i = 0; i < json_count(blocks); i++)
		if (!config_string(json_at(blocks, i), "name") || !is_number(json_at(blocks, i), "size"))
			return CCHV_ERR_PROTOCOL;
	for (size_t i = 0; i < json_count(dimms); i++)
		if (!is_number(json_at(dimms, i), "size") || !is_number(json_at(dimms, i), "address") ||
		    !is_number(json_at(dimms, i), "slot"))
			return CCHV_ERR_PROTOCOL;
	return CCHV_OK;
}

static int check_shape(const struct json *state)
{
	static const char *const strings[] = { "qemu", "accelerator", "cpu", "host_cpu" };
	static const char *const numbers[] = { "next_name", "next_device", "ranges", "digest" };

	for (size_t i = 0; i < ARRAY_LEN(strings); i++)
		if (!config_string(state, strings[i]))
			return CCHV_ERR_PROTOCOL;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if (!is_number(state, numbers[i]))
			return CCHV_ERR_PROTOCOL;
	if (check_memory(json_get(state, "memory")) < 0)
		return CCHV_ERR_PROTOCOL;
	return check_devices(json_get(state, "devices"));
}

int snapshot_state_parse(const char *text, size_t len, struct json **ret_state, struct fault *fault)
{
	cleanup_json struct json *state = NULL;
	cleanup_err cchv_error *err = NULL;
	const char *format;

	if (json_parse(text, len, &state, &err) < 0)
		return fault_set(fault, 500, "%s", err ? cchv_error_message(err) : "out of memory");
	format = config_string(state, "format");
	if (!format || strcmp(format, FORMAT) != 0)
		return fault_set(fault, 500, "the snapshot is not one of cchv-qemu");
	if (config_u64(state, "version") != VERSION)
		return fault_set(fault, 500, "the snapshot has format %llu, this cchv-qemu reads %d",
		                 (unsigned long long)config_u64(state, "version"), VERSION);
	if (check_shape(state) < 0)
		return fault_set(fault, 500, "parts of the snapshot's state are missing or make no sense");
	*ret_state = steal(&state);
	return CCHV_OK;
}

int snapshot_state_check_host(const struct json *state, const struct snapshot_host *host, struct fault *fault)
{
	const struct {
		const char *key;
		const char *what;
		const char *here;
	} rows[] = {
		{ "qemu", "QEMU", host->qemu },
		{ "accelerator", "accelerator", host->accelerator },
		{ "cpu", "processor model", host->cpu },
		{ "host_cpu", "processor", host->host_cpu },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *there = config_string(state, rows[i].key);

		if (strcmp(there, rows[i].here) != 0)
			return fault_set(fault, 500, "the snapshot was made with %s '%s', here is '%s'", rows[i].what,
			                 there, rows[i].here);
	}
	return CCHV_OK;
}

int snapshot_state_bytes(const struct json *state, char **ret_bytes, size_t *ret_len, struct fault *fault)
{
	cleanup_free char *bytes = NULL;
	size_t len = 0;
	int r = json_as_bytes(json_get(state, "state"), &bytes, &len);

	if (r == CCHV_ERR_NOMEM)
		return fault_nomem(fault);
	if (r < 0 || !len || digest((const uint8_t *)bytes, len) != config_u64(state, "digest"))
		return fault_set(fault, 500, "the state of the devices in the snapshot is damaged");
	*ret_bytes = steal(&bytes);
	*ret_len = len;
	return CCHV_OK;
}

static const struct json *find(const struct json *list, const char *key, const char *value)
{
	for (size_t i = 0; i < json_count(list); i++) {
		const char *has = config_string(json_at(list, i), key);

		if (has && strcmp(has, value) == 0)
			return json_at(list, i);
	}
	return NULL;
}

const struct json *snapshot_state_device(const struct json *state, const char *id)
{
	return find(json_get(state, "devices"), "id", id);
}

const struct json *snapshot_state_block(const struct json *state, const char *name)
{
	return find(json_find(state, "memory.blocks"), "name", name);
}
