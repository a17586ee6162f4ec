/* SPDX-License-Identifier: Apache-2.0 */
#include "header_tap.h"
#include "frames.h"
#include "socket.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* A ring, because a socket buffer would keep whole frames: 26 frames of 9000 bytes fill the buffer
 * of an unprivileged user. */
enum {
	SLOT_BYTES = 256, /* TAP_HEAD_BYTES plus the kernel's header and padding, at most 82 */
	SLOTS = 8192,
	BLOCK_BYTES = 1 << 16,
	RING_BYTES = SLOT_BYTES * SLOTS,
};

_Static_assert(TAP_HEAD_BYTES >= HEAD_BYTES, "headers are kept in part");

static bool header_tap_listen(struct header_tap *t, struct port *port)
{
	const struct tpacket_req request = {
		.tp_block_size = BLOCK_BYTES,
		.tp_block_nr = RING_BYTES / BLOCK_BYTES,
		.tp_frame_size = SLOT_BYTES,
		.tp_frame_nr = SLOTS,
	};
	void *ring;

	t->fd = packet_socket(port);
	if (t->fd < 0)
		return false;
	if (setsockopt(t->fd, SOL_PACKET, PACKET_VERSION, &(int){ TPACKET_V2 }, sizeof(int)) ||
	    setsockopt(t->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request))) {
		port_fail(port, errno, "PACKET_RX_RING: %s", strerror(errno));
		return false;
	}
	ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (ring == MAP_FAILED) {
		port_fail(port, errno, "cannot map the ring: %s", strerror(errno));
		return false;
	}
	t->ring = ring;
	return !packet_bind(port, t->fd, true);
}

bool header_tap_open(struct header_tap *t, const struct port *port)
{
	/* A copy, so that a failure here does not fail the port. */
	struct port seen = { .config = port->config };
	int saved;

	*t = (struct header_tap){ .fd = -1 };
	if (!seen.config.ifname[0]) {
		snprintf(t->why, sizeof(t->why), "the port names no interface");
		return false;
	}
	saved = namespace_enter(&seen);
	if (saved >= -1 && header_tap_listen(t, &seen)) {
		namespace_leave(saved);
		return true;
	}
	namespace_leave(saved);
	header_tap_close(t);
	snprintf(t->why, sizeof(t->why), "%.*s", (int)sizeof(t->why) - 1, seen.why);
	return false;
}

uint64_t header_tap_read(struct header_tap *t,
			 void (*handle)(void *context, uint8_t *head, uint32_t len), void *context)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint8_t *slot = t->ring + (size_t)i * SLOT_BYTES;
		struct tpacket2_hdr *h = (struct tpacket2_hdr *)slot;

		if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			break;
		/* The kernel has removed a tag: not the frame of a payload engine. */
		if (h->tp_snaplen >= FRAME_MIN && !(h->tp_status & TP_STATUS_VLAN_VALID))
			handle(context, slot + h->tp_mac, h->tp_len);
	}
	return packet_socket_drops(t->fd);
}

void header_tap_close(struct header_tap *t)
{
	if (t->ring)
		munmap(t->ring, RING_BYTES);
	if (t->fd >= 0)
		close(t->fd);
	t->ring = NULL;
	t->fd = -1;
}
