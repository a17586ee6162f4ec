/* SPDX-License-Identifier: Apache-2.0 */
/* What was counted, as JSON; and what this build can do. */
#include "control.h"
#include "session.h"
#include "text.h"
#include "watch.h"

#include <stdlib.h>

static json_t *histogram_report(const struct histogram *h)
{
	json_t *counts = json_array();

	if (h->count) {
		uint32_t last = histogram_index(h->max);

		for (uint32_t i = histogram_index(h->min); i <= last; i++)
			if (h->counts[i])
				json_array_append_new(counts, json_pack("[I,I]", COUNT(i),
									COUNT(h->counts[i])));
	}
	return json_pack("{s:I,s:I,s:I,s:I,s:o}", "count", COUNT(h->count), "min",
			 COUNT(h->count ? h->min : 0), "max", COUNT(h->max), "sum", COUNT(h->sum),
			 "counts", counts);
}

static json_t *head_report(const uint8_t *head)
{
	char text[2 * HEAD_BYTES + 1];

	for (uint32_t i = 0; i < HEAD_BYTES; i++)
		snprintf(text + (size_t)2 * i, 3, "%02x", head[i]);
	return json_string(text);
}

static void watched_frame(void *context, uint8_t *head, uint32_t len)
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
	/* A kernel numbers the frames of a socket as it likes. */
	frame_clear_identification(head);
	promise_check(&r->promise, &f, flow, p.seq);
}

/* Compares what a watch has kept, once; from then on it costs nothing. */
static void receiver_watched(struct receiver *r)
{
	struct watch *w = r->promise.watch;

	if (!w || !w->ring)
		return;
	r->promise.unkept = watch_read(w, watched_frame, r);
	watch_close(w);
}

/* How many frames were compared, how many had other headers, and of the first of these what it
 * had and should have had. */
static json_t *promise_report(const struct promise *p)
{
	json_t *report =
		json_pack("{s:I,s:I}", "compared", COUNT(p->compared), "broken", COUNT(p->broken));

	if (p->unkept)
		json_object_set_new(report, "unkept", json_integer(COUNT(p->unkept)));
	if (p->watch && p->watch->why[0])
		json_object_set_new(report, "unseen", text_json(p->watch->why));
	if (p->broken) {
		json_object_set_new(report, "found", head_report(p->found));
		json_object_set_new(report, "promised", head_report(p->wanted.head));
	}
	return report;
}

static json_t *receiver_report(const struct control *c, const struct receiver *r)
{
	json_t *flows = json_array(), *intervals = json_array(), *report;
	uint64_t duplicated = 0, reordered = 0, beyond = 0;

	for (uint32_t i = 0; i < r->flows; i++) {
		struct sequence *s = &r->sequences[i];

		sequence_settle(s);
		json_array_append_new(flows, json_pack("[I,I,I,I]", COUNT(s->distinct),
						       COUNT(s->duplicated), COUNT(s->reordered),
						       COUNT(s->corrupted)));
		duplicated += s->duplicated;
		reordered += s->reordered;
		beyond += s->beyond;
	}
	for (uint32_t i = 0; i < r->interval_count; i++)
		json_array_append_new(intervals, json_integer(COUNT(r->intervals[i])));
	report = json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o}",
			   "early", COUNT(r->early), "frames", COUNT(r->rx), "bytes",
			   COUNT(r->bytes), "late", COUNT(r->late), "after_drain",
			   COUNT(r->after_drain), "duplicated", COUNT(duplicated), "reordered",
			   COUNT(reordered), "beyond", COUNT(beyond), "corrupted",
			   COUNT(r->corrupted), "foreign", COUNT(r->foreign), "stray",
			   COUNT(r->stray), "other_phase", COUNT(r->other_phase), "polls",
			   COUNT(r->polls), "empty_polls", COUNT(r->empty), "idle_ns",
			   COUNT((__int128)r->idle * 1000000000 / c->clock.hz), "flows", flows,
			   "intervals", intervals);
	if (r->promise.templates)
		json_object_set_new(report, "headers", promise_report(&r->promise));
	if (r->latency)
		json_object_set_new(report, "latency", histogram_report(r->latency));
	if (r->ipdv)
		json_object_set_new(report, "ipdv", histogram_report(r->ipdv));
	return report;
}

static json_t *sender_report(const struct control *c, const struct sender *s)
{
	uint64_t unsent = s->intended == UINT64_MAX ? 0 : s->intended + s->missed - s->sent;

	json_t *report = json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "frames", COUNT(s->sent),
				   "unsent", COUNT(unsent), "polls", COUNT(s->polls), "empty_polls",
				   COUNT(s->empty), "blocked", COUNT(s->blocked), "lag_max_ns",
				   COUNT((__int128)s->lag_max * 1000000000 / c->clock.hz), "flows",
				   COUNT(s->flows), "sizes", COUNT(s->sizes));

	if (s->lag && s->lag->count)
		json_object_set_new(report, "lag", histogram_report(s->lag));
	return report;
}

static json_t *forwarder_report(const struct forwarder *w)
{
	return json_pack("{s:[I,I],s:[I,I],s:[I,I],s:I,s:I,s:I}", "in", COUNT(w->in[0]),
			 COUNT(w->in[1]), "out", COUNT(w->out[0]), COUNT(w->out[1]), "dropped",
			 COUNT(w->dropped[0]), COUNT(w->dropped[1]), "polls", COUNT(w->polls),
			 "empty_polls", COUNT(w->empty), "ignored", COUNT(w->ignored));
}

static json_t *task_report(const struct control *c, const struct task *t)
{
	json_t *report = json_pack("{s:s}", "role", role_name(t->role));

	if (role_sends(t->role))
		json_object_set_new(report, "sent", sender_report(c, &t->sender));
	if (role_receives(t->role))
		json_object_set_new(report, "received", receiver_report(c, &t->receiver));
	if (!role_sends(t->role) && !role_receives(t->role))
		json_object_set_new(report, "forwarded", forwarder_report(&t->forwarder));
	return report;
}

static json_t *thread_report(const struct control *c, const struct worker *w)
{
	const struct usage *before = &w->before, *after = &w->after;

	return json_pack("{s:i,s:I,s:I,s:I,s:I,s:I}", "cpu", w->cpu, "cpu_ns",
			 COUNT(after->cpu_ns - before->cpu_ns), "user_ns",
			 COUNT(after->user_ns - before->user_ns), "wait_ns",
			 after->wait_ns < 0 ? (json_int_t)-1 :
					      COUNT(after->wait_ns - before->wait_ns),
			 "yields", COUNT(w->yields), "started_late_ns",
			 COUNT((__int128)w->late * 1000000000 / c->clock.hz));
}

void control_report(struct control *c)
{
	json_t *tasks, *ports, *threads;
	const char *why;

	if (!c->armed) {
		answer_error(c, "report: arm first");
		return;
	}
	control_halt(c);
	tasks = json_array();
	ports = json_array();
	threads = json_array();
	for (uint32_t i = 0; i < c->task_count; i++) {
		receiver_watched(&c->tasks[i].receiver);
		json_array_append_new(tasks, task_report(c, &c->tasks[i]));
	}
	for (uint32_t i = 0; i < c->port_count; i++) {
		struct engine_stats now, *then = &c->at_start[i];

		c->ports[i].engine->stats(&c->ports[i], &now);
		if (c->ports[i].engine->describe)
			c->ports[i].engine->describe(&c->ports[i]);
		json_array_append_new(
			ports, json_pack("{s:o,s:o,s:I,s:I,s:I,s:I}", "ifname",
					 text_json(c->ports[i].config.ifname), "mode",
					 text_json(c->ports[i].mode), "rx_ring_drops",
					 COUNT(now.rx_ring_drops - then->rx_ring_drops),
					 "rx_invalid", COUNT(now.rx_invalid - then->rx_invalid),
					 "tx_errors", COUNT(now.tx_errors - then->tx_errors),
					 "tx_drops", COUNT(now.tx_drops - then->tx_drops)));
	}
	for (uint32_t i = 0; i < c->worker_count; i++)
		json_array_append_new(threads, thread_report(c, &c->workers[i]));
	why = control_failure(c);
	answer(c, json_pack("{s:b,s:o?,s:I,s:I,s:o,s:o,s:o}", "ok", 1, "failure",
			    why ? text_json(why) : NULL, "start_ns",
			    COUNT(clock_ns(&c->clock, c->window.start)), "duration_ns",
			    COUNT(clock_ns(&c->clock, c->window.end) -
				  clock_ns(&c->clock, c->window.start)),
			    "tasks", tasks, "ports", ports, "threads", threads));
}

void control_list_engines(FILE *out)
{
	json_t *list = json_array(), *object;

	for (const struct engine *const *e = engines; *e; e++) {
		json_t *options = json_array();

		for (const struct option_spec *s = (*e)->options; s && s->name; s++) {
			json_t *o = json_pack("{s:s,s:s}", "name", s->name, "help", s->help);

			if (s->type == OPTION_NUMBER) {
				json_object_set_new(o, "preset", json_integer(COUNT(s->preset)));
				json_object_set_new(o, "max", json_integer(COUNT(s->max)));
			} else if (s->choices) {
				json_t *choices = json_array();

				for (const char *const *v = s->choices; *v; v++)
					json_array_append_new(choices, json_string(*v));
				json_object_set_new(o, "choices", choices);
			}
			json_array_append_new(options, o);
		}
		json_array_append_new(
			list, json_pack("{s:s,s:s,s:b,s:b,s:b,s:o}", "name", (*e)->name, "summary",
					(*e)->summary, "sends", !!((*e)->caps & ENGINE_SENDS),
					"receives", !!((*e)->caps & ENGINE_RECEIVES), "payload",
					!!((*e)->caps & ENGINE_PAYLOAD), "options", options));
	}
	object = json_pack("{s:s,s:o}", "version", SWITCHMARK_VERSION, "engines", list);
	json_dumpf(object, out, JSON_COMPACT);
	fputc('\n', out);
	json_decref(object);
}
