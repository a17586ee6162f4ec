/* SPDX-License-Identifier: Apache-2.0 */
#include "pacing.h"

#include "subflows.h"

#include <math.h>

/* Returns a random number above 0, up to 1. */
static double drawn(struct pacing *p)
{
	p->state += 0x9e3779b97f4a7c15u;
	return (double)((mix64(p->state) >> 11) + 1) * 0x1p-53;
}

/*
 * Returns the next of `left` points with a uniform distribution between `at` and `end`: a Poisson
 * process with a known number of points has this distribution.
 */
static double next_point(struct pacing *p, double at, double end, uint64_t left)
{
	double part = -log(drawn(p)) / (double)left;

	/* 1 - exp(-part) */
	part = part < 1e-4 ? part - part * part / 2 : -expm1(-part);
	return at + (end - at) * part;
}

/* Computes the start of the next train, and the frame after its last one. A train may be empty. */
static void next_train(struct pacing *p)
{
	const double silence = p->length - (double)p->frames * p->step;

	while (p->train < p->trains && p->next == p->train_end) {
		const uint64_t left = p->trains - p->train++;

		p->silent = next_point(p, p->silent, silence, left);
		p->train_end = left == 1 ? p->frames :
					   (uint64_t)next_point(p, (double)p->train_end,
								(double)p->frames, left - 1);
	}
}

static void place(struct pacing *p)
{
	switch (p->arrivals) {
	case ARRIVALS_BURST:
	case ARRIVALS_EVEN:
		p->at = ((double)p->next + p->share) * p->step;
		break;
	case ARRIVALS_POISSON:
		p->at = next_point(p, p->at, p->length, p->frames - p->next);
		break;
	case ARRIVALS_ON_OFF:
		next_train(p);
		p->at = p->silent + (double)p->next * p->step;
		break;
	}
}

void pacing_begin(struct pacing *p, uint64_t frames, double length, double hz)
{
	p->frames = frames;
	p->length = length;
	p->next = p->train = p->train_end = 0;
	p->at = p->silent = 0;
	p->step = frames ? length / (double)frames : 0;
	if (p->arrivals == ARRIVALS_ON_OFF) {
		p->step /= ON_OFF_PEAK;
		p->trains = (uint64_t)(length / hz * ON_OFF_CYCLES) + 1;
	}
	if (frames)
		place(p);
}

void pacing_next(struct pacing *p)
{
	if (++p->next < p->frames)
		place(p);
}

/* Advances to frame `number`, whose time does not depend on the frames before it. */
static void go_to(struct pacing *p, double number, uint64_t last)
{
	const uint64_t to = number < (double)last ? (uint64_t)(number > 0 ? number : 0) : last;

	p->next = to > p->next ? to : p->next + 1;
	if (p->next < p->frames)
		place(p);
}

#define DRAWN_SINGLY 10000 /* points that can be drawn individually in negligible time */

/* Returns how many of `points` random points lie in the first `part`. A large number is drawn from
 * the normal approximation of the binomial distribution; for a small one the result is 0, and the
 * points are drawn individually. */
static uint64_t points_within(struct pacing *p, uint64_t points, double part)
{
	const double mean = (double)points * part, spread = sqrt(mean * (1 - part));
	double found;

	if (mean < DRAWN_SINGLY)
		return 0;
	/* Box and Muller 1958 */
	found = mean + spread * sqrt(-2 * log(drawn(p))) * cos(2 * M_PI * drawn(p));
	return found >= (double)points ? points : found > 0 ? (uint64_t)found : 0;
}

uint64_t pacing_skip(struct pacing *p, uint64_t after)
{
	const uint64_t first = p->next;
	const double to = (double)after;

	while (pacing_due(p) < after) {
		if (to >= p->length) {
			p->next = p->frames;
		} else if (p->arrivals == ARRIVALS_POISSON) {
			const uint64_t left = p->frames - p->next - 1;
			const uint64_t within =
				points_within(p, left, (to - p->at) / (p->length - p->at));

			p->next += within;
			p->at = within ? to : p->at;
			pacing_next(p);
		} else if (p->arrivals == ARRIVALS_ON_OFF) {
			go_to(p, (to - p->silent) / p->step, p->train_end);
		} else {
			go_to(p, to / p->step - p->share, p->frames);
		}
	}
	return p->next - first;
}
