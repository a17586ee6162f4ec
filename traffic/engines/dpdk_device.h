/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of DPDK. A port is one pair of queues of a device; ports that name the same device share
 * it. The first port opens the device, the last one closes it.
 */
#ifndef SWITCHMARK_DPDK_DEVICE_H
#define SWITCHMARK_DPDK_DEVICE_H

#include <rte_ethdev.h>
#include <rte_mempool.h>

#include "engine.h"

enum {
	DEVICE_QUEUES_MAX = 64, /* a bit each in sent_to */
	SOCKETS_MAX = 16, /* of a device: one for each of its queues */
};

struct device {
	char name[RTE_ETH_NAME_MAX_LEN];
	uint16_t id, queues, ports;
	/* The queues that a port sends to and receives from. A queue has no lock, so only one
	 * port uses it. */
	uint64_t sent_to;
	uint64_t received_from;
	bool errors_are_losses; /* oerrors counts frames that were taken and did not leave */
	bool completes_sums, checks_sums; /* of UDP */
	bool stamps; /* it notes when frames arrive */
	const char *sent_by, *checked_by; /* who completes and checks checksums, for the record */
	struct rte_device *bus_device;
	struct rte_mempool *pool;
	uint32_t room; /* bytes of a frame that an mbuf has room for */
	int sockets[SOCKETS_MAX]; /* net_af_packet's own, as it does not report their drops */
	unsigned int socket_count;
	uint64_t socket_drops;
	const struct port *reporter; /* of the device's counters; NULL: none yet */
};

/* The choices of the option `offload`. */
extern const char *const device_offloads[];

/* Finds the device that the port names, or opens it. 0, or -errno with port->why. */
int device_take(struct port *port, struct device **device);

/* Closes a device that has no port. */
void device_leave(struct device *d);

#endif
