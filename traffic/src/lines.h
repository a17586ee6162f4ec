/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in cache lines of its own. What threads write at every burst lies side by side where the
 * heap has it, and two that share a line wait for each other.
 */
#ifndef SWITCHMARK_LINES_H
#define SWITCHMARK_LINES_H

#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64

/* `count` times `bytes`, all zero; written here, so it is on the node of the CPU that this runs
 * on. NULL: there is no memory. It is given back by free(). */
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
