/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpdk: any DPDK device. Frames are in mbufs; a handle is an mbuf.
 *
 * A receiving port reads all receive queues of its device, because it does not know which of them a
 * switch will use; a port on one of several cores reads only its own queue. No other port may
 * receive from these queues.
 *
 * A port of a device that completes checksums, verifies them or timestamps frames has a separate tx
 * and rx; all other ports run code without these branches.
 */
#include <errno.h>
#include <netinet/in.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* After DPDK's headers, which use an attribute with the same name as our macro always_inline. */
#include "clock.h"
#include "dpdk_device.h"
#include "dpdk_eal.h"
#include "dpdk_stamps.h"
#include "engine.h"
#include "frames.h"
#include "socket.h"

struct dpdk_port {
	struct device *device;
	struct rte_mempool *pool;
	uint16_t id, queue, queues, next;
	uint64_t invalid;
	/* number of mbufs in the last burst if all of them are mbuf_plain; else 0 */
	uint32_t plain;
	uint64_t fresh; /* the word of a received mbuf as most drivers leave it */
	struct rte_mbuf *mbufs[BURST_MAX];
};

/* A port that receives from a device which verifies checksums or timestamps frames. */
struct offload_port {
	struct dpdk_port port;
	struct stamps stamps;
};

static const struct option_spec dpdk_options[] = {
	{ .name = "device",
	  .type = OPTION_TEXT,
	  .help = "what the EAL calls it: a vdev with its arguments, or a PCI address" },
	{ .name = "queues",
	  .type = OPTION_NUMBER,
	  .min = 1,
	  .max = DEVICE_QUEUES_MAX,
	  .preset = 1,
	  .help = "pairs of queues that the device is opened with" },
	{ .name = "descriptors",
	  .type = OPTION_NUMBER,
	  .max = 32768,
	  .help = "length of each queue; 0: the device's choice" },
	{ .name = "offload",
	  .type = OPTION_TEXT,
	  .choices = device_offloads,
	  .help = "checksums that the device offers are computed by it" },
	{ .name = "stamps",
	  .type = OPTION_TEXT,
	  .choices = device_stamps,
	  .help = "source of the arrival times of received frames" },
	{ .name = "memory",
	  .type = OPTION_TEXT,
	  .choices = eal_memories,
	  .help = "what the process has its frames in" },
	{ .name = "megabytes",
	  .type = OPTION_NUMBER,
	  .min = 16,
	  .max = 1 << 20,
	  .preset = 128,
	  .help = "of memory for the process" },
	{ .name = "prefix",
	  .type = OPTION_TEXT,
	  .help = "of the names of the EAL's files; no other process may have it" },
	{ .name = "directory", .type = OPTION_TEXT, .help = "where the EAL's files go" },
	{ 0 },
};

static void mode_write(struct port *port, const struct dpdk_port *p)
{
	const struct offload_port *h = port->notes_arrivals ? (const struct offload_port *)p : NULL;
	struct rte_eth_burst_mode burst = { 0 };
	struct rte_eth_dev_info info = { 0 };
	int at;

	if (rte_eth_dev_info_get(p->id, &info))
		return;
	if (rte_eth_rx_burst_mode_get(p->id, 0, &burst))
		burst.info[0] = 0;
	at = snprintf(port->mode, sizeof(port->mode), "%.20s, %.10s%s%.20s", info.driver_name,
		      eal_memory(), burst.info[0] ? ", " : "", burst.info);
	if (port->config.forwards)
		return;
	if (port->config.sends)
		at += snprintf(port->mode + at, sizeof(port->mode) - (size_t)at,
			       ", tx checksum by %s", p->device->sent_by);
	if (port->config.receives)
		snprintf(port->mode + at, sizeof(port->mode) - (size_t)at,
			 ", rx checksum by %s, rx times by %s", p->device->checked_by,
			 h ? stamps_describe(&h->stamps) : "software");
}

/* Returns the receive queues that a port reads, one bit per queue. */
static uint64_t queues_read(const struct port *port)
{
	if (!port->config.receives)
		return 0;
	return port->config.cores > 1 ? 1ull << (port->config.queue % DEVICE_QUEUES_MAX) :
					UINT64_MAX;
}

static void dpdk_close(struct port *port)
{
	struct dpdk_port *p = port->priv;

	if (!p)
		return;
	if (p->device->reporter == port)
		p->device->reporter = NULL;
	p->device->received_from &= ~queues_read(port);
	p->device->sent_to &= ~((uint64_t)port->config.sends << p->queue);
	p->device->ports--;
	device_leave(p->device);
	free(p);
	port->priv = NULL;
	port->notes_arrivals = port->completes_sums = false;
}

static bool rx_has_offloads(const struct port *port, const struct device *d)
{
	return port->config.receives && !port->config.forwards && (d->checks_sums || d->stamps);
}

static uint32_t dpdk_tx_offloaded(struct port *port, struct frame *f, uint32_t n);
static uint32_t dpdk_rx_offloaded(struct port *port, struct frame *f, struct arrival *arrivals,
				  uint32_t n);

/* Enables the offloads of the port's device. */
static void dpdk_offload(struct port *port, struct dpdk_port *p)
{
	const struct device *d = p->device;

	if (rx_has_offloads(port, d)) {
		struct offload_port *h = (struct offload_port *)p;

		port->notes_arrivals = true;
		port->stamps_by = "device";
		port->rx = dpdk_rx_offloaded;
		if (d->stamps)
			stamps_open(&h->stamps, d->id);
	}
	port->completes_sums = port->config.sends && !port->config.forwards && d->completes_sums;
	if (port->completes_sums)
		port->tx = dpdk_tx_offloaded;
}

/* Four numbers of an mbuf as one word. */
struct mbuf_word {
	uint16_t data_off, refcnt, nb_segs, port;
};

#define MBUF_WORD_AT offsetof(struct rte_mbuf, data_off)

_Static_assert(offsetof(struct rte_mbuf, refcnt) == MBUF_WORD_AT + 2 &&
		       offsetof(struct rte_mbuf, nb_segs) == MBUF_WORD_AT + 4 &&
		       offsetof(struct rte_mbuf, port) == MBUF_WORD_AT + 6,
	       "an mbuf has other neighbours");

static uint64_t mbuf_fresh_word(uint16_t id)
{
	const struct mbuf_word fresh = { RTE_PKTMBUF_HEADROOM, 1, 1, id };

	return load64(&fresh);
}

static int dpdk_open(struct port *port)
{
	struct device *d;
	struct dpdk_port *p;
	const int error = device_take(port, &d);

	if (error)
		return error;
	if (d->received_from & queues_read(port))
		return port_fail(port, EBUSY,
				 "%s is received from by another port, which reads all its queues",
				 d->name);
	if (port->config.sends && port->config.queue < DEVICE_QUEUES_MAX &&
	    (d->sent_to >> port->config.queue & 1))
		return port_fail(port, EBUSY, "queue %u of %s is sent to by another port",
				 port->config.queue, d->name);
	p = lines_alloc(1, rx_has_offloads(port, d) ? sizeof(struct offload_port) : sizeof(*p));
	if (!p || port->config.queue >= d->queues || port->config.frame_max > d->room) {
		port_fail(port, EINVAL, "%s was opened with fewer queues, or for shorter frames",
			  d->name);
		device_leave(d);
		free(p);
		return -EINVAL;
	}
	p->device = d;
	d->ports++;
	d->received_from |= queues_read(port);
	d->sent_to |= (uint64_t)port->config.sends << port->config.queue;
	p->pool = d->pool;
	p->id = d->id;
	p->fresh = mbuf_fresh_word(d->id);
	p->queue = (uint16_t)port->config.queue;
	p->queues = port->config.cores > 1 ? 1 : d->queues;
	p->next = port->config.cores > 1 ? p->queue : 0;
	port->priv = p;
	port->whole_counters = !d->socket_count;
	dpdk_offload(port, p);
	mode_write(port, p);
	return 0;
}

static void dpdk_enter(struct port *port)
{
	(void)port;
	eal_enter();
}

static bool dpdk_ready(struct port *port)
{
	struct dpdk_port *p = port->priv;
	struct rte_eth_link link;

	return !rte_eth_link_get_nowait(p->id, &link) && link.link_status == RTE_ETH_LINK_UP;
}

static uint32_t dpdk_alloc(struct port *port, struct frame *f, uint32_t n)
{
	struct dpdk_port *p = port->priv;

	p->plain = 0;
	if (unlikely(rte_mempool_get_bulk(p->pool, (void **)p->mbufs, n))) {
		uint32_t got = 0;

		/* Sent frames may still be in the ring. */
		rte_eth_tx_done_cleanup(p->id, p->queue, 0);
		while (got < n && !rte_mempool_get(p->pool, (void **)&p->mbufs[got]))
			got++;
		n = got;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct rte_mbuf *m = p->mbufs[i];

		/* The buffer follows the mbuf: compute its address, so that the mbuf need not be
		 * read. */
		f[i].data = (uint8_t *)(m + 1) + RTE_PKTMBUF_HEADROOM;
		f[i].handle = (uintptr_t)m;
		__builtin_prefetch(f[i].data, 1);
		__builtin_prefetch(m, 1);
	}
	return n;
}

always_inline struct rte_mbuf *frame_mbuf(const struct frame *f)
{
	return (struct rte_mbuf *)(uintptr_t)f->handle;
}

static uint32_t dpdk_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct dpdk_port *p = port->priv;

	p->plain = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct rte_mbuf *m = frame_mbuf(&f[i]);
		uint16_t at = (uint16_t)((uintptr_t)f[i].data - (uintptr_t)m->buf_addr);
		uint32_t len = f[i].len;

		p->mbufs[i] = m;
		/* A recycled mbuf is unchanged, so comparing is cheaper than writing. Its second
		 * cache line already contains the values of a full reset. */
		if (unlikely(m->pkt_len != len || m->data_len != len || m->data_off != at ||
			     m->ol_flags)) {
			m->pkt_len = len;
			m->data_len = (uint16_t)len;
			m->data_off = at;
			m->ol_flags = 0;
		}
	}
	return rte_eth_tx_burst(p->id, p->queue, p->mbufs, (uint16_t)n);
}

/*
 * The same for a device that completes checksums. The core writes IPv4 and UDP after at most one
 * tag; any other frame is sent unchanged.
 */
static uint32_t dpdk_tx_offloaded(struct port *port, struct frame *f, uint32_t n)
{
	struct dpdk_port *p = port->priv;
	uint16_t fit;

	p->plain = 0;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *data = f[i].data;
		struct rte_mbuf *m = frame_mbuf(&f[i]);
		uint16_t l2 = load16(data + 12) == net16(RTE_ETHER_TYPE_VLAN) ?
				      ETH_BYTES + VLAN_BYTES :
				      ETH_BYTES;
		/* The outer UDP header of a tunnel has no checksum. */
		bool udp = load16(data + l2 - 2) == net16(RTE_ETHER_TYPE_IPV4) &&
			   data[l2 + 9] == IPPROTO_UDP && load16(data + l2 + IP_BYTES + 6);

		p->mbufs[i] = m;
		m->pkt_len = f[i].len;
		m->data_len = (uint16_t)f[i].len;
		m->data_off = (uint16_t)((uintptr_t)data - (uintptr_t)m->buf_addr);
		m->ol_flags = udp ? RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM : 0;
		m->tx_offload = rte_mbuf_tx_offload(l2, IP_BYTES, UDP_BYTES, 0, 0, 0, 0);
	}
	fit = rte_eth_tx_prepare(p->id, p->queue, p->mbufs, (uint16_t)n);
	if (unlikely(!fit && n && !port->failed))
		port_fail(port, rte_errno,
			  "%s refuses a frame whose checksum it offers to complete: %s",
			  p->device->name, rte_strerror(rte_errno));
	return rte_eth_tx_burst(p->id, p->queue, p->mbufs, fit);
}

/* True for a frame at the usual place in one unshared mbuf of our pool. */
always_inline bool mbuf_fresh(const struct dpdk_port *p, const struct rte_mbuf *m)
{
	return load64((const uint8_t *)m + MBUF_WORD_AT) == p->fresh && m->pool == p->pool &&
	       RTE_MBUF_DIRECT(m);
}

/* True for a frame in one unshared mbuf of our pool: it is freed without further checks. */
always_inline bool mbuf_plain(const struct dpdk_port *p, const struct rte_mbuf *m)
{
	return m->nb_segs == 1 && rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m) &&
	       m->pool == p->pool;
}

static uint32_t dpdk_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	struct dpdk_port *p = port->priv;
	uint32_t got = 0, whole = 0;
	bool plain = true;

	(void)arrivals;
	for (uint16_t tries = p->queues; tries && !got; tries--) {
		got = rte_eth_rx_burst(p->id, p->next, p->mbufs, (uint16_t)n);
		if (p->queues > 1 && ++p->next == p->queues)
			p->next = 0;
	}
	for (uint32_t i = 0; i < got; i++) {
		struct rte_mbuf *m = p->mbufs[i];

		if (likely(mbuf_fresh(p, m))) {
			f[whole++] =
				(struct frame){ .data = (uint8_t *)(m + 1) + RTE_PKTMBUF_HEADROOM,
						.len = m->pkt_len,
						.handle = (uintptr_t)m };
			continue;
		}
		if (unlikely(m->nb_segs > 1)) {
			/* Longer than any test frame. */
			rte_pktmbuf_free(m);
			p->invalid++;
			plain = false;
			continue;
		}
		plain &= mbuf_plain(p, m);
		f[whole++] = (struct frame){ .data = rte_pktmbuf_mtod(m, void *),
					     .len = m->pkt_len,
					     .handle = (uintptr_t)m };
	}
	p->plain = plain ? whole : 0;
	return whole;
}

/* The same for a device that verifies checksums or timestamps frames. */
static uint32_t dpdk_rx_offloaded(struct port *port, struct frame *f, struct arrival *arrivals,
				  uint32_t n)
{
	struct offload_port *h = port->priv;
	struct stamps *s = &h->stamps;
	const bool sums = h->port.device->checks_sums, stamps = s->clock != STAMPS_NONE;
	uint64_t now;

	/* Before fetching, so that no fetched frame waits for the clock reading. */
	if (stamps && unlikely(clock_ticks() - s->fit.last_ticks > s->second / 100))
		stamps_pair(s);
	n = dpdk_rx(port, f, NULL, n);
	if (!arrivals)
		return n;
	now = stamps && n ? clock_ticks() : 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct rte_mbuf *m = frame_mbuf(&f[i]);
		uint64_t sum = m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;

		arrivals[i] = (struct arrival){
			.ticks = stamps ? stamps_read(s, m, now) : 0,
			.sum = !sums				  ? DEVICE_SUM_UNKNOWN :
			       sum == RTE_MBUF_F_RX_L4_CKSUM_GOOD ? DEVICE_SUM_GOOD :
			       sum == RTE_MBUF_F_RX_L4_CKSUM_BAD  ? DEVICE_SUM_BAD :
								    DEVICE_SUM_UNKNOWN,
		};
	}
	return n;
}

static void dpdk_release(struct port *port, struct frame *f, uint32_t n)
{
	struct dpdk_port *p = port->priv;

	/* Usually these are the frames of the last burst, in order. */
	if (likely(n && n == p->plain && frame_mbuf(&f[0]) == p->mbufs[0] &&
		   frame_mbuf(&f[n - 1]) == p->mbufs[n - 1])) {
		rte_mempool_put_bulk(p->pool, (void **)p->mbufs, n);
		p->plain = 0;
		return;
	}
	p->plain = 0;
	for (uint32_t i = 0; i < n; i += BURST_MAX) {
		uint32_t some = RTE_MIN(n - i, (uint32_t)BURST_MAX);

		for (uint32_t j = 0; j < some; j++)
			p->mbufs[j] = frame_mbuf(&f[i + j]);
		rte_pktmbuf_free_bulk(p->mbufs, some);
	}
}

/* Timestamps may have arrived since the port was opened. */
static void dpdk_describe(struct port *port)
{
	mode_write(port, port->priv);
}

/* The kernel's counters of the sockets of af_packet. */
static void dpdk_note_drops(struct port *port)
{
	struct device *d = ((struct dpdk_port *)port->priv)->device;

	if (d->reporter && d->reporter != port)
		return;
	for (unsigned int i = 0; i < d->socket_count; i++)
		d->socket_drops += packet_socket_drops(d->sockets[i]);
}

static void dpdk_stats(struct port *port, struct engine_stats *stats)
{
	struct dpdk_port *p = port->priv;
	struct rte_eth_stats found;

	*stats = (struct engine_stats){ .rx_invalid = p->invalid };
	/* The counters belong to the device: the first port asked reports them. */
	if (!p->device->reporter)
		p->device->reporter = port;
	if (p->device->reporter != port || rte_eth_stats_get(p->id, &found))
		return;
	dpdk_note_drops(port);
	stats->rx_ring_drops = found.imissed + found.rx_nombuf + p->device->socket_drops;
	stats->rx_invalid += found.ierrors;
	stats->tx_drops = p->device->errors_are_losses ? found.oerrors : 0;
}

const struct engine engine_dpdk = {
	.name = "dpdk",
	.caps = ENGINE_SPREADS | ENGINE_HAS_THREADS | ENGINE_SENDS | ENGINE_RECEIVES |
		ENGINE_REFLECTS | ENGINE_CROSSES,
	.options = dpdk_options,
	.summary = "DPDK: virtio-user, vhost, memif, PCI devices and whatever else it drives",
	.open = dpdk_open,
	.ready = dpdk_ready,
	.enter = dpdk_enter,
	.alloc = dpdk_alloc,
	.tx = dpdk_tx,
	.rx = dpdk_rx,
	.release = dpdk_release,
	.note_drops = dpdk_note_drops,
	.describe = dpdk_describe,
	.stats = dpdk_stats,
	.close = dpdk_close,
};
