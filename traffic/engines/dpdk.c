/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpdk: any device of DPDK's environment (EAL). Frames lie in mbufs; a handle is an mbuf.
 *
 * The EAL lives as long as the process and is started by the first port that is opened. A port
 * is one queue pair of a device; ports that name the same device share it. One that receives
 * reads all receive queues of the device, as nobody can tell which of them a switch will use; that
 * of one of several cores reads its own. Nobody else may receive from these.
 *
 * A port of a device that completes checksums, checks them or notes times has a tx and an rx that
 * know of it; all others run through code that does not.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_eth_read_clock, since 19.05 */
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <rte_mempool.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Behind DPDK's headers, which have an attribute of the same name as its always_inline. */
#include "clock.h"
#include "engine.h"
#include "frames.h"
#include "socket.h"
#include "socket_clear.h"

enum {
	DEVICES_MAX = 32,
	DEVICE_QUEUES_MAX = 64, /* a bit each in sent_to */
	CACHE = 256, /* mbufs that a thread keeps for itself */
	HEADERS_MAX = 18, /* Ethernet and one tag: not part of the MTU */
	SOCKETS_MAX = 16, /* of a device: one for each of its queues */
	PACKET_SOCKETS_MAX = 1024, /* of the process, among which a device's are looked for */
};

struct device {
	char name[RTE_ETH_NAME_MAX_LEN];
	uint16_t id, queues, ports;
	/* By one of the ports, as a queue has no lock: which queues are sent to, and which are
	 * received from. */
	uint64_t sent_to;
	uint64_t received_from;
	bool errors_are_losses; /* oerrors counts frames that were taken and did not leave */
	bool completes_sums, checks_sums; /* of UDP */
	bool stamps;
	const char *sent_by, *checked_by; /* who does, for the record */
	struct rte_device *bus_device;
	struct rte_mempool *pool;
	uint32_t room; /* bytes of a frame that an mbuf has room for */
	int sockets[SOCKETS_MAX]; /* net_af_packet's own, whose drops it does not tell */
	unsigned int socket_count;
	uint64_t socket_drops;
	const struct port *teller; /* of the device's counters; NULL: nobody yet */
};

/* The clock that a device's stamps are of. */
enum stamp_clock {
	STAMPS_NONE,
	STAMPS_DEVICE, /* that rte_eth_read_clock reads, if a stamp is near to it */
	STAMPS_REALTIME, /* CLOCK_REALTIME, if a stamp is near to it */
	STAMPS_REALTIME_US,
	STAMPS_STRANGE,
};

struct stamps {
	uint16_t id; /* of the device */
	enum stamp_clock clock;
	bool known; /* a stamp has shown that it is that clock */
	int field; /* of an mbuf */
	uint64_t flag, second; /* ticks */
	struct clock_fit fit;
	bool seen, missed; /* since then: frames with a stamp that can be, and without */
};

struct dpdk_port {
	struct device *device;
	struct rte_mempool *pool;
	uint16_t id, queue, queues, next;
	uint64_t invalid;
	uint32_t plain; /* the first of mbufs that were received last, if all are as in mbuf_plain */
	struct rte_mbuf *mbufs[BURST_MAX];
};

/* A port of a device that tells something of what it receives. */
struct hearing_port {
	struct dpdk_port port;
	struct stamps stamps;
};

static const char *const memories[] = { "no-huge", "hugepages", NULL };

static const char *const offloads[] = { "auto", "off", NULL };

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
	  .choices = offloads,
	  .help = "use what the device offers of checksums and times" },
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

static int eal_start(struct port *port)
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
	/* Whatever the first device is: a bus that is off is never looked at again. The EAL takes no PCI
	 * device but those that ports name later, as no driver wants a host bridge. */
	argv[argc++] = (char *)(uintptr_t)(access("/sys/bus/pci/devices", F_OK) ? "--no-pci" :
										  "-a0000:00:00.0");
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

/*
 * What the device is to do. A sum that it makes has to be in the frame when it arrives: a paravirtual
 * device only notes that one is missing, and takes such a note for a sum that is right, so that the
 * receiver's check would find nothing. What the members of net_bonding and net_failsafe do is not
 * known. The IPv4 header's sum is the same in all frames of a flow: there is nothing to be saved.
 */
static void device_offload(const struct port *port, struct device *d,
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
	if (port->config.forwards || strcmp(port_option_text(port, "offload"), offloads[0]))
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
	/* net_pcap of 22.11 notes times and does not say so. */
	d->stamps = port->config.receives &&
		    (info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP ||
		     !strcmp(info->driver_name, "net_pcap"));
	if (d->completes_sums)
		conf->txmode.offloads |= RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	if (d->checks_sums)
		conf->rxmode.offloads |= info->rx_offload_capa & sums;
	if (d->stamps)
		conf->rxmode.offloads |= info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP;
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
	/* These name a longest frame, and carry longer ones. */
	if (!strcmp(info->driver_name, "net_memif") || !strcmp(info->driver_name, "net_af_packet"))
		mtu = RTE_MIN(mtu, RTE_ETHER_MTU);
	conf.rxmode.mtu = mtu;
	if (d->queues > 1 && info->flow_type_rss_offloads) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info->flow_type_rss_offloads &
						   (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
	}
	device_offload(port, d, info, &conf);
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
	count = 2u * (rx + tx) * d->queues +
		(4 * port->config.burst + 4 * CACHE) * port->config.cores;
	/* Powers of two: af_packet's slots are, and an mbuf must hold one. */
	d->room = RTE_MAX(rte_align32pow2(port->config.frame_max + 64), 2048u);
	snprintf(name, sizeof(name), "frames-%u", d->id);
	d->pool = rte_pktmbuf_pool_create(name, count, CACHE, 0,
					  (uint16_t)(RTE_PKTMBUF_HEADROOM + d->room), node);
	/* The device may be on a node that memory was not taken of. */
	if (!d->pool && node != (int)rte_socket_id()) {
		node = (int)rte_socket_id();
		d->pool = rte_pktmbuf_pool_create(name, count, CACHE, 0,
						  (uint16_t)(RTE_PKTMBUF_HEADROOM + d->room), node);
	}
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

/* Is a descriptor of this process a packet socket? */
static bool is_packet_socket(int fd)
{
	int domain = 0;
	socklen_t size = sizeof(domain);

	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) && domain == AF_PACKET;
}

/* Those of this process, whatever number they have. */
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

/* Notes the packet sockets that a device has opened: those that were not there before. */
static void device_find_sockets(struct device *d, const struct packet_sockets *before)
{
	struct packet_sockets now;

	packet_sockets_list(&now);
	for (unsigned int i = 0; i < now.count && d->socket_count < SOCKETS_MAX; i++)
		if (!packet_sockets_have(before, now.fds[i]))
			d->sockets[d->socket_count++] = now.fds[i];
}

/* Removes the socket of a device that was to be a server: virtio-user (of DPDK 22.11) leaves it when it
 * fails, as it does when the wait for a client is interrupted. */
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
		device_clear(arguments);
		return port_fail(port, error, "no device '%s': %s", arguments, eal_said());
	}
	d->bus_device = (struct rte_device *)(uintptr_t)info.device;
	/* A software ring that is full refuses frames, and counts those that are offered again. */
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
		vhost_look();
	*slot = d;
	return 0;
}

static const char *stamps_say(const struct stamps *s)
{
	if (s->clock == STAMPS_NONE)
		return "software";
	if (s->clock == STAMPS_STRANGE)
		return "software (no clock is known that the device's stamps are of)";
	if (!s->known || !s->seen)
		return "software (no stamp came yet)";
	if (s->missed)
		return "device and software (some frames had no stamp)";
	return s->clock == STAMPS_DEVICE   ? "device" :
	       s->clock == STAMPS_REALTIME ? "device (CLOCK_REALTIME)" :
					     "device (CLOCK_REALTIME, microseconds)";
}

static void mode_write(struct port *port, const struct dpdk_port *p)
{
	const struct hearing_port *h = port->notes_arrivals ? (const struct hearing_port *)p : NULL;
	struct rte_eth_burst_mode burst = { 0 };
	struct rte_eth_dev_info info = { 0 };
	int at;

	if (rte_eth_dev_info_get(p->id, &info))
		return;
	if (rte_eth_rx_burst_mode_get(p->id, 0, &burst))
		burst.info[0] = 0;
	at = snprintf(port->mode, sizeof(port->mode), "%.20s, %.10s%s%.20s", info.driver_name,
		      eal.memory, burst.info[0] ? ", " : "", burst.info);
	if (port->config.forwards)
		return;
	if (port->config.sends)
		at += snprintf(port->mode + at, sizeof(port->mode) - (size_t)at,
			       ", tx checksum by %s", p->device->sent_by);
	if (port->config.receives)
		snprintf(port->mode + at, sizeof(port->mode) - (size_t)at,
			 ", rx checksum by %s, rx times by %s", p->device->checked_by,
			 h ? stamps_say(&h->stamps) : "software");
}

/* ---- times of the device ---------------------------------------------------------- */

static bool stamps_clock(const struct stamps *s, uint64_t *at)
{
	struct timespec now;

	if (s->clock == STAMPS_DEVICE)
		return !rte_eth_read_clock(s->id, at);
	clock_gettime(CLOCK_REALTIME, &now);
	*at = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return true;
}

/* Notes what both clocks show, by the tightest of a few readings; false: the device's has none. */
static bool stamps_pair(struct stamps *s)
{
	uint64_t best = UINT64_MAX, at = 0, ticks = 0;

	for (int i = 0; i < 4; i++) {
		uint64_t before = clock_ticks(), shown, width;

		if (!stamps_clock(s, &shown))
			return false;
		width = clock_ticks() - before;
		if (width < best) {
			best = width;
			at = shown;
			ticks = before + width / 2;
		}
	}
	clock_fit_add(&s->fit, at, ticks, (double)s->second);
	return true;
}

static void stamps_open(struct stamps *s, uint16_t id)
{
	int flag = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_RX_TIMESTAMP_NAME, NULL);

	s->field = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, NULL);
	if (flag < 0 || s->field < 0)
		return;
	s->id = id;
	s->flag = 1ull << flag;
	s->second = rte_get_tsc_hz();
	s->clock = STAMPS_DEVICE;
	if (!stamps_pair(s)) {
		s->clock = STAMPS_REALTIME;
		stamps_pair(s);
	}
}

/* Of which clock is the first stamp? That which it is within a second of. */
static void stamps_recognise(struct stamps *s, uint64_t stamp)
{
	uint64_t now;

	if (s->clock == STAMPS_DEVICE) {
		int64_t off = (int64_t)(clock_ticks() - clock_fit_ticks(&s->fit, stamp));

		s->known = (uint64_t)llabs(off) < s->second;
		if (!s->known) {
			s->fit = (struct clock_fit){ 0 };
			s->clock = STAMPS_REALTIME;
			stamps_pair(s);
		}
		return;
	}
	stamps_clock(s, &now);
	s->known = true;
	if (llabs((int64_t)(now - stamp)) < 1000000000)
		return;
	s->clock = stamp < UINT64_MAX / 1000 && llabs((int64_t)(now - stamp * 1000)) < 1000000000 ?
			   STAMPS_REALTIME_US :
			   STAMPS_STRANGE;
}

/* When a frame arrived, in ticks; 0 if its stamp does not tell. */
static uint64_t stamps_read(struct stamps *s, const struct rte_mbuf *m, uint64_t now)
{
	uint64_t stamp, ticks;
	int64_t age;

	if (!(m->ol_flags & s->flag)) {
		s->missed |= s->known;
		return 0;
	}
	stamp = *RTE_MBUF_DYNFIELD(m, s->field, rte_mbuf_timestamp_t *);
	if (unlikely(!s->known)) {
		if (!(s->fit.ticks_per_unit > 0))
			return 0;
		stamps_recognise(s, stamp);
	}
	if (!s->known || s->clock == STAMPS_STRANGE)
		return 0;
	/* The middle of the microsecond whose begin is told. */
	if (s->clock == STAMPS_REALTIME_US)
		stamp = stamp * 1000 + 500;
	ticks = clock_fit_ticks(&s->fit, stamp);
	age = (int64_t)(now - ticks);
	/* One that the clock was set after. The fit may be off by some microseconds at first. */
	if (unlikely(age < -(int64_t)(s->second / 1000) || age > (int64_t)s->second * 10)) {
		s->missed = true;
		return 0;
	}
	s->seen = true;
	return age < 0 ? now : ticks;
}

/* ---- the engine ------------------------------------------------------------------- */

/* The receive queues that a port reads, a bit each. */
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
	if (p->device->teller == port)
		p->device->teller = NULL;
	p->device->received_from &= ~queues_read(port);
	p->device->sent_to &= ~((uint64_t)port->config.sends << p->queue);
	if (!--p->device->ports) {
		*device_slot(p->device->name) = NULL;
		device_close(p->device);
	}
	free(p);
	port->priv = NULL;
	port->notes_arrivals = port->completes_sums = false;
}

static bool dpdk_hears(const struct port *port, const struct device *d)
{
	return port->config.receives && !port->config.forwards && (d->checks_sums || d->stamps);
}

static uint32_t dpdk_tx_offloaded(struct port *port, struct frame *f, uint32_t n);
static uint32_t dpdk_rx_offloaded(struct port *port, struct frame *f, struct arrival *arrivals,
				  uint32_t n);

/* Gives the port what its device offers, if that is anything. */
static void dpdk_offload(struct port *port, struct dpdk_port *p)
{
	const struct device *d = p->device;

	if (dpdk_hears(port, d)) {
		struct hearing_port *h = (struct hearing_port *)p;

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
	error = eal_start(port);
	if (error)
		return error;
	slot = device_slot(name);
	if (!slot)
		return port_fail(port, ENFILE, "more than %d devices", DEVICES_MAX);
	if (!*slot)
		error = device_open(port, slot, arguments, name);
	if (error || !*slot)
		return error;
	if ((*slot)->received_from & queues_read(port))
		return port_fail(port, EBUSY,
				 "%s is received from by another port, which reads all its queues",
				 name);
	if (port->config.sends && port->config.queue < DEVICE_QUEUES_MAX &&
	    ((*slot)->sent_to >> port->config.queue & 1))
		return port_fail(port, EBUSY, "queue %u of %s is sent to by another port",
				 port->config.queue, name);
	p = lines_alloc(1, dpdk_hears(port, *slot) ? sizeof(struct hearing_port) : sizeof(*p));
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
	p->device->received_from |= queues_read(port);
	p->device->sent_to |= (uint64_t)port->config.sends << port->config.queue;
	p->pool = p->device->pool;
	p->id = p->device->id;
	p->queue = (uint16_t)port->config.queue;
	p->queues = port->config.cores > 1 ? 1 : p->device->queues;
	p->next = port->config.cores > 1 ? p->queue : 0;
	port->priv = p;
	dpdk_offload(port, p);
	mode_write(port, p);
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

/*
 * The same of a device that completes checksums. The core writes IPv4 and UDP behind at most one
 * tag; anything else leaves as it is.
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
		/* That of a tunnel has no checksum. */
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

/* Whole, ours alone and of our pool: it goes back without a look at anything else. */
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

/* The same of a device that tells something of what it received. */
static uint32_t dpdk_rx_offloaded(struct port *port, struct frame *f, struct arrival *arrivals,
				  uint32_t n)
{
	struct hearing_port *h = port->priv;
	struct stamps *s = &h->stamps;
	const bool sums = h->port.device->checks_sums, stamps = s->clock != STAMPS_NONE;
	uint64_t now;

	/* Before frames are fetched, so that it delays none that is in hand. */
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

/* By now stamps may have come. */
static void dpdk_describe(struct port *port)
{
	mode_write(port, port->priv);
}

static void dpdk_stats(struct port *port, struct engine_stats *stats)
{
	struct dpdk_port *p = port->priv;
	struct rte_eth_stats found;

	*stats = (struct engine_stats){ .rx_invalid = p->invalid };
	/* Counters are the device's: one of its ports tells them, the first that is asked. */
	if (!p->device->teller)
		p->device->teller = port;
	if (p->device->teller != port || rte_eth_stats_get(p->id, &found))
		return;
	for (unsigned int i = 0; i < p->device->socket_count; i++)
		p->device->socket_drops += packet_socket_drops(p->device->sockets[i]);
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
	.describe = dpdk_describe,
	.stats = dpdk_stats,
	.close = dpdk_close,
};
