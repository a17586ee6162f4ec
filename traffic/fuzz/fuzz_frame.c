/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: frame_parse never reads beyond the given bytes; a built frame is parsed into the
 * values it was built from, and every change of a single payload bit is detected.
 */
#include "input.h"
#include "judge.h"
#include "reflect.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_RUN = 0x5357424d };

static void parse_anything(const uint8_t *data, size_t size)
{
	/* Exactly as long as the frame, so that the sanitizer detects an overrun. */
	uint8_t *copy = malloc(size + !size);
	struct frame f = { .data = copy, .len = (uint32_t)size };

	MUST(copy);
	for (int headless = 0; headless < 2; headless++) {
		for (int touch = TOUCH_NONE; touch <= TOUCH_FULL; touch++) {
			struct payload out = { 0 };

			memcpy(copy, data, size);
			(void)frame_parse(copy, (uint32_t)size, FUZZ_RUN, &out, (enum touch)touch,
					  headless);
			/* With the run id in place the parser goes further: a tag, a tunnel. */
			for (size_t at = headless ? 0 : 42; at + 4 <= size && at <= 46; at += 4)
				store32(copy + at, net32(FUZZ_RUN));
			for (int kind = 0; size && !headless && data[size - 1] & 1 && kind < 4;
			     kind++) {
				const size_t in = (kind & 1 ? VXLAN6_BYTES : VXLAN_BYTES) +
						  (kind & 2 ? 62 : 42);

				if (size >= in + 4)
					store32(copy + in, net32(FUZZ_RUN));
			}
			(void)frame_parse(copy, (uint32_t)size, FUZZ_RUN, &out, (enum touch)touch,
					  headless);
		}
	}
	frame_reflect(&f);
	free(copy);
}

static void build_and_parse(struct input *in)
{
	const uint8_t flags = (uint8_t)take(in, 1);
	const bool headless = flags & 1;
	const enum touch touch = (enum touch)(1 + ((flags >> 1) & 1));
	const uint16_t vlan = flags & 4 ? (uint16_t)(1 + take(in, 2) % 4094) : 0;
	struct address a = { .vlan = vlan,
			     .v6 = flags & 16,
			     .vxlan = !vlan && flags & 8,
			     .inner_v6 = !vlan && (flags & 40) == 40 };
	const uint32_t least = headless ? PAYLOAD_BYTES : frame_least(&a);
	const uint32_t len = least + (uint32_t)take(in, 2) % (FRAME_BYTES_MAX - least);
	/* No run id equals the first word of a VXLAN header. */
	const uint32_t run = (uint32_t)take(in, 4) | 1u << 28, seq = (uint32_t)take(in, 4);
	const uint16_t flow = take(in, 2) % FLOW_MAX;
	const uint8_t phase = (uint8_t)(take(in, 1) % PHASE_ANNOUNCE);
	const uint64_t time = take(in, 8), time_net = time_to_net(time);
	struct payload out = { 0 };
	struct frame_template t;
	uint8_t *copy = malloc(len);
	struct frame f = { .data = copy, .len = len };
	uint32_t at, bit;

	MUST(copy);
	for (int i = 0; i < 6; i++) {
		a.src_mac[i] = (uint8_t)take(in, 1);
		a.dst_mac[i] = (uint8_t)take(in, 1);
	}
	a.src_ip = (uint32_t)take(in, 4);
	a.dst_ip = (uint32_t)take(in, 4);
	for (int i = 0; i < 16; i++) {
		a.src_ip6[i] = a.inner_dst_ip6[i] = (uint8_t)take(in, 1);
		a.dst_ip6[i] = a.inner_src_ip6[i] = (uint8_t)take(in, 1);
	}
	a.src_port = (uint16_t)take(in, 2);
	a.dst_port = (uint16_t)take(in, 2);
	a.vni = (uint32_t)take(in, 2);
	memset(copy, 0xa5, len);
	template_make(&t, &a, len, run, flow, phase, headless);
	frame_build(copy, &t, seq, time_net, time_sum(time_net), touch, headless, false);
	for (int reflected = 0; reflected < 2; reflected++) {
		MUST(frame_parse(copy, len, run, &out, touch, headless) == FRAME_OURS);
		MUST(out.run == run && out.flow == flow && out.phase == phase && out.seq == seq &&
		     out.time_ns == time);
		if (!headless)
			frame_reflect(&f);
	}
	/* A frame of another run is foreign, and a changed frame is corrupt or foreign. */
	MUST(frame_parse(copy, len, run ^ 1, &out, touch, headless) == FRAME_FOREIGN);
	if (!headless) {
		at = t.payload_at +
		     (uint32_t)take(in, 2) %
			     (touch == TOUCH_FULL ? len - t.payload_at : PAYLOAD_BYTES);
		bit = 1u << (take(in, 1) & 7);
		copy[at] ^= (uint8_t)bit;
		MUST(frame_parse(copy, len, run, &out, touch, headless) != FRAME_OURS);
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (size > FRAME_BYTES_MAX)
		return 0;
	parse_anything(data, size);
	build_and_parse(&in);
	return 0;
}
