/* SPDX-License-Identifier: Apache-2.0 */
/*
 * null: no I/O at all. The floor of what the core costs, and the tutorial for a new engine.
 * With `loop` set, a port receives what it sent; `take` bounds how many frames one tx takes,
 * so that the contract tests see a full ring.
 */
#include "engine.h"
#include "pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct null_port {
	struct pool *pool;
	uint32_t take;
	bool loop;
	uint32_t head, tail, mask; /* the ring of frames sent and not yet received */
	struct frame *ring;
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
	pool_destroy(p->pool);
	free(p->ring);
	free(p);
	port->priv = NULL;
}

static int null_open(struct port *port)
{
	struct null_port *p = calloc(1, sizeof(*p));
	uint32_t size = 1;

	if (!p)
		return port_fail(port, ENOMEM, "no memory for a port");
	port->priv = p;
	while (size < 4 * port->config.burst)
		size *= 2;
	p->mask = size - 1;
	p->take = (uint32_t)port_option(port, "take");
	p->loop = port_option(port, "loop");
	p->pool = pool_create(size + 2 * port->config.burst, port->config.frame_max);
	p->ring = calloc(size, sizeof(*p->ring));
	if (!p->pool || !p->ring) {
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

	return pool_take(p->pool, f, n);
}

static uint32_t null_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct null_port *p = port->priv;
	/* What frames are written to may be anything: held here, it need not be read again. */
	struct frame *const ring = p->ring;
	const uint32_t mask = p->mask, tail = p->tail;
	uint32_t room;

	if (p->take && n > p->take)
		n = p->take;
	if (!p->loop) {
		pool_give(f, n);
		return n;
	}
	room = p->mask + 1 - (p->tail - p->head);
	if (n > room)
		n = room;
	for (uint32_t i = 0; i < n; i++)
		ring[(tail + i) & mask] = f[i];
	p->tail = tail + n;
	return n;
}

static uint32_t null_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	struct null_port *p = port->priv;
	const struct frame *const ring = p->ring;
	const uint32_t mask = p->mask, head = p->head;

	(void)arrivals;
	if (n > p->tail - head)
		n = p->tail - head;
	for (uint32_t i = 0; i < n; i++)
		f[i] = ring[(head + i) & mask];
	p->head = head + n;
	return n;
}

static void null_release(struct port *port, struct frame *f, uint32_t n)
{
	(void)port;
	pool_give(f, n);
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
