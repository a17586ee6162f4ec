/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include "config.h"
#include "loop.h"
#include "socket.h"
#include "text.h"
#include "watch.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_MAX_BYTES (1 << 20)

struct control {
	int in;
	FILE *out;
	bool ended; /* of stdin */
	sigset_t open_to; /* the signals while it waits: SIGTERM and SIGINT come at no other time */

	struct port ports[PORTS_MAX];
	uint32_t port_count;
	struct task *tasks;
	uint32_t task_count;
	struct worker workers[THREADS_MAX];
	uint32_t worker_count;

	struct clock clock;
	struct window window;
	struct engine_stats at_start[PORTS_MAX];
	bool armed, running;
	struct command command;
};

static volatile sig_atomic_t terminated;

static void on_signal(int signal)
{
	(void)signal;
	terminated = 1;
}

/* ---- answers ---------------------------------------------------------------------- */

static void answer(struct control *c, json_t *object)
{
	json_dumpf(object, c->out, JSON_COMPACT);
	fputc('\n', c->out);
	fflush(c->out);
	json_decref(object);
}

/* A string whatever the bytes of the text are: engines and their libraries write some. */
static json_t *text_json(const char *text)
{
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", text);
	text_mend(copy);
	return json_string(copy);
}

static void answer_ok(struct control *c)
{
	answer(c, json_pack("{s:b}", "ok", 1));
}

__attribute__((format(printf, 2, 3))) static void answer_error(struct control *c,
							       const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	answer(c, json_pack("{s:b,s:o}", "ok", 0, "error", text_json(text)));
}

/* Sleeps a millisecond; false if stdin has ended or a signal came. */
static bool control_tick(struct control *c)
{
	/* The end of a pipe is POLLHUP; of a socket whose peer only writes no more, POLLRDHUP. */
	struct pollfd in = { .fd = c->in, .events = POLLRDHUP };
	const struct timespec millisecond = { .tv_nsec = 1000000 };

	if (ppoll(&in, 1, &millisecond, &c->open_to) > 0 &&
	    (in.revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)))
		c->ended = true;
	return !c->ended && !terminated;
}

/* ---- open, close ------------------------------------------------------------------ */

static void sender_free(struct sender *s)
{
	free(s->templates);
	free(s->frames);
	*s = (struct sender){ .port = s->port };
}

static void receiver_free(struct receiver *r)
{
	free(r->frames);
	free(r->sequences);
	free(r->windows);
	free(r->latency);
	free(r->ipdv);
	free(r->neighbours);
	if (r->promise.watch)
		watch_close(r->promise.watch);
	free(r->promise.watch);
	free(r->promise.templates);
	free(r->intervals);
	memset(r, 0, sizeof(*r));
}

static void forwarder_free(struct forwarder *w)
{
	free(w->frames);
	free(w->copies);
	w->frames = w->copies = NULL;
}

static void control_halt(struct control *c)
{
	for (uint32_t i = 0; i < c->worker_count; i++)
		worker_halt(&c->workers[i]);
	if (c->running)
		for (uint32_t i = 0; i < c->task_count; i++)
			task_end(&c->tasks[i]);
	c->running = false;
}

static void control_close(struct control *c)
{
	control_halt(c);
	for (uint32_t i = 0; i < c->worker_count; i++) {
		worker_quit(&c->workers[i]);
		free(c->workers[i].tasks);
	}
	for (uint32_t i = 0; i < c->task_count; i++) {
		sender_free(&c->tasks[i].sender);
		receiver_free(&c->tasks[i].receiver);
		forwarder_free(&c->tasks[i].forwarder);
	}
	for (uint32_t i = 0; i < c->port_count; i++)
		c->ports[i].engine->close(&c->ports[i]);
	free(c->tasks);
	c->tasks = NULL;
	c->worker_count = c->task_count = c->port_count = 0;
	c->armed = false;
}

static bool ports_open(struct control *c, const struct open_plan *plan)
{
	for (uint32_t i = 0; i < plan->port_count; i++) {
		struct port *port = &c->ports[i];
		int saved, error;

		memset(port, 0, sizeof(*port));
		port->engine = plan->ports[i].engine;
		port->config = plan->ports[i].config;
		saved = namespace_enter(port);
		if (saved < -1) {
			answer_error(c, "port %u: %s", i, port->why);
			return false;
		}
		error = port->engine->open(port);
		namespace_leave(saved);
		if (error) {
			answer_error(c, "port %u, engine %s: %s", i, port->engine->name,
				     port->why[0] ? port->why : strerror(-error));
			return false;
		}
		c->port_count++;
	}
	return true;
}

static bool workers_open(struct control *c, const struct open_plan *plan)
{
	uint32_t total = 0;

	for (uint32_t i = 0; i < plan->thread_count; i++)
		total += plan->threads[i].task_count;
	if (total > TASKS_MAX) {
		answer_error(c, "open: more than %d tasks", TASKS_MAX);
		return false;
	}
	c->tasks = aligned_alloc(CACHE_LINE, total * sizeof(*c->tasks));
	if (!c->tasks) {
		answer_error(c, "open: no memory");
		return false;
	}
	memset(c->tasks, 0, total * sizeof(*c->tasks));
	for (uint32_t i = 0; i < plan->thread_count; i++) {
		const struct thread_plan *plan_of = &plan->threads[i];
		struct worker *w = &c->workers[c->worker_count];
		int error;

		*w = (struct worker){ .cpu = plan_of->cpu,
				      .yield = plan_of->yield,
				      .window = &c->window };
		w->tasks = calloc(plan_of->task_count, sizeof(*w->tasks));
		if (!w->tasks) {
			answer_error(c, "open: no memory");
			return false;
		}
		for (uint32_t j = 0; j < plan_of->task_count; j++) {
			const struct task_plan *p = &plan_of->tasks[j];
			struct task *t = &c->tasks[c->task_count];

			t->index = c->task_count++;
			t->role = p->role;
			t->sender.port = t->receiver.port = &c->ports[p->ports[0]];
			t->forwarder.ports[0] = &c->ports[p->ports[0]];
			t->forwarder.ports[1] = &c->ports[p->ports[p->port_count - 1]];
			t->forwarder.reflect = p->role == ROLE_SERVER;
			w->tasks[w->count++] = t;
		}
		c->worker_count++;
		error = worker_start(w);
		if (error) {
			answer_error(c, "cannot run a thread on CPU %d: %s", w->cpu,
				     strerror(-error));
			return false;
		}
	}
	return true;
}

static void control_open(struct control *c, const struct open_plan *plan)
{
	json_t *modes;

	if (c->port_count) {
		answer_error(c, "open: ports are open; close first");
		return;
	}
	if (!ports_open(c, plan) || !workers_open(c, plan)) {
		control_close(c);
		return;
	}
	modes = json_array();
	for (uint32_t i = 0; i < c->port_count; i++)
		json_array_append_new(modes, text_json(c->ports[i].mode));
	answer(c, json_pack("{s:b,s:o}", "ok", 1, "modes", modes));
}

static void control_ready(struct control *c, uint64_t timeout_ms)
{
	uint64_t until = clock_monotonic_ns() + timeout_ms * 1000000;

	for (uint32_t i = 0; i < c->port_count;) {
		if (c->ports[i].engine->ready(&c->ports[i])) {
			i++;
		} else if (clock_monotonic_ns() > until || !control_tick(c)) {
			answer_error(c, "port %u (%s): the link is not up after %llu ms", i,
				     c->ports[i].config.ifname, (unsigned long long)timeout_ms);
			return;
		}
	}
	answer_ok(c);
}

/* ---- arm -------------------------------------------------------------------------- */

static void mac_step(uint8_t mac[6], uint32_t by)
{
	uint32_t low = ((uint32_t)mac[3] << 16 | (uint32_t)mac[4] << 8 | mac[5]) + by;

	mac[3] = (uint8_t)(low >> 16);
	mac[4] = (uint8_t)(low >> 8);
	mac[5] = (uint8_t)low;
}

static void address_step(struct address *a, uint32_t vary, uint32_t by)
{
	if (vary & VARY_SRC_MAC)
		mac_step(a->src_mac, by);
	if (vary & VARY_DST_MAC)
		mac_step(a->dst_mac, by);
	if (vary & VARY_SRC_IP)
		a->src_ip += by;
	if (vary & VARY_DST_IP)
		a->dst_ip += by;
	if (vary & VARY_SRC_PORT)
		a->src_port = (uint16_t)(a->src_port + by);
	if (vary & VARY_DST_PORT)
		a->dst_port = (uint16_t)(a->dst_port + by);
}

/* The addresses of flow number `flow` of `flows`; all zero if none were given. */
static struct address address_of(const struct address_plan *plan, uint32_t flow, uint32_t flows)
{
	const uint32_t each = flows / (plan->count ? plan->count : 1);
	struct address a = plan->list[flow / each];

	address_step(&a, plan->vary, flow % each);
	return a;
}

/* The length of a frame as the engine sees it. */
static uint32_t frame_len(const struct port *port, uint32_t len)
{
	return port->engine->caps & ENGINE_PAYLOAD ? len - ETH_BYTES - IP_BYTES - UDP_BYTES : len;
}

static const char *sender_arm(struct control *c, struct task *t, const struct arm_plan *arm,
			      const struct task_load *load)
{
	struct sender *s = &t->sender;
	bool headless = s->port->engine->caps & ENGINE_PAYLOAD;

	sender_free(s);
	if (!load->len_count)
		return "a sender needs frame_bytes";
	if (headless && (load->sent.list[0].vlan || (load->sent.vary & ~(uint32_t)VARY_SRC_PORT)))
		return "a UDP engine leaves headers to the kernel: flows differ by src_port only, without a tag";
	for (uint32_t i = 0; i < load->len_count; i++)
		if (load->lens[i] > s->port->config.frame_max)
			return "frame_bytes is above that of open";
	if (load->burst > s->port->config.burst)
		return "burst is above that of open";
	s->flows = load->flows;
	s->sizes = load->len_count;
	s->burst = load->burst;
	s->rate_pps = load->rate_pps;
	s->stagger = load->stagger;
	s->limit = load->frames;
	s->delay_ticks = clock_ticks_in(&c->clock, load->delay_ns);
	s->clock = &c->clock;
	s->window = &c->window;
	s->templates = aligned_alloc(CACHE_LINE, sizeof(*s->templates) * s->flows * s->sizes);
	s->frames = calloc(s->burst, sizeof(*s->frames));
	if (!s->templates || !s->frames)
		return "no memory for so many flows";
	for (uint32_t f = 0; f < s->flows; f++) {
		struct address a = address_of(&load->sent, f, load->flows);

		for (uint32_t i = 0; i < s->sizes; i++) {
			struct frame_template *made = &s->templates[(size_t)f * s->sizes + i];

			template_make(made, &a, frame_len(s->port, load->lens[i]), arm->run,
				      (uint16_t)(load->first_flow + f), PHASE_MEASURED, headless);
			if (s->port->completes_sums)
				template_leave_sum(made);
		}
	}
	return NULL;
}

/* Bits of a flow's window: a million frames for one flow, less each for many. */
static uint32_t window_bits(uint32_t flows)
{
	uint32_t bits = 1 << 20;

	while (bits > 4096 && (uint64_t)bits * flows > 1 << 24)
		bits /= 2;
	return bits;
}

static struct histogram *histogram_new(void)
{
	struct histogram *h =
		aligned_alloc(CACHE_LINE, (sizeof(*h) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);

	if (h)
		histogram_clear(h); /* a report may be asked for before a phase is begun */
	return h;
}

/* What a receiver's frames are to have in their headers; and where its engine does not see them,
 * something that does, if it may. */
static const char *promise_make(struct receiver *r, const struct arm_plan *arm,
				const struct address_plan *expected)
{
	struct promise *p = &r->promise;

	p->templates = aligned_alloc(CACHE_LINE, sizeof(*p->templates) * r->flows);
	if (!p->templates)
		return "no memory for so many flows";
	for (uint32_t i = 0; i < r->flows; i++) {
		struct address a = address_of(expected, i, r->flows);

		template_make(&p->templates[i], &a, FRAME_MIN + (a.vlan ? VLAN_BYTES : 0), arm->run,
			      (uint16_t)(r->first_flow + i), PHASE_MEASURED, false);
	}
	if (!(r->port->engine->caps & ENGINE_PAYLOAD))
		return NULL;
	p->watch = calloc(1, sizeof(*p->watch));
	if (!p->watch)
		return "no memory";
	watch_open(p->watch, r->port);
	return NULL;
}

static const char *receiver_arm(struct control *c, struct task *t, const struct arm_plan *arm,
				const struct task_load *load)
{
	struct receiver *r = &t->receiver;
	struct port *port = r->port;
	uint32_t bits = window_bits(load->flows);

	receiver_free(r);
	r->port = port;
	r->run = arm->run;
	r->first_flow = load->first_flow;
	r->flows = load->flows;
	r->burst = load->burst < port->config.burst ? load->burst : port->config.burst;
	r->clock = &c->clock;
	r->window = &c->window;
	r->delay_ticks = clock_ticks_in(&c->clock, load->delay_ns);
	r->interval_count = (uint32_t)(arm->longest_ns / arm->interval_ns) + 1;
	r->frames = calloc(r->burst, sizeof(*r->frames));
	r->sequences = calloc(r->flows, sizeof(*r->sequences));
	r->windows = calloc((size_t)r->flows * bits / 64, sizeof(uint64_t));
	r->intervals = calloc(r->interval_count, sizeof(uint64_t));
	if (load->latency)
		r->latency = histogram_new();
	if (load->latency && load->ipdv) {
		r->ipdv = histogram_new();
		r->neighbours = calloc(r->flows, sizeof(*r->neighbours));
	}
	if (load->expected.count) {
		const char *why = promise_make(r, arm, &load->expected);

		if (why)
			return why;
	}
	if (!r->frames || !r->sequences || !r->windows || !r->intervals ||
	    (load->latency && (!r->latency || (load->ipdv && (!r->ipdv || !r->neighbours)))))
		return "no memory for so many flows";
	for (uint32_t i = 0; i < r->flows; i++)
		r->sequences[i] = (struct sequence){ .window = r->windows + (size_t)i * bits / 64,
						     .bits = bits };
	port_flush(port, r->frames, r->burst, 1 << 20);
	return NULL;
}

static const char *forwarder_arm(struct task *t, uint32_t run, const struct task_load *load)
{
	struct forwarder *w = &t->forwarder;
	uint32_t burst = load->burst;

	for (int i = 0; i < 2; i++) {
		if (burst > w->ports[i]->config.burst)
			burst = w->ports[i]->config.burst;
		w->rewrite[i] = load->rewrite[i];
		memcpy(w->src_mac[i], load->src_mac[i], 6);
		memcpy(w->dst_mac[i], load->dst_mac[i], 6);
	}
	forwarder_free(w);
	w->burst = burst;
	w->run = run;
	w->frames = calloc(burst, sizeof(*w->frames));
	w->copies = calloc(burst, sizeof(*w->copies));
	if (!w->frames || !w->copies)
		return "no memory";
	for (int i = 0; i < 2; i++)
		port_flush(w->ports[i], w->frames, burst, 1 << 20);
	return NULL;
}

static const char *task_arm(struct control *c, struct task *t, const struct arm_plan *arm,
			    const struct task_load *load)
{
	const char *why = NULL;
	struct frame_template hello;

	if (role_sends(t->role))
		why = sender_arm(c, t, arm, load);
	if (!why && role_receives(t->role))
		why = receiver_arm(c, t, arm, load);
	if (!why && !role_sends(t->role) && !role_receives(t->role))
		why = forwarder_arm(t, arm->run, load);
	if (why)
		return why;
	task_choose_step(t, arm->touch,
			 t->receiver.promise.templates && !t->receiver.promise.watch ?
				 TIMING_HEADERS :
			 !load->latency ? TIMING_NONE :
			 load->ipdv	? TIMING_IPDV :
					  TIMING_LATENCY);
	for (uint32_t i = 0; i < load->announce_count; i++) {
		struct port *port = t->forwarder.ports[i];
		const struct address *a = &load->announced[i];

		template_make(&hello, a, frame_len(port, FRAME_MIN + (a->vlan ? VLAN_BYTES : 0)),
			      arm->run, (uint16_t)load->first_flow, PHASE_ANNOUNCE,
			      port->engine->caps & ENGINE_PAYLOAD);
		if (port->completes_sums)
			template_leave_sum(&hello);
		if (!port_announce(port, &hello) || port->failed)
			return port->why[0] ? port->why : "the port could not announce its MAC";
	}
	return NULL;
}

static void control_arm(struct control *c, const struct arm_plan *arm)
{
	if (!c->port_count) {
		answer_error(c, "arm: open first");
		return;
	}
	control_halt(c);
	c->armed = false;
	if (arm->task_count != c->task_count) {
		answer_error(c, "arm: %u tasks, but %u are open", arm->task_count, c->task_count);
		return;
	}
	if (arm->has_clock) {
		c->clock = arm->clock;
		clock_derive(&c->clock);
	} else if (!c->clock.hz) {
		clock_measure(&c->clock, 50);
	}
	c->window = (struct window){ .interval = clock_ticks_in(&c->clock, arm->interval_ns) };
	for (uint32_t i = 0; i < c->task_count; i++) {
		const char *why = task_arm(c, &c->tasks[i], arm, &arm->tasks[i]);

		if (why) {
			answer_error(c, "arm: task %u (%s): %s", i, role_name(c->tasks[i].role),
				     why);
			return;
		}
	}
	c->armed = true;
	answer_ok(c);
}

/* ---- start, wait, stop, drain ----------------------------------------------------- */

static void control_start(struct control *c, const struct start_plan *plan)
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
	c->window.phase = plan->phase;
	for (uint32_t i = 0; i < c->task_count; i++)
		task_begin(&c->tasks[i]);
	for (uint32_t i = 0; i < c->port_count; i++)
		c->ports[i].engine->stats(&c->ports[i], &c->at_start[i]);
	c->running = true;
	for (uint32_t i = 0; i < c->worker_count; i++)
		worker_run(&c->workers[i]);
	answer(c, json_pack("{s:b,s:I}", "ok", 1, "at_ns", (json_int_t)clock_ns(&c->clock, at)));
}

static const char *control_failure(const struct control *c)
{
	for (uint32_t i = 0; i < c->port_count; i++)
		if (atomic_load_explicit(&c->ports[i].failed, memory_order_acquire))
			return c->ports[i].why;
	return NULL;
}

static void control_wait(struct control *c, uint64_t timeout_ms)
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

static void control_stop(struct control *c, uint64_t timeout_ms)
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
static void control_drain(struct control *c, uint64_t quiet_ms, uint64_t timeout_ms)
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
	if (c->window.phase == PHASE_WARMUP)
		control_halt(c);
	answer(c, json_pack("{s:b,s:b}", "ok", 1, "quiet", calm));
}

/* ---- report ----------------------------------------------------------------------- */

#define COUNT(value) ((json_int_t)(value))

static json_t *histogram_report(const struct histogram *h)
{
	json_t *counts = json_array();

	if (h->count) {
		uint32_t last = histogram_index(h->max);

		for (uint32_t i = histogram_index(h->min); i <= last; i++)
			if (h->counts[i])
				json_array_append_new(counts, json_pack("[I,I]", COUNT(i),
									COUNT(h->counts[i])));
	}
	return json_pack("{s:I,s:I,s:I,s:I,s:o}", "count", COUNT(h->count), "min",
			 COUNT(h->count ? h->min : 0), "max", COUNT(h->max), "sum", COUNT(h->sum),
			 "counts", counts);
}

static json_t *head_report(const uint8_t *head)
{
	char text[2 * HEAD_BYTES + 1];

	for (uint32_t i = 0; i < HEAD_BYTES; i++)
		snprintf(text + (size_t)2 * i, 3, "%02x", head[i]);
	return json_string(text);
}

static void watched_frame(void *context, uint8_t *head, uint32_t len)
{
	struct receiver *r = context;
	struct frame f = { .data = head, .len = len };
	struct payload p;
	uint32_t flow;

	if (frame_parse(head, len, r->run, &p, TOUCH_NONE, false) != FRAME_OURS)
		return;
	flow = (uint32_t)p.flow - r->first_flow;
	if (p.phase != r->window->phase || flow >= r->flows)
		return;
	/* A kernel numbers the frames of a socket as it likes. */
	frame_clear_identification(head);
	promise_check(&r->promise, &f, flow);
}

/* Compares what a watch has kept, once; from then on it costs nothing. */
static void receiver_watched(struct receiver *r)
{
	struct watch *w = r->promise.watch;

	if (!w || !w->ring)
		return;
	r->promise.unkept = watch_read(w, watched_frame, r);
	watch_close(w);
}

/* How many frames were compared, how many had other headers, and of the first of these what it
 * had and should have had. */
static json_t *promise_report(const struct promise *p)
{
	json_t *report =
		json_pack("{s:I,s:I}", "compared", COUNT(p->compared), "broken", COUNT(p->broken));

	if (p->unkept)
		json_object_set_new(report, "unkept", json_integer(COUNT(p->unkept)));
	if (p->watch && p->watch->why[0])
		json_object_set_new(report, "unseen", text_json(p->watch->why));
	if (p->broken) {
		json_object_set_new(report, "found", head_report(p->found));
		json_object_set_new(report, "promised", head_report(p->templates[p->flow].head));
	}
	return report;
}

static json_t *receiver_report(const struct control *c, const struct receiver *r)
{
	json_t *flows = json_array(), *intervals = json_array(), *report;
	uint64_t duplicated = 0, reordered = 0, beyond = 0;

	for (uint32_t i = 0; i < r->flows; i++) {
		struct sequence *s = &r->sequences[i];

		sequence_settle(s);
		json_array_append_new(flows, json_pack("[I,I,I,I]", COUNT(s->distinct),
						       COUNT(s->duplicated), COUNT(s->reordered),
						       COUNT(s->corrupted)));
		duplicated += s->duplicated;
		reordered += s->reordered;
		beyond += s->beyond;
	}
	for (uint32_t i = 0; i < r->interval_count; i++)
		json_array_append_new(intervals, json_integer(COUNT(r->intervals[i])));
	report = json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o}",
			   "early", COUNT(r->early), "frames", COUNT(r->rx), "bytes",
			   COUNT(r->bytes), "late", COUNT(r->late), "after_drain",
			   COUNT(r->after_drain), "duplicated", COUNT(duplicated), "reordered",
			   COUNT(reordered), "beyond", COUNT(beyond), "corrupted",
			   COUNT(r->corrupted), "foreign", COUNT(r->foreign), "stray",
			   COUNT(r->stray), "other_phase", COUNT(r->other_phase), "polls",
			   COUNT(r->polls), "empty_polls", COUNT(r->empty), "idle_ns",
			   COUNT((__int128)r->idle * 1000000000 / c->clock.hz), "flows", flows,
			   "intervals", intervals);
	if (r->promise.templates)
		json_object_set_new(report, "headers", promise_report(&r->promise));
	if (r->latency)
		json_object_set_new(report, "latency", histogram_report(r->latency));
	if (r->ipdv)
		json_object_set_new(report, "ipdv", histogram_report(r->ipdv));
	return report;
}

static json_t *sender_report(const struct control *c, const struct sender *s)
{
	uint64_t unsent = s->intended == UINT64_MAX ? 0 : s->intended + s->missed - s->sent;

	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "frames", COUNT(s->sent), "unsent",
			 COUNT(unsent), "polls", COUNT(s->polls), "empty_polls", COUNT(s->empty),
			 "blocked", COUNT(s->blocked), "lag_max_ns",
			 COUNT((__int128)s->lag_max * 1000000000 / c->clock.hz), "flows",
			 COUNT(s->flows), "sizes", COUNT(s->sizes));
}

static json_t *forwarder_report(const struct forwarder *w)
{
	return json_pack("{s:[I,I],s:[I,I],s:[I,I],s:I,s:I,s:I}", "in", COUNT(w->in[0]),
			 COUNT(w->in[1]), "out", COUNT(w->out[0]), COUNT(w->out[1]), "dropped",
			 COUNT(w->dropped[0]), COUNT(w->dropped[1]), "polls", COUNT(w->polls),
			 "empty_polls", COUNT(w->empty), "ignored", COUNT(w->ignored));
}

static json_t *task_report(const struct control *c, const struct task *t)
{
	json_t *report = json_pack("{s:s}", "role", role_name(t->role));

	if (role_sends(t->role))
		json_object_set_new(report, "sent", sender_report(c, &t->sender));
	if (role_receives(t->role))
		json_object_set_new(report, "received", receiver_report(c, &t->receiver));
	if (!role_sends(t->role) && !role_receives(t->role))
		json_object_set_new(report, "forwarded", forwarder_report(&t->forwarder));
	return report;
}

static json_t *thread_report(const struct control *c, const struct worker *w)
{
	const struct usage *before = &w->before, *after = &w->after;

	return json_pack("{s:i,s:I,s:I,s:I,s:I,s:I}", "cpu", w->cpu, "cpu_ns",
			 COUNT(after->cpu_ns - before->cpu_ns), "user_ns",
			 COUNT(after->user_ns - before->user_ns), "wait_ns",
			 after->wait_ns < 0 ? (json_int_t)-1 :
					      COUNT(after->wait_ns - before->wait_ns),
			 "yields", COUNT(w->yields), "started_late_ns",
			 COUNT((__int128)w->late * 1000000000 / c->clock.hz));
}

static void control_report(struct control *c)
{
	json_t *tasks, *ports, *threads;
	const char *why;

	if (!c->armed) {
		answer_error(c, "report: arm first");
		return;
	}
	control_halt(c);
	tasks = json_array();
	ports = json_array();
	threads = json_array();
	for (uint32_t i = 0; i < c->task_count; i++) {
		receiver_watched(&c->tasks[i].receiver);
		json_array_append_new(tasks, task_report(c, &c->tasks[i]));
	}
	for (uint32_t i = 0; i < c->port_count; i++) {
		struct engine_stats now, *then = &c->at_start[i];

		c->ports[i].engine->stats(&c->ports[i], &now);
		json_array_append_new(
			ports, json_pack("{s:o,s:o,s:I,s:I,s:I,s:I}", "ifname",
					 text_json(c->ports[i].config.ifname), "mode",
					 text_json(c->ports[i].mode), "rx_ring_drops",
					 COUNT(now.rx_ring_drops - then->rx_ring_drops),
					 "rx_invalid", COUNT(now.rx_invalid - then->rx_invalid),
					 "tx_errors", COUNT(now.tx_errors - then->tx_errors),
					 "tx_drops", COUNT(now.tx_drops - then->tx_drops)));
	}
	for (uint32_t i = 0; i < c->worker_count; i++)
		json_array_append_new(threads, thread_report(c, &c->workers[i]));
	why = control_failure(c);
	answer(c, json_pack("{s:b,s:o?,s:I,s:I,s:o,s:o,s:o}", "ok", 1, "failure",
			    why ? text_json(why) : NULL, "start_ns",
			    COUNT(clock_ns(&c->clock, c->window.start)), "duration_ns",
			    COUNT(clock_ns(&c->clock, c->window.end) -
				  clock_ns(&c->clock, c->window.start)),
			    "tasks", tasks, "ports", ports, "threads", threads));
}

/* ---- the loop over lines ---------------------------------------------------------- */

/* Tells the clock anew; those who move frames go on with the one that they were armed with. */
static void control_clock(struct control *c)
{
	struct clock found;

	clock_measure(&found, 50);
	if (!c->running)
		c->clock = found;
	answer(c, json_pack("{s:b,s:I,s:I,s:I}", "ok", 1, "ticks", COUNT(found.ticks0), "ns",
			    COUNT(found.ns0), "hz", COUNT(found.hz)));
}

static void control_command(struct control *c, const char *line, size_t len)
{
	char why[256] = "";

	if (!command_parse(line, len, &c->command, why, sizeof(why))) {
		answer_error(c, "%s", why);
		return;
	}
	switch (c->command.verb) {
	case VERB_OPEN:
		control_open(c, &c->command.open);
		return;
	case VERB_READY:
		control_ready(c, c->command.timeout_ms);
		return;
	case VERB_CLOCK:
		control_clock(c);
		return;
	case VERB_ARM:
		control_arm(c, &c->command.arm);
		return;
	case VERB_START:
		control_start(c, &c->command.start);
		return;
	case VERB_WAIT:
		control_wait(c, c->command.timeout_ms);
		return;
	case VERB_STOP:
		control_stop(c, c->command.timeout_ms);
		return;
	case VERB_DRAIN:
		control_drain(c, c->command.quiet_ms, c->command.timeout_ms);
		return;
	case VERB_REPORT:
		control_report(c);
		return;
	case VERB_CLOSE:
		control_close(c);
		answer_ok(c);
		return;
	}
}

/* Takes complete lines out of the buffer; returns how many bytes are left in it. */
static size_t control_lines(struct control *c, char *buffer, size_t filled)
{
	char *line = buffer, *end;

	while ((end = memchr(line, '\n', filled - (size_t)(line - buffer)))) {
		if (end > line)
			control_command(c, line, (size_t)(end - line));
		line = end + 1;
	}
	memmove(buffer, line, filled - (size_t)(line - buffer));
	return filled - (size_t)(line - buffer);
}

/* Reads on, once there is something or the end of it. Returns what read() does. */
static ssize_t control_read(struct control *c, char *buffer, size_t size)
{
	struct pollfd in = { .fd = c->in, .events = POLLIN | POLLRDHUP };

	if (ppoll(&in, 1, NULL, &c->open_to) < 0)
		return -1;
	return read(c->in, buffer, size);
}

int control_serve(int in, FILE *out)
{
	struct control *c = aligned_alloc(_Alignof(struct control), sizeof(*c));
	char *buffer = malloc(LINE_MAX_BYTES);
	struct sigaction action = { .sa_handler = on_signal };
	size_t filled = 0;
	sigset_t ending, before;

	if (!c || !buffer) {
		free(c);
		free(buffer);
		return 70;
	}
	memset(c, 0, sizeof(*c));
	/* Blocked but while it waits, here and in the threads to come: none is lost between a look
	 * at `terminated` and the wait. */
	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	pthread_sigmask(SIG_BLOCK, &ending, &before);
	c->open_to = before;
	sigdelset(&c->open_to, SIGTERM);
	sigdelset(&c->open_to, SIGINT);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	clock_begin();
	c->in = in;
	c->out = out;
	while (!terminated && !c->ended) {
		ssize_t got = control_read(c, buffer + filled, LINE_MAX_BYTES - filled);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		filled = control_lines(c, buffer, filled + (size_t)got);
		if (filled == LINE_MAX_BYTES) {
			answer_error(c, "a line is longer than %d bytes", LINE_MAX_BYTES);
			filled = 0;
		}
	}
	control_close(c);
	free(buffer);
	free(c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return 0;
}

void control_list_engines(FILE *out)
{
	json_t *list = json_array(), *object;

	for (const struct engine *const *e = engines; *e; e++) {
		json_t *options = json_array();

		for (const struct option_spec *s = (*e)->options; s && s->name; s++) {
			json_t *o = json_pack("{s:s,s:s}", "name", s->name, "help", s->help);

			if (s->type == OPTION_NUMBER) {
				json_object_set_new(o, "preset", json_integer(COUNT(s->preset)));
				json_object_set_new(o, "max", json_integer(COUNT(s->max)));
			} else if (s->choices) {
				json_t *choices = json_array();

				for (const char *const *v = s->choices; *v; v++)
					json_array_append_new(choices, json_string(*v));
				json_object_set_new(o, "choices", choices);
			}
			json_array_append_new(options, o);
		}
		json_array_append_new(
			list, json_pack("{s:s,s:s,s:b,s:b,s:b,s:o}", "name", (*e)->name, "summary",
					(*e)->summary, "sends", !!((*e)->caps & ENGINE_SENDS),
					"receives", !!((*e)->caps & ENGINE_RECEIVES), "payload",
					!!((*e)->caps & ENGINE_PAYLOAD), "options", options));
	}
	object = json_pack("{s:s,s:o}", "version", SWITCHMARK_VERSION, "engines", list);
	json_dumpf(object, out, JSON_COMPACT);
	fputc('\n', out);
	json_decref(object);
}
