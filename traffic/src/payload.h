/* SPDX-License-Identifier: Apache-2.0 */
/* The 18 bytes of payload in each test frame, and the pattern that follows them. */
#ifndef SWITCHMARK_PAYLOAD_H
#define SWITCHMARK_PAYLOAD_H

#include "frames.h"

#include <stdbool.h>

struct payload {
	uint32_t run;
	uint16_t flow; /* without the phase */
	uint8_t phase;
	uint32_t seq;
	uint64_t time_ns;
};

always_inline uint16_t payload_flow(const void *payload)
{
	return net16(load16((const uint8_t *)payload + 4)) & (FLOW_MAX - 1);
}

always_inline void payload_read(struct payload *out, const uint8_t *p)
{
	const uint16_t word = net16(load16(p + 4));

	out->run = net32(load32(p));
	out->flow = word & (FLOW_MAX - 1);
	out->phase = (uint8_t)(word >> 14);
	out->seq = net32(load32(p + 6));
	out->time_ns = net64(load64(p + 10));
}

/* The time in network order, and its part of the checksum. */
always_inline uint64_t time_to_net(uint64_t ns)
{
	return net64(ns);
}

always_inline uint64_t time_sum(uint64_t time_net)
{
	return (time_net & 0xffffffff) + (time_net >> 32);
}

/* Returns eight bytes of the pattern that touch `full` writes after the payload. */
always_inline uint64_t pattern_word(uint32_t seq, uint32_t word)
{
	return ((uint64_t)seq + 1) * 0x9e3779b97f4a7c15u + (uint64_t)word * 0xd1342543de82ef95u;
}

/* Writes the pattern and returns its sum. */
uint64_t pattern_write(uint8_t *at, uint32_t len, uint32_t seq);

/* True if every byte of the pattern is correct. */
bool pattern_check(const uint8_t *at, uint32_t len, uint32_t seq);

#endif
