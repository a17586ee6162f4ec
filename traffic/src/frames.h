/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test frames: Ethernet, an optional 802.1Q tag, IPv4 or IPv6, UDP and 18 bytes of payload that are
 * ours, in network order. In a tunnel (VXLAN, RFC 7348) a whole frame stands behind Ethernet, IPv4 or
 * IPv6, UDP without a checksum (of IPv6 as RFC 6935 allows), and the tunnel's own header. The payload:
 *
 *     0  run     u32   the trial's run id; a frame of another run is foreign. Not VXLAN_FLAGS
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
#define VXLAN_BYTES 50 /* in front of the frame inside */
#define VXLAN6_BYTES (VXLAN_BYTES + IP6_BYTES - IP_BYTES) /* the same of a tunnel of IPv6 */
#define VXLAN_PORT 4789
#define VXLAN_FLAGS 0x08000000 /* how its header begins, where a payload would */
#define PAYLOAD_BYTES 18
#define TTL_SENT 64
#define FRAME_MIN 60 /* without the FCS */
#define FLOW_MAX 16384
#define HEAD_BYTES 150 /* all headers and the payload fit */

enum touch { TOUCH_NONE, TOUCH_HEADER, TOUCH_FULL };
enum phase { PHASE_WARMUP, PHASE_MEASURED, PHASE_ANNOUNCE };

/* The addresses of one frame; MACs as bytes, the rest in host order. vlan 0: untagged. In a tunnel the
 * ports are those of the frame inside. */
struct address {
	uint8_t src_mac[6], dst_mac[6];
	uint32_t src_ip, dst_ip;
	bool v6; /* then in place of these: */
	uint8_t src_ip6[16], dst_ip6[16];
	uint16_t src_port, dst_port;
	uint16_t vlan;
	uint8_t ttl; /* 0: TTL_SENT */
	bool vxlan; /* then of the tunnel and the frame inside: */
	uint32_t vni;
	uint8_t inner_src_mac[6], inner_dst_mac[6];
	uint32_t inner_src_ip, inner_dst_ip;
	bool inner_v6; /* then in place of these: */
	uint8_t inner_src_ip6[16], inner_dst_ip6[16];
};

/*
 * A frame but for what changes from frame to frame. `sum` is the checksum's partial sum of
 * the pseudo header, the UDP header and the payload with sequence number and time as zero.
 * `device_sums`: in place of the checksum stands the pseudo header's sum, as a device that
 * completes it wants.
 */
struct frame_template {
	uint64_t sum;
	uint32_t len; /* of the whole frame */
	uint8_t payload_at; /* where our payload begins */
	bool device_sums, v6;
	/* What is in front of the frame inside; 0: it is in no tunnel. In one `sum`, `v6` and what is said of
	 * a checksum are of the frame inside. */
	uint8_t tunnel_bytes;
	uint8_t head[HEAD_BYTES];
} __attribute__((aligned(CACHE_LINE)));

/* Behind the headers of a usual frame: one or two lines of the cache have all that is read of it. */
_Static_assert(offsetof(struct frame_template, head) + FRAME_MIN <= (size_t)2 * CACHE_LINE,
	       "a usual frame is made of more than two lines");

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
	return FRAME_MIN + (a->vlan ? VLAN_BYTES : 0) + (a->v6 ? IP6_BYTES - IP_BYTES : 0) +
	       (a->vxlan ? VXLAN_BYTES : 0) + (a->inner_v6 ? IP6_BYTES - IP_BYTES : 0);
}

/* The source port of a tunnel's frame, by both ports of the frame inside, as RFC 7348 has it: it is
 * the same for the answer. */
always_inline uint16_t vxlan_port(uint16_t src_port, uint16_t dst_port)
{
	return 0xc000 | ((src_port + dst_port) & 0x3fff);
}

/* The 16-bit one's complement sum of a wide one; 2^16 = 1 modulo 65535. Each half is added to the
 * other, and what that carries comes round to it. */
always_inline uint16_t checksum_fold(uint64_t sum)
{
	uint32_t half;

	sum += sum >> 32 | sum << 32;
	half = (uint32_t)(sum >> 32);
	half += half >> 16 | half << 16;
	return (uint16_t)(half >> 16);
}

/* Adds eight bytes to a sum that may use all its bits: what is carried out of it comes round. */
always_inline uint64_t checksum_word(uint64_t sum, uint64_t word)
{
	sum += word;
	return sum + (sum < word);
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

/* Is it one of so many flows of this template's run, from `first` on, in the warm-up or measured? An
 * announcement is none: the bit of its phase is kept, and makes it more than any number of a flow. */
always_inline bool frame_is_from(const uint8_t *data, const struct frame_template *t, bool headless,
				 uint32_t first, uint32_t flows)
{
	const uint32_t at = headless ? 0 : t->payload_at;
	const uint32_t flow = net16(load16(data + at + 4)) & ~(PHASE_MEASURED * FLOW_MAX);

	return load32(data + at) == load32(t->head + at) && flow - first < flows;
}

/* Writes what a frame in a tunnel has in front of byte `head`, from the 80th on. */
void frame_prepare_tunnel(uint8_t *data, const struct frame_template *t, uint32_t head);

/* Writes all of a frame that is the same in each of its template. Behind its payload there is room
 * for zeros up to `blank` bytes of the frame: 0 if they are there, or will be written to. */
always_inline void frame_prepare(uint8_t *data, const struct frame_template *t, bool headless,
				 uint32_t blank)
{
	const uint32_t head = (headless ? 0 : t->payload_at) + PAYLOAD_BYTES;

	/* Sizes known to the compiler: a variable one becomes `rep movs`, 6 ns a frame. */
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

/* Writes what changes from frame to frame: with TOUCH_NONE that is nothing, with TOUCH_HEADER the
 * payload and the checksum, with TOUCH_FULL all bytes behind the headers. */
always_inline void frame_stamp(uint8_t *data, const struct frame_template *t, uint32_t seq,
			       uint64_t time_net, uint64_t time_sum, enum touch touch,
			       bool headless, bool device_sums)
{
	const uint32_t at = headless ? 0 : t->payload_at, head = at + PAYLOAD_BYTES;
	uint64_t sum = t->sum + time_sum;
	uint32_t seq_net = net32(seq);

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

/* Writes one frame into `data` from its template; where it is `prepared`, that is, holds a frame of
 * the template already, only what changes. */
always_inline void frame_write(uint8_t *data, const struct frame_template *t, uint32_t seq,
			       uint64_t time_net, uint64_t time_sum, enum touch touch,
			       bool headless, bool prepared, bool device_sums)
{
	if (!prepared)
		frame_prepare(data, t, headless, touch == TOUCH_FULL ? 0 : t->len);
	frame_stamp(data, t, seq, time_net, time_sum, touch, headless, device_sums);
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

/* What a payload says. */
always_inline void payload_read(struct payload *out, const uint8_t *p)
{
	const uint16_t word = net16(load16(p + 4));

	out->run = net32(load32(p));
	out->flow = word & (FLOW_MAX - 1);
	out->phase = (uint8_t)(word >> 14);
	out->seq = net32(load32(p + 6));
	out->time_ns = net64(load64(p + 10));
}

/* Reads any frame: as frame_judge does, which knows the usual ones. */
enum verdict_of_frame frame_judge_any(const uint8_t *data, uint32_t len, uint32_t run,
				      struct payload *out, enum touch touch, bool headless,
				      enum device_sum device);

/* The same, and `out` is not handed on: it can stay in registers. */
always_inline enum verdict_of_frame frame_judge_unusual(const uint8_t *data, uint32_t len,
							uint32_t run, struct payload *out,
							enum touch touch, bool headless,
							enum device_sum device)
{
	struct payload found = { 0 };
	const enum verdict_of_frame verdict =
		frame_judge_any(data, len, run, &found, touch, headless, device);

	*out = found;
	return verdict;
}

/*
 * Reads one frame. With TOUCH_FULL every byte is checked, with TOUCH_HEADER the headers and
 * the payload (what follows is taken to be zero), with TOUCH_NONE only the run id. A device
 * that has found the checksum good or bad is believed, and nothing is added up: but in a tunnel.
 */
always_inline enum verdict_of_frame frame_judge(const uint8_t *data, uint32_t len, uint32_t run,
						struct payload *out, enum touch touch,
						bool headless, enum device_sum device)
{
	const uint8_t *udp = data + ETH_BYTES + IP_BYTES, *p = udp + UDP_BYTES;
	uint32_t udp_len;

	if (headless && touch != TOUCH_FULL) {
		if (unlikely(len < PAYLOAD_BYTES) || load32(data) != net32(run))
			return frame_judge_unusual(data, len, run, out, touch, headless, device);
		payload_read(out, data);
		return FRAME_OURS;
	}
	/* IPv4 without options or a tag, and UDP in it; what is amiss is found there. */
	if (headless || unlikely(len < FRAME_MIN) || load32(p) != net32(run) ||
	    unlikely((load32(data + 12) & net32(0xffffff00)) != net32(0x08004500)))
		return frame_judge_unusual(data, len, run, out, touch, headless, device);
	payload_read(out, p);
	if (touch == TOUCH_NONE)
		return FRAME_OURS;
	udp_len = net16(load16(udp + 4));
	if (unlikely(data[ETH_BYTES + 9] != 17 || udp_len < UDP_BYTES + PAYLOAD_BYTES ||
		     net16(load16(data + ETH_BYTES + 2)) != udp_len + IP_BYTES ||
		     ETH_BYTES + IP_BYTES + udp_len > len || device == DEVICE_SUM_BAD))
		return FRAME_CORRUPT;
	/* In a frame that carries no checksum a device finds nothing wrong. */
	if (device == DEVICE_SUM_UNKNOWN || unlikely(!load16(udp + 6))) {
		/* Addresses, UDP header and payload; then what the pseudo header has beside them. */
		uint64_t sum = checksum_word(load64(udp - 8), load64(udp));

		sum = checksum_word(sum, load64(p));
		sum = checksum_word(sum, load64(p + 8));
		sum = checksum_word(sum, (uint64_t)load16(p + 16) + net16(17) + load16(udp + 4));
		if (touch == TOUCH_FULL && udp_len > UDP_BYTES + PAYLOAD_BYTES)
			sum = checksum_word(sum, checksum_add(p + PAYLOAD_BYTES,
							      udp_len - UDP_BYTES - PAYLOAD_BYTES));
		/* It is never 0, and 2^64 = 1, too: the same as to be folded to 0xffff. */
		if (unlikely(sum % 0xffff))
			return FRAME_CORRUPT;
	}
	udp_len -= UDP_BYTES + PAYLOAD_BYTES;
	if (touch == TOUCH_FULL && udp_len && out->phase != PHASE_ANNOUNCE &&
	    unlikely(!pattern_check(p + PAYLOAD_BYTES, udp_len, out->seq)))
		return FRAME_CORRUPT;
	return FRAME_OURS;
}

/*
 * What frames of one flow, IPv4 without options or a tag, have in common: all of their headers but
 * the MACs and the UDP checksum, and of the payload run, flow and phase. And what they add to that.
 */
struct likeness {
	uint64_t head[4], payload;
	uint64_t sum;
	uint32_t len; /* of the whole frame; 0: nothing is known */
	uint32_t flow; /* for whoever keeps this */
};

#define LIKE_AT (ETH_BYTES + IP_BYTES + UDP_BYTES)

/* Notes what a frame has that was judged to be ours; nothing if it is of another kind. */
void likeness_note(struct likeness *k, const uint8_t *data, uint32_t len, uint32_t flow);

/* Is a frame of as many bytes one more of these, with its checksum right? If so it is judged, with
 * TOUCH_HEADER, and `out` has its number and its time. */
always_inline bool frame_is_like(const struct likeness *k, const uint8_t *data, struct payload *out)
{
	const uint8_t *p = data + LIKE_AT;
	const uint64_t time_net = load64(p + 10);
	const uint32_t seq_net = load32(p + 6);
	uint64_t differs, sum;

	if ((load64(p) ^ k->payload) & net64(~(uint64_t)0xffff))
		return false;
	differs = load64(data + 12) ^ k->head[0];
	differs |= load64(data + 20) ^ k->head[1];
	differs |= load64(data + 28) ^ k->head[2];
	differs |= load64(data + 32) ^ k->head[3];
	sum = checksum_word(time_net, k->sum + load16(p - 2) + seq_net);
	out->seq = net32(seq_net);
	out->time_ns = net64(time_net);
	return likely(!differs) && likely(!(sum % 0xffff));
}

/* Frames from one burst of a sender come one after the other: their times are the same, their numbers
 * follow each other, and with each number the checksum is one less. */
struct course {
	uint64_t time_net;
	uint32_t seq; /* of the next one */
	uint16_t checksum; /* its, in host order */
};

/* The checksum, in host order, of the number before this one as that of this one has it: in its
 * arithmetic 0xffff is 0, which no frame has. */
always_inline uint16_t checksum_less(uint16_t checksum)
{
	return likely(checksum != 1) ? (uint16_t)(checksum - 1) : 0xffff;
}

/* What comes after a frame of that number and time that is like these. */
always_inline struct course course_after(const struct likeness *k, uint32_t seq, uint64_t time_net)
{
	const uint64_t sum = checksum_word(time_net, k->sum + net32(seq + 1));
	const uint16_t checksum = (uint16_t)~checksum_fold(sum);

	return (struct course){ time_net, seq + 1, checksum ? net16(checksum) : 0xffff };
}

/* Eight bytes that begin with these two, and go on with the first six of `behind`. */
always_inline uint64_t word_of(uint16_t first, uint64_t behind)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return first | behind << 16;
#else
	return (uint64_t)first << 48 | behind >> 16;
#endif
}

/* How many of these frames, no more than there are numbers left, are next in a course: each byte up to
 * FRAME_MIN is compared, but for the MACs, so they are judged, with TOUCH_HEADER. */
always_inline uint32_t course_follow(const struct likeness *k, struct course *c,
				     const struct frame *frames, uint32_t n)
{
	const uint64_t head0 = k->head[0], head1 = k->head[1], head2 = k->head[2];
	const uint64_t head3 = k->head[3], time_net = c->time_net, own = word_of(0, k->payload);
	const uint32_t len = k->len;
	uint32_t seq = c->seq, i = 0;
	uint16_t checksum = c->checksum;

	for (; i < n; i++) {
		const uint8_t *d = frames[i].data;

		if (i + 8 < n)
			__builtin_prefetch(frames[i + 8].data);
		if (frames[i].len != len || load64(d + 52) != time_net ||
		    load32(d + 48) != net32(seq) ||
		    (load64(d + 40) ^ own) != word_of(net16(checksum), 0) ||
		    load64(d + 12) != head0 || load64(d + 20) != head1 || load64(d + 28) != head2 ||
		    load64(d + 32) != head3)
			break;
		seq++;
		checksum = checksum_less(checksum);
	}
	c->seq = seq;
	c->checksum = checksum;
	return i;
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
