/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memif: rings in memory shared with another program on this host, without DPDK. Frames are written
 * and read where they lie in that memory, at both ends.
 *
 * The client's memory has one buffer per slot. A slot keeps its buffer, so a sent frame of the same
 * length changes nothing but the frame. If frames are sent in another order than allocated, the
 * buffers of their slots are exchanged, and also if a received frame is sent back. A server cannot
 * do that: its slots belong to the client. It copies the frames that it sends back, and after the
 * first frame that comes out of order, or if the client's buffers are shorter than its frames, it
 * copies from memory of its own.
 */
#include "engine.h"
#include "memif_device.h"
#include "pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Handles of frames. Those of a pool are addresses, whose lower bits are 0. */
enum {
	HANDLE_IN_RING = 1 << 0,
	HANDLE_RECEIVED = 1 << 1,
	HANDLE_QUEUE_AT = 2, /* the number among the queues that the port reads */
	/* The slot of a received frame, or of a server's frame to send; the buffer of a client's. */
	HANDLE_SLOT_AT = 8,
};

/* One ring of a port. Positions count on beyond the end of the ring. */
struct ring {
	struct memif_ring *ring;
	uint16_t *ours; /* the position that this end publishes */
	const uint16_t *theirs; /* the position that the other end publishes */
	/* How far the position of the client is ahead of the slots that it stands for. */
	uint16_t ours_ahead, theirs_ahead;
	uint16_t mask;
	uint16_t limit; /* the position up to which slots are ours, as of the last look */
	/* The slots from `first` to `next` are the caller's: allocated, or received. */
	uint16_t first, next;
	int wake;
	/* At a client: the buffers of all its rings have numbers, from the first at `buffers` on. */
	uint8_t *buffers;
	uint32_t buffers_at, stride; /* in region 0 */
	uint32_t *buffer_of; /* by slot */
	uint16_t *slot_of; /* of a ring to send, by buffer: the slot, if the ring has the buffer */
	uint8_t *returned; /* slots between `first` and `next` that the caller has returned */
};

struct memif_port {
	struct memif_device *device;
	struct memif_link *link; /* in use; NULL: none. The device may have another one. */
	bool client, copies;
	uint32_t queue, first, queues, turn;
	uint32_t held; /* frames that the caller has */
	uint32_t frame_max, buffer;
	uint64_t invalid, lost;
	struct pool *pool; /* at a server */
	struct ring tx, rx[MEMIF_QUEUES_MAX];
};

static const char *const roles[] = { "client", "server", NULL };
static const char *const memories[] = { "no-huge", "hugepages", NULL };

static const struct option_spec memif_options[] = {
	{ .name = "socket", .type = OPTION_TEXT, .help = "path of the control channel" },
	{ .name = "role",
	  .type = OPTION_TEXT,
	  .choices = roles,
	  .help = "a client connects and owns the memory, a server listens" },
	{ .name = "id",
	  .type = OPTION_NUMBER,
	  .max = UINT32_MAX,
	  .help = "of the interface, among those of the socket" },
	{ .name = "queues",
	  .type = OPTION_NUMBER,
	  .min = 1,
	  .max = MEMIF_QUEUES_MAX,
	  .preset = 1,
	  .help = "pairs of rings" },
	{ .name = "ring",
	  .type = OPTION_NUMBER,
	  .min = 16,
	  .max = 1 << MEMIF_LOG2_MAX,
	  .preset = 1024,
	  .help = "slots in each ring, a power of two; a server takes the client's" },
	{ .name = "buffer",
	  .type = OPTION_NUMBER,
	  .max = 65536,
	  .preset = 2048,
	  .help = "bytes of a client's buffers, at least those of the longest frame" },
	{ .name = "memory",
	  .type = OPTION_TEXT,
	  .choices = memories,
	  .help = "what a client has its memory in" },
	{ 0 },
};

/* ---- rings --------------------------------------------------------------------------- */

/* The other end writes these at any time. */
always_inline uint16_t position_read(const uint16_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

always_inline void position_write(uint16_t *at, uint16_t position)
{
	__atomic_store_n(at, position, __ATOMIC_RELEASE);
}

static void ring_close(struct ring *r)
{
	free(r->buffer_of);
	free(r->slot_of);
	free(r->returned);
	memset(r, 0, sizeof(*r));
}

/* Starts to use a ring. `client`: of this end; `sends`: this end fills it. */
static bool ring_open(struct ring *r, const struct memif_link *link, const struct memif_queue *q,
		      uint32_t number, bool sends)
{
	const uint32_t slots = 1u << q->log2;
	const bool client = link->client;

	memset(r, 0, sizeof(*r));
	r->ring = q->ring;
	r->ours = client ? &q->ring->head : &q->ring->tail;
	r->theirs = client ? &q->ring->tail : &q->ring->head;
	r->mask = (uint16_t)(slots - 1);
	r->wake = q->wake;
	/* To send, a client has the slots behind the server; to receive, it offers them. */
	if (client && sends)
		r->theirs_ahead = (uint16_t)slots;
	else if (client)
		r->ours_ahead = (uint16_t)slots;
	r->first = r->next = r->limit = (uint16_t)(position_read(r->ours) - r->ours_ahead);
	r->returned = lines_alloc(slots, sizeof(*r->returned));
	if (!r->returned)
		return false;
	if (!client)
		return true;
	r->buffers = link->regions[0].base + link->buffers;
	r->buffers_at = (uint32_t)link->buffers;
	r->stride = link->stride;
	r->buffer_of = lines_alloc(slots, sizeof(*r->buffer_of));
	for (uint32_t s = 0; r->buffer_of && s < slots; s++)
		r->buffer_of[s] = number * slots + s;
	if (!sends || !r->buffer_of)
		return r->buffer_of;
	r->slot_of = lines_alloc((size_t)(link->to_server_count + link->to_client_count) * slots,
				 sizeof(*r->slot_of));
	for (uint32_t s = 0; r->slot_of && s < slots; s++)
		r->slot_of[r->buffer_of[s]] = (uint16_t)s;
	return r->slot_of;
}

/* At a client: gives a slot another buffer. */
always_inline void slot_point(struct ring *r, uint16_t slot, uint32_t buffer)
{
	r->buffer_of[slot] = buffer;
	if (r->slot_of)
		r->slot_of[buffer] = slot;
	r->ring->slots[slot].offset = r->buffers_at + buffer * r->stride;
}

/* At a client: returns the memory of a slot. */
always_inline uint8_t *slot_data(const struct ring *r, uint16_t slot)
{
	return r->buffers + (size_t)r->buffer_of[slot] * r->stride;
}

/* Looks how many slots the other end has handed over. False: it has written nonsense. */
always_inline bool ring_look(struct ring *r)
{
	const uint16_t limit = (uint16_t)(position_read(r->theirs) + r->theirs_ahead);

	if (unlikely((uint16_t)(limit - r->first) > r->mask + 1u))
		return false;
	r->limit = limit;
	return true;
}

/* Returns the slots before `first` to the end that fills them, which never sleeps for that. */
always_inline void ring_return(struct ring *r)
{
	position_write(r->ours, (uint16_t)(r->first + r->ours_ahead));
}

/* Hands over the frames before `first`. */
always_inline void ring_publish(struct ring *r)
{
	ring_return(r);
	if (unlikely(!(*(volatile uint16_t *)&r->ring->flags & MEMIF_NO_WAKE))) {
		const uint64_t one = 1;

		/* A full counter wakes as well. */
		(void)!write(r->wake, &one, sizeof(one));
	}
}

static void ring_broken(struct port *port)
{
	port_fail(port, EPROTO, "the other end of %s has written impossible positions into a ring",
		  port_option_text(port, "socket"));
}

/* Returns the buffer of a slot that the other end described, if `len` bytes are in its region. */
always_inline uint8_t *slot_buffer(const struct memif_link *link, const struct memif_slot *s,
				   uint32_t len)
{
	const struct memif_region *r;

	if (unlikely(s->region >= link->regions_count))
		return NULL;
	r = &link->regions[s->region];
	return likely((uint64_t)s->offset + len <= r->bytes) ? r->base + s->offset : NULL;
}

typedef uint64_t __attribute__((may_alias)) word;

/* Reads a slot once: the other end may write it again. */
always_inline struct memif_slot slot_read(const struct memif_slot *at)
{
	const uint64_t words[2] = { __atomic_load_n((const word *)at, __ATOMIC_RELAXED),
				    __atomic_load_n((const word *)at + 1, __ATOMIC_RELAXED) };
	struct memif_slot s;

	memcpy(&s, words, sizeof(s));
	return s;
}

/* The same without the place of the buffer. */
always_inline struct memif_slot slot_read_length(const struct memif_slot *at)
{
	const uint64_t first = __atomic_load_n((const word *)at, __ATOMIC_RELAXED);
	struct memif_slot s = { 0 };

	memcpy(&s, &first, sizeof(first));
	return s;
}

/* Writes a slot without flags by one store. */
always_inline void slot_write(struct memif_slot *at, uint32_t len)
{
	struct memif_slot s = { .region = at->region, .len = len };
	uint64_t first;

	memcpy(&first, &s, sizeof(first));
	__atomic_store_n((word *)at, first, __ATOMIC_RELAXED);
}

/* ---- links --------------------------------------------------------------------------- */

static void rings_close(struct memif_port *p)
{
	ring_close(&p->tx);
	for (uint32_t i = 0; i < p->queues; i++)
		ring_close(&p->rx[i]);
	memif_link_leave(p->link);
	p->link = NULL;
}

static bool rings_open(struct port *port, struct memif_port *p, struct memif_link *link)
{
	const struct memif_queue *tx = link->client ? link->to_server : link->to_client;
	const struct memif_queue *rx = link->client ? link->to_client : link->to_server;
	const uint32_t all = p->device->plan.queues;
	bool made = true;

	p->link = link;
	p->copies = false;
	if (port->config.sends)
		made = ring_open(&p->tx, link, &tx[p->queue], p->queue, true);
	for (uint32_t i = 0; made && port->config.receives && i < p->queues; i++)
		made = ring_open(&p->rx[i], link, &rx[p->first + i], all + p->first + i, false);
	return made;
}

/* Returns the frames that a client has sent and the server has not taken. A server does not see
 * that: a client may offer any number of buffers. */
static uint16_t ring_waiting(const struct ring *r)
{
	if (!r->ring || !r->theirs_ahead)
		return 0;
	return (uint16_t)(r->first - position_read(r->theirs));
}

static bool ring_has_frames(struct ring *r)
{
	return r->ring && ring_look(r) && r->limit != r->next;
}

/* Changes to the link that the device has now. Waits until the caller has no frames of the old
 * one, and until all frames that came over it are read. */
static void port_follow(struct port *port, struct memif_port *p)
{
	struct memif_link *link;

	if (p->held)
		return;
	for (uint32_t i = 0; i < p->queues; i++)
		if (ring_has_frames(&p->rx[i]))
			return;
	if (p->link)
		p->lost += ring_waiting(&p->tx);
	rings_close(p);
	link = memif_device_link(p->device);
	if (link && !rings_open(port, p, link)) {
		rings_close(p);
		port_fail(port, ENOMEM, "no memory for the rings of a port");
	}
}

always_inline bool port_is_behind(const struct memif_port *p)
{
	return p->link != atomic_load_explicit(&p->device->link, memory_order_acquire);
}

/* ---- sending ------------------------------------------------------------------------- */

always_inline uint64_t handle_make(uint32_t slot, uint32_t queue, uint32_t flags)
{
	return (uint64_t)slot << HANDLE_SLOT_AT | queue << HANDLE_QUEUE_AT | HANDLE_IN_RING | flags;
}

always_inline uint16_t handle_slot(uint64_t handle)
{
	return (uint16_t)(handle >> HANDLE_SLOT_AT);
}

always_inline uint32_t handle_buffer(uint64_t handle)
{
	return (uint32_t)(handle >> HANDLE_SLOT_AT);
}

/* The ring that a received frame is from. */
always_inline struct ring *handle_ring(struct memif_port *p, uint64_t handle)
{
	return &p->rx[handle >> HANDLE_QUEUE_AT & (MEMIF_QUEUES_MAX - 1)];
}

/* The buffers of the next slots, at a server: the client has described them. */
static uint32_t server_alloc(const struct port *port, struct memif_port *p, struct ring *r,
			     struct frame *f, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const uint16_t at = r->next & r->mask;
		const struct memif_slot s = slot_read(&r->ring->slots[at]);
		uint8_t *data = s.len < p->frame_max ? NULL :
						       slot_buffer(p->link, &s, p->frame_max);

		if (unlikely(!data)) {
			p->copies = true;
			return i;
		}
		f[i] = (struct frame){ .data = data, .handle = handle_make(at, 0, 0) };
		__builtin_prefetch(data, 1);
		r->next++;
	}
	for (uint32_t i = 0; port->claims && i < n && (uint16_t)(r->next + i) != r->limit; i++) {
		const struct memif_slot s =
			slot_read(&r->ring->slots[(uint16_t)(r->next + i) & r->mask]);
		const uint8_t *data = slot_buffer(p->link, &s, 1);

		if (likely(data))
			line_claim(data);
	}
	return n;
}

static uint32_t memif_alloc(struct port *port, struct frame *f, uint32_t n)
{
	struct memif_port *p = port->priv;
	struct ring *r = &p->tx;
	uint32_t room;

	if (unlikely(port_is_behind(p)))
		port_follow(port, p);
	if (unlikely(!r->ring) || unlikely(port_is_behind(p)))
		return 0;
	if (unlikely(p->copies)) {
		n = pool_take(p->pool, f, n);
		p->held += n;
		return n;
	}
	room = (uint16_t)(r->limit - r->next);
	if (room < n) {
		if (unlikely(!ring_look(r))) {
			ring_broken(port);
			return 0;
		}
		room = (uint16_t)(r->limit - r->next);
	}
	n = n < room ? n : room;
	if (!p->client) {
		n = server_alloc(port, p, r, f, n);
		p->held += n;
		return n;
	}
	for (uint32_t i = 0; i < n; i++) {
		const uint16_t slot = (uint16_t)(r->next + i) & r->mask;
		uint8_t *data = slot_data(r, slot);

		f[i] = (struct frame){ .data = data,
				       .handle = handle_make(r->buffer_of[slot], 0, 0) };
		__builtin_prefetch(data, 1);
	}
	r->next = (uint16_t)(r->next + n);
	for (uint32_t i = 0; port->claims && i < n && (uint16_t)(r->next + i) != r->limit; i++)
		line_claim(slot_data(r, (uint16_t)(r->next + i) & r->mask));
	p->held += n;
	return n;
}

/* Exchanges the buffers of two slots of a client. */
static void buffers_swap(struct ring *r, uint16_t a, uint16_t b)
{
	const uint32_t of_a = r->buffer_of[a];

	slot_point(r, a, r->buffer_of[b]);
	slot_point(r, b, of_a);
}

/* Returns a slot to the other end; a client offers its buffer again. */
always_inline void slot_return(struct memif_port *p, struct ring *r, uint16_t slot)
{
	if (p->client) {
		struct memif_slot *s = &r->ring->slots[slot];

		slot_write(s, p->buffer);
	}
	if (likely(slot == (r->first & r->mask)))
		r->first++;
	else
		r->returned[slot] = 1;
}

/* Passes over slots that were returned before. */
always_inline void slots_skip(struct ring *r)
{
	while (unlikely(r->first != r->next && r->returned[r->first & r->mask])) {
		r->returned[r->first & r->mask] = 0;
		r->first++;
	}
}

/* Returns the slots of frames that were sent back. */
static void reflected_return(struct memif_port *p)
{
	for (uint32_t i = 0; i < p->queues; i++) {
		slots_skip(&p->rx[i]);
		ring_return(&p->rx[i]);
	}
}

/* Gives the slot at `at` the buffer of a received frame, whose slot gets the buffer in exchange.
 * False: there is no free slot. */
static bool client_reflect(struct port *port, struct memif_port *p, uint16_t at, uint64_t handle)
{
	struct ring *r = &p->tx, *from = handle_ring(p, handle);
	const uint16_t slot = at & r->mask, other = handle_slot(handle);
	uint32_t free;

	if (r->next == r->limit && unlikely(!ring_look(r))) {
		ring_broken(port);
		return false;
	}
	if (r->next == r->limit)
		return false;
	/* The slot may have the buffer of an allocated frame, which stays with the caller. */
	if (at != r->next)
		buffers_swap(r, slot, r->next & r->mask);
	r->next++;
	free = r->buffer_of[slot];
	slot_point(r, slot, from->buffer_of[other]);
	slot_point(from, other, free);
	slot_return(p, from, other);
	return true;
}

static uint32_t client_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct memif_port *p = port->priv;
	struct ring *r = &p->tx;
	uint16_t at = r->first;
	bool reflected = false;
	uint32_t i;

	for (i = 0; i < n; i++, at++) {
		const uint16_t slot = at & r->mask;
		struct memif_slot *s = &r->ring->slots[slot];

		if (unlikely(f[i].handle & HANDLE_RECEIVED)) {
			if (!client_reflect(port, p, at, f[i].handle))
				break;
			reflected = true;
		} else if (unlikely(r->buffer_of[slot] != handle_buffer(f[i].handle))) {
			buffers_swap(r, slot, r->slot_of[handle_buffer(f[i].handle)]);
		}
		/* The server only reads: its cache keeps what does not change. */
		if (unlikely(s->len != f[i].len))
			s->len = f[i].len;
	}
	r->first = at;
	p->held -= i;
	if (i)
		ring_publish(r);
	if (unlikely(reflected))
		reflected_return(p);
	return i;
}

/* Copies a frame into as many slots as it needs. False: there are too few. */
static bool server_copy(struct port *port, struct memif_port *p, const struct frame *f)
{
	struct ring *r = &p->tx;
	const uint8_t *data = f->data;
	uint16_t at = r->first, last = at;
	uint32_t left = f->len;

	if (unlikely(!ring_look(r))) {
		ring_broken(port);
		return false;
	}
	while (left) {
		struct memif_slot *slot = &r->ring->slots[at & r->mask];
		struct memif_slot s;
		uint32_t some;
		uint8_t *to;

		if (at == r->limit)
			return false;
		s = slot_read(slot);
		some = left < s.len ? left : s.len;
		to = slot_buffer(p->link, &s, some);
		if (!to || !some) {
			port_fail(port, EPROTO, "the client of %s offers buffers without memory",
				  port_option_text(port, "socket"));
			return false;
		}
		memcpy(to, data, some);
		data += some;
		left -= some;
		slot->len = some;
		slot->flags = left ? MEMIF_NEXT : 0;
		last = ++at;
	}
	r->first = r->next = last;
	return true;
}

/* Gives up slots at the end that the caller has returned. */
static void server_shrink(struct ring *r)
{
	while (r->next != r->first && r->returned[(uint16_t)(r->next - 1) & r->mask])
		r->returned[(uint16_t)(--r->next) & r->mask] = 0;
}

/* Puts a frame into the first slot, if that is free. */
static bool server_put(struct port *port, struct memif_port *p, const struct frame *f)
{
	struct ring *r = &p->tx;
	const uint16_t first = r->first & r->mask, slot = handle_slot(f->handle);
	struct memif_slot *s = &r->ring->slots[first];

	if (unlikely(!(f->handle & HANDLE_IN_RING)))
		return r->first == r->next && server_copy(port, p, f);
	if (unlikely(f->handle & HANDLE_RECEIVED)) {
		if (r->first != r->next || !server_copy(port, p, f))
			return false;
		slot_return(p, handle_ring(p, f->handle), slot);
		return true;
	}
	if (unlikely(slot != first)) {
		struct memif_slot free;
		uint8_t *to;

		p->copies = true;
		if (!r->returned[first])
			return false;
		free = slot_read(s);
		to = slot_buffer(p->link, &free, f->len);
		if (!to)
			return false;
		memcpy(to, f->data, f->len);
		r->returned[first] = 0;
		r->returned[slot] = 1;
	}
	slot_write(s, f->len);
	r->first++;
	return true;
}

static uint32_t server_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct memif_port *p = port->priv;
	struct ring *r = &p->tx;
	uint32_t taken = 0;
	bool reflected = false;

	while (taken < n && server_put(port, p, &f[taken])) {
		if (unlikely(!(f[taken].handle & HANDLE_IN_RING)))
			pool_give(&f[taken], 1);
		reflected |= f[taken].handle & HANDLE_IN_RING && f[taken].handle & HANDLE_RECEIVED;
		taken++;
	}
	p->held -= taken;
	if (unlikely(p->copies))
		server_shrink(r);
	if (taken)
		ring_publish(r);
	if (unlikely(reflected))
		reflected_return(p);
	return taken;
}

/* ---- receiving ----------------------------------------------------------------------- */

/* Receives a frame that lies in several slots, by copying. Returns false if it is discarded. */
static bool chain_receive(struct memif_port *p, struct ring *r, struct frame *f)
{
	bool whole = p->pool && pool_take(p->pool, f, 1), more = true;
	const bool taken = whole;
	uint32_t len = 0;

	while (more && r->next != r->limit) {
		const uint16_t slot = r->next++ & r->mask;
		const struct memif_slot s = slot_read(&r->ring->slots[slot]);
		const uint8_t *data = slot_buffer(p->link, &s, s.len);

		whole &= data && s.len <= p->frame_max - len;
		if (whole) {
			memcpy((uint8_t *)f->data + len, data, s.len);
			len += s.len;
		}
		more = s.flags & MEMIF_NEXT;
		slot_return(p, r, slot);
	}
	slots_skip(r);
	f->len = len;
	if (whole && !more)
		return true;
	p->invalid++;
	if (taken)
		pool_give(f, 1);
	return false;
}

always_inline uint32_t ring_receive(struct port *port, struct memif_port *p, uint32_t queue,
				    struct frame *f, uint32_t n, const bool client)
{
	struct ring *r = &p->rx[queue];
	uint32_t got = 0;
	bool returned = false;

	if (unlikely(!r->ring))
		return 0;
	if ((uint16_t)(r->limit - r->next) < n && unlikely(!ring_look(r))) {
		ring_broken(port);
		return 0;
	}
	while (got < n && r->next != r->limit) {
		const uint16_t slot = r->next & r->mask;
		const struct memif_slot *at = &r->ring->slots[slot];
		const struct memif_slot s = client ? slot_read_length(at) : slot_read(at);
		uint8_t *data;

		if (unlikely(s.flags & MEMIF_NEXT)) {
			got += chain_receive(p, r, &f[got]);
			returned = true;
			continue;
		}
		r->next++;
		if (client)
			data = s.len <= p->buffer ? slot_data(r, slot) : NULL;
		else
			data = slot_buffer(p->link, &s, s.len);
		if (unlikely(!data)) {
			p->invalid++;
			slot_return(p, r, slot);
			slots_skip(r);
			returned = true;
			continue;
		}
		__builtin_prefetch(data);
		f[got++] = (struct frame){ .data = data,
					   .len = s.len,
					   .handle = handle_make(slot, queue, HANDLE_RECEIVED) };
	}
	if (unlikely(returned))
		ring_return(r);
	return got;
}

always_inline uint32_t port_receive(struct port *port, struct frame *f, uint32_t n,
				    const bool client)
{
	struct memif_port *p = port->priv;
	uint32_t got = 0;

	if (unlikely(port_is_behind(p)))
		port_follow(port, p);
	for (uint32_t tries = p->queues; tries && !got; tries--) {
		got = ring_receive(port, p, p->turn, f, n, client);
		if (p->queues > 1 && ++p->turn == p->queues)
			p->turn = 0;
	}
	p->held += got;
	return got;
}

static uint32_t client_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	(void)arrivals;
	return port_receive(port, f, n, true);
}

static uint32_t server_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	(void)arrivals;
	return port_receive(port, f, n, false);
}

/* ---- releasing ----------------------------------------------------------------------- */

/* Takes back an allocated frame that was not sent. */
static void sending_release(struct memif_port *p, const struct frame *f)
{
	struct ring *r = &p->tx;
	const uint16_t last = (uint16_t)(r->next - 1) & r->mask;
	const uint32_t buffer = handle_buffer(f->handle);

	if (!p->client) {
		r->returned[handle_slot(f->handle)] = 1;
		server_shrink(r);
		return;
	}
	if (r->buffer_of[last] != buffer)
		buffers_swap(r, last, r->slot_of[buffer]);
	r->next--;
}

static void memif_release(struct port *port, struct frame *f, uint32_t n)
{
	struct memif_port *p = port->priv;
	struct ring *last = NULL;

	p->held -= n;
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t handle = f[i].handle;
		struct ring *r;

		if (unlikely(!(handle & HANDLE_IN_RING))) {
			pool_give(&f[i], 1);
			continue;
		}
		if (unlikely(!(handle & HANDLE_RECEIVED))) {
			sending_release(p, &f[i]);
			continue;
		}
		r = handle_ring(p, handle);
		if (unlikely(last && last != r)) {
			slots_skip(last);
			ring_return(last);
		}
		last = r;
		slot_return(p, r, handle_slot(handle));
	}
	if (likely(last)) {
		slots_skip(last);
		ring_return(last);
	}
}

/* ---- ports --------------------------------------------------------------------------- */

static void mode_write(struct port *port, struct memif_port *p)
{
	struct memif_link *link = memif_device_link(p->device);
	const char *how = p->copies ? "copies" : "in place";

	if (p->client)
		snprintf(port->mode, sizeof(port->mode), "client, %s, %s, %u B buffers%s%s", how,
			 port_option_text(port, "memory"), p->device->plan.buffer,
			 link ? ", server " : "", link ? link->peer : "");
	else
		snprintf(port->mode, sizeof(port->mode), "server, %s%s%s", how,
			 link ? ", client " : "", link ? link->peer : "");
	memif_link_leave(link);
}

/* Returns the queues that a port reads, one bit per queue. */
static uint64_t queues_read(const struct port *port, uint32_t all)
{
	if (!port->config.receives)
		return 0;
	return port->config.cores > 1 ? 1ull << port->config.queue : UINT64_MAX >> (64 - all);
}

static uint64_t queue_sent(const struct port *port)
{
	return (uint64_t)port->config.sends << port->config.queue;
}

static void memif_close(struct port *port)
{
	struct memif_port *p = port->priv;

	if (!p)
		return;
	rings_close(p);
	p->device->sent_to &= ~queue_sent(port);
	p->device->received_from &= ~queues_read(port, p->device->plan.queues);
	p->device->ports--;
	memif_device_leave(p->device);
	pool_destroy(p->pool);
	free(p);
	port->priv = NULL;
}

static int memif_check(struct port *port, const struct memif_device *d)
{
	const struct port_config *c = &port->config;

	if (c->queue >= d->plan.queues || (d->plan.client && c->frame_max > d->plan.buffer))
		return port_fail(port, EINVAL,
				 "%s was opened with fewer queues, or for shorter frames", d->path);
	if ((d->received_from & queues_read(port, d->plan.queues)) ||
	    (d->sent_to & queue_sent(port)))
		return port_fail(port, EBUSY, "a queue of %s is used by another port", d->path);
	return 0;
}

static int memif_open(struct port *port)
{
	const struct port_config *c = &port->config;
	struct memif_device *d;
	struct memif_port *p;
	int error = memif_device_take(port, &d);

	if (error)
		return error;
	error = memif_check(port, d);
	p = error ? NULL : lines_alloc(1, sizeof(*p));
	if (p && !d->plan.client)
		p->pool = pool_create(4 * c->burst, c->frame_max);
	if (!p || (!d->plan.client && !p->pool)) {
		memif_device_leave(d);
		free(p);
		return error ? error : port_fail(port, ENOMEM, "no memory for a port");
	}
	p->device = d;
	p->client = d->plan.client;
	p->buffer = d->plan.buffer;
	p->frame_max = c->frame_max;
	p->queue = c->queue;
	p->queues = c->cores > 1 ? 1 : d->plan.queues;
	p->first = c->cores > 1 ? c->queue : 0;
	d->ports++;
	d->received_from |= queues_read(port, d->plan.queues);
	d->sent_to |= queue_sent(port);
	port->priv = p;
	port->shares_frames = true;
	port->tx = p->client ? client_tx : server_tx;
	port->rx = p->client ? client_rx : server_rx;
	mode_write(port, p);
	return 0;
}

static bool memif_ready(struct port *port)
{
	const struct memif_port *p = port->priv;

	return atomic_load(&p->device->link) != NULL;
}

/* The other end may have connected since the port was opened. */
static void memif_describe(struct port *port)
{
	mode_write(port, port->priv);
}

static void memif_stats(struct port *port, struct engine_stats *stats)
{
	const struct memif_port *p = port->priv;

	*stats = (struct engine_stats){ .rx_invalid = p->invalid, .tx_drops = p->lost };
}

const struct engine engine_memif = {
	.name = "memif",
	.caps = ENGINE_SPREADS | ENGINE_SENDS | ENGINE_RECEIVES | ENGINE_REFLECTS,
	.options = memif_options,
	.summary = "memif without DPDK: frames in memory shared with the switch",
	.open = memif_open,
	.ready = memif_ready,
	.alloc = memif_alloc,
	.tx = client_tx,
	.rx = client_rx,
	.release = memif_release,
	.describe = memif_describe,
	.stats = memif_stats,
	.close = memif_close,
};
