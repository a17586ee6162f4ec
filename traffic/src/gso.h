/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP segmentation offload (GSO): consecutive frames with equal headers become one packet, which
 * costs the kernel one buffer and one pass through its stack. The sending device splits the packet
 * into the same frames. It writes their lengths and checksums, and for IPv4 it counts the
 * identification up from frame to frame.
 */
#ifndef SWITCHMARK_GSO_H
#define SWITCHMARK_GSO_H

#include "pool.h"

#include <linux/virtio_net.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5 /* Linux 6.2 */
#endif

/* The most frames of a packet: UDP_MAX_SEGMENTS of Linux 6.9, 64 before. */
#define GSO_FRAMES_MAX 128u
/* The longest packet, with the virtio header in front of it: its IP length has 16 bits. */
#define GSO_BYTES_MAX (sizeof(struct virtio_net_hdr) + 18 + 65535)

/* Returns how many of the first `n` frames form one packet. 1: the first frame has to be sent as it
 * is. Only whole UDP frames with a checksum and without a tunnel are joined. `n` is at least 1. */
uint32_t gso_count(const struct frame *f, uint32_t n);

/* Writes the packet of `n` frames, for which gso_count returned `n`, above 1. `out` has room for
 * GSO_BYTES_MAX. The packet starts with the virtio header that PACKET_VNET_HDR expects. Returns its
 * length. */
uint32_t gso_write(uint8_t *out, const struct frame *f, uint32_t n);

/* The properties of a device that packets pass. */
struct gso_device {
	/* A queue (qdisc) in front of the device drops a packet as a whole. A device without a
	 * queue may drop the last frame of a packet after it has sent those before it, which
	 * kernels before about 6.17 report as an error. */
	bool drops_frames;
	/* The frames of a packet refer to its memory until they are sent (tx-scatter-gather).
	 * Otherwise they are copies. */
	bool keeps_memory;
};

/*
 * Checks that the port's device splits packets: a device with tx-udp-segmentation passes them on
 * whole. Returns 0, or -errno with port->why. The caller is in the port's namespace.
 */
int gso_device_open(struct port *port, struct gso_device *device);

/*
 * Handles a failed send of a packet; `release` is the Linux that the engine needs. Returns true if
 * the packet must not be sent again, because the device has sent a part of it. The device counts the
 * frames that it dropped. Otherwise the caller handles errno.
 */
bool gso_failed(struct port *port, const struct gso_device *device, const char *release);

/*
 * The tx function of an engine that sends packets. `count` says how many of the first frames one
 * packet has; 1: the frame is sent as it is. `burst` sends frames as they are and returns how many
 * the kernel took; `packet` sends one packet and returns whether the kernel took it. Each packet has
 * a separate system call: if sendmmsg() stopped at a packet, it would not say whether a part of
 * that packet was sent.
 */
always_inline uint32_t gso_tx(struct port *port, struct frame *f, uint32_t n,
			      uint32_t (*count)(const struct port *, const struct frame *,
						uint32_t),
			      uint32_t (*burst)(struct port *, const struct frame *, uint32_t),
			      bool (*packet)(struct port *, const struct frame *, uint32_t))
{
	uint32_t done = 0;

	while (done < n) {
		uint32_t alone = 0, sent = 0, joined = 1;

		while (done + alone < n &&
		       (joined = count(port, f + done + alone, n - done - alone)) == 1)
			alone++;
		if (alone)
			sent = burst(port, f + done, alone);
		done += sent;
		if (sent < alone || done == n || !packet(port, f + done, joined))
			break;
		done += joined;
	}
	pool_give(f, done);
	return done;
}

#endif
