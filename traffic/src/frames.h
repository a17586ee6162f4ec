/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of test frames: Ethernet, an optional 802.1Q tag, IPv4 or IPv6, UDP and our payload of
 * 18 bytes in network order. In a tunnel (VXLAN, RFC 7348) the whole frame follows an outer
 * Ethernet header, IPv4 or IPv6, UDP without a checksum (over IPv6 as RFC 6935 allows) and the
 * VXLAN header. The payload:
 *
 *     0  run     u32   the trial's run id; a frame of another run is foreign. Never VXLAN_FLAGS
 *     4  flow    u16   the phase in the two upper bits, the flow number below
 *     6  seq     u32   counts from 0 in each flow and phase
 *    10  time    u64   the time at which the frame is due, nanoseconds
 *
 * The rest of a frame is zero, or with touch `full` a pattern derived from the sequence number. The
 * UDP checksum is always correct: it detects corruption.
 */
#ifndef SWITCHMARK_FRAMES_H
#define SWITCHMARK_FRAMES_H

#include "bytes.h"

#define ETH_BYTES 14
#define VLAN_BYTES 4
#define IP_BYTES 20
#define IP6_BYTES 40
#define UDP_BYTES 8
#define VXLAN_BYTES 50 /* in front of the inner frame, over IPv4 */
#define VXLAN6_BYTES (VXLAN_BYTES + IP6_BYTES - IP_BYTES) /* the same over IPv6 */
#define VXLAN_PORT 4789
#define VXLAN_FLAGS 0x08000000 /* the first word of a VXLAN header, at the place of a run id */
#define PAYLOAD_BYTES 18
#define PAYLOAD_AT (ETH_BYTES + IP_BYTES + UDP_BYTES) /* in an IPv4 frame without a tag */
#define TTL_SENT 64
#define FRAME_MIN 60 /* without the FCS */
#define FLOW_MAX 16384
#define HEAD_BYTES 150 /* room for all headers and the payload */

enum touch { TOUCH_NONE, TOUCH_HEADER, TOUCH_FULL };
enum phase { PHASE_WARMUP, PHASE_MEASURED, PHASE_ANNOUNCE };

/* Returns the outer source port of a VXLAN frame, derived from the inner ports as RFC 7348
 * recommends. The reply has the same port. */
always_inline uint16_t vxlan_port(uint16_t src_port, uint16_t dst_port)
{
	return 0xc000 | ((src_port + dst_port) & 0x3fff);
}

/* Returns the number of bytes in front of the inner frame of a VXLAN frame, if the inner frame can
 * be a test frame. Returns 0 for a frame without a tunnel. */
static inline uint32_t vxlan_bytes(const uint8_t *data, uint32_t len)
{
	const uint8_t *ip = data + ETH_BYTES;

	if (len >= VXLAN_BYTES + FRAME_MIN && load16(ip - 2) == net16(0x0800) && ip[0] == 0x45 &&
	    ip[9] == 17 && load16(ip + IP_BYTES + 2) == net16(VXLAN_PORT))
		return VXLAN_BYTES;
	if (len >= VXLAN6_BYTES + FRAME_MIN && load16(ip - 2) == net16(0x86dd) && ip[0] >> 4 == 6 &&
	    ip[6] == 17 && load16(ip + IP6_BYTES + 2) == net16(VXLAN_PORT))
		return VXLAN6_BYTES;
	return 0;
}

#endif
