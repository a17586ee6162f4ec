/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What raw and udp share: memory for frames, headers for sendmmsg() and recvmmsg(), and what to do
 * with a frame that was received.
 */
#ifndef SWITCHMARK_MESSAGES_H
#define SWITCHMARK_MESSAGES_H

#include "pool.h"
#include "slots.h"

/* The private part of a port of these engines begins with it. */
struct messages {
	struct pool *pool;
	struct slots slots; /* to receive */
	struct mmsghdr *headers; /* to send */
	struct iovec *vectors;
	uint64_t drops, invalid;
};

/*
 * Memory for bursts of the port's length, of frames of up to frame_max bytes: to receive these, or
 * the same with a tag, each with so many bytes of ancillary data, noting who sent it (`peers`). 0,
 * or -errno with port->why; close it all the same.
 */
int messages_open(struct port *port, struct messages *m, uint32_t control_bytes, bool peers);
void messages_close(struct messages *m);

/* These are an engine's own. */
uint32_t messages_alloc(struct port *port, struct frame *f, uint32_t n);
void messages_release(struct port *port, struct frame *f, uint32_t n);

/* Hands out the first `got` frames of the slots, but those that are longer than their buffer. */
always_inline uint32_t messages_take(struct messages *m, struct frame *f, uint32_t got,
				     uint32_t (*each)(struct slots *s, uint32_t i, struct frame *f))
{
	struct slots *s = &m->slots;
	uint32_t whole = 0;

	for (uint32_t i = 0; i < got; i++) {
		if (unlikely(slots_cut(s, i))) {
			m->invalid++;
			continue;
		}
		f[whole] = s->frames[i];
		f[whole].len = each(s, i, &f[whole]);
		whole++;
	}
	slots_refill(s, got);
	return whole;
}

#endif
