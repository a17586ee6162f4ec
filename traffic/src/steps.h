/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of each kind of task, and how a phase begins for it: between the files of the loop. */
#ifndef SWITCHMARK_STEPS_H
#define SWITCHMARK_STEPS_H

#include "loop.h"

/* Which functions write frames and count them. */
void sender_choose_step(struct sender *s, enum touch touch, enum form form);
void receiver_choose_step(struct receiver *r, enum touch touch, enum form form, enum timing timing);

/* Each moves one burst at most (a forwarder: in each direction) and returns how many frames it
 * moved. */
uint32_t sender_step(struct task *task, uint64_t now);
uint32_t receiver_step(struct task *task, uint64_t now);
uint32_t forwarder_step(struct task *task, uint64_t now);

void sender_begin(struct sender *s);
/* A phase that began `now`, after its start: what was due before then is not made up for, as that
 * would be a flood; it is missed. */
void sender_begin_late(struct sender *s, uint64_t now);
void receiver_begin(struct receiver *r);

#endif
