/* SPDX-License-Identifier: Apache-2.0 */
/* Hints to the compiler. */
#ifndef SWITCHMARK_INLINE_H
#define SWITCHMARK_INLINE_H

#define always_inline static inline __attribute__((always_inline))
#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

#endif
