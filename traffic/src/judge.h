/* SPDX-License-Identifier: Apache-2.0 */
/* Validates received frames: whether a frame belongs to the run, whether it is intact, and whether
 * it has the expected headers. */
#ifndef SWITCHMARK_JUDGE_H
#define SWITCHMARK_JUDGE_H

#include "engine.h"
#include "template.h"

enum verdict_of_frame { FRAME_OURS, FRAME_CORRUPT, FRAME_FOREIGN };

/* Like frame_judge, for any frame; frame_judge itself handles the common ones. */
enum verdict_of_frame frame_judge_any(const uint8_t *data, uint32_t len, uint32_t run,
				      struct payload *out, enum touch touch, bool headless,
				      enum device_sum device);

/* Calls frame_judge_any. The address of `out` is not passed on, so `out` can stay in registers. */
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
 * Validates one frame. TOUCH_FULL checks every byte, TOUCH_HEADER checks the headers and the
 * payload (and assumes that the rest is zero), TOUCH_NONE checks the run id only. If a device has
 * verified the checksum, it is not computed again, except in a tunnel.
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
	/* Fast path: IPv4 without options or a tag, and UDP. frame_judge_any handles the other
	 * frames. */
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
	/* A device reports no error for a frame without a checksum. */
	if (device == DEVICE_SUM_UNKNOWN || unlikely(!load16(udp + 6))) {
		/* Addresses, UDP header and payload; then the rest of the pseudo header. */
		uint64_t sum = checksum_word(load64(udp - 8), load64(udp));

		sum = checksum_word(sum, load64(p));
		sum = checksum_word(sum, load64(p + 8));
		sum = checksum_word(sum, (uint64_t)load16(p + 16) + net16(17) + load16(udp + 4));
		if (touch == TOUCH_FULL && udp_len > UDP_BYTES + PAYLOAD_BYTES)
			sum = checksum_word(sum, checksum_add(p + PAYLOAD_BYTES,
							      udp_len - UDP_BYTES - PAYLOAD_BYTES));
		/* The sum is never 0, and 2^64 = 1 (modulo 65535), so this test equals a fold to
		 * 0xffff. */
		if (unlikely(sum % 0xffff))
			return FRAME_CORRUPT;
	}
	udp_len -= UDP_BYTES + PAYLOAD_BYTES;
	if (touch == TOUCH_FULL && udp_len && out->phase != PHASE_ANNOUNCE &&
	    unlikely(!pattern_check(p + PAYLOAD_BYTES, udp_len, out->seq)))
		return FRAME_CORRUPT;
	return FRAME_OURS;
}

/* Like frame_judge, with the checksum computed in software. */
always_inline enum verdict_of_frame frame_parse(const uint8_t *data, uint32_t len, uint32_t run,
						struct payload *out, enum touch touch,
						bool headless)
{
	return frame_judge(data, len, run, out, touch, headless, DEVICE_SUM_UNKNOWN);
}

/*
 * True if a frame has the headers of a template. Compares everything that frame_parse does not
 * check: MACs, tag, all of IP except its length and checksum (which must be correct), addresses and
 * ports. The frame must have the length that its IP header states.
 */
bool headers_agree(const uint8_t *data, uint32_t len, const struct frame_template *t);

/*
 * Clears the identification that a kernel wrote into a frame's IPv4 header, and updates the header
 * checksum: a wrong checksum stays wrong.
 */
void frame_clear_identification(uint8_t *data);

#endif
