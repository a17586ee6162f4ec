/* SPDX-License-Identifier: Apache-2.0 */
#include "predict.h"

void flow_headers_note(struct flow_headers *h, const uint8_t *data, uint32_t len, uint32_t flow)
{
	const uint8_t *p = data + PAYLOAD_AT;

	*h = (struct flow_headers){ 0 };
	if (len < FRAME_MIN || load16(data + 12) != net16(0x0800) || data[ETH_BYTES] != 0x45 ||
	    load16(p - 6) == net16(VXLAN_PORT))
		return;
	for (uint32_t i = 0; i < 4; i++)
		h->head[i] = load64(data + (i < 3 ? 12 + 8 * i : 32));
	h->payload = load64(p);
	/* Pseudo header, UDP header without the checksum, and payload up to the sequence number. */
	h->sum = checksum_fold((uint64_t)load32(p - 16) + load32(p - 12) + net16(17) +
			       load16(p - 4) + load32(p - 8) + load16(p - 4) + load32(p) +
			       load16(p + 4));
	h->len = len;
	h->flow = flow;
}
