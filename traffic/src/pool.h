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
	bool has_peer; /* of a buffer in the pool: false */
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

	/* In reverse: what was taken first is on top again. Frames of one pool mostly come
	 * together. */
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
