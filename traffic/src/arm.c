/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares tasks for a trial: frame templates, flows, memory for counters. */
#include "header_tap.h"
#include "session.h"
#include "skew.h"
#include "socket.h"

#include <stdlib.h>
#include <unistd.h>

static void sender_free(struct sender *s)
{
	free(s->templates);
	free(s->frames);
	free(s->dues);
	free(s->lag);
	series_free(s->series);
	subflows_free(&s->subflows);
	*s = (struct sender){ .port = s->port };
}

static void receiver_free(struct receiver *r)
{
	free(r->frames);
	free(r->arrivals);
	free(r->sequences);
	free(r->windows);
	merged_free(r->merged);
	free(r->too_late);
	order_free(r->order);
	free(r->latency);
	free(r->widths);
	free(r->earliest);
	free(r->ipdv);
	free(r->neighbours);
	series_free(r->series);
	free(r->gaps);
	if (r->expected.tap)
		header_tap_close(r->expected.tap);
	free(r->expected.tap);
	free(r->expected.templates);
	subflows_free(&r->expected.subflows);
	free(r->intervals);
	memset(r, 0, sizeof(*r));
}

static void forwarder_free(struct forwarder *w)
{
	free(w->frames);
	free(w->copies);
	w->frames = w->copies = NULL;
}

static void announcer_free(struct announcer *a)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (a->list[i].past >= 0)
			close(a->list[i].past);
	a->count = 0;
}

void task_free(struct task *t)
{
	sender_free(&t->sender);
	receiver_free(&t->receiver);
	forwarder_free(&t->forwarder);
	announcer_free(&t->announcer);
}

static void mac_step(uint8_t mac[6], uint32_t by)
{
	uint32_t low = ((uint32_t)mac[3] << 16 | (uint32_t)mac[4] << 8 | mac[5]) + by;

	mac[3] = (uint8_t)(low >> 16);
	mac[4] = (uint8_t)(low >> 8);
	mac[5] = (uint8_t)low;
}

static void ip6_step(uint8_t ip[16], uint32_t by)
{
	store32(ip + 12, net32(net32(load32(ip + 12)) + by));
}

static void address_step(struct address *a, uint32_t vary, uint32_t by)
{
	if (vary & VARY_SRC_MAC)
		mac_step(a->src_mac, by);
	if (vary & VARY_DST_MAC)
		mac_step(a->dst_mac, by);
	if (vary & VARY_SRC_IP)
		a->src_ip += by, ip6_step(a->src_ip6, by);
	if (vary & VARY_DST_IP)
		a->dst_ip += by, ip6_step(a->dst_ip6, by);
	if (vary & VARY_SRC_PORT)
		a->src_port = (uint16_t)(a->src_port + by);
	if (vary & VARY_DST_PORT)
		a->dst_port = (uint16_t)(a->dst_port + by);
}

/* Returns the addresses of flow number `flow` of `flows`; all zero if there are none. */
static struct address address_of(const struct address_plan *plan, uint32_t flow, uint32_t flows)
{
	const uint32_t per_address = flows / (plan->count ? plan->count : 1);
	struct address a = plan->list[flow / per_address];

	address_step(&a, plan->vary, flow % per_address);
	return a;
}

static struct histogram *histogram_new(void)
{
	struct histogram *h =
		aligned_alloc(CACHE_LINE, (sizeof(*h) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);

	if (h)
		histogram_clear(h); /* a report may be requested before the first phase */
	return h;
}

/* Returns the length of a frame as the engine sees it. */
static uint32_t frame_len(const struct port *port, uint32_t len)
{
	return port->engine->caps & ENGINE_PAYLOAD ? len - ETH_BYTES - IP_BYTES - UDP_BYTES : len;
}

/* Returns the start of a core's share. */
static uint32_t share_of(uint32_t whole, uint32_t core, uint32_t cores)
{
	return (uint32_t)((uint64_t)whole * core / cores);
}

static const char *sender_arm(struct session *session, struct task *t, const struct arm_plan *arm,
			      const struct task_load *load)
{
	struct sender *s = &t->sender;
	bool headless = s->port->engine->caps & ENGINE_PAYLOAD;
	/* One core sends all frames of a flow, which keeps their order. */
	const uint32_t first = share_of(load->flows, t->core, t->cores);
	const uint32_t flows = share_of(load->flows, t->core + 1, t->cores) - first;

	sender_free(s);
	if (!flows)
		return "a flow is sent by one core: there are fewer flows than cores";
	if (!load->len_count)
		return "a sender needs frame_bytes";
	if (headless &&
	    (load->sent.list[0].vlan || load->sent.list[0].v6 || load->sent.list[0].vxlan ||
	     (load->sent.vary & ~(uint32_t)VARY_SRC_PORT) || load->sent.subflows.count))
		return "a UDP engine leaves headers to the kernel: flows differ by src_port only, of IPv4, without a tag or tunnel";
	for (uint32_t i = 0; i < load->len_count; i++)
		if (load->lens[i] > s->port->config.frame_max)
			return "frame_bytes is above that of open";
	if (load->burst > s->port->config.burst)
		return "burst is above that of open";
	s->flows = flows;
	s->sizes = load->len_count;
	s->burst = load->burst;
	s->rate_pps = load->rate_pps * flows / load->flows;
	s->rate_before = load->rate_pps * first / load->flows;
	s->stagger = (load->stagger + t->core) / t->cores;
	s->limit =
		load->frames * (first + flows) / load->flows - load->frames * first / load->flows;
	/* The lowest first flow of all senders of a port: the flows of its sockets are numbered
	 * consecutively. */
	if (load->first_flow + first < s->port->first_flow)
		s->port->first_flow = load->first_flow + first;
	s->delay_ticks = clock_ticks_in(&session->clock, load->delay_ns);
	s->clock = &session->clock;
	s->window = &session->window;
	s->templates = aligned_alloc(CACHE_LINE, sizeof(*s->templates) * s->flows * s->sizes);
	s->frames = lines_alloc(s->burst, sizeof(*s->frames));
	s->seed = mix64(load->seed + load->first_flow + first);
	s->pacing.arrivals = load->arrivals;
	s->stamps_sent = load->stamps_sent;
	s->subflows = load->sent.subflows;
	s->subflows.first += first * s->subflows.step;
	s->dues = lines_alloc(s->burst, sizeof(*s->dues));
	s->lag = s->rate_pps > 0 ? histogram_new() : NULL;
	if (arm->series_ns)
		s->series = series_make(arm->longest_ns, arm->series_ns, false);
	if (!s->templates || !s->frames || !s->dues || (s->rate_pps > 0 && !s->lag) ||
	    (arm->series_ns && !s->series) || !subflows_make(&s->subflows))
		return "no memory for so many flows";
	for (uint32_t f = 0; f < s->flows; f++) {
		struct address a = address_of(&load->sent, first + f, load->flows);

		for (uint32_t i = 0; i < s->sizes; i++) {
			struct frame_template *made = &s->templates[(size_t)f * s->sizes + i];

			template_make(made, &a, frame_len(s->port, load->lens[i]), arm->run,
				      (uint16_t)(load->first_flow + first + f), PHASE_MEASURED,
				      headless);
			if (s->port->completes_sums && !a.v6 && !a.vxlan)
				template_leave_sum(made);
		}
	}
	return NULL;
}

/* Returns the window size of a flow in bits: a million frames for one flow, less per flow for
 * many. */
static uint32_t window_bits(uint32_t flows)
{
	uint32_t bits = 1 << 20;

	while (bits > 4096 && (uint64_t)bits * flows > 1 << 24)
		bits /= 2;
	return bits;
}

/* Builds the headers that a receiver expects, and opens a tap if its engine sees no headers.
 * Without the privilege the tap stays closed and records the reason. */
static const char *expected_headers_make(struct receiver *r, const struct arm_plan *arm,
					 const struct address_plan *expected)
{
	struct expected_headers *p = &r->expected;

	p->templates = aligned_alloc(CACHE_LINE, sizeof(*p->templates) * r->flows);
	p->subflows = expected->subflows;
	if (!p->templates || !subflows_make(&p->subflows))
		return "no memory for so many flows";
	for (uint32_t i = 0; i < r->flows; i++) {
		struct address a = address_of(expected, i, r->flows);

		template_make(&p->templates[i], &a, frame_least(&a), arm->run,
			      (uint16_t)(r->first_flow + i), PHASE_MEASURED, false);
	}
	if (!(r->port->engine->caps & ENGINE_PAYLOAD))
		return NULL;
	p->tap = calloc(1, sizeof(*p->tap));
	if (!p->tap)
		return "no memory";
	header_tap_open(p->tap, r->port);
	return NULL;
}

/* Returns the thread that runs a task. */
static const struct worker *worker_of_task(const struct session *session, const struct task *t)
{
	for (uint32_t i = 0; i < session->worker_count; i++)
		for (uint32_t j = 0; j < session->workers[i].count; j++)
			if (session->workers[i].tasks[j] == t)
				return &session->workers[i];
	return NULL;
}

/* Returns the CPU of the thread that runs a task; -1: any. */
static int cpu_of_task(const struct session *session, const struct task *t)
{
	const struct worker *w = worker_of_task(session, t);

	return w ? w->cpu : -1;
}

/* True if a long call of this task's engine keeps no other task waiting. */
static bool task_is_alone(const struct session *session, const struct task *t)
{
	const struct worker *w = worker_of_task(session, t);

	return w && w->count == 1 && !w->yield;
}

#define SKEW_UNKNOWN_NS 10000 /* far above the skew of a counter that a kernel uses as its clock */

/* Returns the maximum skew, in ticks, between the counters of two of a task's CPUs; `t` is the task
 * on the first core. */
static uint64_t cores_clock_skew(const struct session *session, const struct task *t)
{
	const int first = cpu_of_task(session, t);
	uint64_t most = 0;

	for (uint32_t core = 1; core < t->cores; core++) {
		const int other = cpu_of_task(session, t + core);
		uint64_t apart = clock_ticks_in(&session->clock, SKEW_UNKNOWN_NS);
		struct skew found;

		if (other == first && other >= 0)
			continue;
		if (first >= 0 && other >= 0 &&
		    skew_measure((unsigned)first, (unsigned)other, session->clock.hz / 1000,
				 &found))
			apart = (uint64_t)llabs(found.ticks) + found.within;
		most = apart > most ? apart : most;
	}
	return t->cores > 2 ? 2 * most : most; /* each core is measured against the first */
}

static const char *receiver_arm(struct session *session, struct task *t, const struct arm_plan *arm,
				const struct task_load *load)
{
	struct receiver *r = &t->receiver;
	struct port *port = r->port;
	const uint64_t bits = t->cores > 1 ? CHUNK : window_bits(load->flows);

	receiver_free(r);
	r->port = port;
	r->run = arm->run;
	r->first_flow = load->first_flow;
	r->flows = load->flows;
	r->burst = load->burst < port->config.burst ? load->burst : port->config.burst;
	r->clock = &session->clock;
	r->window = &session->window;
	r->delay_ticks = clock_ticks_in(&session->clock, load->delay_ns);
	r->interval_count = (uint32_t)(arm->longest_ns / arm->interval_ns) + 1;
	r->frames = lines_alloc(r->burst, sizeof(*r->frames));
	if (port->notes_arrivals)
		r->arrivals = lines_alloc(r->burst, sizeof(*r->arrivals));
	r->sequences = aligned_alloc(CACHE_LINE, sizeof(*r->sequences) * r->flows);
	r->windows = lines_alloc((size_t)(r->flows * bits / 64), sizeof(uint64_t));
	if (t->cores > 1) {
		const struct receiver *first = &t[-(ptrdiff_t)t->core].receiver;

		r->too_late = calloc(TOO_LATE_MAX, sizeof(*r->too_late));
		r->merged = merged_make(t->core, t->cores, r->sequences, r->flows,
					t->core ? first->merged->all : NULL);
		if (!r->too_late || !r->merged)
			return "no memory";
		if (arm->touch != TOUCH_NONE) {
			r->order = order_make(t->core, r->flows,
					      t->core ? first->order->shared : NULL);
			if (!r->order)
				return "no memory";
			if (!t->core)
				r->order->shared->clock_skew = cores_clock_skew(session, t);
		}
	}
	r->intervals = lines_alloc(r->interval_count, sizeof(uint64_t));
	if (arm->series_ns) {
		r->series = series_make(arm->longest_ns, arm->series_ns, load->latency);
		if (load->latency && t->cores == 1)
			r->gaps = lines_alloc(r->flows, sizeof(*r->gaps));
		if (!r->series || (load->latency && t->cores == 1 && !r->gaps))
			return "no memory for so many intervals";
	}
	if (load->latency) {
		r->latency = histogram_new();
		r->widths = histogram_new();
		r->earliest = histogram_new();
		r->exact = port->stamps_by && strcmp(port->stamps_by, "call");
	}
	if (load->latency && load->ipdv) {
		r->ipdv = histogram_new();
		r->neighbours = lines_alloc(r->flows, sizeof(*r->neighbours));
	}
	/* One tap sees the frames of all cores. */
	if (load->expected.count && (!t->core || !(port->engine->caps & ENGINE_PAYLOAD))) {
		const char *why = expected_headers_make(r, arm, &load->expected);

		if (why)
			return why;
		r->expected.identified = load->identified;
	}
	if (!r->frames || (port->notes_arrivals && !r->arrivals) || !r->sequences || !r->windows ||
	    !r->intervals ||
	    (load->latency && (!r->latency || !r->widths || !r->earliest ||
			       (load->ipdv && (!r->ipdv || !r->neighbours)))))
		return "no memory for so many flows";
	r->follows = r->neighbours || r->gaps;
	for (uint32_t i = 0; i < r->flows; i++)
		r->sequences[i] = (struct sequence){ .window = r->windows + (size_t)(i * bits / 64),
						     .bits = bits };
	port_discard(port, r->frames, r->burst, 1 << 20);
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
	}
	forwarder_free(w);
	w->burst = burst;
	w->run = run;
	w->first_flow = load->first_flow;
	w->flows = load->flows;
	w->frames = lines_alloc(burst, sizeof(*w->frames));
	w->copies = lines_alloc(burst, sizeof(*w->copies));
	if (!w->frames || !w->copies)
		return "no memory";
	for (int i = 0; i < 2; i++)
		port_discard(w->ports[i], w->frames, burst, 1 << 20);
	return NULL;
}

static void hello_make(struct announcement *n, const struct address *a, uint32_t run, uint32_t flow)
{
	struct port *port = n->port;

	template_make(&n->hello, a, frame_len(port, frame_least(a)), run, (uint16_t)flow,
		      PHASE_ANNOUNCE, port->engine->caps & ENGINE_PAYLOAD);
	if (n->past < 0 && port->completes_sums && !a->v6 && !a->vxlan)
		template_leave_sum(&n->hello);
}

/* Announces the MAC of one port of a task, and keeps the frame if it is to be repeated. */
static const char *announcement_arm(struct task *t, uint32_t i, uint32_t run,
				    const struct task_load *load)
{
	struct port *port = t->forwarder.ports[i];
	struct announcement *n = &t->announcer.list[t->announcer.count];
	struct address a = load->announced[i];
	bool sent;

	if (frame_least(&a) > port->config.frame_max)
		return "announce: its frame is longer than frame_bytes of open";
	n->port = port;
	n->past = -1;
	/* The engine may be receive-only, or a sender may have built frames in its ring already. */
	if (port->engine->caps & ENGINE_NEEDS_INTERFACE) {
		n->past = packet_sender(port);
		if (n->past < 0)
			return port->why;
	}
	hello_make(n, &a, run, load->first_flow);
	sent = port_announce(port, n->past, &n->hello);
	if (load->again[i]) {
		memcpy(a.dst_mac, load->again_to[i], 6);
		hello_make(n, &a, run, load->first_flow);
		t->announcer.count++;
	} else if (n->past >= 0) {
		close(n->past);
	}
	if (sent && !port->failed)
		return NULL;
	return port->why[0] ? port->why : "the port could not announce its MAC";
}

static const char *task_arm(struct session *session, struct task *t, const struct arm_plan *arm,
			    const struct task_load *load)
{
	const char *why = NULL;

	announcer_free(&t->announcer);
	if (role_sends(t->role))
		why = sender_arm(session, t, arm, load);
	if (!why && role_receives(t->role))
		why = receiver_arm(session, t, arm, load);
	if (!why && role_forwards(t->role))
		why = forwarder_arm(t, arm->run, load);
	if (why)
		return why;
	task_choose_step(t, arm->touch,
			 t->receiver.expected.templates && !t->receiver.expected.tap ?
				 TIMING_HEADERS :
			 !load->latency ? TIMING_NONE :
			 load->ipdv	? TIMING_IPDV :
					  TIMING_LATENCY);
	t->sender.repeats &= task_is_alone(session, t);
	for (uint32_t i = 0; !why && !t->core && i < load->announce_count; i++)
		why = announcement_arm(t, i, arm->run, load);
	return why;
}

const char *session_arm(struct session *session, const struct arm_plan *arm)
{
	uint32_t open = 0;

	if (!session->port_count)
		return "arm: open first";
	session_halt(session);
	session->armed = false;
	for (uint32_t i = 0; i < session->task_count; i += session->tasks[i].cores)
		open++;
	if (arm->task_count != open)
		return session_error(session, "arm: %u tasks, but %u are open", arm->task_count,
				     open);
	if (arm->has_clock) {
		session->clock = arm->clock;
		clock_derive(&session->clock);
	} else {
		if (!session->measured.hz)
			clock_measure(&session->measured, 50);
		session->clock = session->measured;
	}
	for (uint32_t i = 0; i < session->port_count; i++)
		session->ports[i].first_flow = UINT32_MAX;
	session->window = (struct window){
		.interval = clock_ticks_in(&session->clock, arm->interval_ns),
		.announce_every = clock_ticks_in(&session->clock, arm->announce_every_ns),
	};
	for (uint32_t i = 0, plan = 0; i < session->task_count; i++) {
		struct task *t = &session->tasks[i];
		const char *why;
		cpu_set_t before;
		/* The first write places memory on a NUMA node: use the CPU of the task's
		 * thread. */
		int moved = cpu_move(cpu_of_task(session, t), &before);

		why = task_arm(session, t, arm, &arm->tasks[plan]);
		cpu_return(moved, &before);
		if (why)
			return session_error(session, "arm: task %u (%s): %s", plan,
					     role_names[t->role], why);
		plan += t->core + 1 == t->cores;
	}
	session->armed = true;
	return NULL;
}
