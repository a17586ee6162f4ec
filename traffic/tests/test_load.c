/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of due times and of the sub-flows of frames. */
#include "judge.h"
#include "pacing.h"
#include "reflect.h"
#include "subflows.h"
#include "tap.h"

#include <math.h>

#define HZ 2e9

static void every_frame_of_a_phase_is_due_once_in_order_and_within_it(void)
{
	static const uint64_t frames[] = { 1, 2, 3, 50, 1000, 99999 };

	for (int kind = ARRIVALS_EVEN; kind <= ARRIVALS_ON_OFF; kind++) {
		for (uint32_t i = 0; i < 6 * 4; i++) {
			struct pacing p = { .arrivals = (enum arrivals)kind,
					    .share = (i / 6) / 4.0,
					    .state = i };
			uint64_t last = 0, count = 0;

			pacing_begin(&p, frames[i % 6], HZ / 10, HZ);
			for (; pacing_due(&p) != PACING_OVER; pacing_next(&p), count++) {
				EXPECT(pacing_due(&p) >= last);
				last = pacing_due(&p);
			}
			EXPECT(last < HZ / 10);
			EXPECT_EQ(count, frames[i % 6]);
		}
	}
	struct pacing none = { .arrivals = ARRIVALS_POISSON };

	pacing_begin(&none, 0, HZ, HZ);
	EXPECT(pacing_due(&none) == PACING_OVER);
}

/* Returns the mean distance of two frames, relative to the mean of the rate, and its variation. */
static double distances(enum arrivals kind, uint64_t seed, double *variation)
{
	struct pacing p = { .arrivals = kind, .state = seed };
	const uint64_t frames = 100000;
	const double mean = HZ / (double)frames;
	double before, sum = 0, squares = 0;

	pacing_begin(&p, frames, HZ, HZ);
	before = p.at;
	for (uint64_t i = 1; i < frames; i++) {
		pacing_next(&p);
		sum += p.at - before;
		squares += (p.at - before) * (p.at - before);
		before = p.at;
	}
	sum /= (double)frames - 1;
	*variation = sqrt(squares / ((double)frames - 1) - sum * sum) / sum;
	return sum / mean;
}

static void distances_are_those_of_the_process_and_of_its_rate(void)
{
	double variation;

	EXPECT(fabs(distances(ARRIVALS_EVEN, 1, &variation) - 1) < 1e-6);
	EXPECT(variation < 1e-3);
	for (uint64_t seed = 0; seed < 4; seed++) {
		EXPECT(fabs(distances(ARRIVALS_POISSON, seed, &variation) - 1) < 1e-3);
		EXPECT(fabs(variation - 1) < 0.02);
		/* The 250 silences take three quarters of the time. */
		EXPECT(fabs(distances(ARRIVALS_ON_OFF, seed, &variation) - 1) < 0.05);
		EXPECT(variation > 10);
	}
}

static void a_train_has_four_times_the_rate(void)
{
	struct pacing p = { .arrivals = ARRIVALS_ON_OFF, .state = 5 };
	uint64_t near = 0, far = 0;
	double before;

	pacing_begin(&p, 100000, HZ, HZ);
	for (before = p.at; p.next + 1 < p.frames; before = p.at) {
		pacing_next(&p);
		if (fabs(p.at - before - HZ / 400000) < 1)
			near++;
		else
			far++;
	}
	EXPECT_EQ(near + far, 99999);
	EXPECT(far > 150 && far < 251);
}

static void a_seed_says_when_frames_come(void)
{
	struct pacing one = { .arrivals = ARRIVALS_POISSON, .state = 1 }, same = one, other = one;
	bool differs = false;

	other.state = 2;
	pacing_begin(&one, 1000, HZ, HZ);
	pacing_begin(&same, 1000, HZ, HZ);
	pacing_begin(&other, 1000, HZ, HZ);
	for (uint32_t i = 0; i < 1000; i++) {
		EXPECT(pacing_due(&one) == pacing_due(&same));
		differs |= pacing_due(&one) != pacing_due(&other);
		pacing_next(&one);
		pacing_next(&same);
		pacing_next(&other);
	}
	EXPECT(differs);
}

/* Skipping ends at the same frame as advancing one by one; with random times, at a number of frames
 * that agrees with their distribution. */
static void frames_are_skipped_as_if_one_by_one(void)
{
	static const double parts[] = { 0, 1e-6, 0.001, 0.25, 0.7, 0.9999, 1, 1.5 };

	for (int kind = ARRIVALS_EVEN; kind <= ARRIVALS_ON_OFF; kind++) {
		for (uint32_t i = 0; i < 8 * 4; i++) {
			const uint64_t frames = i < 8 ? 3 : i < 16 ? 1001 : 200000;
			const uint64_t after = (uint64_t)(HZ * parts[i % 8]);
			struct pacing p = { .arrivals = (enum arrivals)kind,
					    .share = i / 24 / 2.0,
					    .state = i },
				      one;
			uint64_t count = 0, skipped;

			pacing_begin(&p, frames, HZ, HZ);
			one = p;
			for (; pacing_due(&one) < after; pacing_next(&one))
				count++;
			skipped = pacing_skip(&p, after);
			EXPECT_EQ(skipped, p.next);
			EXPECT(pacing_due(&p) >= after);
			if (kind == ARRIVALS_POISSON && count > 5000) {
				EXPECT(fabs((double)skipped - (double)count) <
				       10 * sqrt((double)frames));
			} else {
				EXPECT_EQ(skipped, count);
				EXPECT(pacing_due(&p) == pacing_due(&one));
			}
			for (count = skipped; pacing_due(&p) != PACING_OVER; pacing_next(&p)) {
				EXPECT(pacing_due(&p) < HZ);
				count++;
			}
			EXPECT_EQ(count, frames);
		}
	}
}

/* A skip of an hour, after a host was suspended, takes no time. */
static void an_hour_is_skipped_at_once(void)
{
	for (int kind = ARRIVALS_EVEN; kind <= ARRIVALS_ON_OFF; kind++) {
		struct pacing p = { .arrivals = (enum arrivals)kind, .state = 3 };
		const double length = 7200 * HZ;
		double skipped;

		pacing_begin(&p, 72000000000u, length, HZ);
		skipped = (double)pacing_skip(&p, (uint64_t)(length / 2));
		EXPECT(fabs(skipped - 36e9) < 1e9);
		EXPECT(pacing_due(&p) >= length / 2 && pacing_due(&p) < length / 2 + HZ);
	}
}

static void sub_flows_come_in_turn(void)
{
	struct subflows s = { .count = 1000000, .first = 7 };
	struct subflows runs = { .count = 1000, .first = 7, .run_bits = 5 };

	EXPECT(subflows_make(&s));
	for (uint32_t i = 0; i < 3; i++) {
		EXPECT_EQ(subflow_of(&s, i * 1000000), 7);
		EXPECT_EQ(subflow_of(&s, i * 1000000 + 999999), 1000006);
	}
	for (uint32_t i = 0; i < 100000; i++)
		EXPECT_EQ(subflow_of(&runs, i), 7 + i / 32 % 1000);
}

static void drawn_sub_flows_are_as_frequent_as_their_distribution_says(void)
{
	enum { COUNT = 1000, FRAMES = 1000000 };
	static uint32_t seen[2][COUNT];
	double harmonic = 0;

	for (int zipf = 0; zipf < 2; zipf++) {
		struct subflows s = { .count = COUNT,
				      .order = zipf ? ORDER_ZIPF : ORDER_RANDOM,
				      .seed = 99 };

		EXPECT(subflows_make(&s));
		for (uint32_t i = 0; i < FRAMES; i++) {
			uint32_t number = subflow_of(&s, i);

			EXPECT(number < COUNT);
			seen[zipf][number]++;
		}
		subflows_free(&s);
	}
	for (uint32_t i = 1; i <= COUNT; i++)
		harmonic += 1.0 / i;
	for (uint32_t i = 0; i < COUNT; i++) {
		const double wanted = FRAMES / harmonic / (i + 1);

		/* Seven standard deviations of a count, plus the steps of the table. */
		EXPECT(fabs(seen[0][i] - (double)FRAMES / COUNT) <
		       7 * sqrt((double)FRAMES / COUNT));
		EXPECT(fabs(seen[1][i] - wanted) < 7 * sqrt(wanted) + wanted / 50 + 62);
	}
}

static void the_most_sub_flows_have_room(void)
{
	struct subflows s = { .count = SUBFLOWS_MAX, .order = ORDER_ZIPF };
	uint32_t most = 0;

	EXPECT(subflows_make(&s));
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t number = subflow_of(&s, i);

		most = number > most ? number : most;
	}
	EXPECT(most > SUBFLOWS_MAX / 2 && most < SUBFLOWS_MAX);
	subflows_free(&s);
}

static void headers_of_a_sub_flow_are_right(void)
{
	static const uint32_t numbers[] = { 0, 1, 255, 256, 32767, 32768, 65535, 65536, 999999 };
	const struct address a = {
		.src_mac = { 2, 0x53, 0x4d, 0x80, 0xff, 0xf0 },
		.dst_mac = { 2, 0x53, 0x4d, 0x80, 0, 2 },
		.src_ip = 0x0a00fff0,
		.dst_ip = 0x0a000002,
		.src_port = 20000,
		.dst_port = 20000,
	};

	for (uint32_t i = 0; i < 9 * 3 * 2 * 2; i++) {
		struct subflows s = { .count = 1,
				      .first = numbers[i % 9],
				      .by = (enum subflow_by)(i / 9 % 3),
				      .answered = i / 27 % 2 };
		struct frame_template t, wanted;
		uint8_t data[128] = { 0 };
		struct payload p;
		const uint32_t len = i / 54 ? 120 : 60;
		uint64_t differs;

		template_make(&t, &a, len, 9, 3, PHASE_MEASURED, false);
		differs = subflow_sum(&s, &t, s.first);
		frame_build(data, &t, 5, 6, time_sum(6) + differs, TOUCH_FULL, false, false);
		subflow_put(&s, data, &t, subflow_bytes(&s, &t, s.first));
		EXPECT_EQ(frame_parse(data, len, 9, &p, TOUCH_FULL, false), FRAME_OURS);
		subflow_template(&s, &wanted, &t, 0, 0);
		EXPECT(headers_agree(data, len, &wanted));
		EXPECT_EQ(headers_agree(data, len, &t), !numbers[i % 9]);
		/* If the payload is unchanged, the checksum depends on the headers alone. */
		frame_build(data, &t, 0, 0, 0, TOUCH_NONE, false, false);
		subflow_put(&s, data, &t, subflow_bytes(&s, &t, s.first));
		frame_sum(data, &t, differs, false);
		EXPECT_EQ(frame_parse(data, len, 9, &p, TOUCH_HEADER, false), FRAME_OURS);
	}
}

/* The checksum or the comparison with the expected headers detects every changed bit of an IPv6
 * frame. */
static void every_flipped_bit_of_ipv6_is_found(void)
{
	struct address a = { .src_mac = { 2, 1 },
			     .dst_mac = { 2, 2 },
			     .v6 = true,
			     .src_ip6 = { 0x20, 1, 0, 2, [15] = 1 },
			     .dst_ip6 = { 0x20, 1, 0, 2, [15] = 2 },
			     .src_port = 20000,
			     .dst_port = 20001 };

	for (uint16_t vlan = 0; vlan <= 5; vlan += 5) {
		const uint32_t len = frame_least(&a) + 16 + (vlan ? VLAN_BYTES : 0);
		struct frame_template t;
		uint8_t data[128];
		struct frame f = { .data = data, .len = len };
		struct payload p;

		a.vlan = vlan;
		template_make(&t, &a, len, 9, 3, PHASE_MEASURED, false);
		frame_build(data, &t, 7, 8, time_sum(8), TOUCH_FULL, false, false);
		for (uint32_t bit = 0; bit < len * 8; bit++) {
			data[bit / 8] ^= (uint8_t)(1u << bit % 8);
			EXPECT(frame_parse(data, len, 9, &p, TOUCH_FULL, false) != FRAME_OURS ||
			       !headers_agree(data, len, &t));
			data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		for (uint32_t cut = 0; cut < len; cut++)
			EXPECT(frame_parse(data, cut, 9, &p, TOUCH_FULL, false) != FRAME_OURS);
		EXPECT(headers_agree(data, len, &t));
		frame_reflect(&f);
		EXPECT_EQ(frame_parse(data, len, 9, &p, TOUCH_FULL, false), FRAME_OURS);
		EXPECT(!headers_agree(data, len, &t));
		frame_reflect(&f);
		EXPECT(headers_agree(data, len, &t));
		EXPECT_EQ(p.seq, 7);
	}
}

static const struct address tunnel = {
	.src_mac = { 2, 0x53, 0x4d, 0x80, 0xff, 0xf0 },
	.dst_mac = { 2, 0x53, 0x4d, 0x80, 0, 2 },
	.src_ip = 0x0a00fff0,
	.dst_ip = 0x0a000002,
	.src_port = 20000,
	.dst_port = 20001,
	.vxlan = true,
	.vni = 0xabcdef,
	.inner_src_mac = { 2, 1 },
	.inner_dst_mac = { 2, 2 },
	.inner_src_ip = 0xac100001,
	.inner_dst_ip = 0xac100002,
	.src_ip6 = { 0x20, 1, 0, 2, [12] = 10, [14] = 0xff, [15] = 0xf0 },
	.dst_ip6 = { 0x20, 1, 0, 2, [12] = 10, [15] = 2 },
	.inner_src_ip6 = { 0x20, 1, 0, 2, [15] = 3 },
	.inner_dst_ip6 = { 0x20, 1, 0, 2, [15] = 4 },
};

#define TUNNELS 4 /* IPv4 and IPv6 outside, combined with IPv4 and IPv6 inside */

static struct address tunnel_of(uint32_t kind)
{
	struct address a = tunnel;

	a.v6 = kind & 1;
	a.inner_v6 = kind & 2;
	return a;
}

/* A checksum or the comparison with the expected headers detects every changed bit in a tunnel,
 * including the outer headers. */
static void every_flipped_bit_of_a_tunnel_is_found(uint32_t kind)
{
	const struct address a = tunnel_of(kind);
	const uint32_t len = frame_least(&a) + 16, more = a.v6 ? 20 : 0;
	struct frame_template t;
	uint8_t data[192];
	struct frame f = { .data = data, .len = len };
	struct payload p;

	EXPECT_EQ(frame_least(&a), 110 + more + (a.inner_v6 ? 20 : 0));
	template_make(&t, &a, len, 9, 3, PHASE_MEASURED, false);
	EXPECT_EQ(t.tunnel_bytes, 50 + more);
	for (uint32_t rest = 0xa5; rest < 0xa7; rest++) {
		memset(data, (int)rest, sizeof(data));
		frame_build(data, &t, 7, 8, time_sum(8), TOUCH_FULL, false, false);
		EXPECT(data[len] == rest);
	}
	EXPECT(!memcmp(data, a.dst_mac, 6) && !memcmp(data + 50 + more, a.inner_dst_mac, 6));
	EXPECT_EQ(net16(load16(data + (a.v6 ? 18 : 16))), len - (a.v6 ? 54 : 14));
	EXPECT_EQ(net16(load16(data + 34 + more)), 0xc000 | ((20000 + 20001) & 0x3fff));
	EXPECT_EQ(net16(load16(data + 36 + more)), 4789);
	EXPECT_EQ(load16(data + 40 + more), 0);
	EXPECT_EQ(net32(load32(data + 46 + more)), 0xabcdef00);
	for (uint32_t bit = 0; bit < len * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		EXPECT(frame_parse(data, len, 9, &p, TOUCH_FULL, false) != FRAME_OURS ||
		       !headers_agree(data, len, &t));
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (uint32_t cut = 0; cut < len; cut++)
		EXPECT(frame_parse(data, cut, 9, &p, TOUCH_FULL, false) != FRAME_OURS);
	EXPECT(headers_agree(data, len, &t));
	frame_reflect(&f);
	EXPECT_EQ(frame_parse(data, len, 9, &p, TOUCH_FULL, false), FRAME_OURS);
	EXPECT(!headers_agree(data, len, &t));
	EXPECT(!memcmp(data, a.src_mac, 6) && !memcmp(data + 50 + more, a.inner_src_mac, 6));
	EXPECT_EQ(net16(load16(data + 36 + more)), 4789);
	frame_reflect(&f);
	EXPECT(headers_agree(data, len, &t));
	EXPECT_EQ(p.seq, 7);
	EXPECT_EQ(p.flow, 3);
}

static void every_flipped_bit_of_any_tunnel_is_found(void)
{
	for (uint32_t kind = 0; kind < TUNNELS; kind++)
		every_flipped_bit_of_a_tunnel_is_found(kind);
}

static void headers_of_a_sub_flow_in_a_tunnel_are_right(void)
{
	static const uint32_t numbers[] = { 0, 1, 255, 256, 32767, 32768, 65535, 65536, 999999 };

	for (uint32_t i = 0; i < 9 * 3 * 2 * TUNNELS; i++) {
		const struct address a = tunnel_of(i / 54);
		const enum subflow_by by = (enum subflow_by)(i / 9 % 3);
		const uint32_t number = numbers[i % 9], len = frame_least(&a) + 10;
		const uint32_t more = a.v6 ? 20 : 0, ports = len - 36;
		struct subflows s = {
			.count = 1, .first = number, .by = by, .answered = i / 27 % 2
		};
		struct frame_template t, wanted;
		uint8_t data[192] = { 0 };
		struct payload p;
		uint64_t differs;

		template_make(&t, &a, len, 9, 3, PHASE_MEASURED, false);
		differs = subflow_sum(&s, &t, number);
		frame_build(data, &t, 5, 6, time_sum(6) + differs, TOUCH_FULL, false, false);
		subflow_put(&s, data, &t, subflow_bytes(&s, &t, number));
		EXPECT_EQ(frame_parse(data, len, 9, &p, TOUCH_FULL, false), FRAME_OURS);
		subflow_template(&s, &wanted, &t, 0, 0);
		EXPECT(headers_agree(data, len, &wanted));
		EXPECT_EQ(headers_agree(data, len, &t), !number);
		EXPECT(a.v6 || checksum_fold(checksum_add(data + ETH_BYTES, IP_BYTES)) == 0xffff);
		EXPECT_EQ(net16(load16(data + 34 + more)),
			  vxlan_port(net16(load16(data + ports)), net16(load16(data + ports + 2))));
		if (by == SUBFLOW_IP)
			EXPECT_EQ(net32(load32(data + (a.v6	  ? s.answered ? 50 : 34 :
						       s.answered ? 30 :
								    26))),
				  (s.answered ? a.dst_ip : a.src_ip) + number);
		frame_build(data, &t, 0, 0, 0, TOUCH_NONE, false, false);
		subflow_put(&s, data, &t, subflow_bytes(&s, &t, number));
		frame_sum(data, &t, differs, false);
		EXPECT_EQ(frame_parse(data, len, 9, &p, TOUCH_HEADER, false), FRAME_OURS);
	}
}

int main(void)
{
	TEST(every_frame_of_a_phase_is_due_once_in_order_and_within_it);
	TEST(distances_are_those_of_the_process_and_of_its_rate);
	TEST(a_train_has_four_times_the_rate);
	TEST(a_seed_says_when_frames_come);
	TEST(frames_are_skipped_as_if_one_by_one);
	TEST(an_hour_is_skipped_at_once);
	TEST(sub_flows_come_in_turn);
	TEST(drawn_sub_flows_are_as_frequent_as_their_distribution_says);
	TEST(the_most_sub_flows_have_room);
	TEST(headers_of_a_sub_flow_are_right);
	TEST(every_flipped_bit_of_ipv6_is_found);
	TEST(every_flipped_bit_of_any_tunnel_is_found);
	TEST(headers_of_a_sub_flow_in_a_tunnel_are_right);
	return tap_end();
}
