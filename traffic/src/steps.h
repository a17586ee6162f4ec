/* SPDX-License-Identifier: Apache-2.0 */
/* The step functions of each kind of task, and how they begin a phase. Internal to the loop. */
#ifndef SWITCHMARK_STEPS_H
#define SWITCHMARK_STEPS_H

#include "loop.h"

/* Select the functions that write and count frames. */
void sender_choose_step(struct sender *s, enum touch touch, enum form form);
void receiver_choose_step(struct receiver *r, enum touch touch, enum form form, enum timing timing);

/* Each function moves at most one burst (a forwarder: in each direction) and returns the number of
 * frames moved. */
uint32_t sender_step(struct task *task, uint64_t now);
uint32_t receiver_step(struct task *task, uint64_t now);
uint32_t forwarder_step(struct task *task, uint64_t now);

void sender_begin(struct sender *s);
/* Begins a phase at `now`, after its start. Frames due before `now` are counted as missed and not
 * sent, because catching up would flood the switch. */
void sender_begin_late(struct sender *s, uint64_t now);
void receiver_begin(struct receiver *r);

#endif
