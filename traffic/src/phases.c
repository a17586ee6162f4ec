/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of a trial: start, wait, stop, drain. */
#include "session.h"

const char *session_start(struct session *s, const struct start_plan *plan)
{
	uint64_t at;

	if (!s->armed)
		return "start: arm first";
	session_halt(s);
	at = plan->at_ns ? clock_at(&s->clock, plan->at_ns) : clock_ticks() + s->clock.hz / 500;
	s->window.start = at;
	s->window.note = at - s->clock.hz / 20000; /* 50 us: reading the usage takes about 5 */
	s->window.end = at + clock_ticks_in(&s->clock, plan->duration_ns);
	s->window.quiet = s->clock.hz / 1000;
	s->window.latest = s->window.end + s->clock.hz / 50;
	s->window.step_count = plan->step_count;
	for (uint32_t i = 0; i < plan->step_count; i++)
		s->window.steps[i] =
			(struct load_step){ at + clock_ticks_in(&s->clock, plan->steps[i].at_ns),
					    plan->steps[i].share };
	s->window.start_ns = plan->at_ns ? plan->at_ns : clock_ns(&s->clock, at);
	s->window.duration_ns = plan->duration_ns;
	s->window.phase = plan->phase;
	s->round = 0;
	for (uint32_t i = 0; i < s->task_count; i++)
		task_begin(&s->tasks[i]);
	for (uint32_t i = 0; i < s->port_count; i++)
		s->ports[i].engine->stats(&s->ports[i], &s->at_start[i]);
	s->noted_ns = clock_monotonic_ns();
	s->running = true;
	for (uint32_t i = 0; i < s->worker_count; i++)
		worker_run(&s->workers[i]);
	return NULL;
}

#define NEWS_MAX_MS 100 /* a thread that finished before the control thread waited is seen then */

/* Returns how long the control thread sleeps while a task sends, because each of its wake-ups takes
 * microseconds from the threads that move frames: until the end of the phase. A thread wakes it when
 * a burst or a task that is stopped ends before, when a task ends later, and when a port fails. */
static uint32_t pause_ms(const struct session *s, const struct task *t, uint64_t left_ns)
{
	const uint64_t now = clock_ticks(), ms = s->clock.hz / 1000,
		       left_ms = left_ns / 1000000 + 1;
	const uint32_t drops_ms = session_drops_ms(s);
	uint64_t pause = NEWS_MAX_MS;

	if (s->ending.news <= 0)
		pause = 1;
	else if (!t->stop && !t->sender.limit && now < s->window.end)
		pause = (s->window.end - now) / ms + 1;
	pause = pause < left_ms ? pause : left_ms;
	return pause < drops_ms ? (uint32_t)pause : drops_ms;
}

static void set_round(struct session *s, uint32_t round)
{
	for (uint32_t i = 0; i < s->worker_count; i++)
		atomic_store_explicit(&s->workers[i].round, round, memory_order_relaxed);
}

static void next_round(struct session *s)
{
	set_round(s, ++s->round);
}

/* True if every thread that receives has polled all its tasks in this round without a frame. */
static bool all_empty(const struct session *s)
{
	bool all = true;

	for (uint32_t i = 0; i < s->worker_count; i++) {
		const struct worker *w = &s->workers[i];

		all &= !worker_receives(w) ||
		       atomic_load_explicit(&w->empty_round, memory_order_acquire) == s->round;
	}
	return all;
}

#define TAKEN_MAX_MS 2000

/* Waits until servers and forwarders have taken all frames at their ports. A receiver behind a server
 * without CPU time sees no frames and would end its drain too early. */
static void wait_for_forwarders(struct session *s)
{
	const uint64_t until = clock_monotonic_ns() + TAKEN_MAX_MS * 1000000ull;
	bool forwards = false;

	for (uint32_t i = 0; i < s->task_count; i++)
		forwards |= role_forwards(s->tasks[i].role);
	if (!forwards || !s->running)
		return;
	next_round(s);
	while (!all_empty(s) && clock_monotonic_ns() < until && session_tick(s, 1))
		;
	set_round(s, 0);
}

const char *session_wait(struct session *s, uint64_t timeout_ms)
{
	uint64_t until = clock_monotonic_ns() + timeout_ms * 1000000;

	for (uint32_t i = 0; s->running && i < s->task_count;) {
		const char *why = session_failure(s);
		const uint64_t now = clock_monotonic_ns();

		if (why)
			return why;
		if (s->tasks[i].sent_all) {
			i++;
		} else if (now > until ||
			   !session_tick(s, pause_ms(s, &s->tasks[i], until - now))) {
			return session_error(s, "wait: task %u still sends after %llu ms", i,
					     (unsigned long long)timeout_ms);
		}
	}
	wait_for_forwarders(s);
	return NULL;
}

const char *session_stop(struct session *s, uint64_t timeout_ms)
{
	for (uint32_t i = 0; i < s->task_count; i++)
		s->tasks[i].stop = true;
	return session_wait(s, timeout_ms);
}

/* Returns the frames that have arrived in this phase at receivers, forwarders and servers. */
static uint64_t frames_seen(const struct session *s)
{
	uint64_t seen = 0;

	for (uint32_t i = 0; i < s->task_count; i++)
		seen += s->tasks[i].receiver.seen;
	for (uint32_t i = 0; i < s->worker_count; i++)
		seen += s->workers[i].forwarded;
	return seen;
}

/* Waits until no frame has arrived for quiet_ms. Frames that arrive during the drain are late,
 * later ones are lost. A thread without CPU time has not polled, so the drain waits for it: frames may
 * wait at its ports, and servers and forwarders send them on. */
bool session_drain(struct session *s, uint64_t quiet_ms, uint64_t timeout_ms)
{
	uint64_t now = clock_monotonic_ns(), until = now + timeout_ms * 1000000;
	uint64_t quiet = quiet_ms * 1000000, changed = now, seen = frames_seen(s);
	bool calm = false;

	for (uint32_t i = 0; i < s->task_count; i++)
		s->tasks[i].receiver.draining = true;
	next_round(s);
	while (s->running && now < until && !calm && session_tick(s, 1)) {
		const bool empty = all_empty(s); /* read before the counts */
		const uint64_t more = frames_seen(s);

		now = clock_monotonic_ns();
		if (more != seen) {
			changed = now;
			next_round(s);
		} else {
			calm = empty && now - changed >= quiet;
		}
		seen = more;
	}
	for (uint32_t i = 0; i < s->task_count; i++)
		s->tasks[i].receiver.closed = true;
	/* Outside a phase the ports count as quiet: frames of the next phase may already wait
	 * there. */
	calm |= !s->running;
	/* Let the threads poll less often: programs that read counters next need the CPU. */
	set_round(s, ROUND_REST);
	if (s->window.phase == PHASE_WARMUP)
		session_halt(s);
	return calm;
}
