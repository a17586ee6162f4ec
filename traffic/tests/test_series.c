/* SPDX-License-Identifier: Apache-2.0 */
/* Compares intervals and gaps with models that keep every frame. */
#include "gaps.h"
#include "series.h"
#include "subflows.h"
#include "tap.h"

#include <string.h>

static uint64_t drawn_state;

static uint32_t drawn(uint32_t below)
{
	drawn_state += 0x9e3779b97f4a7c15u;
	return (uint32_t)(mix64(drawn_state) >> 33) % below;
}

/* ---- intervals -------------------------------------------------------------------- */

static void a_bin_is_at_most_three_percent_wide(void)
{
	uint64_t wrong = 0;
	uint32_t before = 0;

	for (uint64_t ns = 0; ns < SERIES_HIGHEST; ns += 1 + ns / 1000) {
		const uint32_t bin = series_bin(ns);

		wrong += bin < before || bin > before + 1 || bin >= SERIES_BINS;
		wrong += ns > 64 && series_bin(ns + ns / 32 + 1) == bin;
		before = bin;
	}
	EXPECT_EQ(wrong, 0);
	EXPECT(series_bin(SERIES_HIGHEST) < SERIES_BINS);
}

#define START 1000000007ull
#define INTERVAL 10000000ull
#define COUNT_OF 8u

static void frames_count_in_the_intervals_of_their_times(void)
{
	struct series *s = series_make(COUNT_OF * INTERVAL - 5, INTERVAL, true);
	uint64_t arrived[COUNT_OF + 1] = { 0 }, received[COUNT_OF + 1] = { 0 };
	uint64_t highest[COUNT_OF + 1] = { 0 }, latencies[COUNT_OF + 1] = { 0 };

	series_begin(s, START, COUNT_OF * INTERVAL - 5);
	EXPECT_EQ(s->count, COUNT_OF + 1);
	for (uint32_t i = 0; i < 20000; i++) {
		const uint64_t due = START + drawn(COUNT_OF * INTERVAL - 5);
		const int64_t delay = drawn(4) ? drawn(30000) : (int64_t)drawn(2 * INTERVAL) - 100;
		const uint64_t at = due + (uint64_t)delay, frames = 1 + drawn(3);
		const uint64_t by = at < START ? 0 : (at - START) / INTERVAL;
		const uint64_t cell = by < COUNT_OF ? by : COUNT_OF;

		EXPECT(series_until(s, due, delay) > due);
		series_receive(s, due, delay, frames);
		arrived[(due - START) / INTERVAL] += frames;
		received[cell] += frames;
		if (delay > 0 && (uint64_t)delay > highest[cell])
			highest[cell] = (uint64_t)delay;
	}
	for (uint32_t i = 0; i <= COUNT_OF; i++) {
		for (uint32_t bin = 0; bin < SERIES_BINS; bin++)
			latencies[i] += s->cells[i].bins[bin];
		EXPECT_EQ(s->cells[i].arrived, arrived[i]);
		EXPECT_EQ(s->cells[i].received, received[i]);
		EXPECT_EQ(s->cells[i].highest, highest[i]);
		EXPECT_EQ(latencies[i], received[i]);
	}
	series_free(s);
}

static void frames_before_the_limit_have_the_same_intervals(void)
{
	struct series *s = series_make(COUNT_OF * INTERVAL, INTERVAL, true);

	series_begin(s, START, COUNT_OF * INTERVAL);
	for (uint32_t i = 0; i < 1000; i++) {
		const uint64_t due = START + drawn((COUNT_OF - 2) * INTERVAL);
		const int64_t delay = drawn(2 * INTERVAL);
		const uint64_t until = series_until(s, due, delay), at = due + (uint64_t)delay;
		struct series_cell *by_due = series_due(s, due),
				   *by_arrival = series_arrival(s, at);

		EXPECT(series_due(s, until - 1) == by_due);
		EXPECT(series_arrival(s, until - 1 + (uint64_t)delay) == by_arrival);
		EXPECT(series_due(s, until) != by_due ||
		       series_arrival(s, until + (uint64_t)delay) != by_arrival);
	}
	series_free(s);
}

static void a_frame_stamped_after_the_end_is_of_the_last_interval(void)
{
	struct series *s = series_make(COUNT_OF * INTERVAL, INTERVAL, true);

	series_begin(s, START, COUNT_OF * INTERVAL);
	series_receive(s, START + 2 * COUNT_OF * INTERVAL, 5, 1);
	EXPECT_EQ(s->cells[COUNT_OF - 1].arrived, 1);
	EXPECT_EQ(s->cells[COUNT_OF].received, 1);
	series_free(s);
}

static void what_was_not_sent_is_taken_back_from_the_last_intervals(void)
{
	struct series *s = series_make(COUNT_OF * INTERVAL, INTERVAL, false);

	series_begin(s, START, COUNT_OF * INTERVAL);
	series_count(&series_due(s, START)->sent, 10);
	series_count(&series_due(s, START + INTERVAL)->sent, 3);
	series_unsend(s, 5);
	EXPECT_EQ(s->cells[0].sent, 8);
	EXPECT_EQ(s->cells[1].sent, 0);
	series_begin(s, START, COUNT_OF * INTERVAL);
	EXPECT_EQ(s->cells[0].sent, 0);
	series_free(s);
}

/* ---- gaps ------------------------------------------------------------------------- */

#define NUMBERS 80u

/* Frames in the order of their arrival, with some missing and some late. */
struct history {
	uint32_t numbers[NUMBERS], count;
	bool came[NUMBERS];
};

static void history_make(struct history *h, uint32_t losses, uint32_t late)
{
	bool missing[NUMBERS] = { false };

	*h = (struct history){ 0 };
	for (uint32_t i = 0; i < losses; i++)
		for (uint32_t first = drawn(NUMBERS), n = drawn(12); n && first < NUMBERS; n--)
			missing[first++] = true;
	for (uint32_t i = 0; i < NUMBERS; i++)
		if (!missing[i])
			h->numbers[h->count++] = i;
	for (uint32_t i = 0; i < late && h->count; i++) {
		const uint32_t from = drawn(h->count), by = drawn(h->count - from);
		const uint32_t number = h->numbers[from];

		memmove(&h->numbers[from], &h->numbers[from + 1], by * sizeof(number));
		h->numbers[from + by] = number;
	}
	for (uint32_t i = 0; i < h->count; i++)
		h->came[h->numbers[i]] = true;
}

/* Counts as a receiver does: a frame arrives a microsecond after the one before. */
static void history_count(const struct history *h, struct gaps *g)
{
	uint64_t next = 0;

	gaps_begin(g);
	for (uint32_t i = 0; i < h->count; i++) {
		const uint64_t number = h->numbers[i];
		const struct gap_end at = { 1000 + number, 1000000 + i };

		if (number < next) {
			gaps_fill(g, number, at);
			continue;
		}
		if (number > next)
			gaps_open(g, next, number - next, at);
		gaps_note(g, at.due_ns, at.at_ns);
		next = number + 1;
	}
}

/* Compares with the runs of numbers that never came, before the last one that did. */
static void history_compare(const struct history *h, const struct gaps *g)
{
	uint32_t runs = 0, found = 0, last = NUMBERS, earliest = NUMBERS, latest = NUMBERS;

	while (last && !h->came[last - 1])
		last--;
	for (uint32_t i = 0, n; i < last; i += n ? n : 1) {
		for (n = 0; i + n < last && !h->came[i + n]; n++)
			;
		if (!n)
			continue;
		earliest = earliest < i ? earliest : i;
		latest = i;
		runs++;
		for (uint32_t k = 0; k < g->kept; k++)
			found += g->list[k].first == i && g->list[k].count == n &&
				 g->list[k].before.due_ns == (i ? 1000 + i - 1 : 0) &&
				 g->list[k].after.due_ns == 1000 + i + n;
	}
	if (runs > GAPS_KEPT)
		return;
	EXPECT_EQ(g->kept, runs);
	EXPECT_EQ(found, runs);
	EXPECT_EQ(g->earliest.count ? g->earliest.first : NUMBERS, earliest);
	EXPECT_EQ(g->latest.count ? g->latest.first : NUMBERS, latest);
}

static void gaps_are_the_runs_that_never_came(void)
{
	static struct history h;
	struct gaps g;

	for (uint32_t i = 0; i < 20000; i++) {
		history_make(&h, drawn(6), drawn(3));
		history_count(&h, &g);
		history_compare(&h, &g);
	}
}

static void the_longest_gaps_stay(void)
{
	struct gaps g;
	uint64_t next = 0, longest = 0;

	gaps_begin(&g);
	for (uint32_t i = 1; i <= 100; i++) {
		const uint64_t count = i * 37 % 101;

		gaps_note(&g, next, next);
		gaps_open(&g, next, count, (struct gap_end){ next + count, next + count });
		next += count + 1;
	}
	for (uint32_t i = 0; i < g.kept; i++)
		longest += g.list[i].count;
	EXPECT_EQ(g.kept, GAPS_KEPT);
	EXPECT_EQ(longest, 100 + 99 + 98 + 97 + 96 + 95 + 94 + 93);
	EXPECT_EQ(g.earliest.count, 37);
}

static void the_longest_silence_stays(void)
{
	const uint64_t arrivals[] = { 0, 5, 9, 40, 41, 60, 90, 95 };
	struct gaps g;

	gaps_begin(&g);
	for (uint32_t i = 0; i < sizeof(arrivals) / sizeof(*arrivals); i++) {
		const struct gap_end at = { 10 * i, 100 + arrivals[i] };

		if (i == 5) /* a silence in which a frame is missing counts too */
			gaps_open(&g, i, 1, at);
		else
			gaps_hear(&g, at);
		gaps_note(&g, at.due_ns, at.at_ns);
	}
	EXPECT_EQ(g.silence.before.at_ns, 109);
	EXPECT_EQ(g.silence.after.at_ns, 140);
	EXPECT_EQ(g.silence.after.due_ns, 30);
}

int main(void)
{
	TEST(a_bin_is_at_most_three_percent_wide);
	TEST(frames_count_in_the_intervals_of_their_times);
	TEST(frames_before_the_limit_have_the_same_intervals);
	TEST(a_frame_stamped_after_the_end_is_of_the_last_interval);
	TEST(what_was_not_sent_is_taken_back_from_the_last_intervals);
	TEST(gaps_are_the_runs_that_never_came);
	TEST(the_longest_gaps_stay);
	TEST(the_longest_silence_stays);
	return tap_end();
}
