/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process has root's privileges only while it opens, inspects and closes ports: the threads
 * that move frames and read data from a network have none. Threads that a library starts while it
 * opens a port, to serve the other end, have none either.
 */
#ifndef SWITCHMARK_PRIVILEGES_H
#define SWITCHMARK_PRIVILEGES_H

/* Prevents execve from granting privileges: a program executed by a root process without privileges
 * would otherwise get all of them. Call it before any thread starts. */
void privileges_seal(void);

/* Raises or lowers the effective privileges of the calling thread. New threads inherit them. */
void privileges_raise(void);
void privileges_lower(void);

/* Drops the privileges of the calling thread permanently. */
void privileges_drop(void);

/* Makes all other threads of the process drop their privileges permanently, through a signal
 * handler that runs in each thread. Threads that block all signals keep them: only a sanitizer's
 * threads do. */
void privileges_drop_others(void);

#endif
