/* half_copy.c - float copies of whole float16 and bfloat16 tensors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/half_copy.h"

#include "kernels/cpu.h"

typedef struct copy {
  td_dtype half;
  float *wide;
  uint16_t *narrow;
} copy;

static void widen(void *arg, int64_t begin, int64_t end) {
  const copy *k = arg;
  td_half_load(k->half, end - begin, k->narrow + begin, k->wide + begin);
}

static void narrow(void *arg, int64_t begin, int64_t end) {
  const copy *k = arg;
  td_half_store(k->half, end - begin, k->wide + begin, k->narrow + begin);
}

td_status *td_half_copy_widen(td_kernel_ctx *c, const td_tensor *t,
                              td_tensor *held) {
  TD_TRY(td_temp(c, TD_FLOAT32, &t->shape, held));
  copy k = {t->dtype, held->data, t->data};
  td_for(c, td_tensor_count(t), TD_GRAIN, widen, &k);
  return NULL;
}

void td_half_copy_narrow(const td_kernel_ctx *c, const float *from,
                         const td_tensor *to) {
  copy k = {to->dtype, (float *)from, to->data};
  td_for(c, td_tensor_count(to), TD_GRAIN, narrow, &k);
}
