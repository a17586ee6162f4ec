/* SPDX-License-Identifier: Apache-2.0 */
#include "template.h"

static void put16(uint8_t *at, uint16_t v)
{
	store16(at, net16(v));
}

static void put32(uint8_t *at, uint32_t v)
{
	store32(at, net32(v));
}

static void template_sum(struct frame_template *t)
{
	uint8_t *p = t->head + t->payload_at, *udp = p - UDP_BYTES;
	uint16_t checksum;

	store16(udp + 6, 0);
	/* pseudo header: both addresses, protocol, length */
	t->sum = checksum_add(udp - (t->v6 ? 32 : 8), t->v6 ? 32 : 8) + net16(17) + load16(udp + 4);
	if (t->device_sums) {
		store16(udp + 6, checksum_fold(t->sum));
		return;
	}
	t->sum += checksum_add(udp, UDP_BYTES + PAYLOAD_BYTES);
	checksum = (uint16_t)~checksum_fold(t->sum);
	store16(udp + 6, checksum ? checksum : 0xffff);
}

static void udp_make(struct frame_template *t, uint8_t *udp, const struct address *a, uint32_t len)
{
	put16(udp, a->src_port);
	put16(udp + 2, a->dst_port);
	put16(udp + 4, (uint16_t)len);
	t->payload_at = (uint8_t)(udp - t->head + UDP_BYTES);
}

/* Writes an IPv4 header for a UDP packet of `len` bytes, and the EtherType in front of it. */
static void ip4_make(uint8_t *ip, uint32_t src, uint32_t dst, uint8_t ttl, uint32_t len)
{
	put16(ip - 2, 0x0800);
	ip[0] = 0x45;
	put16(ip + 2, (uint16_t)len);
	put16(ip + 6, 0x4000); /* don't fragment */
	ip[8] = ttl;
	ip[9] = 17;
	put32(ip + 12, src);
	put32(ip + 16, dst);
	store16(ip + 10, (uint16_t)~checksum_fold(checksum_add(ip, IP_BYTES)));
}

/* The same for IPv6. */
static void ip6_make(uint8_t *ip, const uint8_t src[16], const uint8_t dst[16], uint8_t hops,
		     uint32_t len)
{
	put16(ip - 2, 0x86dd);
	ip[0] = 0x60;
	put16(ip + 4, (uint16_t)(len - IP6_BYTES));
	ip[6] = 17;
	ip[7] = hops;
	memcpy(ip + 8, src, 16);
	memcpy(ip + 24, dst, 16);
}

/* Writes the outer headers and the MACs of the inner frame. Returns the length of the outer
 * headers. */
static uint8_t vxlan_make(uint8_t *h, const struct address *a, uint8_t ttl, uint32_t len)
{
	uint8_t *ip = h + ETH_BYTES, *udp = ip + (a->v6 ? IP6_BYTES : IP_BYTES);
	uint8_t *tunnel = udp + UDP_BYTES, *inside = tunnel + 8;

	if (a->v6)
		ip6_make(ip, a->src_ip6, a->dst_ip6, ttl, len - ETH_BYTES);
	else
		ip4_make(ip, a->src_ip, a->dst_ip, ttl, len - ETH_BYTES);
	put16(udp, vxlan_port(a->src_port, a->dst_port));
	put16(udp + 2, VXLAN_PORT);
	put16(udp + 4, (uint16_t)(len - (uint32_t)(udp - h)));
	put32(tunnel, VXLAN_FLAGS);
	put32(tunnel + 4, a->vni << 8);
	memcpy(inside, a->inner_dst_mac, 6);
	memcpy(inside + 6, a->inner_src_mac, 6);
	return (uint8_t)(inside - h);
}

void template_make(struct frame_template *t, const struct address *a, uint32_t len, uint32_t run,
		   uint16_t flow, uint8_t phase, bool headless)
{
	const uint8_t ttl = a->ttl ? a->ttl : TTL_SENT;
	uint32_t ip_len, header;
	uint8_t *h = t->head, *ip;

	memset(t, 0, sizeof(*t));
	t->len = len;
	if (headless) {
		put32(h, run);
		put16(h + 4, (uint16_t)(phase << 14 | flow));
		return;
	}
	memcpy(h, a->dst_mac, 6);
	memcpy(h + 6, a->src_mac, 6);
	ip = h + ETH_BYTES;
	if (a->vlan) {
		put16(h + 12, 0x8100);
		put16(h + 14, a->vlan);
		ip += VLAN_BYTES;
	}
	if (a->vxlan) {
		t->tunnel_bytes = vxlan_make(h, a, ttl, len);
		ip += t->tunnel_bytes;
	}
	ip_len = len - (uint32_t)(ip - h);
	t->v6 = a->vxlan ? a->inner_v6 : a->v6;
	if (t->v6 && a->vxlan)
		ip6_make(ip, a->inner_src_ip6, a->inner_dst_ip6, TTL_SENT, ip_len);
	else if (t->v6)
		ip6_make(ip, a->src_ip6, a->dst_ip6, ttl, ip_len);
	else if (a->vxlan)
		ip4_make(ip, a->inner_src_ip, a->inner_dst_ip, TTL_SENT, ip_len);
	else
		ip4_make(ip, a->src_ip, a->dst_ip, ttl, ip_len);
	header = t->v6 ? IP6_BYTES : IP_BYTES;
	udp_make(t, ip + header, a, ip_len - header);
	template_set(t, run, flow, phase);
}

void template_leave_sum(struct frame_template *t)
{
	t->device_sums = true;
	template_sum(t);
}

void template_set(struct frame_template *t, uint32_t run, uint16_t flow, uint8_t phase)
{
	uint8_t *p = t->head + t->payload_at;

	put32(p, run);
	put16(p + 4, (uint16_t)(phase << 14 | flow));
	if (t->payload_at)
		template_sum(t);
}

void frame_prepare_tunnel(uint8_t *data, const struct frame_template *t, uint32_t head)
{
	memcpy(data + 80, t->head + 80, head - 80);
}
