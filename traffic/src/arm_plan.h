/* SPDX-License-Identifier: Apache-2.0 */
/* The command `arm`: the frames that each task sends, expects, announces and rewrites in a
 * trial. */
#ifndef SWITCHMARK_ARM_PLAN_H
#define SWITCHMARK_ARM_PLAN_H

#include "clock.h"
#include "open_plan.h"
#include "pacing.h"
#include "schema.h"
#include "subflows.h"
#include "task.h"
#include "template.h"

#define PHASE_NS_MAX 1e15 /* eleven days */
#define SIZES_MAX 64
#define ADDRESSES_MAX 64

enum vary {
	VARY_SRC_MAC = 1 << 0,
	VARY_DST_MAC = 1 << 1,
	VARY_SRC_IP = 1 << 2,
	VARY_DST_IP = 1 << 3,
	VARY_SRC_PORT = 1 << 4,
	VARY_DST_PORT = 1 << 5,
};

/* The addresses of a task's flows. The flows are split evenly among the list entries; within such a
 * group the varied fields count up from the entry's address. */
struct address_plan {
	struct address list[ADDRESSES_MAX];
	uint32_t count; /* number of addresses, divides the flows; 0: no address */
	uint32_t vary; /* bits of enum vary */
	struct subflows subflows; /* the sub-flows of each flow */
};

struct task_load {
	uint32_t first_flow, flows, burst;
	struct address_plan sent;
	struct address_plan expected; /* compared with the received headers */
	bool identified; /* the sender's kernel numbers the IPv4 identifications */
	double rate_pps;
	double stagger; /* delay of the first burst after the start, in periods */
	enum arrivals arrivals;
	bool stamps_sent;
	uint64_t seed;
	uint64_t frames; /* frames per phase at full rate; 0: no limit */
	uint32_t lens[SIZES_MAX], len_count; /* without the FCS */
	bool latency, ipdv;
	struct address announced[2]; /* addresses of the task's ports, in order */
	uint32_t announce_count;
	bool again[2]; /* true: the port is announced again, to the MAC `again_to` */
	uint8_t again_to[2][6];
	uint64_t delay_ns;
	struct rewrite rewrite[2];
};

struct arm_plan {
	uint32_t run;
	enum touch touch;
	bool has_clock;
	struct clock clock;
	uint64_t longest_ns; /* longest phase; bounds the memory for intervals */
	uint64_t interval_ns;
	uint64_t series_ns; /* interval of the series; 0: none */
	uint64_t announce_every_ns; /* period of repeated announcements; 0: no repetition */
	struct task_load tasks[TASKS_MAX];
	uint32_t task_count;
};

/* Reads the command into `plan`. The caller zeroes `plan` first. */
bool arm_plan_read(struct reader *r, json_t *object, struct arm_plan *plan);

#endif
