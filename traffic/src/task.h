/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task is one role on one port (a forwarder has two ports). A worker of loop.h calls its step,
 * which moves frames.
 */
#ifndef SWITCHMARK_TASK_H
#define SWITCHMARK_TASK_H

#include "clock.h"
#include "engine.h"
#include "gaps.h"
#include "histogram.h"
#include "merged.h"
#include "order.h"
#include "pacing.h"
#include "predict.h"
#include "sequence.h"
#include "series.h"
#include "subflows.h"
#include "template.h"

#include <stdatomic.h>

#define INTERVALS_MAX 65536

/* The writer of a frame: the program all of it, the program the payload and the kernel the
 * headers, or the program and the device. A port of the latter two may know the arrival time of
 * each frame. */
enum form { FORM_WHOLE, FORM_PAYLOAD, FORM_DEVICE };

enum role { ROLE_SENDER, ROLE_RECEIVER, ROLE_CLIENT, ROLE_SERVER, ROLE_FORWARDER };
extern const char *const role_names[]; /* ends with NULL */

#define STEPS_MAX 64

/* From this time on, senders with a rate send this share of it. */
struct load_step {
	uint64_t at; /* ticks */
	double share;
};

/* The times and the phase number of a phase; the same for every task. */
struct window {
	uint64_t start, end; /* ticks */
	uint64_t start_ns, duration_ns; /* the same on all hosts of a trial */
	/* Threads record their CPU usage shortly before the start and after the end: after no frame
	 * has arrived for `quiet`, or at `latest`. All in ticks. */
	uint64_t note, quiet, latest;
	uint64_t interval; /* ticks */
	uint64_t announce_every; /* ticks; 0: MACs are announced once */
	struct load_step steps[STEPS_MAX]; /* in the order of their times, within the phase */
	uint32_t step_count;
	uint8_t phase;
};

struct sender {
	struct port *port;
	struct frame_template *templates; /* flows * sizes, grouped by flow */
	uint32_t flows, sizes;
	uint32_t burst;
	double rate_pps; /* 0: full rate */
	/* the rate of the preceding cores: together all cores send the offered load */
	double rate_before;
	double stagger; /* start offset of bursts relative to other senders, in periods; below 1 */
	uint64_t limit; /* frames per phase at full rate; 0: no limit */
	const struct clock *clock;
	const struct window *window;

	/* pacing */
	/* Per burst: ticks, 32 fractional bits. The last period of a phase may be shorter. */
	unsigned __int128 due, period, last_period;
	uint32_t step; /* of the load; 0: before the first one */
	uint64_t from, until; /* ticks: that step; the last one has no end */
	uint32_t owed; /* remaining frames of the burst that is due next or partly sent */
	uint64_t intended; /* frames in this phase; UINT64_MAX at full rate */
	uint64_t missed; /* frames due before this sender started the phase; not in `intended` */
	uint64_t seed; /* for random numbers: different for each sender */
	struct pacing pacing; /* of frames that are due individually */
	bool singly; /* frames are due individually in this phase */
	bool stamps_sent; /* a burst carries the time of writing, not its due time */
	bool repeats; /* at full rate the engine makes the frames, one from the other */
	uint64_t *dues; /* ticks, one burst: due times of frames that wait for room */
	uint32_t ready; /* number of `dues` */
	struct histogram *lag; /* delay from due time to writing; NULL: not recorded */
	struct series *series; /* frames by the interval of their due time; NULL: not requested */
	uint64_t grace; /* ticks after the end in which a paced backlog may still leave */
	uint64_t done; /* ticks: when all frames were in the port's ring; 0: not yet */

	/* position */
	uint64_t built, sent;
	uint32_t flow, seq, size;
	uint32_t run_at; /* the number of frames that the current run of a flow has so far */
	uint32_t round_size; /* the size index at the start of this round of flows */
	uint32_t turn_size; /* the size index of the first sub-flow of a sequential turn */
	struct subflows subflows; /* the sub-flows of each flow */
	uint32_t subflow; /* with ORDER_SEQUENTIAL: that of the next frame */
	uint32_t longest; /* longest frame of a phase */
	uint32_t first, held; /* frames built and not yet taken by tx */
	struct frame *frames;
	/* Write `n` frames: from any templates, from one template, or from one template with only
	 * the sequence number different. */
	void (*write_any)(struct sender *, uint32_t n, uint64_t due);
	void (*write_varied)(struct sender *, uint32_t n, uint64_t due);
	void (*write_alike)(struct sender *, uint32_t n, uint64_t due);

	uint64_t polls, empty, blocked, lag_max;
	uint64_t delay_ticks; /* test option: delay added per sent frame */
};

/* The last frame of a flow in sequence, for the delay variation of consecutive frames. */
struct neighbour {
	uint64_t delay_ns;
	uint32_t next; /* the sequence number of the following frame */
	bool known;
};

/* The data that a receiver records per frame: nothing, its delay, or also the difference to the
 * delay of the frame sent before it (IPDV, RFC 5481 section 4.1). TIMING_HEADERS compares the
 * headers with the expected ones instead. */
enum timing { TIMING_NONE, TIMING_LATENCY, TIMING_IPDV, TIMING_HEADERS };

/* The headers that a receiver expects, and the first frame with other headers. */
struct expected_headers {
	struct frame_template *templates; /* one per flow; NULL: not requested */
	struct subflows subflows; /* the sub-flows of each flow */
	/* The sender's kernel numbers the IPv4 identifications: they are not compared. */
	bool identified;
	struct header_tap *tap; /* for an engine without access to headers; else NULL */
	uint64_t compared, broken;
	uint64_t unkept; /* frames that the tap dropped for lack of room */
	struct frame_template wanted; /* the expected headers of the first broken frame */
	uint8_t found[HEAD_BYTES]; /* the headers that it had */
};

struct receiver {
	struct port *port;
	uint32_t run;
	uint32_t first_flow, flows;
	uint32_t burst;
	const struct clock *clock;
	const struct window *window;
	struct frame *frames;
	struct arrival *arrivals; /* one per frame; NULL: the port records no arrival times */
	enum touch touch;
	enum form form;
	struct flow_headers known; /* headers of the flow whose frames arrive consecutively */
	/* Counts `n` received frames; returns the number of test frames not seen before. */
	uint32_t (*count)(struct receiver *, uint32_t n, uint64_t now);

	struct sequence *sequences; /* one per flow */
	uint64_t *windows; /* memory of the sequences */
	struct merged_core *merged; /* for a task on several cores; else NULL */
	struct histogram *latency; /* NULL: not requested */
	struct histogram *ipdv; /* NULL: not requested; absolute values */
	struct neighbour *neighbours; /* one per flow; NULL without ipdv */
	struct series *series; /* counts by interval; NULL: not requested */
	/* One per flow: its longest gaps. Present with `series`, but for a task on several cores, as a
	 * core does not know what another one received. */
	struct gaps *gaps;
	bool follows; /* a run of frames is recorded for the next one: with `ipdv` or `gaps` */
	uint64_t *intervals;
	uint32_t interval, interval_count;
	uint64_t interval_end;

	atomic_bool draining, closed;
	_Atomic uint64_t seen; /* test frames in this phase, for the drain */
	uint64_t early; /* frames with a negative delay by our clock */
	uint64_t noted; /* frames with a delay whose arrival the port timestamped */
	uint64_t polled; /* ticks: the previous poll */
	/* Intervals between two polls, for frames without an arrival timestamp. */
	struct histogram *widths;
	/* Lower bounds of the latencies in `latency`: the delay if each frame had arrived right
	 * after the poll before the one that returned it. The true latencies lie in between.
	 * Present with `latency`. */
	struct histogram *earliest;
	uint64_t width_ns; /* between the last two polls */
	bool exact; /* the port timestamps the arrival of a frame, not the read */
	/* `after_end` is included in `rx`: frames that arrived after the phase. `after_drain` is
	 * not included in any other counter. */
	uint64_t rx, bytes, after_end, late, after_drain, corrupted, foreign, stray, other_phase;
	uint64_t polls, empty;
	uint64_t idle, idle_since; /* ticks without a frame; 0: the last poll returned frames */
	uint64_t delay_ticks; /* test option: delay added per received frame */
	struct expected_headers expected;

	/* For a task on several cores: frames received after the drain. Another core may have seen
	 * a copy of them. */
	struct too_late {
		uint32_t flow, seq;
	} * too_late;
	uint32_t too_late_count;
	struct order *order; /* for a task on several cores; else NULL */
};

#define TOO_LATE_MAX 65536

/* The new MACs of frames that a forwarder sends on a port. */
struct rewrite {
	bool on;
	uint8_t src_mac[6], dst_mac[6];
};

struct forwarder {
	struct port *ports[2]; /* both are the same port for a server */
	uint32_t burst;
	bool reflect;
	uint32_t run, first_flow, flows; /* identify the test frames to reflect */
	struct rewrite rewrite[2]; /* per output port */
	struct frame *frames, *copies;
	uint64_t in[2], out[2], dropped[2];
	/* At a server: frames that are not test frames of this run, and frames of other flows. */
	uint64_t ignored, stray;
	uint64_t polls, empty;
};

/* Frames from which switches learn the MACs of a task. A switch forgets a silent MAC, so these
 * frames are repeated during a phase. */
struct announcer {
	struct announcement {
		struct port *port;
		int past; /* a socket that bypasses the engine; -1: send through the engine */
		struct frame_template hello;
	} list[2];
	uint32_t count;
	uint64_t sent; /* frames in a phase */
};

struct task {
	enum role role;
	/* One of `cores` consecutive tasks that form one task on several cores. */
	uint32_t core, cores;
	/* Moves at most one burst in each direction. Returns the number of frames moved. */
	uint32_t (*step)(struct task *, uint64_t now);
	struct sender sender;
	struct receiver receiver;
	struct forwarder forwarder;
	struct announcer announcer;
	atomic_bool sent_all;
	atomic_bool stop;
} __attribute__((aligned(CACHE_LINE)));

/* Tasks of different threads are adjacent in one array, like workers and ports: every element fills
 * whole cache lines. */
_Static_assert(sizeof(struct task) % CACHE_LINE == 0, "two threads share a line of tasks");
_Static_assert(sizeof(struct port) % CACHE_LINE == 0, "two threads share a line of ports");

static inline bool role_sends(enum role role)
{
	return role == ROLE_SENDER || role == ROLE_CLIENT;
}

static inline bool role_receives(enum role role)
{
	return role == ROLE_RECEIVER || role == ROLE_CLIENT;
}

static inline bool role_forwards(enum role role)
{
	return role == ROLE_SERVER || role == ROLE_FORWARDER;
}

#endif
