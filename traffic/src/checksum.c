/* SPDX-License-Identifier: Apache-2.0 */
#include "checksum.h"

#include "bytes.h"

uint64_t checksum_add(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t sum = 0;

	/* 32-bit halves cannot overflow 64 bits below 2^35 bytes; gcc vectorizes this loop. */
	for (; len >= 8; len -= 8, p += 8) {
		uint64_t v = load64(p);

		sum += (v & 0xffffffff) + (v >> 32);
	}
	if (len) {
		uint64_t v = 0;

		memcpy(&v, p, len);
		sum += (v & 0xffffffff) + (v >> 32);
	}
	return sum;
}
