/* SPDX-License-Identifier: Apache-2.0 */
/* Arrival timestamps of a device, converted to ticks of our clock. */
#ifndef SWITCHMARK_DPDK_STAMPS_H
#define SWITCHMARK_DPDK_STAMPS_H

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include "clock.h"
#include "inline.h"

#include <stdbool.h>
#include <stdlib.h>

/* The clock of a device's timestamps. */
enum stamp_clock {
	STAMPS_NONE,
	STAMPS_DEVICE, /* the clock of rte_eth_read_clock, if the first timestamp is near it */
	STAMPS_REALTIME, /* CLOCK_REALTIME, if the first timestamp is near it */
	STAMPS_REALTIME_US,
	STAMPS_STRANGE,
};

struct stamps {
	uint16_t id; /* of the device */
	enum stamp_clock clock;
	bool known; /* a timestamp was near that clock */
	int field; /* offset in an mbuf */
	uint64_t flag, second; /* ticks */
	struct clock_fit fit;
	/* Frames with a plausible timestamp, or without one, have arrived. */
	bool seen, missed;
};

void stamps_open(struct stamps *s, uint16_t id);

/* Reads both clocks and keeps the tightest of a few pairs. Returns false if the device's clock
 * cannot be read. */
bool stamps_pair(struct stamps *s);

/* Identifies the clock of the first timestamp: the one within a second of it. */
void stamps_recognise(struct stamps *s, uint64_t stamp);

/* Returns the source of the timestamps, for the record. */
const char *stamps_describe(const struct stamps *s);

/* Returns the arrival time of a frame in ticks; 0 if its timestamp is unusable. */
static inline uint64_t stamps_read(struct stamps *s, const struct rte_mbuf *m, uint64_t now)
{
	uint64_t stamp, ticks;
	int64_t age;

	if (!(m->ol_flags & s->flag)) {
		s->missed |= s->known;
		return 0;
	}
	stamp = *RTE_MBUF_DYNFIELD(m, s->field, rte_mbuf_timestamp_t *);
	if (unlikely(!s->known)) {
		if (!(s->fit.ticks_per_unit > 0))
			return 0;
		stamps_recognise(s, stamp);
	}
	if (!s->known || s->clock == STAMPS_STRANGE)
		return 0;
	/* The timestamp is the start of a microsecond: use the middle. */
	if (s->clock == STAMPS_REALTIME_US)
		stamp = stamp * 1000 + 500;
	ticks = clock_fit_ticks(&s->fit, stamp);
	age = (int64_t)(now - ticks);
	/* The clock was set after this timestamp. The fit may be off by some microseconds at
	 * first. */
	if (unlikely(age < -(int64_t)(s->second / 1000) || age > (int64_t)s->second * 10)) {
		s->missed = true;
		return 0;
	}
	s->seen = true;
	return age < 0 ? now : ticks;
}

#endif
