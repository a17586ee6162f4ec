/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When each frame of a phase is due, for a sender whose frames arrive one by one: evenly, as a
 * Poisson process, or in trains with silence between them. A phase has exactly as many frames as
 * its rate says; where they come is drawn from a seed.
 */
#ifndef SWITCHMARK_PACING_H
#define SWITCHMARK_PACING_H

#include <stdbool.h>
#include <stdint.h>

enum arrivals { ARRIVALS_BURST, ARRIVALS_EVEN, ARRIVALS_POISSON, ARRIVALS_ON_OFF };

#define ON_OFF_PEAK 4 /* times the mean rate, within a train */
#define ON_OFF_CYCLES 250 /* trains a second: one of 1 ms in 4 ms on average */

struct pacing {
	enum arrivals arrivals;
	uint64_t frames, next; /* of the phase, and the number of the one that is due next */
	double length; /* of the phase, ticks */
	double at; /* when that one is due, ticks after the start */
	double share; /* ARRIVALS_EVEN: how much later than others frames are due, in periods */
	uint64_t state; /* of what is drawn */
	/* ARRIVALS_ON_OFF */
	double step; /* between frames of a train */
	double silent; /* so far */
	uint64_t trains, train; /* and which of them is on */
	uint64_t train_end; /* the frame that the next train begins with */
};

/* Sets `p` to the first frame of a phase of so many frames and ticks; arrivals, share and state are
 * set by then. */
void pacing_begin(struct pacing *p, uint64_t frames, double length, double hz);

/* Goes on to the next frame. */
void pacing_next(struct pacing *p);

/* Goes on to the first frame that is due at `after` or later, in ticks after the start, however
 * many there are before it. Returns how many. */
uint64_t pacing_skip(struct pacing *p, uint64_t after);

#define PACING_OVER ((uint64_t)1 << 62) /* ticks, which no phase has */

/* Ticks after the start when the next frame is due; PACING_OVER after the last. */
static inline uint64_t pacing_due(const struct pacing *p)
{
	return p->next < p->frames ? (uint64_t)p->at : PACING_OVER;
}

#endif
