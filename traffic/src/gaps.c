/* SPDX-License-Identifier: Apache-2.0 */
#include "gaps.h"

/* Keeps a gap if it is among the longest. */
static void gaps_keep(struct gaps *g, const struct gap *gap)
{
	uint32_t shortest = 0;

	if (!gap->count)
		return;
	if (g->kept < GAPS_KEPT) {
		g->list[g->kept++] = *gap;
		return;
	}
	for (uint32_t i = 1; i < GAPS_KEPT; i++)
		if (g->list[i].count < g->list[shortest].count)
			shortest = i;
	if (g->list[shortest].count < gap->count)
		g->list[shortest] = *gap;
}

void gaps_open(struct gaps *g, uint64_t first, uint64_t count, struct gap_end after)
{
	const struct gap gap = { first, count, g->last, after };

	gaps_hear(g, after);
	gaps_keep(g, &gap);
	if (!g->earliest.count)
		g->earliest = gap;
	g->latest = gap;
}

static bool gap_has(const struct gap *gap, uint64_t number)
{
	return number - gap->first < gap->count;
}

/* Splits a gap at a number. */
static void gap_split(const struct gap *gap, uint64_t number, struct gap_end at, struct gap *left,
		      struct gap *right)
{
	*left = (struct gap){ gap->first, number - gap->first, gap->before, at };
	*right = (struct gap){ number + 1, gap->first + gap->count - number - 1, at, gap->after };
}

void gaps_fill(struct gaps *g, uint64_t number, struct gap_end at)
{
	struct gap left, right;

	for (uint32_t i = 0; i < g->kept; i++) {
		if (!gap_has(&g->list[i], number))
			continue;
		gap_split(&g->list[i], number, at, &left, &right);
		g->list[i] = g->list[--g->kept];
		gaps_keep(g, &left);
		gaps_keep(g, &right);
		break;
	}
	if (gap_has(&g->earliest, number)) {
		gap_split(&g->earliest, number, at, &left, &right);
		g->earliest = left.count ? left : right;
		for (uint32_t i = 0; !left.count && !right.count && i < g->kept; i++)
			if (!g->earliest.count || g->list[i].first < g->earliest.first)
				g->earliest = g->list[i];
	}
	if (gap_has(&g->latest, number)) {
		gap_split(&g->latest, number, at, &left, &right);
		g->latest = right.count ? right : left;
		for (uint32_t i = 0; !left.count && !right.count && i < g->kept; i++)
			if (!g->latest.count || g->list[i].first > g->latest.first)
				g->latest = g->list[i];
	}
}
