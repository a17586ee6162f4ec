/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counts of a phase by interval. A frame is sent, and found missing, in the interval of its due
 * time, which its payload carries. It is received in the interval of its arrival, by the receiver's
 * clock. The last interval holds what arrives after the phase. This module does not know tasks.
 *
 * The thread of a task writes the counts. Another thread may read them at the same time, so they
 * are atomic; a count has one writer.
 */
#ifndef SWITCHMARK_SERIES_H
#define SWITCHMARK_SERIES_H

#include "inline.h"
#include "lines.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SERIES_MAX 4096u /* intervals of a phase; a longer one has its rest in the last */
#define SERIES_HALF_BITS 5
#define SERIES_HALF (1u << SERIES_HALF_BITS) /* bins per octave: a bin is 3 % wide */
#define SERIES_HIGHEST 100000000000u /* nanoseconds; later frames are counted as the latest */
#define SERIES_BINS 1056u

/* What is counted in one interval. */
struct series_cell {
	_Atomic uint64_t sent, arrived; /* frames due in the interval; `arrived`: distinct ones */
	_Atomic uint64_t received; /* distinct frames that arrived in the interval */
	_Atomic uint64_t duplicated, reordered; /* the same */
	_Atomic uint64_t highest; /* the highest latency of those frames */
	_Atomic uint64_t *bins; /* SERIES_BINS latencies of those frames; NULL: not recorded */
};

/* An interval, and its place in time. */
struct series_place {
	uint64_t from_ns, length_ns;
	uint32_t index;
};

struct series {
	uint64_t start_ns, interval_ns;
	uint32_t room; /* cells allocated */
	uint32_t count; /* cells of this phase, with the one after the phase */
	struct series_place due, arrival; /* of the last frame */
	struct series_cell *cells;
	_Atomic uint64_t *bins;
};

/* Allocates the intervals of a phase of at most `longest_ns`, with latencies if `timed`. Returns NULL
 * without memory. */
struct series *series_make(uint64_t longest_ns, uint64_t interval_ns, bool timed);
void series_free(struct series *s);

/* Forgets all frames; a phase begins at `start_ns`. */
void series_begin(struct series *s, uint64_t start_ns, uint64_t duration_ns);

/* Finds the interval of a time, at most `last`. */
void series_find(const struct series *s, struct series_place *p, uint64_t ns, uint32_t last);

always_inline void series_count(_Atomic uint64_t *count, uint64_t by)
{
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + by,
			      memory_order_relaxed);
}

/* Returns the interval in which a frame with this due time is sent, and missing if it is lost. */
always_inline struct series_cell *series_due(struct series *s, uint64_t due_ns)
{
	if (unlikely(due_ns - s->due.from_ns >= s->due.length_ns))
		series_find(s, &s->due, due_ns, s->count - 2);
	return &s->cells[s->due.index];
}

/* Returns the interval in which a frame arrives. */
always_inline struct series_cell *series_arrival(struct series *s, uint64_t at_ns)
{
	if (unlikely(at_ns - s->arrival.from_ns >= s->arrival.length_ns))
		series_find(s, &s->arrival, at_ns, s->count - 1);
	return &s->cells[s->arrival.index];
}

/* Returns the due time from which a later frame with the same delay has another interval. */
uint64_t series_until(struct series *s, uint64_t due_ns, int64_t delay_ns);

always_inline uint32_t series_bin(uint64_t ns)
{
	const uint32_t bucket =
		(uint32_t)(63 - __builtin_clzll(ns | (2 * SERIES_HALF - 1))) - SERIES_HALF_BITS;

	return (bucket << SERIES_HALF_BITS) + (uint32_t)(ns >> bucket);
}

/* Counts distinct frames with the same due time (or with the same intervals) and the same delay. */
always_inline void series_receive(struct series *s, uint64_t due_ns, int64_t delay_ns,
				  uint64_t frames)
{
	struct series_cell *cell = series_arrival(s, due_ns + (uint64_t)delay_ns);
	uint64_t ns = delay_ns > 0 ? (uint64_t)delay_ns : 0;

	series_count(&series_due(s, due_ns)->arrived, frames);
	series_count(&cell->received, frames);
	ns = ns < SERIES_HIGHEST ? ns : SERIES_HIGHEST;
	series_count(&cell->bins[series_bin(ns)], frames);
	if (unlikely(ns > atomic_load_explicit(&cell->highest, memory_order_relaxed)))
		atomic_store_explicit(&cell->highest, ns, memory_order_relaxed);
}

/* Takes back the last `frames` frames that were counted as sent. */
void series_unsend(struct series *s, uint64_t frames);

/* Takes back distinct frames of the last intervals, which were copies. */
void series_forget(struct series *s, uint64_t frames);

/* Reports `count` intervals from `first` on, added over several cores: a list per kind of count. */
json_t *series_report(struct series *const *cores, uint32_t core_count, uint32_t first,
		      uint32_t count);

#endif
