/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by raw and udp: frame memory, headers for sendmmsg() and recvmmsg(), and the handling of
 * received frames.
 */
#ifndef SWITCHMARK_MESSAGES_H
#define SWITCHMARK_MESSAGES_H

#include "pool.h"
#include "slots.h"

/* The private part of a port of these engines starts with this struct. */
struct messages {
	struct pool *pool;
	struct slots slots; /* for receiving */
	struct mmsghdr *headers; /* for sending */
	struct iovec *vectors;
	uint64_t drops, invalid;
};

/*
 * Allocates memory for bursts of the port's size, of frames up to frame_max bytes. Received frames
 * have room for a tag and `control_bytes` of ancillary data; `peers` records the sender. Returns 0,
 * or -errno with port->why; call messages_close in both cases.
 */
int messages_open(struct port *port, struct messages *m, uint32_t control_bytes, bool peers);
void messages_close(struct messages *m);

/* The alloc and release functions of an engine. */
uint32_t messages_alloc(struct port *port, struct frame *f, uint32_t n);
void messages_release(struct port *port, struct frame *f, uint32_t n);

/* Returns the first `got` frames of the slots, except truncated ones. */
always_inline uint32_t messages_take(struct messages *m, struct frame *f, uint32_t got,
				     uint32_t (*length_of)(struct slots *s, uint32_t i,
							   struct frame *f))
{
	struct slots *s = &m->slots;
	uint32_t whole = 0;

	for (uint32_t i = 0; i < got; i++) {
		if (unlikely(slots_cut(s, i))) {
			m->invalid++;
			continue;
		}
		f[whole] = s->frames[i];
		f[whole].len = length_of(s, i, &f[whole]);
		whole++;
	}
	slots_refill(s, got);
	return whole;
}

#endif
