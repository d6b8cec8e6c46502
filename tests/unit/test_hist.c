/* SPDX-License-Identifier: BSD-2-Clause */
/* The histogram beside the sorted list of what went in. */
#include "base/hist.h"

#include "base/rng.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>

enum { MANY = 20000 };

static const double shares[] = {0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The percentile by its definition: the value at this rank. */
static uint64_t exact(const uint64_t *sorted, size_t n, double share)
{
	double rank = ceil(share * (double)n);

	return sorted[rank < 1 ? 0 : (size_t)rank - 1];
}

static void check_against(uint64_t *values, size_t n)
{
	struct hist h;

	hist_reset(&h);
	for (size_t i = 0; i < n; i++)
		hist_add(&h, values[i]);
	qsort(values, n, sizeof(*values), compare);
	for (unsigned i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		double want = (double)exact(values, n, shares[i]);
		double got = (double)hist_percentile(&h, shares[i]);

		assert_true(fabs(got - want) <= want / 128);
	}
	assert_int_equal(hist_percentile(&h, 0), values[0]);
	assert_int_equal(hist_percentile(&h, 1), values[n - 1]);
}

static void empty(void **state)
{
	struct hist h;

	hist_reset(&h);
	for (unsigned i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		assert_int_equal(hist_percentile(&h, shares[i]), 0);
	assert_true(hist_mean(&h) == 0);
}

static void a_single_value(void **state)
{
	static const uint64_t values[] = {0, 1, 127, 128, 1000, 123456789, UINT64_MAX};

	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct hist h;

		hist_reset(&h);
		hist_add(&h, values[i]);
		for (unsigned k = 0; k < sizeof(shares) / sizeof(shares[0]); k++)
			assert_int_equal(hist_percentile(&h, shares[k]), values[i]);
		assert_true(hist_mean(&h) == (double)values[i]);
	}
}

/* Below 128 ns nothing is lost. */
static void small_values_are_exact(void **state)
{
	struct hist h;

	hist_reset(&h);
	for (uint64_t ns = 1; ns <= 100; ns++)
		hist_add(&h, ns);
	assert_int_equal(hist_percentile(&h, 0.5), 50);
	assert_int_equal(hist_percentile(&h, 0.9), 90);
	assert_int_equal(hist_percentile(&h, 0.99), 99);
	assert_true(hist_mean(&h) == 50.5);
}

/* All powers of two and their neighbours: where buckets begin and end. */
static void edges_of_buckets(void **state)
{
	uint64_t values[3];

	for (unsigned bit = 1; bit < 64; bit++) {
		values[0] = ((uint64_t)1 << bit) - 1;
		values[1] = (uint64_t)1 << bit;
		values[2] = ((uint64_t)1 << bit) + 1;
		check_against(values, 3);
	}
}

static void many_values(void **state)
{
	uint64_t *values = malloc(MANY * sizeof(*values));
	struct rng rng = {1};

	assert_non_null(values);
	for (unsigned spread = 4; spread < 60; spread += 5) {
		for (unsigned i = 0; i < MANY; i++)
			values[i] = rng_next(&rng) >> (64 - spread + rng_below(&rng, 4));
		check_against(values, MANY);
	}
	free(values);
}

/* Two halves merged are the whole. */
static void merge(void **state)
{
	struct hist all, half[2];

	hist_reset(&all);
	hist_reset(&half[0]);
	hist_reset(&half[1]);
	for (uint64_t i = 0; i < 1000; i++) {
		hist_add(&all, i * i);
		hist_add(&half[i % 2], i * i);
	}
	hist_merge(&half[0], &half[1]);
	assert_memory_equal(&half[0], &all, sizeof(all));
	hist_reset(&half[1]);
	hist_merge(&half[0], &half[1]);
	assert_memory_equal(&half[0], &all, sizeof(all));
}

/* Of any precision: a value lies in its bucket, and the middle is near it. */
static void buckets_of_any_precision(void **state)
{
	struct rng rng = {3};

	for (unsigned bits = 1; bits <= 10; bits++) {
		for (unsigned i = 0; i < 10000; i++) {
			uint64_t value = rng_next(&rng) >> rng_below(&rng, 63) >> 1;
			unsigned index = hist_index(value, bits);
			uint64_t low = hist_low(index, bits), end = hist_low(index + 1, bits);

			assert_true(low <= value && value < end);
			assert_true(end - low == 1 || (end - low) << bits <= low);
			assert_int_equal(hist_index(low, bits), index);
			assert_int_equal(hist_index(hist_middle(index, bits), bits), index);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty),
		cmocka_unit_test(a_single_value),
		cmocka_unit_test(small_values_are_exact),
		cmocka_unit_test(edges_of_buckets),
		cmocka_unit_test(many_values),
		cmocka_unit_test(merge),
		cmocka_unit_test(buckets_of_any_precision),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
