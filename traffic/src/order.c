/* SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include "lines.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MIXED UINT8_MAX

struct order *order_make(uint32_t core, uint32_t flows, struct order_shared *shared)
{
	struct order *o = lines_alloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->core = core;
	o->shared = shared ? shared : lines_alloc(1, sizeof(*shared) + flows);
	o->noted = lines_alloc(flows, sizeof(*o->noted));
	/* Memory is taken as notes come, by the thread that makes them. */
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
	o->shared->mixed = false;
	for (uint32_t i = 0; i < o->shared->flows; i++)
		atomic_store_explicit(&o->shared->owners[i], 0, memory_order_relaxed);
}

/* Whether frames of a flow are noted: at the beginning, and where it has come to several cores. */
static bool order_keeps(struct order *o, uint32_t flow)
{
	_Atomic uint8_t *owner = &o->shared->owners[flow];
	uint8_t found = atomic_load_explicit(owner, memory_order_relaxed);
	const uint8_t own = (uint8_t)(o->core + 1);

	if (!found && atomic_compare_exchange_strong(owner, &found, own))
		return true;
	if (found != own && found != MIXED) {
		atomic_store(owner, MIXED);
		atomic_store(&o->shared->mixed, true);
		found = MIXED;
	}
	return found == MIXED || o->count < ORDER_BEGINNING;
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

/* The notes of a core by flow: those of flow f are at[begin[f]] up to at[begin[f + 1]], in the order
 * in which they were made. */
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

/* The notes of one flow on one core, and how far others have looked at them. */
struct way {
	const struct order_note *notes;
	const uint32_t *at;
	uint32_t count, next;
	uint64_t expected; /* one more than the highest number of those before `next` */
};

/* How far one core has looked at the notes of another: what came before its own frame for certain, and
 * what may have. */
struct look {
	uint32_t certain, possible;
	uint64_t expected, possibly;
};

static const struct order_note *note_of(const struct way *w, uint32_t i)
{
	return &w->notes[w->at[i]];
}

static void raise(uint64_t *expected, const struct order_note *n)
{
	const uint64_t next = (uint64_t)n->first + n->count;

	*expected = next > *expected ? next : *expected;
}

/* Looks as far as matters to a note of another core. */
static void look_on(struct look *l, const struct way *other, const struct order_note *own)
{
	for (; l->certain < other->count && note_of(other, l->certain)->high < own->low;
	     l->certain++)
		raise(&l->expected, note_of(other, l->certain));
	for (; l->possible < other->count && note_of(other, l->possible)->low <= own->high;
	     l->possible++)
		raise(&l->possibly, note_of(other, l->possible));
}

/* The core whose next note is the earliest; `cores`: there is none. */
static uint32_t earliest(const struct way *ways, uint32_t cores)
{
	uint32_t found = cores;

	for (uint32_t c = 0; c < cores; c++)
		if (ways[c].next < ways[c].count &&
		    (found == cores || note_of(&ways[c], ways[c].next)->high <
					       note_of(&ways[found], ways[found].next)->high))
			found = c;
	return found;
}

/* `seen` has a bit for each number, and none is set; `looks` has one of each core at each. */
static void flow_count(struct way *ways, uint32_t cores, struct look *looks, uint8_t *seen,
		       struct order_found *found)
{
	uint32_t c;

	memset(looks, 0, sizeof(*looks) * cores * cores);
	while ((c = earliest(ways, cores)) < cores) {
		struct look *own = looks + (size_t)c * cores;
		struct way *w = &ways[c];
		const struct order_note *n = note_of(w, w->next++);
		uint64_t expected = w->expected, possibly;

		for (uint32_t d = 0; d < cores; d++)
			if (d != c) {
				look_on(&own[d], &ways[d], n);
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

			/* Of copies the first one counts (RFC 4737, section 3.4). */
			if (seen[number / 8] & bit)
				continue;
			seen[number / 8] |= bit;
			found->reordered += number + 1 < expected;
			found->ties += number + 1 >= expected && number + 1 < possibly;
		}
		raise(&w->expected, n);
	}
}

bool order_count(struct order *const *orders, uint32_t cores, const bool *wanted,
		 struct order_found *found)
{
	struct by_flow *sorted = calloc(cores, sizeof(*sorted));
	struct way *ways = calloc(cores, sizeof(*ways));
	struct look *looks = calloc((size_t)cores * cores, sizeof(*looks));
	const uint32_t flows = orders[0]->shared->flows;
	uint8_t *seen = NULL;
	bool right = sorted && ways && looks;

	for (uint32_t c = 0; right && c < cores; c++)
		right = by_flow_make(&sorted[c], orders[c]);
	for (uint32_t f = 0; right && f < flows; f++) {
		uint64_t longest = 0;

		if (!wanted[f])
			continue;
		for (uint32_t c = 0; c < cores; c++) {
			const struct by_flow *b = &sorted[c];

			ways[c] = (struct way){ .notes = b->notes,
						.at = b->at + b->begin[f],
						.count = b->begin[f + 1] - b->begin[f] };
			for (uint32_t i = 0; i < ways[c].count; i++)
				raise(&longest, note_of(&ways[c], i));
		}
		seen = calloc(1, longest / 8 + 1);
		right = seen;
		if (right)
			flow_count(ways, cores, looks, seen, &found[f]);
		free(seen);
	}
	for (uint32_t c = 0; sorted && c < cores; c++) {
		free(sorted[c].begin);
		free(sorted[c].at);
	}
	free(sorted);
	free(ways);
	free(looks);
	return right;
}
