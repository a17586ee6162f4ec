/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of frames, clock, histogram, sequence numbers and the loop, without a socket. */
#include "clock.h"
#include "histogram.h"
#include "judge.h"
#include "loop.h"
#include "reflect.h"
#include "sequence.h"
#include "tap.h"

#include <unistd.h>

static const struct address address = {
	.src_mac = { 2, 0, 0, 0, 0, 1 },
	.dst_mac = { 2, 0, 0, 0, 0, 2 },
	.src_ip = 0xc6120001,
	.dst_ip = 0xc6120002,
	.src_port = 20000,
	.dst_port = 20001,
};

/* The Internet checksum of RFC 1071, in the simplest form. */
static uint16_t reference_checksum(const uint8_t *data, size_t len, uint32_t sum)
{
	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)data[i] << 8 | data[i + 1];
	if (len % 2)
		sum += (uint32_t)data[len - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static bool checksums_are_right(const uint8_t *frame, uint16_t vlan)
{
	const uint8_t *ip = frame + ETH_BYTES + (vlan ? VLAN_BYTES : 0);
	uint16_t udp_len = (uint16_t)(ip[24] << 8 | ip[25]);
	uint32_t pseudo = 17u + udp_len;

	for (int i = 12; i < 20; i += 2)
		pseudo += (uint32_t)ip[i] << 8 | ip[i + 1];
	return reference_checksum(ip, IP_BYTES, 0) == 0xffff &&
	       reference_checksum(ip + IP_BYTES, udp_len, pseudo) == 0xffff;
}

static void build(uint8_t *frame, uint32_t len, uint16_t vlan, uint32_t seq, uint64_t ns,
		  enum touch touch)
{
	struct address a = address;
	struct frame_template t;
	uint64_t net = time_to_net(ns);

	a.vlan = vlan;
	template_make(&t, &a, len, 0xdeadbeef, 77, PHASE_MEASURED, false);
	frame_build(frame, &t, seq, net, time_sum(net), touch, false, false);
}

static void what_is_built_is_what_is_parsed(void)
{
	static uint8_t frame[FRAME_BYTES_MAX];
	const uint32_t lens[] = { 60, 61, 64, 65, 67, 68, 127, 1514, 8996, 9596 };

	for (int touch = TOUCH_HEADER; touch <= TOUCH_FULL; touch++) {
		for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
			for (uint16_t vlan = 0; vlan <= 100; vlan += 100) {
				struct payload p;

				if (vlan && lens[i] < FRAME_MIN + VLAN_BYTES)
					continue;
				memset(frame, 0xa5, sizeof(frame));
				build(frame, lens[i], vlan, 0x01020304u * (uint32_t)i,
				      1234567890123 + i, (enum touch)touch);
				EXPECT(checksums_are_right(frame, vlan));
				EXPECT_EQ(frame_parse(frame, lens[i], 0xdeadbeef, &p,
						      (enum touch)touch, false),
					  FRAME_OURS);
				EXPECT_EQ(p.flow, 77);
				EXPECT_EQ(p.phase, PHASE_MEASURED);
				EXPECT_EQ(p.seq, 0x01020304u * (uint32_t)i);
				EXPECT_EQ(p.time_ns, 1234567890123 + i);
				EXPECT_EQ(frame[lens[i]], 0xa5);
			}
		}
	}
}

static void every_flipped_bit_is_found(void)
{
	uint8_t frame[96];
	struct payload p;

	for (uint32_t byte = 0; byte < 90; byte++) {
		for (int bit = 0; bit < 8; bit++) {
			enum verdict_of_frame found;

			build(frame, 90, 0, 5, 99, TOUCH_FULL);
			frame[byte] ^= (uint8_t)(1 << bit);
			found = frame_parse(frame, 90, 0xdeadbeef, &p, TOUCH_FULL, false);
			/* A switch may change MACs, TTL, IP identification and checksum; after any
			 * other change the frame is foreign or corrupt. */
			if (byte < 12 || byte == 15 || (byte >= 18 && byte < 23) || byte == 24 ||
			    byte == 25)
				EXPECT_EQ(found, FRAME_OURS);
			else
				EXPECT(found != FRAME_OURS);
			/* A corrupt frame still has its flow number, unless the changed bit is in
			 * it. */
			if (found == FRAME_CORRUPT && byte != 46 && byte != 47)
				EXPECT_EQ(p.flow, 77);
		}
	}
}

/* For a device the frame contains the pseudo-header sum, and the completed checksum is correct. */
static void a_device_completes_what_was_left_to_it(void)
{
	const uint32_t lens[] = { 64, 65, 1514 };
	uint8_t frame[FRAME_BYTES_MAX];

	for (uint32_t i = 0; i < 3 * 2 * 2; i++) {
		const uint32_t len = lens[i / 4];
		const enum touch touch = i & 1 ? TOUCH_FULL : TOUCH_HEADER;
		struct address a = address;
		struct frame_template t;
		uint64_t net = time_to_net(99);
		struct payload p;
		uint8_t *udp;
		uint16_t sum;

		a.vlan = i & 2 ? 100 : 0;
		udp = frame + ETH_BYTES + (a.vlan ? VLAN_BYTES : 0) + IP_BYTES;
		template_make(&t, &a, len, 0xdeadbeef, 77, PHASE_WARMUP, false);
		template_leave_sum(&t);
		template_set(&t, 0xdeadbeef, 77, PHASE_MEASURED);
		frame_write(frame, &t, 4, net, time_sum(net), touch, false, false, true);
		/* Some devices complete the checksum in place, in memory that the next frame
		 * reuses. */
		memset(udp + 6, 0xa5, 2);
		frame_write(frame, &t, 5, net, time_sum(net), touch, false, true, true);
		EXPECT_EQ(frame_parse(frame, len, 0xdeadbeef, &p, touch, false), FRAME_CORRUPT);
		sum = (uint16_t)~reference_checksum(udp, (uint32_t)(frame + len - udp), 0);
		udp[6] = (uint8_t)(sum >> 8);
		udp[7] = (uint8_t)sum;
		EXPECT(checksums_are_right(frame, a.vlan));
		EXPECT_EQ(frame_parse(frame, len, 0xdeadbeef, &p, touch, false), FRAME_OURS);
		EXPECT_EQ(p.seq, 5);
	}
}

static enum verdict_of_frame judged(const uint8_t *frame, enum device_sum device)
{
	struct payload p;

	return frame_judge(frame, 90, 0xdeadbeef, &p, TOUCH_HEADER, false, device);
}

static void a_device_that_has_checked_is_believed(void)
{
	uint8_t frame[96];

	build(frame, 90, 0, 5, 99, TOUCH_HEADER);
	EXPECT_EQ(judged(frame, DEVICE_SUM_GOOD), FRAME_OURS);
	EXPECT_EQ(judged(frame, DEVICE_SUM_UNKNOWN), FRAME_OURS);
	EXPECT_EQ(judged(frame, DEVICE_SUM_BAD), FRAME_CORRUPT);
	frame[50] ^= 1;
	EXPECT_EQ(judged(frame, DEVICE_SUM_GOOD), FRAME_OURS);
	EXPECT_EQ(judged(frame, DEVICE_SUM_UNKNOWN), FRAME_CORRUPT);
	/* Except in a frame without a checksum. */
	memset(frame + 40, 0, 2);
	EXPECT_EQ(judged(frame, DEVICE_SUM_GOOD), FRAME_CORRUPT);
}

/* Nanoseconds of a clock that is 50 ppm fast, for ticks of 3 GHz; with a resolution of 0.1 us. */
static uint64_t other_clock(uint64_t ticks)
{
	return 1700000000000000000u + (uint64_t)((double)(ticks - 1000) / 3 * 1.00005) +
	       ticks / 7 % 100;
}

static void another_clock_is_followed(void)
{
	struct clock_fit fit = { 0 };
	uint64_t ticks, set = 0;

	for (uint32_t i = 0; i < 400; i++) {
		ticks = 1000 + i * 30000011ull; /* 10 ms */
		if (i == 300)
			set = 3000000000; /* the clock is stepped */
		if (i >= 2 && i != 300) {
			uint64_t then = ticks - 7000000; /* between the last pair and now */
			int64_t off =
				(int64_t)(clock_fit_ticks(&fit, other_clock(then) + set) - then);

			EXPECT(off > -1500 && off < 1500); /* 0.5 us */
		}
		clock_fit_add(&fit, other_clock(ticks) + set, ticks, 3e9);
	}
}

/* A port reads its clock again after a pause of a minute, in which the clock was set by 50 ms;
 * later NTP slews it by 400 ppm. */
static void another_clock_is_followed_through_pauses_and_slews(void)
{
	struct clock_fit fit = { 0 };

	for (uint32_t i = 0; i < 1200; i++) {
		const uint64_t pause = i < 300 ? 0 : 180000000000, set = i < 300 ? 0 : 50000000;
		const uint64_t ticks = 1000 + i * 30000011ull + pause, then = ticks - 7000000;
		const uint64_t begin = 1000 + 600 * 30000011ull + pause;
		const double slew = i < 600 ? 0 : (double)(ticks - begin) / 3 * 4e-4;
		const double less = i < 601 ? 0 : 7000000.0 / 3 * 4e-4;
		const int64_t off =
			(int64_t)(clock_fit_ticks(&fit, other_clock(then) + set +
								(uint64_t)(slew - less)) -
				  then);

		/* Except the pause, whose step is unknown, and the first two seconds of the
		 * slew. */
		if (i >= 2 && i != 300 && (i < 600 || i > 820))
			EXPECT(off > -1500 && off < 1500); /* 0.5 us */
		clock_fit_add(&fit, other_clock(ticks) + set + (uint64_t)slew, ticks, 3e9);
	}
}

/* Changes that frame_parse allows to a switch, headers_agree detects. */
static void every_flipped_bit_of_the_headers_breaks_a_promise(void)
{
	struct address expected = address;
	struct frame_template t;
	uint8_t frame[96];
	struct payload p;

	for (uint16_t vlan = 0; vlan <= 100; vlan += 100) {
		const uint32_t headers = ETH_BYTES + (vlan ? VLAN_BYTES : 0) + IP_BYTES + UDP_BYTES;

		expected.vlan = vlan;
		template_make(&t, &expected, 60, 1, 2, PHASE_MEASURED, false);
		for (uint32_t byte = 0; byte < headers; byte++) {
			for (int bit = 0; bit < 8; bit++) {
				build(frame, 90, vlan, 5, 99, TOUCH_FULL);
				EXPECT(headers_agree(frame, 90, &t));
				frame[byte] ^= (uint8_t)(1 << bit);
				EXPECT(frame_parse(frame, 90, 0xdeadbeef, &p, TOUCH_FULL, false) !=
					       FRAME_OURS ||
				       !headers_agree(frame, 90, &t));
			}
		}
		build(frame, 90, vlan, 5, 99, TOUCH_FULL);
		EXPECT(!headers_agree(frame, 91, &t));
	}
}

/* IPv6 has no checksum over its header: each of its bits is compared. */
static void every_flipped_bit_of_ipv6_breaks_a_promise(void)
{
	struct address expected = address;
	struct frame_template t;
	uint8_t frame[96] = { 0 };

	expected.v6 = true;
	for (uint8_t i = 0; i < 16; i++) {
		expected.src_ip6[i] = 3 * i;
		expected.dst_ip6[i] = 5 * i + 1;
	}
	for (uint16_t vlan = 0; vlan <= 100; vlan += 100) {
		const uint32_t ports = ETH_BYTES + (vlan ? VLAN_BYTES : 0) + IP6_BYTES + 4;

		expected.vlan = vlan;
		template_make(&t, &expected, 90, 1, 2, PHASE_MEASURED, false);
		memcpy(frame, t.head, ports);
		EXPECT(headers_agree(frame, 90, &t));
		for (uint32_t byte = 0; byte < ports; byte++) {
			for (int bit = 0; bit < 8; bit++) {
				frame[byte] ^= (uint8_t)(1 << bit);
				EXPECT(!headers_agree(frame, 90, &t));
				frame[byte] ^= (uint8_t)(1 << bit);
			}
		}
		EXPECT(!headers_agree(frame, 91, &t));
	}
}

static void a_router_lowers_the_ttl_that_was_promised(void)
{
	struct address expected = address;
	struct frame_template t;
	uint8_t frame[60], *ip = frame + ETH_BYTES;

	expected.ttl = TTL_SENT - 1;
	template_make(&t, &expected, 60, 1, 2, PHASE_MEASURED, false);
	build(frame, 60, 0, 5, 99, TOUCH_FULL);
	EXPECT(!headers_agree(frame, 60, &t));
	ip[8]--;
	EXPECT(!headers_agree(frame, 60, &t)); /* the checksum is the old one */
	ip[10]++;
	EXPECT(checksums_are_right(frame, 0) && headers_agree(frame, 60, &t));
}

static void what_a_kernel_numbers_is_no_broken_promise(void)
{
	struct address expected = address;
	struct frame_template t;
	uint8_t frame[HEAD_BYTES], *ip;

	for (uint16_t vlan = 0; vlan <= 100; vlan += 100) {
		expected.vlan = vlan;
		template_make(&t, &expected, 64, 1, 2, PHASE_MEASURED, false);
		for (uint32_t id = 0; id < 1 << 16; id += 37) {
			build(frame, 64, vlan, 5, 99, TOUCH_FULL);
			ip = frame + ETH_BYTES + (vlan ? VLAN_BYTES : 0);
			store16(ip + 4, (uint16_t)id);
			store16(ip + 10, 0);
			store16(ip + 10, (uint16_t)~checksum_fold(checksum_add(ip, IP_BYTES)));
			EXPECT(!id || !headers_agree(frame, 64, &t));
			frame_clear_identification(frame);
			EXPECT(headers_agree(frame, 64, &t));
			/* A wrong checksum stays wrong. */
			store16(ip + 4, (uint16_t)id);
			ip[11] ^= 4;
			frame_clear_identification(frame);
			EXPECT(!headers_agree(frame, 64, &t));
		}
	}
}

static void frames_of_another_run_are_foreign(void)
{
	uint8_t frame[HEAD_BYTES];
	struct payload p;

	build(frame, 60, 0, 5, 99, TOUCH_HEADER);
	EXPECT_EQ(frame_parse(frame, 60, 0xdeadbeee, &p, TOUCH_HEADER, false), FRAME_FOREIGN);
	EXPECT_EQ(frame_parse(frame, 59, 0xdeadbeef, &p, TOUCH_HEADER, false), FRAME_FOREIGN);
	memset(frame, 0, sizeof(frame));
	EXPECT_EQ(frame_parse(frame, 60, 0xdeadbeef, &p, TOUCH_HEADER, false), FRAME_FOREIGN);
}

static void a_reflected_frame_has_its_ends_swapped_and_its_checksum_right(void)
{
	uint8_t frame[HEAD_BYTES];
	struct frame f = { .data = frame, .len = 60 };
	struct payload p;

	build(frame, 60, 0, 5, 99, TOUCH_HEADER);
	frame_reflect(&f);
	EXPECT(!memcmp(frame, address.src_mac, 6) && !memcmp(frame + 6, address.dst_mac, 6));
	EXPECT(checksums_are_right(frame, 0));
	EXPECT_EQ(frame_parse(frame, 60, 0xdeadbeef, &p, TOUCH_HEADER, false), FRAME_OURS);
}

static void checksum_of_a_payload_that_sums_to_zero_is_sent_as_ffff(void)
{
	uint8_t frame[HEAD_BYTES];

	/* RFC 768: 0 means no checksum. Over all sequence numbers of a 16-bit word every sum
	 * occurs. */
	for (uint32_t seq = 0; seq < 65536; seq++) {
		build(frame, 60, 0, seq, 0, TOUCH_HEADER);
		if (!(frame[40] | frame[41])) {
			EXPECT(false);
			return;
		}
	}
}

static void histogram_indices_are_those_of_hdrhistogram(void)
{
	/* Values computed by HdrHistogram (lowest 1, highest 10^11, 3 digits). */
	const struct {
		uint64_t ns;
		uint32_t index;
	} known[] = { { 0, 0 },
		      { 1, 1 },
		      { 2047, 2047 },
		      { 2048, 2048 },
		      { 2049, 2048 },
		      { 4095, 3071 },
		      { 4096, 3072 },
		      { 1000000, 11169 },
		      { 123456789, 18267 },
		      { 100000000000, 28114 } };

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		EXPECT_EQ(histogram_index(known[i].ns), known[i].index);
	EXPECT(histogram_index(HISTOGRAM_HIGHEST) < HISTOGRAM_COUNTS);
}

static void histogram_counts_what_is_beyond_it_as_the_highest(void)
{
	static struct histogram h;

	histogram_clear(&h);
	histogram_add(&h, UINT64_MAX, 1);
	histogram_add(&h, 7, 2);
	EXPECT_EQ(h.count, 3);
	EXPECT_EQ(h.min, 7);
	EXPECT_EQ(h.max, HISTOGRAM_HIGHEST);
	EXPECT_EQ(h.counts[7], 2);
	EXPECT_EQ(h.counts[histogram_index(HISTOGRAM_HIGHEST)], 1);
}

/* A brute-force model: a list of all numbers in order of arrival. */
static void sequence_counts_agree_with_a_list_of_all_that_came(void)
{
	enum { NUMBERS = 3000, BITS = 4096 };
	static uint64_t window[BITS / 64];
	static bool seen[NUMBERS];
	uint64_t seed = 42;

	for (int round = 0; round < 200; round++) {
		struct sequence s = { .window = window, .bits = BITS };
		uint64_t distinct = 0, duplicated = 0, reordered = 0;
		uint32_t highest = 0, base = 0;

		sequence_reset(&s);
		memset(seen, 0, sizeof(seen));
		for (int i = 0; i < 2000; i++) {
			uint32_t number;

			seed = seed * 6364136223846793005u + 1442695040888963407u;
			number = base + (uint32_t)(seed >> 33) % (1 + (uint32_t)round);
			base += (seed >> 20) % 2;
			if (number >= NUMBERS)
				break;
			sequence_add(&s, number);
			duplicated += seen[number];
			distinct += !seen[number];
			reordered += !seen[number] && number < highest;
			seen[number] = true;
			highest = number + 1 > highest ? number + 1 : highest;
		}
		EXPECT_EQ(s.distinct, distinct);
		EXPECT_EQ(s.duplicated, duplicated);
		EXPECT_EQ(s.reordered, reordered);
		EXPECT_EQ(s.beyond, 0);
	}
}

static void sequence_numbers_go_on_past_32_bits(void)
{
	static uint64_t window[4096 / 64];
	struct sequence s = { .window = window, .bits = 4096 };

	sequence_reset(&s);
	s.next = 0xfffffff0;
	for (uint32_t i = 0; i < 64; i++)
		EXPECT(sequence_add(&s, 0xfffffff0 + i));
	EXPECT_EQ(s.next, 0x100000030);
	EXPECT(!sequence_add(&s, 5));
	EXPECT_EQ(s.duplicated, 1);
	EXPECT_EQ(s.distinct, 64);
}

static void a_frame_older_than_the_window_is_said_to_be(void)
{
	static uint64_t window[4096 / 64];
	struct sequence s = { .window = window, .bits = 4096 };

	sequence_reset(&s);
	sequence_add(&s, 0);
	sequence_add(&s, 10000);
	EXPECT(!sequence_add(&s, 3));
	EXPECT_EQ(s.beyond, 1);
	EXPECT(sequence_add(&s, 9000));
	EXPECT(!sequence_add(&s, 9000));
	EXPECT_EQ(s.beyond, 1);
	EXPECT_EQ(s.distinct, 3);
}

/* Of 10000 frames one is lost, and another one arrives twice, the second time beyond the window. */
static void a_duplicate_older_than_the_window_hides_no_loss(void)
{
	static uint64_t window[4096 / 64];
	struct sequence s = { .window = window, .bits = 4096 };

	sequence_reset(&s);
	for (uint32_t i = 0; i < 10000; i++)
		if (i != 5)
			sequence_add(&s, i);
	sequence_add(&s, 3);
	sequence_settle(&s);
	EXPECT_EQ(s.distinct, 9999);
	EXPECT_EQ(s.beyond, 1); /* it may be the missing one */
	EXPECT_EQ(s.duplicated, 0);
	sequence_add(&s, 4);
	sequence_settle(&s);
	EXPECT_EQ(s.beyond, 1); /* only one is missing */
	EXPECT_EQ(s.duplicated, 1);
}

static void where_none_is_missing_an_old_frame_is_a_duplicate(void)
{
	static uint64_t window[4096 / 64];
	struct sequence s = { .window = window, .bits = 4096 };

	sequence_reset(&s);
	for (uint32_t i = 0; i < 10000; i++)
		if (i != 9990) /* the window knows that this number is missing */
			sequence_add(&s, i);
	sequence_add(&s, 3);
	sequence_settle(&s);
	EXPECT_EQ(s.distinct, 9999);
	EXPECT_EQ(s.beyond, 0);
	EXPECT_EQ(s.duplicated, 1);
}

/* Returns the duration of a tick: less than 1 ns on x86-64, 16 ns or more on some Arm processors. */
static long long tick_ns(const struct clock *c)
{
	const uint64_t ticks = clock_ticks();

	return (long long)(clock_ns(c, ticks + 1) - clock_ns(c, ticks));
}

static void the_clock_agrees_with_the_kernels(void)
{
	struct clock c;
	uint64_t before, now, after;

	clock_measure(&c, 50);
	usleep(20000);
	before = clock_monotonic_ns();
	now = clock_ns(&c, clock_ticks());
	after = clock_monotonic_ns();
	EXPECT(now + 20000 > before && now < after + 20000);
	/* A round trip is exact to the nanoseconds of a tick. */
	EXPECT(llabs((long long)(clock_ns(&c, clock_at(&c, now)) - now)) <= 2 + tick_ns(&c));
}

/* ---- the loop, on the null engine ------------------------------------------------- */

struct bench {
	struct port port;
	struct clock clock;
	struct window window;
	struct task tasks[2];
	struct histogram latency, earliest;
	struct sequence sequence;
	uint64_t bits[4096 / 64], intervals[16];
	struct frame frames[2][64];
	struct frame_template *template;
};

/* A sender and a receiver on one looped port; tx takes `take` frames at a time. */
static struct bench *bench_make(double rate_pps, uint32_t burst, uint64_t duration_ns,
				uint64_t take)
{
	struct bench *b =
		aligned_alloc(CACHE_LINE, (sizeof(*b) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
	struct sender *s;
	struct receiver *r;

	memset(b, 0, sizeof(*b));
	b->template = aligned_alloc(CACHE_LINE, sizeof(*b->template));
	clock_measure(&b->clock, 5);
	b->port.engine = engine_find("null");
	b->port.config = (struct port_config){
		.sends = true,
		.receives = true,
		.burst = 64,
		.frame_max = 1514,
		.option_count = 2,
		.options = { { .name = "loop", .number = 1 }, { .name = "take", .number = take } },
	};
	EXPECT_EQ(port_open(&b->port), 0);
	b->window = (struct window){ .start = clock_ticks() + 1000, .phase = PHASE_MEASURED };
	b->window.end =
		b->window.start + (uint64_t)((double)duration_ns * (double)b->clock.hz / 1e9);
	b->window.interval = (b->window.end - b->window.start) / 8;
	template_make(b->template, &address, 60, 9, 0, PHASE_MEASURED, false);
	b->tasks[0].role = ROLE_SENDER;
	b->tasks[1].role = ROLE_RECEIVER;
	s = &b->tasks[0].sender;
	*s = (struct sender){ .port = &b->port,
			      .templates = b->template,
			      .flows = 1,
			      .sizes = 1,
			      .burst = burst,
			      .rate_pps = rate_pps,
			      .clock = &b->clock,
			      .window = &b->window,
			      .frames = b->frames[0] };
	b->tasks[0].receiver.port = b->tasks[1].receiver.port = &b->port;
	r = &b->tasks[1].receiver;
	b->sequence = (struct sequence){ .window = b->bits, .bits = 4096 };
	r->run = 9;
	r->flows = 1;
	r->burst = 32;
	r->clock = &b->clock;
	r->window = &b->window;
	r->frames = b->frames[1];
	r->sequences = &b->sequence;
	r->latency = &b->latency;
	r->earliest = &b->earliest;
	r->intervals = b->intervals;
	r->interval_count = 16;
	for (int i = 0; i < 2; i++) {
		task_choose_step(&b->tasks[i], TOUCH_HEADER, TIMING_LATENCY);
		task_begin(&b->tasks[i]);
	}
	return b;
}

static void bench_run(struct bench *b)
{
	while (!b->tasks[0].sent_all) {
		b->tasks[0].step(&b->tasks[0], clock_ticks());
		b->tasks[1].step(&b->tasks[1], clock_ticks());
	}
	task_end(&b->tasks[0]);
	while (b->tasks[1].step(&b->tasks[1], clock_ticks()))
		;
}

static void bench_free(struct bench *b)
{
	b->port.engine->close(&b->port);
	free(b->template);
	free(b);
}

static void a_port_that_takes_part_of_a_burst_loses_nothing(void)
{
	struct bench *b = bench_make(0, 32, 100000000, 5);

	bench_run(b);
	EXPECT(b->tasks[0].sender.sent > 100);
	EXPECT_EQ(b->tasks[1].receiver.rx, b->tasks[0].sender.sent);
	EXPECT_EQ(b->sequence.next, b->tasks[0].sender.sent);
	EXPECT_EQ(b->sequence.reordered + b->sequence.duplicated, 0);
	bench_free(b);
}

/* Coordinated omission: a sender that stalls for 20 ms must not improve the latency. */
static void latency_counts_from_when_a_frame_should_have_left(void)
{
	struct bench *b = bench_make(10000, 1, 200000000, 0);
	uint64_t stall = b->window.start + (b->window.end - b->window.start) / 4;
	bool stalled = false;

	while (!b->tasks[0].sent_all) {
		if (!stalled && clock_ticks() > stall) {
			usleep(20000);
			stalled = true;
		}
		b->tasks[0].step(&b->tasks[0], clock_ticks());
		b->tasks[1].step(&b->tasks[1], clock_ticks());
	}
	/* 20 ms at 10 kpps: 200 frames were due during the stall, each with its full delay. */
	EXPECT(b->tasks[0].sender.sent >= 600); /* a busy host may cut the end off */
	EXPECT(b->latency.max >= 19000000);
	EXPECT(b->latency.sum >= 200ull * 19000000 / 2);
	EXPECT(clock_ns(&b->clock, b->clock.ticks0 + b->tasks[0].sender.lag_max) - b->clock.ns0 >=
	       19000000);
	bench_free(b);
}

/* Steps only the sender, by a simulated clock. Returns the number of frames sent, counts them by
 * flow and length, and records when the first and the last one were due. */
static uint32_t drive(struct bench *b, uint32_t counts[4][3], uint64_t *first, uint64_t *last)
{
	const uint64_t step = (b->window.end - b->window.start) / 4096;
	struct task *t = &b->tasks[0];
	struct frame f[64];
	uint32_t sent = 0;

	for (uint64_t now = b->window.start; !t->sent_all; now += step) {
		uint32_t n;

		t->step(t, now);
		while ((n = b->port.rx(&b->port, f, NULL, 64))) {
			for (uint32_t i = 0; i < n; i++) {
				struct payload p;

				EXPECT_EQ(frame_parse(f[i].data, f[i].len, 9, &p, TOUCH_HEADER,
						      false),
					  FRAME_OURS);
				if (counts && p.flow < 4)
					counts[p.flow][f[i].len / 512]++;
				if (first && !sent)
					*first = p.time_ns;
				if (last)
					*last = p.time_ns;
				sent++;
			}
			b->port.engine->release(&b->port, f, n);
		}
	}
	return sent;
}

/* With a simulated clock, the sender sends every frame. With the real clock, a busy host may leave frames
 * unsent, but all counters agree. */
static void a_paced_sender_sends_exactly_what_was_asked(void)
{
	const struct {
		double rate;
		uint32_t burst;
		uint64_t ns, frames;
	} cases[] = { { 1000, 1, 200000000, 200 },
		      { 1000, 32, 200000000, 200 },
		      { 12340, 7, 100000000, 1234 },
		      { 1000000, 32, 100000000, 100000 },
		      { 5, 1, 200000000, 1 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct bench *b = bench_make(cases[i].rate, cases[i].burst, cases[i].ns, 0);

		EXPECT_EQ(drive(b, NULL, NULL, NULL), cases[i].frames);
		bench_free(b);
		b = bench_make(cases[i].rate, cases[i].burst, cases[i].ns, 0);
		bench_run(b);
		EXPECT_EQ(b->tasks[0].sender.intended, cases[i].frames);
		EXPECT(b->tasks[0].sender.sent <= cases[i].frames);
		EXPECT_EQ(b->tasks[1].receiver.rx, b->tasks[0].sender.sent);
		EXPECT_EQ(b->sequence.distinct, b->tasks[0].sender.sent);
		EXPECT_EQ(b->latency.count, b->tasks[0].sender.sent);
		EXPECT_EQ(b->earliest.count, b->latency.count);
		EXPECT(b->earliest.max <= b->latency.max);
		bench_free(b);
	}
}

/* The sizes rotate over the flows, so that no flow always has the same size. */
static void every_flow_gets_the_whole_mix(void)
{
	static const uint32_t lens[] = { 60, 60, 590, 1514 };
	uint32_t counts[4][3];

	for (uint32_t i = 0; i < 16; i++) {
		const uint32_t flows = 1 + i % 4;
		struct bench *b = bench_make(960000, 32, 1000000, 0); /* 960 frames */
		struct sender *s = &b->tasks[0].sender;

		s->templates = aligned_alloc(CACHE_LINE, 16 * sizeof(*s->templates));
		for (uint32_t t = 0; t < 4 * flows; t++)
			template_make(&s->templates[t], &address, lens[t % 4], 9, (uint16_t)(t / 4),
				      PHASE_MEASURED, false);
		s->flows = flows;
		s->sizes = 4;
		s->subflows.run_bits = i / 4;
		task_begin(&b->tasks[0]);
		memset(counts, 0, sizeof(counts));
		EXPECT_EQ(drive(b, counts, NULL, NULL), 960);
		for (uint32_t flow = 0; flow < flows; flow++) {
			EXPECT_EQ(counts[flow][0], 480 / flows);
			EXPECT_EQ(counts[flow][1], 240 / flows);
			EXPECT_EQ(counts[flow][2], 240 / flows);
		}
		free(s->templates);
		bench_free(b);
	}
}

/* For packets of several frames: a flow has a run of frames, and each flow has as many. */
static void flows_come_in_runs(void)
{
	struct bench *b = bench_make(0, 32, 1000000, 0);
	struct sender *s = &b->tasks[0].sender;
	uint32_t sent = 0;
	struct frame f[64];

	s->templates = aligned_alloc(CACHE_LINE, 3 * sizeof(*s->templates));
	for (uint32_t t = 0; t < 3; t++)
		template_make(&s->templates[t], &address, 60, 9, (uint16_t)t, PHASE_MEASURED,
			      false);
	s->flows = 3;
	s->subflows.run_bits = 4;
	task_begin(&b->tasks[0]);
	while (sent < 3000) {
		uint32_t n = b->tasks[0].step(&b->tasks[0], b->window.start + sent);

		EXPECT_EQ(b->port.rx(&b->port, f, NULL, 64), n);
		for (uint32_t i = 0; i < n; i++, sent++) {
			struct payload p;

			EXPECT_EQ(frame_parse(f[i].data, f[i].len, 9, &p, TOUCH_HEADER, false),
				  FRAME_OURS);
			EXPECT_EQ(p.flow, sent / 16 % 3);
			EXPECT_EQ(p.seq, sent / 48 * 16 + sent % 16);
		}
		b->port.engine->release(&b->port, f, n);
	}
	free(s->templates);
	bench_free(b);
}

/* Sequential sub-flows also get all sizes 0 to 3 in equal shares, whatever their number. */
static void every_sub_flow_gets_the_whole_mix(void)
{
	enum { SIZES = 4, COUNT_MAX = 8, FLOWS_MAX = 3, TURNS = 12 };

	for (uint32_t i = 0; i < COUNT_MAX * FLOWS_MAX * 4; i++) {
		struct bench *b = bench_make(0, 1, 1000000, 0);
		const uint32_t count = 1 + i % COUNT_MAX, flows = 1 + i / COUNT_MAX % FLOWS_MAX;
		const uint32_t bits = i / COUNT_MAX / FLOWS_MAX, turns = TURNS << bits;
		uint32_t seen[FLOWS_MAX][COUNT_MAX][SIZES] = { 0 };
		struct sender *s = &b->tasks[0].sender;

		s->templates = aligned_alloc(CACHE_LINE,
					     (size_t)SIZES * FLOWS_MAX * sizeof(*s->templates));
		for (uint32_t t = 0; t < SIZES * flows; t++)
			template_make(&s->templates[t], &address, 60 + 100 * (t % SIZES), 9,
				      (uint16_t)(t / SIZES), PHASE_MEASURED, false);
		s->flows = flows;
		s->sizes = SIZES;
		s->subflows = (struct subflows){ .count = count, .step = count, .run_bits = bits };
		task_begin(&b->tasks[0]);
		for (uint32_t sent = 0; sent < turns * count * flows; sent++) {
			struct payload p;
			struct frame f;

			EXPECT_EQ(b->tasks[0].step(&b->tasks[0], b->window.start + sent), 1);
			EXPECT_EQ(b->port.rx(&b->port, &f, NULL, 1), 1);
			EXPECT_EQ(frame_parse(f.data, f.len, 9, &p, TOUCH_HEADER, false),
				  FRAME_OURS);
			seen[p.flow][(p.seq >> bits) % count][(f.len - 60) / 100]++;
			b->port.engine->release(&b->port, &f, 1);
		}
		for (uint32_t t = 0; t < flows * count * SIZES; t++)
			EXPECT_EQ(seen[t / SIZES / count][t / SIZES % count][t % SIZES],
				  turns / SIZES);
		free(s->templates);
		bench_free(b);
	}
}

static uint32_t few_alloc(struct port *port, struct frame *f, uint32_t n)
{
	return engine_find("null")->alloc(port, f, n < 24 ? n : 24);
}

/* A sender whose pool is smaller than a burst still sends every frame at its time. */
static void a_pool_smaller_than_a_burst_keeps_the_rate(void)
{
	struct bench *b = bench_make(300000, 64, 1000000, 0); /* 300 frames: 4 bursts and 44 */
	const uint64_t period = 64 * b->clock.hz / 300000;
	struct engine small = *b->port.engine;
	uint64_t last = 0;

	small.alloc = few_alloc;
	b->port.engine = &small;
	EXPECT_EQ(drive(b, NULL, NULL, &last), 300);
	EXPECT_EQ(b->tasks[0].sender.sent, b->tasks[0].sender.intended);
	EXPECT(llabs((long long)(last - clock_ns(&b->clock, b->window.start + 4 * period))) <
	       10 + 4 * tick_ns(&b->clock));
	b->port.engine = engine_find("null");
	bench_free(b);
}

static uint32_t flushes, flushes_needed;

static bool slow_flush(struct port *port)
{
	(void)port;
	return ++flushes >= flushes_needed;
}

/* The drain starts when sending is complete: frames that leave a ring later are lost. */
static void all_is_sent_when_nothing_waits_in_a_ring(void)
{
	const struct {
		uint32_t needed;
		bool emptied;
	} cases[] = { { 1, true }, { 5, true }, { UINT32_MAX, false } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct bench *b = bench_make(1000, 1, 100000000, 0);
		struct engine slow = *b->port.engine;
		struct task *t = &b->tasks[0];
		uint64_t now = b->window.start;

		slow.flush = slow_flush;
		flushes = 0;
		flushes_needed = cases[i].needed;
		b->port.engine = &slow;
		while (t->sender.sent < t->sender.intended)
			t->step(t, now += b->clock.hz / 10000);
		EXPECT(!t->sent_all && !flushes);
		for (uint32_t k = 0; k < 10000 && !t->sent_all; k++)
			t->step(t, now += b->clock.hz / 10000);
		EXPECT(t->sent_all);
		EXPECT_EQ(flushes >= flushes_needed, cases[i].emptied);
		EXPECT(cases[i].emptied ? flushes == flushes_needed : flushes > 900);
		b->port.engine = engine_find("null");
		bench_free(b);
	}
}

/* Bursts of several senders are evenly spaced, and all of them are within the phase. */
static void staggered_senders_take_turns(void)
{
	const struct {
		double rate;
		uint32_t burst;
	} loads[] = { { 64000, 32 }, { 70000, 32 }, { 65000, 32 }, { 1000, 32 }, { 5000, 1 } };

	for (uint32_t i = 0; i < 5 * 4; i++) {
		struct bench *b = bench_make(loads[i / 4].rate, loads[i / 4].burst, 10000000, 0);
		const uint64_t start = clock_ns(&b->clock, b->window.start);
		const double period = 1e9 * loads[i / 4].burst / loads[i / 4].rate;
		const double share = (double)(i % 4) / 4;
		uint64_t first = 0, last = 0;
		double wanted;

		b->tasks[0].sender.stagger = share;
		task_begin(&b->tasks[0]);
		/* A single burst is staggered within the phase, which is 10 ms. */
		wanted = share * (period < 1e7 ? period : 1e7);
		EXPECT_EQ(drive(b, NULL, &first, &last), loads[i / 4].rate / 100);
		EXPECT(llabs((long long)(first - start) - (long long)wanted) <
		       10 + 2 * tick_ns(&b->clock));
		EXPECT(last < start + 10000000);
		bench_free(b);
	}
}

/* Runs the tasks in a separate thread, as the program does. */
static void thread_run(struct bench *b, struct worker *w, double after_ns, double length_ns)
{
	struct task *tasks[] = { &b->tasks[0], &b->tasks[1] };
	const double ticks = (double)b->clock.hz / 1e9;

	*w = (struct worker){ .cpu = -1, .tasks = tasks, .count = 2, .window = &b->window };
	b->tasks[0].forwarder.ports[0] = b->tasks[0].forwarder.ports[1] = NULL;
	b->tasks[1].forwarder.ports[0] = b->tasks[1].forwarder.ports[1] = NULL;
	EXPECT_EQ(worker_start(w), 0);
	b->window.start = clock_ticks() + (uint64_t)(int64_t)(after_ns * ticks);
	b->window.note = b->window.start - (uint64_t)(50000 * ticks);
	b->window.end = b->window.start + (uint64_t)(length_ns * ticks);
	for (int i = 0; i < 2; i++)
		task_begin(&b->tasks[i]);
	worker_run(w);
	while (!b->tasks[0].sent_all)
		usleep(100);
	usleep(1000);
	worker_halt(w);
	worker_quit(w);
}

/* Reading the clocks of a thread takes microseconds, which must not delay the first frame: they are read
 * before the phase starts. On a busy host a thread may have no CPU at that moment, so one try of many
 * is enough. The time before the phase differs between tries, as the turns of a busy CPU have a period. */
static void a_thread_reads_its_clocks_before_the_first_frame(void)
{
	bool before = false;

	for (int i = 0; i < 400 && !before; i++) {
		struct bench *b = bench_make(1000, 1, 1000000, 0);
		struct worker w;

		thread_run(b, &w, (1 + i % 40) * 1e6, 1000000);
		before = w.before_at >= b->window.note && w.before_at < b->window.start;
		EXPECT(w.after.cpu_ns > w.before.cpu_ns || w.late);
		bench_free(b);
	}
	EXPECT(before);
}

/* ---- the loop, with tasks that only observe --------------------------------------- */

static struct worker *watched;
static uint64_t age_least; /* ticks: age of the time passed to a task */
/* steps after which the thread had recorded its end although frames were still arriving */
static uint32_t noted_early;

static uint32_t slow_step(struct task *t, uint64_t now)
{
	(void)t;
	(void)now;
	usleep(2000);
	return 0;
}

static uint32_t ageing_step(struct task *t, uint64_t now)
{
	const uint64_t age = clock_ticks() - now;

	(void)t;
	age_least = age < age_least ? age : age_least;
	return 0;
}

/* One frame arrives every 2 ms, until 10 ms after the end. */
static uint32_t last_frames_step(struct task *t, uint64_t now)
{
	const struct window *w = watched->window;
	const uint64_t ms = (w->latest - w->end) / 40;

	if (now < w->end || now > w->end + 10 * ms || now - t->sender.sent < 2 * ms)
		return 0;
	noted_early += watched->after_at != watched->before_at;
	t->sender.sent = now;
	return 1;
}

/* Runs a thread with these step functions until 40 ms after the end of a phase of 20 ms. */
static void looks_run(struct worker *w, struct clock *clock, enum role role,
		      uint32_t (*first)(struct task *, uint64_t),
		      uint32_t (*second)(struct task *, uint64_t))
{
	struct task *list = aligned_alloc(CACHE_LINE, 2 * sizeof(*list));
	struct task *tasks[] = { &list[0], &list[1] };
	struct window window = { 0 };

	memset(list, 0, 2 * sizeof(*list));
	clock_measure(clock, 5);
	for (int i = 0; i < 2; i++) {
		list[i].role = role;
		list[i].step = i ? second : first;
		if (role == ROLE_SENDER)
			list[i].sender.until = UINT64_MAX; /* no step of a load, also if late */
	}
	*w = (struct worker){ .cpu = -1, .tasks = tasks, .count = 2, .window = &window };
	watched = w;
	EXPECT_EQ(worker_start(w), 0);
	window.note = clock_ticks() + clock->hz / 100;
	window.start = window.note + clock->hz / 20000;
	window.end = window.start + clock->hz / 50;
	window.quiet = clock->hz / 100;
	window.latest = window.end + clock->hz / 25;
	worker_run(w);
	while (clock_ticks() < window.latest)
		usleep(1000);
	worker_halt(w);
	worker_quit(w);
	free(list);
}

/* At full rate that time is the timestamp of the frames. */
static void what_the_first_task_of_a_thread_takes_ages_no_frame_of_the_second(void)
{
	struct clock clock;
	struct worker w;

	age_least = UINT64_MAX;
	looks_run(&w, &clock, ROLE_SENDER, slow_step, ageing_step);
	EXPECT(age_least < clock.hz / 1000);
}

static void no_last_frame_waits_for_a_thread_that_looks_at_its_clocks(void)
{
	struct clock clock;
	struct worker w;

	noted_early = 0;
	looks_run(&w, &clock, ROLE_RECEIVER, last_frames_step, last_frames_step);
	EXPECT_EQ(noted_early, 0);
	EXPECT(w.after.cpu_ns > w.before.cpu_ns);
}

/* Frames that were due before the thread started are not sent in one flood. */
static void a_late_start_is_told_and_not_made_up_for(void)
{
	struct bench *b = bench_make(100000, 10, 300000000, 0);
	const struct sender *s = &b->tasks[0].sender;
	struct worker w;

	thread_run(b, &w, -200000000, 300000000);
	EXPECT(w.late >= b->clock.hz / 5);
	EXPECT_EQ(s->intended + s->missed, 30000);
	EXPECT(s->missed >= 20000 && s->missed <= 30000);
	EXPECT(s->sent <= s->intended);
	EXPECT_EQ(b->tasks[1].receiver.rx, s->sent);
	/* Frames of the missed period would be as old as that period. */
	EXPECT(b->latency.max < 150000000);
	bench_free(b);
}

/* Makes a frame with this number arrive. */
static void arrive(struct bench *b, uint32_t seq)
{
	struct frame f;

	EXPECT_EQ(b->port.engine->alloc(&b->port, &f, 1), 1);
	frame_build(f.data, b->template, seq, 0, 0, TOUCH_HEADER, false, false);
	f.len = b->template->len;
	EXPECT_EQ(b->port.tx(&b->port, &f, 1), 1);
	EXPECT_EQ(b->tasks[1].step(&b->tasks[1], clock_ticks()), 1);
}

/* A frame received after the drain is lost in the counts of its flow and in the totals. */
static void frames_after_the_drain_are_lost_in_every_count(void)
{
	struct bench *b = bench_make(100000, 10, 10000000, 0);
	const struct receiver *r = &b->tasks[1].receiver;

	for (uint32_t seq = 0; seq < 100; seq += 2)
		arrive(b, seq);
	b->tasks[1].receiver.draining = true;
	arrive(b, 1);
	EXPECT_EQ(r->late, 1);
	b->tasks[1].receiver.closed = true;
	arrive(b, 3);
	arrive(b, 5);
	arrive(b, 5);
	arrive(b, 8);
	EXPECT_EQ(r->after_drain, 2);
	EXPECT_EQ(r->late, 1);
	EXPECT_EQ(r->rx, 51);
	EXPECT_EQ(b->sequence.distinct, 51);
	EXPECT_EQ(b->sequence.duplicated, 0);
	EXPECT_EQ(b->sequence.reordered, 1);
	EXPECT_EQ(b->latency.count, 51);
	EXPECT_EQ(r->bytes, 51 * 60);
	bench_free(b);
}

static void arrivals_are_counted_by_interval(void)
{
	struct bench *b = bench_make(100000, 10, 80000000, 0);
	uint64_t sum = 0, used = 0;

	bench_run(b);
	for (int i = 0; i < 16; i++)
		sum += b->intervals[i], used += b->intervals[i] > 0;
	EXPECT_EQ(sum, b->tasks[1].receiver.rx);
	/* Another process may use the CPU for some of these steps. */
	EXPECT(used > 1);
	bench_free(b);
}

int main(void)
{
	TEST(what_is_built_is_what_is_parsed);
	TEST(every_flipped_bit_is_found);
	TEST(a_device_completes_what_was_left_to_it);
	TEST(a_device_that_has_checked_is_believed);
	TEST(another_clock_is_followed);
	TEST(another_clock_is_followed_through_pauses_and_slews);
	TEST(every_flipped_bit_of_the_headers_breaks_a_promise);
	TEST(what_a_kernel_numbers_is_no_broken_promise);
	TEST(every_flipped_bit_of_ipv6_breaks_a_promise);
	TEST(a_router_lowers_the_ttl_that_was_promised);
	TEST(frames_of_another_run_are_foreign);
	TEST(a_reflected_frame_has_its_ends_swapped_and_its_checksum_right);
	TEST(checksum_of_a_payload_that_sums_to_zero_is_sent_as_ffff);
	TEST(histogram_indices_are_those_of_hdrhistogram);
	TEST(histogram_counts_what_is_beyond_it_as_the_highest);
	TEST(sequence_counts_agree_with_a_list_of_all_that_came);
	TEST(sequence_numbers_go_on_past_32_bits);
	TEST(a_frame_older_than_the_window_is_said_to_be);
	TEST(a_duplicate_older_than_the_window_hides_no_loss);
	TEST(where_none_is_missing_an_old_frame_is_a_duplicate);
	TEST(the_clock_agrees_with_the_kernels);
	TEST(a_paced_sender_sends_exactly_what_was_asked);
	TEST(a_port_that_takes_part_of_a_burst_loses_nothing);
	TEST(latency_counts_from_when_a_frame_should_have_left);
	TEST(every_flow_gets_the_whole_mix);
	TEST(flows_come_in_runs);
	TEST(every_sub_flow_gets_the_whole_mix);
	TEST(a_pool_smaller_than_a_burst_keeps_the_rate);
	TEST(all_is_sent_when_nothing_waits_in_a_ring);
	TEST(staggered_senders_take_turns);
	TEST(a_thread_reads_its_clocks_before_the_first_frame);
	TEST(what_the_first_task_of_a_thread_takes_ages_no_frame_of_the_second);
	TEST(no_last_frame_waits_for_a_thread_that_looks_at_its_clocks);
	TEST(a_late_start_is_told_and_not_made_up_for);
	TEST(frames_after_the_drain_are_lost_in_every_count);
	TEST(arrivals_are_counted_by_interval);
	return tap_end();
}
