/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands as they come in on stdin, one JSON object a line, checked in full before anything
 * is done: unknown members, wrong types and values out of range are refused by name.
 */
#ifndef SWITCHMARK_CONFIG_H
#define SWITCHMARK_CONFIG_H

#include "engine.h"
#include "loop.h"
#include "template.h"

#define PORTS_MAX 128 /* queues of ports */
#define TASKS_MAX 64 /* a task on several cores is one of them */
#define THREADS_MAX 128
#define PHASE_NS_MAX 1e15 /* eleven days */
#define SIZES_MAX 64
#define ADDRESSES_MAX 64

enum verb {
	VERB_OPEN,
	VERB_READY,
	VERB_CLOCK,
	VERB_ARM,
	VERB_START,
	VERB_WAIT,
	VERB_STOP,
	VERB_DRAIN,
	VERB_REPORT,
	VERB_CLOSE,
};

/* open */
struct task_plan {
	enum role role;
	uint32_t ports[2], port_count;
};

struct thread_plan {
	uint32_t cores; /* so many threads share the tasks, each on queues of its own */
	int cpus[THREADS_MAX]; /* of each; -1: anywhere */
	bool yield;
	struct task_plan tasks[TASKS_MAX];
	uint32_t task_count;
};

struct port_plan {
	const struct engine *engine;
	uint32_t cores; /* of those who use it: so many pairs of queues are opened */
	struct port_config config;
};

struct open_plan {
	struct port_plan ports[PORTS_MAX];
	uint32_t port_count;
	struct thread_plan threads[THREADS_MAX];
	uint32_t thread_count;
};

/* arm */
enum vary {
	VARY_SRC_MAC = 1 << 0,
	VARY_DST_MAC = 1 << 1,
	VARY_SRC_IP = 1 << 2,
	VARY_DST_IP = 1 << 3,
	VARY_SRC_PORT = 1 << 4,
	VARY_DST_PORT = 1 << 5,
};

/* Of as many flows each, in a row; each varies from there. */
struct address_plan {
	struct address list[ADDRESSES_MAX];
	uint32_t count; /* divides flows; 0: none was given */
	uint32_t vary;
	struct subflows subflows; /* of each flow */
};

struct task_load {
	uint32_t first_flow, flows, burst;
	struct address_plan sent;
	struct address_plan expected; /* to be compared with what arrives */
	double rate_pps;
	double stagger; /* of a period, later than the start */
	enum arrivals arrivals;
	bool stamps_sent;
	uint64_t seed;
	uint64_t frames; /* of a phase at full rate; 0: until it ends */
	uint32_t lens[SIZES_MAX], len_count; /* without the FCS */
	bool latency, ipdv;
	struct address announced[2]; /* of the task's ports, in order */
	uint32_t announce_count;
	bool again[2]; /* which of them are announced again, to the MAC `again_to` */
	uint8_t again_to[2][6];
	uint64_t delay_ns;
	bool rewrite[2];
	uint8_t src_mac[2][6], dst_mac[2][6];
};

struct arm_plan {
	uint32_t run;
	enum touch touch;
	bool has_clock;
	struct clock clock;
	uint64_t longest_ns; /* of a phase: bounds the memory for intervals */
	uint64_t interval_ns;
	uint64_t announce_every_ns; /* of a phase; 0: never again */
	struct task_load tasks[TASKS_MAX];
	uint32_t task_count;
};

struct start_plan {
	uint64_t at_ns, duration_ns; /* at 0: a moment from now */
	uint8_t phase;
};

struct command {
	enum verb verb;
	uint64_t timeout_ms, quiet_ms;
	union {
		struct open_plan open;
		struct arm_plan arm;
		struct start_plan start;
	};
};

/* Reads one line. False with the reason in why. Pure: touches nothing but its arguments. */
bool command_parse(const char *line, size_t len, struct command *out, char *why, size_t why_size);

const char *role_name(enum role role);

#endif
