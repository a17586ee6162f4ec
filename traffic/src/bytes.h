/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and stores at any alignment, and network byte order. */
#ifndef SWITCHMARK_BYTES_H
#define SWITCHMARK_BYTES_H

#include "inline.h"

#include <stdint.h>
#include <string.h>

always_inline uint16_t load16(const void *at)
{
	uint16_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

always_inline uint32_t load32(const void *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

always_inline uint64_t load64(const void *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

always_inline void store16(void *at, uint16_t v)
{
	memcpy(at, &v, sizeof(v));
}

always_inline void store32(void *at, uint32_t v)
{
	memcpy(at, &v, sizeof(v));
}

always_inline void store64(void *at, uint64_t v)
{
	memcpy(at, &v, sizeof(v));
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define net16(v) __builtin_bswap16(v)
#define net32(v) __builtin_bswap32(v)
#define net64(v) __builtin_bswap64(v)
#else
#define net16(v) (v)
#define net32(v) (v)
#define net64(v) (v)
#endif

/* Returns eight bytes: the two bytes of `first`, then the first six of `next`. */
always_inline uint64_t word_join(uint16_t first, uint64_t next)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return first | next << 16;
#else
	return (uint64_t)first << 48 | next >> 16;
#endif
}

#endif
