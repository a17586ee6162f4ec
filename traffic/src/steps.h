/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of each kind of task: how it begins a phase, steps, and finishes. */
#ifndef SWITCHMARK_STEPS_H
#define SWITCHMARK_STEPS_H

#include "task.h"

/* Select the functions that write and count frames. */
void sender_choose_step(struct sender *s, enum touch touch, enum form form);
void receiver_choose_step(struct receiver *r, enum touch touch, enum form form, enum timing timing);

/* True if the frames of a sender at full rate can be copies of one frame, made by its engine. */
bool sender_can_repeat(const struct sender *s, enum touch touch);

/* Each function moves at most one burst (a forwarder: in each direction) and returns the number of
 * frames moved. A sender that repeats moves as many as its engine sends in a few milliseconds. */
uint32_t sender_step(struct task *task, uint64_t now);
uint32_t receiver_step(struct task *task, uint64_t now);
uint32_t forwarder_step(struct task *task, uint64_t now);

void sender_begin(struct sender *s);
/* Begins a phase at `now`, after its start. Frames due before `now` are counted as missed and not
 * sent, because catching up would flood the switch. */
void sender_begin_late(struct sender *s, uint64_t now);
void receiver_begin(struct receiver *r);

/* For one of several cores, after all threads have stopped: turns frames that other cores have also
 * counted into duplicates. */
void receiver_finish(struct receiver *r);

/* Compares the headers of one frame with those expected for its flow and sequence number. */
void expected_headers_check(struct expected_headers *p, const struct frame *f, uint32_t flow,
			    uint32_t seq);

#endif
