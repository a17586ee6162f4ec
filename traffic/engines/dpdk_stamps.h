/* SPDX-License-Identifier: Apache-2.0 */
/* The times at which a device noted that frames arrived, as ticks of our clock. */
#ifndef SWITCHMARK_DPDK_STAMPS_H
#define SWITCHMARK_DPDK_STAMPS_H

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include "clock.h"
#include "inline.h"

#include <stdbool.h>
#include <stdlib.h>

/* The clock of a device's stamps. */
enum stamp_clock {
	STAMPS_NONE,
	STAMPS_DEVICE, /* what rte_eth_read_clock reads, if the first stamp is near to it */
	STAMPS_REALTIME, /* CLOCK_REALTIME, if the first stamp is near to it */
	STAMPS_REALTIME_US,
	STAMPS_STRANGE,
};

struct stamps {
	uint16_t id; /* of the device */
	enum stamp_clock clock;
	bool known; /* a stamp was near to that clock */
	int field; /* of an mbuf */
	uint64_t flag, second; /* ticks */
	struct clock_fit fit;
	/* Since then frames came with a possible stamp, or without one. */
	bool seen, missed;
};

void stamps_open(struct stamps *s, uint16_t id);

/* Notes what both clocks show, by the closest of a few readings. Returns false if the device's
 * clock cannot be read. */
bool stamps_pair(struct stamps *s);

/* Finds the clock of the first stamp: the one that it is within a second of. */
void stamps_recognise(struct stamps *s, uint64_t stamp);

/* Who noted the times, for the record. */
const char *stamps_describe(const struct stamps *s);

/* When a frame arrived, in ticks; 0 if its stamp does not say. */
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
	/* The stamp is the start of a microsecond: this is the middle. */
	if (s->clock == STAMPS_REALTIME_US)
		stamp = stamp * 1000 + 500;
	ticks = clock_fit_ticks(&s->fit, stamp);
	age = (int64_t)(now - ticks);
	/* The clock was set after this stamp. The fit may be off by some microseconds at first. */
	if (unlikely(age < -(int64_t)(s->second / 1000) || age > (int64_t)s->second * 10)) {
		s->missed = true;
		return 0;
	}
	s->seen = true;
	return age < 0 ? now : ticks;
}

#endif
