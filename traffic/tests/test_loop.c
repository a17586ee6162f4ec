/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the frames that senders write and the counts of receivers, burst by burst, with a model
 * that works frame by frame. */
#include "judge.h"
#include "loop.h"
#include "tap.h"

#include <stdlib.h>

#define RUN 9u
#define FLOWS 3u
#define BURST 64u
#define BITS 256u
#define FRAME_MAX 1514u

static const struct address address = { .src_mac = { 2, 0, 0, 0, 0, 1 },
					.dst_mac = { 2, 0, 0, 0, 0, 2 },
					.src_ip = 0x0a000001,
					.dst_ip = 0x0a000002,
					.src_port = 20000,
					.dst_port = 20001 };

/* IPv4, IPv4 with a tag, IPv6, IPv6 with a tag. */
static struct address address_kind(uint32_t kind)
{
	struct address a = address;

	a.vlan = kind % 2 ? 7 : 0;
	a.v6 = kind / 2;
	a.src_ip6[0] = a.dst_ip6[0] = 0x20;
	a.src_ip6[15] = 1;
	a.dst_ip6[15] = 2;
	return a;
}

struct bench {
	struct port port;
	struct clock clock;
	struct window window;
	struct task task;
	struct frame frames[BURST];
	struct arrival arrivals[BURST];
};

static uint64_t drawn_state;

static uint32_t drawn(uint32_t below)
{
	drawn_state += 0x9e3779b97f4a7c15u;
	return (uint32_t)(mix64(drawn_state) >> 33) % below;
}

static struct bench *bench_make(bool receives)
{
	struct bench *b = aligned_alloc(_Alignof(struct bench), sizeof(*b));

	memset(b, 0, sizeof(*b));
	b->clock = (struct clock){ .ticks0 = 0, .ns0 = 0, .hz = 1000000000 };
	clock_derive(&b->clock);
	b->port.engine = engine_find("null");
	b->port.config = (struct port_config){
		.sends = true,
		.receives = receives,
		.burst = BURST,
		.frame_max = FRAME_MAX,
		.option_count = 1,
		.options = { { .name = "loop", .number = 1 } },
	};
	EXPECT_EQ(port_open(&b->port), 0);
	b->window = (struct window){ .end = UINT64_MAX / 4,
				     .interval = UINT64_MAX / 4,
				     .phase = PHASE_MEASURED };
	return b;
}

static void bench_free(struct bench *b)
{
	b->port.engine->close(&b->port);
	free(b);
}

/* ---- receiving -------------------------------------------------------------------- */

static uint64_t arrived_at; /* ticks: arrival of the next frame of a burst */

/* Like a device's rx that timestamps each frame. */
static uint32_t noting_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	n = port->engine->rx(port, f, NULL, n);
	for (uint32_t i = 0; arrivals && i < n; i++)
		arrivals[i] = (struct arrival){ .ticks = arrived_at + i / 5 * 100 };
	return n;
}

/* The counters of the model receiver, updated frame by frame. */
struct counted {
	struct sequence sequences[FLOWS];
	uint64_t bits[FLOWS][BITS / 64];
	struct histogram latency, earliest, ipdv;
	struct neighbour neighbours[FLOWS];
	uint64_t rx, bytes, corrupted, foreign, stray, other_phase, early;
};

static struct counted *counted_new(void)
{
	struct counted *c = calloc(1, sizeof(*c));

	for (uint32_t i = 0; i < FLOWS; i++) {
		c->sequences[i] = (struct sequence){ .window = c->bits[i], .bits = BITS };
		sequence_reset(&c->sequences[i]);
	}
	histogram_clear(&c->latency);
	histogram_clear(&c->earliest);
	histogram_clear(&c->ipdv);
	return c;
}

/* Counts one frame. `since`: the earliest possible arrival. */
static void count(struct counted *c, const struct frame *f, uint64_t at, uint64_t since)
{
	struct neighbour *n;
	struct payload p;
	uint64_t delay;

	switch (frame_parse(f->data, f->len, RUN, &p, TOUCH_HEADER, false)) {
	case FRAME_FOREIGN:
		c->foreign++;
		return;
	case FRAME_CORRUPT:
		c->corrupted++;
		if (p.flow < FLOWS)
			c->sequences[p.flow].corrupted++;
		return;
	case FRAME_OURS:
		break;
	}
	if (p.phase != PHASE_MEASURED) {
		c->other_phase++;
		return;
	}
	if (p.flow >= FLOWS) {
		c->stray++;
		return;
	}
	if (!sequence_add(&c->sequences[p.flow], p.seq))
		return;
	c->rx++;
	c->bytes += f->len;
	c->early += at < p.time_ns;
	delay = at > p.time_ns ? at - p.time_ns : 0;
	histogram_add(&c->latency, delay, 1);
	histogram_add(&c->earliest, since > p.time_ns ? since - p.time_ns : 0, 1);
	n = &c->neighbours[p.flow];
	if (n->known && p.seq == n->next)
		histogram_add(&c->ipdv,
			      delay > n->delay_ns ? delay - n->delay_ns : n->delay_ns - delay, 1);
	*n = (struct neighbour){ delay, p.seq + 1, true };
}

/* Writes the next frame of a flow: usually the expected one, sometimes any other kind of frame. */
static void write_any_frame(struct frame *f, uint32_t *seqs, uint64_t at)
{
	const uint32_t odd = drawn(40), flow = drawn(6) ? drawn(FLOWS) / 2 : drawn(FLOWS);
	const struct address a = address_kind(flow);
	const uint32_t least = frame_least(&a);
	uint32_t seq = seqs[flow]++, len = least + (drawn(5) ? 0 : 4);
	/* Many frames have the same age; some arrive before they were sent. */
	uint64_t time = at - 1000 + drawn(3) / 2 * (drawn(4) ? 100 : 5000);
	struct frame_template t;

	template_make(&t, &a, len, odd == 1 ? RUN + 1 : RUN,
		      (uint16_t)(odd == 2 ? FLOWS + 1 : flow),
		      odd == 3 ? PHASE_WARMUP : PHASE_MEASURED, false);
	if (odd == 4)
		seqs[flow] += drawn(3 * BITS); /* lost */
	if (odd == 5 || odd == 6)
		seq -= seq < BITS * 2 ? seq / 2 : drawn(BITS * 2); /* late, duplicate, or too old */
	time = time_to_net(time);
	frame_build(f->data, &t, seq, time, time_sum(time), TOUCH_HEADER, false, false);
	if (odd == 7)
		((uint8_t *)f->data)[least - 34 + drawn(34)] ^= 1;
	f->len = len;
}

static void counts_agree(const struct receiver *r, const struct counted *c)
{
	EXPECT_EQ(r->rx, c->rx);
	EXPECT_EQ(r->bytes, c->bytes);
	EXPECT_EQ(r->corrupted, c->corrupted);
	EXPECT_EQ(r->foreign, c->foreign);
	EXPECT_EQ(r->stray, c->stray);
	EXPECT_EQ(r->other_phase, c->other_phase);
	for (uint32_t i = 0; i < FLOWS; i++) {
		const struct sequence *have = &r->sequences[i], *want = &c->sequences[i];

		EXPECT_EQ(have->next, want->next);
		EXPECT_EQ(have->distinct, want->distinct);
		EXPECT_EQ(have->duplicated, want->duplicated);
		EXPECT_EQ(have->reordered, want->reordered);
		EXPECT_EQ(have->beyond, want->beyond);
		EXPECT_EQ(have->corrupted, want->corrupted);
		EXPECT(!memcmp(have->window, want->window, BITS / 8));
	}
}

/* Writes the next frame of a flow that arrives in order, in bursts with the same time; sometimes a
 * frame is lost or late, or has a flipped bit. */
static void write_next_frame(struct frame *f, uint32_t *seqs, uint64_t at)
{
	const uint32_t odd = drawn(60);
	const uint64_t time = time_to_net(at - 777);
	uint32_t seq = seqs[0]++;
	struct frame_template t;

	template_make(&t, &address, FRAME_MIN + (odd == 1), RUN, 0, PHASE_MEASURED, false);
	if (odd == 2)
		seqs[0] += drawn(3000); /* lost */
	if (odd == 3)
		seq -= drawn(3 * BITS);
	frame_build(f->data, &t, seq, time, time_sum(time), TOUCH_HEADER, false, false);
	if (odd == 4)
		((uint8_t *)f->data)[drawn(FRAME_MIN)] ^= (uint8_t)(1u << drawn(8));
	f->len = t.len;
}

/* Receives bursts of all lengths, with frames of all kinds or with frames of one flow in order;
 * each frame has an arrival time if `noted`. */
static void receive_any(enum timing timing, bool noted, bool in_order, uint64_t seed)
{
	struct counted *want = counted_new(), *have = counted_new();
	struct bench *b = bench_make(true);
	struct receiver *r = &b->task.receiver;
	uint32_t seqs[FLOWS] = { 0 };
	uint64_t intervals[4], since;
	const bool exact = noted && seed % 2; /* otherwise the timestamp is that of the read */

	drawn_state = seed;
	arrived_at = 1000000;
	b->task.role = ROLE_RECEIVER;
	b->port.notes_arrivals = noted;
	if (noted)
		b->port.rx = noting_rx;
	*r = (struct receiver){ .port = &b->port,
				.run = RUN,
				.flows = FLOWS,
				.burst = BURST,
				.clock = &b->clock,
				.window = &b->window,
				.frames = b->frames,
				.arrivals = noted ? b->arrivals : NULL,
				.sequences = have->sequences,
				.latency = &have->latency,
				.earliest = &have->earliest,
				.exact = exact,
				.ipdv = timing == TIMING_IPDV ? &have->ipdv : NULL,
				.neighbours = timing == TIMING_IPDV ? have->neighbours : NULL,
				.follows = timing == TIMING_IPDV,
				.intervals = intervals,
				.interval_count = 4 };
	task_choose_step(&b->task, TOUCH_HEADER, timing);
	task_begin(&b->task);
	if (in_order) /* sequence numbers wrap around during the test */
		have->sequences[0].next = want->sequences[0].next = seqs[0] = UINT32_MAX - 100000;
	for (int burst = 0; burst < (in_order ? 800 : 400); burst++) {
		const uint32_t n = 1 + drawn(BURST);
		struct frame f[BURST];

		arrived_at += 10000;
		/* The time of the previous poll; unknown for the first burst. */
		since = burst ? arrived_at - 10000 : 0;
		if (burst && drawn(3)) {
			since = arrived_at - drawn(1500);
			EXPECT_EQ(b->task.step(&b->task, since), 0);
		}
		EXPECT_EQ(b->port.engine->alloc(&b->port, f, n), n);
		for (uint32_t i = 0; i < n; i++) {
			const uint64_t at = arrived_at + i / 5 * 100;

			(in_order ? write_next_frame : write_any_frame)(&f[i], seqs, arrived_at);
			count(want, &f[i], at, exact ? at : since);
		}
		EXPECT_EQ(b->port.tx(&b->port, f, n), n);
		EXPECT_EQ(b->task.step(&b->task, arrived_at), n);
	}
	counts_agree(r, want);
	EXPECT(want->rx > 1000 && want->corrupted && want->foreign);
	EXPECT(in_order ? seqs[0] < UINT32_MAX / 2 : want->stray);
	EXPECT(want->sequences[0].duplicated && want->sequences[0].reordered &&
	       want->sequences[0].beyond);
	EXPECT_EQ(have->latency.count, timing ? want->rx : 0);
	EXPECT(want->earliest.max > 500);
	if (timing) /* for any clock: a later timestamp has a correspondingly larger uncertainty */
		EXPECT(!memcmp(&have->earliest, &want->earliest, sizeof(have->earliest)));
	if (noted && timing) {
		EXPECT_EQ(r->early, want->early);
		EXPECT(!memcmp(&have->latency, &want->latency, sizeof(have->latency)));
	}
	if (noted && timing == TIMING_IPDV)
		EXPECT(!memcmp(&have->ipdv, &want->ipdv, sizeof(have->ipdv)));
	bench_free(b);
	free(want);
	free(have);
}

static void a_burst_is_counted_as_its_frames_are(void)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		receive_any(TIMING_NONE, false, false, seed);
		receive_any(TIMING_LATENCY, false, false, seed);
		receive_any(TIMING_LATENCY, true, false, seed);
		receive_any(TIMING_IPDV, true, false, seed);
	}
}

static void a_course_is_counted_as_its_frames_are(void)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		receive_any(TIMING_NONE, false, true, seed);
		receive_any(TIMING_LATENCY, false, true, seed);
		receive_any(TIMING_IPDV, false, true, seed);
		receive_any(TIMING_LATENCY, true, true, seed);
	}
}

/* ---- sending ---------------------------------------------------------------------- */

static const uint32_t more[] = { 0, 0, 530, 0, 530, 0, 1420 }; /* added to the minimum length */
#define SIZES (sizeof(more) / sizeof(*more))

/* Fills the buffers of a port with garbage. */
static void memory_spoil(struct port *port)
{
	struct frame f[BURST];
	uint32_t n = port->engine->alloc(port, f, BURST);

	for (uint32_t i = 0; i < n; i++)
		memset(f[i].data, 0xa5, FRAME_MAX);
	port->engine->release(port, f, n);
}

/* True if a frame matches its template, its sub-flow and its number, including the bytes after the
 * payload. */
static bool is_right(const struct sender *s, const struct frame *f, enum touch touch,
		     uint32_t *seqs)
{
	uint64_t blank = 0;
	struct frame_template t;
	struct payload p;
	uint32_t size;

	if (frame_parse(f->data, f->len, RUN, &p, touch, false) != FRAME_OURS || p.flow >= s->flows)
		return false;
	for (size = 0; size < s->sizes && s->templates[p.flow * s->sizes + size].len != f->len;)
		size++;
	if (size == s->sizes)
		return false;
	if (touch != TOUCH_NONE && p.seq != seqs[p.flow]++)
		return false;
	if (touch == TOUCH_NONE && s->subflows.count)
		return true;
	subflow_template(&s->subflows, &t, &s->templates[p.flow * s->sizes + size], p.flow, p.seq);
	for (uint32_t i = t.payload_at + PAYLOAD_BYTES; i < f->len; i++)
		blank |= ((const uint8_t *)f->data)[i];
	return headers_agree(f->data, f->len, &t) && (touch == TOUCH_FULL || !blank);
}

static void send_any(uint32_t kind, uint32_t flows, uint32_t sizes, struct subflows subflows,
		     enum touch touch, bool receives)
{
	struct bench *b = bench_make(receives);
	struct sender *s = &b->task.sender;
	uint32_t seqs[64] = { 0 }, wrong = 0, sent = 0;
	struct frame f[BURST];

	memory_spoil(&b->port);
	b->task.role = ROLE_SENDER;
	*s = (struct sender){ .port = &b->port,
			      .flows = flows,
			      .sizes = sizes,
			      .burst = 1 + drawn(BURST),
			      .clock = &b->clock,
			      .window = &b->window,
			      .subflows = subflows,
			      .frames = b->frames };
	EXPECT(subflows_make(&s->subflows));
	s->templates = aligned_alloc(CACHE_LINE, flows * sizes * sizeof(*s->templates));
	for (uint32_t i = 0; i < flows * sizes; i++) {
		struct address a = address_kind(kind);

		a.src_port = (uint16_t)(a.src_port + i / sizes);
		template_make(&s->templates[i], &a, frame_least(&a) + more[i % sizes], RUN,
			      (uint16_t)(i / sizes), PHASE_MEASURED, false);
	}
	task_choose_step(&b->task, touch, TIMING_NONE);
	task_begin(&b->task);
	for (uint64_t now = 1; sent < 1000; now++) {
		uint32_t n = b->task.step(&b->task, now);

		sent += n;
		EXPECT_EQ(b->port.rx(&b->port, f, NULL, BURST), n);
		for (uint32_t i = 0; i < n; i++)
			wrong += !is_right(s, &f[i], touch, seqs);
		b->port.engine->release(&b->port, f, n);
	}
	EXPECT_EQ(wrong, 0);
	free(s->templates);
	subflows_free(&s->subflows);
	bench_free(b);
}

/* With a send-only port, whose old frames the sender patches, and with a port that also
 * receives. */
static void every_frame_is_what_its_template_says(void)
{
	drawn_state = 1;
	for (uint32_t i = 0; i < 2 * 3 * 4; i++) {
		const bool receives = i % 2;
		const enum touch touch = (enum touch)(i / 2 % 3);
		const uint32_t flows = (uint32_t[]){ 1, 2, 33, 64 }[i / 6];
		struct subflows none = { 0 }, some = { .count = 70000, .step = 70000, .seed = i };

		none.run_bits = some.run_bits = i % 4 * 2;
		send_any(drawn(4), flows, 1, none, touch, receives);
		send_any(drawn(4), flows, SIZES, none, touch, receives);
		for (uint32_t kind = 0; kind < 9; kind++) {
			some.by = (enum subflow_by)(kind % 3);
			some.order = (enum subflow_order)(kind / 3);
			send_any(drawn(4), flows, drawn(2) ? 1 : SIZES, some, touch, receives);
		}
	}
}

/* An announcement has the minimum length, so the old contents of its memory may follow it. */
static void an_announcement_leaves_nothing_behind_a_frame(void)
{
	struct bench *b = bench_make(false);
	struct sender *s = &b->task.sender;
	uint32_t seqs[1] = { 0 }, wrong = 0, sent = 0;
	struct frame_template hello;
	struct frame f[BURST];

	memory_spoil(&b->port);
	template_make(&hello, &address, FRAME_MIN, RUN, 0, PHASE_ANNOUNCE, false);
	for (uint32_t i = 0; i < BURST; i++)
		EXPECT(port_announce(&b->port, -1, &hello));
	EXPECT_EQ(b->port.rx(&b->port, f, NULL, BURST), BURST);
	b->port.engine->release(&b->port, f, BURST);
	b->task.role = ROLE_SENDER;
	*s = (struct sender){ .port = &b->port,
			      .flows = 1,
			      .sizes = SIZES,
			      .burst = BURST,
			      .clock = &b->clock,
			      .window = &b->window,
			      .frames = b->frames };
	s->templates = aligned_alloc(CACHE_LINE, SIZES * sizeof(*s->templates));
	for (uint32_t i = 0; i < SIZES; i++)
		template_make(&s->templates[i], &address, FRAME_MIN + more[i], RUN, 0,
			      PHASE_MEASURED, false);
	task_choose_step(&b->task, TOUCH_HEADER, TIMING_NONE);
	task_begin(&b->task);
	for (uint64_t now = 1; sent < 1000; now++) {
		uint32_t n = b->task.step(&b->task, now);

		sent += n;
		EXPECT_EQ(b->port.rx(&b->port, f, NULL, BURST), n);
		for (uint32_t i = 0; i < n; i++)
			wrong += !is_right(s, &f[i], TOUCH_HEADER, seqs);
		b->port.engine->release(&b->port, f, n);
	}
	EXPECT_EQ(wrong, 0);
	free(s->templates);
	bench_free(b);
}

/* Covers every possible checksum, and sequence numbers that wrap around. */
static void the_shortest_frames_have_their_checksums(void)
{
	struct bench *b = bench_make(false);
	struct sender *s = &b->task.sender;
	uint32_t seqs[1] = { UINT32_MAX - 70000 }, wrong = 0, sent = 0;
	struct frame f[BURST];

	memory_spoil(&b->port);
	b->task.role = ROLE_SENDER;
	*s = (struct sender){ .port = &b->port,
			      .flows = 1,
			      .sizes = 1,
			      .burst = BURST - 1,
			      .clock = &b->clock,
			      .window = &b->window,
			      .frames = b->frames };
	s->templates = aligned_alloc(CACHE_LINE, sizeof(*s->templates));
	template_make(s->templates, &address, FRAME_MIN, RUN, 0, PHASE_MEASURED, false);
	task_choose_step(&b->task, TOUCH_HEADER, TIMING_NONE);
	task_begin(&b->task);
	s->seq = seqs[0];
	for (uint64_t now = 1; sent < 75000; now++) {
		uint32_t n = b->task.step(&b->task, now);

		sent += n;
		EXPECT_EQ(b->port.rx(&b->port, f, NULL, BURST), n);
		for (uint32_t i = 0; i < n; i++)
			wrong += !is_right(s, &f[i], TOUCH_HEADER, seqs);
		b->port.engine->release(&b->port, f, n);
	}
	EXPECT_EQ(wrong, 0);
	EXPECT(seqs[0] < 10000);
	free(s->templates);
	bench_free(b);
}

/* Another core reads the frames, and may change any byte before the memory returns. */
static void a_changed_frame_is_written_anew(void)
{
	struct bench *b = bench_make(false);
	struct sender *s = &b->task.sender;
	uint32_t wrong = 0, sent = 0;
	uint8_t want[HEAD_BYTES];
	struct frame f[BURST];

	memory_spoil(&b->port);
	b->port.shares_frames = true;
	b->task.role = ROLE_SENDER;
	*s = (struct sender){ .port = &b->port,
			      .flows = 1,
			      .sizes = 1,
			      .burst = BURST,
			      .clock = &b->clock,
			      .window = &b->window,
			      .frames = b->frames };
	s->templates = aligned_alloc(CACHE_LINE, sizeof(*s->templates));
	template_make(s->templates, &address, FRAME_MIN, RUN, 0, PHASE_MEASURED, false);
	task_choose_step(&b->task, TOUCH_NONE, TIMING_NONE);
	EXPECT(!b->port.claims);
	task_choose_step(&b->task, TOUCH_HEADER, TIMING_NONE);
	EXPECT(b->port.claims);
	task_begin(&b->task);
	for (uint64_t now = 1; sent < 10000; now++) {
		const uint64_t time_net = time_to_net(clock_ns(&b->clock, now));
		uint32_t n = b->task.step(&b->task, now);

		EXPECT_EQ(b->port.rx(&b->port, f, NULL, BURST), n);
		for (uint32_t i = 0; i < n; i++, sent++) {
			frame_build(want, s->templates, sent, time_net, time_sum(time_net),
				    TOUCH_HEADER, false, false);
			wrong += f[i].len != FRAME_MIN || memcmp(f[i].data, want, FRAME_MIN);
			((uint8_t *)f[i].data)[sent / BURST % FRAME_MIN] ^= (uint8_t)(sent % 3);
		}
		b->port.engine->release(&b->port, f, n);
	}
	EXPECT_EQ(wrong, 0);
	free(s->templates);
	bench_free(b);
}

int main(void)
{
	TEST(a_burst_is_counted_as_its_frames_are);
	TEST(a_course_is_counted_as_its_frames_are);
	TEST(the_shortest_frames_have_their_checksums);
	TEST(a_changed_frame_is_written_anew);
	TEST(every_frame_is_what_its_template_says);
	TEST(an_announcement_leaves_nothing_behind_a_frame);
	return tap_end();
}
