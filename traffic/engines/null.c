/* SPDX-License-Identifier: Apache-2.0 */
/*
 * null: no I/O at all. This engine measures the overhead of the core and serves as the tutorial for
 * a new engine. With `loop` set, a port receives the frames that it sent; `take` limits the frames
 * per tx, so that the contract tests see a full ring. Free frames are on a stack, the last used on
 * top, and bursts are copied as a whole; the handle of a frame is the port that owns it.
 */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct null_port {
	uint32_t take;
	bool loop;
	uint32_t head, tail, mask; /* the ring of frames sent but not yet received */
	struct frame *ring;
	uint32_t free; /* number of free frames */
	struct frame *stack;
	uint8_t *memory;
};

static const struct option_spec null_options[] = {
	{ .name = "loop", .type = OPTION_NUMBER, .max = 1, .help = "receive what was sent" },
	{ .name = "take",
	  .type = OPTION_NUMBER,
	  .max = BURST_MAX,
	  .help = "frames a tx takes at most; 0: all" },
	{ 0 },
};

static void null_close(struct port *port)
{
	struct null_port *p = port->priv;

	if (!p)
		return;
	free(p->memory);
	free(p->stack);
	free(p->ring);
	free(p);
	port->priv = NULL;
}

/* Allocates `frames` frames, each with an extra cache line, so that they do not all fall into the
 * same cache sets. */
static bool null_make(struct null_port *p, uint32_t frames, uint32_t bytes)
{
	const size_t stride =
		((size_t)bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE + CACHE_LINE;

	p->stack = lines_alloc(frames, sizeof(*p->stack));
	p->memory = aligned_alloc(CACHE_LINE, stride * frames);
	if (!p->stack || !p->memory)
		return false;
	memset(p->memory, 0, stride * frames);
	for (; p->free < frames; p->free++)
		p->stack[p->free] = (struct frame){ .data = p->memory + stride * p->free,
						    .handle = (uintptr_t)p };
	return true;
}

/* Returns frames to their owners. */
static void null_give(struct null_port *p, const struct frame *f, uint32_t n)
{
	uint64_t others = 0;

	for (uint32_t i = 0; i < n; i++)
		others |= f[i].handle ^ (uintptr_t)p;
	if (likely(!others)) {
		memcpy(p->stack + p->free, f, n * sizeof(*f));
		p->free += n;
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct null_port *owner = (struct null_port *)(uintptr_t)f[i].handle;

		owner->stack[owner->free++] = f[i];
	}
}

static int null_open(struct port *port)
{
	struct null_port *p = lines_alloc(1, sizeof(*p));
	uint32_t size = 1;

	if (!p)
		return port_fail(port, ENOMEM, "no memory for a port");
	port->priv = p;
	while (size < 4 * port->config.burst)
		size *= 2;
	p->mask = size - 1;
	p->take = (uint32_t)port_option(port, "take");
	p->loop = port_option(port, "loop");
	p->ring = lines_alloc(size, sizeof(*p->ring));
	if (!p->ring || !null_make(p, size + 2 * port->config.burst, port->config.frame_max)) {
		null_close(port);
		return port_fail(port, ENOMEM, "no memory for %u frames", size);
	}
	snprintf(port->mode, sizeof(port->mode), p->loop ? "loop" : "sink");
	return 0;
}

static bool null_ready(struct port *port)
{
	(void)port;
	return true;
}

static uint32_t null_alloc(struct port *port, struct frame *f, uint32_t n)
{
	struct null_port *p = port->priv;

	if (n > p->free)
		n = p->free;
	p->free -= n;
	memcpy(f, p->stack + p->free, n * sizeof(*f));
	return n;
}

/* Returns how many of `n` ring entries from `at` on precede the end of the ring. */
static uint32_t null_before_end(const struct null_port *p, uint32_t at, uint32_t n)
{
	const uint32_t left = p->mask + 1 - (at & p->mask);

	return n < left ? n : left;
}

static uint32_t null_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct null_port *p = port->priv;
	uint32_t room, first;

	if (p->take && n > p->take)
		n = p->take;
	if (!p->loop) {
		null_give(p, f, n);
		return n;
	}
	room = p->mask + 1 - (p->tail - p->head);
	if (n > room)
		n = room;
	first = null_before_end(p, p->tail, n);
	memcpy(p->ring + (p->tail & p->mask), f, first * sizeof(*f));
	memcpy(p->ring, f + first, (n - first) * sizeof(*f));
	p->tail += n;
	return n;
}

static uint32_t null_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	struct null_port *p = port->priv;
	uint32_t first;

	(void)arrivals;
	if (n > p->tail - p->head)
		n = p->tail - p->head;
	first = null_before_end(p, p->head, n);
	memcpy(f, p->ring + (p->head & p->mask), first * sizeof(*f));
	memcpy(f + first, p->ring, (n - first) * sizeof(*f));
	p->head += n;
	return n;
}

static void null_release(struct port *port, struct frame *f, uint32_t n)
{
	null_give(port->priv, f, n);
}

static void null_stats(struct port *port, struct engine_stats *stats)
{
	(void)port;
	*stats = (struct engine_stats){ 0 };
}

const struct engine engine_null = {
	.name = "null",
	.caps = ENGINE_SPREADS | ENGINE_SENDS | ENGINE_RECEIVES | ENGINE_REFLECTS | ENGINE_CROSSES,
	.options = null_options,
	.summary = "no I/O: the floor of the program's own cost",
	.open = null_open,
	.ready = null_ready,
	.alloc = null_alloc,
	.tx = null_tx,
	.rx = null_rx,
	.release = null_release,
	.stats = null_stats,
	.close = null_close,
};
