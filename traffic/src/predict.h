/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers predict the next frame of a flow and compare instead of parsing. Frames of one burst of
 * a sender arrive consecutively: the time is the same, the sequence number goes up by one, and the
 * checksum goes down by one.
 */
#ifndef SWITCHMARK_PREDICT_H
#define SWITCHMARK_PREDICT_H

#include "checksum.h"
#include "engine.h"
#include "payload.h"

/*
 * The common part of all frames of one flow, IPv4 without options or a tag: the headers except MACs
 * and UDP checksum, the payload's run, flow and phase, and their share of the checksum.
 */
struct flow_headers {
	uint64_t head[4], payload;
	uint64_t sum;
	uint32_t len; /* of the whole frame; 0: no headers recorded */
	uint32_t flow; /* for the caller's use */
};

/* Records the headers of a validated test frame; records nothing for other kinds of frames. */
void flow_headers_note(struct flow_headers *h, const uint8_t *data, uint32_t len, uint32_t flow);

/* True if a frame of the same length has these headers and a correct checksum. This equals a
 * validation with TOUCH_HEADER, and `out` receives the frame's number and time. */
always_inline bool frame_has_headers(const struct flow_headers *h, const uint8_t *data,
				     struct payload *out)
{
	const uint8_t *p = data + PAYLOAD_AT;
	const uint64_t time_net = load64(p + 10);
	const uint32_t seq_net = load32(p + 6);
	uint64_t differs, sum;

	if ((load64(p) ^ h->payload) & net64(~(uint64_t)0xffff))
		return false;
	differs = load64(data + 12) ^ h->head[0];
	differs |= load64(data + 20) ^ h->head[1];
	differs |= load64(data + 28) ^ h->head[2];
	differs |= load64(data + 32) ^ h->head[3];
	sum = checksum_word(time_net, h->sum + load16(p - 2) + seq_net);
	out->seq = net32(seq_net);
	out->time_ns = net64(time_net);
	return likely(!differs) && likely(!(sum % 0xffff));
}

/* The frame that is expected next. */
struct prediction {
	uint64_t time_net;
	uint32_t seq;
	uint16_t checksum; /* in host order */
};

/* Returns the prediction after a frame with this number, time and headers. */
always_inline struct prediction prediction_after(const struct flow_headers *h, uint32_t seq,
						 uint64_t time_net)
{
	const uint64_t sum = checksum_word(time_net, h->sum + net32(seq + 1));
	const uint16_t checksum = (uint16_t)~checksum_fold(sum);

	return (struct prediction){ time_net, seq + 1, checksum ? net16(checksum) : 0xffff };
}

/*
 * Returns how many consecutive frames match the prediction. All bytes up to FRAME_MIN are compared
 * except the MACs, which equals a validation with TOUCH_HEADER. `n` is at most the number of
 * sequence numbers left.
 */
always_inline uint32_t prediction_follow(const struct flow_headers *h, struct prediction *p,
					 const struct frame *frames, uint32_t n)
{
	const uint64_t head0 = h->head[0], head1 = h->head[1], head2 = h->head[2];
	const uint64_t head3 = h->head[3], time_net = p->time_net, own = word_join(0, h->payload);
	const uint32_t len = h->len;
	uint32_t seq = p->seq, i = 0;
	uint16_t checksum = p->checksum;

	for (; i < n; i++) {
		const uint8_t *d = frames[i].data;

		if (i + 8 < n)
			__builtin_prefetch(frames[i + 8].data);
		if (frames[i].len != len || load64(d + 52) != time_net ||
		    load32(d + 48) != net32(seq) ||
		    (load64(d + 40) ^ own) != word_join(net16(checksum), 0) ||
		    load64(d + 12) != head0 || load64(d + 20) != head1 || load64(d + 28) != head2 ||
		    load64(d + 32) != head3)
			break;
		seq++;
		checksum = checksum_less(checksum);
	}
	p->seq = seq;
	p->checksum = checksum;
	return i;
}

#endif
