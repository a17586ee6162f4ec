/* SPDX-License-Identifier: Apache-2.0 */
#include "sequence.h"

#include <stddef.h>
#include <sys/mman.h>

/* Clears the bits of `count` numbers from `first` on. */
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

void sequence_reset_used(struct sequence *s)
{
	const size_t page = 4096, used = ((s->next < s->bits ? s->next : s->bits) + 63) / 64 * 8;
	uint8_t *window = (uint8_t *)s->window;
	/* The beginning stays, so that a phase does not begin with page faults. */
	const size_t kept = used < page ? used : page;

	memset(window, 0, kept);
	if (used > kept)
		(void)madvise(window + page, used - page, MADV_DONTNEED);
	s->next = s->distinct = s->duplicated = s->reordered = s->beyond = 0;
	s->corrupted = 0;
}

bool sequence_has(const struct sequence *s, uint64_t number)
{
	return number < s->next && (s->window[number / 64] >> (number % 64) & 1);
}

bool sequence_merge(const struct sequence *const *ways, uint32_t count, struct sequence *out)
{
	uint64_t came = 0, distinct = 0, longest = 0;
	uint32_t seen = 0;

	*out = (struct sequence){ 0 };
	for (uint32_t i = 0; i < count; i++) {
		const struct sequence *s = ways[i];

		came += s->distinct + s->duplicated;
		distinct += s->distinct;
		out->duplicated += s->duplicated;
		out->reordered += s->reordered;
		out->corrupted += s->corrupted;
		out->beyond += s->beyond;
		longest = s->next > longest ? s->next : longest;
		seen += s->distinct > 0;
	}
	out->next = longest;
	out->distinct = distinct;
	if (seen < 2)
		return true;
	for (uint32_t i = 0; i < count; i++)
		if (ways[i]->next > ways[i]->bits)
			return false;
	out->distinct = 0;
	for (uint64_t word = 0; word * 64 < longest; word++) {
		uint64_t any = 0;

		for (uint32_t i = 0; i < count; i++)
			if (word * 64 < ways[i]->next)
				any |= ways[i]->window[word];
		out->distinct += (uint64_t)__builtin_popcountll(any);
	}
	out->duplicated = came - out->distinct;
	return true;
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

void sequence_settle(struct sequence *s)
{
	uint64_t held = 0, unseen;

	if (!s->beyond)
		return;
	for (uint64_t i = 0; i < s->bits / 64; i++)
		held += (uint64_t)__builtin_popcountll(s->window[i]);
	/* Of the numbers older than the window, those that are not among the distinct. */
	unseen = s->next - s->bits - (s->distinct - held);
	if (s->beyond > unseen) {
		s->duplicated += s->beyond - unseen;
		s->beyond = unseen;
	}
}
