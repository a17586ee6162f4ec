/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the counts of flows that arrive on several cores with a list of all arrivals. */
#include "lines.h"
#include "loop.h"
#include "merged.h"
#include "steps.h"
#include "subflows.h"
#include "tap.h"

#include <unistd.h>

#define CORES 3u
#define MANY 16384u /* a number of flows with merged windows of only 16 chunks */

struct cores {
	struct merged_core *merged[CORES];
	struct sequence *sequences[CORES];
	uint64_t *windows[CORES];
	uint64_t rx[CORES], bytes[CORES]; /* counted as by a receiver */
	uint32_t flows;
};

static struct cores *cores_make(uint32_t flows)
{
	struct cores *c = calloc(1, sizeof(*c));

	c->flows = flows;
	for (uint32_t i = 0; i < CORES; i++) {
		c->sequences[i] = lines_alloc(flows, sizeof(struct sequence));
		c->windows[i] = lines_alloc(flows, CHUNK / 8);
		for (uint32_t f = 0; f < flows; f++)
			c->sequences[i][f] =
				(struct sequence){ .window = c->windows[i] + f * CHUNK / 64,
						   .bits = CHUNK };
		c->merged[i] =
			merged_make(i, CORES, c->sequences[i], flows, i ? c->merged[0]->all : NULL);
	}
	return c;
}

static void cores_begin(struct cores *c)
{
	for (uint32_t i = 0; i < CORES; i++) {
		for (uint32_t f = 0; f < c->flows; f++)
			sequence_reset(&c->sequences[i][f]);
		merged_begin(c->merged[i]);
		c->rx[i] = c->bytes[i] = 0;
	}
}

static void cores_free(struct cores *c)
{
	for (uint32_t i = CORES; i-- > 0;) {
		merged_free(c->merged[i]);
		free(c->sequences[i]);
		free(c->windows[i]);
	}
	free(c);
}

/* Makes frames of 60 bytes with consecutive numbers arrive. */
static void come(struct cores *c, uint32_t core, uint32_t flow, uint64_t first, uint64_t count)
{
	for (uint32_t some; count; first += some, count -= some) {
		const uint32_t most = count < 1 << 20 ? (uint32_t)count : 1 << 20;
		struct merged_found found;

		some = merged_count(c->merged[core], flow, (uint32_t)first, most, 60, &found);
		c->rx[core] += (found.fresh ? some : 0) - found.copies;
		c->bytes[core] += (found.fresh ? some * 60 : 0) - found.bytes;
	}
}

static struct sequence finish(struct cores *c, uint32_t flow)
{
	const struct sequence *by_core[CORES];

	for (uint32_t i = 0; i < CORES; i++) {
		struct merged_found found;

		merged_finish(c->merged[i], flow, &found);
		c->rx[i] -= found.copies;
		c->bytes[i] -= found.bytes;
		by_core[i] = &c->sequences[i][flow];
	}
	return merged_flow_of(c->merged[0]->all, flow, by_core);
}

static uint64_t rx_of(const struct cores *c)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < CORES; i++) {
		EXPECT_EQ(c->bytes[i], c->rx[i] * 60);
		sum += c->rx[i];
	}
	return sum;
}

static uint64_t drawn_state;

static uint32_t drawn(uint32_t below)
{
	drawn_state += 0x9e3779b97f4a7c15u;
	return (uint32_t)(mix64(drawn_state) >> 33) % below;
}

/* Each core has a different pace, skips numbers, and gets old frames and copies of other cores'
 * frames. */
static void a_flow_that_came_to_several_cores_is_counted_as_one(void)
{
	enum { NUMBERS = 60000 };
	static uint32_t times[NUMBERS];
	struct cores *c = cores_make(MANY);

	for (uint32_t round = 0; round < 60; round++) {
		const uint32_t flow = drawn(MANY), spread = 1 + drawn(20000),
			       used = 1 + round % CORES;
		uint64_t distinct = 0, came = 0;
		struct sequence s;

		cores_begin(c);
		memset(times, 0, sizeof(times));
		for (uint32_t at = 0; at + spread + 5000 < NUMBERS; at += drawn(spread / 8 + 2)) {
			const uint32_t first = at + drawn(spread),
				       count = 1 + drawn(drawn(2) ? 3 : 5000);

			come(c, drawn(used), flow, first, count);
			for (uint32_t i = first; i < first + count; i++)
				times[i]++;
		}
		for (uint32_t i = 0; i < NUMBERS; i++) {
			distinct += times[i] > 0;
			came += times[i];
		}
		for (int again = 0; again < 2; again++) {
			s = finish(c, flow);
			EXPECT_EQ(s.distinct, distinct);
			EXPECT_EQ(s.duplicated, came - distinct);
			EXPECT_EQ(s.beyond, 0);
			EXPECT_EQ(rx_of(c), distinct);
		}
		for (uint32_t i = 0; i < NUMBERS; i++)
			EXPECT((merged_unseen(c->merged[0]->all, flow, i) == i) == !times[i]);
	}
	cores_free(c);
}

static size_t resident(void)
{
	unsigned long size = 0, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	EXPECT(f && fscanf(f, "%lu %lu", &size, &pages) == 2);
	if (f)
		fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* More frames than 32-bit numbers, in a flow that keeps changing its core; sometimes frames arrive
 * on both cores. */
static void a_long_phase_is_counted_exactly_in_the_same_memory(void)
{
	enum { PART = 1 << 16, COPIES = 100 };
	const uint64_t parts = (1ull << 32) / PART + 500;
	struct cores *c = cores_make(1);
	size_t before = 0;
	struct sequence s;

	cores_begin(c);
	for (uint64_t i = 0; i < parts; i++) {
		if (i == 10000) /* the whole window has been written */
			before = resident();
		come(c, i & 1, 0, i * PART, PART);
		come(c, 2, 0, i * PART + PART / 2, COPIES);
	}
	EXPECT(resident() < before + (1 << 20));
	s = finish(c, 0);
	EXPECT_EQ(s.distinct, parts * PART);
	EXPECT_EQ(s.duplicated, parts * COPIES);
	EXPECT_EQ(s.reordered + s.beyond, 0);
	EXPECT_EQ(rx_of(c), parts * PART);
	cores_free(c);
}

/* A flow leaves a core in the middle of a chunk: that core's part of the chunk is still
 * compared. */
static void a_core_that_is_left_behind_is_compared_all_the_same(void)
{
	struct cores *c = cores_make(MANY);
	struct sequence s;

	cores_begin(c);
	come(c, 0, 5, 0, 5000);
	come(c, 1, 5, 4500, 1000); /* 500 copies; then this core is left behind, too */
	come(c, 2, 5, 5200, 1000000); /* 300 more */
	/* 10 copies of both others, in a chunk that left the window long ago */
	come(c, 0, 5, 5000, 10);
	s = finish(c, 5);
	EXPECT_EQ(s.distinct, 1005200);
	EXPECT_EQ(s.duplicated, 500 + 300 + 10);
	EXPECT_EQ(s.beyond, 0);
	EXPECT_EQ(rx_of(c), 1005200);
	cores_free(c);
}

/* As for a flow on one core: a frame older than the window is reported as such, unless all older
 * numbers have arrived. */
static void a_frame_older_than_what_is_put_together_is_said_to_be(void)
{
	struct cores *c = cores_make(MANY);
	struct sequence s;

	cores_begin(c);
	come(c, 0, 1, 0, 500000);
	come(c, 1, 1, 100, 20);
	s = finish(c, 1);
	EXPECT_EQ(s.distinct, 500000);
	EXPECT_EQ(s.duplicated, 20);
	EXPECT_EQ(s.beyond, 0);
	come(c, 0, 2, 0, 3);
	come(c, 0, 2, 10, 500000);
	come(c, 1, 2, 0, 20);
	s = finish(c, 2);
	EXPECT_EQ(s.distinct, 500003);
	EXPECT_EQ(s.beyond, 7);
	EXPECT_EQ(s.duplicated, 13);
	cores_free(c);
}

/* ---- receivers -------------------------------------------------------------------- */

#define BURST 64u
#define TIMES 8 /* interval_count */

struct bench {
	struct port port;
	struct clock clock;
	struct window window;
	struct task task;
	struct frame frames[BURST];
	uint64_t intervals[TIMES];
};

static const struct address address = { .src_mac = { 2, 1 }, .dst_mac = { 2, 2 } };

/* A receiver on one of the cores, on a looped port. */
static struct bench *bench_make(struct cores *c, uint32_t core)
{
	struct bench *b = aligned_alloc(_Alignof(struct bench), sizeof(*b));

	memset(b, 0, sizeof(*b));
	b->clock = (struct clock){ .hz = 1000000000 };
	clock_derive(&b->clock);
	b->port.engine = engine_find("null");
	b->port.config = (struct port_config){ .sends = true,
					       .receives = true,
					       .burst = BURST,
					       .frame_max = 1514,
					       .option_count = 1,
					       .options = { { .name = "loop", .number = 1 } } };
	EXPECT_EQ(port_open(&b->port), 0);
	b->window = (struct window){ .end = UINT64_MAX / 4,
				     .interval = UINT64_MAX / 4,
				     .phase = PHASE_MEASURED };
	b->task.role = ROLE_RECEIVER;
	b->task.receiver = (struct receiver){ .port = &b->port,
					      .run = 9,
					      .flows = c->flows,
					      .burst = BURST,
					      .clock = &b->clock,
					      .window = &b->window,
					      .frames = b->frames,
					      .sequences = c->sequences[core],
					      .merged = c->merged[core],
					      .intervals = b->intervals,
					      .interval_count = TIMES };
	return b;
}

/* Makes frames of a flow arrive in bursts, alternating short and long frames. */
static void arrive(struct bench *b, uint32_t flow, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i += BURST) {
		const uint32_t n = count - i < BURST ? count - i : BURST;
		struct frame f[BURST];

		EXPECT_EQ(b->port.engine->alloc(&b->port, f, n), n);
		for (uint32_t k = 0; k < n; k++) {
			const uint32_t seq = first + i + k;
			struct frame_template t;

			template_make(&t, &address, seq % 2 ? 1513 : 60, 9, (uint16_t)flow,
				      PHASE_MEASURED, false);
			frame_build(f[k].data, &t, seq, 0, 0, TOUCH_HEADER, false, false);
			f[k].len = t.len;
		}
		EXPECT_EQ(b->port.tx(&b->port, f, n), n);
		EXPECT_EQ(b->task.step(&b->task, clock_ticks()), n);
	}
}

/* Copies are in no counter, whether a whole chunk or a part of one arrived on both cores. */
static void copies_that_came_to_another_core_are_in_no_count_of_frames(void)
{
	for (int timing = TIMING_NONE; timing <= TIMING_HEADERS; timing += TIMING_HEADERS) {
		struct cores *c = cores_make(4);
		struct bench *b[2] = { bench_make(c, 0), bench_make(c, 1) };
		uint64_t rx = 0, bytes = 0, intervals = 0;

		for (int i = 0; i < 2; i++) {
			struct expected_headers *p = &b[i]->task.receiver.expected;

			p->templates = aligned_alloc(CACHE_LINE, 4 * sizeof(*p->templates));
			for (uint16_t f = 0; f < 4; f++)
				template_make(&p->templates[f], &address, 60, 9, f, PHASE_MEASURED,
					      false);
			task_choose_step(&b[i]->task, TOUCH_HEADER, (enum timing)timing);
			task_begin(&b[i]->task);
		}
		merged_begin(c->merged[2]);
		arrive(b[0], 1, 0, 10000);
		arrive(b[1], 1, 4096, 4096);
		arrive(b[1], 1, 10000, 2000);
		arrive(b[0], 1, 10500, 100);
		arrive(b[1], 2, 0, 1000);
		for (int i = 0; i < 2; i++) {
			struct receiver *r = &b[i]->task.receiver;

			receiver_finish(r);
			rx += r->rx;
			bytes += r->bytes;
			for (int k = 0; k < TIMES; k++)
				intervals += b[i]->intervals[k];
			free(r->expected.templates);
			b[i]->port.engine->close(&b[i]->port);
			free(b[i]);
		}
		EXPECT_EQ(rx, 13000);
		EXPECT_EQ(bytes, 13000 / 2 * (60 + 1513));
		EXPECT_EQ(intervals, 13000);
		EXPECT_EQ(finish(c, 1).duplicated, 4196);
		cores_free(c);
	}
}

int main(void)
{
	TEST(a_flow_that_came_to_several_cores_is_counted_as_one);
	TEST(a_long_phase_is_counted_exactly_in_the_same_memory);
	TEST(a_core_that_is_left_behind_is_compared_all_the_same);
	TEST(a_frame_older_than_what_is_put_together_is_said_to_be);
	TEST(copies_that_came_to_another_core_are_in_no_count_of_frames);
	return tap_end();
}
