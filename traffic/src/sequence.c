/* SPDX-License-Identifier: Apache-2.0 */
#include "sequence.h"

#include <stddef.h>

/* Clears the bits of `count` numbers, starting with `first`. */
static void window_clear(struct sequence *s, uint64_t first, uint64_t count)
{
	if (count >= s->bits) {
		memset(s->window, 0, s->bits / 8);
		return;
	}
	for (; count; count--, first++) {
		uint64_t bit = first & (s->bits - 1);

		if (!(bit % 64) && count >= 64) {
			s->window[bit / 64] = 0;
			first += 63;
			count -= 63;
			continue;
		}
		s->window[bit / 64] &= ~(1ull << (bit % 64));
	}
}

bool sequence_add_slow(struct sequence *s, uint64_t number)
{
	uint64_t bit = number & (s->bits - 1), mask = 1ull << (bit % 64);

	if ((int64_t)(number - s->next) >= 0) {
		window_clear(s, s->next, number - s->next);
		s->window[bit / 64] |= mask;
		s->next = number + 1;
		s->distinct++;
		return true;
	}
	if (s->next - number > s->bits) {
		s->beyond++;
		return false;
	}
	if (s->window[bit / 64] & mask) {
		s->duplicated++;
		return false;
	}
	s->window[bit / 64] |= mask;
	s->reordered++;
	s->distinct++;
	return true;
}

bool sequence_add_late(struct sequence *s, uint32_t seq)
{
	const struct sequence counted = *s;
	const bool fresh = sequence_add(s, seq);
	const uint64_t next = s->next;

	*s = counted;
	s->next = next;
	return fresh;
}

void sequence_settle_by(struct sequence *s, uint64_t older, uint64_t held)
{
	/* Numbers older than the window that have not arrived. */
	const uint64_t unseen = older - (s->distinct - held);

	if (s->beyond > unseen) {
		s->duplicated += s->beyond - unseen;
		s->beyond = unseen;
	}
}

void sequence_settle(struct sequence *s)
{
	uint64_t held = 0;

	if (!s->beyond)
		return;
	for (uint64_t i = 0; i < s->bits / 64; i++)
		held += (uint64_t)__builtin_popcountll(s->window[i]);
	sequence_settle_by(s, s->next - s->bits, held);
}
