/* SPDX-License-Identifier: Apache-2.0 */
/* Forwarders move frames from one port to the other; servers send them back. */
#include "judge.h"
#include "reflect.h"
#include "steps.h"

/* Copies frames of `from` into buffers that `to` can send. Returns the number of copies. */
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

/* Keeps the frames of a burst that a server sends back: test frames of this run and of its flows. A
 * switch that floods delivers other frames, too. A reply to one of them would teach the switch a
 * wrong port for their destination MAC, so they are released. */
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

always_inline uint32_t forwarder_move(struct forwarder *w, uint32_t direction)
{
	struct port *from = w->ports[direction], *to = w->ports[!direction];
	const uint32_t come = from->rx(from, w->frames, NULL, w->burst);
	uint32_t n = come && w->reflect ? forwarder_ours(w, from, come) : come;
	uint32_t ready = n, sent = 0;
	struct frame *f = w->frames;
	const uint32_t caps = to->engine->caps;
	const struct rewrite *const rewrite = &w->rewrite[!direction];
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
	/* A full ring may have room in a moment: retry a few times before dropping, like a switch
	 * with a buffer. */
	for (int tries = 0; sent < ready && tries < 8; tries++)
		sent += to->tx(to, f + sent, ready - sent);
	if (sent < ready)
		(direct ? from : to)->engine->release(direct ? from : to, f + sent, ready - sent);
	w->in[direction] += n;
	w->out[!direction] += sent;
	w->dropped[!direction] += n - sent;
	return come;
}

uint32_t forwarder_step(struct task *task, uint64_t now)
{
	struct forwarder *w = &task->forwarder;
	uint32_t moved = forwarder_move(w, 0);

	(void)now;
	if (w->ports[0] != w->ports[1])
		moved += forwarder_move(w, 1);
	w->polls++;
	w->empty += !moved;
	return moved;
}
