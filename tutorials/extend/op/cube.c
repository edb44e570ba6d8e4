/* cube.c - an op library: x^3, its kernel and its gradient.
 *
 * In Lua:  td.load_library("./cube.so");  td.cube(x)
 */
#include "engine/run/library.h"

static void cube_piece(void *arg, int64_t begin, int64_t end) {
  const float *x = ((float **)arg)[0];
  float *y = ((float **)arg)[1];
  for (int64_t i = begin; i < end; i++) y[i] = x[i] * x[i] * x[i];
}

static td_status *cube(td_kernel_ctx *c) {
  td_tensor *y;
  TD_TRY(td_out_like(c, 0, 0, &y)); /* in the input's memory where it may */
  void *both[2] = {td_in(c, 0)->data, y->data};
  td_for(c, td_tensor_count(y), 1 << 15, cube_piece, both);
  return NULL;
}

static const td_op_def ops[] = {
    {.type = "Cube",
     .sig = "x: T -> y: T; T: {float}",
     .shape = td_infer_same,
     .doc = "x * x * x, element by element."},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Cube", .device = "CPU", .types = "T=float", .run = cube},
    {0},
};

static const td_module module = {"cube", ops, kernels};
static const td_module *const modules[] = {&module, NULL};

extern const td_library td_library_record __asm__("td_library");
const td_library td_library_record = {
    .abi = TD_ABI,
    .sizes = TD_ABI_SIZES,
    .name = "cube",
    .modules = modules,
    .gradients = "local td = require 'tide'\n"
                 "td.register_gradient('Cube', function(op, dy)\n"
                 "  return dy * op.inputs[1] ^ 2 * 3\n"
                 "end)\n",
    .registry = td_modules,
};
