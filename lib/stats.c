/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with names: see stats.h and <cchv/stats.h>. Enters: pairs. Leaves: the same, by index or name. */
#include "stats.h"

#include <string.h>

#include "base/clock.h"
#include "base/export.h"

struct pair {
	char *name;
	uint64_t value;
};

struct cchv_stats {
	struct pair *pairs;
	size_t count;
	size_t room;
	uint64_t time_ns;
};

cchv_stats *stats_new(void)
{
	cchv_stats *s = mem_zalloc(sizeof(*s));

	if (s)
		s->time_ns = clock_real_ns();
	return s;
}

static struct pair *find(const cchv_stats *stats, const char *name)
{
	for (size_t i = 0; i < stats->count; i++)
		if (strcmp(stats->pairs[i].name, name) == 0)
			return &stats->pairs[i];
	return NULL;
}

int stats_add(cchv_stats *stats, uint64_t value, const char *format, ...)
{
	struct pair *old;
	va_list args;
	char *name;

	va_start(args, format);
	name = mem_vprintf(format, args);
	va_end(args);
	if (!name)
		return CCHV_ERR_NOMEM;
	old = find(stats, name);
	if (old) {
		old->value = value;
		free(name);
		return CCHV_OK;
	}
	if (stats->count == stats->room) {
		size_t room = stats->room ? 2 * stats->room : 16;
		struct pair *more = mem_realloc_array(stats->pairs, room, sizeof(*more));

		if (!more) {
			free(name);
			return CCHV_ERR_NOMEM;
		}
		stats->pairs = more;
		stats->room = room;
	}
	stats->pairs[stats->count++] = (struct pair){ name, value };
	return CCHV_OK;
}

CCHV_API int cchv_stats_get_count(cchv_stats *stats)
{
	return stats ? (int)stats->count : 0;
}

CCHV_API const char *cchv_stats_get_name(cchv_stats *stats, int index)
{
	return stats && index >= 0 && (size_t)index < stats->count ? stats->pairs[index].name : NULL;
}

CCHV_API uint64_t cchv_stats_get_value(cchv_stats *stats, int index)
{
	return stats && index >= 0 && (size_t)index < stats->count ? stats->pairs[index].value : 0;
}

CCHV_API int cchv_stats_find(cchv_stats *stats, const char *name, uint64_t *ret_value)
{
	struct pair *p;

	if (!stats || !name || !ret_value)
		return CCHV_ERR_INVALID;
	p = find(stats, name);
	if (!p)
		return CCHV_ERR_NOT_FOUND;
	*ret_value = p->value;
	return CCHV_OK;
}

CCHV_API uint64_t cchv_stats_get_time(cchv_stats *stats)
{
	return stats ? stats->time_ns : 0;
}

CCHV_API void cchv_stats_free(cchv_stats *stats)
{
	if (!stats)
		return;
	for (size_t i = 0; i < stats->count; i++)
		free(stats->pairs[i].name);
	free(stats->pairs);
	free(stats);
}
