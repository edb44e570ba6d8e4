/* cpu.c - the processor's instruction sets, its share, and its float mode.
 *
 * What is read from the processor and the environment is read once, so that a
 * later setenv cannot make two kernels of one process disagree.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/cpu.h"

#include <cpuid.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>

static const char *const names[] = {"scalar", "avx2", "avx512"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static td_isa best, in_force;
static char asked[32]; /* a TIDE_ISA that cannot be had, else empty */
static bool asked_known;

/* __builtin_cpu_supports also asks whether the system keeps the registers. */
static td_isa probe(void) {
  unsigned a, b, c, d;
  bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  if (!f16c || !__builtin_cpu_supports("avx2") ||
      !__builtin_cpu_supports("fma"))
    return TD_SCALAR;
  bool wide =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return wide ? TD_AVX512 : TD_AVX2;
}

static void read_once(void) {
  best = in_force = probe();
  const char *want = getenv("TIDE_ISA");
  if (!want || !*want) return;
  for (size_t i = 0; i < TD_COUNT(names); i++) {
    if (strcmp(want, names[i])) continue;
    asked_known = true;
    if ((td_isa)i > best) break;
    in_force = (td_isa)i;
    return;
  }
  memcpy(asked, want, strnlen(want, sizeof asked - 1));
}

td_isa td_cpu_isa(void) {
  pthread_once(&once, read_once);
  return in_force;
}

td_isa td_cpu_best(void) {
  pthread_once(&once, read_once);
  return best;
}

const char *td_isa_name(td_isa isa) {
  return (size_t)isa < TD_COUNT(names) ? names[isa] : "unknown";
}

td_status *td_cpu_check(void) {
  pthread_once(&once, read_once);
  if (!asked[0]) return NULL;
  if (asked_known)
    return td_error(TD_FAILED_PRECONDITION,
                    "TIDE_ISA=%s: this processor has %s at most", asked,
                    names[best]);
  return td_error(TD_INVALID_ARGUMENT,
                  "TIDE_ISA=%s: expected scalar, avx2 or avx512", asked);
}

enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040 };

unsigned td_cpu_flush_on(void) {
  unsigned was = _mm_getcsr();
  _mm_setcsr(was | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
  return was;
}

/* Only the two modes go back: exception flags raised meanwhile stay. */
void td_cpu_flush_restore(unsigned was) {
  unsigned modes = FLUSH_TO_ZERO | DENORMALS_ARE_ZERO;
  _mm_setcsr((_mm_getcsr() & ~modes) | (was & modes));
}
