/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test frames: Ethernet, an optional 802.1Q tag, IPv4 or IPv6, UDP and 18 bytes of payload that are
 * ours, in network order:
 *
 *     0  run     u32   the trial's run id; a frame of another run is foreign
 *     4  flow    u16   phase in the two upper bits, flow number below
 *     6  seq     u32   counts from 0 in each flow and phase
 *    10  time    u64   when the frame should have left, nanoseconds
 *
 * What follows is zero, or with touch `full` a pattern of the sequence number. The UDP
 * checksum is always right: it is the check against corruption.
 */
#ifndef SWITCHMARK_FRAMES_H
#define SWITCHMARK_FRAMES_H

#include "engine.h"

#include <string.h>

#define ETH_BYTES 14
#define VLAN_BYTES 4
#define IP_BYTES 20
#define IP6_BYTES 40
#define UDP_BYTES 8
#define PAYLOAD_BYTES 18
#define TTL_SENT 64
#define FRAME_MIN 60 /* without the FCS */
#define FLOW_MAX 16384
#define HEAD_BYTES 96 /* all headers, tag and payload fit */

enum touch { TOUCH_NONE, TOUCH_HEADER, TOUCH_FULL };
enum phase { PHASE_WARMUP, PHASE_MEASURED, PHASE_ANNOUNCE };

/* The addresses of one frame; MACs as bytes, the rest in host order. vlan 0: untagged. */
struct address {
	uint8_t src_mac[6], dst_mac[6];
	uint32_t src_ip, dst_ip;
	bool v6; /* then in place of these: */
	uint8_t src_ip6[16], dst_ip6[16];
	uint16_t src_port, dst_port;
	uint16_t vlan;
	uint8_t ttl; /* 0: TTL_SENT */
};

/*
 * A frame but for what changes from frame to frame. `sum` is the checksum's partial sum of
 * the pseudo header, the UDP header and the payload with sequence number and time as zero.
 * `device_sums`: in place of the checksum stands the pseudo header's sum, as a device that
 * completes it wants.
 */
struct frame_template {
	uint8_t head[HEAD_BYTES];
	uint64_t sum;
	uint32_t len; /* of the whole frame */
	uint8_t payload_at; /* where our payload begins */
	uint8_t head_len; /* payload_at + PAYLOAD_BYTES */
	bool device_sums, v6;
} __attribute__((aligned(CACHE_LINE)));

/* What the parser found. */
enum verdict_of_frame { FRAME_OURS, FRAME_CORRUPT, FRAME_FOREIGN };

struct payload {
	uint32_t run;
	uint16_t flow; /* number only */
	uint8_t phase;
	uint32_t seq;
	uint64_t time_ns;
};

/*
 * Makes a template for frames of len bytes (FRAME_MIN at least, PAYLOAD_BYTES at least with
 * headless). `headless` leaves the headers to the kernel: the frame is the UDP payload.
 */
void template_make(struct frame_template *t, const struct address *a, uint32_t len, uint32_t run,
		   uint16_t flow, uint8_t phase, bool headless);

/* Leaves the UDP checksum of a template with headers to the device that sends its frames. */
void template_leave_sum(struct frame_template *t);

/* Sets run and phase anew, the sum with them. */
void template_set(struct frame_template *t, uint32_t run, uint16_t flow, uint8_t phase);

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

always_inline uint16_t load16(const void *at)
{
	uint16_t v;

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

always_inline uint16_t payload_flow(const void *payload)
{
	return net16(load16((const uint8_t *)payload + 4)) & (FLOW_MAX - 1);
}

/* The shortest frame with such headers. */
always_inline uint32_t frame_least(const struct address *a)
{
	return FRAME_MIN + (a->vlan ? VLAN_BYTES : 0) + (a->v6 ? IP6_BYTES - IP_BYTES : 0);
}

/* The 16-bit one's complement sum of a wide one; 2^16 = 1 modulo 65535. */
always_inline uint16_t checksum_fold(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Sum of the 16-bit words of a run of bytes, in memory order. */
uint64_t checksum_add(const void *data, size_t len);

/* What touch `full` writes behind the payload: 8 bytes at a time, from the sequence number. */
always_inline uint64_t pattern_word(uint32_t seq, uint32_t word)
{
	return ((uint64_t)seq + 1) * 0x9e3779b97f4a7c15u + (uint64_t)word * 0xd1342543de82ef95u;
}

/* Writes the pattern and returns its sum. */
uint64_t pattern_write(uint8_t *at, uint32_t len, uint32_t seq);

/* Is every byte of it right? */
bool pattern_check(const uint8_t *at, uint32_t len, uint32_t seq);

/*
 * Does memory that held a frame of ours hold one of this template? Its payload tells by run,
 * flow and phase; a switch that writes into what it forwards changes the MACs.
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

/*
 * Writes one frame into `data` from its template; where it is `prepared`, that is, holds a frame
 * of the template already, only what changes. With TOUCH_NONE that is nothing, with TOUCH_HEADER
 * the payload and the checksum, with TOUCH_FULL all bytes behind the headers.
 */
always_inline void frame_write(uint8_t *data, const struct frame_template *t, uint32_t seq,
			       uint64_t time_net, uint64_t time_sum, enum touch touch,
			       bool headless, bool prepared, bool device_sums)
{
	uint32_t at = headless ? 0 : t->payload_at;
	uint32_t head = at + PAYLOAD_BYTES;
	uint64_t sum = t->sum + time_sum;
	uint32_t seq_net = net32(seq);

	if (!prepared) {
		/* Sizes known to the compiler: a variable one becomes `rep movs`, 6 ns a frame. */
		if (headless) {
			memcpy(data, t->head, PAYLOAD_BYTES);
		} else {
			memcpy(data, t->head, FRAME_MIN);
			if (t->head_len > FRAME_MIN)
				memcpy(data + FRAME_MIN, t->head + FRAME_MIN, VLAN_BYTES);
			if (unlikely(t->v6)) {
				memcpy(data + 64, t->head + 64, 16);
				if (t->head_len > 80)
					memcpy(data + 80, t->head + 80, VLAN_BYTES);
			}
		}
		if (touch != TOUCH_FULL && t->len > head)
			memset(data + head, 0, t->len - head);
	}
	/* The device may have completed it in this memory. */
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

/* Writes the checksum of a frame whose headers differ from the template's, and its payload not; what
 * they differ by is a sum. Or leaves it to the device, whose part does not cover ports. */
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

/* The same, with the checksum made here. */
always_inline void frame_build(uint8_t *data, const struct frame_template *t, uint32_t seq,
			       uint64_t time_net, uint64_t time_sum, enum touch touch,
			       bool headless, bool prepared)
{
	frame_write(data, t, seq, time_net, time_sum, touch, headless, prepared, false);
}

/* Time as it stands in a frame, and its part of the checksum. */
always_inline uint64_t time_to_net(uint64_t ns)
{
	return net64(ns);
}

always_inline uint64_t time_sum(uint64_t time_net)
{
	return (time_net & 0xffffffff) + (time_net >> 32);
}

/*
 * Reads one frame. With TOUCH_FULL every byte is checked, with TOUCH_HEADER the headers and
 * the payload (what follows is taken to be zero), with TOUCH_NONE only the run id. A device
 * that has found the checksum good or bad is believed, and nothing is added up.
 */
always_inline enum verdict_of_frame frame_judge(const uint8_t *data, uint32_t len, uint32_t run,
						struct payload *out, enum touch touch,
						bool headless, enum device_sum device)
{
	const uint8_t *p = data;

	if (!headless) {
		const uint8_t *ip = data + ETH_BYTES;
		uint16_t type;
		bool v6;

		if (unlikely(len < FRAME_MIN))
			return FRAME_FOREIGN;
		if (load16(data + 12) == net16(0x8100)) {
			if (unlikely(len < FRAME_MIN + VLAN_BYTES))
				return FRAME_FOREIGN;
			ip += VLAN_BYTES;
		}
		type = load16(ip - 2);
		v6 = type == net16(0x86dd);
		p = ip + IP_BYTES + UDP_BYTES;
		if (unlikely(v6)) {
			p = ip + IP6_BYTES + UDP_BYTES;
			if (len < (size_t)(p - data) + PAYLOAD_BYTES)
				return FRAME_FOREIGN;
		}
		if (load32(p) != net32(run) || (type != net16(0x0800) && !v6))
			return FRAME_FOREIGN;
		if (touch != TOUCH_NONE) {
			const uint8_t *udp = p - UDP_BYTES;
			uint32_t udp_len = net16(load16(udp + 4));
			bool right;
			uint64_t sum;

			/* What it says of itself, even if it turns out to be corrupt. */
			out->flow = payload_flow(p);
			if (likely(!v6))
				right = ip[0] == 0x45 && ip[9] == 17 &&
					net16(load16(ip + 2)) == udp_len + IP_BYTES;
			else
				right = ip[0] >> 4 == 6 && ip[6] == 17 &&
					net16(load16(ip + 4)) == udp_len;
			if (unlikely(!right || udp_len < UDP_BYTES + PAYLOAD_BYTES ||
				     udp + udp_len > data + len))
				return FRAME_CORRUPT;
			if (unlikely(device == DEVICE_SUM_BAD))
				return FRAME_CORRUPT;
			/* In a frame that carries no checksum a device finds nothing wrong. */
			if (device == DEVICE_SUM_UNKNOWN || unlikely(!load16(udp + 6))) {
				/* pseudo header: addresses, protocol, length */
				sum = net16(17) + (uint64_t)load16(udp + 4);
				if (likely(!v6))
					sum += (uint64_t)load32(udp - 8) + load32(udp - 4);
				else
					sum += checksum_add(udp - 32, 32);
				sum += (uint64_t)load32(udp) + load32(udp + 4);
				sum += (uint64_t)load32(p) + load32(p + 4) + load32(p + 8) +
				       load32(p + 12) + load16(p + 16);
				if (touch == TOUCH_FULL && udp_len > UDP_BYTES + PAYLOAD_BYTES)
					sum += checksum_add(p + PAYLOAD_BYTES,
							    udp_len - UDP_BYTES - PAYLOAD_BYTES);
				if (unlikely(checksum_fold(sum) != 0xffff))
					return FRAME_CORRUPT;
			}
			len = udp_len - UDP_BYTES;
		}
	} else if (unlikely(len < PAYLOAD_BYTES) || load32(p) != net32(run)) {
		return FRAME_FOREIGN;
	}
	out->run = run;
	out->flow = net16(load16(p + 4)) & (FLOW_MAX - 1);
	out->phase = (uint8_t)(net16(load16(p + 4)) >> 14);
	out->seq = net32(load32(p + 6));
	out->time_ns = net64(load64(p + 10));
	if (touch == TOUCH_FULL && len > PAYLOAD_BYTES && out->phase != PHASE_ANNOUNCE &&
	    unlikely(!pattern_check(p + PAYLOAD_BYTES, len - PAYLOAD_BYTES, out->seq)))
		return FRAME_CORRUPT;
	return FRAME_OURS;
}

/* The same, with the checksum added up here. */
always_inline enum verdict_of_frame frame_parse(const uint8_t *data, uint32_t len, uint32_t run,
						struct payload *out, enum touch touch,
						bool headless)
{
	return frame_judge(data, len, run, out, touch, headless, DEVICE_SUM_UNKNOWN);
}

/*
 * Has a frame the headers of a template, as far as they lie beside what frame_parse checks: MACs,
 * tag, all of IP but its length and checksum, which have to be right, addresses and ports? And
 * is it as long as its IP header says?
 */
bool headers_agree(const uint8_t *data, uint32_t len, const struct frame_template *t);

/*
 * Takes out of a frame the identification that a kernel gave it, and out of its IP header's checksum
 * as much: one that was wrong stays wrong.
 */
void frame_clear_identification(uint8_t *data);

/* Swaps source and destination of MACs, addresses and ports: the checksum stays right. What is
 * shorter than any test frame is left as it is. */
void frame_reflect(struct frame *f);

#endif
