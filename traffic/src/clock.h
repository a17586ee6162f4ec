/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time by the cycle counter. All processes of a trial on one kernel use the same `struct clock`, so
 * their nanoseconds agree to the tick and one-way latency has no calibration error.
 */
#ifndef SWITCHMARK_CLOCK_H
#define SWITCHMARK_CLOCK_H

#include <stdint.h>
#include <time.h>

struct clock {
	uint64_t ticks0, ns0; /* the same moment in both counts; ns of CLOCK_MONOTONIC */
	uint64_t hz; /* ticks per second */
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

/* Converts a duration in ticks to nanoseconds. */
static inline uint64_t clock_ns_in(const struct clock *c, uint64_t ticks)
{
	return (uint64_t)(((unsigned __int128)ticks * c->ns_per_tick) >> 32);
}

/* Converts a duration in nanoseconds to ticks. */
static inline uint64_t clock_ticks_in(const struct clock *c, uint64_t ns)
{
	return (uint64_t)((unsigned __int128)ns * c->hz / 1000000000);
}

/*
 * Fits another clock to the counter from pairs of readings taken at the same moment. The fit takes
 * its rate from the last one to two seconds and its offset from the last pair.
 */
struct clock_fit {
	uint64_t first, first_ticks, last, last_ticks;
	/* start of the next rate measurement, used once it is a second old */
	uint64_t middle, middle_ticks;
	uint64_t kept_until; /* ticks: the old rate stays in use until then */
	double ticks_per_unit; /* 0: fewer than two pairs so far */
};

/* Adds a pair; `second` is the number of ticks per second. If the clock was stepped, or was not
 * read for a tenth of a second, the fit keeps its rate and takes the new offset: a step during a
 * pause must not look like drift. */
void clock_fit_add(struct clock_fit *f, uint64_t at, uint64_t ticks, double second);

/* Returns the counter at a moment of the other clock, near the last pair. */
static inline uint64_t clock_fit_ticks(const struct clock_fit *f, uint64_t at)
{
	return f->last_ticks +
	       (uint64_t)(int64_t)((double)(int64_t)(at - f->last) * f->ticks_per_unit);
}

/*
 * Relates CLOCK_REALTIME, which the kernel uses for timestamps, to the counter. The clock is read
 * every 10 ms because the kernel may slew it; after a step the fit restarts.
 */
struct clock_real {
	struct clock_fit fit;
	uint64_t pause; /* ticks between readings; 0 while the rate is unknown */
};

/* Reads both clocks now. */
void clock_real_read(struct clock_real *r);

/* Reads both clocks if the last reading is older than `pause`. */
static inline void clock_real_keep(struct clock_real *r)
{
	if (__builtin_expect(clock_ticks() - r->fit.last_ticks > r->pause, 0))
		clock_real_read(r);
}

/* Returns the counter at a recent kernel time `ns`, at most `now`; 0 if the counter is unknown. */
static inline uint64_t clock_real_ticks(const struct clock_real *r, uint64_t ns, uint64_t now)
{
	const uint64_t ticks = clock_fit_ticks(&r->fit, ns);
	const int64_t age = (int64_t)(now - ticks);

	/* A timestamp from before a clock step cannot be converted. */
	if (!(r->fit.ticks_per_unit > 0) || age > (int64_t)(1000 * r->pause) ||
	    age < -(int64_t)r->pause)
		return 0;
	return age < 0 ? now : ticks;
}

/* Records the start of this process, from which the counter is calibrated. */
void clock_begin(void);

/* Calibrates the counter against CLOCK_MONOTONIC over the time since clock_begin(), which is at
 * least `ms` milliseconds: sleeps for the remainder if necessary. */
void clock_measure(struct clock *c, unsigned ms);

/* Returns what clock_ns() of a moment has more than CLOCK_MONOTONIC, modulo 2^64, now: the kernel may
 * slew its clock. */
uint64_t clock_ahead_ns(const struct clock *c);

/* Computes the derived members from the first three. */
void clock_derive(struct clock *c);

#endif
