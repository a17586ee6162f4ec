/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP segmentation offload (GSO): consecutive frames with equal headers become one packet, which
 * costs the kernel one buffer and one pass through its stack. The sending device splits the packet
 * into the same frames. It writes their lengths and checksums, and for IPv4 it counts the
 * identification up from frame to frame.
 */
#ifndef SWITCHMARK_GSO_H
#define SWITCHMARK_GSO_H

#include "engine.h"

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

/*
 * Checks that the port's device splits packets: a device with tx-udp-segmentation passes them on
 * whole. Returns 0, or -errno with port->why. The caller is in the port's namespace.
 */
int gso_check_device(struct port *port);

#endif
