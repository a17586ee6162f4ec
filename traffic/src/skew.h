/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far the cycle counters of two CPUs are apart: one asks the other, by a cache line, what its
 * counter shows, which it must have shown between question and answer.
 */
#ifndef SWITCHMARK_SKEW_H
#define SWITCHMARK_SKEW_H

#include <stdbool.h>
#include <stdint.h>

struct skew {
	int64_t ticks; /* by which the second CPU's counter is ahead */
	uint64_t within; /* and so many more or less */
};

/* Takes some milliseconds at most. False where a CPU cannot be had, or never answered. */
bool skew_measure(unsigned first, unsigned second, uint64_t ticks_a_ms, struct skew *found);

#endif
