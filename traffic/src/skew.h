/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the offset between the cycle counters of two CPUs: one requests the other's counter
 * value through a cache line and knows that the value was read between request and reply.
 */
#ifndef SWITCHMARK_SKEW_H
#define SWITCHMARK_SKEW_H

#include <stdbool.h>
#include <stdint.h>

struct skew {
	int64_t ticks; /* the second CPU's counter minus the first CPU's */
	uint64_t within; /* maximum error of `ticks` */
};

/* Takes a few milliseconds at most. Returns false if a CPU is unavailable or did not respond. */
bool skew_measure(unsigned first, unsigned second, uint64_t ticks_a_ms, struct skew *found);

#endif
