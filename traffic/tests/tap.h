/* SPDX-License-Identifier: Apache-2.0 */
/* TAP output for meson, and test macros. */
#ifndef SWITCHMARK_TAP_H
#define SWITCHMARK_TAP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static int tap_count, tap_failures;
static bool tap_failed;

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("# %s:%d: not so: %s\n", __FILE__, __LINE__, #condition);           \
			tap_failed = true;                                                         \
		}                                                                                  \
	} while (0)

/* Compares integers, and prints both if they differ. */
#define EXPECT_EQ(have, want)                                                                      \
	do {                                                                                       \
		long long tap_have = (long long)(have), tap_want = (long long)(want);              \
		if (tap_have != tap_want) {                                                        \
			printf("# %s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #have,       \
			       tap_have, tap_want);                                                \
			tap_failed = true;                                                         \
		}                                                                                  \
	} while (0)

/* Runs one test function; the function's name is the description. */
#define TEST(function)                                                                             \
	do {                                                                                       \
		tap_failed = false;                                                                \
		function();                                                                        \
		tap_failures += tap_failed;                                                        \
		printf("%s %d - %s\n", tap_failed ? "not ok" : "ok", ++tap_count, #function);      \
		fflush(stdout);                                                                    \
	} while (0)

#define SKIP(function, reason)                                                                     \
	do {                                                                                       \
		printf("ok %d - %s # SKIP %s\n", ++tap_count, #function, reason);                  \
		fflush(stdout);                                                                    \
	} while (0)

static inline int tap_end(void)
{
	printf("1..%d\n", tap_count);
	return tap_failures ? 1 : 0;
}

#endif
