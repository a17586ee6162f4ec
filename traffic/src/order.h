/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order frames of one flow came to several cores. Each core notes between which two moments
 * its frames came: of all flows at the beginning of a phase, later of those alone that have come to
 * another core too. When nothing moves any more the notes are put together. It knows no tasks.
 *
 * A frame came after the last look that found nothing, and before the one that found it; where the
 * kernel noted its time, both are that, of a clock that all cores share. Of two frames on two cores one came first for certain if all
 * of its time is before that of the other; else they are a tie.
 */
#ifndef SWITCHMARK_ORDER_H
#define SWITCHMARK_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORDER_BEGINNING                                                                            \
	32768u /* notes of a core of which it is not asked whether they are needed */
#define ORDER_MAX (1u << 22) /* notes of a core */

/* Frames of a flow with numbers that follow each other, and that came at once. */
struct order_note {
	uint64_t low, high; /* ticks; or what the kernel noted */
	uint32_t first;
	uint16_t flow, count;
};

/* What the cores of a task know of each other. */
struct order_shared {
	atomic_bool mixed; /* some flow has come to several */
	uint32_t flows;
	uint64_t slack; /* ticks by which the counters of two cores may differ */
	_Atomic uint8_t owners[]; /* of each flow: 1 and the core; 0: nobody yet */
};

struct order {
	struct order_shared *shared; /* core 0 has made it */
	struct order_note *notes;
	uint32_t count;
	uint32_t *noted; /* frames of each flow */
	uint64_t empty; /* ticks: the last look that found nothing */
	uint32_t core;
};

/* What was found of a flow. */
struct order_found {
	uint64_t reordered; /* frames that a later one had overtaken, on whatever core */
	uint64_t ties; /* of the others, those of which it cannot be told */
};

/* `shared` is that of core 0, NULL for itself. NULL without memory. */
struct order *order_make(uint32_t core, uint32_t flows, struct order_shared *shared);
void order_free(struct order *o);
void order_begin(struct order *o);

/* Is anything of a burst to be noted? */
static inline bool order_notes(const struct order *o)
{
	return o->count < ORDER_BEGINNING ||
	       atomic_load_explicit(&o->shared->mixed, memory_order_relaxed);
}

/* Notes a frame, which came between two moments. */
void order_note(struct order *o, uint32_t flow, uint32_t number, uint64_t low, uint64_t high);

/*
 * What the notes of `cores` cores say of each flow that is `wanted`; these have to be whole. False
 * without memory.
 */
bool order_count(struct order *const *ways, uint32_t cores, const bool *wanted,
		 struct order_found *found);

#endif
