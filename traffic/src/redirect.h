/* SPDX-License-Identifier: Apache-2.0 */
/* A wire made of a BPF program, for the switches that are one. */
#ifndef SWITCHMARK_REDIRECT_H
#define SWITCHMARK_REDIRECT_H

/*
 * From now on what comes in at the interface `near` goes out at `far`, by a program in the driver
 * of `near` (`hook` is "xdp"), or behind it, at its qdisc clsact, which is there ("tc"). It stays
 * when the process ends, and goes with the interface. The exit status: 0, or 1 with the reason on
 * stderr, 2 for wrong usage.
 */
int redirect_main(const char *hook, const char *near, const char *far);

#endif
