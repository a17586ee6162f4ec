/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that the agent starts, each in a session of its own, so that a signal can be for all of it. */
#ifndef SWITCHMARK_CHILD_H
#define SWITCHMARK_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts `words` with the descriptors as stdin, stdout and stderr, and `env` (NULL: nothing) added to the
 * environment. -1 with errno where there is no process, or no program. */
pid_t child_start(const int fds[3], char *const env[], char *const words[]);

/* The same, but a program that is missing is told on the process's stderr, and its status is 127. */
pid_t child_start_telling(const int fds[3], char *const words[]);

/* The ticks from the boot to the start of a process; 0 if there is none. */
uint64_t process_start_time(pid_t pid);

/* A pidfd of the process of this number and start time; -1 where it is gone. */
int process_open(pid_t pid, uint64_t start);

void process_fd_signal(int pidfd, int number);

/* Has it ended within so many ms? */
bool process_wait(int pidfd, int timeout_ms);

/* A file in memory with this content, to be read from its start; -1 with errno. */
int memory_file(const char *name, const uint8_t *content, size_t length);

/* Milliseconds of a clock that only goes on. */
int64_t now_ms(void);

#endif
