/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"
#include "modules.h"

#include "privileges.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_MAX_BYTES (1 << 20)

/* ---- answers ---------------------------------------------------------------------- */

static json_t *answer_ok(void)
{
	return json_pack("{s:b}", "ok", 1);
}

static json_t *answer_error(const char *error)
{
	return json_pack("{s:b,s:o}", "ok", 0, "error", text_json(error));
}

/* Returns the answer of a command; `error` is NULL if the command succeeded. */
static json_t *answer_of(const char *error)
{
	return error ? answer_error(error) : answer_ok();
}

static void answer_write(json_t *answer, FILE *out)
{
	json_dumpf(answer, out, JSON_COMPACT);
	fputc('\n', out);
	fflush(out);
	json_decref(answer);
}

/* ---- commands --------------------------------------------------------------------- */

static json_t *answer_opened(const struct session *s)
{
	json_t *modes = json_array();

	for (uint32_t i = 0; i < s->opened; i++)
		json_array_append_new(modes, text_json(s->ports[s->first_queue[i]].mode));
	return json_pack("{s:b,s:o}", "ok", 1, "modes", modes);
}

/* Calibrates the clock again. Running threads keep the clock that they were armed with. */
static json_t *answer_clock(struct session *s)
{
	clock_measure(&s->measured, 50);
	return json_pack("{s:b,s:I,s:I,s:I}", "ok", 1, "ticks", COUNT(s->measured.ticks0), "ns",
			 COUNT(s->measured.ns0), "hz", COUNT(s->measured.hz));
}

static json_t *answer_started(const struct session *s)
{
	return json_pack("{s:b,s:I}", "ok", 1, "at_ns",
			 COUNT(clock_ns(&s->clock, s->window.start)));
}

static json_t *answer_drained(bool quiet)
{
	return json_pack("{s:b,s:b}", "ok", 1, "quiet", quiet);
}

json_t *control_answer(struct session *s, struct command *command, const char *line, size_t len)
{
	char why[256] = "";
	const char *error;
	json_t *report;

	if (!command_parse(line, len, command, why, sizeof(why)))
		return answer_error(why);
	switch (command->verb) {
	case VERB_OPEN:
		privileges_raise();
		error = session_open(s, &command->open);
		privileges_lower();
		return error ? answer_error(error) : answer_opened(s);
	case VERB_READY:
		privileges_raise(); /* to enter namespaces */
		error = session_ready(s, command->timeout_ms);
		privileges_lower();
		return answer_of(error);
	case VERB_CLOCK:
		return answer_clock(s);
	case VERB_ARM:
		/* to open packet sockets that capture headers or announce a MAC */
		privileges_raise();
		error = session_arm(s, &command->arm);
		privileges_lower();
		return answer_of(error);
	case VERB_START:
		error = session_start(s, &command->start);
		return error ? answer_error(error) : answer_started(s);
	case VERB_WAIT:
		return answer_of(session_wait(s, command->timeout_ms));
	case VERB_STOP:
		return answer_of(session_stop(s, command->timeout_ms));
	case VERB_DRAIN:
		return answer_drained(session_drain(s, command->quiet_ms, command->timeout_ms));
	case VERB_SERIES:
		report = session_series(s, command->first, command->count);
		return report ? report :
				answer_error(session_failure(s) ?
						     session_failure(s) :
						     "series: arm first, with series_ns");
	case VERB_REPORT:
		report = session_report(s);
		return report ? report : answer_error("report: arm first");
	case VERB_CLOSE:
		privileges_raise();
		session_close(s);
		privileges_lower();
		return answer_ok();
	}
	return answer_error("no such command");
}

/* ---- the command loop ------------------------------------------------------------ */

struct control {
	struct session session;
	struct command command;
	FILE *out;
};

/* Executes the complete lines in the buffer; returns the number of bytes left in it. */
static size_t control_lines(struct control *c, char *buffer, size_t filled)
{
	char *line = buffer, *end;

	while ((end = memchr(line, '\n', filled - (size_t)(line - buffer)))) {
		if (end > line)
			answer_write(control_answer(&c->session, &c->command, line,
						    (size_t)(end - line)),
				     c->out);
		line = end + 1;
	}
	memmove(buffer, line, filled - (size_t)(line - buffer));
	return filled - (size_t)(line - buffer);
}

/* Waits for input and reads it. Returns the result of read(). */
static ssize_t control_read(struct session *s, char *buffer, size_t size)
{
	int found;

	while (!(found = ending_wait_input(&s->ending, session_drops_ms(s))))
		session_note_drops(s);
	if (found < 0)
		return -1;
	return read(s->ending.in, buffer, size);
}

int control_serve(int in, FILE *out)
{
	struct control *c;
	struct session *s;
	char *buffer;
	size_t filled = 0;

	for (const struct engine *const *e = engines; *e; e++) {
		if (!engine_fault(*e))
			continue;
		fprintf(stderr, "engine %s of this build: %s\n", (*e)->name ? (*e)->name : "?",
			engine_fault(*e));
		return 70;
	}
	c = aligned_alloc(_Alignof(struct control), sizeof(*c));
	buffer = malloc(LINE_MAX_BYTES);
	if (!c || !buffer) {
		free(c);
		free(buffer);
		return 70;
	}
	memset(c, 0, sizeof(*c));
	c->out = out;
	s = &c->session;
	/* before any thread starts, because threads inherit the mask */
	ending_begin(&s->ending, in);
	clock_begin();
	privileges_seal();
	privileges_lower();
	while (!ending_came(&s->ending)) {
		ssize_t got = control_read(s, buffer + filled, LINE_MAX_BYTES - filled);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		filled = control_lines(c, buffer, filled + (size_t)got);
		if (filled == LINE_MAX_BYTES) {
			char error[64];

			snprintf(error, sizeof(error), "a line is longer than %d bytes",
				 LINE_MAX_BYTES);
			answer_write(answer_error(error), out);
			filled = 0;
		}
	}
	privileges_raise();
	session_close(s);
	ending_end(&s->ending);
	free(buffer);
	free(c);
	return 0;
}

/* ---- engines ---------------------------------------------------------------------- */

static json_t *options_list(const struct engine *e)
{
	json_t *options = json_array();

	for (const struct option_spec *s = e->options; s && s->name; s++) {
		json_t *o = json_pack("{s:s,s:s}", "name", s->name, "help", s->help);

		if (s->type == OPTION_NUMBER) {
			json_object_set_new(o, "preset", json_integer(COUNT(s->preset)));
			json_object_set_new(o, "max", json_integer(COUNT(s->max)));
		} else if (s->choices) {
			json_t *choices = json_array();

			for (const char *const *v = s->choices; *v; v++)
				json_array_append_new(choices, json_string(*v));
			json_object_set_new(o, "choices", choices);
		}
		json_array_append_new(options, o);
	}
	return options;
}

static void engine_list(json_t *list, const struct engine *e)
{
	json_array_append_new(list,
			      json_pack("{s:s,s:s,s:b,s:b,s:b,s:o}", "name", e->name, "summary",
					e->summary, "sends", !!(e->caps & ENGINE_SENDS), "receives",
					!!(e->caps & ENGINE_RECEIVES), "payload",
					!!(e->caps & ENGINE_PAYLOAD), "options", options_list(e)));
}

void control_list_engines(FILE *out)
{
	json_t *list = json_array(), *unloaded = json_array(), *object;
	const struct loaded_module *modules;
	size_t count;

	for (const struct engine *const *e = engines; *e; e++)
		engine_list(list, *e);
	modules_load(NULL);
	modules = modules_found(&count);
	for (size_t i = 0; i < count; i++) {
		const struct loaded_module *m = &modules[i];

		if (m->engine)
			engine_list(list, m->engine);
		else if (m->why[0])
			json_array_append_new(unloaded, json_pack("{s:s,s:s,s:s}", "name", m->name,
								  "file", m->file, "why", m->why));
	}
	object = json_pack("{s:s,s:o,s:o}", "version", SWITCHMARK_VERSION, "engines", list,
			   "unloaded", unloaded);
	if (modules_unsearched())
		json_object_set_new(object, "unsearched", text_json(modules_unsearched()));
	json_dumpf(object, out, JSON_COMPACT);
	fputc('\n', out);
	json_decref(object);
}
