/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netmap: a port of a VALE switch, or an interface in netmap mode, by rings shared with the kernel.
 * Frames are copied to and from the slots, because slots return to the kernel in ring order, but
 * callers release frames in any order. The netmap headers come from the user's system, like the
 * netmap module.
 */
#include "engine.h"
#include "pool.h"
#include "socket.h"

#include <errno.h>
#include <fcntl.h>
#include <net/netmap_user.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RINGS_MAX = 64 };

struct netmap_port {
	struct pool *pool;
	int fd;
	void *memory;
	size_t bytes;
	struct netmap_ring *tx;
	struct netmap_ring *rx[RINGS_MAX];
	uint32_t rings, next; /* receive rings, and the one to poll next */
	uint32_t taken; /* frames taken since the last RXSYNC */
	uint64_t invalid;
};

static const struct option_spec netmap_options[] = {
	{ .name = "port",
	  .type = OPTION_TEXT,
	  .help = "a port of a switch, such as vale0:a; empty: the interface" },
	{ .name = "slots",
	  .type = OPTION_NUMBER,
	  .min = 64,
	  .max = 16384,
	  .preset = 1024,
	  .help = "frames in each ring of a port of a switch" },
	{ 0 },
};

static void netmap_close(struct port *port)
{
	struct netmap_port *p = port->priv;

	if (!p)
		return;
	if (p->memory)
		munmap(p->memory, p->bytes);
	if (p->fd >= 0)
		close(p->fd);
	pool_destroy(p->pool);
	free(p);
	port->priv = NULL;
}

/* Registers the port: interfaces and switches belong to the network namespace of the caller. */
static int netmap_register(struct port *port, const char *name, struct nmreq_register *request)
{
	struct netmap_port *p = port->priv;
	struct nmreq_header header = {
		.nr_version = NETMAP_API,
		.nr_reqtype = NETMAP_REQ_REGISTER,
		.nr_body = (uintptr_t)request,
	};
	int saved, error = 0;

	if (!name[0] || strlen(name) >= sizeof(header.nr_name))
		return port_fail(port, EINVAL, "'%s' is no name of a port of netmap", name);
	memcpy(header.nr_name, name, strlen(name));
	saved = namespace_enter(port);
	if (saved < -1)
		return saved;
	p->fd = open("/dev/netmap", O_RDWR | O_CLOEXEC);
	if (p->fd < 0)
		error = port_fail(port, errno, "/dev/netmap: %s", strerror(errno));
	else if (ioctl(p->fd, NIOCCTRL, &header))
		error = port_fail(port, errno, "netmap does not give the port %s: %s", name,
				  strerror(errno));
	namespace_leave(saved);
	return error;
}

static int netmap_map(struct port *port, const struct nmreq_register *request)
{
	struct netmap_port *p = port->priv;
	struct netmap_if *interface;

	p->bytes = request->nr_memsize;
	p->memory = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
	if (p->memory == MAP_FAILED) {
		p->memory = NULL;
		return port_fail(port, errno, "cannot map %zu bytes of netmap's: %s", p->bytes,
				 strerror(errno));
	}
	interface = NETMAP_IF(p->memory, request->nr_offset);
	p->tx = NETMAP_TXRING(interface, 0);
	while (p->rings < interface->ni_rx_rings && p->rings < RINGS_MAX) {
		p->rx[p->rings] = NETMAP_RXRING(interface, p->rings);
		p->rings++;
	}
	return 0;
}

static int netmap_start(struct port *port)
{
	const struct port_config *c = &port->config;
	const char *name = port_option_text(port, "port");
	struct netmap_port *p = port->priv;
	struct nmreq_register request = { .nr_mode = NR_REG_ALL_NIC };
	int error;

	if (name[0]) {
		request.nr_tx_rings = request.nr_rx_rings = 1;
		request.nr_tx_slots = request.nr_rx_slots = (uint32_t)port_option(port, "slots");
	}
	error = netmap_register(port, name[0] ? name : c->ifname, &request);
	if (!error)
		error = netmap_map(port, &request);
	if (error)
		return error;
	if (c->frame_max > p->tx->nr_buf_size)
		return port_fail(port, EMSGSIZE, "frames of %u bytes do not fit netmap's %u",
				 c->frame_max, p->tx->nr_buf_size);
	p->pool = pool_create(4 * c->burst + p->rx[0]->num_slots, p->tx->nr_buf_size);
	if (!p->pool)
		return port_fail(port, ENOMEM, "no memory for frames");
	snprintf(port->mode, sizeof(port->mode), "netmap API %d, %s, copy", NETMAP_API,
		 name[0] ? "port of a switch" : "interface");
	return 0;
}

static int netmap_open(struct port *port)
{
	struct netmap_port *p = lines_alloc(1, sizeof(*p));
	int error;

	if (!p)
		return port_fail(port, ENOMEM, "no memory for a port");
	p->fd = -1;
	port->priv = p;
	error = netmap_start(port);
	if (error)
		netmap_close(port);
	return error;
}

static bool netmap_ready(struct port *port)
{
	return port_option_text(port, "port")[0] || interface_running(port);
}

static uint32_t netmap_alloc(struct port *port, struct frame *f, uint32_t n)
{
	struct netmap_port *p = port->priv;

	return pool_take(p->pool, f, n);
}

/* Passes the ring positions to the kernel and gets its updates. */
always_inline void netmap_sync(struct port *port, int fd, unsigned long request)
{
	if (unlikely(ioctl(fd, request, NULL)))
		port_fail(port, errno, "netmap: %s", strerror(errno));
}

static uint32_t netmap_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct netmap_port *p = port->priv;
	struct netmap_ring *r = p->tx;
	uint32_t space = nm_ring_space(r), head = r->head, i;

	if (n > space)
		n = space;
	for (i = 0; i < n; i++) {
		struct netmap_slot *slot = &r->slot[head];

		if (unlikely(f[i].len > r->nr_buf_size)) {
			if (!i)
				port_fail(port, EMSGSIZE, "cannot send a frame of %u bytes",
					  f[i].len);
			break;
		}
		memcpy(NETMAP_BUF(r, slot->buf_idx), f[i].data, f[i].len);
		slot->len = (uint16_t)f[i].len;
		slot->flags = 0;
		head = nm_ring_next(r, head);
	}
	r->head = r->cur = head;
	/* A switch forwards within this call, on this core. */
	netmap_sync(port, p->fd, NIOCTXSYNC);
	pool_give(f, i);
	return i;
}

/* Takes frames from one receive ring. */
static uint32_t netmap_take(struct netmap_port *p, struct netmap_ring *r, struct frame *f,
			    uint32_t n)
{
	uint32_t head = r->head, space = nm_ring_space(r), taken = 0;

	n = pool_take(p->pool, f, n < space ? n : space);
	for (uint32_t i = 0; i < n; i++) {
		const struct netmap_slot *slot = &r->slot[head];

		head = nm_ring_next(r, head);
		/* A frame in several slots is longer than any test frame. */
		if (unlikely(slot->flags & NS_MOREFRAG || slot->len > r->nr_buf_size)) {
			p->invalid++;
			continue;
		}
		memcpy(f[taken].data, NETMAP_BUF(r, slot->buf_idx), slot->len);
		f[taken++].len = slot->len;
	}
	r->head = r->cur = head;
	p->taken += n;
	pool_give(f + taken, n - taken);
	return taken;
}

static uint32_t netmap_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	struct netmap_port *p = port->priv;
	uint32_t got = 0;

	(void)arrivals;
	/* Slots return to the kernel at a sync: sync before the kernel runs out of slots. */
	if (p->taken >= p->rx[0]->num_slots / 4 || !nm_ring_space(p->rx[p->next])) {
		netmap_sync(port, p->fd, NIOCRXSYNC);
		p->taken = 0;
	}
	for (uint32_t i = 0; i < p->rings && !got; i++) {
		got = netmap_take(p, p->rx[p->next], f, n);
		if (!nm_ring_space(p->rx[p->next]))
			p->next = p->next + 1 < p->rings ? p->next + 1 : 0;
	}
	return got;
}

static void netmap_release(struct port *port, struct frame *f, uint32_t n)
{
	(void)port;
	pool_give(f, n);
}

static void netmap_stats(struct port *port, struct engine_stats *stats)
{
	const struct netmap_port *p = port->priv;

	*stats = (struct engine_stats){ .rx_invalid = p->invalid };
}

const struct engine engine_netmap = {
	.name = "netmap",
	.caps = ENGINE_SENDS | ENGINE_RECEIVES | ENGINE_REFLECTS | ENGINE_CROSSES |
		ENGINE_NEEDS_ROOT,
	.options = netmap_options,
	.summary = "netmap: ports of a VALE switch, and interfaces in netmap mode",
	.open = netmap_open,
	.ready = netmap_ready,
	.alloc = netmap_alloc,
	.tx = netmap_tx,
	.rx = netmap_rx,
	.release = netmap_release,
	.stats = netmap_stats,
	.close = netmap_close,
};
