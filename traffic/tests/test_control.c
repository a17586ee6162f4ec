/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of commands and answers, signals, and the frames that a server sends back; without a
 * socket. */
#include "clock.h"
#include "control.h"
#include "judge.h"
#include "loop.h"
#include "privileges.h"
#include "session.h"
#include "socket.h"
#include "tap.h"
#include "text.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct address address = {
	.src_mac = { 2, 0, 0, 0, 0, 1 },
	.dst_mac = { 2, 0, 0, 0, 0, 2 },
	.src_ip = 0xc6120001,
	.dst_ip = 0xc6120002,
	.src_port = 20000,
	.dst_port = 20001,
};

static struct arm_plan arm_plan; /* too large for a stack */

/* ---- text ------------------------------------------------------------------------- */

static void a_text_is_cut_between_characters(void)
{
	/* characters of 1, 2, 3, 4 and 1 bytes */
	const char *text = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80.";
	const size_t cuts[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11 };

	for (size_t most = 0; most < sizeof(cuts) / sizeof(*cuts); most++)
		EXPECT_EQ(text_cut(text, most), cuts[most]);
	EXPECT_EQ(text_cut("\xff\xff", 1), 1);
}

static void what_is_no_character_is_mended(void)
{
	const struct {
		const char *text, *mended;
	} cases[] = {
		{ "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
		  "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ "\xe2\x82", "??" }, /* truncated */
		{ "\xe2\x82,", "??," },
		{ "\x80x\xff\xfe", "?x??" },
		{ "\xc0\xaf", "??" }, /* overlong */
		{ "\xe0\x80\x80", "???" },
		{ "\xed\xa0\x80", "???" }, /* half of a surrogate pair */
		{ "\xf4\x90\x80\x80", "????" }, /* beyond Unicode */
		{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char copy[32];

		snprintf(copy, sizeof(copy), "%s", cases[i].text);
		text_mend(copy);
		EXPECT(!strcmp(copy, cases[i].mended));
	}
}

/* ---- numbers ---------------------------------------------------------------------- */

static void nanoseconds_become_ticks_however_many(void)
{
	const struct clock fast = { .hz = 5000000000 };

	EXPECT_EQ(clock_ticks_in(&fast, 1000), 5000);
	EXPECT_EQ(clock_ticks_in(&fast, 8000000000), 40000000000);
	EXPECT_EQ(clock_ticks_in(&fast, 100000000000000), 500000000000000);
}

static void a_counter_of_32_bits_goes_on_past_its_end(void)
{
	uint32_t last = 0;
	uint64_t total = counter_since(&last, 0xfffffff0);

	EXPECT_EQ(total, 0xfffffff0);
	total += counter_since(&last, 16);
	EXPECT_EQ(total, 0x100000010);
	EXPECT_EQ(counter_since(&last, 16), 0);
}

static uint32_t drops_noted;

static void note_drops(struct port *port)
{
	(void)port;
	drops_noted++;
}

/* Without this reading a counter that wraps around between the start of a phase and its report
 * loses 2^32. */
static void what_the_kernel_dropped_is_noted_while_a_phase_runs(void)
{
	struct session *c = aligned_alloc(_Alignof(struct session), sizeof(*c));
	struct engine engine = *engine_find("null");
	struct port *port;
	int ends[2];

	if (pipe(ends))
		return;
	memset(c, 0, sizeof(*c));
	c->ending.in = ends[0];
	engine.note_drops = note_drops;
	port = &c->ports[c->port_count++];
	port->engine = &engine;
	drops_noted = 0;
	session_tick(c, 1);
	EXPECT_EQ(drops_noted, 0);
	EXPECT_EQ(session_drops_ms(c), UINT32_MAX);
	c->running = true;
	session_tick(c, 1);
	session_tick(c, 1);
	EXPECT_EQ(drops_noted, 1);
	EXPECT(session_drops_ms(c) <= 1000);
	port->whole_counters = true;
	EXPECT_EQ(session_drops_ms(c), UINT32_MAX);
	port->whole_counters = false;
	c->noted_ns -= 2 * NOTE_DROPS_MS * 1000000ull;
	session_tick(c, 1);
	EXPECT_EQ(drops_noted, 2);
	close(ends[0]);
	close(ends[1]);
	free(c);
}

static void the_first_reason_of_a_failure_stays(void)
{
	struct port port = { .engine = engine_find("null") };

	EXPECT_EQ(port_fail(&port, ENODEV, "no device %d", 1), -ENODEV);
	EXPECT_EQ(port_fail(&port, -EIO, "and no other"), -EIO);
	EXPECT(port.failed && !strcmp(port.why, "no device 1"));
}

/* ---- a looped port with a task ----------------------------------------------------- */

struct bench {
	struct port port;
	struct clock clock;
	struct window window;
	struct task task;
	struct frame frames[64], copies[64];
};

static struct bench *bench_make(enum role role)
{
	struct bench *b = aligned_alloc(_Alignof(struct bench), sizeof(*b));

	memset(b, 0, sizeof(*b));
	clock_measure(&b->clock, 5);
	b->port.engine = engine_find("null");
	b->port.config = (struct port_config){
		.sends = true,
		.receives = true,
		.burst = 64,
		.frame_max = 1514,
		.option_count = 1,
		.options = { { .name = "loop", .number = 1 } },
	};
	EXPECT_EQ(port_open(&b->port), 0);
	b->window = (struct window){ .start = clock_ticks(),
				     .end = clock_ticks() + b->clock.hz,
				     .interval = b->clock.hz,
				     .phase = PHASE_MEASURED };
	b->task.role = role;
	b->task.sender.port = b->task.receiver.port = &b->port;
	b->task.forwarder.ports[0] = b->task.forwarder.ports[1] = &b->port;
	return b;
}

static void bench_free(struct bench *b)
{
	b->port.engine->close(&b->port);
	free(b);
}

/* Sends a test frame, `less` bytes shorter than the minimum. */
static void bench_send(struct bench *b, uint32_t run, uint16_t flow, uint8_t phase, uint32_t seq,
		       uint64_t ns, uint32_t less)
{
	const uint64_t net = time_to_net(ns);
	struct frame_template t;
	struct frame f;

	template_make(&t, &address, FRAME_MIN, run, flow, phase, false);
	EXPECT_EQ(b->port.engine->alloc(&b->port, &f, 1), 1);
	frame_build(f.data, &t, seq, net, time_sum(net), TOUCH_HEADER, false, false);
	f.len = FRAME_MIN - less;
	EXPECT_EQ(b->port.tx(&b->port, &f, 1), 1);
}

/* A server must not make a switch believe that a learnt station has moved. */
static void a_server_sends_back_frames_of_its_flows_and_no_others(void)
{
	struct bench *b = bench_make(ROLE_SERVER);
	struct forwarder *w = &b->task.forwarder;
	const struct engine *e = b->port.engine;
	struct frame back[64];
	struct payload p;
	uint32_t n;

	w->burst = 64;
	w->reflect = true;
	w->run = 9;
	w->first_flow = 4;
	w->flows = 3;
	w->frames = b->frames;
	w->copies = b->copies;
	task_choose_step(&b->task, TOUCH_HEADER, TIMING_NONE);
	task_begin(&b->task);
	for (uint32_t i = 0; i < 3; i++) {
		bench_send(b, 9, i + 4, PHASE_MEASURED, i, 0, 0);
		bench_send(b, 8, i + 4, PHASE_MEASURED, i, 0, 0); /* of another run */
		bench_send(b, 9, i + 4, PHASE_MEASURED, i, 0,
			   18); /* the length of an ARP request */
		bench_send(b, 9, i + 4, PHASE_ANNOUNCE, i, 0, 0);
		bench_send(b, 9, i + 1, PHASE_MEASURED, i, 0, 0); /* for another server */
		bench_send(b, 9, i + 7, PHASE_MEASURED, i, 0, 0);
	}
	b->task.step(&b->task, clock_ticks());
	n = e->rx(&b->port, back, NULL, 64);
	EXPECT_EQ(n, 3);
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *d = back[i].data;

		EXPECT(!memcmp(d, address.src_mac, 6) && !memcmp(d + 6, address.dst_mac, 6));
		EXPECT_EQ(frame_parse(d, back[i].len, 9, &p, TOUCH_HEADER, false), FRAME_OURS);
		EXPECT_EQ(p.seq, i);
		EXPECT_EQ(p.flow, i + 4);
	}
	e->release(&b->port, back, n);
	EXPECT_EQ(w->in[0], 3);
	EXPECT_EQ(w->out[1], 3);
	EXPECT_EQ(w->dropped[1], 0);
	EXPECT_EQ(w->ignored, 9);
	EXPECT_EQ(w->stray, 6);
	bench_free(b);
}

static void frames_that_come_before_they_were_sent_are_counted(void)
{
	static struct histogram latency, earliest;
	struct bench *b = bench_make(ROLE_RECEIVER);
	uint64_t bits[1] = { 0 }, intervals[4], now = clock_ns(&b->clock, clock_ticks());
	struct sequence sequence = { .window = bits, .bits = 64 };
	struct receiver *r = &b->task.receiver;

	r->run = 9;
	r->flows = 1;
	r->burst = 64;
	r->clock = &b->clock;
	r->window = &b->window;
	r->frames = b->frames;
	r->sequences = &sequence;
	r->latency = &latency;
	r->earliest = &earliest;
	r->intervals = intervals;
	r->interval_count = 4;
	task_choose_step(&b->task, TOUCH_HEADER, TIMING_LATENCY);
	task_begin(&b->task);
	bench_send(b, 9, 0, PHASE_MEASURED, 0, now, 0);
	bench_send(b, 9, 0, PHASE_MEASURED, 1, now + 3600000000000, 0);
	bench_send(b, 9, 0, PHASE_MEASURED, 2, now + 3600000000000, 0);
	b->task.step(&b->task, clock_ticks());
	EXPECT_EQ(r->rx, 3);
	EXPECT_EQ(r->early, 2);
	EXPECT_EQ(latency.count, 3);
	EXPECT_EQ(latency.min, 0);
	EXPECT_EQ(earliest.count, 3);
	EXPECT_EQ(earliest.max, 0); /* they arrived before the first poll */
	bench_free(b);
}

/* A period of more ticks than 64 bits: no burst is due within a second. */
static void a_rate_may_be_as_low_as_it_likes(void)
{
	struct bench *b = bench_make(ROLE_SENDER);
	struct frame_template *t = aligned_alloc(CACHE_LINE, sizeof(*t));
	struct sender *s = &b->task.sender;

	template_make(t, &address, FRAME_MIN, 9, 0, PHASE_MEASURED, false);
	s->templates = t;
	s->flows = s->sizes = 1;
	s->burst = 32;
	s->clock = &b->clock;
	s->window = &b->window;
	s->frames = b->frames;
	s->rate_pps = 1e-300;
	task_choose_step(&b->task, TOUCH_HEADER, TIMING_NONE);
	task_begin(&b->task);
	EXPECT_EQ(s->intended, 0);
	EXPECT((uint64_t)(s->period >> 32) >= 1ull << 60);
	for (int i = 0; i < 10; i++)
		b->task.step(&b->task, b->window.start + (uint64_t)i);
	EXPECT_EQ(s->sent, 0);
	EXPECT(b->task.sent_all);
	free(t);
	bench_free(b);
}

/* ---- commands --------------------------------------------------------------------- */

/* Numbers of all widths with their maximum values, in adjacent fields of their structs. */
static void a_number_of_a_command_fills_its_field_and_no_other(void)
{
	static struct command command;
	const char *line =
		"{\"cmd\":\"arm\",\"run\":4294967295,\"touch\":\"full\",\"longest_ns\":1,"
		"\"tasks\":[{\"stamp\":\"sent\",\"seed\":9000000000000000000,"
		"\"frames\":4294967295,\"address\":{\"ttl\":255,\"vlan\":4094,"
		"\"src_port\":65535,\"dst_port\":65534}}]}";
	const struct task_load *load = command.arm.tasks;
	const struct address *a = load->sent.list;
	char why[256] = "";

	EXPECT(command_parse(line, strlen(line), &command, why, sizeof(why)));
	EXPECT_EQ(command.arm.run, UINT32_MAX);
	EXPECT_EQ(command.arm.touch, TOUCH_FULL);
	EXPECT(load->stamps_sent);
	EXPECT_EQ(load->seed, 9000000000000000000);
	EXPECT_EQ(load->frames, UINT32_MAX);
	EXPECT_EQ(a->ttl, 255);
	EXPECT_EQ(a->vlan, 4094);
	EXPECT_EQ(a->src_port, 65535);
	EXPECT_EQ(a->dst_port, 65534);
	EXPECT(!a->vxlan && !a->vni);
}

/* ---- announcements ---------------------------------------------------------------- */

/* A receiver on a looped port, which receives its own announcements. */
static struct session *announcer_make(struct bench *b, const struct address *a)
{
	struct session *c = aligned_alloc(_Alignof(struct session), sizeof(*c));
	struct arm_plan *arm;

	memset(c, 0, sizeof(*c));
	c->ports[0] = b->port;
	c->port_count = c->task_count = 1;
	c->tasks = &b->task;
	b->task.cores = 1;
	b->task.receiver.port = b->task.forwarder.ports[0] = &c->ports[0];
	arm = &arm_plan;
	*arm = (struct arm_plan){ .run = 9, .longest_ns = 1, .interval_ns = 1, .task_count = 1 };
	arm->tasks[0].flows = arm->tasks[0].burst = arm->tasks[0].announce_count = 1;
	arm->tasks[0].announced[0] = *a;
	return c;
}

static void announcer_free(struct session *c, struct bench *b)
{
	task_free(&b->task);
	free(c);
	bench_free(b);
}

/* For addresses of every kind: the announcement is received intact, or rejected. */
static void an_announcement_is_as_short_as_frames_of_the_port_or_refused(void)
{
	for (uint32_t kind = 0; kind < 16; kind++) {
		struct address a = address;
		uint32_t least;

		a.v6 = kind & 2;
		a.vxlan = kind & 4;
		a.vlan = kind & 1 && !a.vxlan ? 7 : 0;
		a.inner_v6 = a.vxlan && kind & 8;
		least = frame_least(&a);
		for (uint32_t longest = least - 1; longest <= least; longest++) {
			const bool fits = longest == least;
			struct bench *b = bench_make(ROLE_RECEIVER);
			struct session *c;
			struct frame back;
			struct payload p;

			b->port.engine->close(&b->port);
			b->port.config.frame_max = longest;
			b->port.completes_sums = kind & 4; /* not for tunnels */
			EXPECT_EQ(port_open(&b->port), 0);
			c = announcer_make(b, &a);
			EXPECT_EQ(!session_arm(c, &arm_plan), fits);
			EXPECT_EQ(c->armed, fits);
			EXPECT_EQ(b->port.rx(&b->port, &back, NULL, 1), fits);
			if (fits) {
				EXPECT_EQ(frame_parse(back.data, back.len, 9, &p, TOUCH_HEADER,
						      false),
					  FRAME_OURS);
				EXPECT_EQ(p.phase, PHASE_ANNOUNCE);
				b->port.engine->release(&b->port, &back, 1);
			}
			announcer_free(c, b);
		}
	}
}

/* A sender with 3 * 10^9 frames, all 50 s late, and another core with the same. */
static void a_sum_of_nanoseconds_has_more_than_64_bits(void)
{
	static struct histogram h;
	json_t *report;

	histogram_clear(&h);
	histogram_add(&h, 7, 1);
	report = histogram_report(&h);
	EXPECT_EQ(json_integer_value(json_object_get(report, "sum")), 7);
	json_decref(report);
	histogram_add(&h, 50000000000u, 1500000000);
	histogram_add(&h, 50000000000u, 1500000000);
	EXPECT(h.sum == (unsigned __int128)150000000000 * 1000000000 + 7);
	report = histogram_report(&h);
	EXPECT(json_number_value(json_object_get(report, "sum")) == 1.5e20);
	json_decref(report);
}

/* ---- signals ---------------------------------------------------------------------- */

/* A signal between the last check and the wait: sent before both here. */
static void a_signal_is_not_lost_before_the_wait(void)
{
	int ends[2], status = -1;
	pid_t pid;

	if (pipe(ends))
		return;
	pid = fork();
	if (!pid) {
		sigset_t term;

		sigemptyset(&term);
		sigaddset(&term, SIGTERM);
		sigprocmask(SIG_BLOCK, &term, NULL);
		raise(SIGTERM);
		_exit(control_serve(ends[0], stderr));
	}
	for (int i = 0; i < 2000 && !waitpid(pid, &status, WNOHANG); i++)
		usleep(1000);
	if (status == -1) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(ends[0]);
	close(ends[1]);
}

/* ---- how the control thread waits -------------------------------------------------- */

/* Executes a command, which must succeed. */
static void obey(struct session *s, const char *line)
{
	static struct command command; /* too large for a stack */
	json_t *answer = control_answer(s, &command, line, strlen(line));

	if (!json_is_true(json_object_get(answer, "ok")))
		json_dumpf(answer, stdout, 0);
	EXPECT(json_is_true(json_object_get(answer, "ok")));
	json_decref(answer);
}

/* Starts a phase of ten seconds, or of `duration_ms`, of a sender on engine null with this load. */
static struct session *phase_make(int ends[2], const char *load, unsigned int duration_ms)
{
	struct session *s = aligned_alloc(_Alignof(struct session), sizeof(*s));
	char line[1024];

	memset(s, 0, sizeof(*s));
	EXPECT(!pipe(ends));
	ending_begin(&s->ending, ends[0]);
	obey(s, "{\"cmd\":\"clock\"}");
	obey(s, "{\"cmd\":\"open\",\"ports\":[{\"engine\":\"null\"}],\"threads\":[{\"tasks\":["
		"{\"role\":\"sender\",\"ports\":[0]}]}]}");
	snprintf(line, sizeof(line),
		 "{\"cmd\":\"arm\",\"run\":1,\"touch\":\"header\",\"longest_ns\":10000000000,"
		 "\"interval_ns\":100000000,\"tasks\":[{\"burst\":1,\"frame_bytes\":[64],%s}]}",
		 load);
	obey(s, line);
	snprintf(line, sizeof(line), "{\"cmd\":\"start\",\"duration_ns\":%u000000}",
		 duration_ms ? duration_ms : 10000);
	obey(s, line);
	return s;
}

static void phase_free(struct session *s, const int ends[2])
{
	session_close(s);
	ending_end(&s->ending);
	close(ends[0]);
	close(ends[1]);
	free(s);
}

/* The times that the calling thread has slept so far. */
static long sleeps(void)
{
	struct rusage used;

	getrusage(RUSAGE_THREAD, &used);
	return used.ru_nvcsw;
}

/* Each time that it wakes, it takes some microseconds from a thread that polls. */
static void the_control_thread_sleeps_through_a_phase(void)
{
	int ends[2];
	struct session *s = phase_make(ends, "\"rate_pps\":1000", 400);
	const long before = sleeps();

	EXPECT(!session_wait(s, 5000));
	EXPECT(clock_ticks() >= s->window.end);
	EXPECT(sleeps() - before <= 3);
	phase_free(s, ends);
}

static void *fail_soon(void *port)
{
	usleep(50000);
	port_fail(port, EIO, "the device has gone");
	return NULL;
}

static void a_port_that_fails_wakes_the_control_thread(void)
{
	int ends[2];
	struct session *s = phase_make(ends, "\"rate_pps\":1000", 0);
	const uint64_t begun = clock_monotonic_ns();
	const char *why;
	pthread_t thread;

	EXPECT(!pthread_create(&thread, NULL, fail_soon, &s->ports[0]));
	why = session_wait(s, 9000);
	EXPECT(why && !strcmp(why, "the device has gone"));
	EXPECT(clock_monotonic_ns() - begun < 5000000000);
	pthread_join(thread, NULL);
	phase_free(s, ends);
}

/* A burst of 5 ms in a phase of ten seconds. Another program may have the CPU sometimes. */
static void a_burst_that_was_sent_wakes_the_control_thread(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 100 && least > 90000000; i++) {
		int ends[2];
		struct session *s = phase_make(ends, "\"frames\":250,\"delay_ns\":20000", 0);
		const uint64_t begun = clock_monotonic_ns();
		uint64_t took;

		EXPECT(!session_wait(s, 9000));
		took = clock_monotonic_ns() - begun;
		least = took < least ? took : least;
		phase_free(s, ends);
	}
	EXPECT(least <= 90000000);
}

/* A program that opens a port in the network namespace `netns`. */
static pid_t serve_open(const char *netns, const int ends[2], bool (*before)(void))
{
	pid_t pid = fork();

	if (!pid) {
		FILE *out = fopen("/dev/null", "w");

		close(ends[1]);
		_exit(before && !before() ? 99 : control_serve(ends[0], out));
	}
	dprintf(ends[1],
		"{\"cmd\":\"open\",\"ports\":[{\"engine\":\"null\",\"netns\":\"%s\"}],\"threads\":"
		"[{\"tasks\":[{\"role\":\"sender\",\"ports\":[0]}]}]}\n",
		netns);
	usleep(100000); /* an earlier signal only makes the test easier */
	return pid;
}

/* Returns how a process ended within ten seconds; otherwise kills it and returns -1. */
static int ended_as(pid_t pid)
{
	int status = -1;

	for (int i = 0; i < 10000 && waitpid(pid, &status, WNOHANG) != pid; i++) {
		usleep(1000);
		status = -1;
	}
	if (status == -1) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return status;
}

/* Opening a FIFO without a writer blocks forever, like a device whose other end never appears. */
static void signals_and_the_end_of_stdin_reach_an_open_that_waits(void)
{
	char folder[] = "/tmp/switchmark-control-XXXXXX", path[64];

	EXPECT(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/fifo", folder);
	EXPECT_EQ(mkfifo(path, 0600), 0);
	for (int how = 0; how < 4; how++) {
		int ends[2];
		pid_t pid;

		/* A pipe reports its end only as a hang-up; a half-closed socket may still be
		 * readable. */
		EXPECT_EQ(how == 3 ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends), 0);
		pid = serve_open(path, ends, NULL);
		close(ends[0]);
		if (how < 2)
			kill(pid, how ? SIGINT : SIGTERM);
		else if (how == 2)
			close(ends[1]);
		else
			shutdown(ends[1], SHUT_WR);
		EXPECT_EQ(ended_as(pid), 0);
		if (how != 2)
			close(ends[1]);
	}
	unlink(path);
	rmdir(folder);
}

static void sleep_on(int number)
{
	(void)number;
	for (;;)
		pause();
}

/* Entering the port's namespace blocks, and no signal interrupts it. */
static bool setns_sleeps(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setns, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };
	const struct sigaction action = { .sa_handler = sleep_on };

	return !sigaction(SIGSYS, &action, NULL) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static void an_open_that_cannot_be_interrupted_ends_with_its_process(void)
{
	int ends[2];
	pid_t pid;

	EXPECT_EQ(pipe(ends), 0);
	pid = serve_open("/proc/self/ns/net", ends, setns_sleeps);
	close(ends[0]);
	kill(pid, SIGTERM);
	EXPECT_EQ(ended_as(pid), 70 << 8);
	close(ends[1]);
}

/* ---- privileges ------------------------------------------------------------------- */

static void *wait_for_ever(void *argument)
{
	*(atomic_int *)argument = (pid_t)syscall(SYS_gettid);
	for (;;)
		pause();
	return NULL;
}

/* Returns the permitted capabilities of a thread, from /proc. */
static unsigned long long permitted_to(pid_t thread)
{
	unsigned long long permitted = 0;
	char path[64], line[128];
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", thread);
	status = fopen(path, "r");
	while (status && fgets(line, sizeof(line), status))
		(void)sscanf(line, "CapPrm: %llx", &permitted);
	if (status)
		fclose(status);
	return permitted;
}

/* Runs in a process with all privileges, in a user namespace if necessary. */
static int others_dropped(void)
{
	atomic_int threads[3] = { 0 };

	if (geteuid() && unshare(CLONE_NEWUSER))
		return 77;
	for (int i = 0; i < 3; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, wait_for_ever, &threads[i]))
			return 99;
		while (!threads[i])
			usleep(1000);
		if (!permitted_to(threads[i]))
			return 77;
	}
	privileges_drop_others();
	for (int i = 0; i < 3; i++)
		if (permitted_to(threads[i]))
			return 1;
	return permitted_to((pid_t)syscall(SYS_gettid)) ? 0 : 2;
}

static int others_dropped_apart(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(others_dropped());
	return ended_as(pid);
}

static void threads_of_libraries_lose_their_privileges(void)
{
	EXPECT_EQ(others_dropped_apart(), 0);
}

/* Returns the NUMA node of a page; -1 if the kernel does not report it. */
static int node_of_page(void *page)
{
	int node = -1;

	return syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0) ? -1 : node;
}

/* The memory of a thread is first written on its CPU, and so is on that CPU's node. */
static void memory_is_on_the_node_of_the_cpu_that_it_is_written_on(void)
{
	cpu_set_t all, before, after;

	EXPECT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		unsigned int at = 0, node = 0;
		int found;
		char *page;

		if (!CPU_ISSET(cpu, &all))
			continue;
		page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		EXPECT(page != MAP_FAILED);
		EXPECT_EQ(cpu_move(cpu, &before), cpu);
		EXPECT_EQ(syscall(SYS_getcpu, &at, &node, NULL), 0);
		EXPECT_EQ(at, (unsigned)cpu);
		page[0] = 1;
		found = node_of_page(page);
		EXPECT(found < 0 || (unsigned)found == node);
		cpu_return(cpu, &before);
		EXPECT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
		EXPECT(CPU_EQUAL(&after, &all));
		munmap(page, 4096);
	}
	EXPECT_EQ(cpu_move(-1, &before), -1);
}

/* One socket per flow, four flows, two senders: no sender changes the sockets of the other. */
static void two_senders_of_a_port_leave_each_other_their_sockets(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct bench *b = bench_make(ROLE_SENDER);
		struct session *c = aligned_alloc(_Alignof(struct session), sizeof(*c));
		struct task *tasks = aligned_alloc(CACHE_LINE, 2 * sizeof(*tasks));
		struct arm_plan *arm;

		memset(c, 0, sizeof(*c));
		memset(tasks, 0, 2 * sizeof(*tasks));
		c->ports[0] = b->port;
		c->ports[0].first_flow = 1; /* left by a previous trial */
		c->port_count = 1;
		c->task_count = 2;
		c->tasks = tasks;
		arm = &arm_plan;
		*arm = (struct arm_plan){
			.run = 9, .longest_ns = 1, .interval_ns = 1, .task_count = 2
		};
		for (uint32_t k = 0; k < 2; k++) {
			struct task_load *load = &arm->tasks[k];

			tasks[k].role = ROLE_SENDER;
			tasks[k].cores = 1;
			tasks[k].sender.port = &c->ports[0];
			load->flows = 2;
			load->first_flow = k == i ? 4 : 6;
			load->burst = load->len_count = load->sent.count = 1;
			load->lens[0] = FRAME_MIN;
		}
		EXPECT(!session_arm(c, arm));
		EXPECT(c->armed);
		EXPECT_EQ(c->ports[0].first_flow, 4);
		for (uint32_t k = 0; k < 2; k++)
			task_free(&tasks[k]);
		free(tasks);
		free(c);
		bench_free(b);
	}
}

/* Memory is allocated at the first write, on the node of the writing CPU. */
static void memory_is_written_where_it_is_asked_for(void)
{
	const size_t bytes = 4 << 20, page = 4096;
	uint8_t *lines = lines_alloc(1, bytes);
	const uintptr_t first = ((uintptr_t)lines + page - 1) / page * page;
	unsigned char there[1023] = { 0 };
	uint32_t count = 0;

	EXPECT_EQ(mincore((void *)first, sizeof(there) * page, there), 0);
	for (size_t i = 0; i < sizeof(there); i++)
		count += there[i] & 1;
	EXPECT_EQ(count, sizeof(there));
	free(lines);
}

int main(void)
{
	TEST(a_text_is_cut_between_characters);
	TEST(what_is_no_character_is_mended);
	TEST(nanoseconds_become_ticks_however_many);
	TEST(a_counter_of_32_bits_goes_on_past_its_end);
	TEST(what_the_kernel_dropped_is_noted_while_a_phase_runs);
	TEST(the_first_reason_of_a_failure_stays);
	TEST(a_server_sends_back_frames_of_its_flows_and_no_others);
	TEST(frames_that_come_before_they_were_sent_are_counted);
	TEST(a_rate_may_be_as_low_as_it_likes);
	TEST(a_number_of_a_command_fills_its_field_and_no_other);
	TEST(an_announcement_is_as_short_as_frames_of_the_port_or_refused);
	TEST(a_sum_of_nanoseconds_has_more_than_64_bits);
	TEST(a_signal_is_not_lost_before_the_wait);
	TEST(the_control_thread_sleeps_through_a_phase);
	TEST(a_port_that_fails_wakes_the_control_thread);
	TEST(a_burst_that_was_sent_wakes_the_control_thread);
	TEST(signals_and_the_end_of_stdin_reach_an_open_that_waits);
	TEST(an_open_that_cannot_be_interrupted_ends_with_its_process);
	if (others_dropped_apart() == 77 << 8)
		SKIP(threads_of_libraries_lose_their_privileges, "no privileges here");
	else
		TEST(threads_of_libraries_lose_their_privileges);
	TEST(memory_is_on_the_node_of_the_cpu_that_it_is_written_on);
	TEST(two_senders_of_a_port_leave_each_other_their_sockets);
	TEST(memory_is_written_where_it_is_asked_for);
	return tap_end();
}
