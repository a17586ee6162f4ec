/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of nanoseconds with the layout of HdrHistogram (lowest 1, highest 10^11, three
 * significant digits): both use the same index for a count.
 */
#ifndef SWITCHMARK_HISTOGRAM_H
#define SWITCHMARK_HISTOGRAM_H

#include <stdint.h>
#include <string.h>

#define HISTOGRAM_HIGHEST 100000000000u
#define HISTOGRAM_HALF 1024u /* half of the sub-buckets of 2 * 10^3, rounded up to 2^11 */
#define HISTOGRAM_HALF_BITS 10
#define HISTOGRAM_BUCKETS 27u
#define HISTOGRAM_COUNTS ((HISTOGRAM_BUCKETS + 1) * HISTOGRAM_HALF)

struct histogram {
	unsigned __int128 sum; /* 64 bits overflow after seconds: 10^7 frames/s, 15 s late */
	uint64_t count, min, max;
	uint64_t counts[HISTOGRAM_COUNTS];
};

static inline void histogram_clear(struct histogram *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

static inline uint32_t histogram_index(uint64_t ns)
{
	uint32_t bucket = (uint32_t)(63 - __builtin_clzll(ns | (2 * HISTOGRAM_HALF - 1))) -
			  HISTOGRAM_HALF_BITS;

	return (bucket << HISTOGRAM_HALF_BITS) + (uint32_t)(ns >> bucket);
}

/* Values above the highest value are counted as the highest. */
static inline void histogram_add(struct histogram *h, uint64_t ns, uint64_t times)
{
	if (ns > HISTOGRAM_HIGHEST)
		ns = HISTOGRAM_HIGHEST;
	h->counts[histogram_index(ns)] += times;
	h->count += times;
	h->sum += (unsigned __int128)ns * times;
	h->min = ns < h->min ? ns : h->min;
	h->max = ns > h->max ? ns : h->max;
}

#endif
