/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other places where commands run: a host at the other end of a connection, or a virtual machine, where `init` is
 * the first process, `boot` starts the machine and holds the one connection to it, and `enter` runs a command
 * in it.
 */
#ifndef SWITCHMARK_MACHINE_H
#define SWITCHMARK_MACHINE_H

/* The guest's first process: mounts, modules, names of the NICs; then it serves the virtio
   port `switchmark` until the host has gone, and turns the machine off. Does not return. */
int guest_init(void);

/* Starts, feeds, signals and reaps processes, reads and writes files, and holds the undos of runs, as the frames
   on `in` say and until these end: then what is held is undone, and processes that are left are killed. 0, or 70
   without memory. */
int agent_serve(int in, int out);

/* Starts `argv`, a machine whose port is its file descriptor BOOT_FD, and serves those who
   enter by the UNIX socket at `path`. Ends with the machine, and ends it by SIGTERM, SIGINT
   and the end of stdin. The exit status is the machine's. */
int boot(const char *path, char *const argv[]);

#define BOOT_FD 3

/* Runs `argv` in the machine behind the socket `path`, with this process's stdin, stdout,
   stderr and signals. The exit status is the command's; 125 when there is no machine. */
int enter(const char *path, char *const argv[]);

#endif
