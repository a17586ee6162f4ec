/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers: frames are validated one by one and counted per run of consecutive frames with the
 * same flow, consecutive numbers and the same delay. The frames of a burst have the same arrival
 * time, unless the port timestamps each frame.
 */
#include "judge.h"
#include "predict.h"
#include "steps.h"

#define NO_FLOW UINT32_MAX
#define FLOWS_AWAITED 512u /* the counters of this many flows exceed the L1 cache */

/* Consecutive frames of one flow with the numbers from `first` up to `next` (exclusive), the same
 * length and the same delay. */
struct frame_run {
	uint32_t flow; /* index within the task; NO_FLOW: the run is empty */
	uint32_t first, next;
	uint32_t len;
	int64_t delay_ns; /* below 0: the frames arrived before they were sent, by our clock */
	uint64_t width_ns; /* uncertainty: the delay may be shorter by this much */
	uint64_t due_ns, last_ns; /* due times of the first and the last frame */
	uint64_t until_ns; /* due time from which a frame belongs to other intervals of a series */
};

/* Consecutive frames of any flow with the same delay and the same intervals. */
struct delay_run {
	int64_t delay_ns;
	uint64_t width_ns;
	uint64_t due_ns, until_ns; /* the same for all frames, or of the first one */
	uint64_t frames;
};

static enum device_sum arrival_sum(const struct receiver *r, uint32_t i)
{
	return r->arrivals ? r->arrivals[i].sum : DEVICE_SUM_UNKNOWN;
}

/* Records the delay variation of consecutive frames: a frame counts if the frame sent before it
 * also arrived before it. */
static void receiver_vary(struct receiver *r, const struct frame_run *s, uint32_t seq,
			  uint32_t count)
{
	const uint64_t delay_ns = s->delay_ns > 0 ? (uint64_t)s->delay_ns : 0;
	struct neighbour *n = &r->neighbours[s->flow];

	if (n->known && seq == n->next)
		histogram_add(r->ipdv,
			      delay_ns > n->delay_ns ? delay_ns - n->delay_ns :
						       n->delay_ns - delay_ns,
			      1);
	if (count > 1)
		histogram_add(r->ipdv, 0, count - 1);
	*n = (struct neighbour){ delay_ns, seq + count, true };
}

/* Records expected frames; the first of them was due at `due_ns`. */
always_inline void receiver_note_run(struct receiver *r, const struct frame_run *s, uint64_t due_ns)
{
	const uint64_t delay_ns = (uint64_t)s->delay_ns;
	struct gaps *g = &r->gaps[s->flow];

	gaps_hear(g, (struct gap_end){ due_ns, due_ns + delay_ns });
	gaps_note(g, s->last_ns, s->last_ns + delay_ns);
}

/* Records a frame that was not seen before and is not the expected one, which was number `next`. */
static void receiver_note_gap(struct receiver *r, const struct frame_run *s, uint32_t seq,
			      uint64_t next)
{
	const uint64_t number = next + (uint64_t)(int64_t)(int32_t)(seq - (uint32_t)next);
	const uint64_t due_ns = seq == s->first ? s->due_ns : s->last_ns;
	const struct gap_end at = { due_ns, due_ns + (uint64_t)s->delay_ns };
	struct gaps *g = &r->gaps[s->flow];

	if ((int64_t)(number - next) < 0) {
		gaps_fill(g, number, at);
		return;
	}
	gaps_open(g, next, number - next, at);
	g->last = at;
}

/* Counts a run that does not start with the expected number, number by number until the expected
 * one. Returns the number of frames not seen before. */
static uint32_t frame_run_add_slow(struct receiver *r, const struct frame_run *s, bool vary)
{
	struct sequence *sequence = &r->sequences[s->flow];
	uint32_t fresh = 0;

	for (uint32_t seq = s->first; seq != s->next; seq++) {
		const uint64_t next = sequence->next;

		if (seq == (uint32_t)next) {
			sequence_extend(sequence, s->next - seq);
			if (r->gaps)
				receiver_note_run(r, s, seq == s->first ? s->due_ns : s->last_ns);
			if (vary)
				receiver_vary(r, s, seq, s->next - seq);
			return fresh + s->next - seq;
		}
		if (!sequence_add(sequence, seq))
			continue;
		fresh++;
		if (r->gaps)
			receiver_note_gap(r, s, seq, next);
		if (vary)
			receiver_vary(r, s, seq, 1);
	}
	return fresh;
}

/* Removes copies that another core had seen from the counters. They belonged to a recent chunk, so
 * they are subtracted from the last intervals. */
static void receiver_forget(struct receiver *r, const struct merged_found *found)
{
	uint64_t left = found->copies;

	r->rx -= found->copies;
	r->bytes -= found->bytes;
	if (r->series && found->copies)
		series_forget(r->series, found->copies);
	for (uint32_t i = r->interval + 1; left && i-- > 0;) {
		const uint64_t some = left < r->intervals[i] ? left : r->intervals[i];

		r->intervals[i] -= some;
		left -= some;
	}
}

/* Counts a run of a flow that other cores also count. Returns the number of frames not seen
 * before. */
static __attribute__((noinline)) uint32_t frame_run_merge(struct receiver *r,
							  const struct frame_run *s, bool vary)
{
	uint32_t fresh = 0;

	for (uint32_t seq = s->first, some; seq != s->next; seq += some) {
		struct merged_found found;

		some = merged_count(r->merged, s->flow, seq, s->next - seq, s->len, &found);
		if (unlikely(found.copies))
			receiver_forget(r, &found);
		fresh += found.fresh ? some : 0;
		if (vary && found.fresh)
			receiver_vary(r, s, seq, some);
	}
	return fresh;
}

void receiver_finish(struct receiver *r)
{
	for (uint32_t f = 0; r->merged && f < r->flows; f++) {
		struct merged_found found;

		merged_finish(r->merged, f, &found);
		receiver_forget(r, &found);
	}
}

static void delay_run_record(struct receiver *r, const struct delay_run *t)
{
	if (t->delay_ns < 0)
		r->early += t->frames;
	if (t->frames) {
		const uint64_t delay_ns = t->delay_ns > 0 ? (uint64_t)t->delay_ns : 0;

		if (unlikely(r->series != NULL))
			series_receive(r->series, t->due_ns, t->delay_ns, t->frames);
		histogram_add(r->latency, delay_ns, t->frames);
		histogram_add(r->earliest, delay_ns > t->width_ns ? delay_ns - t->width_ns : 0,
			      t->frames);
	}
}

/* Counts a run that does not start with the expected number, or whose flow other cores also count.
 * Returns the number of its frames not seen before. */
static __attribute__((noinline)) uint32_t frame_run_count_slow(struct receiver *r,
							       const struct frame_run *s, bool vary)
{
	const struct sequence *sequence = &r->sequences[s->flow];
	const uint64_t duplicated = sequence->duplicated, reordered = sequence->reordered;
	uint32_t fresh;

	fresh = r->merged ? frame_run_merge(r, s, vary) : frame_run_add_slow(r, s, vary);
	if (r->series && r->latency) {
		struct series_cell *cell =
			series_arrival(r->series, s->due_ns + (uint64_t)s->delay_ns);

		series_count(&cell->duplicated, sequence->duplicated - duplicated);
		series_count(&cell->reordered, sequence->reordered - reordered);
	}
	return fresh;
}

/* Returns the due time of the first frame of a run: without arrival timestamps, all frames of a
 * burst arrived at `now_ns`. */
always_inline uint64_t frame_run_due(const struct frame_run *s, uint64_t now_ns,
				     const enum form form)
{
	return form == FORM_WHOLE ? now_ns - (uint64_t)s->delay_ns : s->due_ns;
}

/* Records what follows from one run to the next of a flow: the variation of the delay, and the last
 * frame before a gap. */
static __attribute__((noinline)) void frame_run_follow(struct receiver *r,
						       const struct frame_run *s)
{
	if (r->neighbours)
		receiver_vary(r, s, s->first, s->next - s->first);
	if (r->gaps)
		receiver_note_run(r, s, s->due_ns);
}

/* Counts a run. Returns the number of its frames not seen before. */
always_inline uint32_t frame_run_count(struct receiver *r, const struct frame_run *s,
				       struct delay_run *delays, uint64_t now_ns,
				       const enum form form, const bool timed)
{
	const uint32_t count = s->next - s->first;
	struct sequence *sequence = &r->sequences[s->flow];
	uint32_t fresh = count;
	struct frame_run copy; /* lets the run itself stay in registers */
	bool slow;

	if (s->flow == NO_FLOW)
		return 0;
	slow = unlikely(s->first != (uint32_t)sequence->next) ||
	       (unlikely(r->merged != NULL) && !merged_stays(sequence, count, s->len));
	if (unlikely(slow) || (timed && unlikely(r->follows))) {
		copy = *s;
		copy.due_ns = frame_run_due(s, now_ns, form);
		copy.last_ns = form == FORM_WHOLE ? copy.due_ns : s->last_ns;
	}
	if (unlikely(slow)) {
		fresh = frame_run_count_slow(r, &copy, timed && r->neighbours);
	} else {
		if (count == 1)
			sequence_add(sequence, s->first);
		else
			sequence_extend(sequence, count);
		if (timed && unlikely(r->follows))
			frame_run_follow(r, &copy);
	}
	r->bytes += (uint64_t)fresh * s->len;
	if (!timed)
		return fresh;
	if (s->delay_ns != delays->delay_ns || s->width_ns != delays->width_ns ||
	    (form != FORM_WHOLE && s->until_ns != delays->until_ns)) {
		delay_run_record(r, delays);
		*delays = (struct delay_run){ .delay_ns = s->delay_ns,
					      .width_ns = s->width_ns,
					      .due_ns = frame_run_due(s, now_ns, form),
					      .until_ns = s->until_ns };
	}
	delays->frames += fresh;
	return fresh;
}

static void receiver_refuse(struct receiver *r, enum verdict_of_frame verdict, uint32_t flow)
{
	if (verdict == FRAME_FOREIGN) {
		r->foreign++;
		return;
	}
	r->corrupted++;
	if (flow < r->flows)
		r->sequences[flow].corrupted++;
}

/* Prefetches the counters of the flow in a frame's payload, before validation. */
always_inline void receiver_await(const struct receiver *r, const struct frame *f,
				  const enum form form, bool window)
{
	const uint32_t at = form == FORM_PAYLOAD ? 0 : ETH_BYTES + IP_BYTES + UDP_BYTES;
	const uint32_t flow = payload_flow((const uint8_t *)f->data + at) - r->first_flow;
	const struct sequence *s = &r->sequences[flow];

	if (unlikely(flow >= r->flows || f->len < at + PAYLOAD_BYTES))
		return;
	if (window)
		__builtin_prefetch(&s->window[(s->next & (s->bits - 1)) / 64]);
	else
		__builtin_prefetch(s);
}

/* Extends a run by those of `n` frames that follow the first one, which is the run's last frame and
 * has the payload `last`. Returns the number of frames added. */
always_inline uint32_t receiver_follow(const struct flow_headers *known, struct frame_run *s,
				       const struct frame *f, uint32_t n,
				       const struct payload *last)
{
	const uint64_t time_net = net64(last->time_ns);
	const uint32_t left = UINT32_MAX - last->seq;
	struct prediction p;
	uint32_t followed;

	if (n < 2 || f[1].len != known->len || load64((const uint8_t *)f[1].data + 52) != time_net)
		return 0;
	p = prediction_after(known, last->seq, time_net);
	followed = prediction_follow(known, &p, f + 1, n - 1 < left ? n - 1 : left);
	s->next = p.seq;
	return followed;
}

/* Returns the uncertainty of the delay of a timestamped frame: 0, or the time back to the previous
 * poll. */
static uint64_t width_noted(const struct receiver *r, uint64_t late_ns)
{
	return r->exact || r->width_ns < late_ns ? 0 : r->width_ns - late_ns;
}

/* Counts the frames of a burst. Returns the number of test frames not seen before. */
always_inline uint32_t receiver_count(struct receiver *r, uint32_t n, uint64_t now,
				      const enum touch touch, const enum form form,
				      const bool timed)
{
	const struct arrival *const arrivals = form == FORM_WHOLE ? NULL : r->arrivals;
	const struct frame *const frames = r->frames;
	const uint64_t now_ns = timed ? clock_ns(r->clock, now) : 0;
	const uint64_t gap_ns = timed ? r->width_ns : 0;
	const uint32_t run = r->run, first_flow = r->first_flow, flows = r->flows;
	const uint8_t phase = r->window->phase;
	struct flow_headers *const known = &r->known;
	struct frame_run s = { .flow = NO_FLOW };
	struct delay_run delays = { .due_ns = now_ns, .until_ns = UINT64_MAX };
	uint32_t fresh = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct frame *f = &frames[i];
		enum device_sum device = DEVICE_SUM_UNKNOWN;
		int64_t delay_ns = 0;
		uint64_t width_ns = gap_ns;
		struct payload p;
		uint32_t flow;
		bool alike = false; /* has the known headers and no arrival timestamp */

		if (i + 8 < n)
			__builtin_prefetch(frames[i + 8].data);
		if (touch != TOUCH_NONE && flows >= FLOWS_AWAITED) {
			if (i + 6 < n)
				receiver_await(r, &frames[i + 6], form, false);
			if (i + 3 < n)
				receiver_await(r, &frames[i + 3], form, true);
		}
		if (form != FORM_WHOLE && arrivals)
			device = arrivals[i].sum;
		if (touch == TOUCH_HEADER && form != FORM_PAYLOAD && f->len == known->len &&
		    device == DEVICE_SUM_UNKNOWN && frame_has_headers(known, f->data, &p)) {
			flow = known->flow;
			alike = !arrivals;
		} else {
			const enum verdict_of_frame verdict = frame_judge(
				f->data, f->len, run, &p, touch, form == FORM_PAYLOAD, device);

			flow = p.flow - first_flow;
			if (unlikely(verdict != FRAME_OURS)) {
				receiver_refuse(r, verdict, flow);
				continue;
			}
			if (unlikely(p.phase != phase)) {
				r->other_phase += p.phase != PHASE_ANNOUNCE;
				continue;
			}
		}
		if (timed) {
			uint64_t at_ns = now_ns;

			if (form != FORM_WHOLE && arrivals && arrivals[i].ticks) {
				at_ns = clock_ns(r->clock, arrivals[i].ticks);
				width_ns = width_noted(r, now_ns > at_ns ? now_ns - at_ns : 0);
				r->noted++;
			}
			delay_ns = (int64_t)(at_ns - p.time_ns);
		}
		if (touch != TOUCH_NONE && likely(flow == s.flow && p.seq == s.next) &&
		    f->len == s.len && delay_ns == s.delay_ns &&
		    (form == FORM_WHOLE ||
		     (width_ns == s.width_ns && (!timed || p.time_ns < s.until_ns)))) {
			s.next++;
			if (timed && form != FORM_WHOLE)
				s.last_ns = p.time_ns;
			if (touch == TOUCH_HEADER && form != FORM_PAYLOAD && !alike &&
			    s.next - s.first == 2)
				flow_headers_note(known, f->data, f->len, flow);
			if (alike)
				i += receiver_follow(known, &s, f, n - i, &p);
			continue;
		}
		if (unlikely(flow >= flows)) {
			r->stray++;
			continue;
		}
		if (touch == TOUCH_NONE) {
			fresh++;
			r->bytes += f->len;
			continue;
		}
		fresh += frame_run_count(r, &s, &delays, now_ns, form, timed);
		s = (struct frame_run){ .flow = flow,
					.first = p.seq,
					.next = p.seq + 1,
					.len = f->len,
					.delay_ns = delay_ns,
					.width_ns = width_ns,
					.due_ns = timed && form != FORM_WHOLE ? p.time_ns : 0,
					.last_ns = timed && form != FORM_WHOLE ? p.time_ns : 0,
					.until_ns = UINT64_MAX };
		if (timed && form != FORM_WHOLE && unlikely(r->series != NULL))
			s.until_ns = series_until(r->series, p.time_ns, delay_ns);
		if (alike)
			i += receiver_follow(known, &s, f, n - i, &p);
	}
	if (touch != TOUCH_NONE)
		fresh += frame_run_count(r, &s, &delays, now_ns, form, timed);
	if (timed)
		delay_run_record(r, &delays);
	return fresh;
}

void expected_headers_check(struct expected_headers *p, const struct frame *f, uint32_t flow,
			    uint32_t seq)
{
	struct frame_template wanted;

	subflow_template(&p->subflows, &wanted, &p->templates[flow], flow, seq);
	p->compared++;
	if (headers_agree(f->data, f->len, &wanted) || p->broken++)
		return;
	p->wanted = wanted;
	memcpy(p->found, f->data, f->len < HEAD_BYTES ? f->len : HEAD_BYTES);
}

/* Counts one frame. Returns true if it was not seen before. */
static bool receiver_add(struct receiver *r, uint32_t flow, uint32_t seq, uint32_t len)
{
	const struct frame_run s = { .flow = flow, .first = seq, .next = seq + 1, .len = len };

	return r->merged ? frame_run_merge(r, &s, false) : sequence_add(&r->sequences[flow], seq);
}

/* Counts the frames of a burst and compares their headers, for any touch and form. */
static uint32_t count_headers(struct receiver *r, uint32_t n, uint64_t now)
{
	uint32_t fresh = 0;

	(void)now;
	for (uint32_t i = 0; i < n; i++) {
		const struct frame *f = &r->frames[i];
		struct payload p;
		const enum verdict_of_frame verdict = frame_judge(f->data, f->len, r->run, &p,
								  r->touch, r->form == FORM_PAYLOAD,
								  arrival_sum(r, i));
		const uint32_t flow = p.flow - r->first_flow;

		if (verdict != FRAME_OURS) {
			receiver_refuse(r, verdict, flow);
		} else if (p.phase != r->window->phase) {
			r->other_phase += p.phase != PHASE_ANNOUNCE;
		} else if (flow >= r->flows) {
			r->stray++;
		} else if (r->touch == TOUCH_NONE || receiver_add(r, flow, p.seq, f->len)) {
			fresh++;
			r->bytes += f->len;
			if (r->expected.identified)
				frame_clear_identification(f->data);
			expected_headers_check(&r->expected, f, flow, p.seq);
		}
	}
	return fresh;
}

/* One function per combination, so that the loops have no branches for it. */
#define COUNTS(touch, form)                                                                        \
	static uint32_t count_##touch##_##form(struct receiver *r, uint32_t n, uint64_t now)       \
	{                                                                                          \
		return receiver_count(r, n, now, touch, form, false);                              \
	}
#define COUNTS_OF(touch)                                                                           \
	COUNTS(touch, FORM_WHOLE) COUNTS(touch, FORM_PAYLOAD) COUNTS(touch, FORM_DEVICE)
#define TIMES(touch, form)                                                                         \
	static uint32_t time_##touch##_##form(struct receiver *r, uint32_t n, uint64_t now)        \
	{                                                                                          \
		return receiver_count(r, n, now, touch, form, true);                               \
	}
#define TIMES_OF(touch)                                                                            \
	TIMES(touch, FORM_WHOLE) TIMES(touch, FORM_PAYLOAD) TIMES(touch, FORM_DEVICE)
#define ROW(kind, touch)                                                                           \
	{                                                                                          \
		kind##_##touch##_FORM_WHOLE, kind##_##touch##_FORM_PAYLOAD,                        \
			kind##_##touch##_FORM_DEVICE                                               \
	}

COUNTS_OF(TOUCH_NONE)
COUNTS_OF(TOUCH_HEADER)
COUNTS_OF(TOUCH_FULL)
TIMES_OF(TOUCH_HEADER)
TIMES_OF(TOUCH_FULL)

static uint32_t (*const counts[2][3][3])(struct receiver *, uint32_t, uint64_t) = {
	{ ROW(count, TOUCH_NONE), ROW(count, TOUCH_HEADER), ROW(count, TOUCH_FULL) },
	/* TOUCH_NONE reads only the run id and has no timestamps. */
	{ ROW(count, TOUCH_NONE), ROW(time, TOUCH_HEADER), ROW(time, TOUCH_FULL) },
};

void receiver_choose_step(struct receiver *r, enum touch touch, enum form form, enum timing timing)
{
	r->touch = touch;
	r->form = form;
	r->count = timing == TIMING_HEADERS ? count_headers :
					      counts[timing != TIMING_NONE][touch][form];
}

/* Validates a frame of the burst. Returns its flow index within the task, or NO_FLOW if it is not
 * an intact frame of this phase. */
always_inline uint32_t receiver_flow(const struct receiver *r, uint32_t i, struct payload *p)
{
	const struct frame *f = &r->frames[i];
	uint32_t flow;

	if (frame_judge(f->data, f->len, r->run, p, r->touch, r->form == FORM_PAYLOAD,
			arrival_sum(r, i)) != FRAME_OURS ||
	    p->phase != r->window->phase)
		return NO_FLOW;
	flow = (uint32_t)p->flow - r->first_flow;
	return flow < r->flows ? flow : NO_FLOW;
}

/* A frame received after the drain is lost. It is counted as a cause of loss if it was not seen
 * before; the counters of its flow no longer change. */
static void receiver_too_late(struct receiver *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct payload p;
		const uint32_t flow = receiver_flow(r, i, &p);

		if (flow == NO_FLOW)
			continue;
		if (r->touch != TOUCH_NONE && r->too_late && r->too_late_count < TOO_LATE_MAX)
			r->too_late[r->too_late_count++] = (struct too_late){ flow, p.seq };
		else if (r->touch == TOUCH_NONE || r->too_late ||
			 sequence_add_late(&r->sequences[flow], p.seq))
			r->after_drain++;
	}
}

/* Records when the frames of a burst arrived. */
static __attribute__((noinline)) void receiver_note(struct receiver *r, uint32_t n, uint64_t now)
{
	struct order *o = r->order;
	const uint64_t skew = o->shared->clock_skew, low = o->empty > skew ? o->empty - skew : 0;

	for (uint32_t i = 0; i < n; i++) {
		const uint64_t kernel_ns = r->arrivals ? r->arrivals[i].kernel_ns : 0;
		struct payload p;
		const uint32_t flow = receiver_flow(r, i, &p);

		if (flow != NO_FLOW)
			order_note(o, flow, p.seq, kernel_ns ? kernel_ns : low,
				   kernel_ns ? kernel_ns : now);
	}
}

uint32_t receiver_step(struct task *task, uint64_t now)
{
	struct receiver *r = &task->receiver;
	uint32_t n = r->port->rx(r->port, r->frames, r->arrivals, r->burst), fresh;
	const bool measured = now >= r->window->start && now < r->window->end;
	const uint64_t before = r->polled;
	bool draining;

	r->polled = now;
	r->polls += measured;
	if (unlikely(r->idle_since)) {
		r->idle += measured ? now - r->idle_since : 0;
		r->idle_since = 0;
	}
	if (!n) {
		r->empty += measured;
		r->idle_since = measured ? now : 0;
		if (r->order)
			r->order->empty = now;
		return 0;
	}
	now = clock_ticks();
	draining = atomic_load_explicit(&r->draining, memory_order_relaxed);
	if (unlikely(draining && atomic_load_explicit(&r->closed, memory_order_relaxed))) {
		receiver_too_late(r, n);
		r->port->engine->release(r->port, r->frames, n);
		return n;
	}
	if (r->latency) {
		r->width_ns = before ? clock_ns_in(r->clock, now - before) : UINT64_MAX;
		if (r->widths && measured && before)
			histogram_add(r->widths, r->width_ns, n);
	}
	fresh = r->count(r, n, now);
	if (unlikely(r->order) && order_notes(r->order))
		receiver_note(r, n, now);
	r->port->engine->release(r->port, r->frames, n);
	while (unlikely(now >= r->interval_end) && r->interval + 1 < r->interval_count) {
		r->interval++;
		r->interval_end += r->window->interval;
	}
	r->intervals[r->interval] += fresh;
	if (unlikely(r->series && !r->latency))
		series_count(&series_arrival(r->series, clock_ns(r->clock, now))->received, fresh);
	if (unlikely(now >= r->window->end))
		r->after_end += fresh;
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

void receiver_begin(struct receiver *r)
{
	for (uint32_t i = 0; i < r->flows; i++)
		sequence_reset(&r->sequences[i]);
	if (r->merged)
		merged_begin(r->merged);
	r->too_late_count = 0;
	if (r->series)
		series_begin(r->series, r->window->start_ns, r->window->duration_ns);
	for (uint32_t i = 0; r->gaps && i < r->flows; i++)
		gaps_begin(&r->gaps[i]);
	if (r->order)
		order_begin(r->order);
	r->known.len = 0; /* the headers include the phase */
	if (r->latency) {
		histogram_clear(r->latency);
		histogram_clear(r->earliest);
	}
	if (r->ipdv) {
		histogram_clear(r->ipdv);
		memset(r->neighbours, 0, r->flows * sizeof(*r->neighbours));
	}
	memset(r->intervals, 0, r->interval_count * sizeof(r->intervals[0]));
	r->interval = 0;
	r->interval_end = r->window->start + r->window->interval;
	r->draining = r->closed = false;
	r->seen = 0;
	r->rx = r->bytes = r->after_end = r->late = r->after_drain = 0;
	r->early = r->noted = r->polled = 0;
	if (r->widths)
		histogram_clear(r->widths);
	r->corrupted = r->foreign = r->stray = r->other_phase = 0;
	r->expected.compared = r->expected.broken = 0;
	r->polls = r->empty = 0;
	r->idle = r->idle_since = 0;
}
