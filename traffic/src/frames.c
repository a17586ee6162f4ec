/* SPDX-License-Identifier: Apache-2.0 */
#include "frames.h"

static void put16(uint8_t *at, uint16_t v)
{
	store16(at, net16(v));
}

static void put32(uint8_t *at, uint32_t v)
{
	store32(at, net32(v));
}

uint64_t checksum_add(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t sum = 0;

	/* Halves of 32 bits cannot overflow 64 bits below 2^35 bytes; gcc makes vectors of it. */
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

static void template_sum(struct frame_template *t)
{
	uint8_t *p = t->head + t->payload_at, *udp = p - UDP_BYTES;
	uint16_t checksum;

	store16(udp + 6, 0);
	/* pseudo header: both addresses, protocol, length */
	t->sum = checksum_add(udp - (t->v6 ? 32 : 8), t->v6 ? 32 : 8) + net16(17) + load16(udp + 4);
	if (t->device_sums) {
		store16(udp + 6, checksum_fold(t->sum));
		return;
	}
	t->sum += checksum_add(udp, UDP_BYTES + PAYLOAD_BYTES);
	checksum = (uint16_t)~checksum_fold(t->sum);
	store16(udp + 6, checksum ? checksum : 0xffff);
}

static void udp_make(struct frame_template *t, uint8_t *udp, const struct address *a, uint32_t len)
{
	put16(udp, a->src_port);
	put16(udp + 2, a->dst_port);
	put16(udp + 4, (uint16_t)len);
	t->payload_at = (uint8_t)(udp - t->head + UDP_BYTES);
}

/* The header of `len` bytes of IPv4 with UDP, and the type in front of it. */
static void ip4_make(uint8_t *ip, uint32_t src, uint32_t dst, uint8_t ttl, uint32_t len)
{
	put16(ip - 2, 0x0800);
	ip[0] = 0x45;
	put16(ip + 2, (uint16_t)len);
	put16(ip + 6, 0x4000); /* don't fragment */
	ip[8] = ttl;
	ip[9] = 17;
	put32(ip + 12, src);
	put32(ip + 16, dst);
	store16(ip + 10, (uint16_t)~checksum_fold(checksum_add(ip, IP_BYTES)));
}

/* The same of IPv6. */
static void ip6_make(uint8_t *ip, const uint8_t src[16], const uint8_t dst[16], uint8_t hops,
		     uint32_t len)
{
	put16(ip - 2, 0x86dd);
	ip[0] = 0x60;
	put16(ip + 4, (uint16_t)(len - IP6_BYTES));
	ip[6] = 17;
	ip[7] = hops;
	memcpy(ip + 8, src, 16);
	memcpy(ip + 24, dst, 16);
}

/* What stands in front of the frame inside, and its MACs. Returns how many bytes the former are. */
static uint8_t vxlan_make(uint8_t *h, const struct address *a, uint8_t ttl, uint32_t len)
{
	uint8_t *ip = h + ETH_BYTES, *udp = ip + (a->v6 ? IP6_BYTES : IP_BYTES);
	uint8_t *tunnel = udp + UDP_BYTES, *inside = tunnel + 8;

	if (a->v6)
		ip6_make(ip, a->src_ip6, a->dst_ip6, ttl, len - ETH_BYTES);
	else
		ip4_make(ip, a->src_ip, a->dst_ip, ttl, len - ETH_BYTES);
	put16(udp, vxlan_port(a->src_port, a->dst_port));
	put16(udp + 2, VXLAN_PORT);
	put16(udp + 4, (uint16_t)(len - (uint32_t)(udp - h)));
	put32(tunnel, VXLAN_FLAGS);
	put32(tunnel + 4, a->vni << 8);
	memcpy(inside, a->inner_dst_mac, 6);
	memcpy(inside + 6, a->inner_src_mac, 6);
	return (uint8_t)(inside - h);
}

void template_make(struct frame_template *t, const struct address *a, uint32_t len, uint32_t run,
		   uint16_t flow, uint8_t phase, bool headless)
{
	const uint8_t ttl = a->ttl ? a->ttl : TTL_SENT;
	uint32_t ip_len, header;
	uint8_t *h = t->head, *ip;

	memset(t, 0, sizeof(*t));
	t->len = len;
	if (headless) {
		put32(h, run);
		put16(h + 4, (uint16_t)(phase << 14 | flow));
		return;
	}
	memcpy(h, a->dst_mac, 6);
	memcpy(h + 6, a->src_mac, 6);
	ip = h + ETH_BYTES;
	if (a->vlan) {
		put16(h + 12, 0x8100);
		put16(h + 14, a->vlan);
		ip += VLAN_BYTES;
	}
	if (a->vxlan) {
		t->tunnel_bytes = vxlan_make(h, a, ttl, len);
		ip += t->tunnel_bytes;
	}
	ip_len = len - (uint32_t)(ip - h);
	t->v6 = a->vxlan ? a->inner_v6 : a->v6;
	if (t->v6 && a->vxlan)
		ip6_make(ip, a->inner_src_ip6, a->inner_dst_ip6, TTL_SENT, ip_len);
	else if (t->v6)
		ip6_make(ip, a->src_ip6, a->dst_ip6, ttl, ip_len);
	else if (a->vxlan)
		ip4_make(ip, a->inner_src_ip, a->inner_dst_ip, TTL_SENT, ip_len);
	else
		ip4_make(ip, a->src_ip, a->dst_ip, ttl, ip_len);
	header = t->v6 ? IP6_BYTES : IP_BYTES;
	udp_make(t, ip + header, a, ip_len - header);
	template_set(t, run, flow, phase);
}

void template_leave_sum(struct frame_template *t)
{
	t->device_sums = true;
	template_sum(t);
}

void template_set(struct frame_template *t, uint32_t run, uint16_t flow, uint8_t phase)
{
	uint8_t *p = t->head + t->payload_at;

	put32(p, run);
	put16(p + 4, (uint16_t)(phase << 14 | flow));
	if (t->payload_at)
		template_sum(t);
}

void frame_prepare_tunnel(uint8_t *data, const struct frame_template *t, uint32_t head)
{
	memcpy(data + 80, t->head + 80, head - 80);
}

uint64_t pattern_write(uint8_t *at, uint32_t len, uint32_t seq)
{
	uint64_t sum = 0;
	uint32_t words = len / 8, rest = len % 8;

	for (uint32_t i = 0; i < words; i++) {
		uint64_t v = pattern_word(seq, i);

		store64(at + (size_t)8 * i, v);
		sum += (v & 0xffffffff) + (v >> 32);
	}
	if (rest) {
		uint64_t v = pattern_word(seq, words), last = 0;

		memcpy(at + (size_t)8 * words, &v, rest);
		memcpy(&last, &v, rest);
		sum += (last & 0xffffffff) + (last >> 32);
	}
	return sum;
}

bool pattern_check(const uint8_t *at, uint32_t len, uint32_t seq)
{
	uint32_t words = len / 8, rest = len % 8;
	uint64_t wrong = 0;

	/* No early exit: frames are right nearly always, and the loop makes vectors. */
	for (uint32_t i = 0; i < words; i++)
		wrong |= load64(at + (size_t)8 * i) ^ pattern_word(seq, i);
	if (rest) {
		uint64_t v = pattern_word(seq, words), want = 0, have = 0;

		memcpy(&want, &v, rest);
		memcpy(&have, at + (size_t)8 * words, rest);
		wrong |= want ^ have;
	}
	return !wrong;
}

/* Reads any frame that is in no tunnel. */
static enum verdict_of_frame judge_bare(const uint8_t *data, uint32_t len, uint32_t run,
					struct payload *out, enum touch touch, bool headless,
					enum device_sum device)
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
	payload_read(out, p);
	if (touch == TOUCH_FULL && len > PAYLOAD_BYTES && out->phase != PHASE_ANNOUNCE &&
	    unlikely(!pattern_check(p + PAYLOAD_BYTES, len - PAYLOAD_BYTES, out->seq)))
		return FRAME_CORRUPT;
	return FRAME_OURS;
}

/* What a frame of a tunnel has in front of the one inside, if there is room for one of ours; 0: it is
 * in none. */
static uint32_t vxlan_bytes(const uint8_t *data, uint32_t len)
{
	const uint8_t *ip = data + ETH_BYTES;

	if (len >= VXLAN_BYTES + FRAME_MIN && load16(ip - 2) == net16(0x0800) && ip[0] == 0x45 &&
	    ip[9] == 17 && load16(ip + IP_BYTES + 2) == net16(VXLAN_PORT))
		return VXLAN_BYTES;
	if (len >= VXLAN6_BYTES + FRAME_MIN && load16(ip - 2) == net16(0x86dd) && ip[0] >> 4 == 6 &&
	    ip[6] == 17 && load16(ip + IP6_BYTES + 2) == net16(VXLAN_PORT))
		return VXLAN6_BYTES;
	return 0;
}

/* Reads a frame that may be in a tunnel. */
static enum verdict_of_frame vxlan_judge(const uint8_t *data, uint32_t len, uint32_t run,
					 struct payload *out, enum touch touch)
{
	const uint32_t inside = vxlan_bytes(data, len), udp = inside - 8 - UDP_BYTES;
	enum verdict_of_frame found;
	uint32_t ends, said;

	if (!inside)
		return FRAME_FOREIGN;
	found = judge_bare(data + inside, len - inside, run, out, touch, false, DEVICE_SUM_UNKNOWN);
	if (found != FRAME_OURS || touch == TOUCH_NONE)
		return found;
	ends = udp + net16(load16(data + udp + 4));
	said = inside == VXLAN_BYTES ?
		       (uint32_t)ETH_BYTES + net16(load16(data + ETH_BYTES + 2)) :
		       (uint32_t)ETH_BYTES + IP6_BYTES + net16(load16(data + ETH_BYTES + 4));
	return ends > len || said != ends || load32(data + udp + UDP_BYTES) != net32(VXLAN_FLAGS) ?
		       FRAME_CORRUPT :
		       FRAME_OURS;
}

enum verdict_of_frame frame_judge_any(const uint8_t *data, uint32_t len, uint32_t run,
				      struct payload *out, enum touch touch, bool headless,
				      enum device_sum device)
{
	const enum verdict_of_frame found =
		judge_bare(data, len, run, out, touch, headless, device);

	return found == FRAME_FOREIGN && !headless ? vxlan_judge(data, len, run, out, touch) :
						     found;
}

void likeness_note(struct likeness *k, const uint8_t *data, uint32_t len, uint32_t flow)
{
	const uint8_t *p = data + LIKE_AT;

	*k = (struct likeness){ 0 };
	if (len < FRAME_MIN || load16(data + 12) != net16(0x0800) || data[ETH_BYTES] != 0x45 ||
	    load16(p - 6) == net16(VXLAN_PORT))
		return;
	for (uint32_t i = 0; i < 4; i++)
		k->head[i] = load64(data + (i < 3 ? 12 + 8 * i : 32));
	k->payload = load64(p);
	/* Pseudo header, UDP header without the checksum, and payload up to the number. */
	k->sum = checksum_fold((uint64_t)load32(p - 16) + load32(p - 12) + net16(17) +
			       load16(p - 4) + load32(p - 8) + load16(p - 4) + load32(p) +
			       load16(p + 4));
	k->len = len;
	k->flow = flow;
}

/* Is the header of IPv4 at `at` as promised, up to the ports behind it, and all that follows of the
 * length that it says? */
static bool ip4_agrees(const uint8_t *data, uint32_t len, const uint8_t *promised, uint32_t at)
{
	const uint8_t *ip = data + at, *want = promised + at;

	/* Two bytes for its length, six beyond for the checksum. */
	return !memcmp(data, promised, at + 2) && at + net16(load16(ip + 2)) == len &&
	       !memcmp(ip + 4, want + 4, 6) &&
	       checksum_fold(checksum_add(ip, IP_BYTES)) == 0xffff &&
	       !memcmp(ip + 12, want + 12, 12);
}

/* The same of IPv6, which has no checksum. */
static bool ip6_agrees(const uint8_t *data, uint32_t len, const uint8_t *promised, uint32_t at)
{
	const uint8_t *ip = data + at, *want = promised + at;

	/* Two bytes for its length. */
	return !memcmp(data, promised, at + 4) && at + IP6_BYTES + net16(load16(ip + 4)) == len &&
	       !memcmp(ip + 6, want + 6, IP6_BYTES - 6 + 4);
}

bool headers_agree(const uint8_t *data, uint32_t len, const struct frame_template *t)
{
	const uint32_t inside = t->tunnel_bytes, udp = inside - 8 - UDP_BYTES;
	const uint8_t *head = t->head;
	uint32_t at = t->payload_at - UDP_BYTES - (t->v6 ? IP6_BYTES : IP_BYTES);

	if (len < (uint32_t)t->payload_at + PAYLOAD_BYTES)
		return false;
	if (inside) {
		if (!(inside == VXLAN_BYTES ? ip4_agrees(data, len, head, ETH_BYTES) :
					      ip6_agrees(data, len, head, ETH_BYTES)) ||
		    udp + net16(load16(data + udp + 4)) != len ||
		    memcmp(data + udp + 6, head + udp + 6, inside - udp - 6))
			return false;
		data += inside;
		len -= inside;
		head += inside;
		at -= inside;
	}
	return t->v6 ? ip6_agrees(data, len, head, at) : ip4_agrees(data, len, head, at);
}

void frame_clear_identification(uint8_t *data)
{
	uint8_t *ip = data + ETH_BYTES + (load16(data + 12) == net16(0x8100) ? VLAN_BYTES : 0);
	uint64_t sum;

	if (load16(ip - 2) != net16(0x0800))
		return;
	/* RFC 1624, equation 3 */
	sum = (uint64_t)(uint16_t)~load16(ip + 10) + (uint16_t)~load16(ip + 4);

	store16(ip + 4, 0);
	store16(ip + 10, (uint16_t)~checksum_fold(sum));
}

static void ports_swap(uint8_t *udp)
{
	uint16_t port = load16(udp);

	store16(udp, load16(udp + 2));
	store16(udp + 2, port);
}

/* Swaps the ends of a frame; of a tunnel's the ports stay, as its source port is of both ends. */
static void ends_swap(uint8_t *d, uint32_t len, bool ports)
{
	uint8_t *ip = d + ETH_BYTES, mac[6];
	uint32_t address;

	memcpy(mac, d, 6);
	memcpy(d, d + 6, 6);
	memcpy(d + 6, mac, 6);
	if (load16(d + 12) == net16(0x8100))
		ip += VLAN_BYTES;
	if (load16(ip - 2) == net16(0x86dd) && len >= (uint32_t)(ip - d) + IP6_BYTES + UDP_BYTES) {
		uint8_t ip6[16];

		memcpy(ip6, ip + 8, 16);
		memcpy(ip + 8, ip + 24, 16);
		memcpy(ip + 24, ip6, 16);
		if (ports)
			ports_swap(ip + IP6_BYTES);
		return;
	}
	if (load16(ip - 2) != net16(0x0800) || len < (uint32_t)(ip - d) + IP_BYTES + UDP_BYTES)
		return;
	address = load32(ip + 12);
	store32(ip + 12, load32(ip + 16));
	store32(ip + 16, address);
	if (ports)
		ports_swap(ip + IP_BYTES);
}

void frame_reflect(struct frame *f)
{
	uint32_t inside;

	if (f->len < FRAME_MIN)
		return;
	inside = vxlan_bytes(f->data, f->len);
	ends_swap(f->data, f->len, !inside);
	if (unlikely(inside))
		ends_swap(f->data + inside, f->len - inside, true);
}
