/* rounds.h - how often a test does what it draws at random, and how long it
 * waits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_ROUNDS_H
#define TEST_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

/* make soak: the full counts. */
static inline bool soaked(void) {
  return getenv("TIDE_SOAK") != NULL;
}

/* How often: `few` times in make test, `many` in make soak; under a sanitizer,
 * which is five to ten times slower, a fifth of that. */
static inline int rounds(int few, int many) {
  int n = soaked() ? many : few;
  return SANITIZED ? (n + 4) / 5 : n;
}

/* ns that a wait for a state may last: on a machine that others use, too, what
 * takes a millisecond may take seconds. */
#define PATIENCE INT64_C(60000000000)

/* What is promised in time: held to it in make soak, where the machine is the
 * test's; else to PATIENCE. */
static inline int64_t in_time(int64_t promised) {
  return soaked() && !SANITIZED ? promised : PATIENCE;
}

/* The machine's own clock, whatever a simulator's says. */
static inline int64_t real_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

#endif
