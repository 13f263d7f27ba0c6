/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: see mem.h. Enters: sizes. Leaves: memory, or NULL. */
#include "base/mem.h"

#include <cchv/error.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_uint_least64_t allocations;
static atomic_uint_least64_t fail_from;

static int must_fail(void)
{
	uint64_t n = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
	uint64_t from = atomic_load_explicit(&fail_from, memory_order_relaxed);

	return from && n >= from;
}

void mem_fail_from(uint64_t n)
{
	atomic_store(&fail_from, n ? atomic_load(&allocations) + n : 0);
}

uint64_t mem_count(void)
{
	return atomic_load(&allocations);
}

void *mem_alloc(size_t size)
{
	if (must_fail())
		return NULL;
	return malloc(size ? size : 1);
}

void *mem_zalloc(size_t size)
{
	if (must_fail())
		return NULL;
	return calloc(1, size ? size : 1);
}

void *mem_realloc_array(void *old, size_t count, size_t size)
{
	size_t total;

	if (must_fail() || __builtin_mul_overflow(count, size, &total))
		return NULL;
	return realloc(old, total ? total : 1);
}

void *mem_memdup(const void *data, size_t size)
{
	void *copy = mem_alloc(size);

	if (copy && size)
		memcpy(copy, data, size);
	return copy;
}

char *mem_strndup(const char *text, size_t length)
{
	size_t n = strnlen(text, length);
	char *copy = mem_alloc(n + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, n);
	copy[n] = '\0';
	return copy;
}

char *mem_strdup(const char *text)
{
	return mem_strndup(text, strlen(text));
}

char *mem_vprintf(const char *format, va_list args)
{
	char *text;

	if (must_fail() || vasprintf(&text, format, args) < 0)
		return NULL;
	return text;
}

char *mem_printf(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = mem_vprintf(format, args);
	va_end(args);
	return text;
}

int mem_replace_string(char **slot, const char *text)
{
	char *copy = NULL;

	if (text) {
		copy = mem_strdup(text);
		if (!copy)
			return CCHV_ERR_NOMEM;
	}
	free(*slot);
	*slot = copy;
	return CCHV_OK;
}
