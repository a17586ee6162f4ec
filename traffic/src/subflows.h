/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of one flow number whose headers differ all the same: its sub-flows, of which there may
 * be millions. Which of them a frame belongs to follows from its sequence number alone, so that
 * both ends know it and no table is needed but that of a Zipf distribution.
 */
#ifndef SWITCHMARK_SUBFLOWS_H
#define SWITCHMARK_SUBFLOWS_H

#include "template.h"

#define SUBFLOWS_MAX (1u << 24)
#define SUBFLOW_PORTS 32768u /* source ports; then the destination port is the next */

enum subflow_by { SUBFLOW_PORT, SUBFLOW_IP, SUBFLOW_MAC };
enum subflow_order { ORDER_SEQUENTIAL, ORDER_RANDOM, ORDER_ZIPF };

#define QUANTILE_BITS 14

struct subflows {
	uint32_t count; /* 0: no headers differ */
	uint32_t first; /* of these, among those that differ from the template */
	uint32_t step; /* from the first one of a flow to that of the next */
	enum subflow_by by;
	enum subflow_order order;
	bool answered; /* what differs was swapped with its other end */
	uint64_t seed;
	/* ORDER_ZIPF: where the inverse of the distribution is at each 2^-QUANTILE_BITS, with eight
	 * fractional bits; between them it is a line. Else NULL. */
	uint32_t *quantiles;
};

/* Makes the table of a Zipf distribution (exponent 1) where one is needed. False without memory. */
bool subflows_make(struct subflows *s);
void subflows_free(struct subflows *s);

/* The hash of SplitMix (Steele, Lea and Flood 2014): every bit depends on every bit. */
always_inline uint64_t mix64(uint64_t v)
{
	v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
	v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
	return v ^ (v >> 31);
}

/* The sub-flow of the frame with that number. */
always_inline uint32_t subflow_of(const struct subflows *s, uint32_t seq)
{
	uint64_t drawn;
	uint32_t at, from, to;

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

/* Is the address that differs one of IPv6? */
always_inline bool subflow_ip_v6(const struct frame_template *t)
{
	return unlikely(t->tunnel_bytes) ? t->tunnel_bytes == VXLAN6_BYTES : t->v6;
}

/* Where in a frame of this template the address is that differs. */
always_inline uint32_t subflow_ip_at(const struct frame_template *t, bool destination)
{
	if (unlikely(t->tunnel_bytes)) /* that of the tunnel */
		return t->tunnel_bytes - (destination ? 20 : subflow_ip_v6(t) ? 36 : 24);
	/* Of IPv6 the last four bytes. */
	return t->payload_at - (destination ? 12 : t->v6 ? 28 : 16);
}

/* Both ports, as they stand in the header: the low part of the number is added to one, the high
 * part to the other, and neither goes beyond the last. */
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

/* Where in a frame of this template the four bytes begin that differ. */
always_inline uint32_t subflow_at(const struct subflows *s, const struct frame_template *t)
{
	if (s->by == SUBFLOW_PORT)
		return t->payload_at - UDP_BYTES;
	return s->by == SUBFLOW_IP ? subflow_ip_at(t, s->answered) : (s->answered ? 0 : 6) + 2;
}

/* These four bytes of a sub-flow, as they stand in its frames. */
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

/* What such bytes add to a checksum of the template's: 2^32 - 1 is nothing in this arithmetic, and
 * no difference is below 0. */
always_inline uint64_t subflow_differs(const struct subflows *s, const struct frame_template *t,
				       uint32_t bytes)
{
	return (uint64_t)bytes + 0xffffffff - load32(t->head + subflow_at(s, t));
}

/* What they add to that of UDP. MACs are in no checksum, addresses of a tunnel in none inside. */
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

/* Writes these bytes into a frame of the template, with the checksum of its IP header, and with the
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

/* The template that a frame was made of, by its flow among those of the task, and its number. */
void subflow_template(const struct subflows *s, struct frame_template *out,
		      const struct frame_template *t, uint32_t flow, uint32_t seq);

#endif
