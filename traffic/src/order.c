/* SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include "lines.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SPREAD UINT8_MAX

struct order *order_make(uint32_t core, uint32_t flows, struct order_shared *shared)
{
	struct order *o = lines_alloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->core = core;
	o->shared = shared ? shared : lines_alloc(1, sizeof(*shared) + flows);
	o->noted = lines_alloc(flows, sizeof(*o->noted));
	/* The thread that takes the notes touches the pages first, on demand. */
	o->notes = mmap(NULL, ORDER_MAX * sizeof(*o->notes), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!o->shared || !o->noted || o->notes == MAP_FAILED) {
		if (o->notes == MAP_FAILED)
			o->notes = NULL;
		order_free(o);
		return NULL;
	}
	o->shared->flows = flows;
	return o;
}

void order_free(struct order *o)
{
	if (!o)
		return;
	if (o->notes)
		munmap(o->notes, ORDER_MAX * sizeof(*o->notes));
	if (!o->core)
		free(o->shared);
	free(o->noted);
	free(o);
}

void order_begin(struct order *o)
{
	o->count = 0;
	o->empty = 0;
	memset(o->noted, 0, o->shared->flows * sizeof(*o->noted));
	if (o->core)
		return;
	o->shared->any_spread = false;
	for (uint32_t i = 0; i < o->shared->flows; i++)
		atomic_store_explicit(&o->shared->owners[i], 0, memory_order_relaxed);
}

/* True if the core takes notes of this flow: at the beginning, and for flows that arrived on
 * several cores. */
static bool order_keeps(struct order *o, uint32_t flow)
{
	_Atomic uint8_t *owner = &o->shared->owners[flow];
	uint8_t found = atomic_load_explicit(owner, memory_order_relaxed);
	const uint8_t own = (uint8_t)(o->core + 1);

	if (!found && atomic_compare_exchange_strong(owner, &found, own))
		return true;
	if (found != own && found != SPREAD) {
		atomic_store(owner, SPREAD);
		atomic_store(&o->shared->any_spread, true);
		found = SPREAD;
	}
	return found == SPREAD || o->count < ORDER_BEGINNING;
}

void order_note(struct order *o, uint32_t flow, uint32_t number, uint64_t low, uint64_t high)
{
	struct order_note *last = o->notes + o->count - 1;

	if (!order_keeps(o, flow))
		return;
	if (o->count && last->flow == flow && last->first + last->count == number &&
	    last->low == low && last->high == high && last->count < UINT16_MAX) {
		last->count++;
	} else {
		if (o->count == ORDER_MAX)
			return;
		o->notes[o->count++] = (struct order_note){ .low = low,
							    .high = high,
							    .first = number,
							    .flow = (uint16_t)flow,
							    .count = 1 };
	}
	o->noted[flow]++;
}

/* The notes of a core, sorted by flow: at[begin[f]] to at[begin[f + 1]] (exclusive) are those of
 * flow f, oldest first. */
struct by_flow {
	const struct order_note *notes;
	uint32_t *begin, *at;
};

static bool by_flow_make(struct by_flow *b, const struct order *o)
{
	const uint32_t flows = o->shared->flows;

	b->notes = o->notes;
	b->begin = calloc((size_t)flows + 2, sizeof(*b->begin));
	b->at = malloc(((size_t)o->count + 1) * sizeof(*b->at));
	if (!b->begin || !b->at)
		return false;
	for (uint32_t i = 0; i < o->count; i++)
		b->begin[o->notes[i].flow + 2]++;
	for (uint32_t f = 2; f < flows + 2; f++)
		b->begin[f] += b->begin[f - 1];
	for (uint32_t i = 0; i < o->count; i++)
		b->at[b->begin[o->notes[i].flow + 1]++] = i;
	return true;
}

/* The notes of one flow on one core. */
struct core_notes {
	const struct order_note *notes;
	const uint32_t *at;
	uint32_t count, next;
	uint64_t expected; /* one more than the highest number in the notes before `next` */
};

/* The position of one core in the notes of another: up to the notes that certainly precede its
 * current note, and up to those that possibly do. */
struct notes_view {
	uint32_t certain, possible;
	uint64_t expected, possibly;
};

static const struct order_note *note_of(const struct core_notes *w, uint32_t i)
{
	return &w->notes[w->at[i]];
}

static void expected_raise(uint64_t *expected, const struct order_note *n)
{
	const uint64_t next = (uint64_t)n->first + n->count;

	*expected = next > *expected ? next : *expected;
}

/* Advances in the notes of another core up to those that matter for `own`. */
static void view_advance(struct notes_view *v, const struct core_notes *other,
			 const struct order_note *own)
{
	for (; v->certain < other->count && note_of(other, v->certain)->high < own->low;
	     v->certain++)
		expected_raise(&v->expected, note_of(other, v->certain));
	for (; v->possible < other->count && note_of(other, v->possible)->low <= own->high;
	     v->possible++)
		expected_raise(&v->possibly, note_of(other, v->possible));
}

/* Returns the core whose next note is the earliest; `cores`: all notes are read. */
static uint32_t earliest(const struct core_notes *notes, uint32_t cores)
{
	uint32_t found = cores;

	for (uint32_t c = 0; c < cores; c++)
		if (notes[c].next < notes[c].count &&
		    (found == cores || note_of(&notes[c], notes[c].next)->high <
					       note_of(&notes[found], notes[found].next)->high))
			found = c;
	return found;
}

/* Counts one flow. `seen` has a zero bit per number; `views` has an entry for each pair of
 * cores. */
static void flow_count(struct core_notes *notes, uint32_t cores, struct notes_view *views,
		       uint8_t *seen, struct order_found *found)
{
	uint32_t c;

	memset(views, 0, sizeof(*views) * cores * cores);
	while ((c = earliest(notes, cores)) < cores) {
		struct notes_view *own = views + (size_t)c * cores;
		struct core_notes *w = &notes[c];
		const struct order_note *n = note_of(w, w->next++);
		uint64_t expected = w->expected, possibly;

		for (uint32_t d = 0; d < cores; d++)
			if (d != c) {
				view_advance(&own[d], &notes[d], n);
				if (own[d].expected > expected)
					expected = own[d].expected;
			}
		possibly = expected;
		for (uint32_t d = 0; d < cores; d++)
			if (own[d].possibly > possibly)
				possibly = own[d].possibly;
		for (uint32_t i = 0; i < n->count; i++) {
			const uint64_t number = (uint64_t)n->first + i;
			const uint8_t bit = (uint8_t)(1u << number % 8);

			/* Only the first copy counts (RFC 4737, section 3.4). */
			if (seen[number / 8] & bit)
				continue;
			seen[number / 8] |= bit;
			found->reordered += number + 1 < expected;
			found->ties += number + 1 >= expected && number + 1 < possibly;
		}
		expected_raise(&w->expected, n);
	}
}

bool order_count(struct order *const *orders, uint32_t cores, const bool *wanted,
		 struct order_found *found)
{
	struct by_flow *sorted = calloc(cores, sizeof(*sorted));
	struct core_notes *notes = calloc(cores, sizeof(*notes));
	struct notes_view *views = calloc((size_t)cores * cores, sizeof(*views));
	const uint32_t flows = orders[0]->shared->flows;
	uint8_t *seen = NULL;
	bool right = sorted && notes && views;

	for (uint32_t c = 0; right && c < cores; c++)
		right = by_flow_make(&sorted[c], orders[c]);
	for (uint32_t f = 0; right && f < flows; f++) {
		uint64_t longest = 0;

		if (!wanted[f])
			continue;
		for (uint32_t c = 0; c < cores; c++) {
			const struct by_flow *b = &sorted[c];

			notes[c] = (struct core_notes){ .notes = b->notes,
							.at = b->at + b->begin[f],
							.count = b->begin[f + 1] - b->begin[f] };
			for (uint32_t i = 0; i < notes[c].count; i++)
				expected_raise(&longest, note_of(&notes[c], i));
		}
		seen = calloc(1, longest / 8 + 1);
		right = seen;
		if (right)
			flow_count(notes, cores, views, seen, &found[f]);
		free(seen);
	}
	for (uint32_t c = 0; sorted && c < cores; c++) {
		free(sorted[c].begin);
		free(sorted[c].at);
	}
	free(sorted);
	free(notes);
	free(views);
	return right;
}
