/* SPDX-License-Identifier: Apache-2.0 */
/* The command `arm`: what each task sends, expects, announces and rewrites in a trial. */
#ifndef SWITCHMARK_ARM_PLAN_H
#define SWITCHMARK_ARM_PLAN_H

#include "clock.h"
#include "loop.h"
#include "open_plan.h"
#include "pacing.h"
#include "schema.h"
#include "subflows.h"
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

/* The addresses of a task's flows. Each of the list is that of the first of as many flows in a
 * row, and those that vary count up from there. */
struct address_plan {
	struct address list[ADDRESSES_MAX];
	uint32_t count; /* divides the flows; 0: none was given */
	uint32_t vary; /* bits of enum vary */
	struct subflows subflows; /* of each flow */
};

struct task_load {
	uint32_t first_flow, flows, burst;
	struct address_plan sent;
	struct address_plan expected; /* to be compared with what arrives */
	double rate_pps;
	double stagger; /* how much later than the start, in periods */
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
	struct rewrite rewrite[2];
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

/* `plan` is all zero. */
bool arm_plan_read(struct reader *r, json_t *object, struct arm_plan *plan);

#endif
