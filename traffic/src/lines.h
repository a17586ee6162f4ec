/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in separate cache lines. Small heap blocks that different threads write at every burst
 * could otherwise share a cache line, and the threads would wait for each other.
 */
#ifndef SWITCHMARK_LINES_H
#define SWITCHMARK_LINES_H

#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64

/* Allocates `count` times `bytes` of zeroed memory. The calling thread writes the memory here, so
 * it is on the NUMA node of that thread. Returns NULL without memory. Release with free(). */
static inline void *lines_alloc(size_t count, size_t bytes)
{
	size_t all;
	void *memory;

	if (__builtin_mul_overflow(count, bytes, &all))
		return NULL;
	all = (all + CACHE_LINE) / CACHE_LINE * CACHE_LINE;
	memory = aligned_alloc(CACHE_LINE, all);
	return memory ? memset(memory, 0, all) : NULL;
}

#endif
