/* SPDX-License-Identifier: Apache-2.0 */
/* Figures: kept, shown, written. Enters: figures. Leaves: a table, and JSON (schema: bench/README.md). */
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_gen.h>

#define MAX_FIGURES 32

static struct figure figures[MAX_FIGURES];
static size_t figure_count;

void result_add(const struct figure *figure)
{
	if (figure_count < MAX_FIGURES)
		figures[figure_count++] = *figure;
}

static int is_met(const struct figure *f)
{
	return f->at_least ? f->value >= f->target : f->value <= f->target;
}

static void print_value(double value, const char *unit)
{
	if (strcmp(unit, "bytes") == 0)
		printf("%9.2f MiB", value / 1048576);
	else
		printf("%9.3f    ", value);
}

int result_print(void)
{
	int missed = 0;

	printf("\n%-16s %13s   %13s   %s\n", "figure", "measured", "target", "");
	for (size_t i = 0; i < figure_count; i++) {
		const struct figure *f = &figures[i];

		printf("%-16s ", f->name);
		print_value(f->value, f->unit);
		printf(" %s", f->at_least ? ">=" : "<=");
		print_value(f->target, f->unit);
		printf("   %-6s %s\n", is_met(f) ? "ok" : "MISSED", f->what);
		if (f->a.count)
			printf("%16s %s: median %.3g %s, spread %.0f %%, n %zu\n", "", f->a_name,
			       samples_median(&f->a), f->samples_unit, 100 * samples_spread(&f->a),
			       f->a.count);
		if (f->b.count)
			printf("%16s %s: median %.3g %s, spread %.0f %%, n %zu\n", "", f->b_name,
			       samples_median(&f->b), f->samples_unit, 100 * samples_spread(&f->b),
			       f->b.count);
		missed += !is_met(f);
	}
	return missed;
}

static void put(yajl_gen g, const char *text)
{
	yajl_gen_string(g, (const unsigned char *)text, strlen(text));
}

static void put_text(yajl_gen g, const char *key, const char *text)
{
	put(g, key);
	if (text)
		put(g, text);
	else
		yajl_gen_null(g);
}

static void put_number(yajl_gen g, const char *key, double value)
{
	put(g, key);
	yajl_gen_double(g, value);
}

static void put_samples(yajl_gen g, const char *key, const char *name, const struct figure *f,
			const struct samples *s)
{
	if (!s->count)
		return;
	put(g, key);
	yajl_gen_map_open(g);
	put_text(g, "name", name);
	put_text(g, "unit", f->samples_unit);
	put_number(g, "median", samples_median(s));
	put_number(g, "spread", samples_spread(s));
	put(g, "values");
	yajl_gen_array_open(g);
	for (size_t i = 0; i < s->count; i++)
		yajl_gen_double(g, s->values[i]);
	yajl_gen_array_close(g);
	yajl_gen_map_close(g);
}

int result_write_json(struct bench *bench, const char *path)
{
	yajl_gen g = yajl_gen_alloc(NULL);
	const unsigned char *text;
	FILE *file;
	size_t len;
	int r;

	yajl_gen_config(g, yajl_gen_beautify, 1);
	yajl_gen_map_open(g);
	environment_put(bench, g);
	put(g, "figures");
	yajl_gen_array_open(g);
	for (size_t i = 0; i < figure_count; i++) {
		const struct figure *f = &figures[i];

		yajl_gen_map_open(g);
		put_text(g, "name", f->name);
		put_text(g, "what", f->what);
		put_text(g, "unit", f->unit);
		put_number(g, "value", f->value);
		put_number(g, "target", f->target);
		put_text(g, "target_is", f->at_least ? "floor" : "ceiling");
		put(g, "met");
		yajl_gen_bool(g, is_met(f));
		put_samples(g, "a", f->a_name, f, &f->a);
		put_samples(g, "b", f->b_name, f, &f->b);
		yajl_gen_map_close(g);
	}
	yajl_gen_array_close(g);
	yajl_gen_map_close(g);
	yajl_gen_get_buf(g, &text, &len);
	file = fopen(path, "we");
	r = file && fwrite(text, 1, len, file) == len ? 0 : -1;
	if (file && fclose(file) != 0)
		r = -1;
	if (r < 0)
		fprintf(stderr, "cchv-bench: '%s': %m\n", path);
	yajl_gen_free(g);
	return r;
}
