/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPDK devices. A port is one pair of queues of a device; ports that name the same device share it.
 * The first port opens the device, the last one closes it.
 */
#ifndef SWITCHMARK_DPDK_DEVICE_H
#define SWITCHMARK_DPDK_DEVICE_H

#include <rte_ethdev.h>
#include <rte_mempool.h>

#include "engine.h"

enum {
	DEVICE_QUEUES_MAX = 64, /* one bit per queue in sent_to */
	SOCKETS_MAX = 16, /* per device: one per queue */
};

struct device {
	char name[RTE_ETH_NAME_MAX_LEN];
	uint16_t id, queues, ports;
	/* Bit masks of the queues in use. Queues have no locks, so only one port may use a
	 * queue. */
	uint64_t sent_to;
	uint64_t received_from;
	bool errors_are_losses; /* oerrors counts frames that were taken but not sent */
	bool completes_sums, checks_sums; /* for UDP */
	bool stamps; /* the device timestamps received frames */
	/* where checksums are completed and verified, for the record */
	const char *sent_by, *checked_by;
	struct rte_device *bus_device;
	struct rte_mempool *pool;
	uint32_t room; /* room for a frame in an mbuf, in bytes */
	int sockets[SOCKETS_MAX]; /* of net_af_packet, which does not report their drops */
	unsigned int socket_count;
	uint64_t socket_drops;
	const struct port *reporter; /* reports the device's counters; NULL: no port yet */
};

/* The values of the options `offload` and `stamps`. */
extern const char *const device_offloads[], *const device_stamps[];

/* Finds or opens the device that the port names. Returns 0, or -errno with port->why. */
int device_take(struct port *port, struct device **device);

/* Closes a device without ports. */
void device_leave(struct device *d);

#endif
