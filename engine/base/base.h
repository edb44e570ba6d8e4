/* base.h - what every header of the engine opens with.
 *
 * TD_BEGIN / TD_END make a header's functions public (libtide.so hides
 * everything else) and give them C linkage, so that C17, C++17 and nvcc read
 * the same text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_BASE_H
#define TD_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define TD_BEGIN _Pragma("GCC visibility push(default)") extern "C" {
#define TD_END } _Pragma("GCC visibility pop")
#else
#define TD_BEGIN _Pragma("GCC visibility push(default)")
#define TD_END _Pragma("GCC visibility pop")
#endif

#define TD_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define TD_MUST_USE __attribute__((warn_unused_result))
#define TD_LIKELY(x) __builtin_expect(!!(x), 1)
#define TD_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* For a pointer or counter of each thread on a hot path: reached without a call
 * even in a library opened later. glibc keeps about 1.6 KB for these, so nothing
 * large. */
#define TD_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#define TD_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
