/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame memory for engines whose system calls copy: fixed buffers on a stack, so the most recently
 * used buffer, still in the cache, is the next one used. For one thread only.
 */
#ifndef SWITCHMARK_POOL_H
#define SWITCHMARK_POOL_H

#include "engine.h"

#include <netinet/in.h>

struct pool;

/* Precedes the data of each buffer; the handle of a frame is its address. */
struct buffer {
	struct pool *pool; /* the owner, whichever port sends the buffer */
	struct sockaddr_in peer; /* the sender, for socket engines that reply */
	bool has_peer; /* false while the buffer is in the pool */
	uint8_t data[] __attribute__((aligned(CACHE_LINE)));
};

struct pool {
	uint32_t free, size;
	void *memory;
	struct buffer *stack[];
};

/* Returns NULL without memory. */
struct pool *pool_create(uint32_t buffers, uint32_t bytes);
void pool_destroy(struct pool *pool);

always_inline struct buffer *frame_buffer(const struct frame *f)
{
	return (struct buffer *)(uintptr_t)f->handle;
}

always_inline uint32_t pool_take(struct pool *pool, struct frame *f, uint32_t n)
{
	uint32_t free = pool->free;

	if (unlikely(n > free))
		n = free;
	for (uint32_t i = 0; i < n; i++) {
		struct buffer *b = pool->stack[--free];

		f[i].data = b->data;
		f[i].len = 0;
		f[i].handle = (uintptr_t)b;
	}
	pool->free = free;
	return n;
}

always_inline void pool_give(const struct frame *f, uint32_t n)
{
	struct pool *pool = NULL;
	uint32_t free = 0;

	/* In reverse, so that the first buffer taken is on top again. Frames of one pool are mostly
	 * adjacent in the array. */
	for (uint32_t i = n; i-- > 0;) {
		struct buffer *b = frame_buffer(&f[i]);

		if (unlikely(!pool || b->pool != pool)) {
			if (pool)
				pool->free = free;
			pool = b->pool;
			free = pool->free;
		}
		b->has_peer = false;
		pool->stack[free++] = b;
	}
	if (likely(pool != NULL))
		pool->free = free;
}

#endif
