/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* After DPDK's headers, which use an attribute with the same name as our macro always_inline. */
#include "dpdk_device.h"
#include "dpdk_eal.h"
#include "socket_clear.h"

enum {
	DEVICES_MAX = 32,
	CACHE = 256, /* mbufs in the cache of a thread */
	HEADERS_MAX = 18, /* Ethernet and one tag, not included in the MTU */
	PACKET_SOCKETS_MAX = 1024, /* maximum per process, searched for those of a device */
};

const char *const device_offloads[] = { "off", "on", NULL };
const char *const device_stamps[] = { "software", "device", NULL };

static struct device *devices[DEVICES_MAX];

/* Returns the slot of a device, or an empty slot; NULL: the table is full. */
static struct device **device_slot(const char *name)
{
	struct device **empty = NULL;

	for (int i = 0; i < DEVICES_MAX; i++) {
		if (devices[i] && !strcmp(devices[i]->name, name))
			return &devices[i];
		if (!devices[i] && !empty)
			empty = &devices[i];
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

/*
 * Chooses the checksums that a device computes. A completed checksum must be in the received frame. A
 * paravirtual device only marks the frame as one without a checksum, and the other end accepts the
 * mark as a correct checksum, so the receiver would detect no corruption. The behaviour of the
 * members of net_bonding and net_failsafe is unknown. The IPv4 header checksum is the same in all
 * frames of a flow, so offloading it saves nothing.
 */
static void device_sums(const struct port *port, struct device *d,
			const struct rte_eth_dev_info *info, struct rte_eth_conf *conf)
{
	static const char *const marking[] = { "net_virtio",  "net_virtio_user", "net_vhost",
					       "net_vmxnet3", "net_netvsc",	 "net_bonding",
					       "net_failsafe" };
	const uint64_t sums = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	const bool completes = info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	const bool checks = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	bool marks = false;

	d->sent_by = d->checked_by = "software";
	if (port->config.forwards || !strcmp(port_option_text(port, "offload"), device_offloads[0]))
		return;
	for (size_t i = 0; i < sizeof(marking) / sizeof(marking[0]); i++)
		marks |= !strcmp(info->driver_name, marking[i]);
	if (completes && port->config.sends) {
		d->completes_sums = !marks;
		d->sent_by = marks ? "software (the device would only mark it)" : "device";
	}
	if (checks && port->config.receives) {
		d->checks_sums = !marks;
		d->checked_by = marks ? "software (the device would believe a mark)" : "device";
	}
	if (d->completes_sums)
		conf->txmode.offloads |= RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	if (d->checks_sums)
		conf->rxmode.offloads |= info->rx_offload_capa & sums;
}

/* Asks a device to timestamp arrivals. Returns 0, or -errno if it cannot. */
static int device_timestamps(struct port *port, struct device *d,
			     const struct rte_eth_dev_info *info, struct rte_eth_conf *conf)
{
	if (!port->config.receives || port->config.forwards ||
	    !strcmp(port_option_text(port, "stamps"), device_stamps[0]))
		return 0;
	/* net_pcap of 22.11 timestamps frames without listing the capability. */
	d->stamps = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP ||
		    !strcmp(info->driver_name, "net_pcap");
	if (!d->stamps)
		return port_fail(port, ENOTSUP,
				 "%s (%s) does not timestamp arriving frames: stamps software",
				 d->name, info->driver_name);
	conf->rxmode.offloads |= info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP;
	return 0;
}

static int device_setup(struct port *port, struct device *d, const struct rte_eth_dev_info *info)
{
	const int device_node = rte_eth_dev_socket_id(d->id);
	int node = device_node < 0 ? (int)rte_socket_id() : device_node;
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
	/* These drivers report a maximum length but carry longer frames. */
	if (!strcmp(info->driver_name, "net_memif") || !strcmp(info->driver_name, "net_af_packet"))
		mtu = RTE_MIN(mtu, RTE_ETHER_MTU);
	conf.rxmode.mtu = mtu;
	if (d->queues > 1 && info->flow_type_rss_offloads) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info->flow_type_rss_offloads &
						   (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
	}
	device_sums(port, d, info, &conf);
	/* The frames of a queue come from one pool and belong to nobody else, except those of a
	 * forwarder, which may come from another device. */
	if (!port->config.forwards)
		conf.txmode.offloads |= info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	error = device_timestamps(port, d, info, &conf);
	if (error)
		return error;
	/* A virtio-user port that listens notices in the thread of interrupts that the switch has gone,
	 * and accepts the next one there; only if the link is to be followed. */
	conf.intr_conf.lsc = strstr(port_option_text(port, "device"), "server=1") != NULL &&
			     *info->dev_flags & RTE_ETH_DEV_INTR_LSC;
	error = rte_eth_dev_configure(d->id, d->queues, d->queues, &conf);
	if (error)
		return port_fail(port, error, "%s cannot be configured: %s", d->name, eal_error());
	rx = rx					? rx :
	     info->default_rxportconf.ring_size ? info->default_rxportconf.ring_size :
						  1024;
	tx = tx					? tx :
	     info->default_txportconf.ring_size ? info->default_txportconf.ring_size :
						  1024;
	error = rte_eth_dev_adjust_nb_rx_tx_desc(d->id, &rx, &tx);
	if (error)
		return port_fail(port, error, "%s takes no queue of that length", d->name);
	/* For the rings of both ends, the caller's bursts and the caches of the threads. */
	count = 2u * (rx + tx) * d->queues +
		(4 * port->config.burst + 4 * CACHE) * port->config.cores;
	/* Powers of two, like the slots of af_packet, which must fit into an mbuf. */
	d->room = RTE_MAX(rte_align32pow2(port->config.frame_max + 64), 2048u);
	snprintf(name, sizeof(name), "frames-%u", d->id);
	d->pool = rte_pktmbuf_pool_create(name, count, CACHE, 0,
					  (uint16_t)(RTE_PKTMBUF_HEADROOM + d->room), node);
	/* The process may have no memory on the device's NUMA node. */
	if (!d->pool && node != (int)rte_socket_id()) {
		node = (int)rte_socket_id();
		d->pool = rte_pktmbuf_pool_create(name, count, CACHE, 0,
						  (uint16_t)(RTE_PKTMBUF_HEADROOM + d->room), node);
	}
	if (!d->pool)
		return port_fail(port, ENOMEM, "no memory for %u frames of %u bytes: %s", count,
				 d->room, eal_error());
	for (uint16_t q = 0; q < d->queues && !error; q++) {
		error = rte_eth_rx_queue_setup(d->id, q, rx, (unsigned)node, NULL, d->pool);
		if (!error)
			error = rte_eth_tx_queue_setup(d->id, q, tx, (unsigned)node, NULL);
	}
	if (!error)
		error = rte_eth_dev_start(d->id);
	if (error)
		return port_fail(port, error, "%s does not start: %s", d->name, eal_error());
	/* A device without promiscuous mode receives all frames anyway. */
	rte_eth_promiscuous_enable(d->id);
	return 0;
}

static void ignore_signal(int number)
{
	(void)number;
}

/*
 * Wakes the thread that serves vhost sockets. It sleeps in poll() for up to a second, and a new
 * listening socket does not wake it (lib/vhost of DPDK 22.11, fd_man.c). The other end, which
 * connects in the meantime, would wait for that second.
 */
static void vhost_wake(void)
{
	struct sigaction action = { .sa_handler = ignore_signal };
	DIR *threads = opendir("/proc/self/task");

	sigaction(SIGURG, &action, NULL);
	for (struct dirent *e; threads && (e = readdir(threads));) {
		char path[300], name[16] = "";
		FILE *comm;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		comm = fopen(path, "re");
		if (comm && fgets(name, sizeof(name), comm) && !strcmp(name, "vhost-events\n"))
			syscall(SYS_tgkill, getpid(), atoi(e->d_name), SIGURG);
		if (comm)
			fclose(comm);
	}
	if (threads)
		closedir(threads);
}

/* True if a descriptor of this process is a packet socket. */
static bool is_packet_socket(int fd)
{
	int domain = 0;
	socklen_t size = sizeof(domain);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_PACKET;
}

/* All packet sockets of this process. */
struct packet_sockets {
	unsigned int count;
	int fds[PACKET_SOCKETS_MAX];
};

static void packet_sockets_list(struct packet_sockets *s)
{
	DIR *open = opendir("/proc/self/fd");

	s->count = 0;
	for (struct dirent *e; open && s->count < PACKET_SOCKETS_MAX && (e = readdir(open));) {
		const int fd = atoi(e->d_name);

		if (is_packet_socket(fd))
			s->fds[s->count++] = fd;
	}
	if (open)
		closedir(open);
}

static bool packet_sockets_have(const struct packet_sockets *s, int fd)
{
	for (unsigned int i = 0; i < s->count; i++)
		if (s->fds[i] == fd)
			return true;
	return false;
}

/* Records the packet sockets that a device has opened: those that did not exist before. */
static void device_find_sockets(struct device *d, const struct packet_sockets *before)
{
	struct packet_sockets now;

	packet_sockets_list(&now);
	for (unsigned int i = 0; i < now.count && d->socket_count < SOCKETS_MAX; i++)
		if (!packet_sockets_have(before, now.fds[i]))
			d->sockets[d->socket_count++] = now.fds[i];
}

/* Removes the socket of a device that failed to become a server. virtio-user (of DPDK 22.11) leaves
 * it behind after a failure, for example when its wait for a client is interrupted. */
static void device_clear(const char *arguments)
{
	const char *path = strstr(arguments, ",path=");
	char copy[256];

	if (!path || !strstr(arguments, ",server=1"))
		return;
	path += strlen(",path=");
	snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(path, ","), path);
	(void)socket_clear(copy);
}

static int device_open(struct port *port, struct device **slot, const char *arguments,
		       const char *name)
{
	struct device *d = calloc(1, sizeof(*d));
	struct rte_eth_dev_info info;
	struct packet_sockets before;
	int error;

	if (!d)
		return port_fail(port, ENOMEM, "no memory for a device");
	packet_sockets_list(&before);
	eal_forget_log();
	snprintf(d->name, sizeof(d->name), "%s", name);
	d->queues = (uint16_t)port_option(port, "queues");
	error = rte_dev_probe(arguments);
	if (!error)
		error = rte_eth_dev_get_port_by_name(name, &d->id);
	if (!error)
		error = rte_eth_dev_info_get(d->id, &info);
	if (error) {
		free(d);
		device_clear(arguments);
		return port_fail(port, error, "no device '%s': %s", arguments, eal_error());
	}
	d->bus_device = (struct rte_device *)(uintptr_t)info.device;
	/* A full software ring rejects frames, and its driver counts every retry as an error. */
	d->errors_are_losses = strcmp(info.driver_name, "net_vhost") &&
			       strcmp(info.driver_name, "net_virtio_user") &&
			       strcmp(info.driver_name, "net_memif");
	if (!strcmp(info.driver_name, "net_af_packet"))
		device_find_sockets(d, &before);
	error = device_setup(port, d, &info);
	if (error) {
		device_close(d);
		return error;
	}
	if (!strcmp(info.driver_name, "net_vhost"))
		vhost_wake();
	*slot = d;
	return 0;
}

int device_take(struct port *port, struct device **device)
{
	const char *arguments = port_option_text(port, "device");
	char name[RTE_ETH_NAME_MAX_LEN];
	struct device **slot;
	int error;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(arguments, ","), arguments);
	if (!name[0])
		return port_fail(port, EINVAL, "the option device is missing");
	error = eal_start(port);
	if (error)
		return error;
	slot = device_slot(name);
	if (!slot)
		return port_fail(port, ENFILE, "more than %d devices", DEVICES_MAX);
	if (!*slot)
		error = device_open(port, slot, arguments, name);
	*device = *slot;
	return error;
}

void device_leave(struct device *d)
{
	if (d->ports)
		return;
	*device_slot(d->name) = NULL;
	device_close(d);
}
