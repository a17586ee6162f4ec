/* SPDX-License-Identifier: Apache-2.0 */
#include "pacing.h"

#include "subflows.h"

#include <math.h>

/* Above 0, up to 1. */
static double drawn(struct pacing *p)
{
	p->state += 0x9e3779b97f4a7c15u;
	return (double)((mixed(p->state) >> 11) + 1) * 0x1p-53;
}

/*
 * The next of `left` points that lie anywhere on the way from `at` to `end`, each place as likely
 * as the other: points of a Poisson process whose number is known lie so.
 */
static double next_point(struct pacing *p, double at, double end, uint64_t left)
{
	double part = -log(drawn(p)) / (double)left;

	/* 1 - exp(-part) */
	part = part < 1e-4 ? part - part * part / 2 : -expm1(-part);
	return at + (end - at) * part;
}

/* The train that comes next: when it begins, and with which frame it ends. One may have none. */
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
