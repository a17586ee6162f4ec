/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other places that run commands: a host at the other end of a connection, or a virtual machine,
 * where `init` is the first process, `boot` starts the machine and holds the only connection to it,
 * and `enter` runs a command in it.
 */
#ifndef SWITCHMARK_MACHINE_H
#define SWITCHMARK_MACHINE_H

/* The guest's first process: mounts file systems, loads modules and renames NICs; then serves
 * the virtio port `switchmark` until the host closes it, and powers the machine off. Does not
 * return. */
int guest_init(void);

/* Executes the requests in the frames on `in`: starts, feeds, signals and reaps processes, reads
 * and writes files, and holds the undos of runs. At the end of `in` it executes the undos and kills
 * the remaining processes. Returns 0, or 70 without memory. */
int agent_serve(int in, int out);

/* Starts `argv`, a machine whose port is its file descriptor BOOT_FD, and serves clients at the
 * UNIX socket `path`. Ends with the machine; SIGTERM, SIGINT and the end of stdin end the machine.
 * Returns the machine's exit status. */
int boot(const char *path, char *const argv[]);

#define BOOT_FD 3

/* Runs `argv` in the machine behind the socket `path`, with the stdin, stdout, stderr and signals
 * of this process. Returns the exit status of the command; 125 if there is no machine. */
int enter(const char *path, char *const argv[]);

#endif
