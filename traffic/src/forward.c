/* SPDX-License-Identifier: Apache-2.0 */
/* Forwarders: from one port to the other, and servers, which send back what came. */
#include "judge.h"
#include "reflect.h"
#include "steps.h"

/* Puts frames of `from` into memory that `to` can send. Returns how many fit. */
static uint32_t forwarder_copy(struct forwarder *w, struct port *from, struct port *to, uint32_t n)
{
	uint32_t room = to->engine->alloc(to, w->copies, n), used = 0;

	for (uint32_t i = 0; i < n && used < room; i++) {
		if (unlikely(w->frames[i].len > to->config.frame_max))
			continue;
		memcpy(w->copies[used].data, w->frames[i].data, w->frames[i].len);
		w->copies[used++].len = w->frames[i].len;
	}
	if (used < room)
		to->engine->release(to, w->copies + used, room - used);
	from->engine->release(from, w->frames, n);
	return used;
}

/* What of a burst a server sends back: test frames of this run and of its flows. An answer to others,
 * which come where a switch floods, would make it believe that who they are for has moved; they are
 * given back. */
static uint32_t forwarder_ours(struct forwarder *w, struct port *from, uint32_t n)
{
	const bool headless = from->engine->caps & ENGINE_PAYLOAD;
	uint32_t ours = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct frame f = w->frames[i];
		struct payload p;
		const bool test = frame_parse(f.data, f.len, w->run, &p, TOUCH_NONE, headless) ==
					  FRAME_OURS &&
				  p.phase != PHASE_ANNOUNCE;

		if (likely(test && p.flow - w->first_flow < w->flows)) {
			w->frames[ours++] = f;
			continue;
		}
		from->engine->release(from, &f, 1);
		w->ignored += !test;
		w->stray += test;
	}
	return ours;
}

always_inline uint32_t forwarder_way(struct forwarder *w, uint32_t way)
{
	struct port *from = w->ports[way], *to = w->ports[!way];
	const uint32_t come = from->rx(from, w->frames, NULL, w->burst);
	uint32_t n = come && w->reflect ? forwarder_ours(w, from, come) : come;
	uint32_t ready = n, sent = 0;
	struct frame *f = w->frames;
	const uint32_t caps = to->engine->caps;
	const struct rewrite *const rewrite = &w->rewrite[!way];
	const bool direct = from == to ? caps & ENGINE_REFLECTS :
					 from->engine == to->engine && (caps & ENGINE_CROSSES);

	if (!n)
		return come;
	if (!direct) {
		ready = forwarder_copy(w, from, to, n);
		f = w->copies;
	}
	for (uint32_t i = 0; i < ready; i++) {
		if (w->reflect && !(caps & ENGINE_PAYLOAD))
			frame_reflect(&f[i]);
		if (rewrite->on) {
			memcpy(f[i].data, rewrite->dst_mac, 6);
			memcpy((uint8_t *)f[i].data + 6, rewrite->src_mac, 6);
		}
	}
	/* A full ring may have room in a moment; a burst is offered a few times, as a switch's
	 * port would buffer it, and then dropped. */
	for (int tries = 0; sent < ready && tries < 8; tries++)
		sent += to->tx(to, f + sent, ready - sent);
	if (sent < ready)
		(direct ? from : to)->engine->release(direct ? from : to, f + sent, ready - sent);
	w->in[way] += n;
	w->out[!way] += sent;
	w->dropped[!way] += n - sent;
	return come;
}

uint32_t forwarder_step(struct task *task, uint64_t now)
{
	struct forwarder *w = &task->forwarder;
	uint32_t moved = forwarder_way(w, 0);

	(void)now;
	if (w->ports[0] != w->ports[1])
		moved += forwarder_way(w, 1);
	w->polls++;
	w->empty += !moved;
	return moved;
}
