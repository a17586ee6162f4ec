/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which frames of one flow arrived on several cores. Each core records the two moments
 * between which its frames arrived: at the beginning of a phase for all flows, later only for flows
 * that have also arrived on another core. The notes are merged after all threads have stopped. This
 * module does not know tasks.
 *
 * A frame arrived after the last empty poll and before the poll that returned it. If the kernel
 * timestamped the frame, both moments are that timestamp, by a clock that all cores share. Of two
 * frames on two cores one certainly arrived first if its later moment is before the earlier moment
 * of the other; otherwise the two are a tie.
 */
#ifndef SWITCHMARK_ORDER_H
#define SWITCHMARK_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORDER_BEGINNING 32768u /* the first notes of a core cover all flows */
#define ORDER_MAX (1u << 22) /* notes per core */

/* Frames of a flow with consecutive numbers that arrived between the same two moments. */
struct order_note {
	uint64_t low, high; /* ticks, or the kernel's time */
	uint32_t first;
	uint16_t flow, count;
};

/* State shared by the cores of a task. */
struct order_shared {
	atomic_bool any_spread; /* a flow has arrived on several cores */
	uint32_t flows;
	uint64_t clock_skew; /* maximum difference, in ticks, between the counters of two cores */
	_Atomic uint8_t owners[]; /* for each flow: core number + 1; 0: no core yet */
};

struct order {
	struct order_shared *shared; /* allocated by core 0 */
	struct order_note *notes;
	uint32_t count;
	uint32_t *noted; /* frames per flow */
	uint64_t empty; /* ticks: the last empty poll */
	uint32_t core;
};

/* The result for one flow. */
struct order_found {
	uint64_t reordered; /* frames that a later frame overtook, on any core */
	uint64_t ties; /* other frames whose order is unknown */
};

/* `shared` is that of core 0; NULL for core 0 itself. Returns NULL without memory. */
struct order *order_make(uint32_t core, uint32_t flows, struct order_shared *shared);
void order_free(struct order *o);
void order_begin(struct order *o);

/* True if the core currently takes notes. */
static inline bool order_notes(const struct order *o)
{
	return o->count < ORDER_BEGINNING ||
	       atomic_load_explicit(&o->shared->any_spread, memory_order_relaxed);
}

/* Records a frame that arrived between two moments. */
void order_note(struct order *o, uint32_t flow, uint32_t number, uint64_t low, uint64_t high);

/* Merges the notes of `cores` cores for each flow in `wanted`; the notes of these flows must be
 * complete. Returns false without memory. */
bool order_count(struct order *const *orders, uint32_t cores, const bool *wanted,
		 struct order_found *found);

#endif
