/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw and raw-mmsg: AF_PACKET sockets, a system call a frame or one a burst.
 */
#include "clock.h"
#include "engine.h"
#include "frames.h"
#include "pool.h"
#include "slots.h"
#include "socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct raw_port {
	struct pool *pool;
	int fd;
	uint64_t drops, invalid;
	struct slots slots; /* to receive */
	struct arrival *arrivals; /* of frames that are received one by one */
	struct mmsghdr *headers; /* to send */
	struct iovec *vectors;
};

static const struct option_spec raw_options[] = {
	SOCKET_BUFFER_OPTION,
	{ .name = "bypass", .type = OPTION_NUMBER, .max = 1, .help = "send past the qdisc" },
	{ 0 },
};

static void raw_close(struct port *port)
{
	struct raw_port *p = port->priv;

	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	pool_destroy(p->pool);
	free(p->headers);
	free(p->vectors);
	slots_destroy(&p->slots);
	free(p->arrivals);
	free(p);
	port->priv = NULL;
	port->arrivals = NULL;
}

static int raw_open(struct port *port)
{
	const struct port_config *c = &port->config;
	struct raw_port *p = calloc(1, sizeof(*p));
	int error;

	if (!p)
		return port_fail(port, ENOMEM, "no memory for a port");
	port->priv = p;
	p->fd = -1;
	p->pool = pool_create(5 * c->burst, FRAME_CAPACITY);
	p->headers = calloc(c->burst, sizeof(*p->headers));
	p->vectors = calloc(c->burst, sizeof(*p->vectors));
	if (!p->pool || !p->headers || !p->vectors ||
	    !slots_create(&p->slots, p->pool, c->receives ? c->burst : 0,
			  FRAME_CAPACITY - VLAN_BYTES, PACKET_AUXDATA_BYTES, false)) {
		raw_close(port);
		return port_fail(port, ENOMEM, "no memory for bursts of %u frames", c->burst);
	}
	for (uint32_t i = 0; i < c->burst; i++) {
		p->headers[i].msg_hdr.msg_iov = &p->vectors[i];
		p->headers[i].msg_hdr.msg_iovlen = 1;
	}
	p->fd = packet_socket(port);
	if (p->fd < 0) {
		error = p->fd;
		raw_close(port);
		return error;
	}
	socket_buffers(port, p->fd);
	if (port_option(port, "bypass") &&
	    setsockopt(p->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &(int){ 1 }, sizeof(int))) {
		error = errno;
		raw_close(port);
		return port_fail(port, error, "PACKET_QDISC_BYPASS on %s: %s", c->ifname,
				 strerror(error));
	}
	/* For the VLAN tags: see packet_restore_vlan. */
	if (c->receives &&
	    setsockopt(p->fd, SOL_PACKET, PACKET_AUXDATA, &(int){ 1 }, sizeof(int))) {
		error = errno;
		raw_close(port);
		return port_fail(port, error, "PACKET_AUXDATA on %s: %s", c->ifname,
				 strerror(error));
	}
	error = packet_bind(port, p->fd, c->receives);
	if (error)
		raw_close(port);
	snprintf(port->mode, sizeof(port->mode),
		 port_option(port, "bypass") ? "qdisc bypass" : "qdisc");
	return error;
}

/* Opens a port that receives frame by frame. */
static int raw_single_open(struct port *port)
{
	int error = raw_open(port);
	struct raw_port *p = port->priv;

	if (error || !port->config.receives)
		return error;
	p->arrivals = calloc(port->config.burst, sizeof(*p->arrivals));
	if (!p->arrivals) {
		raw_close(port);
		return port_fail(port, ENOMEM, "no memory for bursts of %u frames",
				 port->config.burst);
	}
	port->arrivals = p->arrivals;
	return 0;
}

static bool raw_ready(struct port *port)
{
	return interface_running(port);
}

static uint32_t raw_alloc(struct port *port, struct frame *f, uint32_t n)
{
	struct raw_port *p = port->priv;

	return pool_take(p->pool, f, n);
}

static uint32_t raw_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct raw_port *p = port->priv;
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (unlikely(send(p->fd, f[i].data, f[i].len, MSG_DONTWAIT) < 0)) {
			socket_tx_failed(port);
			break;
		}
	}
	pool_give(f, i);
	return i;
}

static uint32_t raw_mmsg_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct raw_port *p = port->priv;
	int sent;

	for (uint32_t i = 0; i < n; i++)
		p->vectors[i] = (struct iovec){ f[i].data, f[i].len };
	sent = sendmmsg(p->fd, p->headers, n, MSG_DONTWAIT);
	if (unlikely(sent < 0)) {
		socket_tx_failed(port);
		return 0;
	}
	pool_give(f, (uint32_t)sent);
	return (uint32_t)sent;
}

/* Hands out the first `got` frames of the slots, but those that are longer than their buffer. */
always_inline uint32_t raw_take(struct raw_port *p, struct frame *f, uint32_t got)
{
	struct slots *s = &p->slots;
	uint32_t whole = 0;

	for (uint32_t i = 0; i < got; i++) {
		if (unlikely(slots_cut(s, i))) {
			p->invalid++;
			continue;
		}
		f[whole] = s->frames[i];
		f[whole].len = packet_restore_vlan(&s->headers[i].msg_hdr, f[whole].data,
						   s->headers[i].msg_len);
		whole++;
	}
	slots_refill(s, got);
	return whole;
}

/* Each frame is stamped: with one stamp for all, the first would look older by the calls that
 * fetched the others. */
static uint32_t raw_rx(struct port *port, struct frame *f, uint32_t n)
{
	struct raw_port *p = port->priv;
	uint32_t got = 0;

	for (uint32_t i = 0; i < n && slots_fill(&p->slots, 1); i++) {
		ssize_t len = recvmsg(p->fd, &p->slots.headers[0].msg_hdr, MSG_DONTWAIT);

		if (len < 0) {
			socket_rx_failed(port);
			break;
		}
		p->arrivals[got].ticks = clock_ticks();
		p->slots.headers[0].msg_len = (unsigned)len;
		got += raw_take(p, f + got, 1);
	}
	return got;
}

static uint32_t raw_mmsg_rx(struct port *port, struct frame *f, uint32_t n)
{
	struct raw_port *p = port->priv;
	uint32_t room = slots_fill(&p->slots, port->config.burst);
	int got = recvmmsg(p->fd, p->slots.headers, n < room ? n : room, MSG_DONTWAIT, NULL);

	if (got < 0) {
		socket_rx_failed(port);
		return 0;
	}
	return raw_take(p, f, (uint32_t)got);
}

static void raw_release(struct port *port, struct frame *f, uint32_t n)
{
	(void)port;
	pool_give(f, n);
}

static void raw_stats(struct port *port, struct engine_stats *stats)
{
	struct raw_port *p = port->priv;

	p->drops += packet_socket_drops(p->fd);
	*stats = (struct engine_stats){
		.rx_ring_drops = p->drops,
		.rx_invalid = p->invalid,
		.tx_errors = port->tx_errors,
	};
}

#define RAW_CAPS                                                                                   \
	(ENGINE_SENDS | ENGINE_RECEIVES | ENGINE_REFLECTS | ENGINE_CROSSES | ENGINE_NEEDS_INTERFACE)

const struct engine engine_raw = {
	.name = "raw",
	.caps = RAW_CAPS,
	.options = raw_options,
	.summary = "AF_PACKET, a system call a frame",
	.open = raw_single_open,
	.ready = raw_ready,
	.alloc = raw_alloc,
	.tx = raw_tx,
	.rx = raw_rx,
	.release = raw_release,
	.stats = raw_stats,
	.close = raw_close,
};

const struct engine engine_raw_mmsg = {
	.name = "raw-mmsg",
	.caps = RAW_CAPS,
	.options = raw_options,
	.summary = "AF_PACKET, a system call a burst (sendmmsg, recvmmsg)",
	.open = raw_open,
	.ready = raw_ready,
	.alloc = raw_alloc,
	.tx = raw_mmsg_tx,
	.rx = raw_mmsg_rx,
	.release = raw_release,
	.stats = raw_stats,
	.close = raw_close,
};
