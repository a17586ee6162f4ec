/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receive buffers for recvmmsg(): headers that point to buffers of the pool and stay unchanged
 * while no frame arrives, so an empty poll costs only its system call.
 */
#ifndef SWITCHMARK_SLOTS_H
#define SWITCHMARK_SLOTS_H

#include "pool.h"

#include <stdlib.h>
#include <sys/socket.h>

struct slots {
	struct pool *pool;
	uint32_t filled; /* headers with a buffer: the first `filled` ones */
	uint32_t control_bytes; /* ancillary data per frame; 0: none */
	bool peers; /* record the sender in the buffer */
	struct frame *frames;
	struct mmsghdr *headers;
	struct iovec *vectors;
	uint8_t *control;
};

static inline void slots_destroy(struct slots *s)
{
	free(s->frames);
	free(s->headers);
	free(s->vectors);
	free(s->control);
}

/* Points header i at the buffer of frame i. */
always_inline void slots_ready(struct slots *s, uint32_t i)
{
	struct msghdr *h = &s->headers[i].msg_hdr;

	s->vectors[i].iov_base = s->frames[i].data;
	h->msg_controllen = s->control_bytes;
	if (s->peers) {
		h->msg_name = &frame_buffer(&s->frames[i])->peer;
		h->msg_namelen = sizeof(struct sockaddr_in);
	}
}

/* True if the frame of header i was longer than its buffer. In that case the frame is lost, and its
 * buffer is returned to the pool. */
always_inline bool slots_cut(const struct slots *s, uint32_t i)
{
	if (likely(!(s->headers[i].msg_hdr.msg_flags & MSG_TRUNC)))
		return false;
	pool_give(&s->frames[i], 1);
	return true;
}

/* Gives new buffers to the first `used` headers, whose buffers now belong to the caller. */
always_inline void slots_refill(struct slots *s, uint32_t used)
{
	uint32_t got = pool_take(s->pool, s->frames, used);

	/* While the pool is empty, fewer headers have buffers. */
	for (; unlikely(got < used) && used > 0; used--) {
		s->filled--;
		if (used - 1 < s->filled) {
			s->frames[used - 1] = s->frames[s->filled];
			slots_ready(s, used - 1);
		}
	}
	for (uint32_t i = 0; i < got; i++)
		slots_ready(s, i);
}

/* Takes buffers for headers without one. Returns the number of headers with a buffer. */
always_inline uint32_t slots_fill(struct slots *s, uint32_t count)
{
	while (unlikely(s->filled < count) && pool_take(s->pool, &s->frames[s->filled], 1))
		slots_ready(s, s->filled++);
	return s->filled;
}

/* Allocates slots for `count` frames of up to `bytes`. Returns false without memory; call
 * slots_destroy in both cases. */
static inline bool slots_create(struct slots *s, struct pool *pool, uint32_t count, uint32_t bytes,
				uint32_t control_bytes, bool peers)
{
	*s = (struct slots){ .pool = pool, .control_bytes = control_bytes, .peers = peers };
	if (!count)
		return true;
	s->frames = lines_alloc(count, sizeof(*s->frames));
	s->headers = lines_alloc(count, sizeof(*s->headers));
	s->vectors = lines_alloc(count, sizeof(*s->vectors));
	s->control = lines_alloc(count, control_bytes ? control_bytes : 1);
	if (!s->frames || !s->headers || !s->vectors || !s->control)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		s->vectors[i].iov_len = bytes;
		s->headers[i].msg_hdr.msg_iov = &s->vectors[i];
		s->headers[i].msg_hdr.msg_iovlen = 1;
		if (control_bytes)
			s->headers[i].msg_hdr.msg_control = s->control + (size_t)i * control_bytes;
	}
	return slots_fill(s, count) == count;
}

#endif
