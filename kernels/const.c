/* const.c - Const: a tensor that the graph carries.
 *
 * It is brought into the device's memory once, when the program is compiled,
 * and never written: its buffer is read-only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "engine/base/mem.h"
#include "engine/device/kernel.h"

static td_status *const_infer(td_infer *c) {
  td_infer_out(c, 0, td_infer_attr(c, "value")->tensor->shape);
  return NULL;
}

/* Programs of one graph share the buffer and may be compiled at once. */
static void make_readonly(td_buffer *b) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  if (!b->readonly) b->readonly = true;
  pthread_mutex_unlock(&mutex);
}

static td_status *const_make(const td_kernel_info *info, void **state) {
  td_device *d = info->device;
  const td_tensor *value = td_node_attr(info->node, "value")->tensor;
  td_tensor *t = td_calloc(1, sizeof *t);
  if (!t) return td_oom();
  td_status *s = td_device_transfer_wait(d, value, d->memory, t);
  if (!td_ok(s)) {
    td_free(t);
    return s;
  }
  make_readonly(t->buffer);
  *state = t;
  return NULL;
}

static void const_drop(void *state) {
  td_tensor_release(state);
  td_free(state);
}

static td_status *const_run(td_kernel_ctx *c) {
  td_out_set(c, 0, c->kernel->state);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Const",
     .sig = "-> output: dtype; value: tensor; dtype: type",
     .shape = const_infer,
     .doc = "A constant tensor.",
     .lua = "constant",
     .kind = TD_OP_CONST,
     .flags = TD_CHEAP | TD_NO_GRADIENT,
     .section = "Graph plumbing, feeds/fetches, no-ops"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Const",
     .device = "CPU",
     .run = const_run,
     .make = const_make,
     .drop = const_drop,
     .flags = TD_KERNEL_INLINE | TD_KERNEL_OWN},
    {0},
};

TD_MODULE(const, ops, kernels)
