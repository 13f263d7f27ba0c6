/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers: clocks, medians, spread. Enters: values. Leaves: what they say. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

void samples_add(struct samples *samples, double value)
{
	if (samples->count < MAX_RUNS)
		samples->values[samples->count++] = value;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median_of(const double *values, size_t count)
{
	double sorted[MAX_RUNS];

	if (count == 0)
		return 0;
	memcpy(sorted, values, count * sizeof(*values));
	qsort(sorted, count, sizeof(*sorted), by_value);
	return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

double samples_median(const struct samples *samples)
{
	return median_of(samples->values, samples->count);
}

double samples_spread(const struct samples *samples)
{
	double low = 0, high = 0, median = samples_median(samples);

	for (size_t i = 0; i < samples->count; i++) {
		if (i == 0 || samples->values[i] < low)
			low = samples->values[i];
		if (i == 0 || samples->values[i] > high)
			high = samples->values[i];
	}
	return median > 0 ? (high - low) / median : 0;
}

double samples_ratio(const struct samples *a, const struct samples *b)
{
	double ratios[MAX_RUNS];
	size_t n = a->count < b->count ? a->count : b->count;

	for (size_t i = 0; i < n; i++)
		ratios[i] = b->values[i] > 0 ? a->values[i] / b->values[i] : 0;
	return median_of(ratios, n);
}
