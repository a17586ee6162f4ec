/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of one flow's frames, from their sequence numbers: distinct, duplicated, and
 * reordered as RFC 4737 counts it (a frame is reordered if a later one came before it; type-P-
 * reordered, section 3.4). A window of bits remembers which frames came.
 */
#ifndef SWITCHMARK_SEQUENCE_H
#define SWITCHMARK_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct sequence {
	uint64_t next; /* one more than the highest number so far: NextExp of RFC 4737 */
	uint64_t distinct, duplicated, reordered;
	uint64_t corrupted; /* frames that name this flow and failed their check: of no number */
	uint64_t beyond; /* older than the window: seen before, or not. In no other count */
	uint64_t *window;
	uint32_t bits; /* a power of two, at least 64 */
	uint32_t bytes; /* of frames in the window; of a flow that cores share alone (merged.h) */
}; /* a cache line; in a table of many flows each is one */

/* Forgets all frames: the one with number 0 is expected. */
static inline void sequence_reset(struct sequence *s)
{
	s->next = s->distinct = s->duplicated = s->reordered = s->beyond = 0;
	s->corrupted = s->bytes = 0;
	memset(s->window, 0, s->bits / 8);
}

/* A frame that is not the one expected. True if it was not seen before. */
bool sequence_add_slow(struct sequence *s, uint64_t number);

/* Counts a frame; its 32-bit number is extended by the nearest to what is expected. */
static inline bool sequence_add(struct sequence *s, uint32_t seq)
{
	uint64_t number = s->next + (uint64_t)(int64_t)(int32_t)(seq - (uint32_t)s->next);

	if (__builtin_expect(number == s->next, 1)) {
		uint64_t bit = number & (s->bits - 1);

		s->window[bit / 64] |= 1ull << (bit % 64);
		s->next++;
		s->distinct++;
		return true;
	}
	return sequence_add_slow(s, number);
}

/* Counts `count` frames, at least one, whose numbers follow each other from the expected one on. */
static inline void sequence_extend(struct sequence *s, uint32_t count)
{
	uint64_t bit = s->next & (s->bits - 1);

	s->next += count;
	s->distinct += count;
	for (;;) {
		const uint32_t shift = bit % 64, room = 64 - shift;
		const uint32_t take = count < room ? count : room;

		s->window[bit / 64] |= (~0ull >> (64 - take)) << shift;
		count -= take;
		if (!count)
			return;
		bit = (bit + take) & (s->bits - 1);
	}
}

/* True if a frame that comes when all is counted was not seen before; no count changes. */
bool sequence_add_late(struct sequence *s, uint32_t seq);

/* Counts frames beyond the window as duplicates as far as they must have been seen before: no more
 * of them can be new than numbers older than the window have not come. */
void sequence_settle(struct sequence *s);

/* The same of a window that is elsewhere: `held` frames are in it, and so many numbers are
 * older. */
void sequence_settle_by(struct sequence *s, uint64_t older, uint64_t held);

#endif
