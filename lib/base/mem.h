/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: the one door to the allocator, so that a test can make the n-th allocation fail, and the cleanup
 * attributes. Memory from here is given back with free().
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

void *mem_alloc(size_t size);                  /* uninitialised; NULL when out of memory */
void *mem_zalloc(size_t size);                 /* zeroed */
void *mem_realloc_array(void *old, size_t count, size_t size); /* overflow-checked */
char *mem_strdup(const char *text);
char *mem_strndup(const char *text, size_t length);
void *mem_memdup(const void *data, size_t size);
char *mem_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *mem_vprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

/* Replace *slot by a copy of text (NULL clears it). Returns 0 or CCHV_ERR_NOMEM, and then *slot is as it was. */
int mem_replace_string(char **slot, const char *text);

/* For tests: allocation number n (1 is the next) and all later ones fail; 0 turns it off. */
void mem_fail_from(uint64_t n);
/* For tests: allocations since the start of the process. */
uint64_t mem_count(void);

static inline void mem_cleanup_free(void *slot)
{
	free(*(void **)slot);
}

#define cleanup_free __attribute__((cleanup(mem_cleanup_free)))

/* Declare the cleanup function of a type: DEFINE_CLEANUP(json, struct json, json_free) makes cleanup_json. */
#define DEFINE_CLEANUP(name, type, free_fn)                        \
	static inline void name##_cleanup(type **slot)             \
	{                                                          \
		if (*slot)                                         \
			free_fn(*slot);                            \
	}

/* Hand a pointer over: its value, the variable becomes NULL. */
#define steal(slot)                                                \
	({                                                         \
		__typeof__(*(slot)) stolen_ = *(slot);             \
		*(slot) = NULL;                                    \
		stolen_;                                           \
	})

#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

#endif
