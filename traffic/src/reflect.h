/* SPDX-License-Identifier: Apache-2.0 */
/* Sending frames back to where they came from. */
#ifndef SWITCHMARK_REFLECT_H
#define SWITCHMARK_REFLECT_H

#include "engine.h"

/* Swaps source and destination of MACs, addresses and ports, which leaves the checksum correct.
 * A frame shorter than any test frame is not changed. */
void frame_reflect(struct frame *f);

#endif
