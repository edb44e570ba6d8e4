/* rounds.h - how often a test does what it draws at random.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_ROUNDS_H
#define TEST_ROUNDS_H

#include <stdbool.h>
#include <stdlib.h>

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

#endif
