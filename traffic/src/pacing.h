/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes when each frame of a phase is due, for a sender that paces frames individually: evenly,
 * as a Poisson process, or in trains with silence between them. A phase has exactly the number of
 * frames that its rate requires; their times are drawn from a seed.
 */
#ifndef SWITCHMARK_PACING_H
#define SWITCHMARK_PACING_H

#include <stdbool.h>
#include <stdint.h>

enum arrivals { ARRIVALS_BURST, ARRIVALS_EVEN, ARRIVALS_POISSON, ARRIVALS_ON_OFF };

#define ON_OFF_PEAK 4 /* peak rate within a train, as a multiple of the mean rate */
#define ON_OFF_CYCLES 250 /* trains per second: 1 ms of every 4 ms on average */

struct pacing {
	enum arrivals arrivals;
	uint64_t frames, next; /* frames in the phase, and the number of the next one */
	double length; /* duration of the phase, ticks */
	double at; /* due time of the next frame, ticks after the start */
	/* ARRIVALS_EVEN: offset of the frames relative to other senders, in periods */
	double share;
	uint64_t state; /* of the random number generator */
	/* ARRIVALS_ON_OFF */
	double step; /* between frames of a train */
	double silent; /* total silence so far */
	uint64_t trains, train; /* number of trains, and the current one */
	uint64_t train_end; /* the first frame of the next train */
};

/* Sets `p` to the first frame of a phase of `frames` frames and `length` ticks. The caller sets
 * arrivals, share and state first. */
void pacing_begin(struct pacing *p, uint64_t frames, double length, double hz);

/* Advances to the next frame. */
void pacing_next(struct pacing *p);

/* Advances to the first frame that is due at `after` or later, in ticks after the start. Returns
 * the number of frames skipped. */
uint64_t pacing_skip(struct pacing *p, uint64_t after);

#define PACING_OVER ((uint64_t)1 << 62) /* ticks, longer than any phase */

/* Returns the due time of the next frame in ticks after the start; PACING_OVER after the last
 * frame. */
static inline uint64_t pacing_due(const struct pacing *p)
{
	return p->next < p->frames ? (uint64_t)p->at : PACING_OVER;
}

#endif
