/* fake_libraries.c - a fake card has no libraries but those that a test names:
 * the real ones would look for a real card, which takes them long.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

__attribute__((constructor)) static void none(void) {
  (void)setenv("TIDE_CUDA_LIBS", "", 0);
}
