/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the frames of one flow that arrive on several cores as one flow. Each core counts one
 * chunk of sequence numbers by itself. When a core moves to the next chunk, it merges the bits of
 * the finished chunk with those of the other cores, which reveals copies that arrived on different
 * cores. The merged window has a fixed size, however long the phase is. This module does not know
 * tasks.
 */
#ifndef SWITCHMARK_MERGED_H
#define SWITCHMARK_MERGED_H

#include "sequence.h"

#include <stdatomic.h>

#define CHUNK 4096u /* sequence numbers */

struct merged_flow;

/* State shared by the cores of a task. */
struct merged {
	uint32_t cores, flows;
	uint32_t chunks; /* chunks in the merged window of a flow; a power of two */
	uint64_t *windows; /* for each flow, `chunks` chunks */
	/* for each flow and core: bits of other cores for the core's open chunk after that chunk
	 * left the window */
	uint64_t *kept;
	struct merged_flow *list; /* one per flow */
	uint64_t *open; /* for each flow and core: the chunk that the core counts by itself */
};

/* State of one core. */
struct merged_core {
	struct merged *all; /* allocated by core 0 */
	uint32_t core;
	/* owned by the caller: one per flow, with a window of one chunk */
	struct sequence *sequences;
};

/* The result for received frames, and for frames that had been counted before. */
struct merged_found {
	bool fresh; /* new to this core and to the merged window */
	uint64_t copies, bytes; /* frames counted as new by this core, now known to be copies */
};

/* `all` is that of core 0; NULL for core 0 itself. Returns NULL without memory. */
struct merged_core *merged_make(uint32_t core, uint32_t cores, struct sequence *sequences,
				uint32_t flows, struct merged *all);
void merged_free(struct merged_core *c);

/* Forgets all frames. Core 0 calls it first, while all threads are stopped. */
void merged_begin(struct merged_core *c);

/* Counts the first frames of a run with consecutive numbers, `len` bytes each: several new frames
 * in order, or a single frame of any kind. Returns the number of frames counted. */
uint32_t merged_count(struct merged_core *c, uint32_t flow, uint32_t seq, uint32_t count,
		      uint32_t len, struct merged_found *found);

/* True if `count` frames, starting with the expected one, stay in the core's open chunk. In that
 * case their bytes are recorded, and sequence_add or sequence_extend counts them. */
static inline bool merged_stays(struct sequence *s, uint32_t count, uint32_t len)
{
	const uint32_t at = (uint32_t)s->next % CHUNK;

	if (!at || at + count > CHUNK)
		return false;
	s->bytes += count * len;
	return true;
}

/* Call the functions below only while all threads are stopped. */

/* Merges the last chunk of a core with those of the other cores. */
void merged_finish(struct merged_core *c, uint32_t flow, struct merged_found *found);

/* Returns the extended number of a frame received after merged_finish; UINT64_MAX if the frame was
 * seen before or is too old to know. */
uint64_t merged_unseen(const struct merged *m, uint32_t flow, uint32_t seq);

/* Returns the counts of a flow over all cores, after merged_finish. The result has no window;
 * `reordered` is per core. `by_core`: the sequences of the flow. */
struct sequence merged_flow_of(const struct merged *m, uint32_t flow,
			       const struct sequence *const *by_core);

#endif
