/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of one flow that came to several cores, counted as one flow. Each core counts a chunk of
 * numbers on its own. When it comes to the next, what it has seen of the last is put to what the
 * others have seen of it: there copies show that came to different cores. What is put together
 * reaches as far back as its memory does, which no length of a phase makes greater. It knows no
 * tasks.
 */
#ifndef SWITCHMARK_MERGED_H
#define SWITCHMARK_MERGED_H

#include "sequence.h"

#include <stdatomic.h>

#define CHUNK 4096u /* numbers */

struct merged_flow;

/* What the cores of a task share. */
struct merged {
	uint32_t cores, flows;
	uint32_t chunks; /* the last so many of a flow are put together; a power of two */
	uint64_t *windows; /* of each flow, so many chunks */
	uint64_t *kept; /* of each flow, by core: what others saw of the chunk it still counts */
	struct merged_flow *list; /* a flow each */
	uint64_t *open; /* of each flow, by core: the chunk that it counts on its own */
};

/* What one of them has. */
struct merged_core {
	struct merged *all; /* core 0 has made it */
	uint32_t core;
	struct sequence *sequences; /* the caller's: of each flow, with a window of a chunk */
};

/* What became of frames that came, and of some that had been counted before. */
struct merged_found {
	bool fresh; /* neither this core nor what is put together had seen them */
	uint64_t copies, bytes; /* counted as fresh by this core, and now found to be copies */
};

/* `all` is that of core 0, NULL for itself. NULL without memory. */
struct merged_core *merged_make(uint32_t core, uint32_t cores, struct sequence *sequences,
				uint32_t flows, struct merged *all);
void merged_free(struct merged_core *c);

/* Forgets all frames. Core 0 comes first, and nothing moves. */
void merged_begin(struct merged_core *c);

/* Counts frames of a flow, `len` bytes each, whose numbers follow each other: as many of them as
 * are fresh alike. Returns how many. */
uint32_t merged_count(struct merged_core *c, uint32_t flow, uint32_t seq, uint32_t count,
		      uint32_t len, struct merged_found *found);

/* Do so many frames, from the expected one on, stay in the chunk that a core counts on its own?
 * Then their bytes are noted, and sequence_add or sequence_extend counts them. */
static inline bool merged_stays(struct sequence *s, uint32_t count, uint32_t len)
{
	const uint32_t at = (uint32_t)s->next % CHUNK;

	if (!at || at + count > CHUNK)
		return false;
	s->bytes += count * len;
	return true;
}

/* The rest is for when nothing moves any more. */

/* Puts what a core has seen of a flow to what the others have. */
void merged_finish(struct merged_core *c, uint32_t flow, struct merged_found *found);

/* The number that a frame has which comes when all is finished; UINT64_MAX if it was seen, or is
 * too old to tell. */
uint64_t merged_unseen(const struct merged *m, uint32_t flow, uint32_t seq);

/* A flow as all cores have counted it, when all is finished. It has no window; `reordered` is
 * within each core. `by_core`: the sequences of the flow. */
struct sequence merged_flow_of(const struct merged *m, uint32_t flow,
			       const struct sequence *const *by_core);

#endif
