/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between the agent and its clients: frames on a byte stream. Each frame belongs to a
 * channel, which stands for one process on the agent's side. A sender of data waits for grants, so
 * that neither end has to store more than a window of each stream. Both ends are of the same build:
 * numbers are in the byte order of the processor.
 */
#ifndef SWITCHMARK_WIRE_H
#define SWITCHMARK_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of the frames and of the messages in them. An agent configured in the host file may
 * be of another build, or of a processor with another byte order. */
#define WIRE_VERSION 1u
#define WIRE_PAYLOAD_MAX 65536u
#define WIRE_WINDOW 262144u /* maximum bytes of a stream in flight */
#define WIRE_CHANNELS 256

enum wire_kind {
	WIRE_HELLO, /* the agent is up: a uint32_t, WIRE_VERSION; repeated while it holds undos */
	WIRE_START, /* to init: the words of an argv, each with a NUL */
	WIRE_DATA, /* bytes of `stream` */
	WIRE_END, /* end of `stream`: the writer or the reader has closed it */
	WIRE_GRANT, /* a uint32_t: how many more bytes of `stream` may be sent */
	WIRE_SIGNAL, /* to init: a uint32_t, the signal for the process */
	WIRE_EXIT, /* from init: a uint32_t, the status of waitpid(); the channel is free */
	/* to the agent, on channel 0: a part of a message; `stream` is 0 in the last part */
	WIRE_ASK,
	WIRE_ANSWER, /* the same from the agent */
	WIRE_KINDS
};

struct wire_head {
	uint32_t length; /* of the payload */
	uint16_t channel;
	uint8_t kind, stream; /* 0, 1, 2 like file descriptors */
};

struct wire {
	int fd, out_fd; /* non-blocking; the same, or one per direction */
	size_t filled; /* bytes in `in` */
	uint8_t in[sizeof(struct wire_head) + WIRE_PAYLOAD_MAX];
	uint8_t *out; /* unwritten bytes: `waiting` of them, after `written` bytes */
	size_t waiting, written, capacity;
};

typedef void wire_taker(void *context, const struct wire_head *head, const uint8_t *payload);

/* Makes `fd`, or both descriptors, non-blocking. */
void wire_open(struct wire *w, int fd);
void wire_open_pair(struct wire *w, int in, int out);

/* Frees the buffer and closes the files. */
void wire_close(struct wire *w);

/* Reads the available data, and calls `take` for each complete frame. Returns false if the other
 * end has gone or sends an invalid frame. */
bool wire_read(struct wire *w, wire_taker *take, void *context);

/* Sends a frame, or queues the part that cannot be written yet. Returns false without memory. */
bool wire_put(struct wire *w, uint16_t channel, enum wire_kind kind, uint8_t stream,
	      const void *payload, size_t length);

bool wire_put_number(struct wire *w, uint16_t channel, enum wire_kind kind, uint8_t stream,
		     uint32_t number);

/* Writes the queued bytes. Returns false if the other end has gone. */
bool wire_flush(struct wire *w);

/* Returns the number in a frame; 0 if it has none. */
uint32_t wire_number(const struct wire_head *head, const uint8_t *payload);

#endif
