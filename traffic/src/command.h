/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands on stdin, one JSON object per line. A command is validated in full before it is
 * executed.
 */
#ifndef SWITCHMARK_COMMAND_H
#define SWITCHMARK_COMMAND_H

#include "arm_plan.h"
#include "open_plan.h"

enum verb {
	VERB_OPEN,
	VERB_READY,
	VERB_CLOCK,
	VERB_ARM,
	VERB_START,
	VERB_WAIT,
	VERB_STOP,
	VERB_DRAIN,
	VERB_SERIES,
	VERB_REPORT,
	VERB_CLOSE,
};

struct start_plan {
	uint64_t at_ns, duration_ns; /* at_ns 0: start a moment from now */
	uint8_t phase;
	struct step_plan {
		uint64_t at_ns; /* after the start */
		double share; /* of the rate of each sender */
	} steps[STEPS_MAX];
	uint32_t step_count;
};

struct command {
	enum verb verb;
	uint64_t timeout_ms, quiet_ms;
	uint32_t first, count; /* intervals of a series */
	union {
		struct open_plan open;
		struct arm_plan arm;
		struct start_plan start;
	};
};

/* Reads one line. Returns false and writes the reason to `why` if the line is invalid. Changes only
 * its arguments. */
bool command_parse(const char *line, size_t len, struct command *out, char *why, size_t why_size);

#endif
