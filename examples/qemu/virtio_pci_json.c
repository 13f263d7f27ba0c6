/* SPDX-License-Identifier: Apache-2.0 */
/* virtio_pci.h's state in a snapshot. Enters: a state, or the JSON of a file. Leaves: the other. */
#include <string.h>

#include "config.h"
#include "virtio_pci.h"

static struct json *numbers(const uint64_t *values, size_t count)
{
	struct json *list = json_new_array();

	for (size_t i = 0; i < count; i++)
		json_append(list, json_new_u64(values[i]));
	return list;
}

struct json *virtio_pci_to_json(const struct virtio_pci *s)
{
	struct json *j = json_new_object(), *bars = json_new_array(), *vectors = json_new_array();
	struct json *queues = json_new_array();

	for (size_t i = 0; i < VIRTIO_PCI_BARS; i++)
		json_append(bars, json_new_u64(s->bars[i]));
	for (size_t i = 0; i < s->vector_count; i++) {
		const struct virtio_pci_vector *v = &s->vectors[i];

		json_append(vectors, numbers((const uint64_t[]){ v->address_low, v->address_high, v->data,
		                                                 v->control }, 4));
	}
	for (size_t i = 0; i < s->queue_count; i++) {
		const struct virtio_pci_queue *q = &s->queues[i];

		json_append(queues, numbers((const uint64_t[]){ q->size, q->vector, q->enabled, q->descriptors,
		                                                q->driver, q->device }, 6));
	}
	json_set_u64(j, "command", s->command);
	json_set_u64(j, "cache_line", s->cache_line);
	json_set_u64(j, "latency", s->latency);
	json_set_u64(j, "interrupt_line", s->interrupt_line);
	json_set(j, "bars", bars);
	json_set_u64(j, "msix_control", s->msix_control);
	json_set(j, "vectors", vectors);
	json_set_bool(j, "reachable", s->reachable);
	json_set_u64(j, "status", s->status);
	json_set_u64(j, "features", s->features);
	json_set_u64(j, "config_vector", s->config_vector);
	json_set(j, "selectors", numbers((const uint64_t[]){ s->feature_select, s->driver_feature_select,
	                                                     s->queue_select }, 3));
	json_set(j, "queues", queues);
	return j;
}

/* Exactly count numbers, none of them above its limit. */
static int read_numbers(const struct json *list, const uint64_t *limits, uint64_t *values, size_t count)
{
	if (json_get_type(list) != JSON_ARRAY || json_count(list) != count)
		return CCHV_ERR_PROTOCOL;
	for (size_t i = 0; i < count; i++)
		if (json_as_u64(json_at(list, i), &values[i]) < 0 || values[i] > limits[i])
			return CCHV_ERR_PROTOCOL;
	return CCHV_OK;
}

static int read_vector(const struct json *list, struct virtio_pci_vector *v)
{
	static const uint64_t limits[4] = { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX };
	uint64_t n[4];

	if (read_numbers(list, limits, n, 4) < 0)
		return CCHV_ERR_PROTOCOL;
	*v = (struct virtio_pci_vector){ (uint32_t)n[0], (uint32_t)n[1], (uint32_t)n[2], (uint32_t)n[3] };
	return CCHV_OK;
}

static int read_queue(const struct json *list, struct virtio_pci_queue *q)
{
	static const uint64_t limits[6] = { 32768, UINT16_MAX, 1, UINT64_MAX, UINT64_MAX, UINT64_MAX };
	uint64_t n[6];

	if (read_numbers(list, limits, n, 6) < 0)
		return CCHV_ERR_PROTOCOL;
	*q = (struct virtio_pci_queue){ (uint16_t)n[0], (uint16_t)n[1], (uint16_t)n[2], n[3], n[4], n[5] };
	return CCHV_OK;
}

static int read_lists(const struct json *j, struct virtio_pci *s)
{
	const struct json *vectors = json_get(j, "vectors"), *queues = json_get(j, "queues");
	uint64_t limits[VIRTIO_PCI_BARS], values[VIRTIO_PCI_BARS];
	int r;

	for (size_t i = 0; i < VIRTIO_PCI_BARS; i++)
		limits[i] = UINT32_MAX;
	r = read_numbers(json_get(j, "bars"), limits, values, VIRTIO_PCI_BARS);
	for (size_t i = 0; r == CCHV_OK && i < VIRTIO_PCI_BARS; i++)
		s->bars[i] = (uint32_t)values[i];
	if (r < 0 || json_count(vectors) > VIRTIO_PCI_VECTORS || json_count(queues) > VIRTIO_PCI_QUEUES)
		return CCHV_ERR_PROTOCOL;
	s->vector_count = (uint32_t)json_count(vectors);
	s->queue_count = (uint32_t)json_count(queues);
	for (size_t i = 0; r == CCHV_OK && i < s->vector_count; i++)
		r = read_vector(json_at(vectors, i), &s->vectors[i]);
	for (size_t i = 0; r == CCHV_OK && i < s->queue_count; i++)
		r = read_queue(json_at(queues, i), &s->queues[i]);
	return r;
}

static int read_number(const struct json *j, const char *key, uint64_t limit, uint64_t *ret)
{
	return json_as_u64(json_get(j, key), ret) < 0 || *ret > limit ? CCHV_ERR_PROTOCOL : CCHV_OK;
}

int virtio_pci_parse(const struct json *j, struct virtio_pci *s)
{
	static const uint64_t limits[3] = { UINT32_MAX, UINT32_MAX, UINT16_MAX };
	uint64_t command, cache, latency, line, control, status, vector, selectors[3];

	memset(s, 0, sizeof(*s));
	if (read_number(j, "command", UINT16_MAX, &command) < 0 || read_number(j, "cache_line", 255, &cache) < 0 ||
	    read_number(j, "latency", 255, &latency) < 0 || read_number(j, "interrupt_line", 255, &line) < 0 ||
	    read_number(j, "msix_control", UINT16_MAX, &control) < 0 || read_number(j, "status", 255, &status) < 0 ||
	    read_number(j, "config_vector", UINT16_MAX, &vector) < 0 ||
	    read_number(j, "features", UINT64_MAX, &s->features) < 0 ||
	    read_numbers(json_get(j, "selectors"), limits, selectors, 3) < 0 || read_lists(j, s) < 0)
		return CCHV_ERR_PROTOCOL;
	s->command = (uint16_t)command;
	s->cache_line = (uint8_t)cache;
	s->latency = (uint8_t)latency;
	s->interrupt_line = (uint8_t)line;
	s->msix_control = (uint16_t)control;
	s->reachable = config_bool(j, "reachable");
	s->status = (uint8_t)status;
	s->config_vector = (uint16_t)vector;
	s->feature_select = (uint32_t)selectors[0];
	s->driver_feature_select = (uint32_t)selectors[1];
	s->queue_select = (uint32_t)selectors[2];
	return CCHV_OK;
}
