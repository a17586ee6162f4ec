/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache lines. Small heap blocks that different threads write at every burst could otherwise share a
 * cache line, and the threads would wait for each other.
 */
#ifndef SWITCHMARK_LINES_H
#define SWITCHMARK_LINES_H

#include "inline.h"

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

/* Requests a line for writing. Lines that other cores have read come together in this way; stores
 * wait for them one by one. For the oldest processors of x86-64 compilers make a request for reading
 * of __builtin_prefetch. Those without the instruction ignore it. */
always_inline void line_claim(const void *at)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
	__builtin_prefetch(at, 1);
#endif
}

#endif
