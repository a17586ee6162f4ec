/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time by the cycle counter. All parts of a trial on one kernel are given the same `struct
 * clock`, so that their nanoseconds are the same to the tick, and one-way latency has no
 * error of calibration.
 */
#ifndef SWITCHMARK_CLOCK_H
#define SWITCHMARK_CLOCK_H

#include <stdint.h>
#include <time.h>

struct clock {
	uint64_t ticks0, ns0; /* one moment in both counts; ns of CLOCK_MONOTONIC */
	uint64_t hz; /* ticks a second */
	uint64_t ns_per_tick; /* 32.32 fixed point */
};

static inline uint64_t clock_shown_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_monotonic_ns(void)
{
	return clock_shown_ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return clock_monotonic_ns();
#endif
}

static inline uint64_t clock_ns(const struct clock *c, uint64_t ticks)
{
	__int128 since = (__int128)ticks - (__int128)c->ticks0;

	return c->ns0 + (uint64_t)((since * (__int128)c->ns_per_tick) >> 32);
}

static inline uint64_t clock_at(const struct clock *c, uint64_t ns)
{
	__int128 since = (__int128)ns - (__int128)c->ns0;

	return c->ticks0 + (uint64_t)(since * (__int128)c->hz / 1000000000);
}

/* As many nanoseconds as so many ticks take. */
static inline uint64_t clock_ns_in(const struct clock *c, uint64_t ticks)
{
	return (uint64_t)(((unsigned __int128)ticks * c->ns_per_tick) >> 32);
}

/* As many ticks as so many nanoseconds take. */
static inline uint64_t clock_ticks_in(const struct clock *c, uint64_t ns)
{
	return (uint64_t)((unsigned __int128)ns * c->hz / 1000000000);
}

/*
 * Another clock beside the counter, by pairs of what both show in one moment. Its rate is that of
 * the last one to two seconds, its place that of the last pair.
 */
struct clock_fit {
	uint64_t first, first_ticks, last, last_ticks;
	uint64_t middle, middle_ticks; /* where the rate begins once that is a second ago */
	uint64_t kept_until; /* ticks: so long the rate is that of before */
	double ticks_per_unit; /* 0: fewer than two pairs are known */
};

/* Adds a pair; a second has so many ticks. A clock that was set meanwhile, or was not read for a
 * tenth of a second, keeps its rate and gets its new place: a step in a pause must not pass for
 * drift. */
void clock_fit_add(struct clock_fit *f, uint64_t at, uint64_t ticks, double second);

/* The counter at a moment of the other clock, near the last pair. */
static inline uint64_t clock_fit_ticks(const struct clock_fit *f, uint64_t at)
{
	return f->last_ticks +
	       (uint64_t)(int64_t)((double)(int64_t)(at - f->last) * f->ticks_per_unit);
}

/*
 * CLOCK_REALTIME beside the counter: the kernel stamps by it. It is read anew every 10 ms, as it
 * may be slewed; of a step of it the fit forgets what was before.
 */
struct clock_real {
	struct clock_fit fit;
	uint64_t pause; /* ticks until it is to be read again; 0 while it has no rate */
};

/* Reads both clocks now. */
void clock_real_read(struct clock_real *r);

/* The same if it is time. */
static inline void clock_real_keep(struct clock_real *r)
{
	if (__builtin_expect(clock_ticks() - r->fit.last_ticks > r->pause, 0))
		clock_real_read(r);
}

/* The counter when the kernel's clock showed so many nanoseconds, lately and not after `now`; 0 if
 * that cannot be told. */
static inline uint64_t clock_real_ticks(const struct clock_real *r, uint64_t ns, uint64_t now)
{
	const uint64_t ticks = clock_fit_ticks(&r->fit, ns);
	const int64_t age = (int64_t)(now - ticks);

	/* A stamp from before the clock was set is of no moment that we know. */
	if (!(r->fit.ticks_per_unit > 0) || age > (int64_t)(1000 * r->pause) ||
	    age < -(int64_t)r->pause)
		return 0;
	return age < 0 ? now : ticks;
}

/* Notes when this process began, from where the counter is measured. */
void clock_begin(void);

/* Measures the counter against CLOCK_MONOTONIC, since clock_begin(), once that is `ms`
 * milliseconds ago: it waits for what lacks of them. */
void clock_measure(struct clock *c, unsigned ms);

/* Fills in what is derived from the first three members. */
void clock_derive(struct clock *c);

#endif
