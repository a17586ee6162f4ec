/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memif interfaces. A port is one queue pair of an interface; ports that name the same socket share
 * it. The first port opens it, the last one closes it. A thread of the interface keeps its control
 * channel: it connects, and connects again after the other program has ended.
 */
#ifndef SWITCHMARK_MEMIF_DEVICE_H
#define SWITCHMARK_MEMIF_DEVICE_H

#include "engine.h"
#include "memif_talk.h"

#include <pthread.h>

struct memif_device {
	char path[108];
	struct memif_plan plan;
	uint32_t ports;
	uint64_t sent_to, received_from; /* one bit per queue that a port uses */
	pthread_t thread;
	int wake; /* event descriptor: the thread is to end */
	int listener; /* at a server */
	/* The link that is up; NULL: none. Changed by the thread, with the lock held. */
	struct memif_link *_Atomic link;
	pthread_mutex_t lock;
	uint32_t links; /* how many links were up so far */
	char why[128]; /* why the last conversation failed */
};

/* Finds or opens the interface that the port names. Returns 0, or -errno with port->why. */
int memif_device_take(struct port *port, struct memif_device **device);

/* Closes an interface without ports. */
void memif_device_leave(struct memif_device *d);

/* Returns a reference to the link that is up; NULL: none. */
struct memif_link *memif_device_link(struct memif_device *d);

#endif
