/* precision.c - one word that every thread may read. See precision.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/precision.h"

static _Atomic unsigned word; /* matmul, and 256 for deterministic */

td_precision td_precision_get(void) {
  unsigned w = word;
  return (td_precision){.matmul = (td_matmul_type)(w & 255),
                        .deterministic = w & 256};
}

void td_precision_set(td_precision p) {
  word = (unsigned)p.matmul | (p.deterministic ? 256u : 0);
}
