/* check_numerics.cu - CheckNumerics on a card, which tells what it finds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/cuda/launch.cuh"

namespace {

/* ---- the text ------------------------------------------------------------ */

/* The op's message, in which every % is doubled, and what is behind it. */
td_status *make(const td_kernel_info *info, void **state) {
  static const char more[] = " : Tensor had NaN or Inf values: element %lld of "
                             "%lld";
  const char *message = td_node_string(info->node, "message");
  char *text = (char *)td_calloc(2 * strlen(message) + sizeof more, 1);
  if (!text) return td_oom();
  char *to = text;
  for (const char *p = message; *p; p++) {
    if (*p == '%') *to++ = '%';
    *to++ = *p;
  }
  memcpy(to, more, sizeof more);
  *state = text;
  return nullptr;
}

/* ---- kernels ------------------------------------------------------------- */

/* Without its sign a float is infinite when it equals `inf`, a NaN above. */
template <class U>
__global__ void look(int64_t n, U inf, const U *x, td_cuda_report report) {
  TD_EACH(i, n) {
    U size = (U)(x[i] & (U)~((U)1 << (8 * sizeof(U) - 1)));
    if (size >= inf) td_cuda_tell(report, i, n);
  }
}

template <class U>
td_status *launch(td_kernel_ctx *c, U inf, td_cuda_report report) {
  const td_tensor *x = td_in(c, 0);
  int64_t n = td_tensor_count(x);
  return TD_LAUNCH(c, (look<U>), td_cuda_grid(c, n), TD_CUDA_BLOCK, 0, n, inf,
                   td_cuda_at<const U>(x), report);
}

td_status *by_type(td_kernel_ctx *c, td_cuda_report report) {
  switch ((int)td_in(c, 0)->dtype) {
  case TD_FLOAT16:
    return launch<uint16_t>(c, 0x7c00, report);
  case TD_BFLOAT16:
    return launch<uint16_t>(c, 0x7f80, report);
  case TD_FLOAT32:
    return launch<uint32_t>(c, 0x7f800000u, report);
  default:
    return launch<uint64_t>(c, (uint64_t)0x7ff << 52, report);
  }
}

td_status *run(td_kernel_ctx *c) {
  const char *text = static_cast<const char *>(c->kernel->state);
  if (td_tensor_count(td_in(c, 0)) > 0)
    TD_TRY(by_type(c, td_cuda_report_of(c, text)));
  td_out_pass(c, 0, 0);
  return nullptr;
}

#define ROW(op_)                                                               \
  {.op = op_,                                                                  \
   .device = "CUDA",                                                           \
   .types = "T=half|bfloat16|float|double",                                    \
   .run = run,                                                                 \
   .make = make,                                                               \
   .drop = td_free}

const td_kernel_def kernels[] = {
    ROW("CheckNumerics"),
    ROW("CheckNumericsV2"),
    {},
};

} // namespace

TD_CUDA_MODULE(check_numerics, kernels)
