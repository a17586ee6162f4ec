/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sub-flows: frames of one flow number with different headers, possibly millions of them. The
 * sub-flow of a frame depends only on its sequence number, so both ends know it, and the only table
 * is that of a Zipf distribution. For engines that send several frames of a flow as one packet, runs
 * of consecutive frames have the same sub-flow.
 */
#ifndef SWITCHMARK_SUBFLOWS_H
#define SWITCHMARK_SUBFLOWS_H

#include "template.h"

#define SUBFLOWS_MAX (1u << 24)
#define SUBFLOW_PORTS 32768u /* source ports per destination port */

enum subflow_by { SUBFLOW_PORT, SUBFLOW_IP, SUBFLOW_MAC };
enum subflow_order { ORDER_SEQUENTIAL, ORDER_RANDOM, ORDER_ZIPF };

#define QUANTILE_BITS 14

struct subflows {
	uint32_t count; /* 0: all headers are equal */
	uint32_t first; /* index of the first sub-flow; 0 is the template itself */
	uint32_t step; /* distance from the first sub-flow of a flow to that of the next flow */
	enum subflow_by by;
	enum subflow_order order;
	bool answered; /* source and destination of the varied field were swapped */
	uint64_t seed;
	/* 2^run_bits consecutive frames have the same flow number and the same sub-flow. */
	uint32_t run_bits;
	/* ORDER_ZIPF: the inverse of the distribution at multiples of 2^-QUANTILE_BITS, with eight
	 * fractional bits, interpolated linearly. Else NULL. */
	uint32_t *quantiles;
};

/* Builds the table of a Zipf distribution (exponent 1) if needed. Returns false without memory. */
bool subflows_make(struct subflows *s);
void subflows_free(struct subflows *s);

/* The hash of SplitMix (Steele, Lea and Flood 2014): every bit depends on every bit. */
always_inline uint64_t mix64(uint64_t v)
{
	v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
	v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
	return v ^ (v >> 31);
}

/* Returns the sub-flow of the frame with this sequence number. */
always_inline uint32_t subflow_of(const struct subflows *s, uint32_t seq)
{
	uint64_t drawn;
	uint32_t at, from, to;

	seq >>= s->run_bits;
	if (s->order == ORDER_SEQUENTIAL)
		return s->first + seq % s->count;
	drawn = mix64(s->seed + (uint64_t)seq * 0x9e3779b97f4a7c15u);
	if (s->order == ORDER_RANDOM)
		return s->first + (uint32_t)((drawn >> 32) * s->count >> 32);
	at = (uint32_t)(drawn >> (64 - QUANTILE_BITS));
	from = s->quantiles[at];
	to = s->quantiles[at + 1];
	return s->first +
	       ((from + (uint32_t)((uint64_t)(to - from) * (drawn & 0xffffff) >> 24)) >> 8);
}

/* True if the varied address is an IPv6 address. */
always_inline bool subflow_ip_v6(const struct frame_template *t)
{
	return unlikely(t->tunnel_bytes) ? t->tunnel_bytes == VXLAN6_BYTES : t->v6;
}

/* Returns the offset of the varied address in a frame of this template. */
always_inline uint32_t subflow_ip_at(const struct frame_template *t, bool destination)
{
	if (unlikely(t->tunnel_bytes)) /* the outer address */
		return t->tunnel_bytes - (destination ? 20 : subflow_ip_v6(t) ? 36 : 24);
	/* For IPv6 the last four bytes. */
	return t->payload_at - (destination ? 12 : t->v6 ? 28 : 16);
}

/* Returns both ports in network order: the low part of the number is added to one port, the high
 * part to the other, and neither overflows. */
always_inline uint32_t subflow_ports(const struct subflows *s, const struct frame_template *t,
				     uint32_t number)
{
	const uint32_t low = number % SUBFLOW_PORTS, high = number / SUBFLOW_PORTS;

	return net32(net32(load32(t->head + t->payload_at - UDP_BYTES)) +
		     (s->answered ? high << 16 | low : low << 16 | high));
}

always_inline uint32_t subflow_ip(const struct subflows *s, const struct frame_template *t,
				  uint32_t number)
{
	return net32(net32(load32(t->head + subflow_ip_at(t, s->answered))) + number);
}

/* Returns the offset of the four varied bytes in a frame of this template. */
always_inline uint32_t subflow_at(const struct subflows *s, const struct frame_template *t)
{
	if (s->by == SUBFLOW_PORT)
		return t->payload_at - UDP_BYTES;
	return s->by == SUBFLOW_IP ? subflow_ip_at(t, s->answered) : (s->answered ? 0 : 6) + 2;
}

/* Returns the four varied bytes of a sub-flow, as they appear in its frames. */
always_inline uint32_t subflow_bytes(const struct subflows *s, const struct frame_template *t,
				     uint32_t number)
{
	uint32_t mac;

	if (s->by == SUBFLOW_PORT)
		return subflow_ports(s, t, number);
	if (s->by == SUBFLOW_IP)
		return subflow_ip(s, t, number);
	mac = net32(load32(t->head + subflow_at(s, t)));
	return net32((mac & 0xff000000) | ((mac + number) & 0xffffff));
}

/* Returns the difference that these bytes make to a checksum of the template: 2^32 - 1 is zero in
 * this arithmetic, and keeps the difference positive. */
always_inline uint64_t subflow_differs(const struct subflows *s, const struct frame_template *t,
				       uint32_t bytes)
{
	return (uint64_t)bytes + 0xffffffff - load32(t->head + subflow_at(s, t));
}

/* Returns the difference to the UDP checksum. No checksum covers MACs, and no inner checksum covers
 * the addresses of a tunnel. */
always_inline uint64_t subflow_adds(const struct subflows *s, const struct frame_template *t,
				    uint32_t bytes)
{
	if (s->by == SUBFLOW_MAC || (s->by == SUBFLOW_IP && unlikely(t->tunnel_bytes)))
		return 0;
	return subflow_differs(s, t, bytes);
}

always_inline uint64_t subflow_sum(const struct subflows *s, const struct frame_template *t,
				   uint32_t number)
{
	return subflow_adds(s, t, subflow_bytes(s, t, number));
}

/* Writes these bytes into a frame of the template and updates the checksum of its IP header and the
 * source port of a tunnel. */
always_inline void subflow_put(const struct subflows *s, uint8_t *data,
			       const struct frame_template *t, uint32_t bytes)
{
	store32(data + subflow_at(s, t), bytes);
	if (s->by == SUBFLOW_IP && !subflow_ip_v6(t)) {
		const uint32_t at = subflow_ip_at(t, false) - 2;

		store16(data + at, (uint16_t)~checksum_fold((uint16_t)~load16(t->head + at) +
							    subflow_differs(s, t, bytes)));
	} else if (s->by == SUBFLOW_PORT && unlikely(t->tunnel_bytes)) {
		const uint32_t ports = net32(bytes);

		store16(data + t->tunnel_bytes - 8 - UDP_BYTES,
			net16(vxlan_port((uint16_t)(ports >> 16), (uint16_t)ports)));
	}
}

/* Writes the template of one frame, identified by its flow within the task and its number, to
 * `out`. */
void subflow_template(const struct subflows *s, struct frame_template *out,
		      const struct frame_template *t, uint32_t flow, uint32_t seq);

#endif
