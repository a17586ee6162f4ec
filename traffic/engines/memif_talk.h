/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversation on a control channel, without the channel: messages in, messages out, and the
 * link that they agree on. The other program may say anything.
 */
#ifndef SWITCHMARK_MEMIF_TALK_H
#define SWITCHMARK_MEMIF_TALK_H

#include "memif_wire.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
	MEMIF_QUEUES_MAX = 64, /* one bit per queue in sent_to */
	MEMIF_REGIONS_MAX =
		64, /* a client that lends its own memory has one for each of its parts */
	MEMIF_OUT_MAX = 4 + 2 * MEMIF_QUEUES_MAX,
};

/* What this end wants of a link. */
struct memif_plan {
	bool client;
	uint32_t id, queues;
	uint8_t log2; /* of the slots in a ring, at a client */
	bool huge; /* a client's memory is in hugepages */
	uint32_t buffer; /* the bytes of a client's buffers */
};

struct memif_region {
	uint8_t *base; /* NULL: not mapped */
	uint64_t bytes;
	int fd;
};

/* One direction of a queue pair. */
struct memif_queue {
	uint16_t region;
	uint32_t offset;
	uint8_t log2;
	int wake; /* event descriptor */
	struct memif_ring *ring;
};

/* The memory that two ends share. Several ports may use it: the last one frees it. */
struct memif_link {
	atomic_uint users;
	bool client;
	uint32_t regions_count, to_server_count, to_client_count;
	struct memif_region regions[MEMIF_REGIONS_MAX];
	struct memif_queue to_server[MEMIF_QUEUES_MAX], to_client[MEMIF_QUEUES_MAX];
	/* At a client: slot s of ring r, those to the server first, has the buffer at `buffers` +
	 * (r * slots + s) * `stride` of region 0. */
	uint64_t buffers;
	uint32_t stride;
	char peer[33]; /* the name of the other program */
};

enum memif_state { MEMIF_AWAITS_FIRST, MEMIF_AWAITS_REST, MEMIF_IS_CONNECTED };

struct memif_talk {
	const struct memif_plan *plan;
	enum memif_state state;
	struct memif_link *link; /* NULL: not begun */
	uint32_t said; /* messages of a client after its first one */
	uint32_t out_count; /* messages to send, with a descriptor or -1 */
	struct memif_message out[MEMIF_OUT_MAX];
	int out_fds[MEMIF_OUT_MAX];
	char why[128]; /* why the conversation failed */
};

/* Begins a conversation: a server has a first message to send. */
void memif_talk_begin(struct memif_talk *t, const struct memif_plan *plan);

/* Handles one packet and the descriptor that came with it (-1: none), which it takes over. Returns
 * false with a reason if the conversation is over. `out` has the answers; the link of a connected
 * conversation is valid. */
bool memif_talk_hear(struct memif_talk *t, const void *packet, size_t size, int fd);

/* Writes the message that tells the other end why the conversation is over. */
void memif_talk_part(const struct memif_talk *t, struct memif_message *m);

/* Frees a link that no port uses yet. */
void memif_talk_end(struct memif_talk *t);

/* Gives up a reference to a link. */
void memif_link_leave(struct memif_link *link);

#endif
