/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <string.h>

static bool step_read(struct reader *r, json_t *object, struct step_plan *step)
{
	static const struct member members[] = {
		{ "at_ns", NUMBER, INTO(step_plan, at_ns), .max = PHASE_NS_MAX, .required = true },
		{ "share", REAL, INTO(step_plan, share), .max = 100, .required = true },
		{ 0 },
	};

	return object_read(r, "start: steps", object, members, step);
}

static bool start_plan_read(struct reader *r, json_t *object, struct start_plan *plan)
{
	static const char *const phases[] = { "warmup", "measured", NULL };
	static const struct member members[] = {
		{ "cmd", OTHER },
		{ "phase", CHOICE, INTO(start_plan, phase), .choices = phases },
		{ "at_ns", NUMBER, INTO(start_plan, at_ns), .max = 9.2e18 },
		{ "duration_ns", NUMBER, INTO(start_plan, duration_ns), .min = 1,
		  .max = PHASE_NS_MAX, .required = true },
		{ "steps", OTHER },
		{ 0 },
	};
	json_t *steps = json_object_get(object, "steps");

	plan->phase = PHASE_MEASURED;
	if (!object_read(r, "start", object, members, plan))
		return false;
	if (steps && !list_read(r, "start: steps", steps, STEPS_MAX, &plan->step_count))
		return false;
	for (uint32_t i = 0; i < plan->step_count; i++) {
		struct step_plan *step = &plan->steps[i];

		if (!step_read(r, json_array_get(steps, i), step))
			return false;
		if (step->at_ns > plan->duration_ns || (i && step->at_ns < step[-1].at_ns))
			return refuse(r, "start: steps are not in order within the phase");
	}
	return true;
}

static bool command_read(struct reader *r, json_t *object, struct command *out)
{
	static const char *const verbs[] = { "open", "ready", "clock",	"arm",	  "start", "wait",
					     "stop", "drain", "series", "report", "close", NULL };
	static const struct member cmd = { "cmd", CHOICE, INTO(command, verb), .choices = verbs };
	static const struct member span[] = {
		{ "cmd", OTHER },
		{ "first", NUMBER, INTO(command, first), .max = SERIES_MAX },
		{ "count", NUMBER, INTO(command, count), .max = SERIES_MAX },
		{ 0 },
	};
	static const struct member members[] = {
		{ "cmd", OTHER },
		{ "timeout_ms", NUMBER, INTO(command, timeout_ms), .max = 1e10 },
		{ "quiet_ms", NUMBER, INTO(command, quiet_ms), .max = 1e6 },
		{ 0 },
	};

	if (!json_is_object(object) || !json_object_get(object, "cmd"))
		return refuse(r, "not an object with a member cmd");
	if (!member_read(r, "command", &cmd, json_object_get(object, "cmd"), out))
		return false;
	out->timeout_ms = 10000;
	out->quiet_ms = 20;
	switch (out->verb) {
	case VERB_OPEN:
		memset(&out->open, 0, sizeof(out->open));
		return open_plan_read(r, object, &out->open);
	case VERB_ARM:
		memset(&out->arm, 0, sizeof(out->arm));
		return arm_plan_read(r, object, &out->arm);
	case VERB_START:
		memset(&out->start, 0, sizeof(out->start));
		return start_plan_read(r, object, &out->start);
	case VERB_SERIES:
		out->first = 0;
		out->count = SERIES_MAX;
		return object_read(r, "series", object, span, out);
	default:
		return object_read(r, "command", object, members, out);
	}
}

bool command_parse(const char *line, size_t len, struct command *out, char *why, size_t why_size)
{
	struct reader r = { .why = why, .size = why_size };
	json_error_t error;
	json_t *object = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
	bool ok;

	if (!object)
		return refuse(&r, "not JSON: %s", error.text);
	ok = command_read(&r, object, out);
	json_decref(object);
	return ok;
}
