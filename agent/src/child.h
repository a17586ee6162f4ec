/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that the agent starts, each in a separate session, so that a signal can reach the whole
 * session. */
#ifndef SWITCHMARK_CHILD_H
#define SWITCHMARK_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts `words` with the descriptors as stdin, stdout and stderr, and adds `env` (NULL: nothing)
 * to the environment. Returns -1 with errno if the process or the program cannot be started. */
pid_t child_start(const int fds[3], char *const env[], char *const words[]);

/* The same, but a missing program is reported on the process's stderr, and the process exits with
 * status 127. */
pid_t child_start_telling(const int fds[3], char *const words[]);

/* Returns the start time of a process in ticks since the boot; 0 if it does not exist. */
uint64_t process_start_time(pid_t pid);

/* Returns a pidfd of the process with this pid and start time; -1 if it has ended. */
int process_open(pid_t pid, uint64_t start);

void process_fd_signal(int pidfd, int number);

/* Returns true if the process ends within `timeout_ms`. */
bool process_wait(int pidfd, int timeout_ms);

/* Returns a file in memory with this content, positioned at its start; -1 with errno. */
int memory_file(const char *name, const uint8_t *content, size_t length);

/* Returns milliseconds of a monotonic clock. */
int64_t now_ms(void);

#endif
