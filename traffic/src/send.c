/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Senders: when frames are due, what is written into them, and how they leave. A sent frame is a
 * copy of the template of its flow and size with a sequence number, a time and a checksum; the
 * frames of a burst have the same time.
 */
#include "steps.h"

/* ---- due times ------------------------------------------------------------------- */

/* Like sender_due for frames that are due individually; `dues` has their due times. */
static uint32_t sender_due_singly(struct sender *s, uint64_t now)
{
	while (s->ready < s->burst && s->from + pacing_due(&s->pacing) <= now) {
		s->dues[s->ready++] = s->from + pacing_due(&s->pacing);
		pacing_next(&s->pacing);
	}
	if (s->ready && now - s->dues[0] > s->lag_max)
		s->lag_max = now - s->dues[0];
	return s->ready;
}

/* Returns how many frames are due, at most one burst, and sets their due time. */
always_inline uint32_t sender_due(struct sender *s, uint64_t now, uint64_t *due)
{
	uint64_t left = s->intended - s->built;

	if (s->singly)
		return sender_due_singly(s, now);
	if (s->intended == UINT64_MAX) {
		*due = now;
		return now >= s->window->start && now < s->window->end ? s->burst : 0;
	}
	*due = (uint64_t)(s->due >> 32);
	if (now < *due || !left)
		return 0;
	if (now - *due > s->lag_max)
		s->lag_max = now - *due;
	return left < s->owed ? (uint32_t)left : s->owed;
}

/* Records that `got` frames of a burst had room. The rest of the burst, if any, stays due at the
 * same time. */
always_inline void sender_pay(struct sender *s, uint32_t got)
{
	s->owed -= got;
	if (likely(!s->owed)) {
		s->owed = s->burst;
		s->due += s->intended - s->built - got > s->burst ? s->period : s->last_period;
	}
}

/* ---- frame contents -------------------------------------------------------------- */

#define CHOICES 32u /* frames whose contents are chosen before the first of them is written */

/* The individual contents of each frame. */
struct choices {
	const struct frame_template *templates[CHOICES];
	uint32_t seqs[CHOICES];
	uint64_t times[CHOICES]; /* in network order */
	uint32_t numbers[CHOICES], bytes[CHOICES]; /* of the sub-flow */
	uint64_t sums[CHOICES]; /* what time and sub-flow add to the template's checksum */
};

/* Chooses templates and sequence numbers of the next frames, and prefetches the templates. */
static void choose_templates(struct sender *s, struct choices *c, uint32_t n)
{
	const uint32_t flows = s->flows, sizes = s->sizes,
		       step = (1u << s->subflows.run_bits) % sizes;
	/* Writes to frames may alias anything, so changing values are held in local variables. */
	uint32_t flow = s->flow, seq = s->seq, size = s->size, round_size = s->round_size;
	uint32_t subflow = s->subflow, turn_size = s->turn_size, run_at = s->run_at;
	const uint32_t run = 1u << s->subflows.run_bits;
	const uint32_t turn = s->subflows.order == ORDER_SEQUENTIAL ? s->subflows.count : 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct frame_template *t = &s->templates[(size_t)flow * sizes + size];

		__builtin_prefetch(t);
		__builtin_prefetch((const uint8_t *)t + CACHE_LINE);
		c->templates[i] = t;
		c->seqs[i] = seq;
		if (++size == sizes)
			size = 0;
		if (++run_at < run) {
			seq++;
			continue;
		}
		run_at = 0;
		seq -= run - 1;
		/* In each round every flow uses the size after its previous one, so each flow gets
		 * the whole mix. */
		if (++flow == flows) {
			flow = 0;
			seq += run;
			round_size += step;
			if (round_size >= sizes)
				round_size -= sizes;
			/* The same for the sub-flows after all of them have had their turn. */
			if (turn && ++subflow == turn) {
				subflow = 0;
				turn_size += step;
				if (turn_size >= sizes)
					turn_size -= sizes;
				round_size = turn_size;
			}
			size = round_size;
		}
	}
	s->flow = flow;
	s->seq = seq;
	s->size = size;
	s->round_size = round_size;
	s->subflow = subflow;
	s->turn_size = turn_size;
	s->run_at = run_at;
}

/* Fast path for sequential sub-flows by ports, of one flow and one size: just counting. */
static void choose_ports(struct sender *s, struct choices *c, uint32_t n)
{
	const struct frame_template *const t = s->templates;
	const uint32_t own = load32(t->head + subflow_at(&s->subflows, t)), base = net32(own);
	const uint32_t first = s->subflows.first, count = s->subflows.count;
	const uint32_t by_low = s->subflows.answered ? 1 : 1 << 16;
	const uint32_t by_high = s->subflows.answered ? 1 << 16 : 1;
	uint32_t subflow = s->subflow;

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t number = first + subflow;
		const uint32_t bytes = net32(base + number % SUBFLOW_PORTS * by_low +
					     number / SUBFLOW_PORTS * by_high);

		c->bytes[i] = bytes;
		c->sums[i] += (uint64_t)bytes + 0xffffffff - own;
		subflow = subflow + 1 == count ? 0 : subflow + 1;
	}
	s->subflow = subflow;
}

/* Chooses the sub-flow numbers of frames of one flow. */
static void choose_numbers(const struct subflows *s, struct choices *c, uint32_t n)
{
	/* In each loop the compiler knows the order. */
	struct subflows of = *s;

	if (s->order == ORDER_SEQUENTIAL) {
		of.order = ORDER_SEQUENTIAL;
		for (uint32_t i = 0; i < n; i++)
			c->numbers[i] = subflow_of(&of, c->seqs[i]);
	} else if (s->order == ORDER_RANDOM) {
		of.order = ORDER_RANDOM;
		for (uint32_t i = 0; i < n; i++)
			c->numbers[i] = subflow_of(&of, c->seqs[i]);
	} else {
		of.order = ORDER_ZIPF;
		for (uint32_t i = 0; i < n; i++)
			c->numbers[i] = subflow_of(&of, c->seqs[i]);
	}
}

/* Computes the varied bytes of sub-flow headers. */
always_inline void choose_bytes(struct subflows s, const enum subflow_by by,
				const struct frame_template *t, struct choices *c, uint32_t n)
{
	s.by = by;
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t bytes = subflow_bytes(&s, t, c->numbers[i]);

		c->bytes[i] = bytes;
		c->sums[i] += subflow_adds(&s, t, bytes);
	}
}

static void choose_subflows(const struct subflows *s, const struct frame_template *only,
			    struct choices *c, uint32_t n, uint32_t first_flow)
{
	choose_numbers(s, c, n);
	for (uint32_t i = 0; !only && i < n; i++) {
		const struct frame_template *const t = c->templates[i];
		const uint32_t flow = payload_flow(t->head + t->payload_at) - first_flow;
		const uint32_t bytes = subflow_bytes(s, t, c->numbers[i] + flow * s->step);

		c->bytes[i] = bytes;
		c->sums[i] += subflow_adds(s, t, bytes);
	}
	if (!only)
		return;
	if (s->by == SUBFLOW_PORT)
		choose_bytes(*s, SUBFLOW_PORT, only, c, n);
	else if (s->by == SUBFLOW_IP)
		choose_bytes(*s, SUBFLOW_IP, only, c, n);
	else
		choose_bytes(*s, SUBFLOW_MAC, only, c, n);
}

/* Chooses the contents of the next frames, all from `one` template or from any; the first of them
 * is frame number `at` of the burst. */
static void sender_choose(struct sender *s, struct choices *c, uint32_t n, uint32_t at,
			  uint64_t due, bool one)
{
	const struct subflows *const subflows = &s->subflows;
	const uint64_t time_net = time_to_net(clock_ns(s->clock, due)), sum = time_sum(time_net);

	for (uint32_t i = 0; i < n; i++) {
		c->times[i] = time_net;
		c->sums[i] = sum;
	}
	for (uint32_t i = 0; s->singly && i < n; i++) {
		c->times[i] = time_to_net(clock_ns(s->clock, s->dues[at + i]));
		c->sums[i] = time_sum(c->times[i]);
	}
	if (one && subflows->count && subflows->by == SUBFLOW_PORT &&
	    subflows->order == ORDER_SEQUENTIAL && !subflows->run_bits) {
		choose_ports(s, c, n);
		return;
	}
	for (uint32_t i = 0; one && i < n; i++)
		c->seqs[i] = s->seq + i;
	if (!one)
		choose_templates(s, c, n);
	if (subflows->count)
		choose_subflows(subflows, one ? s->templates : NULL, c, n,
				payload_flow(s->templates->head + s->templates->payload_at));
}

/* Writes the varied bytes of a sub-flow into a frame. */
always_inline void subflow_finish(const struct subflows *s, uint8_t *d,
				  const struct frame_template *t, uint32_t bytes,
				  const enum touch touch, bool by_device)
{
	subflow_put(s, d, t, bytes);
	if (touch == TOUCH_NONE || by_device)
		frame_sum(d, t, subflow_adds(s, t, bytes), by_device && s->by == SUBFLOW_PORT);
}

/* Writes frames from any templates. */
always_inline void write_any(struct sender *s, uint32_t n, uint64_t due, const enum touch touch,
			     const enum form form)
{
	const bool headless = form == FORM_PAYLOAD, subflows = !headless && s->subflows.count;
	const uint32_t first = payload_flow(s->templates->head + s->templates->payload_at);
	const uint32_t flows = s->flows, longest = s->longest;
	/* The memory of a receiving port may contain a received frame. */
	const bool own = !s->port->config.receives;
	struct frame *const frames = s->frames;
	struct choices c;

	for (uint32_t done = 0, some; done < n; done += some) {
		some = n - done < CHOICES ? n - done : CHOICES;
		sender_choose(s, &c, some, done, due, false);
		for (uint32_t i = 0; i < some; i++) {
			const struct frame_template *t = c.templates[i];
			struct frame *f = &frames[done + i];
			uint8_t *d = f->data;
			const bool by_device = form == FORM_DEVICE && t->device_sums;
			const uint32_t len = t->len;
			uint32_t blank = 0;

			f->len = len;
			/* Our own frames contain zeros after the headers, up to the longest
			 * frame. */
			if (touch != TOUCH_FULL && longest > FRAME_MIN &&
			    !(own && frame_is_from(d, t, headless, first, flows)))
				blank = own ? longest : len;
			frame_prepare(d, t, headless, blank);
			frame_stamp(d, t, c.seqs[i], c.times[i], c.sums[i], touch, headless,
				    by_device);
			if (!subflows)
				continue;
			subflow_finish(&s->subflows, d, t, c.bytes[i], touch, by_device);
		}
	}
}

/* True for a template of untagged IPv4 frames of minimum length with a software checksum. */
static bool template_is_short(const struct frame_template *t)
{
	return t->payload_at == PAYLOAD_AT && t->len == FRAME_MIN && !t->device_sums;
}

/* Sixteen bytes at any alignment, which the compiler keeps in a register. */
typedef uint64_t block __attribute__((vector_size(16)));
typedef uint32_t quad __attribute__((vector_size(16)));

always_inline block block_load(const void *at)
{
	block b;

	memcpy(&b, at, sizeof(b));
	return b;
}

always_inline void block_store(void *at, block b)
{
	memcpy(at, &b, sizeof(b));
}

/* True if memory holds these bytes of a short frame: 0 to 15, 16 to 31, 24 to 39. */
always_inline bool short_is_of(const uint8_t *d, block first, block second, block third)
{
	const block differs = (block_load(d) ^ first) | (block_load(d + 16) ^ second) |
			      (block_load(d + 24) ^ third);

	return !(differs[0] | differs[1]);
}

/* Writes `n` short frames that differ only in number and checksum; the checksum goes down by one
 * per number. `shared`: another core has read the memory. It usually holds a frame of the template,
 * of which only the varying bytes are then written, as each store waits for the cache line.
 * Otherwise the whole frame is written, whatever the memory contains: it is one cache line. */
always_inline void write_shorts(struct sender *s, uint32_t n, uint64_t due, const bool shared)
{
	const uint64_t time_net = time_to_net(clock_ns(s->clock, due));
	const struct frame_template *const t = s->templates;
	const block first = block_load(t->head), second = block_load(t->head + 16);
	const block third = block_load(t->head + 24);
	const uint64_t own = word_join(0, load64(t->head + PAYLOAD_AT));
	const uint16_t folded =
		(uint16_t)~checksum_fold(t->sum + time_sum(time_net) + net32(s->seq));
	uint16_t checksum = folded ? net16(folded) : 0xffff;
	struct frame *f = s->frames, *const end = f + n;
	const uint32_t tail = load32(t->head + 44);
	uint32_t seq = s->seq, time[2];

	memcpy(time, &time_net, sizeof(time));
	for (; f < end; f++) {
		uint8_t *d = f->data;

		f->len = FRAME_MIN;
		if (!shared || unlikely(!short_is_of(d, first, second, third))) {
			block_store(d, first);
			block_store(d + 16, second);
			block_store(d + 24, third);
		}
		store64(d + 40, own | word_join(net16(checksum), 0));
		if (shared) {
			const quad last = { tail, net32(seq), time[0], time[1] };

			memcpy(d + 44, &last, sizeof(last));
		} else {
			store32(d + 48, net32(seq));
			store64(d + 52, time_net);
		}
		seq++;
		checksum = checksum_less(checksum);
	}
	s->seq = seq;
}

static void write_short(struct sender *s, uint32_t n, uint64_t due)
{
	if (s->port->shares_frames)
		write_shorts(s, n, due, true);
	else
		write_shorts(s, n, due, false);
}

/* The same for frames whose ports or times also differ; `c` has their share of the checksum. */
static void write_short_chosen(struct frame *f, uint32_t n, const struct frame_template *t,
			       const struct choices *c, uint32_t seq, bool ports)
{
	const block first = block_load(t->head), second = block_load(t->head + 16);
	const uint64_t own = word_join(0, load64(t->head + PAYLOAD_AT)), sum = t->sum;
	const uint64_t third = load64(t->head + 32);
	const uint32_t own_ports = load32(t->head + PAYLOAD_AT - UDP_BYTES);

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t seq_net = net32(seq + i);
		const uint16_t checksum = (uint16_t)~checksum_fold(sum + c->sums[i] + seq_net);
		uint8_t *d = f[i].data;

		f[i].len = FRAME_MIN;
		block_store(d, first);
		block_store(d + 16, second);
		store64(d + 32, third);
		store32(d + PAYLOAD_AT - UDP_BYTES, ports ? c->bytes[i] : own_ports);
		store64(d + 40, own | word_join(checksum ? checksum : 0xffff, 0));
		store32(d + 48, seq_net);
		store64(d + 52, c->times[i]);
	}
}

/* Writes frames of one template; `varied`: their sub-flows or due times differ. If the memory of
 * sent frames returns unchanged, only the varying bytes are written. The memory of short frames is
 * not compared: the varying bytes are in the same cache line as the headers. */
always_inline void write_one(struct sender *s, uint32_t n, uint64_t due, const enum touch touch,
			     const enum form form, const bool varied)
{
	const bool headless = form == FORM_PAYLOAD;
	const uint64_t time_net = time_to_net(clock_ns(s->clock, due)), sum = time_sum(time_net);
	/* Writes to frames may alias anything, so the loop uses local copies. */
	const struct frame_template template = *s->templates, *const t = &template;
	const bool own = !s->port->config.receives, subflows = !headless && s->subflows.count;
	const bool compare = own && (touch == TOUCH_NONE || t->len > FRAME_MIN);
	const bool by_device = form == FORM_DEVICE && t->device_sums;
	const uint32_t len = t->len;
	struct frame *frames = s->frames;
	const bool in_short = varied && touch == TOUCH_HEADER && !headless &&
			      template_is_short(t) && (!subflows || s->subflows.by == SUBFLOW_PORT);
	uint32_t seq = s->seq;
	struct choices c;

	for (uint32_t done = 0, some; done < n; done += some) {
		some = n - done;
		if (varied) {
			some = some < CHOICES ? some : CHOICES;
			sender_choose(s, &c, some, done, due, true);
		}
		if (in_short)
			write_short_chosen(frames, some, s->templates, &c, seq, subflows);
		for (uint32_t i = 0; !in_short && i < some; i++) {
			uint8_t *d = frames[i].data;

			frames[i].len = len;
			frame_write(d, t, seq + i, varied ? c.times[i] : time_net,
				    varied ? c.sums[i] : sum, touch, headless,
				    compare && frame_is_of(d, t, headless), by_device);
			if (varied && subflows)
				subflow_finish(&s->subflows, d, t, c.bytes[i], touch, by_device);
		}
		frames += some;
		seq += some;
		s->seq = seq;
	}
}

/* One function per combination, so that the loops have no branches for it; the decisions of a burst
 * are made outside the loops. */
#define WRITES(touch, form)                                                                        \
	static void any_##touch##_##form(struct sender *s, uint32_t n, uint64_t due)               \
	{                                                                                          \
		write_any(s, n, due, touch, form);                                                 \
	}                                                                                          \
	static void varied_##touch##_##form(struct sender *s, uint32_t n, uint64_t due)            \
	{                                                                                          \
		write_one(s, n, due, touch, form, true);                                           \
	}                                                                                          \
	static void alike_##touch##_##form(struct sender *s, uint32_t n, uint64_t due)             \
	{                                                                                          \
		if ((touch) == TOUCH_HEADER && (form) != FORM_PAYLOAD &&                           \
		    template_is_short(s->templates) && n <= UINT32_MAX - s->seq)                   \
			write_short(s, n, due);                                                    \
		else                                                                               \
			write_one(s, n, due, touch, form, false);                                  \
	}
#define WRITES_OF(touch)                                                                           \
	WRITES(touch, FORM_WHOLE) WRITES(touch, FORM_PAYLOAD) WRITES(touch, FORM_DEVICE)
#define ROW(kind, touch)                                                                           \
	{                                                                                          \
		kind##_##touch##_FORM_WHOLE, kind##_##touch##_FORM_PAYLOAD,                        \
			kind##_##touch##_FORM_DEVICE                                               \
	}

WRITES_OF(TOUCH_NONE)
WRITES_OF(TOUCH_HEADER)
WRITES_OF(TOUCH_FULL)

static void (*const writes[3][3][3])(struct sender *, uint32_t, uint64_t) = {
	{ ROW(any, TOUCH_NONE), ROW(any, TOUCH_HEADER), ROW(any, TOUCH_FULL) },
	{ ROW(varied, TOUCH_NONE), ROW(varied, TOUCH_HEADER), ROW(varied, TOUCH_FULL) },
	{ ROW(alike, TOUCH_NONE), ROW(alike, TOUCH_HEADER), ROW(alike, TOUCH_FULL) },
};

void sender_choose_step(struct sender *s, enum touch touch, enum form form)
{
	s->write_any = writes[0][touch][form];
	s->write_varied = writes[1][touch][form];
	s->write_alike = writes[2][touch][form];
	/* With TOUCH_NONE most frames are only read. */
	s->port->claims = s->port->shares_frames && touch != TOUCH_NONE;
}

/* Counts frames in the interval of the time that their payload carries. */
static void sender_note(struct sender *s, uint32_t n, uint64_t due)
{
	const uint64_t first = clock_ns(s->clock, s->singly ? s->dues[0] : due);
	struct series_cell *cell = series_due(s->series, first);

	if (!s->singly || cell == series_due(s->series, clock_ns(s->clock, s->dues[n - 1]))) {
		series_count(&cell->sent, n);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		series_count(&series_due(s->series, clock_ns(s->clock, s->dues[i]))->sent, 1);
}

static void sender_build(struct sender *s, uint32_t n, uint64_t due)
{
	if (unlikely(s->series != NULL))
		sender_note(s, n, due);
	if (s->flows * s->sizes > 1)
		s->write_any(s, n, due);
	else if (s->singly || s->subflows.count)
		s->write_varied(s, n, due);
	else
		s->write_alike(s, n, due);
	s->built += n;
	if (s->singly) {
		s->ready -= n;
		memmove(s->dues, s->dues + n, s->ready * sizeof(*s->dues));
	}
}

/* ---- the load of a phase ---------------------------------------------------------- */

#define PERIOD_MAX ((uint64_t)1 << 62) /* ticks, beyond any value of the counter */

/* Sets the rate of the current step of the load, from its start to the next step or the end. */
static void sender_pace(struct sender *s)
{
	const struct window *w = s->window;
	const struct load_step *step = s->step ? &w->steps[s->step - 1] : NULL;
	const uint64_t end = s->step < w->step_count ? w->steps[s->step].at : w->end;
	const uint64_t from = step ? step->at : w->start;
	const long double unit = 4294967296.0L, share = step ? (long double)step->share : 1;
	const long double hz = (long double)s->clock->hz, ticks = (long double)(end - from);
	const long double rate = s->rate_pps * share, before = s->rate_before * share;
	long double period = hz * s->burst / rate, room;
	uint64_t bursts, frames;

	/* A burst that is due after the longest phase just has to be due never. */
	period = period < PERIOD_MAX ? period : PERIOD_MAX;
	frames = (uint64_t)(ticks / hz * (before + rate) + 0.5L) -
		 (uint64_t)(ticks / hz * before + 0.5L);
	bursts = (frames + s->burst - 1) / s->burst;
	/* The last burst may have fewer frames and less than a period until the end; it is
	 * staggered within that time, so that no frame is due after the end. */
	room = bursts ? ticks - (long double)(bursts - 1) * period : 0;
	room = room < period ? room : period;
	s->from = from;
	s->until = s->step < w->step_count ? end : UINT64_MAX;
	s->intended += frames;
	s->period = (unsigned __int128)(period * unit);
	s->last_period = (unsigned __int128)((period - s->stagger * (period - room)) * unit);
	s->due = ((unsigned __int128)from << 32) +
		 (unsigned __int128)(s->stagger * (bursts > 1 ? period : room) * unit);
	s->grace = s->clock->hz / 1000;
	if (s->singly) {
		/* Each phase and each step has different random numbers. */
		s->pacing.state = mix64(s->seed + w->phase + s->step * (UINT64_C(1) << 32));
		s->pacing.share = s->stagger;
		pacing_begin(&s->pacing, frames, (double)ticks, (double)s->clock->hz);
	}
}

/* Gives up what is left of a step of the load, and begins the next one. */
static void sender_change(struct sender *s)
{
	const uint64_t left = s->intended - s->built;

	s->missed += left;
	s->intended -= left;
	s->ready = 0;
	s->owed = s->burst;
	s->step++;
	sender_pace(s);
}

/* ---- one step -------------------------------------------------------------------- */

/* Records the delay between due time and writing of frames. */
static void sender_lag(struct sender *s, uint32_t n, uint64_t now, uint64_t due)
{
	if (!s->singly) {
		histogram_add(s->lag, clock_ns_in(s->clock, now - due), n);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		histogram_add(s->lag, clock_ns_in(s->clock, now - s->dues[i]), 1);
}

/* Sending is complete when the port's ring is empty, too. If the device takes no frame for a tenth
 * of a second, the frames in the ring are lost. */
static void sender_finish(struct task *task, uint64_t now)
{
	struct sender *s = &task->sender;

	if (task->sent_all)
		return;
	if (!s->done)
		s->done = now;
	if (port_flush(s->port) || now - s->done > s->clock->hz / 10)
		task->sent_all = true;
}

bool sender_can_repeat(const struct sender *s, enum touch touch)
{
	const struct frame_template *t = s->templates;

	return s->port->engine->repeat && s->flows * s->sizes == 1 && !s->subflows.count &&
	       !s->delay_ticks && t->payload_at == PAYLOAD_AT && !t->device_sums &&
	       (touch == TOUCH_HEADER || (touch == TOUCH_FULL && t->len == FRAME_MIN));
}

/* Lets the engine send copies of the only template. */
static uint32_t sender_repeat(struct sender *s, uint64_t now)
{
	const struct frame_template *t = s->templates;
	struct repetition r = {
		.head = t->head,
		.len = t->len,
		.sum = t->sum,
		.number = s->seq,
		.most = UINT32_MAX - s->seq,
		.batch = s->burst,
		.until_ns = clock_ns(s->clock, s->window->end),
		.add_ns = clock_ahead_ns(s->clock),
	};
	struct series_cell *cell = NULL;
	uint32_t sent;

	/* All copies are due in one interval. */
	if (unlikely(s->series != NULL)) {
		cell = series_due(s->series, clock_ns(s->clock, now));
		if (s->series->due.from_ns + s->series->due.length_ns < r.until_ns)
			r.until_ns = s->series->due.from_ns + s->series->due.length_ns;
	}
	r.until_ns -= r.add_ns;
	sent = s->port->engine->repeat(s->port, &r);
	if (unlikely(cell != NULL))
		series_count(&cell->sent, sent);
	s->seq += sent;
	s->built += sent;
	s->sent += sent;
	return sent;
}

uint32_t sender_step(struct task *task, uint64_t now)
{
	struct sender *s = &task->sender;
	bool room = true, over;
	uint32_t taken;

	if (unlikely(now < s->window->start))
		return 0;
	while (unlikely(now >= s->until))
		sender_change(s);
	/* Polls after the end are not counted: they say nothing about blocking and can be the
	 * majority. */
	over = now >= s->window->end + s->grace || task->stop;
	s->polls += !over;
	if (s->repeats && !over && !s->held && s->intended == UINT64_MAX && s->seq < UINT32_MAX &&
	    now < s->window->end)
		return sender_repeat(s, now);
	if (!s->held) {
		uint64_t due = now;
		uint32_t n = 0;

		if (likely(!over))
			n = sender_due(s, now, &due);
		if (n) {
			uint32_t got = s->port->engine->alloc(s->port, s->frames, n);

			if (s->intended != UINT64_MAX && s->lag && got)
				sender_lag(s, got, now, due);
			if (s->intended != UINT64_MAX && !s->singly)
				sender_pay(s, got);
			room = got == n;
			n = got;
		}
		if (!n) {
			s->empty += room && !over;
			s->blocked += !room;
			if (over || (s->built == s->intended && s->until == UINT64_MAX))
				sender_finish(task, now);
			return 0;
		}
		s->first = 0;
		s->held = n;
		sender_build(s, n, unlikely(s->stamps_sent) ? clock_ticks() : due);
	} else if (unlikely(over)) {
		sender_finish(task, now);
		return 0;
	}
	taken = s->port->tx(s->port, s->frames + s->first, s->held);
	s->first += taken;
	s->held -= taken;
	s->sent += taken;
	s->blocked += !room || s->held;
	if (unlikely(s->delay_ticks)) {
		uint64_t until = clock_ticks() + s->delay_ticks * taken;

		while (clock_ticks() < until)
			;
	}
	return taken;
}

/* ---- phases ----------------------------------------------------------------------- */

void sender_begin(struct sender *s)
{
	const struct window *w = s->window;

	s->longest = 0;
	for (uint32_t f = 0; f < s->flows; f++) {
		for (uint32_t i = 0; i < s->sizes; i++) {
			struct frame_template *t = &s->templates[(size_t)f * s->sizes + i];
			const uint8_t *p = t->head + t->payload_at;

			template_set(t, net32(load32(p)), payload_flow(p), w->phase);
			s->longest = t->len > s->longest ? t->len : s->longest;
		}
	}
	s->built = s->sent = 0;
	s->flow = s->seq = s->size = s->round_size = s->turn_size = s->first = s->held = 0;
	s->run_at = 0;
	s->owed = s->burst;
	s->polls = s->empty = s->blocked = s->lag_max = 0;
	s->due = (unsigned __int128)w->start << 32;
	s->period = s->last_period = 0;
	s->intended = UINT64_MAX;
	s->step = 0;
	s->from = w->start;
	s->until = UINT64_MAX;
	s->missed = s->grace = s->done = 0;
	s->subflow = s->ready = 0;
	s->singly = s->rate_pps > 0 && s->pacing.arrivals != ARRIVALS_BURST;
	if (s->lag)
		histogram_clear(s->lag);
	if (s->series)
		series_begin(s->series, w->start_ns, w->duration_ns);
	if (s->rate_pps > 0) {
		s->intended = 0;
		sender_pace(s);
	} else if (s->limit) {
		s->intended = s->limit; /* all due at the start */
	}
}

void sender_begin_late(struct sender *s, uint64_t now)
{
	unsigned __int128 at = (unsigned __int128)now << 32;
	uint64_t missed;

	while (now >= s->until)
		sender_change(s);
	if (s->singly) {
		missed = pacing_skip(&s->pacing, now - s->from);
		s->missed += missed;
		s->intended -= missed;
		return;
	}
	if (!s->period) {
		s->due = at > s->due ? at : s->due;
		return;
	}
	if (at <= s->due)
		return;
	missed = (uint64_t)((at - s->due + s->period - 1) / s->period);
	s->due += s->period * missed;
	missed *= s->burst;
	missed = missed < s->intended ? missed : s->intended;
	s->missed += missed;
	s->intended -= missed;
	if (s->intended <= s->burst)
		s->due -= s->period - s->last_period;
}
