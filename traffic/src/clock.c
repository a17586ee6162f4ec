/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

static uint64_t first_ticks, first_ns; /* read together at the start of the process */

/* Takes the tightest of `readings` pairs: ticks and nanoseconds of the same moment. */
static void clock_pair_of(clockid_t clock, int readings, uint64_t *ticks, uint64_t *ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < readings; i++) {
		uint64_t before = clock_ticks(), at = clock_shown_ns(clock), after = clock_ticks();

		if (after - before < best) {
			best = after - before;
			*ticks = before + (after - before) / 2;
			*ns = at;
		}
	}
}

static void clock_pair(uint64_t *ticks, uint64_t *ns)
{
	clock_pair_of(CLOCK_MONOTONIC, 16, ticks, ns);
}

uint64_t clock_ahead_ns(const struct clock *c)
{
	uint64_t ticks = 0, ns = 0;

	clock_pair_of(CLOCK_MONOTONIC, 4, &ticks, &ns);
	return clock_ns(c, ticks) - ns;
}

void clock_derive(struct clock *c)
{
	c->ns_per_tick = (uint64_t)((((__int128)1000000000 << 32) + c->hz / 2) / c->hz);
}

void clock_begin(void)
{
	clock_pair(&first_ticks, &first_ns);
}

void clock_measure(struct clock *c, unsigned ms)
{
	uint64_t until;

	if (!first_ns)
		clock_begin();
	until = first_ns + (uint64_t)ms * 1000000;
	for (uint64_t now; (now = clock_monotonic_ns()) < until;) {
		struct timespec wait = { .tv_nsec = (long)(until - now) };

		nanosleep(&wait, NULL);
	}
	clock_pair(&c->ticks0, &c->ns0);
	c->hz = (uint64_t)((__int128)(c->ticks0 - first_ticks) * 1000000000 /
			   (__int128)(c->ns0 - first_ns));
	clock_derive(c);
}

void clock_real_read(struct clock_real *r)
{
	uint64_t ticks = 0, ns = 0;

	clock_pair_of(CLOCK_REALTIME, 4, &ticks, &ns);
	/* A rate from readings less than 10 ms apart has an error of more than a hundred
	 * nanoseconds per 10 ms. */
	if (r->fit.last_ticks && ns - r->fit.first < 10000000)
		return;
	clock_fit_add(&r->fit, ns, ticks, r->fit.ticks_per_unit * 1e9);
	r->pause = (uint64_t)(r->fit.ticks_per_unit * 1e7);
}

static void clock_fit_begin(struct clock_fit *f, uint64_t at, uint64_t ticks)
{
	f->first = f->middle = at;
	f->first_ticks = f->middle_ticks = ticks;
}

void clock_fit_add(struct clock_fit *f, uint64_t at, uint64_t ticks, double second)
{
	const double since = (double)(int64_t)(ticks - f->last_ticks);

	if (f->ticks_per_unit > 0) {
		double off = (double)(int64_t)(clock_fit_ticks(f, at) - ticks);

		/* A maintained clock does not drift by more than 1 in 1000, and a larger deviation
		 * is a step. */
		if (off > since / 1000 || off < -since / 1000 || since > second / 10) {
			clock_fit_begin(f, at, ticks);
			f->kept_until = ticks + (uint64_t)(second / 10);
		}
	} else if (!f->last_ticks) {
		clock_fit_begin(f, at, ticks);
	}
	f->last = at;
	f->last_ticks = ticks;
	if ((double)(ticks - f->middle_ticks) > second) {
		f->first = f->middle;
		f->first_ticks = f->middle_ticks;
		f->middle = at;
		f->middle_ticks = ticks;
	}
	if (at > f->first && ticks >= f->kept_until)
		f->ticks_per_unit = (double)(ticks - f->first_ticks) / (double)(at - f->first);
}
