/* SPDX-License-Identifier: Apache-2.0 */
/* Reading test frames: is a frame ours, and is it intact? Are its headers those that were
 * expected? */
#ifndef SWITCHMARK_JUDGE_H
#define SWITCHMARK_JUDGE_H

#include "engine.h"
#include "template.h"

enum verdict_of_frame { FRAME_OURS, FRAME_CORRUPT, FRAME_FOREIGN };

/* frame_judge for any frame; frame_judge itself handles the usual ones. */
enum verdict_of_frame frame_judge_any(const uint8_t *data, uint32_t len, uint32_t run,
				      struct payload *out, enum touch touch, bool headless,
				      enum device_sum device);

/* The same. `out` is not passed on, so it can stay in registers. */
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
 * Reads one frame. With TOUCH_FULL every byte is checked, with TOUCH_HEADER the headers and the
 * payload (the rest is assumed to be zero), with TOUCH_NONE only the run id. If a device has found
 * the checksum good or bad, nothing is added up here, except in a tunnel.
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
		/* Addresses, UDP header and payload; then what the pseudo header has beside
		 * them. */
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

/* frame_judge with the checksum computed here. */
always_inline enum verdict_of_frame frame_parse(const uint8_t *data, uint32_t len, uint32_t run,
						struct payload *out, enum touch touch,
						bool headless)
{
	return frame_judge(data, len, run, out, touch, headless, DEVICE_SUM_UNKNOWN);
}

/*
 * Does a frame have the headers of a template? Compares everything that frame_parse does not check:
 * MACs, tag, all of IP except its length and checksum (which have to be correct), addresses and
 * ports. The frame must be as long as its IP header says.
 */
bool headers_agree(const uint8_t *data, uint32_t len, const struct frame_template *t);

/*
 * Clears the identification that a kernel wrote into a frame's IPv4 header, and updates the
 * header's checksum: a wrong checksum stays wrong.
 */
void frame_clear_identification(uint8_t *data);

#endif
