/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: one frame per flow and size is built in advance. Sent frames are copies of a template
 * with an individual sequence number, time and checksum.
 */
#ifndef SWITCHMARK_TEMPLATE_H
#define SWITCHMARK_TEMPLATE_H

#include "checksum.h"
#include "lines.h"
#include "payload.h"

#include <stddef.h>

/*
 * The addresses of one frame: MACs as bytes, the rest in host order; vlan 0: untagged. In a tunnel
 * the ports are those of the inner frame.
 */
struct address {
	uint8_t src_mac[6], dst_mac[6];
	uint32_t src_ip, dst_ip;
	bool v6; /* the IPv6 addresses are used instead */
	uint8_t src_ip6[16], dst_ip6[16];
	uint16_t src_port, dst_port;
	uint16_t vlan;
	uint8_t ttl; /* 0: TTL_SENT */
	bool vxlan; /* the addresses above are the outer ones, those below the inner ones */
	uint32_t vni;
	uint8_t inner_src_mac[6], inner_dst_mac[6];
	uint32_t inner_src_ip, inner_dst_ip;
	bool inner_v6; /* the inner IPv6 addresses are used instead */
	uint8_t inner_src_ip6[16], inner_dst_ip6[16];
};

/*
 * The constant part of the frames of a flow and size. `sum` is the partial checksum of the pseudo
 * header, the UDP header and the payload with sequence number and time 0. `device_sums`: the
 * checksum field holds the sum of the pseudo header, which a device that completes checksums
 * expects.
 */
struct frame_template {
	uint64_t sum;
	uint32_t len; /* of the whole frame */
	uint8_t payload_at; /* offset of our payload */
	bool device_sums, v6;
	/* Bytes in front of the inner frame; 0: no tunnel. In a tunnel `sum`, `v6` and
	 * `device_sums` refer to the inner frame. */
	uint8_t tunnel_bytes;
	uint8_t head[HEAD_BYTES];
} __attribute__((aligned(CACHE_LINE)));

/* A sender reads only the first two cache lines. */
_Static_assert(offsetof(struct frame_template, head) + FRAME_MIN <= (size_t)2 * CACHE_LINE,
	       "a usual frame is made from more than two lines");

/*
 * Builds a template for frames of `len` bytes (at least FRAME_MIN, or PAYLOAD_BYTES with
 * `headless`). `headless`: the frame is the UDP payload, because the kernel writes the headers.
 */
void template_make(struct frame_template *t, const struct address *a, uint32_t len, uint32_t run,
		   uint16_t flow, uint8_t phase, bool headless);

/* Leaves the UDP checksum of a template with headers to the sending device. */
void template_leave_sum(struct frame_template *t);

/* Sets run, flow and phase, and updates the sum. */
void template_set(struct frame_template *t, uint32_t run, uint16_t flow, uint8_t phase);

/* Returns the length of the shortest frame with these headers. */
always_inline uint32_t frame_least(const struct address *a)
{
	return FRAME_MIN + (a->vlan ? VLAN_BYTES : 0) + (a->v6 ? IP6_BYTES - IP_BYTES : 0) +
	       (a->vxlan ? VXLAN_BYTES : 0) + (a->inner_v6 ? IP6_BYTES - IP_BYTES : 0);
}

/*
 * True if memory that held one of our frames holds a frame of this template. Compares run, flow,
 * phase and length, and the MACs, because a switch may have changed them.
 */
always_inline bool frame_is_of(const uint8_t *data, const struct frame_template *t, bool headless)
{
	uint32_t at = headless ? 0 : t->payload_at;
	const uint8_t *head = t->head;
	uint64_t differs = (load64(data + at) ^ load64(head + at)) & net64(~(uint64_t)0xffff);

	if (!headless) {
		differs |= load64(data) ^ load64(head);
		differs |= load64(data + 8) ^ load64(head + 8);
		differs |= load16(data + at - 4) ^ load16(head + at - 4); /* length */
	}
	return !differs;
}

/* True if memory holds a frame of this template's run, in the warm-up or measured phase, of one
 * of `flows` flows from `first` on. The phase bit of an announcement makes its flow number too
 * large. */
always_inline bool frame_is_from(const uint8_t *data, const struct frame_template *t, bool headless,
				 uint32_t first, uint32_t flows)
{
	const uint32_t at = headless ? 0 : t->payload_at;
	const uint32_t flow = net16(load16(data + at + 4)) & ~(PHASE_MEASURED * FLOW_MAX);

	return load32(data + at) == load32(t->head + at) && flow - first < flows;
}

/* Writes bytes 80 to `head` of a frame in a tunnel. */
void frame_prepare_tunnel(uint8_t *data, const struct frame_template *t, uint32_t head);

/* Writes the bytes that all frames of a template share, and zeros from the end of the payload up
 * to `blank` bytes of the frame. `blank` 0: the zeros exist already, or the caller writes a
 * pattern. */
always_inline void frame_prepare(uint8_t *data, const struct frame_template *t, bool headless,
				 uint32_t blank)
{
	const uint32_t head = (headless ? 0 : t->payload_at) + PAYLOAD_BYTES;

	/* The compiler must know these sizes: a variable one becomes `rep movs`, 6 ns per frame. */
	if (headless) {
		memcpy(data, t->head, PAYLOAD_BYTES);
	} else {
		memcpy(data, t->head, FRAME_MIN);
		if (head > FRAME_MIN)
			memcpy(data + FRAME_MIN, t->head + FRAME_MIN, VLAN_BYTES);
		if (unlikely(head > 64)) {
			memcpy(data + 64, t->head + 64, 16);
			if (t->tunnel_bytes)
				frame_prepare_tunnel(data, t, head);
			else if (head > 80)
				memcpy(data + 80, t->head + 80, VLAN_BYTES);
		}
	}
	if (blank > head)
		memset(data + head, 0, blank - head);
}

/* Writes the bytes that differ between frames: with TOUCH_NONE no bytes, with TOUCH_HEADER the
 * payload and the checksum, with TOUCH_FULL all bytes after the headers. */
always_inline void frame_stamp(uint8_t *data, const struct frame_template *t, uint32_t seq,
			       uint64_t time_net, uint64_t time_sum, enum touch touch,
			       bool headless, bool device_sums)
{
	const uint32_t at = headless ? 0 : t->payload_at, head = at + PAYLOAD_BYTES;
	uint64_t sum = t->sum + time_sum;
	uint32_t seq_net = net32(seq);

	/* The device may have completed the checksum in this memory. */
	if (device_sums)
		store16(data + at - 2, load16(t->head + at - 2));
	if (touch == TOUCH_NONE)
		return;
	if (touch == TOUCH_FULL && t->len > head)
		sum += pattern_write(data + head, t->len - head, seq);
	store32(data + at + 6, seq_net);
	store64(data + at + 10, time_net);
	if (!headless && !device_sums) {
		uint16_t checksum = (uint16_t)~checksum_fold(sum + seq_net);

		store16(data + at - 2, checksum ? checksum : 0xffff);
	}
}

/* Writes one frame of a template into `data`. `prepared`: the memory already holds a frame of the
 * template, so only the varying bytes are written. */
always_inline void frame_write(uint8_t *data, const struct frame_template *t, uint32_t seq,
			       uint64_t time_net, uint64_t time_sum, enum touch touch,
			       bool headless, bool prepared, bool device_sums)
{
	if (!prepared)
		frame_prepare(data, t, headless, touch == TOUCH_FULL ? 0 : t->len);
	frame_stamp(data, t, seq, time_net, time_sum, touch, headless, device_sums);
}

/* Writes the checksum of a frame with the template's payload whose headers add `differs` to the
 * sum. With `only_ports` only the ports differ, which are not part of the pseudo-header sum that a
 * completing device expects. */
always_inline void frame_sum(uint8_t *data, const struct frame_template *t, uint64_t differs,
			     bool only_ports)
{
	uint16_t checksum = checksum_fold(t->sum + (only_ports ? 0 : differs));

	if (!t->device_sums) {
		checksum = (uint16_t)~checksum;
		checksum = checksum ? checksum : 0xffff;
	}
	store16(data + t->payload_at - 2, checksum);
}

/* Like frame_write, with the checksum computed in software. */
always_inline void frame_build(uint8_t *data, const struct frame_template *t, uint32_t seq,
			       uint64_t time_net, uint64_t time_sum, enum touch touch,
			       bool headless, bool prepared)
{
	frame_write(data, t, seq, time_net, time_sum, touch, headless, prepared, false);
}

#endif
