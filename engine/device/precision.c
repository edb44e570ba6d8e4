/* precision.c - one word that every thread may read. See precision.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/precision.h"

enum { DETERMINISTIC = 1 << 8, SYNC = 1 << 9 };

static _Atomic unsigned word; /* matmul, and these */

td_precision td_precision_get(void) {
  unsigned w = word;
  return (td_precision){.matmul = (td_matmul_type)(w & 255),
                        .deterministic = w & DETERMINISTIC,
                        .sync = w & SYNC};
}

void td_precision_set(td_precision p) {
  word = (unsigned)p.matmul | (p.deterministic ? DETERMINISTIC : 0) |
         (p.sync ? SYNC : 0);
}
