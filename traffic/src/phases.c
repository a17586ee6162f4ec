/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of a trial: start, wait, stop, drain. */
#include "session.h"

#define FLUSH_NS 10000000 /* for so long a device may take what waits in a port's ring */

void control_halt(struct control *c)
{
	uint64_t until;

	for (uint32_t i = 0; i < c->worker_count; i++)
		worker_halt(&c->workers[i]);
	if (c->running)
		for (uint32_t i = 0; i < c->task_count; i++)
			task_end(&c->tasks[i]);
	until = clock_monotonic_ns() + FLUSH_NS;
	for (uint32_t i = 0; c->running && i < c->port_count; i++)
		while (!port_flush(&c->ports[i]) && clock_monotonic_ns() < until)
			;
	c->running = false;
}

void control_note_drops(struct control *c)
{
	const uint64_t now = clock_monotonic_ns();

	if (!c->running || now - c->noted_ns < NOTE_DROPS_MS * 1000000ull)
		return;
	c->noted_ns = now;
	for (uint32_t i = 0; i < c->port_count; i++)
		if (c->ports[i].engine->note_drops)
			c->ports[i].engine->note_drops(&c->ports[i]);
}

void control_start(struct control *c, const struct start_plan *plan)
{
	uint64_t at;

	if (!c->armed) {
		answer_error(c, "start: arm first");
		return;
	}
	control_halt(c);
	at = plan->at_ns ? clock_at(&c->clock, plan->at_ns) : clock_ticks() + c->clock.hz / 500;
	c->window.start = at;
	c->window.note = at - c->clock.hz / 20000; /* 50 us: noting takes some 5 */
	c->window.end = at + clock_ticks_in(&c->clock, plan->duration_ns);
	c->window.quiet = c->clock.hz / 1000;
	c->window.latest = c->window.end + c->clock.hz / 50;
	c->window.phase = plan->phase;
	for (uint32_t i = 0; i < c->task_count; i++)
		task_begin(&c->tasks[i]);
	for (uint32_t i = 0; i < c->port_count; i++)
		c->ports[i].engine->stats(&c->ports[i], &c->at_start[i]);
	c->noted_ns = clock_monotonic_ns();
	c->running = true;
	for (uint32_t i = 0; i < c->worker_count; i++)
		worker_run(&c->workers[i]);
	answer(c, json_pack("{s:b,s:I}", "ok", 1, "at_ns", (json_int_t)clock_ns(&c->clock, at)));
}

const char *control_failure(const struct control *c)
{
	for (uint32_t i = 0; i < c->port_count; i++)
		if (atomic_load_explicit(&c->ports[i].failed, memory_order_acquire))
			return c->ports[i].why;
	return NULL;
}

void control_wait(struct control *c, uint64_t timeout_ms)
{
	uint64_t until = clock_monotonic_ns() + timeout_ms * 1000000;

	for (uint32_t i = 0; c->running && i < c->task_count;) {
		const char *why = control_failure(c);

		if (why) {
			answer_error(c, "%s", why);
			return;
		}
		if (c->tasks[i].sent_all) {
			i++;
		} else if (clock_monotonic_ns() > until || !control_tick(c)) {
			answer_error(c, "wait: task %u still sends after %llu ms", i,
				     (unsigned long long)timeout_ms);
			return;
		}
	}
	answer_ok(c);
}

void control_stop(struct control *c, uint64_t timeout_ms)
{
	for (uint32_t i = 0; i < c->task_count; i++)
		c->tasks[i].stop = true;
	control_wait(c, timeout_ms);
}

static uint64_t control_seen(const struct control *c)
{
	uint64_t seen = 0;

	for (uint32_t i = 0; i < c->task_count; i++)
		seen += c->tasks[i].receiver.seen;
	return seen;
}

/* Whether each receiver has polled since this was last asked to begin anew. */
static bool control_looked(struct control *c, bool anew)
{
	bool all = true;

	for (uint32_t i = 0; i < c->task_count; i++) {
		struct receiver *r = &c->tasks[i].receiver;

		if (!role_receives(c->tasks[i].role))
			continue;
		if (anew)
			atomic_store_explicit(&r->looked, false, memory_order_relaxed);
		all &= atomic_load_explicit(&r->looked, memory_order_relaxed);
	}
	return all;
}

/* Until no frame has come for quiet_ms; frames from now on are late, after it too late. A
 * receiver that got no CPU meanwhile has not looked. */
void control_drain(struct control *c, uint64_t quiet_ms, uint64_t timeout_ms)
{
	uint64_t now = clock_monotonic_ns(), until = now + timeout_ms * 1000000;
	uint64_t quiet = quiet_ms * 1000000, changed = now, seen = control_seen(c);
	bool calm = false;

	for (uint32_t i = 0; i < c->task_count; i++)
		c->tasks[i].receiver.draining = true;
	control_looked(c, true);
	while (c->running && now < until && !calm && control_tick(c)) {
		uint64_t more = control_seen(c);

		now = clock_monotonic_ns();
		if (more != seen) {
			changed = now;
			control_looked(c, true);
		}
		seen = more;
		calm = now - changed >= quiet && control_looked(c, false);
	}
	for (uint32_t i = 0; i < c->task_count; i++)
		c->tasks[i].receiver.closed = true;
	/* Frames of the next phase that come before this process begins it wait at its ports. */
	calm |= !c->running;
	/* The others look on now and then: counters are read next, by programs that need the CPU. */
	for (uint32_t i = 0; i < c->worker_count; i++)
		c->workers[i].rest = true;
	if (c->window.phase == PHASE_WARMUP)
		control_halt(c);
	answer(c, json_pack("{s:b,s:b}", "ok", 1, "quiet", calm));
}
