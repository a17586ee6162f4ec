/* SPDX-License-Identifier: Apache-2.0 */
#include "reflect.h"

#include "frames.h"

static void ports_swap(uint8_t *udp)
{
	uint16_t port = load16(udp);

	store16(udp, load16(udp + 2));
	store16(udp + 2, port);
}

/* Swaps source and destination. `ports`: also the ports; those of a tunnel stay, because both
 * directions use the same source port. */
static void ends_swap(uint8_t *d, uint32_t len, bool ports)
{
	uint8_t *ip = d + ETH_BYTES, mac[6];
	uint32_t address;

	memcpy(mac, d, 6);
	memcpy(d, d + 6, 6);
	memcpy(d + 6, mac, 6);
	if (load16(d + 12) == net16(0x8100))
		ip += VLAN_BYTES;
	if (load16(ip - 2) == net16(0x86dd) && len >= (uint32_t)(ip - d) + IP6_BYTES + UDP_BYTES) {
		uint8_t ip6[16];

		memcpy(ip6, ip + 8, 16);
		memcpy(ip + 8, ip + 24, 16);
		memcpy(ip + 24, ip6, 16);
		if (ports)
			ports_swap(ip + IP6_BYTES);
		return;
	}
	if (load16(ip - 2) != net16(0x0800) || len < (uint32_t)(ip - d) + IP_BYTES + UDP_BYTES)
		return;
	address = load32(ip + 12);
	store32(ip + 12, load32(ip + 16));
	store32(ip + 16, address);
	if (ports)
		ports_swap(ip + IP_BYTES);
}

void frame_reflect(struct frame *f)
{
	uint32_t inside;

	if (f->len < FRAME_MIN)
		return;
	inside = vxlan_bytes(f->data, f->len);
	ends_swap(f->data, f->len, !inside);
	if (unlikely(inside))
		ends_swap(f->data + inside, f->len - inside, true);
}
