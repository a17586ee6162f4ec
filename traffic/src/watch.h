/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second socket on the interface of a port whose engine sees payloads only: what arrives there is
 * kept with its headers, for them to be compared once nothing moves any more.
 */
#ifndef SWITCHMARK_WATCH_H
#define SWITCHMARK_WATCH_H

#include "engine.h"

#define WATCH_HEAD_BYTES 160 /* of each frame; what is behind is not kept */

struct watch {
	int fd; /* -1: closed, and `why` says the reason if there is one */
	uint8_t *ring;
	char why[128];
};

/* Keeps what comes in at the port's interface from now on. False, with the reason in why, where
 * that may not be: it takes CAP_NET_RAW. */
bool watch_open(struct watch *w, const struct port *port);

/*
 * Hands over the head of each frame that was kept, and the length that the frame had; the head may
 * be written to. Returns how many found no room.
 */
uint64_t watch_read(struct watch *w, void (*each)(void *context, uint8_t *head, uint32_t len),
		    void *context);

void watch_close(struct watch *w);

#endif
