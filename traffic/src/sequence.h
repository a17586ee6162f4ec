/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies the frames of one flow by their sequence numbers: distinct, duplicated, and reordered
 * as RFC 4737 defines it (a frame is reordered if a later one arrived before it; type-P-reordered,
 * section 3.4). A window of bits records which frames have arrived.
 */
#ifndef SWITCHMARK_SEQUENCE_H
#define SWITCHMARK_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct sequence {
	uint64_t next; /* one more than the highest number so far: NextExp of RFC 4737 */
	uint64_t distinct, duplicated, reordered;
	uint64_t corrupted; /* corrupted frames with this flow number; without a sequence number */
	/* older than the window, maybe duplicates; not included in any other counter */
	uint64_t beyond;
	uint64_t *window;
	uint32_t bits; /* a power of two, at least 64 */
	/* of frames in the window; only for a flow shared by several cores (merged.h) */
	uint32_t bytes;
}; /* one cache line, because a table may hold many flows */

/* Forgets all frames and expects number 0. */
static inline void sequence_reset(struct sequence *s)
{
	s->next = s->distinct = s->duplicated = s->reordered = s->beyond = 0;
	s->corrupted = s->bytes = 0;
	memset(s->window, 0, s->bits / 8);
}

/* Counts a frame that is not the expected one. Returns true if it was not seen before. */
bool sequence_add_slow(struct sequence *s, uint64_t number);

/* Counts a frame. Its 32-bit number is extended to the value nearest to the expected number. */
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

/* Counts `count` frames, at least one, with consecutive numbers from the expected one on. */
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

/* Returns true if a frame received after all counting was not seen before; changes no counter. */
bool sequence_add_late(struct sequence *s, uint32_t seq);

/* Counts frames beyond the window as duplicates as far as they must be: at most as many of them can
 * be new as numbers older than the window are missing. */
void sequence_settle(struct sequence *s);

/* Like sequence_settle for a window stored elsewhere, which holds `held` frames; `older` numbers
 * precede the window. */
void sequence_settle_by(struct sequence *s, uint64_t older, uint64_t held);

#endif
