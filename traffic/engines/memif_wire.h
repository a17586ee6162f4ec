/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memif 2.0 as two programs on one host see it: the messages of the control channel, and rings in
 * shared memory. Numbers are in host order.
 *
 * The client owns the memory and describes it in messages; the server accepts it. In both rings of
 * a queue pair the client writes `head` and the server writes `tail`. Towards the server, `head`
 * follows the frames that the client sends. Towards the client, `head` follows the empty buffers
 * that the client offers, and `tail` the frames that the server puts into them.
 */
#ifndef SWITCHMARK_MEMIF_WIRE_H
#define SWITCHMARK_MEMIF_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define MEMIF_VERSION 0x0200
#define MEMIF_COOKIE 0x3e31f20
#define MEMIF_LOG2_MAX 14 /* of the slots in a ring */
#define MEMIF_TO_SERVER 1 /* flag of MEMIF_ADD_RING: the direction */
#define MEMIF_ETHERNET 0 /* mode of an interface: whole frames */

enum memif_type {
	MEMIF_NONE,
	MEMIF_ACK,
	MEMIF_HELLO,
	MEMIF_INIT,
	MEMIF_ADD_REGION,
	MEMIF_ADD_RING,
	MEMIF_CONNECT,
	MEMIF_CONNECTED,
	MEMIF_DISCONNECT,
};

/* Each message is one packet of this size. */
struct memif_message {
	uint16_t type;
	union {
		struct {
			char name[32]; /* of the server's program */
			uint16_t min_version, max_version;
			/* the largest indexes, not numbers */
			uint16_t max_region, max_to_client, max_to_server;
			uint8_t log2_max;
		} __attribute__((packed)) hello;
		struct {
			uint16_t version;
			uint32_t id; /* of the interface, among those of a socket */
			uint8_t mode;
			char secret[24];
			char name[32]; /* of the client's program */
		} __attribute__((packed)) init;
		struct { /* with a file descriptor of the memory */
			uint16_t index;
			uint64_t bytes;
		} __attribute__((packed)) region;
		struct { /* with the event descriptor that wakes a sleeping receiver */
			uint16_t flags, index, region;
			uint32_t offset;
			uint8_t log2;
			uint16_t private_bytes;
		} __attribute__((packed)) ring;
		struct {
			char name[32]; /* of the interface */
		} __attribute__((packed)) connect;
		struct {
			uint32_t code;
			char text[96];
		} __attribute__((packed)) disconnect;
		uint8_t room[126];
	};
} __attribute__((packed));

_Static_assert(sizeof(struct memif_message) == 128, "a message has another size");

#define MEMIF_NEXT 1 /* flag of a slot: the frame continues in the next one */

struct memif_slot {
	uint16_t flags, region;
	uint32_t len;
	uint32_t offset;
	uint32_t unused;
};

#define MEMIF_NO_WAKE 1 /* flag of a ring: its receiver polls */

struct memif_ring {
	uint32_t cookie;
	uint16_t flags, head;
	uint8_t own_line[56];
	uint16_t tail;
	uint8_t other_line[62];
	struct memif_slot slots[];
};

_Static_assert(offsetof(struct memif_ring, tail) == 64 && offsetof(struct memif_ring, slots) == 128,
	       "a ring has another layout");

#endif
