/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent and its clients say to each other: frames on a byte stream, each for one channel, which
 * is one process where the agent is. Whoever sends data waits for grants, so that no
 * end has to keep more than a window of each stream. Both ends are of one build: numbers are
 * in the byte order of its processor.
 */
#ifndef SWITCHMARK_WIRE_H
#define SWITCHMARK_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of these frames and of the messages in them. An agent that the host file names may be of another build, or of a
 * processor with another byte order. */
#define WIRE_VERSION 1u
#define WIRE_PAYLOAD_MAX 65536u
#define WIRE_WINDOW 262144u /* bytes of a stream that are under way at most */
#define WIRE_CHANNELS 256

enum wire_kind {
	WIRE_HELLO, /* the agent is up: a uint32_t, WIRE_VERSION; again where it holds undos */
	WIRE_START, /* to init: words of an argv, each with its NUL */
	WIRE_DATA, /* bytes of `stream` */
	WIRE_END, /* `stream` ends: no more is written to it, or nobody reads it */
	WIRE_GRANT, /* a uint32_t: so many more bytes of `stream` may come */
	WIRE_SIGNAL, /* to init: a uint32_t, the signal for the process */
	WIRE_EXIT, /* init: a uint32_t, the status as waitpid() gives it; the channel is free */
	WIRE_ASK, /* to the agent, on channel 0: a part of a message; `stream` is 0 in the last one */
	WIRE_ANSWER, /* the same, of the agent */
	WIRE_KINDS
};

struct wire_head {
	uint32_t length; /* of the payload that follows */
	uint16_t channel;
	uint8_t kind, stream; /* 0, 1, 2 as file descriptors are */
};

struct wire {
	int fd, out_fd; /* not blocking; one, or two that go one way each */
	size_t filled; /* of `in` */
	uint8_t in[sizeof(struct wire_head) + WIRE_PAYLOAD_MAX];
	uint8_t *out; /* what could not be written yet: so many bytes, behind those that were */
	size_t waiting, written, capacity;
};

typedef void wire_taker(void *context, const struct wire_head *head, const uint8_t *payload);

/* Makes `fd`, or both of two, not blocking. */
void wire_open(struct wire *w, int fd);
void wire_open_pair(struct wire *w, int in, int out);

/* Frees the buffer and closes the files. */
void wire_close(struct wire *w);

/* Reads what is there, and calls `take` for each whole frame. False when the other end has
   gone, or sends what is no frame. */
bool wire_read(struct wire *w, wire_taker *take, void *context);

/* Sends a frame, or keeps what cannot be written now. False without memory. */
bool wire_put(struct wire *w, uint16_t channel, enum wire_kind kind, uint8_t stream,
	      const void *payload, size_t length);

bool wire_put_number(struct wire *w, uint16_t channel, enum wire_kind kind, uint8_t stream,
		     uint32_t number);

/* Writes what was kept. False when the other end has gone. */
bool wire_flush(struct wire *w);

/* The number that a frame carries; 0 from one that carries none. */
uint32_t wire_number(const struct wire_head *head, const uint8_t *payload);

#endif
