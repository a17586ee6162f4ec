/* SPDX-License-Identifier: Apache-2.0 */
/* The Internet checksum (RFC 1071): one's complement sums of 16-bit words. */
#ifndef SWITCHMARK_CHECKSUM_H
#define SWITCHMARK_CHECKSUM_H

#include "inline.h"

#include <stddef.h>
#include <stdint.h>

/* Folds a wide sum to 16 bits; 2^16 = 1 modulo 65535. Each fold adds the two halves in both
 * positions, so the carry of the addition reaches the upper half. */
always_inline uint16_t checksum_fold(uint64_t sum)
{
	uint32_t half;

	sum += sum >> 32 | sum << 32;
	half = (uint32_t)(sum >> 32);
	half += half >> 16 | half << 16;
	return (uint16_t)(half >> 16);
}

/* Adds eight bytes to a sum that may use all its bits, with end-around carry. */
always_inline uint64_t checksum_word(uint64_t sum, uint64_t word)
{
	sum += word;
	return sum + (sum < word);
}

/*
 * Returns the checksum, in host order, of a frame with the next sequence number and otherwise the
 * same bytes: one less. 0xffff and 0 are equal in this arithmetic, and no frame has 0.
 */
always_inline uint16_t checksum_less(uint16_t checksum)
{
	return likely(checksum != 1) ? (uint16_t)(checksum - 1) : 0xffff;
}

/* Returns the sum of the 16-bit words of `len` bytes, in memory order. */
uint64_t checksum_add(const void *data, size_t len);

#endif
