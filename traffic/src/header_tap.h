/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second socket on the interface of a port whose engine sees payloads only. It keeps the heads of
 * the frames that arrive, to compare their headers when nothing moves any more.
 */
#ifndef SWITCHMARK_HEADER_TAP_H
#define SWITCHMARK_HEADER_TAP_H

#include "engine.h"

#define TAP_HEAD_BYTES 160 /* of each frame; the rest is not kept */

struct header_tap {
	int fd; /* -1: closed, and `why` says the reason if there is one */
	uint8_t *ring;
	char why[128];
};

/* Keeps what arrives at the port's interface from now on. Returns false with the reason in why
 * if that is not permitted: it takes CAP_NET_RAW. */
bool header_tap_open(struct header_tap *t, const struct port *port);

/* Calls `each` with the head of each frame that was kept, which it may write to, and the frame's
 * length. Returns how many frames found no room. */
uint64_t header_tap_read(struct header_tap *t,
			 void (*each)(void *context, uint8_t *head, uint32_t len), void *context);

void header_tap_close(struct header_tap *t);

#endif
