/* SPDX-License-Identifier: Apache-2.0 */
#define ALLOW_EXPERIMENTAL_API /* rte_eth_read_clock, since 19.05 */
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>
#include <time.h>

/* After DPDK's headers, which use an attribute with the same name as our macro always_inline. */
#include "dpdk_stamps.h"

static bool stamps_clock(const struct stamps *s, uint64_t *at)
{
	struct timespec now;

	if (s->clock == STAMPS_DEVICE)
		return !rte_eth_read_clock(s->id, at);
	clock_gettime(CLOCK_REALTIME, &now);
	*at = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return true;
}

bool stamps_pair(struct stamps *s)
{
	uint64_t best = UINT64_MAX, at = 0, ticks = 0;

	for (int i = 0; i < 4; i++) {
		uint64_t before = clock_ticks(), shown, width;

		if (!stamps_clock(s, &shown))
			return false;
		width = clock_ticks() - before;
		if (width < best) {
			best = width;
			at = shown;
			ticks = before + width / 2;
		}
	}
	clock_fit_add(&s->fit, at, ticks, (double)s->second);
	return true;
}

void stamps_open(struct stamps *s, uint16_t id)
{
	int flag = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_RX_TIMESTAMP_NAME, NULL);

	s->field = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, NULL);
	if (flag < 0 || s->field < 0)
		return;
	s->id = id;
	s->flag = 1ull << flag;
	s->second = rte_get_tsc_hz();
	s->clock = STAMPS_DEVICE;
	if (!stamps_pair(s)) {
		s->clock = STAMPS_REALTIME;
		stamps_pair(s);
	}
}

void stamps_recognise(struct stamps *s, uint64_t stamp)
{
	uint64_t now;

	if (s->clock == STAMPS_DEVICE) {
		int64_t off = (int64_t)(clock_ticks() - clock_fit_ticks(&s->fit, stamp));

		s->known = (uint64_t)llabs(off) < s->second;
		if (!s->known) {
			s->fit = (struct clock_fit){ 0 };
			s->clock = STAMPS_REALTIME;
			stamps_pair(s);
		}
		return;
	}
	stamps_clock(s, &now);
	s->known = true;
	if (llabs((int64_t)(now - stamp)) < 1000000000)
		return;
	s->clock = stamp < UINT64_MAX / 1000 && llabs((int64_t)(now - stamp * 1000)) < 1000000000 ?
			   STAMPS_REALTIME_US :
			   STAMPS_STRANGE;
}

const char *stamps_describe(const struct stamps *s)
{
	if (s->clock == STAMPS_NONE)
		return "software";
	if (s->clock == STAMPS_STRANGE)
		return "software (no clock is known that the device's stamps are of)";
	if (!s->known || !s->seen)
		return "software (no stamp came yet)";
	if (s->missed)
		return "device and software (some frames had no stamp)";
	return s->clock == STAMPS_DEVICE   ? "device" :
	       s->clock == STAMPS_REALTIME ? "device (CLOCK_REALTIME)" :
					     "device (CLOCK_REALTIME, microseconds)";
}
