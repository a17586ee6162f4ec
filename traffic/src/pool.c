/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

struct pool *pool_create(uint32_t buffers, uint32_t bytes)
{
	size_t stride =
		sizeof(struct buffer) + ((size_t)bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	struct pool *pool = lines_alloc(1, sizeof(*pool) + buffers * sizeof(pool->stack[0]));

	if (!pool)
		return NULL;
	/* One extra cache line per buffer, so that the headers do not fall into the same cache
	 * sets. */
	stride += CACHE_LINE;
	pool->memory = aligned_alloc(CACHE_LINE, stride * buffers);
	if (!pool->memory) {
		free(pool);
		return NULL;
	}
	memset(pool->memory, 0, stride * buffers);
	pool->size = buffers;
	for (uint32_t i = 0; i < buffers; i++) {
		struct buffer *b =
			(struct buffer *)((char *)pool->memory + stride * (buffers - 1 - i));

		b->pool = pool;
		pool->stack[pool->free++] = b;
	}
	return pool;
}

void pool_destroy(struct pool *pool)
{
	if (!pool)
		return;
	free(pool->memory);
	free(pool);
}
