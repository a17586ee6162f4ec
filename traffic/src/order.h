/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which frames of one flow came to several cores. Each core notes the two moments
 * between which its frames came: at the beginning of a phase for all flows, later only for flows
 * that have come to another core, too. The notes are merged when nothing moves any more. This
 * module knows no tasks.
 *
 * A frame came after the last poll that found nothing, and before the poll that found it. If the
 * kernel noted its time, both moments are that time, by a clock that all cores share. Of two frames
 * on two cores one certainly came first if its later moment is before the earlier moment of the
 * other; otherwise they are a tie.
 */
#ifndef SWITCHMARK_ORDER_H
#define SWITCHMARK_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORDER_BEGINNING 32768u /* the first notes of a core are for all flows */
#define ORDER_MAX (1u << 22) /* notes of a core */

/* Frames of a flow with consecutive numbers that came between the same two moments. */
struct order_note {
	uint64_t low, high; /* ticks, or the kernel's time */
	uint32_t first;
	uint16_t flow, count;
};

/* What the cores of a task share. */
struct order_shared {
	atomic_bool any_spread; /* a flow has come to several cores */
	uint32_t flows;
	uint64_t clock_skew; /* ticks by which the counters of two cores may differ */
	_Atomic uint8_t owners[]; /* of each flow: 1 and the core; 0: nobody yet */
};

struct order {
	struct order_shared *shared; /* core 0 has made it */
	struct order_note *notes;
	uint32_t count;
	uint32_t *noted; /* frames of each flow */
	uint64_t empty; /* ticks: the last poll that found nothing */
	uint32_t core;
};

/* The result for one flow. */
struct order_found {
	uint64_t reordered; /* frames that a later one had overtaken, on whatever core */
	uint64_t ties; /* of the others, frames whose order is unknown */
};

/* `shared` is that of core 0, NULL for itself. NULL without memory. */
struct order *order_make(uint32_t core, uint32_t flows, struct order_shared *shared);
void order_free(struct order *o);
void order_begin(struct order *o);

/* Does the core note anything now? */
static inline bool order_notes(const struct order *o)
{
	return o->count < ORDER_BEGINNING ||
	       atomic_load_explicit(&o->shared->any_spread, memory_order_relaxed);
}

/* Notes a frame that came between two moments. */
void order_note(struct order *o, uint32_t flow, uint32_t number, uint64_t low, uint64_t high);

/* Merges the notes of `cores` cores for each flow that is `wanted`; no note of these flows may be
 * missing. Returns false without memory. */
bool order_count(struct order *const *orders, uint32_t cores, const bool *wanted,
		 struct order_found *found);

#endif
