/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpdk: any device of DPDK's environment (EAL). Frames lie in mbufs; a handle is an mbuf.
 *
 * The EAL lives as long as the process and is started by the first port that is opened. A port
 * is one queue pair of a device; ports that name the same device share it. One that receives
 * reads all receive queues of the device, as nobody can tell which of them a switch will use.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Behind DPDK's headers, which have an attribute of the same name as its always_inline. */
#include "engine.h"

enum {
	DEVICES_MAX = 32,
	CACHE = 256, /* mbufs that a thread keeps for itself */
	HEADERS_MAX = 18, /* Ethernet and one tag: not part of the MTU */
};

struct device {
	char name[RTE_ETH_NAME_MAX_LEN];
	uint16_t id, queues, ports;
	bool errors_are_losses; /* oerrors counts frames that were taken and did not leave */
	struct rte_device *bus_device;
	struct rte_mempool *pool;
	uint32_t room; /* bytes of a frame that an mbuf has room for */
};

struct dpdk_port {
	struct device *device;
	struct rte_mempool *pool;
	uint16_t id, queue, queues, next;
	uint64_t invalid;
	uint32_t plain; /* the first of mbufs that were received last, if all are as in mbuf_plain */
	struct rte_mbuf *mbufs[BURST_MAX];
};

static const char *const memories[] = { "no-huge", "hugepages", NULL };

static const struct option_spec dpdk_options[] = {
	{ .name = "device",
	  .type = OPTION_TEXT,
	  .help = "what the EAL calls it: a vdev with its arguments, or a PCI address" },
	{ .name = "queues",
	  .type = OPTION_NUMBER,
	  .min = 1,
	  .max = 64,
	  .preset = 1,
	  .help = "pairs of queues that the device is opened with" },
	{ .name = "descriptors",
	  .type = OPTION_NUMBER,
	  .max = 32768,
	  .help = "length of each queue; 0: the device's choice" },
	{ .name = "memory",
	  .type = OPTION_TEXT,
	  .choices = memories,
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

/* ---- the EAL ---------------------------------------------------------------------- */

static struct {
	bool started;
	char memory[16];
	pthread_key_t thread;
	struct device *devices[DEVICES_MAX];
	char said[192]; /* the last line that it logged */
} eal;

static ssize_t eal_log(void *cookie, const char *text, size_t size)
{
	size_t n = size;

	(void)cookie;
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	if (n)
		snprintf(eal.said, sizeof(eal.said), "%.*s", (int)n, text);
	return (ssize_t)size;
}

static const char *eal_said(void)
{
	return eal.said[0] ? eal.said : rte_strerror(rte_errno);
}

static void thread_leave(void *entered)
{
	(void)entered;
	rte_thread_unregister();
}

static void eal_end(void)
{
	rte_eal_cleanup();
}

/* Every CPU that the process may use, as in `0@(0,2)`: its one lcore is bound to none. */
static void lcores_write(char *out, size_t size)
{
	cpu_set_t set;
	size_t at = (size_t)snprintf(out, size, "--lcores=0@(");

	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	for (int cpu = 0; cpu < CPU_SETSIZE && at < size - 8; cpu++)
		if (CPU_ISSET(cpu, &set))
			at += (size_t)snprintf(out + at, size - at, "%d,", cpu);
	out[at - 1] = ')';
}

static int eal_start(struct port *port, bool pci)
{
	static const cookie_io_functions_t log_to = { .write = eal_log };
	const char *memory = port_option_text(port, "memory");
	const char *prefix = port_option_text(port, "prefix");
	const char *directory = port_option_text(port, "directory");
	char lcores[4096], megabytes[32], files[160];
	char *argv[16];
	int argc = 0;
	FILE *log;

	if (eal.started) {
		if (strcmp(eal.memory, memory))
			return port_fail(port, EBUSY, "the process has its memory in %s already",
					 eal.memory);
		return 0;
	}
	log = fopencookie(NULL, "w", log_to);
	if (!log)
		return port_fail(port, ENOMEM, "no memory for a log");
	setvbuf(log, NULL, _IOLBF, 256);
	rte_openlog_stream(log);
	if (directory[0])
		setenv("RUNTIME_DIRECTORY", directory, 1);
	lcores_write(lcores, sizeof(lcores));
	snprintf(megabytes, sizeof(megabytes), "%llu",
		 (unsigned long long)port_option(port, "megabytes"));
	snprintf(files, sizeof(files), "--file-prefix=%s", prefix[0] ? prefix : "switchmark");

	argv[argc++] = (char *)(uintptr_t) "switchmark-traffic";
	argv[argc++] = lcores;
	argv[argc++] = files;
	argv[argc++] = (char *)(uintptr_t) "-m";
	argv[argc++] = megabytes;
	argv[argc++] = (char *)(uintptr_t) "--no-telemetry";
	argv[argc++] = (char *)(uintptr_t) "--log-level=*:error";
	/* The back end of vhost-user, or the server of memif, maps our memory: few files. */
	argv[argc++] = (char *)(uintptr_t) "--single-file-segments";
	if (!strcmp(memory, "no-huge")) {
		argv[argc++] = (char *)(uintptr_t) "--no-huge";
		argv[argc++] = (char *)(uintptr_t) "--no-shconf";
	} else {
		argv[argc++] = (char *)(uintptr_t) "--in-memory";
	}
	argv[argc++] = (char *)(uintptr_t)(pci ? "-a0000:00:00.0" : "--no-pci");
	argv[argc] = NULL;
	if (rte_eal_init(argc, argv) < 0)
		return port_fail(port, ENOMEM, "the EAL does not start: %s", eal_said());
	pthread_key_create(&eal.thread, thread_leave);
	atexit(eal_end);
	snprintf(eal.memory, sizeof(eal.memory), "%s", memory);
	eal.started = true;
	return 0;
}

/* ---- devices ---------------------------------------------------------------------- */

static struct device **device_slot(const char *name)
{
	struct device **empty = NULL;

	for (int i = 0; i < DEVICES_MAX; i++) {
		if (eal.devices[i] && !strcmp(eal.devices[i]->name, name))
			return &eal.devices[i];
		if (!eal.devices[i] && !empty)
			empty = &eal.devices[i];
	}
	return empty;
}

static void device_close(struct device *d)
{
	rte_eth_dev_stop(d->id);
	rte_eth_dev_close(d->id);
	rte_dev_remove(d->bus_device);
	rte_mempool_free(d->pool);
	free(d);
}

static int device_setup(struct port *port, struct device *d, const struct rte_eth_dev_info *info)
{
	const int node = (int)rte_socket_id();
	struct rte_eth_conf conf = { 0 };
	uint16_t rx = (uint16_t)port_option(port, "descriptors"), tx = rx;
	uint32_t mtu = port->config.frame_max > HEADERS_MAX + 1500 ?
			       port->config.frame_max - HEADERS_MAX :
			       1500;
	char name[RTE_MEMPOOL_NAMESIZE];
	uint32_t count;
	int error;

	if (d->queues > info->max_rx_queues || d->queues > info->max_tx_queues)
		return port_fail(port, EINVAL, "%s has no %u pairs of queues, but %u", d->name,
				 d->queues, RTE_MIN(info->max_rx_queues, info->max_tx_queues));
	if (info->max_mtu >= RTE_ETHER_MIN_MTU && mtu > info->max_mtu)
		mtu = info->max_mtu;
	/* These name a longest frame, and carry longer ones. */
	if (!strcmp(info->driver_name, "net_memif") || !strcmp(info->driver_name, "net_af_packet"))
		mtu = RTE_MIN(mtu, RTE_ETHER_MTU);
	conf.rxmode.mtu = mtu;
	if (d->queues > 1 && info->flow_type_rss_offloads) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info->flow_type_rss_offloads &
						   (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
	}
	error = rte_eth_dev_configure(d->id, d->queues, d->queues, &conf);
	if (error)
		return port_fail(port, error, "%s cannot be configured: %s", d->name, eal_said());
	rx = rx					? rx :
	     info->default_rxportconf.ring_size ? info->default_rxportconf.ring_size :
						  1024;
	tx = tx					? tx :
	     info->default_txportconf.ring_size ? info->default_txportconf.ring_size :
						  1024;
	error = rte_eth_dev_adjust_nb_rx_tx_desc(d->id, &rx, &tx);
	if (error)
		return port_fail(port, error, "%s takes no queue of that length", d->name);
	/* Rings of both ends, what the caller and the threads' caches hold. */
	count = 2u * (rx + tx) * d->queues + 4 * port->config.burst + 4 * CACHE;
	/* Powers of two: af_packet's slots are, and an mbuf must hold one. */
	d->room = RTE_MAX(rte_align32pow2(port->config.frame_max + 64), 2048u);
	snprintf(name, sizeof(name), "frames-%u", d->id);
	d->pool = rte_pktmbuf_pool_create(name, count, CACHE, 0,
					  (uint16_t)(RTE_PKTMBUF_HEADROOM + d->room), node);
	if (!d->pool)
		return port_fail(port, ENOMEM, "no memory for %u frames of %u bytes: %s", count,
				 d->room, eal_said());
	for (uint16_t q = 0; q < d->queues && !error; q++) {
		error = rte_eth_rx_queue_setup(d->id, q, rx, (unsigned)node, NULL, d->pool);
		if (!error)
			error = rte_eth_tx_queue_setup(d->id, q, tx, (unsigned)node, NULL);
	}
	if (!error)
		error = rte_eth_dev_start(d->id);
	if (error)
		return port_fail(port, error, "%s does not start: %s", d->name, eal_said());
	/* Not every device can, and those that cannot hear everything anyway. */
	rte_eth_promiscuous_enable(d->id);
	return 0;
}

static void nothing(int number)
{
	(void)number;
}

/* Lets the thread that serves the sockets of vhost look at them now. It sleeps in poll() for a
 * second at a time, and that a socket listens does not wake it (lib/vhost of DPDK 22.11,
 * fd_man.c): the other end, which connects meanwhile, would wait so long for its answer. */
static void vhost_look(void)
{
	struct sigaction action = { .sa_handler = nothing };
	DIR *threads = opendir("/proc/self/task");

	sigaction(SIGURG, &action, NULL);
	for (struct dirent *e; threads && (e = readdir(threads));) {
		char path[300], name[16] = "";
		FILE *comm;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		comm = fopen(path, "re");
		if (comm && fgets(name, sizeof(name), comm) && !strcmp(name, "vhost-events\n"))
			tgkill(getpid(), atoi(e->d_name), SIGURG);
		if (comm)
			fclose(comm);
	}
	if (threads)
		closedir(threads);
}

static int device_open(struct port *port, struct device **slot, const char *arguments,
		       const char *name)
{
	struct device *d = calloc(1, sizeof(*d));
	struct rte_eth_dev_info info;
	int error;

	if (!d)
		return port_fail(port, ENOMEM, "no memory for a device");
	eal.said[0] = 0;
	snprintf(d->name, sizeof(d->name), "%s", name);
	d->queues = (uint16_t)port_option(port, "queues");
	error = rte_dev_probe(arguments);
	if (!error)
		error = rte_eth_dev_get_port_by_name(name, &d->id);
	if (!error)
		error = rte_eth_dev_info_get(d->id, &info);
	if (error) {
		free(d);
		return port_fail(port, error, "no device '%s': %s", arguments, eal_said());
	}
	d->bus_device = (struct rte_device *)(uintptr_t)info.device;
	/* A software ring that is full refuses frames, and counts those that are offered again. */
	d->errors_are_losses = strcmp(info.driver_name, "net_vhost") &&
			       strcmp(info.driver_name, "net_virtio_user") &&
			       strcmp(info.driver_name, "net_memif");
	error = device_setup(port, d, &info);
	if (error) {
		device_close(d);
		return error;
	}
	if (!strcmp(info.driver_name, "net_vhost"))
		vhost_look();
	*slot = d;
	return 0;
}

static void mode_write(struct port *port, const struct device *d)
{
	struct rte_eth_burst_mode burst = { 0 };
	struct rte_eth_dev_info info = { 0 };

	rte_eth_dev_info_get(d->id, &info);
	if (rte_eth_rx_burst_mode_get(d->id, 0, &burst))
		burst.info[0] = 0;
	/* The checksum is how corruption is found: the core writes and checks it, whoever else
	 * could. Both times of a frame are read from the TSC, so that they can be compared. */
	snprintf(port->mode, sizeof(port->mode),
		 "%.20s, %.10s%s%.20s, checksum and times by software%s%s", info.driver_name,
		 eal.memory, burst.info[0] ? ", " : "", burst.info,
		 info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_UDP_CKSUM ? ", checksum offered" : "",
		 info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP ? ", times offered" : "");
}

/* ---- the engine ------------------------------------------------------------------- */

static void dpdk_close(struct port *port)
{
	struct dpdk_port *p = port->priv;

	if (!p)
		return;
	if (!--p->device->ports) {
		*device_slot(p->device->name) = NULL;
		device_close(p->device);
	}
	free(p);
	port->priv = NULL;
}

static int dpdk_open(struct port *port)
{
	const char *arguments = port_option_text(port, "device");
	char name[RTE_ETH_NAME_MAX_LEN];
	struct device **slot;
	struct dpdk_port *p;
	int error;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(arguments, ","), arguments);
	if (!name[0])
		return port_fail(port, EINVAL, "the option device is missing");
	error = eal_start(port, strchr(name, ':'));
	if (error)
		return error;
	slot = device_slot(name);
	if (!slot)
		return port_fail(port, ENFILE, "more than %d devices", DEVICES_MAX);
	if (!*slot)
		error = device_open(port, slot, arguments, name);
	if (error || !*slot)
		return error;
	p = calloc(1, sizeof(*p));
	if (!p || port->config.queue >= (*slot)->queues || port->config.frame_max > (*slot)->room) {
		if (!(*slot)->ports) {
			device_close(*slot);
			*slot = NULL;
		}
		free(p);
		return port_fail(port, EINVAL,
				 "%s was opened with fewer queues, or for shorter frames", name);
	}
	p->device = *slot;
	p->device->ports++;
	p->pool = p->device->pool;
	p->id = p->device->id;
	p->queue = (uint16_t)port->config.queue;
	p->queues = p->device->queues;
	port->priv = p;
	mode_write(port, p->device);
	return 0;
}

/* A thread that DPDK does not know has no cache of mbufs. */
static void dpdk_enter(struct port *port)
{
	(void)port;
	if (rte_lcore_id() == LCORE_ID_ANY && !rte_thread_register())
		pthread_setspecific(eal.thread, &eal);
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

		/* What was sent may lie in the ring still. */
		rte_eth_tx_done_cleanup(p->id, p->queue, 0);
		while (got < n && !rte_mempool_get(p->pool, (void **)&p->mbufs[got]))
			got++;
		n = got;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct rte_mbuf *m = p->mbufs[i];

		/* The buffer lies behind the mbuf: nothing of it is read, only asked for. */
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
		/* One that was sent before comes back as it was: loads wait for no store. What a full
		 * reset writes into its second cache line stands there in any case. */
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

/* Whole, ours alone and of our pool: it goes back without a look at anything else. */
always_inline bool mbuf_plain(const struct dpdk_port *p, const struct rte_mbuf *m)
{
	return m->nb_segs == 1 && rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m) &&
	       m->pool == p->pool;
}

static uint32_t dpdk_rx(struct port *port, struct frame *f, uint32_t n)
{
	struct dpdk_port *p = port->priv;
	uint32_t got = 0, whole = 0;
	bool plain = true;

	for (uint16_t tries = p->queues; tries && !got; tries--) {
		got = rte_eth_rx_burst(p->id, p->next, p->mbufs, (uint16_t)n);
		if (p->queues > 1 && ++p->next == p->queues)
			p->next = 0;
	}
	for (uint32_t i = 0; i < got; i++) {
		struct rte_mbuf *m = p->mbufs[i];

		if (unlikely(m->nb_segs > 1)) {
			/* Longer than any frame of ours. */
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

static void dpdk_release(struct port *port, struct frame *f, uint32_t n)
{
	struct dpdk_port *p = port->priv;

	/* Nearly always it is the burst that was received last, in order. */
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

static void dpdk_stats(struct port *port, struct engine_stats *stats)
{
	struct dpdk_port *p = port->priv;
	struct rte_eth_stats found;

	*stats = (struct engine_stats){ .rx_invalid = p->invalid };
	/* Counters are the device's: one of its ports tells them. */
	if (p->queue || rte_eth_stats_get(p->id, &found))
		return;
	stats->rx_ring_drops = found.imissed + found.rx_nombuf;
	stats->rx_invalid += found.ierrors;
	stats->tx_drops = p->device->errors_are_losses ? found.oerrors : 0;
}

const struct engine engine_dpdk = {
	.name = "dpdk",
	.caps = ENGINE_SENDS | ENGINE_RECEIVES | ENGINE_REFLECTS | ENGINE_CROSSES,
	.options = dpdk_options,
	.summary = "DPDK: virtio-user, vhost, memif, PCI devices and whatever else it drives",
	.open = dpdk_open,
	.ready = dpdk_ready,
	.enter = dpdk_enter,
	.alloc = dpdk_alloc,
	.tx = dpdk_tx,
	.rx = dpdk_rx,
	.release = dpdk_release,
	.stats = dpdk_stats,
	.close = dpdk_close,
};
