/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw, raw-mmsg and raw-gso: AF_PACKET sockets, one system call per frame or one per burst. With
 * raw-gso, frames with equal headers are sent as one packet, which the sending device splits.
 */
#include "clock.h"
#include "engine.h"
#include "frames.h"
#include "gso.h"
#include "messages.h"
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
	struct messages messages;
	int fd;
	/* the sockets that share the incoming frames; NULL: a single socket */
	struct packet_group *group;
	/* raw-gso: the socket that sends packets of several frames, and memory for one packet */
	int packet_fd; /* -1: the port sends no packets */
	uint8_t *packet;
	struct gso_device device;
};

static const struct option_spec raw_options[] = {
	SOCKET_BUFFER_OPTION,
	{ .name = "bypass", .type = OPTION_NUMBER, .max = 1, .help = "send past the qdisc" },
	{ 0 },
};

static const struct option_spec raw_gso_options[] = {
	SOCKET_BUFFER_OPTION,
	{ 0 },
};

static void raw_close(struct port *port)
{
	struct raw_port *p = port->priv;

	if (!p)
		return;
	packet_group_leave(p->group);
	if (p->fd >= 0)
		close(p->fd);
	if (p->packet_fd >= 0)
		close(p->packet_fd);
	free(p->packet);
	messages_close(&p->messages);
	free(p);
	port->priv = NULL;
}

static int raw_option(struct port *port, int fd, int name, const char *text)
{
	if (!setsockopt(fd, SOL_PACKET, name, &(int){ 1 }, sizeof(int)))
		return 0;
	return port_fail(port, errno, "%s on %s: %s", text, port->config.ifname, strerror(errno));
}

static int raw_start(struct port *port)
{
	const struct port_config *c = &port->config;
	struct raw_port *p = port->priv;
	int error = messages_open(port, &p->messages, PACKET_AUXDATA_BYTES, false);

	if (error)
		return error;
	p->fd = packet_socket(port);
	if (p->fd < 0)
		return p->fd;
	socket_buffers(port, p->fd);
	if (port_option(port, "bypass"))
		error = raw_option(port, p->fd, PACKET_QDISC_BYPASS, "PACKET_QDISC_BYPASS");
	/* For the VLAN tags: see packet_restore_vlan. */
	if (!error && c->receives)
		error = raw_option(port, p->fd, PACKET_AUXDATA, "PACKET_AUXDATA");
	if (!error)
		error = packet_bind(port, p->fd, c->receives);
	if (!error && c->receives)
		error = packet_spread(port, p->fd, &p->group);
	snprintf(port->mode, sizeof(port->mode),
		 port_option(port, "bypass") ? "qdisc bypass" : "qdisc");
	return error;
}

static int raw_open(struct port *port)
{
	struct raw_port *p = lines_alloc(1, sizeof(*p));
	int error;

	if (!p)
		return port_fail(port, ENOMEM, "no memory for a port");
	p->fd = p->packet_fd = -1;
	port->priv = p;
	error = raw_start(port);
	if (error)
		raw_close(port);
	return error;
}

/* Opens a port that receives one frame per call. */
static int raw_single_open(struct port *port)
{
	port->notes_arrivals = port->config.receives;
	port->stamps_by = "call";
	return raw_open(port);
}

static bool raw_ready(struct port *port)
{
	return interface_running(port);
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

/* Sends frames by one system call. Returns the number of frames that the kernel took. */
static uint32_t raw_send_burst(struct port *port, const struct frame *f, uint32_t n)
{
	struct raw_port *p = port->priv;
	struct messages *m = &p->messages;
	int sent;

	for (uint32_t i = 0; i < n; i++)
		m->vectors[i] = (struct iovec){ f[i].data, f[i].len };
	sent = sendmmsg(p->fd, m->headers, n, MSG_DONTWAIT);
	if (unlikely(sent < 0)) {
		socket_tx_failed(port);
		return 0;
	}
	return (uint32_t)sent;
}

static uint32_t raw_mmsg_tx(struct port *port, struct frame *f, uint32_t n)
{
	const uint32_t sent = raw_send_burst(port, f, n);

	pool_give(f, sent);
	return sent;
}

static uint32_t raw_count(const struct port *port, const struct frame *f, uint32_t n)
{
	(void)port;
	return gso_count(f, n);
}

/* Sends frames as one packet. Returns whether the kernel took them. */
static bool raw_send_packet(struct port *port, const struct frame *f, uint32_t n)
{
	const struct raw_port *p = port->priv;
	const uint32_t len = gso_write(p->packet, f, n);

	if (likely(sendto(p->packet_fd, p->packet, len, MSG_DONTWAIT, NULL, 0) >= 0) ||
	    gso_failed(port, &p->device, "6.2"))
		return true;
	socket_tx_failed(port);
	return false;
}

static uint32_t raw_gso_tx(struct port *port, struct frame *f, uint32_t n)
{
	return gso_tx(port, f, n, raw_count, raw_send_burst, raw_send_packet);
}

/* Opens the socket that sends packets. It is separate, because received frames would carry the
 * virtio header, too. */
static int raw_gso_start(struct port *port)
{
	struct raw_port *p = port->priv;
	int error = gso_device_open(port, &p->device);

	if (error)
		return error;
	p->packet = lines_alloc(1, GSO_BYTES_MAX);
	if (!p->packet)
		return port_fail(port, ENOMEM, "no memory for a packet");
	p->packet_fd = packet_socket(port);
	if (p->packet_fd < 0)
		return p->packet_fd;
	socket_buffers(port, p->packet_fd);
	error = raw_option(port, p->packet_fd, PACKET_VNET_HDR, "PACKET_VNET_HDR");
	if (!error)
		error = packet_bind(port, p->packet_fd, false);
	snprintf(port->mode, sizeof(port->mode), "qdisc, up to %u frames a packet", GSO_FRAMES_MAX);
	return error;
}

static int raw_gso_open(struct port *port)
{
	const struct port_config *c = &port->config;
	int error = raw_open(port);

	if (error)
		return error;
	/* A forwarder's frames must stay as they are: splitting would repair a wrong checksum. */
	if (c->forwards || !c->sends) {
		port->tx = raw_mmsg_tx;
		return 0;
	}
	error = raw_gso_start(port);
	if (error)
		raw_close(port);
	return error;
}

/* Completes a received frame; returns its length. */
always_inline uint32_t raw_complete(struct slots *s, uint32_t i, struct frame *f)
{
	return packet_restore_vlan(&s->headers[i].msg_hdr, f->data, s->headers[i].msg_len);
}

/* Each frame is timestamped separately: with a common timestamp, the first frame would look older
 * by the duration of the calls for the others. */
static uint32_t raw_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	struct raw_port *p = port->priv;
	struct slots *s = &p->messages.slots;
	uint32_t got = 0;

	for (uint32_t i = 0; i < n && slots_fill(s, 1); i++) {
		ssize_t len = recvmsg(p->fd, &s->headers[0].msg_hdr, MSG_DONTWAIT);

		if (len < 0) {
			socket_rx_failed(port);
			break;
		}
		if (arrivals)
			arrivals[got] = (struct arrival){ .ticks = clock_ticks() };
		s->headers[0].msg_len = (unsigned)len;
		got += messages_take(&p->messages, f + got, 1, raw_complete);
	}
	return got;
}

static uint32_t raw_mmsg_rx(struct port *port, struct frame *f, struct arrival *arrivals,
			    uint32_t n)
{
	struct raw_port *p = port->priv;
	struct slots *s = &p->messages.slots;
	uint32_t room = slots_fill(s, port->config.burst);
	int got = recvmmsg(p->fd, s->headers, n < room ? n : room, MSG_DONTWAIT, NULL);

	(void)arrivals;
	if (got < 0) {
		socket_rx_failed(port);
		return 0;
	}
	return messages_take(&p->messages, f, (uint32_t)got, raw_complete);
}

static void raw_note_drops(struct port *port)
{
	struct raw_port *p = port->priv;

	p->messages.drops += packet_socket_drops(p->fd);
}

static void raw_stats(struct port *port, struct engine_stats *stats)
{
	const struct raw_port *p = port->priv;

	raw_note_drops(port);
	*stats = (struct engine_stats){
		.rx_ring_drops = p->messages.drops,
		.rx_invalid = p->messages.invalid,
		.tx_errors = port->tx_errors,
	};
}

#define RAW_CAPS                                                                                   \
	(ENGINE_SPREADS | ENGINE_SENDS | ENGINE_RECEIVES | ENGINE_REFLECTS | ENGINE_CROSSES |      \
	 ENGINE_NEEDS_INTERFACE)

const struct engine engine_raw = {
	.name = "raw",
	.caps = RAW_CAPS,
	.options = raw_options,
	.summary = "AF_PACKET, a system call a frame",
	.open = raw_single_open,
	.ready = raw_ready,
	.alloc = messages_alloc,
	.tx = raw_tx,
	.rx = raw_rx,
	.release = messages_release,
	.note_drops = raw_note_drops,
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
	.alloc = messages_alloc,
	.tx = raw_mmsg_tx,
	.rx = raw_mmsg_rx,
	.release = messages_release,
	.note_drops = raw_note_drops,
	.stats = raw_stats,
	.close = raw_close,
};

const struct engine engine_raw_gso = {
	.name = "raw-gso",
	.caps = RAW_CAPS,
	.options = raw_gso_options,
	.summary =
		"AF_PACKET, a packet of up to 128 frames a system call, split by the device (GSO)",
	.open = raw_gso_open,
	.ready = raw_ready,
	.alloc = messages_alloc,
	.tx = raw_gso_tx,
	.rx = raw_mmsg_rx,
	.release = messages_release,
	.note_drops = raw_note_drops,
	.stats = raw_stats,
	.close = raw_close,
};
