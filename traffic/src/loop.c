/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include "privileges.h"
#include "socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- sending ---------------------------------------------------------------------- */

/* The same, of frames that are due one by one; `dues` has when each should have left. */
static uint32_t sender_due_singly(struct sender *s, uint64_t now)
{
	while (s->ready < s->burst && s->window->start + pacing_due(&s->pacing) <= now) {
		s->dues[s->ready++] = s->window->start + pacing_due(&s->pacing);
		pacing_next(&s->pacing);
	}
	if (s->ready && now - s->dues[0] > s->lag_max)
		s->lag_max = now - s->dues[0];
	return s->ready;
}

/* How many frames are due, of one burst at most; sets when they should have left. */
always_inline uint32_t sender_due(struct sender *s, uint64_t now, uint64_t *due)
{
	uint64_t left = s->intended - s->built;

	if (s->singly)
		return sender_due_singly(s, now);
	if (s->intended == UINT64_MAX) {
		*due = now;
		return now >= s->window->start && now < s->window->end ? s->burst : 0;
	}
	*due = (uint64_t)(s->due >> 32);
	if (now < *due || !left)
		return 0;
	if (now - *due > s->lag_max)
		s->lag_max = now - *due;
	return left < s->owed ? (uint32_t)left : s->owed;
}

/* Notes that room was found for `got` frames of a burst. There may not have been for all: the
 * rest of it stays due at the time of the burst. */
always_inline void sender_pay(struct sender *s, uint32_t got)
{
	s->owed -= got;
	if (likely(!s->owed)) {
		s->owed = s->burst;
		s->due += s->intended - s->built - got > s->burst ? s->period : s->last_period;
	}
}

/* Who makes what of a frame: we, the kernel its headers, or the port's device some of it. A port
 * of the latter two may know when each frame arrived. */
enum form { FORM_WHOLE, FORM_PAYLOAD, FORM_DEVICE };

always_inline void sender_write(struct sender *s, uint32_t n, uint64_t due, const enum touch touch,
				const enum form form, const bool varied)
{
	const bool headless = form == FORM_PAYLOAD;
	uint64_t time_net = time_to_net(clock_ns(s->clock, due));
	uint64_t sum = time_sum(time_net);
	const uint32_t flows = s->flows, sizes = s->sizes;
	const bool single = flows * sizes == 1;
	struct frame *frames = s->frames;
	const struct frame_template *t = &s->templates[(size_t)s->flow * sizes + s->size];
	/* Bytes go through pointers that may alias anything: what the loop needs is held here. */
	uint32_t flow = s->flow, seq = s->seq, size = s->size, round_size = s->round_size;
	const struct subflows subflows = s->subflows;
	uint32_t subflow = s->subflow;
	/* Where the memory of sent frames comes back as it was, only what changes is written. A
	 * frame that came in may lie in the memory of a port that receives. */
	const bool reuse = !s->port->config.receives && !(headless && sizes > 1);

	for (uint32_t i = 0; i < n; i++) {
		uint8_t *d = frames[i].data;
		bool prepared = reuse && frame_is_of(d, t, headless);
		bool by_device = form == FORM_DEVICE && t->device_sums;
		uint64_t differs = 0;
		uint32_t number = 0;

		if (varied && s->singly) {
			time_net = time_to_net(clock_ns(s->clock, s->dues[i]));
			sum = time_sum(time_net);
		}
		if (varied && subflows.count) {
			number = subflows.first + subflow;
			if (subflows.order != ORDER_SEQUENTIAL || flows > 1) {
				number = subflow_of(&subflows, seq) + flow * subflows.step;
			} else if (unlikely(++subflow == subflows.count)) {
				/* Sizes begin one further in each round, as for flows. */
				subflow = 0;
				round_size++;
			}
			differs = subflow_sum(&subflows, t, number);
		}
		frames[i].len = t->len;
		frame_write(d, t, seq, time_net, sum + differs, touch, headless, prepared,
			    by_device);
		if (varied && subflows.count) {
			subflow_write(&subflows, d, t, number, differs);
			if (touch == TOUCH_NONE || by_device)
				frame_sum(d, t, differs, by_device && subflows.by == SUBFLOW_PORT);
		}
		if (likely(single)) {
			seq++;
			continue;
		}
		if (++size == sizes)
			size = 0;
		/* In each round every flow has the size after its last one: all get the whole mix. */
		if (++flow == flows) {
			flow = 0;
			seq++;
			if (++round_size >= sizes)
				round_size -= sizes;
			size = round_size;
		}
		t = &s->templates[(size_t)flow * sizes + size];
		__builtin_prefetch(t);
	}
	s->flow = flow;
	s->seq = seq;
	s->size = size;
	s->round_size = round_size;
	s->subflow = subflow;
	s->built += n;
}

always_inline void sender_build(struct sender *s, uint32_t n, uint64_t due, const enum touch touch,
				const enum form form)
{
	if (likely(!s->singly && !s->subflows.count)) {
		sender_write(s, n, due, touch, form, false);
		return;
	}
	sender_write(s, n, due, touch, form, true);
	if (s->singly) {
		s->ready -= n;
		memmove(s->dues, s->dues + n, s->ready * sizeof(*s->dues));
	}
}

/* Notes how long after they were due frames are built. */
always_inline void sender_lag(struct sender *s, uint32_t n, uint64_t now, uint64_t due)
{
	if (!s->singly) {
		histogram_add(s->lag, clock_ns_in(s->clock, now - due), n);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		histogram_add(s->lag, clock_ns_in(s->clock, now - s->dues[i]), 1);
}

always_inline uint32_t sender_step(struct task *task, uint64_t now, const enum touch touch,
				   const enum form form)
{
	struct sender *s = &task->sender;
	bool room = true;
	uint32_t taken;

	if (unlikely(now < s->window->start))
		return 0;
	s->polls++;
	if (!s->held) {
		uint64_t due = now;
		uint32_t n = 0;

		if (likely(now < s->window->end + s->grace) && !task->stop)
			n = sender_due(s, now, &due);
		if (n) {
			uint32_t got = s->port->engine->alloc(s->port, s->frames, n);

			if (s->intended != UINT64_MAX && s->lag && got)
				sender_lag(s, got, now, due);
			if (s->intended != UINT64_MAX && !s->singly)
				sender_pay(s, got);
			room = got == n;
			n = got;
		}
		if (!n) {
			s->empty += room;
			s->blocked += !room;
			if (now >= s->window->end + s->grace || task->stop ||
			    s->built == s->intended)
				task->sent_all = true;
			return 0;
		}
		s->first = 0;
		s->held = n;
		sender_build(s, n, due, touch, form);
	} else if (unlikely(now >= s->window->end + s->grace || task->stop)) {
		task->sent_all = true;
		return 0;
	}
	taken = s->port->tx(s->port, s->frames + s->first, s->held);
	s->first += taken;
	s->held -= taken;
	s->sent += taken;
	s->blocked += !room || s->held;
	if (unlikely(s->delay_ticks)) {
		uint64_t until = clock_ticks() + s->delay_ticks * taken;

		while (clock_ticks() < until)
			;
	}
	return taken;
}

/* ---- receiving -------------------------------------------------------------------- */

/* A frame counts if the one sent before it is the one that came before it. */
always_inline void receiver_vary(struct receiver *r, uint32_t flow, uint32_t seq, uint64_t delay_ns)
{
	struct neighbour *n = &r->neighbours[flow];

	if (n->known && seq == n->next)
		histogram_add(r->ipdv,
			      delay_ns > n->delay_ns ? delay_ns - n->delay_ns :
						       n->delay_ns - delay_ns,
			      1);
	*n = (struct neighbour){ delay_ns, seq + 1, true };
}

void promise_check(struct promise *p, const struct frame *f, uint32_t flow, uint32_t seq)
{
	struct frame_template wanted;

	subflow_template(&p->subflows, &wanted, &p->templates[flow], flow, seq);
	p->compared++;
	if (headers_agree(f->data, f->len, &wanted) || p->broken++)
		return;
	p->wanted = wanted;
	memcpy(p->found, f->data, f->len < HEAD_BYTES ? f->len : HEAD_BYTES);
}

always_inline void receiver_count(struct receiver *r, const struct frame *f, uint64_t now_ns,
				  const enum touch touch, const enum timing timing,
				  const bool headless, const enum device_sum device,
				  uint32_t *fresh)
{
	struct payload p;
	uint32_t flow;

	switch (frame_judge(f->data, f->len, r->run, &p, touch, headless, device)) {
	case FRAME_OURS:
		break;
	case FRAME_CORRUPT:
		r->corrupted++;
		flow = (uint32_t)p.flow - r->first_flow;
		if (flow < r->flows)
			r->sequences[flow].corrupted++;
		return;
	case FRAME_FOREIGN:
		r->foreign++;
		return;
	}
	if (unlikely(p.phase != r->window->phase)) {
		r->other_phase++;
		return;
	}
	flow = (uint32_t)p.flow - r->first_flow;
	if (unlikely(flow >= r->flows)) {
		r->stray++;
		return;
	}
	if (touch != TOUCH_NONE && !sequence_add(&r->sequences[flow], p.seq))
		return;
	(*fresh)++;
	r->bytes += f->len;
	if (timing == TIMING_HEADERS) {
		promise_check(&r->promise, f, flow, p.seq);
		return;
	}
	if (timing && touch != TOUCH_NONE) {
		uint64_t delay_ns = 0;

		if (likely(now_ns >= p.time_ns))
			delay_ns = now_ns - p.time_ns;
		else
			r->early++;
		histogram_add(r->latency, delay_ns, 1);
		if (timing == TIMING_IPDV)
			receiver_vary(r, flow, p.seq, delay_ns);
	}
}

/* After the drain a frame is lost, however late it comes: what was not seen before is told as the
 * reason of a loss, and no count of a flow changes any more. */
static __attribute__((noinline)) void receiver_too_late(struct receiver *r, uint32_t n,
							const struct arrival *arrivals,
							enum touch touch, bool headless)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct frame *f = &r->frames[i];
		enum device_sum device = arrivals ? arrivals[i].sum : DEVICE_SUM_UNKNOWN;
		struct payload p;
		uint32_t flow;

		if (frame_judge(f->data, f->len, r->run, &p, touch, headless, device) !=
			    FRAME_OURS ||
		    p.phase != r->window->phase)
			continue;
		flow = (uint32_t)p.flow - r->first_flow;
		if (flow >= r->flows)
			continue;
		if (touch != TOUCH_NONE && r->too_late && r->too_late_count < TOO_LATE_MAX)
			r->too_late[r->too_late_count++] = (struct too_late){ flow, p.seq };
		else if (touch == TOUCH_NONE || r->too_late ||
			 sequence_add_late(&r->sequences[flow], p.seq))
			r->after_drain++;
	}
}

always_inline uint32_t receiver_step(struct task *task, uint64_t now, const enum touch touch,
				     const enum timing timing, const enum form form)
{
	struct receiver *r = &task->receiver;
	struct arrival *arrivals = form == FORM_WHOLE ? NULL : r->arrivals;
	const bool headless = form == FORM_PAYLOAD;
	uint32_t n = r->port->rx(r->port, r->frames, arrivals, r->burst), fresh = 0;
	const bool measured = now >= r->window->start && now < r->window->end;
	uint64_t now_ns = 0;
	bool draining;

	r->polls += measured;
	if (unlikely(r->idle_since)) {
		r->idle += measured ? now - r->idle_since : 0;
		r->idle_since = 0;
	}
	if (!n) {
		r->empty += measured;
		r->idle_since = measured ? now : 0;
		if (unlikely(atomic_load_explicit(&r->draining, memory_order_relaxed)))
			atomic_store_explicit(&r->looked, true, memory_order_relaxed);
		return 0;
	}
	now = clock_ticks();
	draining = atomic_load_explicit(&r->draining, memory_order_relaxed);
	if (unlikely(draining && atomic_load_explicit(&r->closed, memory_order_relaxed))) {
		receiver_too_late(r, n, arrivals, touch, headless);
		r->port->engine->release(r->port, r->frames, n);
		return n;
	}
	if (timing)
		now_ns = clock_ns(r->clock, now);
	for (uint32_t i = 0; i < n; i++) {
		if (i + 4 < n)
			__builtin_prefetch(r->frames[i + 4].data);
		if (form != FORM_WHOLE && arrivals) {
			const struct arrival *a = &arrivals[i];

			receiver_count(r, &r->frames[i],
				       timing && a->ticks ? clock_ns(r->clock, a->ticks) : now_ns,
				       touch, timing, headless, a->sum, &fresh);
			continue;
		}
		receiver_count(r, &r->frames[i], now_ns, touch, timing, headless,
			       DEVICE_SUM_UNKNOWN, &fresh);
	}
	r->port->engine->release(r->port, r->frames, n);
	while (unlikely(now >= r->interval_end) && r->interval + 1 < r->interval_count) {
		r->interval++;
		r->interval_end += r->window->interval;
	}
	r->intervals[r->interval] += fresh;
	if (unlikely(draining))
		r->late += fresh;
	r->rx += fresh;
	atomic_store_explicit(&r->seen, r->rx, memory_order_relaxed);
	if (unlikely(r->delay_ticks)) {
		uint64_t until = now + r->delay_ticks * n;

		while (clock_ticks() < until)
			;
	}
	return n;
}

/* ---- forwarding ------------------------------------------------------------------- */

/* Puts frames of `from` into memory that `to` can send. Returns how many fit. */
static uint32_t forwarder_copy(struct forwarder *w, struct port *from, struct port *to, uint32_t n)
{
	uint32_t room = to->engine->alloc(to, w->copies, n), used = 0;

	for (uint32_t i = 0; i < n && used < room; i++) {
		if (unlikely(w->frames[i].len > to->config.frame_max))
			continue;
		memcpy(w->copies[used].data, w->frames[i].data, w->frames[i].len);
		w->copies[used++].len = w->frames[i].len;
	}
	if (used < room)
		to->engine->release(to, w->copies + used, room - used);
	from->engine->release(from, w->frames, n);
	return used;
}

/* What of a burst a server sends back: test frames of this run. Others would make a switch that
 * learns believe that who sent them has moved; they are given back. */
static uint32_t forwarder_ours(struct forwarder *w, struct port *from, uint32_t n)
{
	const bool headless = from->engine->caps & ENGINE_PAYLOAD;
	uint32_t ours = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct frame f = w->frames[i];
		struct payload p;

		if (unlikely(frame_parse(f.data, f.len, w->run, &p, TOUCH_NONE, headless) !=
				     FRAME_OURS ||
			     p.phase == PHASE_ANNOUNCE)) {
			from->engine->release(from, &f, 1);
			w->ignored++;
			continue;
		}
		w->frames[ours++] = f;
	}
	return ours;
}

always_inline uint32_t forwarder_way(struct forwarder *w, uint32_t way)
{
	struct port *from = w->ports[way], *to = w->ports[!way];
	const uint32_t come = from->rx(from, w->frames, NULL, w->burst);
	uint32_t n = come && w->reflect ? forwarder_ours(w, from, come) : come;
	uint32_t ready = n, sent = 0;
	struct frame *f = w->frames;
	const uint32_t caps = to->engine->caps;
	const bool direct = from == to ? caps & ENGINE_REFLECTS :
					 from->engine == to->engine && (caps & ENGINE_CROSSES);

	if (!n)
		return come;
	if (!direct) {
		ready = forwarder_copy(w, from, to, n);
		f = w->copies;
	}
	for (uint32_t i = 0; i < ready; i++) {
		if (w->reflect && !(caps & ENGINE_PAYLOAD))
			frame_reflect(&f[i]);
		if (w->rewrite[!way]) {
			memcpy(f[i].data, w->dst_mac[!way], 6);
			memcpy((uint8_t *)f[i].data + 6, w->src_mac[!way], 6);
		}
	}
	/* A full ring may have room in a moment; a burst is offered a few times, as a switch's
	 * port would buffer it, and then dropped. */
	for (int tries = 0; sent < ready && tries < 8; tries++)
		sent += to->tx(to, f + sent, ready - sent);
	if (sent < ready)
		(direct ? from : to)->engine->release(direct ? from : to, f + sent, ready - sent);
	w->in[way] += n;
	w->out[!way] += sent;
	w->dropped[!way] += n - sent;
	return come;
}

static uint32_t forwarder_step(struct task *task, uint64_t now)
{
	struct forwarder *w = &task->forwarder;
	uint32_t moved = forwarder_way(w, 0);

	(void)now;
	if (w->ports[0] != w->ports[1])
		moved += forwarder_way(w, 1);
	w->polls++;
	w->empty += !moved;
	return moved;
}

/* ---- steps: one function for each combination, so that the loops hold no such branch ---- */

typedef uint32_t step_function(struct task *, uint64_t);

#define STEPS(touch, form, timing)                                                                 \
	static uint32_t sender_##touch##_##form##_##timing(struct task *t, uint64_t now)           \
	{                                                                                          \
		return sender_step(t, now, touch, form);                                           \
	}                                                                                          \
	static uint32_t receiver_##touch##_##form##_##timing(struct task *t, uint64_t now)         \
	{                                                                                          \
		return receiver_step(t, now, touch, timing, form);                                 \
	}                                                                                          \
	static uint32_t client_##touch##_##form##_##timing(struct task *t, uint64_t now)           \
	{                                                                                          \
		return receiver_step(t, now, touch, timing, form) +                                \
		       sender_step(t, clock_ticks(), touch, form);                                 \
	}

#define STEPS_OF(touch)                                                                            \
	STEPS(touch, 0, 0)                                                                         \
	STEPS(touch, 0, 1)                                                                         \
	STEPS(touch, 0, 2)                                                                         \
	STEPS(touch, 0, 3)                                                                         \
	STEPS(touch, 1, 0)                                                                         \
	STEPS(touch, 1, 1)                                                                         \
	STEPS(touch, 1, 2)                                                                         \
	STEPS(touch, 1, 3)                                                                         \
	STEPS(touch, 2, 0) STEPS(touch, 2, 1) STEPS(touch, 2, 2) STEPS(touch, 2, 3)

STEPS_OF(TOUCH_NONE)
STEPS_OF(TOUCH_HEADER)
STEPS_OF(TOUCH_FULL)

#define ROW(role, touch)                                                                           \
	{                                                                                          \
		{ role##_##touch##_0_0, role##_##touch##_0_1, role##_##touch##_0_2,                \
		  role##_##touch##_0_3 },                                                          \
			{ role##_##touch##_1_0, role##_##touch##_1_1, role##_##touch##_1_2,        \
			  role##_##touch##_1_3 },                                                  \
		{                                                                                  \
			role##_##touch##_2_0, role##_##touch##_2_1, role##_##touch##_2_2,          \
				role##_##touch##_2_3                                               \
		}                                                                                  \
	}

static step_function *const steps[3][3][3][4] = {
	{ ROW(sender, TOUCH_NONE), ROW(sender, TOUCH_HEADER), ROW(sender, TOUCH_FULL) },
	{ ROW(receiver, TOUCH_NONE), ROW(receiver, TOUCH_HEADER), ROW(receiver, TOUCH_FULL) },
	{ ROW(client, TOUCH_NONE), ROW(client, TOUCH_HEADER), ROW(client, TOUCH_FULL) },
};

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

	if (t->role == ROLE_SERVER || t->role == ROLE_FORWARDER)
		t->step = forwarder_step;
	else
		t->step = steps[t->role][touch][task_form(t, port)][timing];
}

/* ---- phases ----------------------------------------------------------------------- */

#define PERIOD_MAX ((uint64_t)1 << 62) /* ticks, which the counter never comes to */

/* Sets a fixed rate for a phase of so many ticks. */
static void sender_pace(struct sender *s, long double ticks)
{
	const long double unit = 4294967296.0L;
	long double hz = (long double)s->clock->hz, period = hz * s->burst / s->rate_pps, room;
	uint64_t bursts;

	/* Of a burst that no phase is long enough for, it is enough that it never is due. */
	period = period < PERIOD_MAX ? period : PERIOD_MAX;
	s->intended = (uint64_t)(ticks / hz * (s->rate_before + s->rate_pps) + 0.5L) -
		      (uint64_t)(ticks / hz * s->rate_before + 0.5L);
	bursts = (s->intended + s->burst - 1) / s->burst;
	/* The last burst may have fewer frames, and then less than a period until the end; it is
	 * staggered within that, so that no frame is due after the end. */
	room = bursts ? ticks - (long double)(bursts - 1) * period : 0;
	room = room < period ? room : period;
	s->period = (unsigned __int128)(period * unit);
	s->last_period = (unsigned __int128)((period - s->stagger * (period - room)) * unit);
	s->due += (unsigned __int128)(s->stagger * (bursts > 1 ? period : room) * unit);
	s->grace = s->clock->hz / 1000;
	if (s->singly) {
		/* Each phase draws anew. */
		s->pacing.state = mixed(s->seed + s->window->phase);
		s->pacing.share = s->stagger;
		pacing_begin(&s->pacing, s->intended, (double)ticks, (double)s->clock->hz);
	}
}

static void sender_begin(struct sender *s)
{
	const struct window *w = s->window;

	for (uint32_t f = 0; f < s->flows; f++) {
		for (uint32_t i = 0; i < s->sizes; i++) {
			struct frame_template *t = &s->templates[(size_t)f * s->sizes + i];
			const uint8_t *p = t->head + t->payload_at;

			template_set(t, net32(load32(p)), payload_flow(p), w->phase);
		}
	}
	s->built = s->sent = 0;
	s->flow = s->seq = s->size = s->round_size = s->first = s->held = 0;
	s->owed = s->burst;
	s->polls = s->empty = s->blocked = s->lag_max = 0;
	s->due = (unsigned __int128)w->start << 32;
	s->period = s->last_period = 0;
	s->intended = UINT64_MAX;
	s->missed = s->grace = 0;
	s->subflow = s->ready = 0;
	s->singly = s->rate_pps > 0 && s->pacing.arrivals != ARRIVALS_BURST;
	if (s->lag)
		histogram_clear(s->lag);
	if (s->rate_pps > 0)
		sender_pace(s, (long double)(w->end - w->start));
	else if (s->limit)
		s->intended = s->limit; /* all due at the start */
}

/* A phase that began `now`, after its start: what was due before then is not made up for, as that
 * would be a flood; it is missed. */
static void sender_begin_late(struct sender *s, uint64_t now)
{
	unsigned __int128 at = (unsigned __int128)now << 32;
	uint64_t missed;

	if (s->singly) {
		while (s->window->start + pacing_due(&s->pacing) < now) {
			s->missed++;
			pacing_next(&s->pacing);
		}
		s->intended -= s->missed;
		return;
	}
	if (!s->period) {
		s->due = at > s->due ? at : s->due;
		return;
	}
	if (at <= s->due)
		return;
	missed = (uint64_t)((at - s->due + s->period - 1) / s->period);
	s->due += s->period * missed;
	missed *= s->burst;
	s->missed = missed < s->intended ? missed : s->intended;
	s->intended -= s->missed;
	if (s->intended <= s->burst)
		s->due -= s->period - s->last_period;
}

static void receiver_begin(struct receiver *r)
{
	for (uint32_t i = 0; i < r->flows; i++) {
		if (r->windows_bytes)
			sequence_reset_used(&r->sequences[i]);
		else
			sequence_reset(&r->sequences[i]);
	}
	r->too_late_count = 0;
	if (r->latency)
		histogram_clear(r->latency);
	if (r->ipdv) {
		histogram_clear(r->ipdv);
		memset(r->neighbours, 0, r->flows * sizeof(*r->neighbours));
	}
	memset(r->intervals, 0, r->interval_count * sizeof(r->intervals[0]));
	r->interval = 0;
	r->interval_end = r->window->start + r->window->interval;
	r->draining = r->closed = false;
	r->seen = 0;
	r->rx = r->bytes = r->late = r->after_drain = 0;
	r->early = 0;
	r->corrupted = r->foreign = r->stray = r->other_phase = 0;
	r->promise.compared = r->promise.broken = 0;
	r->polls = r->empty = 0;
	r->idle = r->idle_since = 0;
}

void task_begin(struct task *t)
{
	t->stop = false;
	t->sent_all = !role_sends(t->role);
	if (role_sends(t->role))
		sender_begin(&t->sender);
	if (role_receives(t->role))
		receiver_begin(&t->receiver);
	if (t->role == ROLE_SERVER || t->role == ROLE_FORWARDER) {
		struct forwarder *w = &t->forwarder;

		w->polls = w->empty = w->ignored = 0;
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

bool port_announce(struct port *port, const struct frame_template *t)
{
	bool headless = port->engine->caps & ENGINE_PAYLOAD;
	uint8_t copy[HEAD_BYTES];
	struct frame f;

	/* An engine that only receives has no way to send; its interface has. */
	if (!port->config.sends && (port->engine->caps & ENGINE_NEEDS_INTERFACE)) {
		frame_build(copy, t, 0, 0, 0, TOUCH_NONE, false, false);
		return !packet_send_once(port, copy, t->len);
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

/* ---- workers ---------------------------------------------------------------------- */

/* What this thread has used. `wait_ns` is how long it has been ready to run while others had its
 * CPU, by the kernel's count. */
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
	w->before = w->after = worker_usage(w);
	w->yields = 0;
	now = clock_ticks();
	w->late = now > w->window->start ? now - w->window->start : 0;
	for (uint32_t i = 0; w->late && i < w->count; i++)
		if (role_sends(w->tasks[i]->role))
			sender_begin_late(&w->tasks[i]->sender, now);
}

static void worker_loop(struct worker *w)
{
	/* Two moments to note what was used: just before the start of the phase, so that it takes
	 * no time of the first frame's, and its end. */
	uint64_t mark;

	worker_begin(w);
	mark = w->late ? w->window->end : w->window->note;
	while (!atomic_load_explicit(&w->halt, memory_order_relaxed)) {
		uint64_t now = clock_ticks();
		bool sending = false, receiving = false;

		if (unlikely(now >= mark)) {
			w->after = worker_usage(w);
			if (mark == w->window->note) {
				w->before = w->after;
				mark = w->window->end;
			} else {
				mark = UINT64_MAX;
			}
			now = clock_ticks();
		}
		for (uint32_t i = 0; i < w->count; i++) {
			struct task *t = w->tasks[i];

			t->step(t, now);
			sending |= !atomic_load_explicit(&t->sent_all, memory_order_relaxed);
			receiving |= t->role != ROLE_SENDER;
		}
		if (w->yield) {
			sched_yield();
			w->yields++;
		}
		if (unlikely(!sending && !receiving)) {
			if (mark != UINT64_MAX)
				w->after = worker_usage(w);
			break;
		}
	}
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
	w->idle = false;
	w->run = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

void worker_halt(struct worker *w)
{
	w->halt = true;
	while (!w->idle)
		usleep(100);
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
	w->started = 0;
}
