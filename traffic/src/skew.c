/* SPDX-License-Identifier: Apache-2.0 */
#include "skew.h"

#include "clock.h"
#include "lines.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum {
	ROUNDS = 1000,
	MS_MAX = 20, /* replies are slow while another thread uses one of the CPUs */
	LEAST = 10, /* rounds, assuming that one of them was fast */
};

struct asked {
	_Atomic uint64_t question
		__attribute__((aligned(CACHE_LINE))); /* a request number; UINT64_MAX: end */
	_Atomic uint64_t answered; /* the answered request number */
	uint64_t shown; /* by the second CPU's counter at that time */
	unsigned cpu;
	uint64_t limit; /* ticks */
	atomic_bool missing; /* the CPU is unavailable */
};

/* Reads the counter, ordered after all earlier and before all later instructions. */
static uint64_t ticks_in_turn(void)
{
	uint64_t ticks;

#if defined(__x86_64__)
	__builtin_ia32_lfence();
	ticks = clock_ticks();
	__builtin_ia32_lfence();
#else
	atomic_thread_fence(memory_order_seq_cst);
	ticks = clock_ticks();
	atomic_thread_fence(memory_order_seq_cst);
#endif
	return ticks;
}

static bool cpu_enter(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static void *skew_answer(void *argument)
{
	struct asked *a = argument;
	uint64_t seen = 0;

	if (!cpu_enter(a->cpu)) {
		a->missing = true;
		return NULL;
	}
	for (;;) {
		const uint64_t number = atomic_load_explicit(&a->question, memory_order_acquire);

		if (number == UINT64_MAX)
			return NULL;
		if (number == seen)
			continue;
		a->shown = ticks_in_turn();
		seen = number;
		atomic_store_explicit(&a->answered, number, memory_order_release);
	}
}

/* Each reading lies between its request and its reply, and all readings have the same skew. */
static unsigned skew_ask(struct asked *a, int64_t *low, int64_t *high)
{
	const uint64_t begin = clock_ticks();
	unsigned rounds;

	for (rounds = 0; rounds < ROUNDS; rounds++) {
		const uint64_t before = ticks_in_turn();
		uint64_t after;

		atomic_store_explicit(&a->question, rounds + 1, memory_order_release);
		while (atomic_load_explicit(&a->answered, memory_order_acquire) != rounds + 1)
			if (a->missing || clock_ticks() - begin > a->limit)
				return rounds;
		after = ticks_in_turn();
		if ((int64_t)(a->shown - after) > *low)
			*low = (int64_t)(a->shown - after);
		if ((int64_t)(a->shown - before) < *high)
			*high = (int64_t)(a->shown - before);
	}
	return rounds;
}

struct asking {
	struct asked asked;
	unsigned cpu;
	unsigned rounds;
	int64_t low, high;
};

static void *skew_question(void *argument)
{
	struct asking *a = argument;

	if (cpu_enter(a->cpu))
		a->rounds = skew_ask(&a->asked, &a->low, &a->high);
	atomic_store(&a->asked.question, UINT64_MAX);
	return NULL;
}

bool skew_measure(unsigned first, unsigned second, uint64_t ticks_a_ms, struct skew *found)
{
	struct asking a = { .asked = { .cpu = second, .limit = MS_MAX * ticks_a_ms },
			    .cpu = first,
			    .low = INT64_MIN,
			    .high = INT64_MAX };
	pthread_t asks, answers;

	if (pthread_create(&answers, NULL, skew_answer, &a.asked))
		return false;
	if (pthread_create(&asks, NULL, skew_question, &a)) {
		atomic_store(&a.asked.question, UINT64_MAX);
		pthread_join(answers, NULL);
		return false;
	}
	pthread_join(asks, NULL);
	pthread_join(answers, NULL);
	if (a.rounds < LEAST || a.high < a.low)
		return false;
	found->ticks = a.low + (a.high - a.low) / 2;
	found->within = (uint64_t)(a.high - a.low + 1) / 2;
	return true;
}
