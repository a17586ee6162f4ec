/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second socket on the interface of a port whose engine sees payloads only. The tap stores the
 * first bytes of received frames, so that their headers can be compared after the trial.
 */
#ifndef SWITCHMARK_HEADER_TAP_H
#define SWITCHMARK_HEADER_TAP_H

#include "engine.h"

#define TAP_HEAD_BYTES 160 /* stored bytes per frame */

struct header_tap {
	int fd; /* -1: closed; `why` has the reason of a failure */
	uint8_t *ring;
	char why[128];
};

/* Starts to store the frames that arrive at the port's interface. Returns false with the reason in
 * `why` if the process lacks CAP_NET_RAW. */
bool header_tap_open(struct header_tap *t, const struct port *port);

/* Calls `handle` with the first bytes of each stored frame, which it may modify, and the frame's
 * length. Returns the number of frames dropped because the ring was full. */
uint64_t header_tap_read(struct header_tap *t,
			 void (*handle)(void *context, uint8_t *head, uint32_t len), void *context);

void header_tap_close(struct header_tap *t);

#endif
