/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of reordering in flows that arrive on several cores. */
#include "order.h"
#include "tap.h"

#include <string.h>

#define CORES 3
#define FLOWS 4

static struct order *orders[CORES];
static struct order_found found[FLOWS];

static void begin(void)
{
	for (uint32_t c = 0; c < CORES; c++) {
		order_free(orders[c]);
		orders[c] = order_make(c, FLOWS, c ? orders[0]->shared : NULL);
		order_begin(orders[c]);
	}
}

static void end(void)
{
	const bool wanted[FLOWS] = { true, true, true, true };

	memset(found, 0, sizeof(found));
	EXPECT(order_count(orders, CORES, wanted, found));
	for (uint32_t c = 0; c < CORES; c++) {
		order_free(orders[c]);
		orders[c] = NULL;
	}
}

static void frames_in_turn_are_in_order_on_whatever_core(void)
{
	begin();
	for (uint32_t n = 0; n < 3000; n++)
		order_note(orders[n * 7 % CORES], n % FLOWS, n / FLOWS, 10 * n, 10 * n + 9);
	end();
	for (uint32_t f = 0; f < FLOWS; f++) {
		EXPECT_EQ(found[f].reordered, 0);
		EXPECT_EQ(found[f].ties, 0);
	}
}

/* Every tenth frame arrives after its successor, on the same core or on another one. */
static void what_a_frame_of_another_core_overtook_is_counted(void)
{
	begin();
	for (uint32_t n = 0; n < 3000; n++) {
		const uint32_t number = n % 10 == 8 ? n + 1 : n % 10 == 9 ? n - 1 : n;

		order_note(orders[number % 4 % CORES], 1, number, 10 * n, 10 * n + 9);
	}
	end();
	EXPECT_EQ(found[1].reordered, 300);
	EXPECT_EQ(found[1].ties, 0);
	EXPECT_EQ(found[0].reordered, 0);
}

static void what_times_do_not_tell_is_a_tie(void)
{
	begin();
	/* The order of frames 0 and 1 is unknown; frame 2 arrived after both. */
	order_note(orders[0], 0, 0, 10, 20);
	order_note(orders[1], 0, 1, 15, 25);
	order_note(orders[2], 0, 2, 26, 27);
	/* The same timestamp. */
	order_note(orders[0], 1, 0, 10, 10);
	order_note(orders[1], 1, 1, 10, 10);
	/* The frame certainly arrived after frame 2, whatever the position of frame 1. */
	order_note(orders[0], 2, 2, 1, 2);
	order_note(orders[1], 2, 0, 10, 20);
	order_note(orders[2], 2, 1, 15, 25);
	end();
	EXPECT_EQ(found[0].ties, 1);
	EXPECT_EQ(found[0].reordered, 0);
	EXPECT_EQ(found[1].ties, 1);
	EXPECT_EQ(found[2].ties, 0);
	EXPECT_EQ(found[2].reordered, 2);
}

static void copies_are_not_reordered(void)
{
	begin();
	for (uint32_t n = 0; n < 100; n++) {
		order_note(orders[0], 0, n, 10 * n, 10 * n + 1);
		order_note(orders[1], 0, n, 10 * n + 2, 10 * n + 3);
		if (n > 5)
			order_note(orders[2], 0, n - 5, 10 * n + 4, 10 * n + 5);
	}
	end();
	EXPECT_EQ(found[0].reordered, 0);
	EXPECT_EQ(found[0].ties, 0);
}

/* Compares with a check of all pairs, for random orders with overlapping times. */
static void as_comparing_all_pairs_would(void)
{
	enum { FRAMES = 60 };
	uint64_t state = 1;

	for (uint32_t round = 0; round < 200; round++) {
		struct {
			uint64_t low, high;
			uint32_t number, core, place;
		} frames[FRAMES];
		uint64_t now[CORES] = { 0 }, empty[CORES] = { 0 }, reordered = 0, ties = 0;

		begin();
		for (uint32_t i = 0; i < FRAMES; i++)
			frames[i].number = i;
		for (uint32_t i = FRAMES; i-- > 1;) {
			uint32_t j, number = frames[i].number;

			state = state * 6364136223846793005u + 1442695040888963407u;
			j = i - (uint32_t)(state >> 33) % (i < 4 ? i + 1 : 4);
			frames[i].number = frames[j].number;
			frames[j].number = number;
		}
		for (uint32_t i = 0; i < FRAMES; i++) {
			uint32_t c, wait;

			state = state * 6364136223846793005u + 1442695040888963407u;
			c = (uint32_t)(state >> 33) % CORES;
			wait = (uint32_t)(state >> 40) % 16;
			now[c] = (now[c] > 5ull * i ? now[c] : 5ull * i) + wait % 8;
			if (wait > 4)
				empty[c] = now[c];
			now[c]++;
			frames[i].low = empty[c];
			frames[i].high = now[c];
			frames[i].core = c;
			frames[i].place = i;
			order_note(orders[c], 3, frames[i].number, empty[c], now[c]);
		}
		for (uint32_t i = 0; i < FRAMES; i++) {
			bool certain = false, possible = false;

			for (uint32_t j = 0; j < FRAMES; j++) {
				if (frames[j].number <= frames[i].number)
					continue;
				if (frames[j].core == frames[i].core) {
					certain |= frames[j].place < frames[i].place;
					continue;
				}
				certain |= frames[j].high < frames[i].low;
				possible |= frames[j].low <= frames[i].high;
			}
			reordered += certain;
			ties += possible && !certain;
		}
		end();
		EXPECT_EQ(found[3].reordered, reordered);
		EXPECT_EQ(found[3].ties, ties);
		EXPECT(reordered && ties);
	}
}

/* As many cores as threads, each with one frame of the flow. */
static void as_many_cores_as_a_process_has_threads(void)
{
	enum { MANY = 128 };
	const bool wanted[1] = { true };
	static struct order *many[MANY];
	struct order_found one = { 0 };

	for (uint32_t c = 0; c < MANY; c++) {
		many[c] = order_make(c, 1, c ? many[0]->shared : NULL);
		order_begin(many[c]);
	}
	/* The last core gets number 0 last: all other frames have overtaken it. */
	for (uint32_t n = 0; n < MANY; n++)
		order_note(many[n], 0, (n + 1) % MANY, 10 * n, 10 * n + 9);
	EXPECT(order_count(many, MANY, wanted, &one));
	EXPECT_EQ(one.reordered, 1);
	EXPECT_EQ(one.ties, 0);
	for (uint32_t c = 0; c < MANY; c++)
		order_free(many[MANY - 1 - c]);
}

static void later_only_flows_of_several_cores_are_noted(void)
{
	begin();
	for (uint32_t n = 0; n < ORDER_BEGINNING; n++)
		order_note(orders[0], 0, 2 * n, n, n);
	EXPECT_EQ(orders[0]->count, ORDER_BEGINNING);
	EXPECT(!order_notes(orders[0]));
	order_note(orders[0], 0, 7, 1, 1);
	EXPECT_EQ(orders[0]->noted[0], ORDER_BEGINNING);
	/* Another core also gets this flow: from now on its frames are noted, and those of no other
	 * flow. */
	order_note(orders[1], 0, 9, 1, 1);
	EXPECT(order_notes(orders[0]));
	order_note(orders[0], 0, 11, 1, 1);
	order_note(orders[0], 1, 11, 1, 1);
	order_note(orders[0], 1, 13, 1, 1);
	EXPECT_EQ(orders[0]->noted[0], ORDER_BEGINNING + 1);
	EXPECT_EQ(orders[0]->noted[1], 1);
	order_begin(orders[0]);
	order_begin(orders[1]);
	EXPECT(order_notes(orders[0]) && !orders[0]->noted[0] && !orders[0]->shared->any_spread);
	end();
}

int main(void)
{
	TEST(frames_in_turn_are_in_order_on_whatever_core);
	TEST(what_a_frame_of_another_core_overtook_is_counted);
	TEST(what_times_do_not_tell_is_a_tie);
	TEST(copies_are_not_reordered);
	TEST(as_comparing_all_pairs_would);
	TEST(as_many_cores_as_a_process_has_threads);
	TEST(later_only_flows_of_several_cores_are_noted);
	return tap_end();
}
