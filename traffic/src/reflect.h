/* SPDX-License-Identifier: Apache-2.0 */
/* Sends frames back to their source. */
#ifndef SWITCHMARK_REFLECT_H
#define SWITCHMARK_REFLECT_H

#include "engine.h"

/* Swaps source and destination of MACs, addresses and ports, which leaves the checksum correct.
 * Frames shorter than a test frame are not changed. */
void frame_reflect(struct frame *f);

#endif
