/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include "privileges.h"
#include "socket.h"
#include "steps.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define REST_US 1000

const char *const role_names[] = { "sender", "receiver", "client", "server", "forwarder", NULL };

/* ---- tasks ------------------------------------------------------------------------ */

static uint32_t client_step(struct task *t, uint64_t now)
{
	return receiver_step(t, now) + sender_step(t, clock_ticks());
}

static enum form task_form(const struct task *t, const struct port *port)
{
	if (port->engine->caps & ENGINE_PAYLOAD)
		return FORM_PAYLOAD;
	return (role_sends(t->role) && port->completes_sums) ||
			       (role_receives(t->role) && port->notes_arrivals) ?
		       FORM_DEVICE :
		       FORM_WHOLE;
}

void task_choose_step(struct task *t, enum touch touch, enum timing timing)
{
	const struct port *port = role_sends(t->role) ? t->sender.port : t->receiver.port;

	t->step = t->role == ROLE_SENDER   ? sender_step :
		  t->role == ROLE_RECEIVER ? receiver_step :
		  t->role == ROLE_CLIENT   ? client_step :
					     forwarder_step;
	if (role_sends(t->role)) {
		sender_choose_step(&t->sender, touch, task_form(t, port));
		t->sender.repeats = sender_can_repeat(&t->sender, touch);
	}
	if (role_receives(t->role))
		receiver_choose_step(&t->receiver, touch, task_form(t, port), timing);
}

void task_begin(struct task *t)
{
	t->stop = false;
	t->announcer.sent = 0;
	t->sent_all = !role_sends(t->role);
	if (role_sends(t->role))
		sender_begin(&t->sender);
	if (role_receives(t->role))
		receiver_begin(&t->receiver);
	if (role_forwards(t->role)) {
		struct forwarder *w = &t->forwarder;

		w->polls = w->empty = w->ignored = w->stray = 0;
		for (int i = 0; i < 2; i++)
			w->in[i] = w->out[i] = w->dropped[i] = 0;
	}
}

void task_end(struct task *t)
{
	struct sender *s = &t->sender;

	if (!role_sends(t->role) || !s->held)
		return;
	s->port->engine->release(s->port, s->frames + s->first, s->held);
	s->built -= s->held;
	if (s->series)
		series_unsend(s->series, s->held);
	s->held = 0;
}

void port_discard(struct port *port, struct frame *frames, uint32_t burst, uint64_t limit)
{
	uint32_t n;

	while (limit && (n = port->rx(port, frames, NULL, burst))) {
		port->engine->release(port, frames, n);
		limit -= n < limit ? n : limit;
	}
}

bool port_announce(struct port *port, int past, const struct frame_template *t)
{
	bool headless = port->engine->caps & ENGINE_PAYLOAD;
	uint8_t copy[HEAD_BYTES];
	struct frame f;

	if (past >= 0) {
		frame_build(copy, t, 0, 0, 0, TOUCH_NONE, false, false);
		return send(past, copy, t->len, MSG_DONTWAIT) == (ssize_t)t->len;
	}
	if (port->engine->alloc(port, &f, 1) != 1)
		return false;
	frame_build(f.data, t, 0, 0, 0, TOUCH_NONE, headless, false);
	f.len = t->len;
	for (int tries = 0; tries < 100; tries++)
		if (port->tx(port, &f, 1))
			return true;
	port->engine->release(port, &f, 1);
	return false;
}

static void task_announce(struct task *t)
{
	struct announcer *a = &t->announcer;

	for (uint32_t i = 0; i < a->count; i++)
		a->sent += port_announce(a->list[i].port, a->list[i].past, &a->list[i].hello);
}

/* ---- workers ---------------------------------------------------------------------- */

/* Returns the resources used by this thread. `wait_ns` is the time that it was runnable while other
 * threads had its CPU, by the kernel's accounting. */
static struct usage worker_usage(const struct worker *w)
{
	struct timespec cpu;
	struct rusage used;
	struct usage found = { .wait_ns = -1 };
	unsigned long long ran, waited;
	char text[64];
	ssize_t length = pread(w->schedstat, text, sizeof(text) - 1, 0);

	text[length > 0 ? length : 0] = 0;
	if (sscanf(text, "%llu %llu", &ran, &waited) == 2)
		found.wait_ns = (int64_t)waited;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	found.cpu_ns = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
	getrusage(RUSAGE_THREAD, &used);
	found.user_ns = (uint64_t)used.ru_utime.tv_sec * 1000000000u +
			(uint64_t)used.ru_utime.tv_usec * 1000u;
	return found;
}

static void worker_note_before(struct worker *w)
{
	w->before = w->after = worker_usage(w);
	w->before_at = w->after_at = clock_ticks();
}

static void worker_note_after(struct worker *w)
{
	w->after = worker_usage(w);
	w->after_at = clock_ticks();
}

static void port_enter(struct port *port)
{
	if (port && port->engine->enter)
		port->engine->enter(port);
}

static void worker_begin(struct worker *w)
{
	uint64_t now;

	for (uint32_t i = 0; i < w->count; i++) {
		port_enter(w->tasks[i]->forwarder.ports[0]);
		port_enter(w->tasks[i]->forwarder.ports[1]);
	}
	worker_note_before(w);
	w->yields = 0;
	now = clock_ticks();
	w->late = now > w->window->start ? now - w->window->start : 0;
	for (uint32_t i = 0; w->late && i < w->count; i++)
		if (role_sends(w->tasks[i]->role))
			sender_begin_late(&w->tasks[i]->sender, now);
}

/* Records the usage at a time when that delays no frame: it takes about 5 us. `moved`: frames were
 * moved since the last mark. Returns the time of the next mark. */
static uint64_t worker_mark(struct worker *w, uint64_t mark, uint64_t now, bool moved)
{
	const struct window *window = w->window;

	if (mark == window->note) {
		worker_note_before(w);
		return window->end;
	}
	if (now < window->latest && (moved || mark == window->end))
		return now + window->quiet;
	worker_note_after(w);
	return UINT64_MAX;
}

/* Returns the next time in a phase to repeat the announcements; UINT64_MAX: never. */
static uint64_t announcing_after(const struct window *window, uint64_t ticks)
{
	const uint64_t next = ticks + window->announce_every;

	return window->announce_every && next < window->end ? next : UINT64_MAX;
}

/* Wakes the control thread, which waits for tasks that finish after the end of the phase, or, as
 * bursts and tasks that are stopped, at a time that it does not know. It expects all others at the
 * end: no frame that is still on its way waits for this call. */
static void worker_tell(const struct worker *w, uint64_t now)
{
	bool awaited = now >= w->window->end;

	for (uint32_t i = 0; i < w->count; i++)
		awaited |= w->tasks[i]->stop || w->tasks[i]->sender.limit;
	if (awaited && w->news > 0)
		(void)eventfd_write(w->news, 1);
}

bool worker_receives(const struct worker *w)
{
	bool receives = false;

	for (uint32_t i = 0; i < w->count; i++)
		receives |= w->tasks[i]->role != ROLE_SENDER;
	return receives;
}

/* Records a poll of all tasks that began in `round`, after the senders had finished, and moved `moved`
 * frames. In ROUND_REST, the thread sleeps instead if there was no frame. */
static void worker_after_sending(struct worker *w, uint32_t round, uint32_t moved)
{
	uint64_t forwarded = 0;

	if (round == ROUND_REST) {
		if (!moved)
			usleep(REST_US);
		return;
	}
	for (uint32_t i = 0; i < w->count; i++)
		forwarded += w->tasks[i]->forwarder.in[0] + w->tasks[i]->forwarder.in[1];
	atomic_store_explicit(&w->forwarded, forwarded, memory_order_relaxed);
	if (!moved)
		atomic_store_explicit(&w->empty_round, round, memory_order_release);
}

static void worker_loop(struct worker *w)
{
	/* `mark`: the earlier of `note` and `announce` */
	uint64_t note, announce, mark, all_moved = 0;
	const bool receives = worker_receives(w);
	bool sent = false;

	worker_begin(w);
	note = w->late ? w->window->end : w->window->note;
	announce = announcing_after(w->window, w->window->start);
	mark = note < announce ? note : announce;
	while (!atomic_load_explicit(&w->halt, memory_order_relaxed)) {
		const uint32_t round = atomic_load_explicit(&w->round, memory_order_relaxed);
		uint64_t now = clock_ticks();
		bool sending = false;
		uint32_t moved = 0;

		if (unlikely(now >= mark)) {
			if (now >= note) {
				note = worker_mark(w, note, now, all_moved);
				all_moved = 0;
			}
			if (now >= announce) {
				for (uint32_t i = 0; i < w->count; i++)
					task_announce(w->tasks[i]);
				announce = announcing_after(w->window, now);
			}
			mark = note < announce ? note : announce;
			now = clock_ticks();
		}
		for (uint32_t i = 0; i < w->count; i++) {
			struct task *t = w->tasks[i];

			/* The time that earlier tasks took must not count as delay of this sender's
			 * frames. */
			if (i && t->role == ROLE_SENDER)
				now = clock_ticks();
			moved += t->step(t, now);
			sending |= !atomic_load_explicit(&t->sent_all, memory_order_relaxed);
		}
		all_moved += moved;
		if (unlikely(sent == sending)) {
			sent = !sending;
			if (sent)
				worker_tell(w, now);
		}
		if (w->yield) {
			sched_yield();
			w->yields++;
		}
		if (unlikely(!sending && !receives))
			break;
		if (unlikely(round))
			worker_after_sending(w, round, moved);
	}
	/* The thread was halted or finished before the usage was recorded. */
	if (note != UINT64_MAX)
		worker_note_after(w);
}

static void *worker_main(void *argument)
{
	struct worker *w = argument;

	w->schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	if (!w->privileged)
		privileges_drop();
	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->run && !w->quit)
			pthread_cond_wait(&w->wake, &w->lock);
		if (w->quit)
			break;
		w->run = false;
		pthread_mutex_unlock(&w->lock);
		worker_loop(w);
		pthread_mutex_lock(&w->lock);
		w->idle = true;
		pthread_cond_signal(&w->slept);
	}
	pthread_mutex_unlock(&w->lock);
	if (w->schedstat >= 0)
		close(w->schedstat);
	return NULL;
}

int cpu_move(int cpu, cpu_set_t *before)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof(*before), before))
		return -1;
	CPU_SET((unsigned)cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -1 : cpu;
}

void cpu_return(int moved, const cpu_set_t *before)
{
	if (moved >= 0)
		(void)sched_setaffinity(0, sizeof(*before), before);
}

int worker_start(struct worker *w)
{
	int error;

	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	pthread_cond_init(&w->slept, NULL);
	w->idle = true;
	error = pthread_create(&w->thread, NULL, worker_main, w);
	if (error)
		return -error;
	w->started = 1;
	if (w->cpu >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET((unsigned)w->cpu, &set);
		error = pthread_setaffinity_np(w->thread, sizeof(set), &set);
		if (error)
			return -error;
	}
	return 0;
}

void worker_run(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->halt = false;
	w->round = w->empty_round = 0;
	w->forwarded = 0;
	w->idle = false;
	w->run = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

void worker_halt(struct worker *w)
{
	w->halt = true;
	pthread_mutex_lock(&w->lock);
	while (!w->idle)
		pthread_cond_wait(&w->slept, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

void worker_quit(struct worker *w)
{
	if (!w->started)
		return;
	worker_halt(w);
	pthread_mutex_lock(&w->lock);
	w->quit = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wake);
	pthread_cond_destroy(&w->slept);
	w->started = 0;
}
