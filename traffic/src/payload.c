/* SPDX-License-Identifier: Apache-2.0 */
#include "payload.h"

uint64_t pattern_write(uint8_t *at, uint32_t len, uint32_t seq)
{
	uint64_t sum = 0;
	uint32_t words = len / 8, rest = len % 8;

	for (uint32_t i = 0; i < words; i++) {
		uint64_t v = pattern_word(seq, i);

		store64(at + (size_t)8 * i, v);
		sum += (v & 0xffffffff) + (v >> 32);
	}
	if (rest) {
		uint64_t v = pattern_word(seq, words), last = 0;

		memcpy(at + (size_t)8 * words, &v, rest);
		memcpy(&last, &v, rest);
		sum += (last & 0xffffffff) + (last >> 32);
	}
	return sum;
}

bool pattern_check(const uint8_t *at, uint32_t len, uint32_t seq)
{
	uint32_t words = len / 8, rest = len % 8;
	uint64_t wrong = 0;

	/* No early exit: nearly all frames are intact, and the compiler vectorizes the loop. */
	for (uint32_t i = 0; i < words; i++)
		wrong |= load64(at + (size_t)8 * i) ^ pattern_word(seq, i);
	if (rest) {
		uint64_t v = pattern_word(seq, words), want = 0, have = 0;

		memcpy(&want, &v, rest);
		memcpy(&have, at + (size_t)8 * words, rest);
		wrong |= want ^ have;
	}
	return !wrong;
}
