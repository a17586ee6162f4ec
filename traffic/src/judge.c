/* SPDX-License-Identifier: Apache-2.0 */
#include "judge.h"

/* Validates a frame without a tunnel. */
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

			/* Set from the payload even if the frame is corrupt. */
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
			/* A device reports no error for a frame without a checksum. */
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

/* Validates a frame that may be in a tunnel. */
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

/* True if the IPv4 header at `at`, up to the ports behind it, is as expected, and its length equals
 * the rest of the frame. */
static bool ip4_agrees(const uint8_t *data, uint32_t len, const uint8_t *expected, uint32_t at)
{
	const uint8_t *ip = data + at, *want = expected + at;

	/* Skips the length (two bytes) and the checksum. */
	return !memcmp(data, expected, at + 2) && at + net16(load16(ip + 2)) == len &&
	       !memcmp(ip + 4, want + 4, 6) &&
	       checksum_fold(checksum_add(ip, IP_BYTES)) == 0xffff &&
	       !memcmp(ip + 12, want + 12, 12);
}

/* The same for IPv6, which has no header checksum. */
static bool ip6_agrees(const uint8_t *data, uint32_t len, const uint8_t *expected, uint32_t at)
{
	const uint8_t *ip = data + at, *want = expected + at;

	/* Skips the length (two bytes). */
	return !memcmp(data, expected, at + 4) && at + IP6_BYTES + net16(load16(ip + 4)) == len &&
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
