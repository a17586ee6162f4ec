/* SPDX-License-Identifier: Apache-2.0 */
/* Reports the counters as JSON. */
#include "header_tap.h"
#include "judge.h"
#include "session.h"
#include "steps.h"
#include "text.h"

#include <stdlib.h>

json_t *histogram_report(const struct histogram *h)
{
	/* A JSON integer has 64 bits here; for a larger sum the 53 bits of a real are enough. */
	json_t *sum = h->sum <= INT64_MAX ? json_integer(COUNT(h->sum)) : json_real((double)h->sum);
	json_t *counts = json_array();

	if (h->count) {
		uint32_t last = histogram_index(h->max);

		for (uint32_t i = histogram_index(h->min); i <= last; i++)
			if (h->counts[i])
				json_array_append_new(counts, json_pack("[I,I]", COUNT(i),
									COUNT(h->counts[i])));
	}
	return json_pack("{s:I,s:I,s:I,s:o,s:o}", "count", COUNT(h->count), "min",
			 COUNT(h->count ? h->min : 0), "max", COUNT(h->max), "sum", sum, "counts",
			 counts);
}

static json_t *head_report(const uint8_t *head)
{
	char text[2 * HEAD_BYTES + 1];

	for (uint32_t i = 0; i < HEAD_BYTES; i++)
		snprintf(text + (size_t)2 * i, 3, "%02x", head[i]);
	return json_string(text);
}

static void tapped_frame(void *context, uint8_t *head, uint32_t len)
{
	struct receiver *r = context;
	struct frame f = { .data = head, .len = len };
	struct payload p;
	uint32_t flow;

	if (frame_parse(head, len, r->run, &p, TOUCH_NONE, false) != FRAME_OURS)
		return;
	flow = (uint32_t)p.flow - r->first_flow;
	if (p.phase != r->window->phase || flow >= r->flows)
		return;
	/* A kernel may set any identification in the frames of a socket. */
	frame_clear_identification(head);
	expected_headers_check(&r->expected, &f, flow, p.seq);
}

/* Compares the headers stored by a tap and closes it. */
static void receiver_read_tap(struct receiver *r)
{
	struct header_tap *tap = r->expected.tap;

	if (!tap || !tap->ring)
		return;
	r->expected.unkept = header_tap_read(tap, tapped_frame, r);
	header_tap_close(tap);
}

/* Reports how many frames were compared, how many had unexpected headers, and for the first of
 * these the received and the expected headers. */
static json_t *headers_report(const struct expected_headers *p)
{
	json_t *report =
		json_pack("{s:I,s:I}", "compared", COUNT(p->compared), "broken", COUNT(p->broken));

	if (p->unkept)
		json_object_set_new(report, "unkept", json_integer(COUNT(p->unkept)));
	if (p->tap && p->tap->why[0])
		json_object_set_new(report, "unseen", text_json(p->tap->why));
	if (p->broken) {
		json_object_set_new(report, "found", head_report(p->found));
		json_object_set_new(report, "promised", head_report(p->wanted.head));
	}
	return report;
}

/* Adds the counts of another core's histogram. */
static void histogram_merge(struct histogram *into, const struct histogram *h)
{
	for (uint32_t i = 0; h->count && i < HISTOGRAM_COUNTS; i++)
		into->counts[i] += h->counts[i];
	into->count += h->count;
	into->sum += h->sum;
	into->min = h->min < into->min ? h->min : into->min;
	into->max = h->max > into->max ? h->max : into->max;
}

/* Adds the counters of another core: a task on several cores has one report. */
static void receiver_merge(struct receiver *into, const struct receiver *r)
{
	into->early += r->early;
	into->noted += r->noted;
	into->rx += r->rx;
	into->bytes += r->bytes;
	into->after_end += r->after_end;
	into->late += r->late;
	into->after_drain += r->after_drain;
	into->corrupted += r->corrupted;
	into->foreign += r->foreign;
	into->stray += r->stray;
	into->other_phase += r->other_phase;
	into->polls += r->polls;
	into->empty += r->empty;
	/* The busiest core is the bottleneck. */
	into->idle = r->idle < into->idle ? r->idle : into->idle;
	for (uint32_t i = 0; i < into->interval_count; i++)
		into->intervals[i] += r->intervals[i];
	if (into->latency) {
		histogram_merge(into->latency, r->latency);
		histogram_merge(into->earliest, r->earliest);
	}
	if (into->widths)
		histogram_merge(into->widths, r->widths);
	if (into->ipdv)
		histogram_merge(into->ipdv, r->ipdv);
	if (!r->expected.templates)
		return;
	if (r->expected.broken && !into->expected.broken) {
		into->expected.wanted = r->expected.wanted;
		memcpy(into->expected.found, r->expected.found, HEAD_BYTES);
	}
	into->expected.compared += r->expected.compared;
	into->expected.broken += r->expected.broken;
}

static int too_late_compare(const void *a, const void *b)
{
	const struct too_late *one = a, *other = b;

	if (one->flow != other->flow)
		return one->flow < other->flow ? -1 : 1;
	return (one->seq > other->seq) - (one->seq < other->seq);
}

/* Counts the frames received after the drain that no core had seen before; copies count once. */
static uint64_t too_late_merge(const struct task *t)
{
	const struct merged *m = t->receiver.merged->all;
	struct too_late *unseen =
		t->cores ? malloc((size_t)t->cores * TOO_LATE_MAX * sizeof(*unseen)) : NULL;
	uint64_t count = 0, fresh = 0;

	for (uint32_t core = 0; unseen && core < t->cores; core++) {
		const struct receiver *r = &t[core].receiver;

		for (uint32_t i = 0; i < r->too_late_count; i++) {
			const struct too_late *late = &r->too_late[i];

			if (merged_unseen(m, late->flow, late->seq) != UINT64_MAX)
				unseen[count++] = *late;
		}
	}
	if (unseen)
		qsort(unseen, count, sizeof(*unseen), too_late_compare);
	for (uint64_t i = 0; i < count; i++)
		fresh += !i || too_late_compare(&unseen[i - 1], &unseen[i]);
	free(unseen);
	return fresh;
}

/* Copies the counters of a receiver, so that others can be added to the copy. */
static bool receiver_copy(struct receiver *to, const struct receiver *r)
{
	*to = *r;
	to->intervals = calloc(r->interval_count, sizeof(*to->intervals));
	to->latency = r->latency ? malloc(sizeof(*to->latency)) : NULL;
	to->widths = r->widths ? malloc(sizeof(*to->widths)) : NULL;
	to->earliest = r->earliest ? malloc(sizeof(*to->earliest)) : NULL;
	to->ipdv = r->ipdv ? malloc(sizeof(*to->ipdv)) : NULL;
	if (!to->intervals || !to->latency != !r->latency || !to->widths != !r->widths ||
	    !to->earliest != !r->earliest || !to->ipdv != !r->ipdv)
		return false;
	memcpy(to->intervals, r->intervals, r->interval_count * sizeof(*to->intervals));
	if (to->latency)
		*to->latency = *r->latency;
	if (to->widths)
		*to->widths = *r->widths;
	if (to->earliest)
		*to->earliest = *r->earliest;
	if (to->ipdv)
		*to->ipdv = *r->ipdv;
	return true;
}

static void receiver_copy_free(struct receiver *r)
{
	free(r->intervals);
	free(r->latency);
	free(r->widths);
	free(r->earliest);
	free(r->ipdv);
}

/* Flows that arrived on more than one core, and how much of their order is known. */
struct spread_flows {
	uint64_t flows;
	uint64_t unfollowed; /* flows with incomplete notes */
	uint64_t ties; /* frames that a later frame may have overtaken */
};

/* True if a core noted all frames of a flow. */
static bool is_followed(const struct receiver *r, uint32_t flow)
{
	const struct sequence *s = &r->sequences[flow];

	return !s->beyond && r->order->noted[flow] == s->distinct + s->duplicated;
}

/* Counts reordered frames in flows that arrived on more than one core; `spread` marks these
 * flows. */
static bool order_merge(struct task *t, struct sequence *flows, bool *spread,
			struct spread_flows *m)
{
	const uint32_t count = t->receiver.flows;
	struct order *orders[THREADS_MAX];
	struct order_found *found = calloc(count, sizeof(*found));
	bool right = found;

	for (uint32_t f = 0; f < count; f++) {
		m->flows += spread[f];
		for (uint32_t core = 0; spread[f] && core < t->cores; core++)
			if (!t->receiver.order || !is_followed(&t[core].receiver, f)) {
				spread[f] = false;
				m->unfollowed++;
			}
	}
	for (uint32_t core = 0; core < t->cores; core++)
		orders[core] = t[core].receiver.order;
	right = right &&
		(m->unfollowed == m->flows || order_count(orders, t->cores, spread, found));
	for (uint32_t f = 0; right && f < count; f++)
		if (spread[f]) {
			flows[f].reordered = found[f].reordered;
			m->ties += found[f].ties;
		}
	free(found);
	return right;
}

/* Merges the counters of a task on several cores into `sum`, and the counters of each flow into
 * `flows`. Returns false without memory. */
static bool receivers_merge(struct task *t, struct receiver *sum, struct sequence *flows,
			    struct spread_flows *m)
{
	const struct sequence *by_core[THREADS_MAX];
	bool *spread = calloc(sum->flows, sizeof(*spread));
	bool known;

	for (uint32_t f = 0; spread && f < sum->flows; f++) {
		uint32_t seen = 0;

		for (uint32_t core = 0; core < t->cores; core++) {
			by_core[core] = &t[core].receiver.sequences[f];
			seen += by_core[core]->distinct + by_core[core]->duplicated > 0;
		}
		spread[f] = seen > 1;
		flows[f] = merged_flow_of(sum->merged->all, f, by_core);
	}
	for (uint32_t core = 1; core < t->cores; core++)
		receiver_merge(sum, &t[core].receiver);
	sum->after_drain += too_late_merge(t);
	known = spread && order_merge(t, flows, spread, m);
	free(spread);
	return known;
}

/* The most gaps of a receiver in a report: the longest ones. */
#define GAPS_REPORTED 512u

struct gap_of_flow {
	uint32_t flow;
	const struct gap *gap;
};

/* Sorts the longest gap first. */
static int gap_compare(const void *a, const void *b)
{
	const struct gap *one = ((const struct gap_of_flow *)a)->gap;
	const struct gap *other = ((const struct gap_of_flow *)b)->gap;

	return (one->count < other->count) - (one->count > other->count);
}

/* Reports a gap; a time of 0 is that of no frame. */
static json_t *gap_report(uint32_t flow, const struct gap *g)
{
	return json_pack("[I,I,I,I,I,I,I]", COUNT(flow), COUNT(g->first), COUNT(g->count),
			 COUNT(g->before.due_ns), COUNT(g->before.at_ns), COUNT(g->after.due_ns),
			 COUNT(g->after.at_ns));
}

/* Reports the longest gaps of all flows, the earliest and the latest one, for each flow the number
 * after its last frame and the times of that frame, and its longest silence. */
static json_t *gaps_report(const struct receiver *r)
{
	const size_t most = (size_t)r->flows * GAPS_KEPT;
	struct gap_of_flow *all = most ? calloc(most, sizeof(*all)) : NULL;
	json_t *list = json_array(), *ends = json_array(), *silences = json_array();
	struct gap_of_flow earliest = { 0, NULL }, latest = { 0, NULL };
	uint32_t count = 0;

	for (uint32_t f = 0; f < r->flows; f++) {
		const struct gaps *g = &r->gaps[f];

		for (uint32_t i = 0; all && i < g->kept; i++)
			all[count++] = (struct gap_of_flow){ f, &g->list[i] };
		if (g->earliest.count &&
		    (!earliest.gap || g->earliest.after.due_ns < earliest.gap->after.due_ns))
			earliest = (struct gap_of_flow){ f, &g->earliest };
		if (g->latest.count &&
		    (!latest.gap || g->latest.after.due_ns > latest.gap->after.due_ns))
			latest = (struct gap_of_flow){ f, &g->latest };
		json_array_append_new(ends, json_pack("[I,I,I]", COUNT(r->sequences[f].next),
						      COUNT(g->last.due_ns), COUNT(g->last.at_ns)));
		if (g->silence.after.at_ns)
			json_array_append_new(silences, gap_report(f, &g->silence));
	}
	if (all)
		qsort(all, count, sizeof(*all), gap_compare);
	for (uint32_t i = 0; i < count && i < GAPS_REPORTED; i++)
		json_array_append_new(list, gap_report(all[i].flow, all[i].gap));
	free(all);
	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "longest", list, "earliest",
			 earliest.gap ? gap_report(earliest.flow, earliest.gap) : json_null(),
			 "latest", latest.gap ? gap_report(latest.flow, latest.gap) : json_null(),
			 "ends", ends, "silences", silences);
}

/* `merged`: the merged flows of a receiver on several cores; NULL: it runs on one core. */
static json_t *received_report(const struct session *session, struct receiver *r,
			       const struct sequence *merged)
{
	json_t *flows = json_array(), *intervals = json_array(), *report;
	uint64_t duplicated = 0, reordered = 0, beyond = 0;

	for (uint32_t i = 0; i < r->flows; i++) {
		const struct sequence *s = merged ? &merged[i] : &r->sequences[i];

		if (!merged)
			sequence_settle(&r->sequences[i]);
		json_array_append_new(flows, json_pack("[I,I,I,I]", COUNT(s->distinct),
						       COUNT(s->duplicated), COUNT(s->reordered),
						       COUNT(s->corrupted)));
		duplicated += s->duplicated;
		reordered += s->reordered;
		beyond += s->beyond;
	}
	for (uint32_t i = 0; i < r->interval_count; i++)
		json_array_append_new(intervals, json_integer(COUNT(r->intervals[i])));
	report = json_pack(
		"{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o}",
		"early", COUNT(r->early), "frames", COUNT(r->rx), "bytes", COUNT(r->bytes),
		"after_end", COUNT(r->after_end), "late", COUNT(r->late), "after_drain",
		COUNT(r->after_drain), "duplicated", COUNT(duplicated), "reordered",
		COUNT(reordered), "beyond", COUNT(beyond), "corrupted", COUNT(r->corrupted),
		"foreign", COUNT(r->foreign), "stray", COUNT(r->stray), "other_phase",
		COUNT(r->other_phase), "polls", COUNT(r->polls), "empty_polls", COUNT(r->empty),
		"idle_ns", COUNT((__int128)r->idle * 1000000000 / session->clock.hz), "flows",
		flows, "intervals", intervals);
	if (r->expected.templates)
		json_object_set_new(report, "headers", headers_report(&r->expected));
	if (r->latency)
		json_object_set_new(report, "latency", histogram_report(r->latency));
	/* A frame without a timestamp arrived between two polls. */
	if (r->widths)
		json_object_set_new(report, "stamps",
				    json_pack("{s:s,s:I,s:o,s:o}", "by",
					      r->noted ? r->port->stamps_by : "poll", "noted",
					      COUNT(r->noted), "width", histogram_report(r->widths),
					      "earliest", histogram_report(r->earliest)));
	if (r->gaps)
		json_object_set_new(report, "gaps", gaps_report(r));
	if (r->ipdv)
		json_object_set_new(report, "ipdv", histogram_report(r->ipdv));
	return report;
}

static json_t *receiver_report(const struct session *session, struct task *t, const char **why)
{
	struct receiver sum;
	struct sequence *merged;
	struct spread_flows spread_flows = { 0 };
	json_t *report;
	bool known;

	if (t->cores == 1)
		return received_report(session, &t->receiver, NULL);
	for (uint32_t core = 0; core < t->cores; core++)
		receiver_finish(&t[core].receiver);
	merged = calloc(t->receiver.flows, sizeof(*merged));
	known = receiver_copy(&sum, &t->receiver) && merged &&
		receivers_merge(t, &sum, merged, &spread_flows);
	report = merged && sum.intervals ? received_report(session, &sum, merged) : json_object();
	/* For unfollowed flows `reordered` is the sum over the cores, each by itself. */
	json_object_set_new(report, "mixed", json_integer(COUNT(spread_flows.flows)));
	json_object_set_new(report, "unfollowed", json_integer(COUNT(spread_flows.unfollowed)));
	json_object_set_new(report, "ties", json_integer(COUNT(spread_flows.ties)));
	if (!known)
		*why = "no memory to put together what several cores received";
	receiver_copy_free(&sum);
	free(merged);
	return report;
}

static json_t *sender_report(const struct session *session, const struct task *t)
{
	uint64_t unsent = 0, lag_max = 0, frames = 0, polls = 0, empty = 0, blocked = 0, flows = 0;
	json_t *cores = json_array(); /* per core: number of flows, and frames sent */
	struct histogram *lag = NULL;
	json_t *report;

	for (uint32_t core = 0; core < t->cores; core++) {
		const struct sender *s = &t[core].sender;

		unsent += s->intended == UINT64_MAX ? 0 : s->intended + s->missed - s->sent;
		lag_max = s->lag_max > lag_max ? s->lag_max : lag_max;
		frames += s->sent;
		polls += s->polls;
		empty += s->empty;
		blocked += s->blocked;
		flows += s->flows;
		json_array_append_new(cores, json_pack("[I,I]", COUNT(s->flows), COUNT(s->sent)));
		if (!s->lag)
			continue;
		lag = lag ? lag : calloc(1, sizeof(*lag));
		if (lag && !core)
			histogram_clear(lag);
		if (lag)
			histogram_merge(lag, s->lag);
	}
	report = json_pack("{s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "cores", cores, "frames",
			   COUNT(frames), "unsent", COUNT(unsent), "polls", COUNT(polls),
			   "empty_polls", COUNT(empty), "blocked", COUNT(blocked), "lag_max_ns",
			   COUNT((__int128)lag_max * 1000000000 / session->clock.hz), "flows",
			   COUNT(flows), "sizes", COUNT(t->sender.sizes));
	if (lag && lag->count)
		json_object_set_new(report, "lag", histogram_report(lag));
	free(lag);
	return report;
}

static json_t *forwarder_report(const struct task *t)
{
	struct forwarder sum = { 0 };

	for (uint32_t core = 0; core < t->cores; core++) {
		const struct forwarder *w = &t[core].forwarder;

		for (int i = 0; i < 2; i++) {
			sum.in[i] += w->in[i];
			sum.out[i] += w->out[i];
			sum.dropped[i] += w->dropped[i];
		}
		sum.polls += w->polls;
		sum.empty += w->empty;
		sum.ignored += w->ignored;
		sum.stray += w->stray;
	}
	return json_pack("{s:[I,I],s:[I,I],s:[I,I],s:I,s:I,s:I,s:I}", "in", COUNT(sum.in[0]),
			 COUNT(sum.in[1]), "out", COUNT(sum.out[0]), COUNT(sum.out[1]), "dropped",
			 COUNT(sum.dropped[0]), COUNT(sum.dropped[1]), "polls", COUNT(sum.polls),
			 "empty_polls", COUNT(sum.empty), "ignored", COUNT(sum.ignored), "stray",
			 COUNT(sum.stray));
}

/* Sets `why` if the report is incomplete. */
static json_t *task_report(const struct session *session, struct task *t, const char **why)
{
	json_t *report = json_pack("{s:s,s:I}", "role", role_names[t->role], "announced",
				   COUNT(t->announcer.sent));

	if (role_sends(t->role))
		json_object_set_new(report, "sent", sender_report(session, t));
	if (role_receives(t->role))
		json_object_set_new(report, "received", receiver_report(session, t, why));
	if (role_forwards(t->role))
		json_object_set_new(report, "forwarded", forwarder_report(t));
	return report;
}

/* Returns the usage of a thread within a phase. If the thread recorded it after the end, the usage
 * is scaled down to the phase, because the thread polled all the time. */
static int64_t used(const struct worker *w, int64_t before, int64_t after)
{
	const uint64_t end = w->window->end;

	if (w->after_at <= end || end <= w->before_at)
		return after - before;
	return (int64_t)((__int128)(after - before) * (int64_t)(end - w->before_at) /
			 (int64_t)(w->after_at - w->before_at));
}

/* Reports the usage of a thread; for several cores the sum, and the maximum of the late start. */
static json_t *thread_report(const struct session *session, const struct worker *first)
{
	int64_t cpu_ns = 0, user_ns = 0, wait_ns = 0;
	uint64_t yields = 0, late = 0;

	for (uint32_t core = 0; core < first->cores; core++) {
		const struct worker *w = &first[core];

		cpu_ns += used(w, (int64_t)w->before.cpu_ns, (int64_t)w->after.cpu_ns);
		user_ns += used(w, (int64_t)w->before.user_ns, (int64_t)w->after.user_ns);
		yields += w->yields;
		late = w->late > late ? w->late : late;
		wait_ns = wait_ns < 0 || w->after.wait_ns < 0 ?
				  -1 :
				  wait_ns + used(w, w->before.wait_ns, w->after.wait_ns);
	}
	return json_pack("{s:i,s:I,s:I,s:I,s:I,s:I,s:I}", "cpu", first->cpu, "cores",
			 COUNT(first->cores), "cpu_ns", COUNT(cpu_ns), "user_ns", COUNT(user_ns),
			 "wait_ns", COUNT(wait_ns), "yields", COUNT(yields), "started_late_ns",
			 COUNT((__int128)late * 1000000000 / session->clock.hz));
}

/* Reports the counters of a port, summed over its queues. */
static json_t *port_report(const struct session *session, uint32_t first)
{
	struct engine_stats sum = { 0 };
	struct port *port = NULL;

	for (uint32_t i = first; i < first + session->ports[first].config.cores; i++) {
		const struct engine_stats *then = &session->at_start[i];
		struct engine_stats now;

		port = (struct port *)&session->ports[i];
		port->engine->stats(port, &now);
		if (port->engine->describe)
			port->engine->describe(port);
		sum.rx_ring_drops += now.rx_ring_drops - then->rx_ring_drops;
		sum.rx_invalid += now.rx_invalid - then->rx_invalid;
		sum.tx_errors += now.tx_errors - then->tx_errors;
		sum.tx_drops += now.tx_drops - then->tx_drops;
	}
	return json_pack("{s:o,s:o,s:I,s:I,s:I,s:I}", "ifname",
			 text_json(session->ports[first].config.ifname), "mode",
			 text_json(session->ports[first].mode), "rx_ring_drops",
			 COUNT(sum.rx_ring_drops), "rx_invalid", COUNT(sum.rx_invalid), "tx_errors",
			 COUNT(sum.tx_errors), "tx_drops", COUNT(sum.tx_drops));
}

json_t *session_report(struct session *session)
{
	json_t *tasks, *ports, *threads;
	const char *why = NULL;

	if (!session->armed)
		return NULL;
	session_halt(session);
	tasks = json_array();
	ports = json_array();
	threads = json_array();
	for (uint32_t i = 0; i < session->task_count; i += session->tasks[i].cores) {
		receiver_read_tap(&session->tasks[i].receiver);
		json_array_append_new(tasks, task_report(session, &session->tasks[i], &why));
	}
	for (uint32_t i = 0; i < session->port_count; i += session->ports[i].config.cores)
		json_array_append_new(ports, port_report(session, i));
	for (uint32_t i = 0; i < session->worker_count; i += session->workers[i].cores)
		json_array_append_new(threads, thread_report(session, &session->workers[i]));
	if (session_failure(session))
		why = session_failure(session);
	return json_pack("{s:b,s:o?,s:I,s:I,s:o,s:o,s:o}", "ok", 1, "failure",
			 why ? text_json(why) : NULL, "start_ns",
			 COUNT(clock_ns(&session->clock, session->window.start)), "duration_ns",
			 COUNT(clock_ns(&session->clock, session->window.end) -
			       clock_ns(&session->clock, session->window.start)),
			 "tasks", tasks, "ports", ports, "threads", threads);
}

/* Adds the series of a task, of all its cores, to a list. */
static void task_series(struct task *t, uint32_t first, uint32_t count, json_t *list)
{
	struct series *sent[THREADS_MAX], *received[THREADS_MAX];
	json_t *report = json_object();

	for (uint32_t core = 0; core < t->cores; core++) {
		sent[core] = t[core].sender.series;
		received[core] = t[core].receiver.series;
	}
	if (role_sends(t->role))
		json_object_set_new(report, "sent", series_report(sent, t->cores, first, count));
	if (role_receives(t->role))
		json_object_set_new(report, "received",
				    series_report(received, t->cores, first, count));
	json_array_append_new(list, report);
}

json_t *session_series(struct session *session, uint32_t first, uint32_t count)
{
	json_t *tasks;

	if (!session->armed || session_failure(session))
		return NULL;
	for (uint32_t i = 0; i < session->task_count; i++) {
		const struct task *t = &session->tasks[i];

		if ((role_sends(t->role) && !t->sender.series) ||
		    (role_receives(t->role) && !t->receiver.series))
			return NULL;
	}
	tasks = json_array();
	for (uint32_t i = 0; i < session->task_count; i += session->tasks[i].cores)
		task_series(&session->tasks[i], first, count, tasks);
	return json_pack("{s:b,s:o}", "ok", 1, "tasks", tasks);
}
