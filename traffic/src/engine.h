/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a packet-I/O engine: one table of functions per engine, one port per queue. The
 * core owns threads, pacing and counters; an engine owns the system calls and the frame memory. An
 * engine knows about test frames only what the comments in this file say.
 */
#ifndef SWITCHMARK_ENGINE_H
#define SWITCHMARK_ENGINE_H

#include "inline.h"
#include "lines.h"

#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BURST_MAX 4096
#define FRAME_BYTES_MAX 9600 /* the longest frame, with the FCS */
#define FCS_BYTES 4
#define OPTIONS_MAX 16

/*
 * A frame in memory, without the FCS. `data` points to the Ethernet header (with ENGINE_PAYLOAD: to
 * the UDP payload). `handle` is private to the engine.
 */
struct frame {
	void *data;
	uint32_t len;
	uint64_t handle;
};

enum engine_cap {
	ENGINE_SENDS = 1 << 0,
	ENGINE_RECEIVES = 1 << 1,
	ENGINE_PAYLOAD = 1 << 2, /* frames are UDP payloads: the kernel writes the headers */
	ENGINE_REFLECTS = 1 << 3, /* tx takes frames that this port received */
	ENGINE_CROSSES = 1 << 4, /* tx takes frames that another port of this engine received */
	ENGINE_NEEDS_INTERFACE = 1 << 5,
	ENGINE_NEEDS_ROOT = 1 << 6, /* a user namespace is not enough */
	ENGINE_SPREADS = 1 << 8, /* a port may be a single queue of many, for use by one core */
	/* open starts threads, which must run where the program may run */
	ENGINE_HAS_THREADS = 1 << 9,
	ENGINE_PRIVILEGED = 1 << 7, /* the threads that move frames need privileges, too */
};

enum option_type { OPTION_NUMBER, OPTION_TEXT };

/* One option of an engine. The table of options ends with a name of NULL. */
struct option_spec {
	const char *name;
	enum option_type type;
	uint64_t min, max, preset; /* for numbers */
	/* For texts: the valid values, ends with NULL, the first is the default. NULL: any text is
	 * valid, and the default is empty. */
	const char *const *choices;
	const char *help;
};

struct option_value {
	const char *name;
	uint64_t number;
	char text[256];
};

/* The parameters of a port. The core owns the strings, which outlive the port. */
struct port_config {
	char ifname[IFNAMSIZ];
	char netns[128]; /* a path for setns(); empty: the namespace of the program */
	bool sends, receives;
	/* the port only forwards received frames: it neither creates nor checks frames */
	bool forwards;
	uint32_t burst; /* the largest burst for tx and rx */
	uint32_t frame_max; /* the longest frame, without the FCS */
	/* For a function on several cores: a core has a separate port and queue, from `queue` on:
	 * `core` of `cores`. The ports are opened in order. */
	uint32_t queue;
	uint32_t core, cores;
	uint32_t flows; /* ENGINE_PAYLOAD: number of source ports, starting at local_port */
	uint32_t local_ip, remote_ip; /* ENGINE_PAYLOAD: IPv4, network order */
	uint16_t local_port, remote_port; /* ENGINE_PAYLOAD: host order */
	bool connected; /* ENGINE_PAYLOAD: exchange frames with the remote end only */
	struct option_value options[OPTIONS_MAX];
	uint32_t option_count;
};

/* Counters of a port since it was opened. A counter that the engine does not support stays 0. */
struct engine_stats {
	uint64_t rx_ring_drops; /* frames dropped on arrival because the ring was full */
	uint64_t rx_invalid; /* frames discarded by the engine */
	uint64_t tx_errors; /* failed system calls; their frames were not taken */
	uint64_t tx_drops; /* frames taken by tx but dropped before transmission */
};

/* The result of the checksum test that a device or the engine made on a received frame. */
enum device_sum { DEVICE_SUM_UNKNOWN, DEVICE_SUM_GOOD, DEVICE_SUM_BAD };

struct arrival {
	uint64_t ticks; /* arrival time in clock_ticks(); 0: not recorded */
	enum device_sum sum; /* result for the UDP checksum */
	/* arrival time by the kernel's clock, common to all ports; 0: unknown */
	uint64_t kernel_ns;
};

/*
 * Frames that an engine makes itself, for a sender at full rate: copies of one untagged IPv4 frame.
 * Each copy has the next number, the time at which the engine made it, and the checksum for both.
 * Their places are in frames.h.
 */
struct repetition {
	const uint8_t *head; /* the first FRAME_MIN bytes, with number and time 0; zeros follow */
	uint32_t len;
	uint64_t sum; /* the partial checksum that belongs to `head` */
	uint32_t number; /* of the first copy */
	uint32_t most; /* copies; the number of none exceeds 32 bits */
	uint32_t batch; /* copies that may have the same time */
	uint64_t until_ns; /* CLOCK_MONOTONIC: no copy has a later time, or that one */
	uint64_t add_ns; /* what the time in a copy has more than CLOCK_MONOTONIC, modulo 2^64 */
};

struct port {
	const struct engine *engine;
	/* The engine's functions, unless `open` chose better ones for this port. */
	uint32_t (*tx)(struct port *, struct frame *, uint32_t n);
	uint32_t (*rx)(struct port *, struct frame *, struct arrival *, uint32_t n);
	struct port_config config;
	void *priv;
	/* How the engine works on this port, for the record: "native, copy". */
	char mode[256];
	char why[256]; /* the reason of a failed open, or of the first fatal error */
	/* The port has failed for good. Set after `why`, which does not change any more: other
	 * threads read it. */
	atomic_bool failed;
	int news; /* an eventfd that wakes the control thread after a failure; -1 or 0: none */
	uint64_t tx_errors;
	/* The device completes UDP checksums: frames for tx carry the pseudo-header sum in the
	 * checksum field. */
	bool completes_sums;
	bool notes_arrivals; /* rx fills a struct arrival for every frame */
	/* Another core reads sent frames, and takes their cache lines each time. Set by `open`. */
	bool shares_frames;
	/* The caller writes each frame that it allocates: with `shares_frames`, alloc requests the lines
	 * of later frames in advance. Set by the core. */
	bool claims;
	bool whole_counters; /* no counter of this port has 32 bits: note_drops is not called */
	const char *stamps_by; /* source of the arrival timestamps: "kernel", "device", "call" */
	uint32_t first_flow; /* ENGINE_PAYLOAD: the flow that the first socket sends */
} __attribute__((aligned(CACHE_LINE))); /* ports of different threads are adjacent in memory */

struct engine {
	const char *name;
	uint32_t caps;
	const struct option_spec *options; /* NULL: no options */
	const char *summary; /* one line, for lists */

	/* Returns 0, or -errno and the reason in port->why. After a failure nothing is left
	 * open. */
	int (*open)(struct port *);
	/* True if the link is up and its peer is present. */
	bool (*ready)(struct port *);
	/* Called by the thread that will move the port's frames, before it starts. NULL: not
	 * needed. */
	void (*enter)(struct port *);
	/* Allocates up to n frames with room for config.frame_max bytes each. Their content is
	 * undefined. Returns the number of frames. */
	uint32_t (*alloc)(struct port *, struct frame *, uint32_t n);
	/* Takes the first k frames and returns k; the caller keeps the rest. Never blocks. */
	uint32_t (*tx)(struct port *, struct frame *, uint32_t n);
	/* Sends copies of one frame, for at most some milliseconds, and returns how many it took.
	 * They have consecutive numbers. NULL: the sender writes all frames. */
	uint32_t (*repeat)(struct port *, const struct repetition *);
	/* Returns up to n received frames. Never blocks. If the port notes arrivals, rx fills one
	 * struct arrival per frame, unless the argument is NULL. */
	uint32_t (*rx)(struct port *, struct frame *, struct arrival *, uint32_t n);
	/* Returns unsent frames from alloc or rx to the engine. */
	void (*release)(struct port *, struct frame *, uint32_t n);
	/* Adds the kernel's drops to a 64-bit counter of the port: the kernel's counters have 32
	 * bits. Another thread calls this function from time to time while tx and rx run, so it
	 * must not touch their state. NULL: no counter has 32 bits. */
	void (*note_drops)(struct port *);
	/* The functions below are never called while tx or rx runs on the port. */

	/* Asks the kernel once to send the frames that tx took and that still wait in the engine's
	 * ring. Returns true if the ring is empty. Never blocks. NULL: frames never wait. */
	bool (*flush)(struct port *);
	/* Updates port->mode with information gained since open. NULL: no update. */
	void (*describe)(struct port *);
	/* Reads the counters and has no side effects. */
	void (*stats)(struct port *, struct engine_stats *);
	void (*close)(struct port *);
};

/* The engines that the program is linked with; ends with NULL. */
extern const struct engine *const engines[];

/* Returns an engine by its name, from the table or from a module (modules.h); NULL: unknown. */
const struct engine *engine_find(const char *name);

/* Returns the defect of an engine's table entry; NULL: no defect. */
const char *engine_fault(const struct engine *engine);

/* Opens a port with its engine and config set. Returns the result of the engine's open. */
int port_open(struct port *port);

/* Calls the engine's flush. */
bool port_flush(struct port *port);

/* Returns the value of an option, or the default from the engine's table. */
uint64_t port_option(const struct port *port, const char *name);
const char *port_option_text(const struct port *port, const char *name);

/* Formats port->why, unless it is set already, and returns error (a negative errno). */
int port_fail(struct port *port, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
