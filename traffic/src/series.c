/* SPDX-License-Identifier: Apache-2.0 */
#include "series.h"

#include "text.h"

struct series *series_make(uint64_t longest_ns, uint64_t interval_ns, bool timed)
{
	struct series *s = lines_alloc(1, sizeof(*s));
	uint64_t wanted;

	if (!s)
		return NULL;
	s->interval_ns = interval_ns;
	wanted = (longest_ns + interval_ns - 1) / interval_ns + 1;
	s->room = wanted < SERIES_MAX ? (uint32_t)wanted : SERIES_MAX;
	s->cells = lines_alloc(s->room, sizeof(*s->cells));
	s->bins = timed ? lines_alloc((size_t)s->room * SERIES_BINS, sizeof(*s->bins)) : NULL;
	if (!s->cells || (timed && !s->bins)) {
		series_free(s);
		return NULL;
	}
	for (uint32_t i = 0; timed && i < s->room; i++)
		s->cells[i].bins = s->bins + (size_t)i * SERIES_BINS;
	series_begin(s, 0, longest_ns);
	return s;
}

void series_free(struct series *s)
{
	if (!s)
		return;
	free(s->cells);
	free(s->bins);
	free(s);
}

void series_begin(struct series *s, uint64_t start_ns, uint64_t duration_ns)
{
	const uint32_t used = s->count;
	uint64_t wanted;

	for (uint32_t i = 0; i < used; i++)
		s->cells[i] = (struct series_cell){ .bins = s->cells[i].bins };
	if (s->bins)
		memset(s->bins, 0, (size_t)used * SERIES_BINS * sizeof(*s->bins));
	wanted = (duration_ns + s->interval_ns - 1) / s->interval_ns + 1;
	s->count = wanted < s->room ? (uint32_t)wanted : s->room;
	s->start_ns = start_ns;
	s->due = s->arrival = (struct series_place){ 0 };
}

void series_find(const struct series *s, struct series_place *p, uint64_t ns, uint32_t last)
{
	uint64_t index = ns > s->start_ns ? (ns - s->start_ns) / s->interval_ns : 0;

	index = index < last ? index : last;
	p->index = (uint32_t)index;
	p->from_ns = s->start_ns + index * s->interval_ns;
	p->length_ns = index < last ? s->interval_ns : UINT64_MAX - p->from_ns;
	if (ns < p->from_ns) /* before the start, by another clock */
		p->length_ns = 0;
}

uint64_t series_until(struct series *s, uint64_t due_ns, int64_t delay_ns)
{
	uint64_t due, arrival;

	(void)series_due(s, due_ns);
	(void)series_arrival(s, due_ns + (uint64_t)delay_ns);
	due = s->due.from_ns + s->due.length_ns;
	arrival = s->arrival.from_ns + s->arrival.length_ns - (uint64_t)delay_ns;
	return due < arrival ? due : arrival;
}

void series_unsend(struct series *s, uint64_t frames)
{
	for (uint32_t i = s->count; frames && i-- > 0;) {
		const uint64_t sent = s->cells[i].sent, some = frames < sent ? frames : sent;

		s->cells[i].sent = sent - some;
		frames -= some;
	}
}

void series_forget(struct series *s, uint64_t frames)
{
	uint64_t left = frames;

	for (uint32_t i = s->count; left && i-- > 0;) {
		const uint64_t received = s->cells[i].received;
		const uint64_t some = left < received ? left : received;

		s->cells[i].received = received - some;
		left -= some;
	}
	for (uint32_t i = s->count; frames && i-- > 0;) {
		const uint64_t arrived = s->cells[i].arrived;
		const uint64_t some = frames < arrived ? frames : arrived;

		s->cells[i].arrived = arrived - some;
		frames -= some;
	}
}

static uint64_t loaded(const _Atomic uint64_t *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

static json_t *bins_report(struct series *const *cores, uint32_t core_count, uint32_t index)
{
	json_t *bins = json_array();

	for (uint32_t bin = 0; bin < SERIES_BINS; bin++) {
		uint64_t frames = 0;

		for (uint32_t core = 0; core < core_count; core++)
			if (cores[core]->cells[index].bins)
				frames += loaded(&cores[core]->cells[index].bins[bin]);
		if (frames)
			json_array_append_new(bins, json_pack("[I,I]", COUNT(bin), COUNT(frames)));
	}
	return bins;
}

json_t *series_report(struct series *const *cores, uint32_t core_count, uint32_t first,
		      uint32_t count)
{
	enum { SENT, ARRIVED, RECEIVED, DUPLICATED, REORDERED, HIGHEST, KINDS };
	static const char *const names[] = { "sent",	   "arrived",	"received",
					     "duplicated", "reordered", "highest" };
	json_t *report = json_object(), *lists[KINDS], *latency = json_array();
	const uint32_t all = cores[0]->count;

	for (uint32_t kind = 0; kind < KINDS; kind++) {
		lists[kind] = json_array();
		json_object_set_new(report, names[kind], lists[kind]);
	}
	json_object_set_new(report, "latency", latency);
	for (uint32_t i = first; i < all && i - first < count; i++) {
		uint64_t sums[KINDS] = { 0 };

		for (uint32_t core = 0; core < core_count; core++) {
			const struct series_cell *c = &cores[core]->cells[i];
			const uint64_t highest = loaded(&c->highest);

			sums[SENT] += loaded(&c->sent);
			sums[ARRIVED] += loaded(&c->arrived);
			sums[RECEIVED] += loaded(&c->received);
			sums[DUPLICATED] += loaded(&c->duplicated);
			sums[REORDERED] += loaded(&c->reordered);
			sums[HIGHEST] = highest > sums[HIGHEST] ? highest : sums[HIGHEST];
		}
		for (uint32_t kind = 0; kind < KINDS; kind++)
			json_array_append_new(lists[kind], json_integer(COUNT(sums[kind])));
		json_array_append_new(latency, bins_report(cores, core_count, i));
	}
	return report;
}
