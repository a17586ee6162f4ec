/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longest runs of missing sequence numbers of one flow, and the frames around them: what an
 * outage is computed from (RFC 6201). A frame that arrives late splits the run that it was missing
 * from. The memory is fixed: a flow keeps its longest runs, its earliest one and its latest one, and
 * its longest silence, in which frames may have waited and none is missing.
 */
#ifndef SWITCHMARK_GAPS_H
#define SWITCHMARK_GAPS_H

#include "inline.h"

#include <stdbool.h>
#include <stdint.h>

#define GAPS_KEPT 8u

/* A frame around a gap: its due time and its arrival, in nanoseconds; both 0: there is none. */
struct gap_end {
	uint64_t due_ns, at_ns;
};

struct gap {
	uint64_t first, count; /* the missing numbers; count 0: no gap */
	struct gap_end before, after;
};

struct gaps {
	struct gap_end last; /* the frame with the highest number so far */
	uint32_t kept;
	struct gap list[GAPS_KEPT]; /* in any order */
	struct gap earliest, latest;
	struct gap silence; /* the longest time between two arrivals, and the frames around it */
};

static inline void gaps_begin(struct gaps *g)
{
	*g = (struct gaps){ 0 };
}

/* Records the time without arrivals before a frame. */
always_inline void gaps_hear(struct gaps *g, struct gap_end at)
{
	const uint64_t longest_ns = g->silence.after.at_ns - g->silence.before.at_ns;

	if (unlikely(at.at_ns > g->last.at_ns && at.at_ns - g->last.at_ns > longest_ns) &&
	    g->last.at_ns)
		g->silence = (struct gap){ .before = g->last, .after = at };
}

/* Records the highest frame so far. */
always_inline void gaps_note(struct gaps *g, uint64_t due_ns, uint64_t at_ns)
{
	g->last = (struct gap_end){ due_ns, at_ns };
}

/* Records that `count` numbers from `first` on are missing between the last frame and `after`. */
void gaps_open(struct gaps *g, uint64_t first, uint64_t count, struct gap_end after);

/* Records that a missing frame has arrived. */
void gaps_fill(struct gaps *g, uint64_t number, struct gap_end at);

#endif
