/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: sessions of the program. The input selects a sequence of commands (open, arm, start,
 * wait, drain, report and all others, in any order) with mostly valid values, so that ports of null
 * and of UDP over a loopback interface are really opened and threads really run. For every
 * sequence, each command has exactly one JSON answer, the counters of a report are consistent, and
 * nothing is left open.
 */
#include "../tests/fds.h"
#include "clock.h"
#include "control.h"
#include "input.h"
#include "privileges.h"

#include <jansson.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COMMANDS_MAX = 24, PORTS = 4, TASKS = 6, THREADS = 3 };

static bool network; /* a private loopback interface is available */
static struct clock shared_clock;

/* The next command, and the number of tasks of the last `open`. */
struct script {
	struct input in;
	char line[1 << 16];
	size_t length;
	uint32_t tasks;
};

__attribute__((format(printf, 2, 3))) static void say(struct script *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	s->length +=
		(size_t)vsnprintf(s->line + s->length, sizeof(s->line) - s->length, format, args);
	va_end(args);
	MUST(s->length < sizeof(s->line));
}

/* Returns one of several numbers. */
static double choose_number(struct script *s, const double *numbers, uint32_t count)
{
	return numbers[choose(&s->in, count)];
}

#define NUMBER(s, ...)                                                                             \
	choose_number(s, (const double[]){ __VA_ARGS__ },                                          \
		      sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double))

static const char *choose_word(struct script *s, const char *const *words, uint32_t count)
{
	return words[choose(&s->in, count)];
}

#define WORD(s, ...)                                                                               \
	choose_word(s, (const char *const[]){ __VA_ARGS__ },                                       \
		    sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

/* Returns true once in `n` times; false after the end of the input. */
static bool once_in(struct script *s, uint32_t n)
{
	return choose(&s->in, n) == n - 1;
}

/* Writes a name of up to 255 characters, of one to four bytes each. */
static void say_text(struct script *s)
{
	uint32_t count = (uint32_t)take(&s->in, 1);

	for (uint32_t i = 0; i < count && s->in.left; i++) {
		uint32_t v = (uint32_t)take(&s->in, 1), low = v & 0x3f;

		if (v < 0xa0)
			say(s, "%c", (int)('a' + v % 26));
		else if (v < 0xc0)
			say(s, "\xc3%c", (int)(0x80 | low));
		else if (v < 0xe0)
			say(s, "\xe2\x82%c", (int)(0x80 | low));
		else if (v < 0xff)
			say(s, "\xf0\x9f\x98%c", (int)(0x80 | low));
		else
			say(s, "\xff"); /* not a valid character */
	}
}

static void say_port(struct script *s, uint32_t i)
{
	/* Ports are peers in pairs, or each port is its own peer. */
	uint32_t peer = once_in(s, 8) ? i : i ^ 1;
	const char *engine = network ? WORD(s, "null", "udp", "udp-mmsg", "udp-mmsg", "null") :
				       "null";

	say(s, "%s{\"engine\":\"%s", i ? "," : "", engine);
	if (once_in(s, 32))
		say_text(s);
	say(s, "\",\"burst\":%.0f,\"frame_bytes\":%.0f", NUMBER(s, 32, 8, 1, 64, 2, 128),
	    NUMBER(s, 1518, 64, 68, 64, 9600, 114));
	if (engine[0] == 'n') {
		if (!once_in(s, 8))
			say(s, ",\"options\":{\"loop\":1,\"take\":%.0f}", NUMBER(s, 0, 1, 3, 40));
	} else {
		say(s,
		    ",\"local_ip\":\"127.0.0.1\",\"remote_ip\":\"%s\",\"local_port\":%u,"
		    "\"remote_port\":%u,\"flows\":%.0f",
		    WORD(s, "127.0.0.1", "127.0.0.1", "127.0.0.1", "198.18.0.1"), 20000 + 100 * i,
		    20000 + 100 * peer, NUMBER(s, 1, 1, 2, 4, 7));
		if (once_in(s, 3))
			say(s, ",\"connected\":true");
		if (once_in(s, 4))
			say(s, ",\"options\":{\"buffer\":4096}");
	}
	if (once_in(s, 64)) {
		say(s, ",\"%s\":\"", WORD(s, "ifname", "netns"));
		say_text(s);
		say(s, "\"");
	}
	say(s, "}");
}

static void say_open(struct script *s)
{
	static const char *const pairs[][2] = { { "sender", "receiver" },
						{ "client", "server" },
						{ "client", "client" } };
	uint32_t ports = 1 + choose(&s->in, PORTS), threads = 1 + choose(&s->in, THREADS);
	const char *roles[TASKS] = { NULL };
	uint32_t at[TASKS][2] = { { 0 } }, thread[TASKS] = { 0 }, written = 0;

	s->tasks = 0;
	say(s, "{\"cmd\":\"open\",\"ports\":[");
	for (uint32_t i = 0; i < ports; i++)
		say_port(s, i);
	for (uint32_t i = 0; i < ports && s->tasks < TASKS; i++) {
		uint32_t kind = choose(&s->in, 8), of = s->tasks;

		at[of][0] = i;
		thread[of] = choose(&s->in, threads);
		if (kind == 7 && i + 1 < ports) {
			roles[s->tasks++] = "forwarder";
			at[of][1] = ++i;
		} else if (kind > 4) { /* both ends of a loop */
			roles[s->tasks++] = "sender";
			if (s->tasks == TASKS)
				break;
			at[s->tasks][0] = i;
			thread[s->tasks] = thread[of];
			roles[s->tasks++] = "receiver";
		} else {
			roles[s->tasks++] = pairs[kind % 3][i % 2];
		}
	}
	say(s, "],\"threads\":[");
	for (uint32_t t = 0; t < threads; t++) {
		uint32_t mine = 0;

		for (uint32_t i = 0; i < s->tasks; i++)
			mine += thread[i] == t;
		if (!mine)
			continue;
		say(s, "%s{\"yield\":%s,", written++ ? "," : "", once_in(s, 2) ? "true" : "false");
		if (once_in(s, 8))
			say(s, "\"cores\":%.0f,", NUMBER(s, 2, 3, 1));
		say(s, "\"tasks\":[");
		mine = 0;
		for (uint32_t i = 0; i < s->tasks; i++)
			if (thread[i] == t) {
				say(s, "%s{\"role\":\"%s\",\"ports\":[%u", mine++ ? "," : "",
				    roles[i], at[i][0]);
				if (roles[i][0] == 'f')
					say(s, ",%u", at[i][1]);
				say(s, "]}");
			}
		say(s, "]}");
	}
	say(s, "]}");
}

static void say_address(struct script *s)
{
	say(s,
	    "{\"src_mac\":\"02:00:00:00:00:01\",\"dst_mac\":\"02:00:00:00:00:02\","
	    "\"src_ip\":\"198.18.0.1\",\"dst_ip\":\"198.18.0.2\",\"src_port\":%u",
	    (unsigned)take(&s->in, 2));
	if (once_in(s, 16))
		say(s, ",\"vlan\":5");
	if (once_in(s, 16))
		say(s, ",\"vxlan\":{\"vni\":7,\"src_ip%s\":\"%s\"}", once_in(s, 2) ? "6" : "",
		    once_in(s, 2) ? "2001:2::5" : "172.16.0.1");
	if (once_in(s, 16))
		say(s, ",\"dst_ip6\":\"2001:2::6\"");
	say(s, "}");
}

/* Addresses of any kind, so that an announcement may be too long for a port. */
static void say_announced(struct script *s)
{
	static const char *const kinds[] = {
		"",
		",\"vlan\":5",
		",\"src_ip6\":\"2001:2::6\"",
		",\"vxlan\":{\"vni\":7,\"src_ip\":\"172.16.0.1\"}",
		",\"vxlan\":{\"vni\":7,\"src_ip6\":\"2001:2::5\"}",
		",\"src_ip6\":\"2001:2::6\",\"vxlan\":{\"vni\":7,\"src_ip6\":\"2001:2::5\"}",
	};

	say(s, "{\"src_mac\":\"02:00:00:00:00:02\"%s}", choose_word(s, kinds, 6));
}

static void say_load(struct script *s)
{
	static const char *const vary[] = { "", "\"src_port\"", "\"src_mac\",\"dst_ip\"",
					    "\"src_mac\",\"dst_mac\",\"src_ip\",\"dst_ip\"" };
	static const char *const sizes[] = { "64", "68,1518", "64,594,1518", "9600",
					     "64,65,66,67" };

	say(s, "{\"burst\":%.0f,\"flows\":%.0f,\"rate_pps\":%.17g,\"frame_bytes\":[%s]",
	    NUMBER(s, 32, 8, 1, 64, 128, 200), NUMBER(s, 1, 1, 2, 3, 300),
	    NUMBER(s, 1e5, 0, 1e6, 1e9, 1e3, 0.5, 1e-300), choose_word(s, sizes, 5));
	say(s, ",\"vary\":[%s],\"latency\":%s,\"ipdv\":%s", choose_word(s, vary, 4),
	    once_in(s, 2) ? "true" : "false", once_in(s, 2) ? "true" : "false");
	if (!once_in(s, 8)) {
		say(s, ",\"address\":");
		say_address(s);
	}
	if (once_in(s, 4))
		say(s, ",\"frames\":%u", (unsigned)take(&s->in, 1));
	if (once_in(s, 8))
		say(s, ",\"delay_ns\":%.0f", NUMBER(s, 0, 100, 10000));
	if (once_in(s, 8))
		say(s, ",\"first_flow\":%.0f", NUMBER(s, 1, 16383, 100));
	if (once_in(s, 2)) {
		say(s, ",\"announce\":");
		say_announced(s);
		if (once_in(s, 2))
			say(s, ",\"announce_again\":[%s]",
			    once_in(s, 2) ? "null" : "\"02:00:00:00:00:02\"");
	}
	if (once_in(s, 8)) {
		say(s, ",\"expect\":{\"address\":");
		say_address(s);
		say(s, "}");
	}
	if (once_in(s, 8))
		say(s, ",\"rewrite\":[null,{\"src_mac\":\"02:00:00:00:00:02\","
		       "\"dst_mac\":\"02:00:00:00:00:03\"}]");
	say(s, "}");
}

static void say_arm(struct script *s)
{
	uint32_t tasks = once_in(s, 16) ? choose(&s->in, TASKS + 1) : s->tasks;

	say(s,
	    "{\"cmd\":\"arm\",\"run\":%u,\"touch\":\"%s\",\"longest_ns\":%.0f,\"interval_ns\":1000000",
	    7 + choose(&s->in, 2), WORD(s, "header", "none", "full"), NUMBER(s, 1e8, 1, 1e10));
	if (!once_in(s, 32)) /* calibrating the clock takes 50 ms */
		say(s, ",\"clock\":{\"ticks\":%llu,\"ns\":%llu,\"hz\":%llu}",
		    (unsigned long long)shared_clock.ticks0, (unsigned long long)shared_clock.ns0,
		    (unsigned long long)shared_clock.hz);
	if (once_in(s, 4))
		say(s, ",\"announce_every_ns\":%.0f", NUMBER(s, 1e6, 0, 1, 1e14));
	if (once_in(s, 2))
		say(s, ",\"series_ns\":%.0f", NUMBER(s, 1e6, 1e9, 1e15));
	say(s, ",\"tasks\":[");
	for (uint32_t i = 0; i < tasks; i++) {
		say(s, i ? "," : "");
		say_load(s);
	}
	say(s, "]}");
}

static void say_start(struct script *s)
{
	say(s, "{\"cmd\":\"start\",\"phase\":\"%s\",\"duration_ns\":%.0f",
	    WORD(s, "measured", "warmup"), NUMBER(s, 1e6, 1, 1e4, 1e5, 5e6));
	if (once_in(s, 8))
		say(s, ",\"at_ns\":%llu",
		    (unsigned long long)clock_monotonic_ns() + choose(&s->in, 4) * 1000000);
	if (once_in(s, 4))
		say(s,
		    ",\"steps\":[{\"at_ns\":%.0f,\"share\":%.2f},{\"at_ns\":%.0f,\"share\":%.2f}]",
		    NUMBER(s, 0, 1, 1e4), NUMBER(s, 0, 0.5, 100), NUMBER(s, 1e4, 1e5, 1),
		    NUMBER(s, 1, 0, 3));
	say(s, "}");
}

static void say_series(struct script *s)
{
	say(s, "{\"cmd\":\"series\",\"first\":%.0f,\"count\":%.0f}", NUMBER(s, 0, 1, 50, 4096),
	    NUMBER(s, 4096, 0, 1));
}

static void say_waiting(struct script *s, const char *verb)
{
	say(s, "{\"cmd\":\"%s\",\"timeout_ms\":%.0f,\"quiet_ms\":%.0f}", verb,
	    NUMBER(s, 20, 0, 1, 5), NUMBER(s, 0, 1, 2));
}

/* The usual sequence of a trial; sometimes with a command missing or added. */
static void say_command(struct script *s, uint32_t number)
{
	static const char *const verbs[] = { "ready", "wait", "stop", "drain", "report", "close" };
	uint32_t choice = choose(&s->in, 32);

	if (choice < 20)
		choice = number % 6;
	switch (choice) {
	case 0:
	case 20:
		say_open(s);
		break;
	case 1:
	case 21:
	case 22:
		say_arm(s);
		break;
	case 2:
	case 23:
	case 24:
		say_start(s);
		break;
	case 3:
		if (once_in(s, 2))
			say_series(s);
		else
			say_waiting(s, "wait");
		break;
	case 4:
		say_waiting(s, "drain");
		break;
	case 5:
		say_waiting(s, "report");
		break;
	case 30:
		say(s, "{\"cmd\":\"wait\",\"");
		say_text(s);
		say(s, "\":1}");
		break;
	case 31:
		say(s, once_in(s, 4) ? "{\"cmd\":\"clock\"}" : "[");
		break;
	default:
		say_waiting(s, verbs[choice - 25 < 5 ? choice - 25 + (choice == 29) : 5]);
		break;
	}
}

/* ---- checks of the answers ------------------------------------------------------------- */

static json_int_t sum_of(const json_t *list, int column)
{
	json_int_t sum = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *row = json_array_get(list, i);

		sum += json_integer_value(column < 0 ? row : json_array_get(row, (size_t)column));
	}
	return sum;
}

static json_int_t member(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	MUST(json_is_integer(value) && json_integer_value(value) >= 0);
	return json_integer_value(value);
}

static void check_received(const json_t *r)
{
	const json_t *latency = json_object_get(r, "latency");
	json_int_t frames = member(r, "frames"), distinct = sum_of(json_object_get(r, "flows"), 0);

	MUST(sum_of(json_object_get(r, "intervals"), -1) == frames);
	MUST(distinct == frames || distinct == 0); /* with touch none flows are not distinguished */
	MUST(member(r, "late") <= frames && member(r, "after_drain") >= 0);
	MUST(member(r, "empty_polls") <= member(r, "polls"));
	MUST(member(r, "early") <= frames);
	if (latency) {
		MUST(sum_of(json_object_get(latency, "counts"), 1) == member(latency, "count"));
		MUST(member(latency, "count") <= frames);
		MUST(member(latency, "min") <= member(latency, "max"));
	}
}

static void check_report(const json_t *answer)
{
	const json_t *tasks = json_object_get(answer, "tasks");

	for (size_t i = 0; i < json_array_size(tasks); i++) {
		const json_t *task = json_array_get(tasks, i), *part;

		part = json_object_get(task, "sent");
		if (part)
			MUST(member(part, "frames") + member(part, "unsent") >= 0);
		part = json_object_get(task, "received");
		if (part)
			check_received(part);
		part = json_object_get(task, "forwarded");
		if (part)
			MUST(sum_of(json_object_get(part, "in"), -1) ==
			     sum_of(json_object_get(part, "out"), -1) +
				     sum_of(json_object_get(part, "dropped"), -1));
	}
}

static void check_answer(json_t *answer)
{
	const json_t *ok = json_object_get(answer, "ok");
	const char *error = json_string_value(json_object_get(answer, "error"));

	MUST(json_is_boolean(ok));
	MUST(json_is_true(ok) == !error && (!error || error[0]));
	if (json_object_get(answer, "duration_ns")) /* `series` has tasks, too */
		check_report(answer);
	json_decref(answer);
}

static bool loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool up = fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &request);

	if (fd >= 0)
		close(fd);
	return up;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	network = !unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET) &&
		  loopback_up();
	if (!network)
		fputs("no network namespace here: without UDP\n", stderr);
	clock_begin();
	clock_measure(&shared_clock, 20);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct session session;
	static struct command command;
	static struct script s;
	uint32_t commands;
	int before = count_fds(), ends[2];

	s.in = (struct input){ data, size };
	s.tasks = 0;
	commands = 1 + choose(&s.in, COMMANDS_MAX);
	MUST(!pipe(ends));
	memset(&session, 0, sizeof(session));
	ending_begin(&session.ending, ends[0]);
	for (uint32_t i = 0; i < commands; i++) {
		s.length = 0;
		say_command(&s, i);
		check_answer(control_answer(&session, &command, s.line, s.length));
	}
	privileges_raise();
	session_close(&session);
	ending_end(&session.ending);
	close(ends[0]);
	close(ends[1]);
	MUST(count_fds() == before);
	return 0;
}
