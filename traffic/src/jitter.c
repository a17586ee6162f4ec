/* SPDX-License-Identifier: Apache-2.0 */
#include "jitter.h"

#include "clock.h"
#include "inline.h"
#include "skew.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define CPUS_MAX 1024
#define GAP_NS 1000 /* the loop itself or the cache may cause shorter gaps */
#define BUCKETS 32 /* bucket i: gaps from 2^i us to below 2^(i+1) us */

struct spinner {
	pthread_t thread;
	unsigned cpu;
	const struct clock *clock;
	uint64_t duration_ns;
	int error;
	uint64_t elapsed_ns, lost_ns, max_ns, gaps;
	uint64_t histogram[BUCKETS];
	struct skew skew; /* of its counter relative to the first CPU's */
	bool skewed; /* `skew` is valid */
};

static void spinner_note(struct spinner *s, uint64_t ns)
{
	unsigned bucket = 0;

	for (uint64_t us = ns / 1000; us > 1 && bucket < BUCKETS - 1; us /= 2)
		bucket++;
	s->histogram[bucket]++;
	s->gaps++;
	s->lost_ns += ns;
	if (ns > s->max_ns)
		s->max_ns = ns;
}

static void *spin(void *argument)
{
	struct spinner *s = argument;
	const uint64_t threshold = clock_ticks_in(s->clock, GAP_NS);
	const uint64_t duration = clock_ticks_in(s->clock, s->duration_ns);
	uint64_t start, last, now;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(s->cpu, &set);
	s->error = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (s->error)
		return NULL;
	start = last = clock_ticks();
	do {
		now = clock_ticks();
		if (unlikely(now - last > threshold))
			spinner_note(s, clock_ns(s->clock, now) - clock_ns(s->clock, last));
		last = now;
	} while (now - start < duration);
	s->elapsed_ns = clock_ns(s->clock, now) - clock_ns(s->clock, start);
	return NULL;
}

/* Reads a list such as `0,2-3`. Returns the number of CPUs, 0 if the list is invalid. */
static unsigned cpus_read(const char *text, struct spinner *spinners)
{
	unsigned count = 0;

	while (*text) {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (end == text)
			return 0;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last; first++) {
			if (first >= CPU_SETSIZE || count == CPUS_MAX)
				return 0;
			spinners[count++].cpu = (unsigned)first;
		}
		if (*end == ',')
			end++;
		else if (*end)
			return 0;
		text = end;
	}
	return count;
}

static json_t *spinner_report(const struct spinner *s)
{
	json_t *histogram = json_array(), *report;

	for (unsigned i = 0; i < BUCKETS; i++)
		if (s->histogram[i])
			json_array_append_new(histogram, json_pack("[I,I]", (json_int_t)1000 << i,
								   (json_int_t)s->histogram[i]));
	report = json_pack("{s:I,s:I,s:I,s:I,s:I,s:o}", "cpu", (json_int_t)s->cpu, "elapsed_ns",
			   (json_int_t)s->elapsed_ns, "gaps", (json_int_t)s->gaps, "lost_ns",
			   (json_int_t)s->lost_ns, "max_ns", (json_int_t)s->max_ns, "histogram",
			   histogram);
	if (s->skewed) {
		const int64_t ns = (int64_t)clock_ns_in(s->clock, (uint64_t)llabs(s->skew.ticks));

		json_object_set_new(report, "skew_ns", json_integer(s->skew.ticks < 0 ? -ns : ns));
		json_object_set_new(
			report, "skew_within_ns",
			json_integer((json_int_t)clock_ns_in(s->clock, s->skew.within) + 1));
	}
	return report;
}

static int jitter_run(struct spinner *spinners, unsigned count, uint64_t ms, FILE *out)
{
	json_t *cpus = json_array();
	struct clock clock;
	int status = 0;

	clock_measure(&clock, 2);
	for (unsigned i = 0; i < count; i++) {
		struct spinner *s = &spinners[i];

		s->clock = &clock;
		s->duration_ns = ms * 1000000;
		s->error = pthread_create(&s->thread, NULL, spin, s);
		if (s->error)
			count = i + 1;
	}
	for (unsigned i = 0; i < count; i++) {
		struct spinner *s = &spinners[i];

		if (s->thread)
			pthread_join(s->thread, NULL);
	}
	for (unsigned i = 0; i < count; i++) {
		struct spinner *s = &spinners[i];

		/* Measured after all spinners have ended. */
		s->skewed = i && !s->error && !spinners[0].error &&
			    skew_measure(spinners[0].cpu, s->cpu, clock.hz / 1000, &s->skew);
		if (s->error) {
			fprintf(stderr, "CPU %u: %s\n", s->cpu, strerror(s->error));
			status = 1;
		}
		json_array_append_new(cpus, spinner_report(s));
	}
	cpus = json_pack("{s:o}", "cpus", cpus);
	if (!status) {
		json_dumpf(cpus, out, JSON_COMPACT);
		fputc('\n', out);
	}
	json_decref(cpus);
	return status;
}

int jitter_main(int argc, char **argv, FILE *out)
{
	struct spinner *spinners = calloc(CPUS_MAX, sizeof(*spinners));
	unsigned count = 0;
	unsigned long ms = 10;
	int status = 2;

	for (int i = 0; spinners && i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--cpus"))
			count = cpus_read(argv[i + 1], spinners);
		else if (!strcmp(argv[i], "--ms"))
			ms = strtoul(argv[i + 1], NULL, 10);
		else
			count = 0;
	}
	if (argc % 2 == 0 && count && ms && ms <= 10000)
		status = jitter_run(spinners, count, ms, out);
	else
		fputs("usage: switchmark-tool jitter --cpus 0,2-3 [--ms 10]\n", stderr);
	free(spinners);
	return status;
}
