/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <stdarg.h>
#include <stdio.h>

const char *session_error(struct session *s, const char *format, ...)
{
	char text[sizeof(s->error)]; /* an argument may be the previous error */
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(s->error, text, sizeof(text));
	return s->error;
}

bool session_tick(struct session *s, uint32_t ms)
{
	session_note_drops(s);
	return ending_wait(&s->ending, ms);
}

#define FLUSH_NS 10000000 /* the time for a device to take the frames in a port's ring */

void session_halt(struct session *s)
{
	uint64_t until;

	for (uint32_t i = 0; i < s->worker_count; i++)
		worker_halt(&s->workers[i]);
	if (s->running)
		for (uint32_t i = 0; i < s->task_count; i++)
			task_end(&s->tasks[i]);
	until = clock_monotonic_ns() + FLUSH_NS;
	for (uint32_t i = 0; s->running && i < s->port_count; i++)
		while (!port_flush(&s->ports[i]) && clock_monotonic_ns() < until)
			;
	s->running = false;
}

static bool has_drops_to_note(const struct port *port)
{
	return port->engine->note_drops && !port->whole_counters;
}

void session_note_drops(struct session *s)
{
	const uint64_t now = clock_monotonic_ns();

	if (!s->running || now - s->noted_ns < NOTE_DROPS_MS * 1000000ull)
		return;
	s->noted_ns = now;
	for (uint32_t i = 0; i < s->port_count; i++)
		if (has_drops_to_note(&s->ports[i]))
			s->ports[i].engine->note_drops(&s->ports[i]);
}

uint32_t session_drops_ms(const struct session *s)
{
	const uint64_t past = (clock_monotonic_ns() - s->noted_ns) / 1000000;

	for (uint32_t i = 0; s->running && i < s->port_count; i++)
		if (has_drops_to_note(&s->ports[i]))
			return past < NOTE_DROPS_MS ? (uint32_t)(NOTE_DROPS_MS - past) : 0;
	return UINT32_MAX;
}

const char *session_failure(const struct session *s)
{
	for (uint32_t i = 0; i < s->port_count; i++)
		if (atomic_load_explicit(&s->ports[i].failed, memory_order_acquire))
			return s->ports[i].why;
	return NULL;
}
