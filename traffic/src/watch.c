/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"
#include "frames.h"
#include "socket.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* A ring, as the room of a socket's buffer is taken by whole frames: 26 of 9000 bytes fill that of
 * a user without privileges. */
enum {
	SLOT_BYTES = 256, /* the kernel's header and padding, at most 82, and WATCH_HEAD_BYTES */
	SLOTS = 8192,
	BLOCK_BYTES = 1 << 16,
	RING_BYTES = SLOT_BYTES * SLOTS,
};

_Static_assert(WATCH_HEAD_BYTES >= HEAD_BYTES, "headers are kept in part");

static bool watch_listen(struct watch *w, struct port *port)
{
	const struct tpacket_req request = {
		.tp_block_size = BLOCK_BYTES,
		.tp_block_nr = RING_BYTES / BLOCK_BYTES,
		.tp_frame_size = SLOT_BYTES,
		.tp_frame_nr = SLOTS,
	};
	void *ring;

	w->fd = packet_socket(port);
	if (w->fd < 0)
		return false;
	if (setsockopt(w->fd, SOL_PACKET, PACKET_VERSION, &(int){ TPACKET_V2 }, sizeof(int)) ||
	    setsockopt(w->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request))) {
		port_fail(port, errno, "PACKET_RX_RING: %s", strerror(errno));
		return false;
	}
	ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	if (ring == MAP_FAILED) {
		port_fail(port, errno, "cannot map the ring: %s", strerror(errno));
		return false;
	}
	w->ring = ring;
	return !packet_bind(port, w->fd, true);
}

bool watch_open(struct watch *w, const struct port *port)
{
	/* What fails here is no failure of the port. */
	struct port seen = { .config = port->config };
	int saved;

	*w = (struct watch){ .fd = -1 };
	if (!seen.config.ifname[0]) {
		snprintf(w->why, sizeof(w->why), "the port names no interface");
		return false;
	}
	saved = namespace_enter(&seen);
	if (saved >= -1 && watch_listen(w, &seen)) {
		namespace_leave(saved);
		return true;
	}
	namespace_leave(saved);
	watch_close(w);
	snprintf(w->why, sizeof(w->why), "%.*s", (int)sizeof(w->why) - 1, seen.why);
	return false;
}

uint64_t watch_read(struct watch *w, void (*each)(void *context, uint8_t *head, uint32_t len),
		    void *context)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint8_t *slot = w->ring + (size_t)i * SLOT_BYTES;
		struct tpacket2_hdr *h = (struct tpacket2_hdr *)slot;

		if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			break;
		/* The kernel has taken the tag out of a tagged frame: it is none of ours. */
		if (h->tp_snaplen >= FRAME_MIN && !(h->tp_status & TP_STATUS_VLAN_VALID))
			each(context, slot + h->tp_mac, h->tp_len);
	}
	return packet_socket_drops(w->fd);
}

void watch_close(struct watch *w)
{
	if (w->ring)
		munmap(w->ring, RING_BYTES);
	if (w->fd >= 0)
		close(w->fd);
	w->ring = NULL;
	w->fd = -1;
}
