/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Root's privileges are there while ports are opened, looked at and closed, and at no other time: who
 * moves frames and reads what a network brings has none.
 */
#ifndef SWITCHMARK_PRIVILEGES_H
#define SWITCHMARK_PRIVILEGES_H

/* Of the calling thread: takes them back up; lays them down. Threads begin as who starts them. */
void privileges_raise(void);
void privileges_lower(void);

/* Gives up those of the calling thread for good. */
void privileges_drop(void);

#endif
