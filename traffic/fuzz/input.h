/* SPDX-License-Identifier: Apache-2.0 */
/* The source of a fuzzer's choices. */
#ifndef SWITCHMARK_FUZZ_INPUT_H
#define SWITCHMARK_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			__builtin_trap();                                                          \
	} while (0)

/* The rest of the input; zeros after its end. */
struct input {
	const uint8_t *data;
	size_t left;
};

static inline uint64_t take(struct input *in, size_t bytes)
{
	uint64_t v = 0;

	for (; bytes; bytes--) {
		v <<= 8;
		if (in->left) {
			v |= *in->data++;
			in->left--;
		}
	}
	return v;
}

/* Returns a number below n. */
static inline uint32_t choose(struct input *in, uint32_t n)
{
	return (uint32_t)take(in, 1) % n;
}

#endif
