/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of packets that a device splits into frames: splitting here as Linux does, each packet
 * yields the frames that it was made of. */
#include "gso.h"
#include "judge.h"
#include "tap.h"

#include <arpa/inet.h>

enum { RUN = 7, FRAMES = 200, ROOM = 9600 };

static uint8_t memory[FRAMES][ROOM];
static struct frame frames[FRAMES];
static uint8_t packet[GSO_BYTES_MAX];

static struct address address_of(bool v6, bool tagged)
{
	return (struct address){
		.src_mac = { 2, 0, 0, 0, 0, 1 },
		.dst_mac = { 2, 0, 0, 0, 0, 2 },
		.src_ip = 0xc6120001,
		.dst_ip = 0xc6120102,
		.src_ip6 = { 0xfd, [15] = 1 },
		.dst_ip6 = { 0xfd, [15] = 2 },
		.v6 = v6,
		.vlan = tagged ? 100 : 0,
		.src_port = 20000,
		.dst_port = 20001,
	};
}

/* Writes frame `i`: the next of its flow. */
static void frame_make(uint32_t i, const struct address *a, uint32_t more, uint32_t seq)
{
	struct frame_template t;

	template_make(&t, a, frame_least(a) + more, RUN, 0, PHASE_MEASURED, false);
	memset(memory[i], 0, sizeof(memory[i]));
	frame_build(memory[i], &t, seq, net64(12345), time_sum(net64(12345)), TOUCH_FULL, false,
		    false);
	frames[i] = (struct frame){ .data = memory[i], .len = t.len };
}

static void frames_make(uint32_t n, bool v6, bool tagged, uint32_t more)
{
	const struct address a = address_of(v6, tagged);

	for (uint32_t i = 0; i < n; i++)
		frame_make(i, &a, more, i);
}

/* Splits the packet as __udp_gso_segment and inet_gso_segment of Linux do, into frame `i`. */
static uint32_t split(uint32_t i, uint8_t *out)
{
	struct virtio_net_hdr h;
	const uint8_t *head = packet + sizeof(h);
	uint8_t *udp, *ip = out + ETH_BYTES;
	uint16_t len, sum;

	memcpy(&h, packet, sizeof(h));
	memcpy(out, head, h.hdr_len);
	memcpy(out + h.hdr_len, head + h.hdr_len + (size_t)i * h.gso_size, h.gso_size);
	udp = out + h.csum_start;
	if (load16(ip - 2) == net16(0x8100))
		ip += VLAN_BYTES;
	/* The partial checksum is corrected by the difference of the lengths. */
	len = net16((uint16_t)(UDP_BYTES + h.gso_size));
	sum = checksum_fold((uint64_t)load16(udp + 6) + (uint16_t)~load16(udp + 4) + len);
	store16(udp + 4, len);
	store16(udp + 6, 0);
	sum = (uint16_t)~checksum_fold(sum + checksum_add(udp, (size_t)UDP_BYTES + h.gso_size));
	store16(udp + h.csum_offset, sum ? sum : 0xffff);
	if (load16(ip - 2) == net16(0x0800)) {
		store16(ip + 2, net16((uint16_t)(IP_BYTES + UDP_BYTES + h.gso_size)));
		store16(ip + 4, net16((uint16_t)(net16(load16(ip + 4)) + i)));
		store16(ip + 10, 0);
		store16(ip + 10, (uint16_t)~checksum_fold(checksum_add(ip, IP_BYTES)));
	} else {
		store16(ip + 4, len);
	}
	return h.hdr_len + h.gso_size;
}

static void a_packet_is_split_into_its_frames(void)
{
	for (uint32_t kind = 0; kind < 4; kind++) {
		for (uint32_t more = 0; more < 1500; more += 1 + more / 3) {
			const uint32_t n = 2 + more % 40;
			uint8_t out[ROOM];
			uint32_t len;

			frames_make(n, kind & 1, kind & 2, more);
			EXPECT_EQ(gso_count(frames, n), n);
			len = gso_write(packet, frames, n);
			EXPECT_EQ(len, sizeof(struct virtio_net_hdr) + frames[0].len +
					       (n - 1) * (PAYLOAD_BYTES + more));
			for (uint32_t i = 0; i < n; i++) {
				EXPECT_EQ(split(i, out), frames[i].len);
				frame_clear_identification(out);
				EXPECT(!memcmp(out, frames[i].data, frames[i].len));
			}
		}
	}
}

static void headers_of_a_packet_are_those_of_a_long_frame(void)
{
	struct virtio_net_hdr h;
	const uint8_t *ip = packet + sizeof(h) + ETH_BYTES;

	frames_make(128, false, false, 0);
	EXPECT_EQ(gso_write(packet, frames, 128), sizeof(h) + 42 + 128 * 18);
	memcpy(&h, packet, sizeof(h));
	EXPECT_EQ(h.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
	EXPECT_EQ(h.gso_type, 5);
	EXPECT_EQ(h.hdr_len, 42);
	EXPECT_EQ(h.gso_size, 18);
	EXPECT_EQ(h.csum_start, 34);
	EXPECT_EQ(h.csum_offset, 6);
	EXPECT_EQ(net16(load16(ip + 2)), 20 + 8 + 128 * 18);
	EXPECT_EQ(net16(load16(ip + 24)), 8 + 128 * 18);
	EXPECT_EQ(checksum_fold(checksum_add(ip, 20)), 0xffff);
}

static void a_packet_has_128_frames_and_65535_bytes_of_ip_at_most(void)
{
	frames_make(200, false, false, 0);
	EXPECT_EQ(gso_count(frames, 200), 128);
	frames_make(200, false, false, 1514 - 60);
	EXPECT_EQ(gso_count(frames, 200), (65535 - 28) / (1514 - 42));
	frames_make(200, true, true, 1514 - 84);
	EXPECT_EQ(gso_count(frames, 200), (65535 - 48) / (1514 - 66));
	frames_make(20, false, false, 9000 - 60);
	EXPECT_EQ(gso_count(frames, 20), 65507 / (9000 - 42));
	EXPECT(gso_write(packet, frames, gso_count(frames, 20)) <= sizeof(packet));
	/* Above half of 64 KB no two frames fit, and a packet is as long as its buffer at most. */
	frames_make(128, true, true, 493);
	EXPECT_EQ(gso_count(frames, 128), 128);
	EXPECT(gso_write(packet, frames, 128) <= sizeof(packet));
}

/* Expects that the third of four frames ends the packet of the first two. */
static void expect_third_apart(void)
{
	EXPECT_EQ(gso_count(frames, 4), 2);
}

static void frames_with_other_headers_are_in_other_packets(void)
{
	for (uint32_t byte = 0; byte < 40; byte++) {
		frames_make(4, false, false, 4);
		memory[2][byte] ^= 1;
		expect_third_apart();
	}
	frames_make(4, false, false, 4);
	frames[2].len--;
	expect_third_apart();
	/* The checksum and the payload differ between all frames. */
	for (uint32_t byte = 42; byte < 64; byte++) {
		frames_make(4, false, false, 4);
		memory[2][byte] ^= 1;
		EXPECT_EQ(gso_count(frames, 4), 4);
	}
}

static void frames_that_no_device_would_make_again_go_alone(void)
{
	struct address tunnel = address_of(false, false);

	tunnel.vxlan = true;
	tunnel.vni = 100;
	for (uint32_t i = 0; i < 4; i++)
		frame_make(i, &tunnel, 0, i);
	EXPECT_EQ(gso_count(frames, 4), 1);
	/* without a checksum */
	frames_make(4, false, false, 0);
	store16(memory[0] + 40, 0);
	EXPECT_EQ(gso_count(frames, 4), 1);
	frames_make(4, false, false, 0);
	store16(memory[2] + 40, 0);
	expect_third_apart();
	/* TCP, ARP, options of IP, a fragment, padding, a wrong length, no payload, cut off */
	static const struct {
		uint32_t at;
		uint8_t value;
	} changes[] = { { 23, 6 }, { 13, 6 },  { 14, 0x46 }, { 20, 0x20 },
			{ 21, 1 }, { 17, 40 }, { 39, 20 },   { 39, 8 } };

	for (uint32_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		frames_make(4, false, false, 0);
		for (uint32_t k = 0; k < 4; k++)
			memory[k][changes[i].at] = changes[i].value;
		EXPECT_EQ(gso_count(frames, 4), 1);
	}
	frames_make(4, false, false, 4);
	for (uint32_t k = 0; k < 4; k++)
		frames[k].len -= 10;
	EXPECT_EQ(gso_count(frames, 4), 1);
	frames_make(4, false, false, 0);
	EXPECT_EQ(gso_count(frames, 1), 1);
	/* Any bytes, cut anywhere. */
	for (uint32_t len = 0; len < 200; len++) {
		for (uint32_t k = 0; k < 4; k++) {
			memset(memory[k], (int)len, ROOM);
			frames[k].len = len;
		}
		EXPECT_EQ(gso_count(frames, 4), 1);
	}
}

int main(void)
{
	TEST(a_packet_is_split_into_its_frames);
	TEST(headers_of_a_packet_are_those_of_a_long_frame);
	TEST(a_packet_has_128_frames_and_65535_bytes_of_ip_at_most);
	TEST(frames_with_other_headers_are_in_other_packets);
	TEST(frames_that_no_device_would_make_again_go_alone);
	return tap_end();
}
