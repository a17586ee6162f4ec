/* SPDX-License-Identifier: Apache-2.0 */
/*
 * udp, udp-mmsg and udp-gso: UDP sockets, one system call per datagram or one per burst. The kernel
 * writes and checks the headers; a frame is the UDP payload. Flows differ in their source port: one
 * socket per flow. With udp-gso, the datagrams of a flow are sent as one packet (UDP_SEGMENT), which
 * the sending device splits.
 */
#include "clock.h"
#include "engine.h"
#include "gso.h"
#include "messages.h"
#include "payload.h"
#include "socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* Linux 4.18 */
#endif

enum {
	UDP_FLOWS_MAX = 256,
	UDP_EVENTS = 64,
	UDP_BYTES_MAX = 65535 - IP_BYTES - UDP_BYTES, /* the payload of an IP packet */
};

struct udp_port {
	struct messages messages;
	int *fds; /* one per flow; a reply arrives at the socket that sent the request */
	uint32_t *dropped; /* per socket: the last value of its drop counter */
	uint32_t count;
	/* With several receiving sockets: the readable ones, and the next of them to read. */
	int epoll; /* -1: a single socket */
	struct epoll_event events[UDP_EVENTS];
	uint32_t readable, turn;
	struct sockaddr_in remote;
	uint8_t *packet; /* udp-gso: memory for one packet; NULL: the port sends no packets */
	struct gso_device device;
};

static const struct option_spec udp_options[] = {
	SOCKET_BUFFER_OPTION,
	{ 0 },
};

static void udp_close(struct port *port)
{
	struct udp_port *p = port->priv;

	if (!p)
		return;
	for (uint32_t i = 0; i < p->count; i++)
		close(p->fds[i]);
	if (p->epoll >= 0)
		close(p->epoll);
	messages_close(&p->messages);
	free(p->fds);
	free(p->dropped);
	free(p->packet);
	free(p);
	port->priv = NULL;
}

static int udp_socket(struct port *port, uint32_t flow)
{
	const struct port_config *c = &port->config;
	const struct udp_port *p = port->priv;
	struct sockaddr_in local = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = c->local_ip,
		.sin_port = htons(
			(uint16_t)(c->local_port + flow +
				   (c->flows >= c->cores ? c->flows * c->core / c->cores : 0))),
	};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return port_fail(port, errno, "UDP socket: %s", strerror(errno));
	socket_buffers(port, fd);
	/* Without IP_RECVERR a datagram dropped by a full queue or device counts as sent. */
	if (setsockopt(fd, IPPROTO_IP, IP_RECVERR, &(int){ 1 }, sizeof(int))) {
		int error = port_fail(port, errno, "IP_RECVERR: %s", strerror(errno));

		close(fd);
		return error;
	}
	if (c->cores > 1 && c->flows < c->cores &&
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){ 1 }, sizeof(int))) {
		int error = port_fail(port, errno, "SO_REUSEPORT: %s", strerror(errno));

		close(fd);
		return error;
	}
	/* Makes the headers independent of the host's sysctls. */
	if (setsockopt(fd, IPPROTO_IP, IP_TTL, &(int){ TTL_SENT }, sizeof(int)) ||
	    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &(int){ IP_PMTUDISC_WANT }, sizeof(int))) {
		int error = port_fail(port, errno, "IP_TTL: %s", strerror(errno));

		close(fd);
		return error;
	}
	if (bind(fd, (struct sockaddr *)&local, sizeof(local))) {
		int error = port_fail(port, errno, "cannot bind to %s:%u: %s",
				      inet_ntoa(local.sin_addr), ntohs(local.sin_port),
				      strerror(errno));

		close(fd);
		return error;
	}
	if (c->connected && connect(fd, (const struct sockaddr *)&p->remote, sizeof(p->remote))) {
		int error = port_fail(port, errno, "cannot connect to %s: %s",
				      inet_ntoa(p->remote.sin_addr), strerror(errno));

		close(fd);
		return error;
	}
	return fd;
}

/* Adds all sockets of a port to one epoll instance. */
static int udp_watch(struct port *port)
{
	struct udp_port *p = port->priv;

	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll < 0)
		return port_fail(port, errno, "epoll: %s", strerror(errno));
	for (uint32_t i = 0; i < p->count; i++) {
		struct epoll_event wanted = { .events = EPOLLIN, .data.fd = p->fds[i] };

		if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->fds[i], &wanted))
			return port_fail(port, errno, "epoll: %s", strerror(errno));
	}
	return 0;
}

static int udp_start(struct port *port, uint32_t sockets)
{
	const struct port_config *c = &port->config;
	struct udp_port *p = port->priv;
	int error = messages_open(port, &p->messages, 0, !c->connected);

	if (error)
		return error;
	p->remote = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = c->remote_ip,
		.sin_port = htons(c->remote_port),
	};
	p->fds = lines_alloc(sockets, sizeof(*p->fds));
	p->dropped = lines_alloc(sockets, sizeof(*p->dropped));
	if (!p->fds || !p->dropped)
		return port_fail(port, ENOMEM, "no memory for %u sockets", sockets);
	for (uint32_t i = 0; i < sockets; i++) {
		int fd = udp_socket(port, i);

		if (fd < 0)
			return fd;
		p->fds[p->count++] = fd;
	}
	snprintf(port->mode, sizeof(port->mode), "%u socket%s%s", sockets, sockets > 1 ? "s" : "",
		 c->connected ? ", connected" : "");
	return c->receives && sockets > 1 ? udp_watch(port) : 0;
}

static int udp_open(struct port *port)
{
	const struct port_config *c = &port->config;
	uint32_t sockets = c->flows ? c->flows : 1;
	struct udp_port *p;
	int error;

	/* With several cores, a core opens the sockets of its flows. With fewer flows than cores,
	 * each core opens one socket, and the kernel spreads the datagrams over them. */
	if (c->cores > 1 && sockets >= c->cores)
		sockets = sockets * (c->core + 1) / c->cores - sockets * c->core / c->cores;

	if (c->flows > UDP_FLOWS_MAX)
		return port_fail(port, EINVAL,
				 "%u flows: a UDP engine sends at most %d, one a socket", c->flows,
				 UDP_FLOWS_MAX);
	p = lines_alloc(1, sizeof(*p));
	if (!p)
		return port_fail(port, ENOMEM, "no memory for a port");
	p->epoll = -1;
	port->priv = p;
	error = udp_start(port, sockets);
	if (error)
		udp_close(port);
	return error;
}

/* Opens a port that receives one datagram per call. */
static int udp_single_open(struct port *port)
{
	port->notes_arrivals = port->config.receives;
	port->stamps_by = "call";
	return udp_open(port);
}

static bool udp_ready(struct port *port)
{
	return !port->config.ifname[0] || interface_running(port);
}

/*
 * A reply goes to the sender of the request; other frames go to the port's peer, from the flow's
 * socket. A connected socket needs no address and saves the kernel a route lookup per frame.
 */
always_inline const struct sockaddr_in *udp_destination(const struct port *port,
							const struct frame *f)
{
	const struct udp_port *p = port->priv;
	const struct buffer *b = frame_buffer(f);

	if (port->config.connected)
		return NULL;
	return b->has_peer ? &b->peer : &p->remote;
}

always_inline int udp_source(const struct port *port, const struct frame *f)
{
	const struct udp_port *p = port->priv;

	if (likely(p->count == 1) || frame_buffer(f)->has_peer)
		return p->fds[0];
	return p->fds[(payload_flow(f->data) - port->first_flow) % p->count];
}

/*
 * With IP_RECVERR the socket also fails once for every incoming ICMP error, for example from a peer
 * that does not exist yet; the errors wait in a queue that uses the socket's buffer.
 */
static bool icmp_errors(int fd)
{
	struct msghdr message = { 0 };
	bool any = false;

	while (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
		any = true;
	return any;
}

static void udp_tx_failed(struct port *port, int fd)
{
	int error = errno;

	if (error != EAGAIN && error != ENOBUFS && icmp_errors(fd))
		error = ECONNREFUSED;
	errno = error;
	socket_tx_failed(port);
}

static void udp_rx_failed(struct port *port, int fd)
{
	int error = errno;

	if (error == EAGAIN || icmp_errors(fd))
		return;
	errno = error;
	socket_rx_failed(port);
}

static uint32_t udp_tx(struct port *port, struct frame *f, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct sockaddr_in *to = udp_destination(port, &f[i]);

		if (unlikely(sendto(udp_source(port, &f[i]), f[i].data, f[i].len, MSG_DONTWAIT,
				    (const struct sockaddr *)to, to ? sizeof(*to) : 0) < 0)) {
			udp_tx_failed(port, udp_source(port, &f[i]));
			break;
		}
	}
	pool_give(f, i);
	return i;
}

/* Sends datagrams by one system call per run of datagrams from the same socket. Returns the number
 * of datagrams that the kernel took. */
static uint32_t udp_send_burst(struct port *port, const struct frame *f, uint32_t n)
{
	struct udp_port *p = port->priv;
	struct messages *m = &p->messages;
	uint32_t done = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct sockaddr_in *to = udp_destination(port, &f[i]);

		m->vectors[i] = (struct iovec){ f[i].data, f[i].len };
		m->headers[i].msg_hdr.msg_name = (void *)(uintptr_t)to;
		m->headers[i].msg_hdr.msg_namelen = to ? sizeof(*to) : 0;
	}
	while (done < n) {
		int fd = udp_source(port, &f[done]), sent;
		uint32_t run = 1;

		while (done + run < n && udp_source(port, &f[done + run]) == fd)
			run++;
		sent = sendmmsg(fd, m->headers + done, run, MSG_DONTWAIT);
		if (unlikely(sent < 0)) {
			udp_tx_failed(port, fd);
			break;
		}
		done += (uint32_t)sent;
		if ((uint32_t)sent < run)
			break;
	}
	return done;
}

static uint32_t udp_mmsg_tx(struct port *port, struct frame *f, uint32_t n)
{
	const uint32_t sent = udp_send_burst(port, f, n);

	pool_give(f, sent);
	return sent;
}

/* Returns how many of the first datagrams one packet has: those of one socket and one length. */
static uint32_t udp_count(const struct port *port, const struct frame *f, uint32_t n)
{
	const struct sockaddr_in *to = udp_destination(port, f);
	const int fd = udp_source(port, f);
	uint32_t most = f->len ? UDP_BYTES_MAX / f->len : 1, count = 1;

	most = most < GSO_FRAMES_MAX ? most : GSO_FRAMES_MAX;
	most = most < n ? most : n;
	while (count < most && f[count].len == f->len && udp_source(port, &f[count]) == fd &&
	       udp_destination(port, &f[count]) == to)
		count++;
	return count;
}

/* Sends datagrams as one packet. Returns whether the kernel took them. */
static bool udp_send_packet(struct port *port, const struct frame *f, uint32_t n)
{
	const struct udp_port *p = port->priv;
	const struct sockaddr_in *to = udp_destination(port, f);
	const uint16_t len = (uint16_t)f->len;
	const int fd = udp_source(port, f);
	union {
		struct cmsghdr header; /* for the alignment */
		uint8_t bytes[CMSG_SPACE(sizeof(len))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(len)),
				  .cmsg_level = IPPROTO_UDP,
				  .cmsg_type = UDP_SEGMENT } };
	struct iovec vector = { .iov_base = p->packet, .iov_len = (size_t)n * len };
	const struct msghdr message = { .msg_name = (void *)(uintptr_t)to,
					.msg_namelen = to ? sizeof(*to) : 0,
					.msg_iov = &vector,
					.msg_iovlen = 1,
					.msg_control = &control,
					.msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.header), &len, sizeof(len));
	for (uint32_t i = 0; i < n; i++)
		memcpy(p->packet + (size_t)i * len, f[i].data, len);
	if (likely(sendmsg(fd, &message, MSG_DONTWAIT) >= 0) ||
	    gso_failed(port, &p->device, "6.11"))
		return true;
	udp_tx_failed(port, fd);
	return false;
}

static uint32_t udp_gso_tx(struct port *port, struct frame *f, uint32_t n)
{
	return gso_tx(port, f, n, udp_count, udp_send_burst, udp_send_packet);
}

static int udp_gso_start(struct port *port)
{
	struct udp_port *p = port->priv;
	const size_t at = strlen(port->mode);
	int error = port->config.ifname[0] ? gso_device_open(port, &p->device) : 0;

	if (error)
		return error;
	p->packet = lines_alloc(1, UDP_BYTES_MAX);
	if (!p->packet)
		return port_fail(port, ENOMEM, "no memory for a packet");
	/* Otherwise the kernel sets "don't fragment" only in packets that fit the MTU unsplit. */
	for (uint32_t i = 0; i < p->count; i++)
		if (setsockopt(p->fds[i], IPPROTO_IP, IP_MTU_DISCOVER, &(int){ IP_PMTUDISC_DO },
			       sizeof(int)))
			return port_fail(port, errno, "IP_MTU_DISCOVER: %s", strerror(errno));
	snprintf(port->mode + at, sizeof(port->mode) - at, ", up to %u frames a packet",
		 GSO_FRAMES_MAX);
	return 0;
}

static int udp_gso_open(struct port *port)
{
	int error = udp_open(port);

	if (error)
		return error;
	if (port->config.forwards || !port->config.sends) {
		port->tx = udp_mmsg_tx;
		return 0;
	}
	error = udp_gso_start(port);
	if (error)
		udp_close(port);
	return error;
}

/* Completes a received datagram; returns its length. */
always_inline uint32_t udp_complete(struct slots *s, uint32_t i, struct frame *f)
{
	frame_buffer(f)->has_peer = s->peers;
	return s->headers[i].msg_len;
}

/*
 * Returns the next socket to read; -1: no socket is readable. A single socket is read without
 * epoll. Of several sockets, each readable one is read once per turn, so that none starves.
 */
always_inline int udp_next(struct udp_port *p)
{
	if (likely(p->epoll < 0))
		return p->fds[0];
	if (p->turn == p->readable) {
		int found = epoll_wait(p->epoll, p->events, UDP_EVENTS, 0);

		p->turn = 0;
		p->readable = found > 0 ? (uint32_t)found : 0;
		if (!p->readable)
			return -1;
	}
	return p->events[p->turn++].data.fd;
}

/* Reads a datagram into the first slot, without the sender's address unless it is needed. Returns
 * its length, or -1. */
always_inline ssize_t udp_read(struct slots *s, int fd)
{
	struct msghdr *const header = &s->headers[0].msg_hdr;
	ssize_t len;

	if (s->peers)
		return recvmsg(fd, header, MSG_DONTWAIT);
	len = recv(fd, s->vectors[0].iov_base, s->vectors[0].iov_len, MSG_DONTWAIT | MSG_TRUNC);
	header->msg_flags = len > (ssize_t)s->vectors[0].iov_len ? MSG_TRUNC : 0;
	return len;
}

/* Each datagram is timestamped separately: with a common timestamp, the first datagram would look
 * older by the duration of the calls for the others. A forwarder gets one datagram at once, so that
 * it does not wait for the next poll. */
static uint32_t udp_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	struct udp_port *p = port->priv;
	struct slots *s = &p->messages.slots;
	uint32_t got = 0;

	for (uint32_t reads = 0; reads < n && slots_fill(s, 1); reads++) {
		int fd = udp_next(p);
		ssize_t len;

		if (fd < 0)
			break;
		len = udp_read(s, fd);
		if (len < 0) {
			udp_rx_failed(port, fd);
			if (p->epoll < 0)
				break;
			continue;
		}
		if (arrivals)
			arrivals[got] = (struct arrival){ .ticks = clock_ticks() };
		s->headers[0].msg_len = (unsigned)len;
		got += messages_take(&p->messages, f + got, 1, udp_complete);
		if (got && port->config.forwards)
			break;
	}
	return got;
}

static uint32_t udp_mmsg_rx(struct port *port, struct frame *f, struct arrival *arrivals,
			    uint32_t n)
{
	struct udp_port *p = port->priv;
	struct slots *s = &p->messages.slots;
	uint32_t taken = 0;

	(void)arrivals;
	do {
		uint32_t room = slots_fill(s, port->config.burst), most = n - taken;
		int fd = udp_next(p), got;

		if (fd < 0)
			break;
		got = recvmmsg(fd, s->headers, most < room ? most : room, MSG_DONTWAIT, NULL);
		if (got < 0)
			udp_rx_failed(port, fd);
		else
			taken +=
				messages_take(&p->messages, f + taken, (uint32_t)got, udp_complete);
	} while (p->turn < p->readable && taken < n);
	return taken;
}

static void udp_note_drops(struct port *port)
{
	struct udp_port *p = port->priv;

	for (uint32_t i = 0; i < p->count; i++)
		p->messages.drops += udp_socket_drops(p->fds[i], &p->dropped[i]);
}

static void udp_stats(struct port *port, struct engine_stats *stats)
{
	const struct udp_port *p = port->priv;

	udp_note_drops(port);
	*stats = (struct engine_stats){
		.rx_ring_drops = p->messages.drops,
		.rx_invalid = p->messages.invalid,
		.tx_errors = port->tx_errors,
	};
}

#define UDP_CAPS                                                                                   \
	(ENGINE_SPREADS | ENGINE_SENDS | ENGINE_RECEIVES | ENGINE_PAYLOAD | ENGINE_REFLECTS |      \
	 ENGINE_CROSSES)

const struct engine engine_udp = {
	.name = "udp",
	.caps = UDP_CAPS,
	.options = udp_options,
	.summary = "UDP sockets, a system call a datagram",
	.open = udp_single_open,
	.ready = udp_ready,
	.alloc = messages_alloc,
	.tx = udp_tx,
	.rx = udp_rx,
	.release = messages_release,
	.note_drops = udp_note_drops,
	.stats = udp_stats,
	.close = udp_close,
};

const struct engine engine_udp_mmsg = {
	.name = "udp-mmsg",
	.caps = UDP_CAPS,
	.options = udp_options,
	.summary = "UDP sockets, a system call a burst (sendmmsg, recvmmsg)",
	.open = udp_open,
	.ready = udp_ready,
	.alloc = messages_alloc,
	.tx = udp_mmsg_tx,
	.rx = udp_mmsg_rx,
	.release = messages_release,
	.note_drops = udp_note_drops,
	.stats = udp_stats,
	.close = udp_close,
};

const struct engine engine_udp_gso = {
	.name = "udp-gso",
	.caps = UDP_CAPS,
	.options = udp_options,
	.summary =
		"UDP sockets, a packet of up to 128 datagrams a system call, split by the device",
	.open = udp_gso_open,
	.ready = udp_ready,
	.alloc = messages_alloc,
	.tx = udp_gso_tx,
	.rx = udp_mmsg_rx,
	.release = messages_release,
	.note_drops = udp_note_drops,
	.stats = udp_stats,
	.close = udp_close,
};
