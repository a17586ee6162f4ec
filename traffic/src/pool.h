/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame memory for engines whose system calls copy: fixed buffers on a stack, so that the
 * buffer used last, still in the cache, is the next one used. One thread only.
 */
#ifndef SWITCHMARK_POOL_H
#define SWITCHMARK_POOL_H

#include "engine.h"

#include <netinet/in.h>

struct pool;

/* Stands before the data of each buffer; a frame's handle is its address. */
struct buffer {
	struct pool *pool; /* where it returns to, whichever port sends it */
	struct sockaddr_in peer; /* who sent it, for socket engines that answer */
	bool has_peer;
	uint8_t data[] __attribute__((aligned(CACHE_LINE)));
};

struct pool {
	uint32_t free, size;
	void *memory;
	struct buffer *stack[];
};

/* NULL if there is no memory. */
struct pool *pool_create(uint32_t buffers, uint32_t bytes);
void pool_destroy(struct pool *pool);

always_inline struct buffer *frame_buffer(const struct frame *f)
{
	return (struct buffer *)(uintptr_t)f->handle;
}

always_inline uint32_t pool_take(struct pool *pool, struct frame *f, uint32_t n)
{
	if (unlikely(n > pool->free))
		n = pool->free;
	for (uint32_t i = 0; i < n; i++) {
		struct buffer *b = pool->stack[--pool->free];

		b->has_peer = false;
		f[i] = (struct frame){ .data = b->data, .handle = (uintptr_t)b };
	}
	return n;
}

always_inline void pool_give(const struct frame *f, uint32_t n)
{
	/* In reverse: what was taken first is on top again. */
	for (uint32_t i = n; i-- > 0;) {
		struct buffer *b = frame_buffer(&f[i]);

		b->pool->stack[b->pool->free++] = b;
	}
}

#endif
