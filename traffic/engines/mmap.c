/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mmap and mmap-gso: AF_PACKET rings shared with the kernel. Frames are built in the slots of the
 * send ring and sent with one system call per burst; received frames are read from the slots of the
 * receive ring without a system call. With mmap-gso, a slot of the send ring holds a packet of
 * frames with equal headers, which the sending device splits.
 */
#include "clock.h"
#include "engine.h"
#include "frames.h"
#include "gso.h"
#include "socket.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Both rings use TPACKET_V2. For receiving, V3 passes whole blocks, and a partly filled block only
 * after its timer, at least 1 ms: on a veth under full load (Linux 6.18) V3 takes 5 to 10 % more
 * frames, and each is 1.1 ms old. V2 shows each frame at once.
 */
enum {
	RING_BLOCK = 128 << 10, /* a frame does not cross a block */
	/* The offset of a frame in a send slot: at a cache line, after the virtio header. */
	SEND_DATA = CACHE_LINE,
	SEND_HEADER = SEND_DATA - (int)sizeof(struct virtio_net_hdr),
	/* The offset of the Ethernet header in a receive slot, set by the kernel (tpacket_rcv). */
	RECEIVE_DATA = 80 - ETH_BYTES,
	/* The kernel copies a frame up to this length; it refers to the pages of a longer one. Into
	 * a veth, copying gives 1.4 times the frames at 252 bytes, 1.2 at 4000 and 1.1 at 9000, but
	 * contiguous memory of more than two pages is not always available. */
	COPY_MAX = 4096,
	LINEAR_BYTES = 64, /* linear part of a longer frame */
	/* A slot with a packet: two of the longest fit a block. */
	PACKET_SLOT_MAX = RING_BLOCK / 2,
	HEADERS_MAX = ETH_BYTES + VLAN_BYTES + IP6_BYTES + UDP_BYTES,
	HEADERS_MIN = PAYLOAD_AT,
};

/* A handle: the slot number and the ring. */
#define HANDLE_RECEIVED ((uint64_t)1 << 32)

#define NOWHERE UINT32_MAX

struct ring {
	int fd; /* -1: the port does not use this ring */
	uint8_t *memory;
	size_t bytes;
	uint32_t slots, slot_bytes;
	struct tpacket2_hdr **slot;
	uint32_t head; /* the slot that the kernel reads next */
};

struct mmap_port {
	struct ring tx, rx;
	/* the sockets that share the incoming frames; NULL: a single socket */
	struct packet_group *group;
	uint32_t room; /* bytes for a frame in a send slot, including a VLAN tag */

	/* Free send slots, in order of allocation: a queue with an entry for every slot, and for
	 * every slot its position in the queue or NOWHERE. */
	uint32_t *queue, *place;
	uint32_t queue_first, queued;
	/* by tx: the slot from which each frame of the burst was sent; the frames of each packet */
	uint32_t *used;

	/* mmap-gso: the memory of the frames, which are copied into the slots */
	struct pool *pool;
	uint32_t packet_frames; /* the most frames in a slot */
	struct gso_device device;

	bool *held; /* receive slots owned by a caller */
	struct clock_real clock; /* the clock of the kernel's arrival timestamps */
	uint64_t drops, invalid;
};

static const struct option_spec mmap_options[] = {
	{ .name = "ring",
	  .type = OPTION_NUMBER,
	  .min = 64,
	  .max = 65536,
	  .preset = 4096,
	  .help = "frames in each ring" },
	SOCKET_BUFFER_OPTION,
	{ .name = "bypass",
	  .type = OPTION_NUMBER,
	  .max = 1,
	  .preset = 1,
	  .help = "send past the qdisc" },
	{ 0 },
};

static const struct option_spec mmap_gso_options[] = {
	{ .name = "ring",
	  .type = OPTION_NUMBER,
	  .min = 16,
	  .max = 65536,
	  .preset = 4096,
	  .help = "frames in the receive ring" },
	{ .name = "packets",
	  .type = OPTION_NUMBER,
	  .min = 2,
	  .max = 4096,
	  .preset = 128,
	  .help = "packets in the send ring" },
	SOCKET_BUFFER_OPTION,
	{ 0 },
};

/* ---- rings -------------------------------------------------------------------------- */

always_inline uint32_t slot_status(const struct tpacket2_hdr *h)
{
	return __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE);
}

always_inline void slot_set_status(struct tpacket2_hdr *h, uint32_t status)
{
	__atomic_store_n(&h->tp_status, status, __ATOMIC_RELEASE);
}

always_inline uint32_t ring_next(const struct ring *r, uint32_t slot)
{
	return slot + 1 == r->slots ? 0 : slot + 1;
}

static void ring_close(struct ring *r)
{
	if (r->memory)
		munmap(r->memory, r->bytes);
	if (r->fd >= 0)
		close(r->fd);
	free(r->slot);
}

static int ring_open(struct port *port, struct ring *r, int name, uint32_t slots,
		     uint32_t slot_bytes)
{
	const uint32_t frame = (slot_bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	const uint32_t per_block = RING_BLOCK / frame;
	uint32_t blocks = (slots + per_block - 1) / per_block;
	struct tpacket_req request = {
		.tp_block_size = RING_BLOCK,
		.tp_block_nr = blocks,
		.tp_frame_size = frame,
		.tp_frame_nr = blocks * per_block,
	};

	r->slots = request.tp_frame_nr;
	r->slot_bytes = frame;
	r->bytes = (size_t)blocks * RING_BLOCK;
	r->slot = lines_alloc(r->slots, sizeof(struct tpacket2_hdr *));
	if (!r->slot) {
		port_fail(port, ENOMEM, "no memory for a ring of %u frames", r->slots);
		return -ENOMEM;
	}
	if (setsockopt(r->fd, SOL_PACKET, name, &request, sizeof(request)))
		return port_fail(port, errno, "no ring of %u frames of %u bytes: %s", r->slots,
				 frame, strerror(errno));
	r->memory =
		mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, 0);
	if (r->memory == MAP_FAILED) {
		r->memory = NULL;
		return port_fail(port, errno, "cannot map a ring of %zu bytes: %s", r->bytes,
				 strerror(errno));
	}
	for (uint32_t i = 0; i < r->slots; i++) {
		uint8_t *block = r->memory + (size_t)(i / per_block) * RING_BLOCK;

		r->slot[i] = (struct tpacket2_hdr *)(block + (size_t)(i % per_block) * frame);
		r->slot[i]->tp_mac = SEND_HEADER; /* for received frames the kernel sets it */
	}
	return 0;
}

static int ring_option(struct port *port, const struct ring *r, int name, int value,
		       const char *text)
{
	if (setsockopt(r->fd, SOL_PACKET, name, &value, sizeof(value)))
		return port_fail(port, errno, "%s on %s: %s", text, port->config.ifname,
				 strerror(errno));
	return 0;
}

#define RING_OPTION(port, ring, name, value) ring_option(port, ring, name, value, #name)

/* ---- opening ------------------------------------------------------------------------ */

static void mmap_close(struct port *port)
{
	struct mmap_port *p = port->priv;

	if (!p)
		return;
	packet_group_leave(p->group);
	ring_close(&p->tx);
	ring_close(&p->rx);
	free(p->queue);
	free(p->place);
	free(p->used);
	free(p->held);
	pool_destroy(p->pool);
	free(p);
	port->priv = NULL;
}

/* The kernel silently drops frames longer than the interface accepts: reject them. */
static int check_mtu(struct port *port, int fd)
{
	const struct port_config *c = &port->config;
	struct ifreq request = { 0 };

	memcpy(request.ifr_name, c->ifname, IFNAMSIZ);
	if (ioctl(fd, SIOCGIFMTU, &request))
		return port_fail(port, errno, "there is no interface %s", c->ifname);
	if (c->frame_max > (uint32_t)request.ifr_mtu + ETH_BYTES + VLAN_BYTES)
		return port_fail(port, EMSGSIZE, "frames of %u bytes do not fit the MTU %d of %s",
				 c->frame_max, request.ifr_mtu, c->ifname);
	return 0;
}

/* Opens the socket of a send ring. */
static int open_tx_socket(struct port *port)
{
	struct mmap_port *p = port->priv;
	struct ring *r = &p->tx;
	int error;

	r->fd = packet_socket(port);
	if (r->fd < 0)
		return r->fd;
	socket_buffers(port, r->fd);
	error = packet_bind(port, r->fd, false);
	if (!error)
		error = check_mtu(port, r->fd);
	if (!error)
		error = RING_OPTION(port, r, PACKET_VERSION, TPACKET_V2);
	if (!error)
		error = RING_OPTION(port, r, PACKET_TX_HAS_OFF, 1);
	/* The virtio header states how much of a frame to copy. Without it the kernel refers to the
	 * ring's pages, and a veth, which must not keep them, allocates a page per frame. */
	if (!error)
		error = RING_OPTION(port, r, PACKET_VNET_HDR, 1);
	return error;
}

static int open_tx(struct port *port)
{
	struct mmap_port *p = port->priv;
	struct ring *r = &p->tx;
	int error = open_tx_socket(port);

	p->room = port->config.frame_max + VLAN_BYTES;
	/* The kernel skips an invalid slot, so tx can pass slots that a caller still owns. */
	if (!error)
		error = RING_OPTION(port, r, PACKET_LOSS, 1);
	if (!error && port_option(port, "bypass"))
		error = RING_OPTION(port, r, PACKET_QDISC_BYPASS, 1);
	if (!error)
		error = ring_open(port, r, PACKET_TX_RING, (uint32_t)port_option(port, "ring"),
				  SEND_DATA + p->room);
	if (error)
		return error;
	p->queue = lines_alloc(r->slots, sizeof(*p->queue));
	p->place = lines_alloc(r->slots, sizeof(*p->place));
	p->used = lines_alloc(r->slots, sizeof(*p->used));
	if (!p->queue || !p->place || !p->used)
		return port_fail(port, ENOMEM, "no memory for a ring of %u frames", r->slots);
	for (uint32_t i = 0; i < r->slots; i++)
		p->queue[i] = p->place[i] = i;
	p->queued = r->slots;
	snprintf(port->mode, sizeof(port->mode), "TPACKET_V2, %s",
		 port_option(port, "bypass") ? "qdisc bypass" : "qdisc");
	return 0;
}

/* Opens a send ring whose slots hold packets. The queue (qdisc) cannot be bypassed: the kernel drops
 * what it had to split behind it. */
static int open_tx_packets(struct port *port)
{
	const struct port_config *c = &port->config;
	struct mmap_port *p = port->priv;
	struct ring *r = &p->tx;
	uint32_t bytes;
	int error = open_tx_socket(port);

	/* A forwarder's frames must stay as they are: splitting would repair a wrong checksum. */
	p->packet_frames = c->forwards ? 1 : c->burst < GSO_FRAMES_MAX ? c->burst : GSO_FRAMES_MAX;
	p->room = c->frame_max + VLAN_BYTES;
	bytes = SEND_DATA + HEADERS_MAX + p->packet_frames * c->frame_max;
	bytes = bytes < PACKET_SLOT_MAX ? bytes : PACKET_SLOT_MAX;
	if (!error && !c->forwards)
		error = gso_device_open(port, &p->device);
	if (!error && p->device.keeps_memory)
		error = port_fail(
			port, EOPNOTSUPP,
			"%s sends from the memory of a packet after it is split, so engine "
			"%s cannot use it: tx-scatter-gather is on (ethtool -K %s sg off)",
			c->ifname, port->engine->name, c->ifname);
	if (!error)
		error = ring_open(port, r, PACKET_TX_RING, (uint32_t)port_option(port, "packets"),
				  bytes);
	if (error)
		return error;
	p->pool = pool_create(5 * c->burst, p->room);
	p->used = lines_alloc(r->slots, sizeof(*p->used));
	if (!p->pool || !p->used)
		return port_fail(port, ENOMEM, "no memory for bursts of %u frames", c->burst);
	snprintf(port->mode, sizeof(port->mode), "TPACKET_V2, qdisc, up to %u frames a packet",
		 p->packet_frames);
	return 0;
}

static int open_rx(struct port *port)
{
	struct mmap_port *p = port->priv;
	struct ring *r = &p->rx;
	int error;

	r->fd = packet_socket(port);
	if (r->fd < 0)
		return r->fd;
	error = RING_OPTION(port, r, PACKET_VERSION, TPACKET_V2);
	if (!error)
		error = ring_open(port, r, PACKET_RX_RING, (uint32_t)port_option(port, "ring"),
				  RECEIVE_DATA + port->config.frame_max + VLAN_BYTES);
	if (error)
		return error;
	if (!port->config.forwards) {
		port->notes_arrivals = true;
		port->stamps_by = "kernel";
		clock_real_read(&p->clock);
	}
	p->held = lines_alloc(r->slots, sizeof(*p->held));
	if (!p->held)
		return port_fail(port, ENOMEM, "no memory for a ring of %u frames", r->slots);
	if (!port->config.sends)
		snprintf(port->mode, sizeof(port->mode), "TPACKET_V2");
	error = packet_bind(port, r->fd, true);
	return error ? error : packet_spread(port, r->fd, &p->group);
}

static int port_start(struct port *port, int (*send)(struct port *))
{
	const struct port_config *c = &port->config;
	struct mmap_port *p = lines_alloc(1, sizeof(*p));
	int error = 0;

	if (!p)
		return port_fail(port, ENOMEM, "no memory for a port");
	port->priv = p;
	p->tx.fd = p->rx.fd = -1;
	if (c->sends)
		error = send(port);
	if (!error && c->receives)
		error = open_rx(port);
	if (error)
		mmap_close(port);
	return error;
}

static int mmap_open(struct port *port)
{
	return port_start(port, open_tx);
}

static int mmap_gso_open(struct port *port)
{
	return port_start(port, open_tx_packets);
}

static bool mmap_ready(struct port *port)
{
	return interface_running(port);
}

/* ---- sending ------------------------------------------------------------------------ */

always_inline uint8_t *send_data(const struct ring *r, uint32_t slot)
{
	return (uint8_t *)r->slot[slot] + SEND_DATA;
}

always_inline uint32_t queue_index(const struct mmap_port *p, uint32_t i)
{
	return i >= p->tx.slots ? i - p->tx.slots : i;
}

always_inline void queue_append(struct mmap_port *p, uint32_t slot)
{
	uint32_t at = queue_index(p, p->queue_first + p->queued++);

	p->queue[at] = slot;
	p->place[slot] = at;
}

always_inline void queue_prepend(struct mmap_port *p, uint32_t slot)
{
	p->queue_first = p->queue_first ? p->queue_first - 1 : p->tx.slots - 1;
	p->queued++;
	p->queue[p->queue_first] = slot;
	p->place[slot] = p->queue_first;
}

static uint32_t mmap_alloc(struct port *port, struct frame *f, uint32_t n)
{
	struct mmap_port *p = port->priv;
	uint32_t i;

	if (unlikely(n > p->queued))
		n = p->queued;
	for (i = 0; i < n; i++) {
		uint32_t slot = p->queue[p->queue_first];

		if (unlikely(slot_status(p->tx.slot[slot]) != TP_STATUS_AVAILABLE))
			break; /* still in transmission */
		p->place[slot] = NOWHERE;
		p->queue_first = queue_index(p, p->queue_first + 1);
		p->queued--;
		f[i] = (struct frame){ .data = send_data(&p->tx, slot), .handle = slot };
	}
	return i;
}

/* Requests the transmission of a slot. */
always_inline void slot_request(struct tpacket2_hdr *h, uint32_t len)
{
	struct virtio_net_hdr *v = (struct virtio_net_hdr *)((uint8_t *)h + SEND_HEADER);

	v->hdr_len = (uint16_t)(len <= COPY_MAX ? len : LINEAR_BYTES);
	h->tp_len = len + (uint32_t)sizeof(*v);
	slot_set_status(h, TP_STATUS_SEND_REQUEST);
}

/*
 * The kernel processes slots strictly in order. Callers normally send frames in the order of
 * allocation, so a frame's slot is the next one. Otherwise (frames held back or released in
 * between) the frame moves to the next slot; if a caller owns that slot, it becomes a frame of
 * length 0, which the kernel drops without touching the caller's data. Returns the slot, or NOWHERE
 * if the ring is full.
 */
static __attribute__((noinline)) uint32_t
slot_out_of_turn(struct mmap_port *p, const struct frame *f, uint32_t *head, uint32_t *passed)
{
	struct ring *r = &p->tx;

	for (; *passed < r->slots; ++*passed, *head = ring_next(r, *head)) {
		struct tpacket2_hdr *h = r->slot[*head];

		if (*head == (uint32_t)f->handle)
			return *head;
		if (slot_status(h) != TP_STATUS_AVAILABLE)
			break;
		if (p->place[*head] != NOWHERE) {
			/* The whole slot: senders expect the bytes after a frame to be
			 * unchanged. */
			memcpy(send_data(r, *head), f->data, p->room);
			return *head;
		}
		h->tp_len = 0;
		slot_set_status(h, TP_STATUS_SEND_REQUEST);
	}
	return NOWHERE;
}

/* The frame was sent from slot `used`: the caller no longer owns either slot. */
always_inline void slot_sent(struct mmap_port *p, uint32_t own, uint32_t used)
{
	if (unlikely(own != used)) {
		/* The frame's slot takes the used slot's position among the free slots. */
		uint32_t at = p->place[used];

		p->queue[at] = own;
		p->place[own] = at;
	}
	queue_append(p, used);
}

static uint32_t mmap_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct mmap_port *p = port->priv;
	struct ring *r = &p->tx;
	uint32_t head = r->head, passed = 0, asked, sent = 0;

	for (asked = 0; asked < n; asked++) {
		uint32_t slot = (uint32_t)f[asked].handle;

		if (unlikely(f[asked].len < ETH_BYTES || f[asked].len > p->room)) {
			if (!asked)
				port_fail(port, EMSGSIZE, "cannot send a frame of %u bytes on %s",
					  f[asked].len, port->config.ifname);
			break;
		}
		if (unlikely(slot != head || passed == r->slots)) {
			slot = slot_out_of_turn(p, &f[asked], &head, &passed);
			if (slot == NOWHERE)
				break;
		}
		slot_request(r->slot[slot], f[asked].len);
		p->used[asked] = slot;
		head = ring_next(r, head);
		passed++;
	}
	if (unlikely(!passed))
		return 0;
	if (unlikely(send(r->fd, NULL, 0, MSG_DONTWAIT) < 0))
		socket_tx_failed(port);
	/* From the first slot that the kernel did not take, the requests are still pending. */
	for (head = r->head; passed; passed--, head = ring_next(r, head)) {
		if (unlikely(slot_status(r->slot[head]) == TP_STATUS_SEND_REQUEST))
			break;
		if (likely(sent < asked && p->used[sent] == head)) {
			slot_sent(p, (uint32_t)f[sent].handle, head);
			sent++;
		}
	}
	r->head = head;
	for (; unlikely(passed); passed--, head = ring_next(r, head))
		slot_set_status(r->slot[head], TP_STATUS_AVAILABLE);
	return sent;
}

/* ---- sending packets --------------------------------------------------------------- */

static uint32_t mmap_gso_alloc(struct port *port, struct frame *f, uint32_t n)
{
	struct mmap_port *p = port->priv;

	return pool_take(p->pool, f, n);
}

/* Copies the first frames, those of one packet, into a slot, and requests its transmission. Returns
 * how many frames these are. */
static uint32_t slot_write(const struct mmap_port *p, struct tpacket2_hdr *h, const struct frame *f,
			   uint32_t n)
{
	uint8_t *out = (uint8_t *)h + SEND_HEADER;
	const uint32_t room = p->tx.slot_bytes - SEND_DATA - HEADERS_MAX;
	uint32_t count = f->len > HEADERS_MIN ? room / (f->len - HEADERS_MIN) : 1;

	count = count < p->packet_frames ? count : p->packet_frames;
	count = count < n ? count : n;
	count = count > 1 ? gso_count(f, count) : 1;
	if (count > 1) {
		h->tp_len = gso_write(out, f, count);
		slot_set_status(h, TP_STATUS_SEND_REQUEST);
		return count;
	}
	memset(out, 0, sizeof(struct virtio_net_hdr));
	memcpy(out + sizeof(struct virtio_net_hdr), f->data, f->len);
	slot_request(h, f->len);
	return 1;
}

/* Passes packets in slots from the head on to the kernel. `p->used` has the frames of each. Returns
 * the number of frames that need not be sent again, and sets `stopped` if there are others. */
static uint32_t packets_send(struct port *port, uint32_t packets, bool *stopped)
{
	struct mmap_port *p = port->priv;
	struct ring *r = &p->tx;
	const bool failed = sendto(r->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0;
	uint32_t head = r->head, i, sent = 0;

	for (i = 0; i < packets; i++, head = ring_next(r, head)) {
		if (slot_status(r->slot[head]) & (TP_STATUS_SEND_REQUEST | TP_STATUS_WRONG_FORMAT))
			break;
		sent += p->used[i];
	}
	r->head = head;
	if (likely(i == packets))
		return sent;
	/* The kernel stopped at this slot, and reads it first the next time. */
	for (uint32_t left = i; left < packets; left++, head = ring_next(r, head))
		slot_set_status(r->slot[head], TP_STATUS_AVAILABLE);
	if (failed && p->used[i] > 1 && gso_failed(port, &p->device, "6.2"))
		return sent + p->used[i];
	*stopped = true;
	if (failed)
		socket_tx_failed(port);
	return sent;
}

static uint32_t mmap_gso_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct mmap_port *p = port->priv;
	struct ring *r = &p->tx;
	uint32_t done = 0, packets;
	bool stopped = false;

	do {
		uint32_t head = r->head, at = done;

		for (packets = 0; at < n && packets < r->slots; packets++) {
			if (unlikely(f[at].len < ETH_BYTES || f[at].len > p->room)) {
				if (!at)
					port_fail(port, EMSGSIZE,
						  "cannot send a frame of %u bytes on %s",
						  f[at].len, port->config.ifname);
				break;
			}
			if (slot_status(r->slot[head]) != TP_STATUS_AVAILABLE)
				break; /* still in transmission */
			p->used[packets] = slot_write(p, r->slot[head], f + at, n - at);
			at += p->used[packets];
			head = ring_next(r, head);
		}
		if (packets)
			done += packets_send(port, packets, &stopped);
	} while (packets && done < n && !stopped);
	pool_give(f, done);
	return done;
}

/* ---- receiving ---------------------------------------------------------------------- */

/* The kernel removes the VLAN tag from a received frame: insert it again. */
static void *vlan_restore(const struct tpacket2_hdr *h, uint8_t *data)
{
	uint16_t tpid = h->tp_status & TP_STATUS_VLAN_TPID_VALID ? h->tp_vlan_tpid : ETH_P_8021Q;

	memmove(data - VLAN_BYTES, data, 12);
	store16(data + 8, net16(tpid));
	store16(data + 10, net16(h->tp_vlan_tci));
	return data - VLAN_BYTES;
}

static uint32_t mmap_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	struct mmap_port *p = port->priv;
	struct ring *r = &p->rx;
	const uint32_t most = port->config.frame_max + VLAN_BYTES;
	uint32_t i = 0;

	/* Before fetching, so that the reading of the clock delays no fetched frame. */
	if (arrivals)
		clock_real_keep(&p->clock);
	while (i < n) {
		struct tpacket2_hdr *h = r->slot[r->head];
		uint32_t status = slot_status(h);
		uint8_t *data = (uint8_t *)h + h->tp_mac;
		uint32_t len = h->tp_snaplen;

		/* If the caller owns the whole ring, the next slot is not a new frame. */
		if (!(status & TP_STATUS_USER) || unlikely(p->held[r->head]))
			break;
		if (unlikely(h->tp_len != len || len > most)) {
			p->invalid++; /* longer than the port's maximum */
			slot_set_status(h, TP_STATUS_KERNEL);
			r->head = ring_next(r, r->head);
			continue;
		}
		if (unlikely(status & TP_STATUS_VLAN_VALID)) {
			data = vlan_restore(h, data);
			len += VLAN_BYTES;
		}
		p->held[r->head] = true;
		if (arrivals) {
			const uint64_t ns = h->tp_sec * 1000000000ull + h->tp_nsec;

			arrivals[i] = (struct arrival){
				.ticks = clock_real_ticks(&p->clock, ns, clock_ticks()),
				.kernel_ns = ns,
			};
		}
		f[i++] = (struct frame){ data, len, HANDLE_RECEIVED | r->head };
		r->head = ring_next(r, r->head);
	}
	return i;
}

static void mmap_release(struct port *port, struct frame *f, uint32_t n)
{
	struct mmap_port *p = port->priv;

	/* Backwards, so that the first of several unsent frames is allocated first again. */
	for (uint32_t i = n; i-- > 0;) {
		uint32_t slot = (uint32_t)f[i].handle;

		if (f[i].handle & HANDLE_RECEIVED) {
			p->held[slot] = false;
			slot_set_status(p->rx.slot[slot], TP_STATUS_KERNEL);
		} else {
			queue_prepend(p, slot);
		}
	}
}

static void mmap_gso_release(struct port *port, struct frame *f, uint32_t n)
{
	const struct mmap_port *p = port->priv;
	const uint8_t *ring = p->rx.memory;

	for (uint32_t i = n; i-- > 0;) {
		const uint8_t *data = f[i].data;

		if (ring && data >= ring && data < ring + p->rx.bytes)
			mmap_release(port, f + i, 1);
		else
			pool_give(f + i, 1);
	}
}

static void mmap_note_drops(struct port *port)
{
	struct mmap_port *p = port->priv;

	if (p->rx.fd >= 0)
		p->drops += packet_socket_drops(p->rx.fd);
}

static void mmap_stats(struct port *port, struct engine_stats *stats)
{
	const struct mmap_port *p = port->priv;

	mmap_note_drops(port);
	*stats = (struct engine_stats){
		.rx_ring_drops = p->drops,
		.rx_invalid = p->invalid,
		.tx_errors = port->tx_errors,
	};
}

const struct engine engine_mmap = {
	.name = "mmap",
	.caps = ENGINE_SPREADS | ENGINE_SENDS | ENGINE_RECEIVES | ENGINE_NEEDS_INTERFACE,
	.options = mmap_options,
	.summary = "AF_PACKET with rings in shared memory (PACKET_MMAP)",
	.open = mmap_open,
	.ready = mmap_ready,
	.alloc = mmap_alloc,
	.tx = mmap_tx,
	.rx = mmap_rx,
	.release = mmap_release,
	.note_drops = mmap_note_drops,
	.stats = mmap_stats,
	.close = mmap_close,
};

const struct engine engine_mmap_gso = {
	.name = "mmap-gso",
	.caps = ENGINE_SPREADS | ENGINE_SENDS | ENGINE_RECEIVES | ENGINE_NEEDS_INTERFACE,
	.options = mmap_gso_options,
	.summary =
		"PACKET_MMAP rings, a packet of up to 128 frames a slot, split by the device (GSO)",
	.open = mmap_gso_open,
	.ready = mmap_ready,
	.alloc = mmap_gso_alloc,
	.tx = mmap_gso_tx,
	.rx = mmap_rx,
	.release = mmap_gso_release,
	.note_drops = mmap_note_drops,
	.stats = mmap_stats,
	.close = mmap_close,
};
