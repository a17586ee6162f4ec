/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Root's privileges are there while ports are opened, looked at and closed, and at no other time:
 * who moves frames and reads what a network brings has none. Nor has a thread that a library starts
 * as it opens a port, and that serves the other end of it.
 */
#ifndef SWITCHMARK_PRIVILEGES_H
#define SWITCHMARK_PRIVILEGES_H

/* Before any other thread: what the process may execute has no more than its thread has then. A
 * root without privileges would have all of them again. */
void privileges_seal(void);

/* Of the calling thread: takes them back up; lays them down. Threads begin as who starts them. */
void privileges_raise(void);
void privileges_lower(void);

/* Gives up those of the calling thread for good. */
void privileges_drop(void);

/* Makes all other threads of the process give theirs up for good, by a signal that the kernel
 * runs on each. One that blocks all signals keeps them: only those of a sanitizer do. */
void privileges_drop_others(void);

#endif
