/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: valid and invalid bytes from a virtual machine to `boot`, in pieces of any size. The
 * frames before the first invalid one reach the clients completely and in order, and nothing else
 * does; after an invalid frame the machine is no longer read.
 */
#include "boot.c"

#include "input.h"

#include <sys/ioctl.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VISITORS = 3, PIECE_MAX = 30000, BYTES_MAX = 400000 };

struct bytes {
	uint8_t *at;
	size_t length;
};

static void put(struct bytes *b, const void *from, size_t length)
{
	MUST(b->length + length <= BYTES_MAX + 2 * sizeof(struct wire_head) + WIRE_PAYLOAD_MAX);
	memcpy(b->at + b->length, from, length);
	b->length += length;
}

/* Creates mostly valid frames, or arbitrary bytes. */
static void make_stream(struct input *in, struct bytes *stream)
{
	static const uint8_t zeros[WIRE_PAYLOAD_MAX];

	if (choose(in, 4) == 3) {
		put(stream, in->data, in->left);
		in->left = 0;
	}
	while (in->left && stream->length < BYTES_MAX) {
		struct wire_head head = { .kind = (uint8_t)choose(in, WIRE_KINDS) };
		uint32_t shape = choose(in, 64);

		head.channel = (uint16_t)choose(in, VISITORS + 1);
		head.stream = (uint8_t)choose(in, 3);
		head.length = shape < 56 ? choose(in, 8) : (uint32_t)take(in, 2);
		if (shape == 60)
			head.length = WIRE_PAYLOAD_MAX + choose(in, 2);
		if (shape == 61)
			head.channel = (uint16_t)take(in, 2);
		if (shape == 62)
			head.kind = (uint8_t)take(in, 1);
		if (shape == 63)
			head.stream = (uint8_t)take(in, 1);
		put(stream, &head, sizeof(head));
		if (head.length > WIRE_PAYLOAD_MAX)
			continue;
		if (head.length <= in->left && head.length < 64) {
			put(stream, in->data, head.length);
			in->data += head.length;
			in->left -= head.length;
		} else {
			put(stream, zeros, head.length);
		}
	}
}

/* Computes the data for each visitor. Returns false if the stream contains an invalid frame. */
static bool expect(const struct bytes *stream, struct bytes expected[VISITORS])
{
	size_t at = 0;

	while (stream->length - at >= sizeof(struct wire_head)) {
		struct wire_head head;
		uint16_t channel;

		memcpy(&head, stream->at + at, sizeof(head));
		channel = head.channel;
		if (head.length > WIRE_PAYLOAD_MAX || channel >= WIRE_CHANNELS ||
		    head.kind >= WIRE_KINDS || head.stream > 2)
			return false;
		at += sizeof(head);
		if (stream->length - at < head.length)
			return true; /* the rest of the frame never arrives */
		head.channel = 0;
		if (channel < VISITORS && head.kind != WIRE_HELLO) {
			put(&expected[channel], &head, sizeof(head));
			put(&expected[channel], stream->at + at, head.length);
		}
		at += head.length;
	}
	return true;
}

/* Lets the visitors read the available data. */
static void listen_all(struct machine *m, const int ends[VISITORS], struct bytes got[VISITORS])
{
	for (int i = 0; i < VISITORS; i++) {
		static uint8_t piece[65536];
		ssize_t n;

		do {
			n = recv(ends[i], piece, sizeof(piece), MSG_DONTWAIT);
			if (n > 0)
				put(&got[i], piece, (size_t)n);
			MUST(wire_flush(&m->clients[i].wire));
		} while (n > 0 || m->clients[i].wire.waiting);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t memory[1 + 2 * VISITORS][BYTES_MAX + (2 << 16)];
	static struct machine m;
	struct bytes stream = { memory[0], 0 }, expected[VISITORS], got[VISITORS];
	struct input in = { data, size };
	uint32_t step = 1 + (uint32_t)take(&in, 2) % PIECE_MAX;
	int guest[2], pair[2], ends[VISITORS];
	bool right, alive = true;

	make_stream(&in, &stream);
	for (int i = 0; i < VISITORS; i++) {
		expected[i] = (struct bytes){ memory[1 + i], 0 };
		got[i] = (struct bytes){ memory[1 + VISITORS + i], 0 };
	}
	right = expect(&stream, expected);
	m.up = false;
	for (int i = 0; i < WIRE_CHANNELS; i++) {
		m.clients[i].wire.fd = -1;
		m.clients[i].started = false;
	}
	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, guest));
	wire_open(&m.wire, guest[0]);
	for (int i = 0; i < VISITORS; i++) {
		MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
		wire_open(&m.clients[i].wire, pair[0]);
		ends[i] = pair[1];
	}
	for (size_t at = 0; alive && at < stream.length;) {
		size_t piece = stream.length - at < step ? stream.length - at : step;

		MUST(send(guest[1], stream.at + at, piece, 0) == (ssize_t)piece);
		at += piece;
		/* One extra read: an empty socket is not an end. */
		for (int waiting = 1, last = 1; alive && last; last = waiting) {
			MUST(!ioctl(m.wire.fd, FIONREAD, &waiting));
			alive = wire_read(&m.wire, take_from_guest, &m);
		}
		listen_all(&m, ends, got);
	}
	MUST(alive == right);
	close(guest[1]);
	MUST(!wire_read(&m.wire, take_from_guest, &m));
	for (int i = 0; i < VISITORS; i++) {
		MUST(got[i].length == expected[i].length);
		MUST(!memcmp(got[i].at, expected[i].at, got[i].length));
		wire_close(&m.clients[i].wire);
		close(ends[i]);
	}
	wire_close(&m.wire);
	return 0;
}
