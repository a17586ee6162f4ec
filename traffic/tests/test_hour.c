/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates a phase of an hour, from arm to report, with a clock that the test controls. */
#include "clock.h"

#include <stdint.h>

/* A receiver reads the counter again after it has received a burst. */
static uint64_t counter;
#define clock_ticks() counter
#include "receive.c"

#include "session.h"
#include "steps.h"
#include "tap.h"

#include <string.h>

#define SECOND 1000000000ull /* ticks of the simulated clock, which are nanoseconds */
#define START SECOND
#define HOUR (3600 * SECOND)
#define LOADS (360 * SECOND) /* a phase in which the load changes */

static struct arm_plan arm_plan; /* too large for a stack */

/* A session without threads: the test steps its tasks. */
struct bench {
	struct session s;
	struct task tasks[2]; /* a sender, a receiver */
};

static struct bench *bench_make(uint32_t burst, bool loop, uint32_t tasks, double rate_pps,
				enum touch touch)
{
	struct bench *b = aligned_alloc(_Alignof(struct bench), sizeof(*b));
	const struct start_plan start = { .at_ns = START,
					  .duration_ns = HOUR,
					  .phase = PHASE_MEASURED };
	struct session *s;
	struct port *port;
	struct arm_plan *arm;

	memset(b, 0, sizeof(*b));
	s = &b->s;
	port = &s->ports[0];
	port->engine = engine_find("null");
	port->config = (struct port_config){ .sends = true,
					     .receives = loop,
					     .burst = burst,
					     .cores = 1,
					     .frame_max = FRAME_MIN,
					     .option_count = 1,
					     .options = { { .name = "loop", .number = loop } } };
	EXPECT_EQ(port_open(port), 0);
	s->port_count = 1;
	s->tasks = b->tasks;
	s->task_count = tasks;
	arm = &arm_plan;
	*arm = (struct arm_plan){ .run = 9,
				  .touch = touch,
				  .has_clock = true,
				  .clock = { .hz = SECOND },
				  .longest_ns = HOUR,
				  .interval_ns = SECOND,
				  .series_ns = SECOND,
				  .task_count = tasks };
	for (uint32_t i = 0; i < tasks; i++) {
		struct task_load *load = &arm->tasks[i];

		b->tasks[i].cores = 1;
		b->tasks[i].role = i ? ROLE_RECEIVER : ROLE_SENDER;
		b->tasks[i].sender.port = b->tasks[i].receiver.port = port;
		load->flows = load->len_count = load->sent.count = 1;
		load->lens[0] = FRAME_MIN;
		load->burst = burst;
		load->rate_pps = rate_pps;
		load->latency = true;
	}
	EXPECT(!session_arm(s, arm));
	EXPECT(s->armed);
	EXPECT(!session_start(s, &start));
	return b;
}

static json_t *bench_report(struct bench *b)
{
	json_t *report = session_report(&b->s);

	EXPECT(json_is_true(json_object_get(report, "ok")));
	return report;
}

static void bench_free(struct bench *b, json_t *report)
{
	json_decref(report);
	for (uint32_t i = 0; i < b->s.task_count; i++)
		task_free(&b->tasks[i]);
	b->s.ports[0].engine->close(&b->s.ports[0]);
	free(b);
}

static const json_t *part(const json_t *report, size_t task, const char *what)
{
	return json_object_get(json_array_get(json_object_get(report, "tasks"), task), what);
}

static json_int_t count_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static const json_t *kind_of(const json_t *series, size_t task, const char *kind)
{
	return json_object_get(part(series, task, task ? "received" : "sent"), kind);
}

static json_int_t counted(const json_t *series, size_t task, const char *kind, size_t i)
{
	return json_integer_value(json_array_get(kind_of(series, task, kind), i));
}

/* Every frame is sent half a microsecond after its due time, and arrives two microseconds later. */
static void an_hour_of_a_slow_rate_adds_up(void)
{
	const uint64_t period = SECOND / 1000, frames = HOUR / period;
	struct bench *b = bench_make(1, true, 2, 1000, TOUCH_HEADER);
	const json_t *sent, *received, *latency, *intervals;
	uint64_t wrong = 0;
	json_t *series;
	json_t *report;

	for (uint64_t i = 0; i < frames; i++) {
		const uint64_t now = START + i * period + 500;

		wrong += b->tasks[0].step(&b->tasks[0], now) != 1;
		counter = now + 2000;
		wrong += b->tasks[1].step(&b->tasks[1], counter) != 1;
	}
	EXPECT_EQ(wrong, 0);
	EXPECT_EQ(b->tasks[0].step(&b->tasks[0], START + HOUR), 0);
	EXPECT(b->tasks[0].sent_all);
	report = bench_report(b);
	sent = part(report, 0, "sent");
	received = part(report, 1, "received");
	latency = json_object_get(received, "latency");
	intervals = json_object_get(received, "intervals");
	EXPECT_EQ(count_of(report, "duration_ns"), HOUR);
	EXPECT_EQ(count_of(sent, "frames"), frames);
	EXPECT_EQ(count_of(sent, "unsent"), 0);
	EXPECT_EQ(count_of(json_object_get(sent, "lag"), "sum"), frames * 500);
	EXPECT_EQ(count_of(received, "frames"), frames);
	EXPECT_EQ(count_of(received, "late"), 0);
	EXPECT_EQ(count_of(latency, "count"), frames);
	EXPECT_EQ(count_of(latency, "sum"), frames * 2500);
	for (size_t i = 0; i < 3600; i++)
		wrong += json_integer_value(json_array_get(intervals, i)) != 1000;
	EXPECT_EQ(wrong, 0);
	series = session_series(&b->s, 0, SERIES_MAX);
	for (size_t i = 0; i <= 3600; i++) {
		const json_int_t each = i < 3600 ? 1000 : 0;

		wrong += counted(series, 0, "sent", i) != each;
		wrong += counted(series, 1, "arrived", i) != each;
		wrong += counted(series, 1, "received", i) != each;
		wrong += counted(series, 1, "highest", i) != (each ? 2500 : 0);
	}
	EXPECT_EQ(wrong, 0);
	EXPECT_EQ(json_array_size(kind_of(series, 1, "received")), 3601);
	json_decref(series);
	bench_free(b, report);
}

/* The sender has time for one in two hundred frames of 10 Mpps: the number of offered frames
 * exceeds 32 bits, and the sum of their lag in nanoseconds exceeds 64 bits. */
static void an_hour_of_overload_adds_up(void)
{
	const double rate = 1e7;
	const uint64_t pause = SECOND / 1000 * 75, period = BURST_MAX * SECOND / 10000000;
	struct bench *b = bench_make(BURST_MAX, false, 1, rate, TOUCH_NONE);
	uint64_t frames = 0;
	const json_t *sent, *lag;
	double sum = 0;
	json_t *report;

	for (uint64_t i = 0, now = START; now < START + HOUR; now += pause, i++) {
		const uint64_t late = now - START - i * period;

		frames += b->tasks[0].step(&b->tasks[0], now);
		sum += BURST_MAX * (double)(late < HISTOGRAM_HIGHEST ? late : HISTOGRAM_HIGHEST);
	}
	EXPECT_EQ(b->tasks[0].step(&b->tasks[0], START + 2 * HOUR), 0);
	EXPECT(b->tasks[0].sent_all);
	report = bench_report(b);
	sent = part(report, 0, "sent");
	lag = json_object_get(sent, "lag");
	EXPECT_EQ(count_of(sent, "frames"), frames);
	EXPECT_EQ(count_of(sent, "frames") + count_of(sent, "unsent"), 3600 * 10000000ll);
	EXPECT_EQ(count_of(lag, "count"), frames);
	EXPECT(sum > 1.9e19);
	EXPECT(json_number_value(json_object_get(lag, "sum")) / sum > 0.9999);
	EXPECT(json_number_value(json_object_get(lag, "sum")) / sum < 1.0001);
	bench_free(b, report);
}

/* Numbers on the wire have 32 bits. The frames around number 2^32 are lost: the gap and all counts
 * are those of 64 bits. */
static void a_flow_of_more_than_32_bits_adds_up(void)
{
	const uint64_t wrap = 1ull << 32, period = SECOND / 1000, before = 100, after = 50;
	struct bench *b = bench_make(1, true, 2, 1000, TOUCH_HEADER);
	struct sequence *sequence = b->tasks[1].receiver.sequences;
	const json_t *received, *gaps, *gap;
	struct frame frame;
	json_t *report, *series;
	uint64_t wrong = 0;

	b->tasks[0].sender.seq = (uint32_t)(wrap - before);
	sequence->next = wrap - before;
	sequence->distinct = wrap - before; /* received earlier in the phase */
	for (uint64_t i = 0; i < before + after; i++) {
		const uint64_t now = START + i * period;

		wrong += b->tasks[0].step(&b->tasks[0], now) != 1;
		counter = now + 2000;
		if ((i >= before - 10 && i < before + 10) || i == before + 11)
			port_discard(&b->s.ports[0], &frame, 1, 1);
		else
			wrong += b->tasks[1].step(&b->tasks[1], counter) != 1;
	}
	EXPECT_EQ(wrong, 0);
	report = bench_report(b);
	received = part(report, 1, "received");
	gaps = json_object_get(received, "gaps");
	gap = json_array_get(json_object_get(gaps, "longest"), 0);
	EXPECT_EQ(json_array_size(json_object_get(gaps, "longest")), 2);
	EXPECT(json_equal(gap, json_object_get(gaps, "earliest")));
	EXPECT_EQ(json_integer_value(json_array_get(gap, 1)), wrap - 10);
	EXPECT_EQ(json_integer_value(json_array_get(gap, 2)), 20);
	EXPECT_EQ(json_integer_value(json_array_get(gap, 3)), START + (before - 11) * period);
	EXPECT_EQ(json_integer_value(json_array_get(gap, 5)), START + (before + 10) * period);
	EXPECT_EQ(json_integer_value(json_array_get(gap, 6)) -
			  json_integer_value(json_array_get(gap, 5)),
		  2000);
	EXPECT_EQ(json_integer_value(
			  json_array_get(json_array_get(json_object_get(gaps, "ends"), 0), 0)),
		  wrap + after);
	gap = json_object_get(gaps, "latest");
	EXPECT_EQ(json_integer_value(json_array_get(gap, 1)), wrap + 11);
	EXPECT_EQ(json_integer_value(json_array_get(gap, 2)), 1);
	EXPECT_EQ(json_integer_value(json_array_get(gap, 3)), START + (before + 10) * period);
	EXPECT_EQ(sequence->distinct, wrap + after - 21);
	EXPECT_EQ(count_of(received, "duplicated"), 0);
	EXPECT_EQ(count_of(received, "reordered"), 0);
	series = session_series(&b->s, 0, 1);
	EXPECT_EQ(counted(series, 0, "sent", 0), before + after);
	EXPECT_EQ(counted(series, 1, "arrived", 0), before + after - 21);
	json_decref(series);
	bench_free(b, report);
}

enum { COPIES = 700 };

static uint64_t repeated_until; /* in the time of frames: that of the last call */
static uint32_t repeated_number;

static uint32_t repeat_some(struct port *port, const struct repetition *r)
{
	(void)port;
	repeated_until = r->until_ns + r->add_ns;
	repeated_number = r->number;
	return r->most < COPIES ? r->most : COPIES;
}

/* An engine makes the frames of a sender at full rate. All frames of a call are due in one interval,
 * and none is due after the end. */
static void copies_that_an_engine_makes_add_up(void)
{
	const uint64_t step = SECOND / 4, steps = HOUR / step;
	struct bench *b = bench_make(32, false, 1, 0, TOUCH_HEADER);
	struct engine repeats = *b->s.ports[0].engine;
	struct sender *s = &b->tasks[0].sender;
	const json_t *sent;
	uint64_t wrong = 0;
	json_t *report, *series;

	repeats.repeat = repeat_some;
	b->s.ports[0].engine = &repeats;
	EXPECT(!s->repeats);
	EXPECT(!sender_can_repeat(s, TOUCH_NONE));
	task_choose_step(&b->tasks[0], TOUCH_HEADER, TIMING_NONE);
	EXPECT(s->repeats);
	for (uint64_t i = 0; i < steps; i++) {
		wrong += b->tasks[0].step(&b->tasks[0], START + i * step) != COPIES;
		wrong += repeated_number != i * COPIES;
		wrong += repeated_until != START + (i / 4 + 1) * SECOND;
	}
	EXPECT_EQ(wrong, 0);
	EXPECT_EQ(repeated_until, START + HOUR);
	EXPECT_EQ(b->tasks[0].step(&b->tasks[0], START + HOUR), 0);
	EXPECT(b->tasks[0].sent_all);
	report = bench_report(b);
	sent = part(report, 0, "sent");
	EXPECT_EQ(count_of(sent, "frames"), steps * COPIES);
	EXPECT_EQ(count_of(sent, "polls"), steps);
	series = session_series(&b->s, 0, SERIES_MAX);
	for (size_t i = 0; i <= 3600; i++)
		wrong += counted(series, 0, "sent", i) != (i < 3600 ? 4 * COPIES : 0);
	EXPECT_EQ(wrong, 0);
	json_decref(series);
	bench_free(b, report);
}

/* The engine numbers no frame above 32 bits; the sender writes those at the border itself. */
static void copies_that_an_engine_makes_have_numbers_of_32_bits(void)
{
	struct bench *b = bench_make(32, false, 1, 0, TOUCH_HEADER);
	struct engine repeats = *b->s.ports[0].engine;
	struct sender *s = &b->tasks[0].sender;

	repeats.repeat = repeat_some;
	b->s.ports[0].engine = &repeats;
	task_choose_step(&b->tasks[0], TOUCH_HEADER, TIMING_NONE);
	s->seq = UINT32_MAX - 10;
	EXPECT_EQ(b->tasks[0].step(&b->tasks[0], START), 10);
	EXPECT_EQ(b->tasks[0].step(&b->tasks[0], START), 32);
	EXPECT_EQ(s->seq, 31);
	EXPECT_EQ(b->tasks[0].step(&b->tasks[0], START), COPIES);
	EXPECT_EQ(repeated_number, 31);
	EXPECT_EQ(s->sent, 10 + 32 + COPIES);
	bench_free(b, bench_report(b));
}

static uint32_t alloc_nothing(struct port *port, struct frame *frames, uint32_t n)
{
	(void)port, (void)frames, (void)n;
	return 0;
}

/* The load changes three times. For some seconds before the first change the sender does not run,
 * or its port is full: what was due then is not sent later. */
static void steps_change_the_load(enum arrivals arrivals, uint64_t stopped_s, bool full)
{
	static struct start_plan start = {
		.at_ns = START,
		.duration_ns = LOADS,
		.phase = PHASE_MEASURED,
		.steps = { { 60 * SECOND, 0.5 }, { 180 * SECOND, 0 }, { 270 * SECOND, 2 } },
		.step_count = 3
	};
	struct bench *b = bench_make(1, false, 1, 1000, TOUCH_HEADER);
	uint64_t frames = 0, wrong = 0;
	json_t *report, *series;
	const json_t *sent;

	const struct engine *engine = b->s.ports[0].engine;
	struct engine blocked = *engine;

	blocked.alloc = alloc_nothing;
	b->tasks[0].sender.pacing.arrivals = arrivals;
	EXPECT(!session_start(&b->s, &start));
	for (uint64_t now = START; now <= START + LOADS; now += SECOND / 2000) {
		const uint64_t since_s = (now - START) / SECOND;

		const bool stopped = since_s >= 60 - stopped_s && since_s < 60;

		if (stopped && !full)
			continue;
		b->s.ports[0].engine = stopped ? &blocked : engine;
		while (b->tasks[0].step(&b->tasks[0], now))
			frames++;
	}
	EXPECT_EQ(b->tasks[0].step(&b->tasks[0], START + LOADS + SECOND), 0);
	EXPECT(b->tasks[0].sent_all);
	series = session_series(&b->s, 0, SERIES_MAX);
	for (size_t i = 0; i < 360; i++) {
		const json_int_t each = i < 60 ? 1000 : i < 180 ? 500 : i < 270 ? 0 : 2000;
		const json_int_t found = counted(series, 0, "sent", i);

		if (i >= 60 - stopped_s && i < 60)
			wrong += found != 0;
		else
			wrong += found != each;
	}
	EXPECT_EQ(wrong, 0);
	json_decref(series);
	report = bench_report(b);
	sent = part(report, 0, "sent");
	EXPECT_EQ(count_of(sent, "frames"), frames);
	EXPECT_EQ(count_of(sent, "frames") + count_of(sent, "unsent"),
		  60 * 1000 + 120 * 500 + 90 * 2000);
	EXPECT_EQ(count_of(sent, "unsent"), stopped_s * 1000);
	bench_free(b, report);
}

static void steps_change_the_load_of_bursts(void)
{
	steps_change_the_load(ARRIVALS_BURST, 0, false);
	steps_change_the_load(ARRIVALS_BURST, 5, false);
	steps_change_the_load(ARRIVALS_BURST, 5, true);
}

static void steps_change_the_load_of_single_frames(void)
{
	steps_change_the_load(ARRIVALS_EVEN, 0, false);
	steps_change_the_load(ARRIVALS_EVEN, 5, false);
	steps_change_the_load(ARRIVALS_EVEN, 5, true);
}

int main(void)
{
	TEST(an_hour_of_a_slow_rate_adds_up);
	TEST(an_hour_of_overload_adds_up);
	TEST(a_flow_of_more_than_32_bits_adds_up);
	TEST(copies_that_an_engine_makes_add_up);
	TEST(copies_that_an_engine_makes_have_numbers_of_32_bits);
	TEST(steps_change_the_load_of_bursts);
	TEST(steps_change_the_load_of_single_frames);
	return tap_end();
}
