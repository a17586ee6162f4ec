/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a packet-I/O engine: one table of functions an engine, one port a queue.
 * The core owns threads, pacing and counts; an engine owns the system calls and the memory
 * of frames. An engine knows nothing of test frames beyond what its comments say.
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
 * A frame in memory, without the FCS. `data` is where the Ethernet header begins (for an
 * engine with ENGINE_PAYLOAD: the UDP payload), `handle` is the engine's own.
 */
struct frame {
	void *data;
	uint32_t len;
	uint64_t handle;
};

enum engine_cap {
	ENGINE_SENDS = 1 << 0,
	ENGINE_RECEIVES = 1 << 1,
	ENGINE_PAYLOAD = 1 << 2, /* frames are UDP payloads: the kernel makes the headers */
	ENGINE_REFLECTS = 1 << 3, /* tx takes frames that this port received */
	ENGINE_CROSSES = 1 << 4, /* tx takes frames that another port of this engine received */
	ENGINE_NEEDS_INTERFACE = 1 << 5,
	ENGINE_NEEDS_ROOT = 1 << 6, /* not even a user namespace will do */
	ENGINE_SPREADS = 1 << 8, /* a port may be one of several queues, on a core each */
	ENGINE_HAS_THREADS = 1 << 9, /* open starts some, which are to run where the program may */
	ENGINE_PRIVILEGED = 1 << 7, /* who moves frames must be privileged, too */
};

enum option_type { OPTION_NUMBER, OPTION_TEXT };

/* One option of an engine; a table of them ends with a name of NULL. */
struct option_spec {
	const char *name;
	enum option_type type;
	uint64_t min, max, preset; /* of a number */
	/* Of a text, ends with NULL, the first is the preset; NULL: any text, preset empty. */
	const char *const *choices;
	const char *help;
};

struct option_value {
	const char *name;
	uint64_t number;
	char text[256];
};

/* What a port is opened with. Strings are owned by the core and outlive the port. */
struct port_config {
	char ifname[IFNAMSIZ];
	char netns[128]; /* a path that setns() takes; empty: where the program runs */
	bool sends, receives;
	bool forwards; /* what comes in here leaves as it is: no frame is made or checked here */
	uint32_t burst; /* the largest burst that will be asked of tx and rx */
	uint32_t frame_max; /* the longest frame, without the FCS */
	/* Of a function on several cores each has a port with a queue of its own, from `queue` on:
	 * `core` of `cores`. They are opened in order. */
	uint32_t queue;
	uint32_t core, cores;
	uint32_t flows; /* ENGINE_PAYLOAD: source ports to send from, starting at local_port */
	uint32_t local_ip, remote_ip; /* ENGINE_PAYLOAD: IPv4, network order */
	uint16_t local_port, remote_port; /* ENGINE_PAYLOAD: host order */
	bool connected; /* ENGINE_PAYLOAD: nobody but the remote end is sent to or heard */
	struct option_value options[OPTIONS_MAX];
	uint32_t option_count;
};

/* Counters of a port since it was opened; what an engine cannot tell stays 0. */
struct engine_stats {
	uint64_t rx_ring_drops; /* frames that arrived and found no room here */
	uint64_t rx_invalid; /* frames that the engine had to throw away */
	uint64_t tx_errors; /* system calls that failed; their frames were not taken */
	uint64_t tx_drops; /* frames taken by tx and lost before they left */
};

/* What a device, or the engine, found of a frame that it received. */
enum device_sum { DEVICE_SUM_UNKNOWN, DEVICE_SUM_GOOD, DEVICE_SUM_BAD };

struct arrival {
	uint64_t ticks; /* when, as clock_ticks() counts; 0: nobody noted it */
	enum device_sum sum; /* of the UDP checksum */
	uint64_t kernel_ns; /* the same by the kernel's clock, common to all ports; 0: unknown */
};

struct port {
	const struct engine *engine;
	/* The engine's own, unless `open` put others here that suit this port better. */
	uint32_t (*tx)(struct port *, struct frame *, uint32_t n);
	uint32_t (*rx)(struct port *, struct frame *, struct arrival *, uint32_t n);
	struct port_config config;
	void *priv;
	/* How the engine works here, for the record: "native, copy". */
	char mode[256];
	char why[256]; /* the reason of a failed open, or of the first fatal error */
	/* The port can work no more. Set after `why`, which then stays: other threads read it. */
	atomic_bool failed;
	uint64_t tx_errors;
	/* The device completes UDP checksums: frames for tx hold the pseudo header's sum there. */
	bool completes_sums;
	bool notes_arrivals; /* rx tells something of each frame */
	const char *stamps_by; /* who notes the arrival of frames: "kernel", "device", "call" */
	uint32_t first_flow; /* ENGINE_PAYLOAD: the flow that leaves by the first socket */
} __attribute__((aligned(CACHE_LINE))); /* ports of different threads lie side by side */

struct engine {
	const char *name;
	uint32_t caps;
	const struct option_spec *options; /* NULL: none */
	const char *summary; /* one line, for lists */

	/* 0 or -errno with the reason in port->why; on failure nothing is left open. */
	int (*open)(struct port *);
	/* Is the link up, with its peer there? */
	bool (*ready)(struct port *);
	/* Called by the thread that will move the port's frames, before it does. NULL: no need. */
	void (*enter)(struct port *);
	/* Up to n empty frames with room for config.frame_max bytes each. Their content is
	 * whatever it was. Returns how many. */
	uint32_t (*alloc)(struct port *, struct frame *, uint32_t n);
	/* Takes the first k frames; the caller keeps the rest. Never blocks. */
	uint32_t (*tx)(struct port *, struct frame *, uint32_t n);
	/* Up to n frames that have arrived. Never blocks. A port that notes arrivals writes one for
	 * each; NULL: the caller does not ask. */
	uint32_t (*rx)(struct port *, struct frame *, struct arrival *, uint32_t n);
	/* Gives frames from alloc or rx back unsent. */
	void (*release)(struct port *, struct frame *, uint32_t n);
	/* Adds what the kernel has dropped to a count of the port's own: the kernel's counters
	 * have 32 bits. Called now and then by another thread while tx and rx run, and touches
	 * nothing of theirs. NULL: no counter is as short. */
	void (*note_drops)(struct port *);
	/* The rest is never called while tx or rx runs on the port. */

	/* Asks the kernel for once to send what tx took and still waits in a ring of ours. True:
	 * nothing waits any more. Never blocks. NULL: nothing ever does. */
	bool (*flush)(struct port *);
	/* Writes port->mode anew, as more is known than when it was opened. NULL: there is not. */
	void (*describe)(struct port *);
	/* Changes nothing that anybody can see. */
	void (*stats)(struct port *, struct engine_stats *);
	void (*close)(struct port *);
};

/* The table: every engine that this build has; ends with NULL. */
extern const struct engine *const engines[];

const struct engine *engine_find(const char *name);

/* What is wrong with an engine's row in the table; NULL: nothing. */
const char *engine_fault(const struct engine *engine);

/* Opens a port whose engine and config are set, as the engine's open does. */
int port_open(struct port *port);

/* As the engine's flush does. */
bool port_flush(struct port *port);

/* The value of an option, or its preset from the engine's table. */
uint64_t port_option(const struct port *port, const char *name);
const char *port_option_text(const struct port *port, const char *name);

/* Formats port->why, unless there is a reason already, and returns error (a negative errno). */
int port_fail(struct port *port, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
