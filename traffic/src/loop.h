/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads, tasks and the loops that move frames. A task is one role on one port (a forwarder
 * has two); a worker is a pinned thread that steps its tasks in turn. Between phases the
 * workers sleep, and only then does the control thread touch tasks and ports.
 */
#ifndef SWITCHMARK_LOOP_H
#define SWITCHMARK_LOOP_H

#include "clock.h"
#include "engine.h"
#include "histogram.h"
#include "merged.h"
#include "order.h"
#include "pacing.h"
#include "predict.h"
#include "sequence.h"
#include "subflows.h"
#include "template.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define INTERVALS_MAX 65536

/* Who writes a frame: we all of it, we the payload and the kernel the headers, or we and the
 * device. A port of the latter two may know when each frame arrived. */
enum form { FORM_WHOLE, FORM_PAYLOAD, FORM_DEVICE };

enum role { ROLE_SENDER, ROLE_RECEIVER, ROLE_CLIENT, ROLE_SERVER, ROLE_FORWARDER };
extern const char *const role_names[]; /* ends with NULL */

/* When and as what the frames of a phase go; the same for every task. */
struct window {
	uint64_t start, end; /* ticks */
	/* Threads note what they have used shortly before the start and after the end: once no
	 * frame has come for so long, or at the latest. All in ticks. */
	uint64_t note, quiet, latest;
	uint64_t interval; /* ticks */
	uint64_t announce_every; /* ticks; 0: MACs are not announced again */
	uint8_t phase;
};

struct sender {
	struct port *port;
	struct frame_template *templates; /* flows * sizes, the sizes of a flow together */
	uint32_t flows, sizes;
	uint32_t burst;
	double rate_pps; /* 0: as fast as it goes */
	double rate_before; /* of the cores before this one: together they send what was asked */
	double stagger; /* of a period, by which bursts are due after those of others; below 1 */
	uint64_t limit; /* frames of a phase, at full rate; 0: until it ends */
	const struct clock *clock;
	const struct window *window;

	/* pacing */
	/* Of a burst: ticks, 32 fractional bits. The last period of a phase may be shorter. */
	unsigned __int128 due, period, last_period;
	uint32_t owed; /* frames of the burst that is due next or has begun to leave */
	uint64_t intended; /* frames of this phase; UINT64_MAX at full rate */
	uint64_t missed; /* of a phase, due before this sender had begun: not in `intended` */
	uint64_t seed; /* of what is drawn: another for each sender */
	struct pacing pacing; /* of frames that are due one by one */
	bool singly; /* whether they are, in this phase */
	bool stamps_sent; /* a burst has the time when it is written, not when it was due */
	uint64_t *dues; /* ticks, a burst of them: frames that are due and have found no room yet */
	uint32_t ready; /* so many */
	struct histogram *lag; /* by which frames were built after they were due; NULL: not kept */
	uint64_t grace; /* ticks past the end in which a paced backlog may still leave */
	uint64_t done; /* ticks: when only the port's ring held frames; 0: not yet */

	/* where we are */
	uint64_t built, sent;
	uint32_t flow, seq, size;
	uint32_t round_size; /* with which the flows began this round */
	uint32_t turn_size; /* with which the first sub-flow began, of those that come in turn */
	struct subflows subflows; /* of each flow */
	uint32_t subflow; /* with ORDER_SEQUENTIAL: of the next frame */
	uint32_t longest; /* frame of a phase */
	uint32_t first, held; /* frames built and not yet taken */
	struct frame *frames;
	/* Write `n` frames: of any templates; of one; of one that are alike but for their
	 * number. */
	void (*write_any)(struct sender *, uint32_t n, uint64_t due);
	void (*write_varied)(struct sender *, uint32_t n, uint64_t due);
	void (*write_alike)(struct sender *, uint32_t n, uint64_t due);

	uint64_t polls, empty, blocked, lag_max;
	uint64_t delay_ticks; /* test option: cost added to each frame sent */
};

/* The last frame of a flow in its order, for the variation between neighbours. */
struct neighbour {
	uint64_t delay_ns;
	uint32_t next; /* the number that the frame after it has */
	bool known;
};

/* What a receiver notes for each frame: nothing, its delay, or also how the delay differs from
 * that of the frame sent before it (IPDV, RFC 5481 section 4.1). Or it compares the headers with
 * the expected ones. */
enum timing { TIMING_NONE, TIMING_LATENCY, TIMING_IPDV, TIMING_HEADERS };

/* The headers that a receiver expects, and the first frame that had others. */
struct expected_headers {
	struct frame_template *templates; /* one for each flow; NULL: not asked for */
	struct subflows subflows; /* of each flow */
	struct header_tap *tap; /* for an engine that sees no headers; else NULL */
	uint64_t compared, broken;
	uint64_t unkept; /* frames for which the tap had no room */
	struct frame_template wanted; /* the headers that the first broken frame should have had */
	uint8_t found[HEAD_BYTES]; /* and those that it had */
};

struct receiver {
	struct port *port;
	uint32_t run;
	uint32_t first_flow, flows;
	uint32_t burst;
	const struct clock *clock;
	const struct window *window;
	struct frame *frames;
	struct arrival *arrivals; /* one for each frame; NULL: the port notes none */
	enum touch touch;
	enum form form;
	struct flow_headers known; /* of the flow whose frames come one after the other */
	/* Counts `n` frames that came; returns how many of ours were not seen before. */
	uint32_t (*count)(struct receiver *, uint32_t n, uint64_t now);

	struct sequence *sequences; /* a flow each */
	uint64_t *windows; /* their memory */
	struct merged_core *merged; /* of a task on several cores; else NULL */
	struct histogram *latency; /* NULL: not asked for */
	struct histogram *ipdv; /* NULL: not asked for; absolute values */
	struct neighbour *neighbours; /* a flow each; NULL without ipdv */
	uint64_t *intervals;
	uint32_t interval, interval_count;
	uint64_t interval_end;

	atomic_bool draining, closed;
	atomic_bool polled_empty; /* while draining: a poll found nothing */
	_Atomic uint64_t seen; /* frames of ours in this phase, for the drain */
	uint64_t early; /* of frames with a delay: came before they were sent, by our clock */
	uint64_t noted; /* frames with a delay whose arrival the port noted */
	uint64_t polled; /* ticks: the poll before */
	/* Of the times between two polls, in which frames arrived whose arrival the port did not
	 * note. */
	struct histogram *widths;
	/* What `latency` would be if each frame had come right after the poll before the one that
	 * found it: the true latencies lie between. With `latency`. */
	struct histogram *earliest;
	uint64_t width_ns; /* between the last poll and the one before */
	bool exact; /* the port notes when a frame came, not when it was read */
	/* `after_end` is a part of `rx`: frames that came when the phase was over. `after_drain`
	 * is not included in any other counter. */
	uint64_t rx, bytes, after_end, late, after_drain, corrupted, foreign, stray, other_phase;
	uint64_t polls, empty;
	uint64_t idle, idle_since; /* ticks without a frame; 0: the last poll found some */
	uint64_t delay_ticks; /* test option: cost added to each receive */
	struct expected_headers expected;

	/* For a task on several cores: frames that came after the drain. Another core may have
	 * seen a copy of them. */
	struct too_late {
		uint32_t flow, seq;
	} * too_late;
	uint32_t too_late_count;
	struct order *order; /* for a task on several cores; else NULL */
};

#define TOO_LATE_MAX 65536

/* The MACs of frames that a forwarder sends by one of its ports. */
struct rewrite {
	bool on;
	uint8_t src_mac[6], dst_mac[6];
};

struct forwarder {
	struct port *ports[2]; /* the same twice: a server */
	uint32_t burst;
	bool reflect;
	uint32_t run, first_flow, flows; /* whose test frames are reflected */
	struct rewrite rewrite[2]; /* by port */
	struct frame *frames, *copies;
	uint64_t in[2], out[2], dropped[2];
	/* At a server: frames that are no test frames of this run, and frames of other flows. */
	uint64_t ignored, stray;
	uint64_t polls, empty;
};

/* The frames by which switches learn where a task's MACs are. A switch forgets a MAC that sends
 * nothing, so they are sent again during a phase. */
struct announcer {
	struct announcement {
		struct port *port;
		int past; /* a socket that sends past the port's engine; -1: the engine sends */
		struct frame_template hello;
	} list[2];
	uint32_t count;
	uint64_t sent; /* of a phase */
};

struct task {
	enum role role;
	/* One of `cores` tasks in a row that are one task on several cores. */
	uint32_t core, cores;
	/* Moves at most one burst in each direction. Returns how many frames it moved. */
	uint32_t (*step)(struct task *, uint64_t now);
	struct sender sender;
	struct receiver receiver;
	struct forwarder forwarder;
	struct announcer announcer;
	atomic_bool sent_all;
	atomic_bool stop;
} __attribute__((aligned(CACHE_LINE)));

/* Tasks of different threads lie side by side in one array, and so do workers and ports: each
 * takes whole cache lines. */
_Static_assert(sizeof(struct task) % CACHE_LINE == 0, "two threads share a line of tasks");

/* What a thread had used at some moment. */
struct usage {
	uint64_t cpu_ns;
	uint64_t user_ns; /* of it, what was not the kernel's */
	int64_t wait_ns; /* ready to run and without a CPU; -1: unknown */
};

struct worker {
	pthread_t thread;
	int cpu; /* -1: not pinned */
	uint32_t cores; /* in a row, that have the same tasks */
	bool yield;
	bool privileged; /* it keeps root's privileges, if the program has them */
	struct task **tasks;
	uint32_t count;
	const struct window *window;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool run, quit; /* under the lock */
	atomic_bool halt;
	atomic_bool idle;
	atomic_bool rest; /* the drain is over: it sleeps between polls */

	int schedstat; /* the thread's file of that name; -1: there is none */
	struct usage before, after; /* at the start of the phase and after its end */
	uint64_t before_at, after_at; /* ticks: when that was noted */
	uint64_t late; /* ticks after the start when this thread began the phase */
	uint64_t yields;
	int started; /* whether the thread exists */
} __attribute__((aligned(CACHE_LINE)));

_Static_assert(sizeof(struct worker) % CACHE_LINE == 0, "two threads share a line of workers");
_Static_assert(sizeof(struct port) % CACHE_LINE == 0, "two threads share a line of ports");

static inline bool role_sends(enum role role)
{
	return role == ROLE_SENDER || role == ROLE_CLIENT;
}

static inline bool role_receives(enum role role)
{
	return role == ROLE_RECEIVER || role == ROLE_CLIENT;
}

/* Moves the calling thread to a CPU; -1: it stays. What it returns is for cpu_return. */
int cpu_move(int cpu, cpu_set_t *before);
void cpu_return(int moved, const cpu_set_t *before);

/* 0 or -errno. The thread sleeps until worker_run. */
int worker_start(struct worker *w);
void worker_run(struct worker *w);
/* Waits until the thread sleeps again. */
void worker_halt(struct worker *w);
void worker_quit(struct worker *w);

/* Chooses the step for the role, the touch mode and the engine. */
void task_choose_step(struct task *t, enum touch touch, enum timing timing);

/* On one of several cores, when nothing moves any more: frames that other cores have counted,
 * too, become copies. */
void receiver_finish(struct receiver *r);

/* Compares the headers of one frame of this flow with this sequence number. */
void expected_headers_check(struct expected_headers *p, const struct frame *f, uint32_t flow,
			    uint32_t seq);

/* Sets a task up for a phase; the window is set by then. */
void task_begin(struct task *t);

/* Gives frames back that were built and not sent. */
void task_end(struct task *t);

/* Receives and throws away what waits at a port; at most `limit` frames. */
void port_discard(struct port *port, struct frame *frames, uint32_t burst, uint64_t limit);

/* Sends one frame of phase PHASE_ANNOUNCE, so that switches learn its source: by the socket `past`
 * that packet_sender opened, if it is not -1. */
bool port_announce(struct port *port, int past, const struct frame_template *t);

#endif
