/* SPDX-License-Identifier: Apache-2.0 */
/* A wire made of a BPF program, for the switches that consist of one. */
#ifndef SWITCHMARK_REDIRECT_H
#define SWITCHMARK_REDIRECT_H

/*
 * Redirects all frames received on the interface `near` to `far`, by a program in the driver of
 * `near` (`hook` is "xdp") or at its existing clsact qdisc ("tc"). The program stays attached after
 * the process ends, until the interface is deleted. Returns the exit status: 0, 1 with the reason
 * on stderr, or 2 for wrong usage.
 */
int redirect_main(const char *hook, const char *near, const char *far);

#endif
