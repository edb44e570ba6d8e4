/* matmul.c - products of matrices: MatMul, BatchMatMul.
 *
 * Shapes and operands are read here; the products are gemm.c's. The axes before
 * the last two count products; from BatchMatMulV2 on they broadcast. In V3
 * small integers may be multiplied in a wider dtype.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/matmul.h"

#include "kernels/array.h"
#include "kernels/cpu.h"
#include "kernels/blas/gemm.h"

/* ---- shapes -------------------------------------------------------------- */

static td_status *check_operand(const td_shape *s, const char *what,
                                td_matmul_form how) {
  td_shape_text text;
  if (s->rank < 0 || (how == TD_MATMUL_PLAIN ? s->rank == 2 : s->rank >= 2))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be of rank 2%s, not %s", what,
                  how == TD_MATMUL_PLAIN ? "" : " or more",
                  td_shape_str(s, &text));
}

static td_shape front_of(const td_shape *s) {
  td_shape f = *s;
  f.rank = s->rank - 2;
  return f;
}

static td_status *join_batches(const td_shape *a, const td_shape *b,
                               td_matmul_form how, td_shape *out) {
  td_shape_text at, bt;
  td_shape x = front_of(a), y = front_of(b);
  if (how == TD_MATMUL_BROADCAST ? td_shape_broadcast(&x, &y, out)
                                 : td_shape_merge(&x, &y, out))
    return NULL;
  return td_error(
      TD_INVALID_ARGUMENT, "the axes of %s and %s before the last two %s",
      td_shape_str(a, &at), td_shape_str(b, &bt),
      how == TD_MATMUL_BROADCAST ? "do not broadcast" : "must be equal");
}

/* Both ranks are known. */
static td_status *product_shape(const td_shape *a, const td_shape *b,
                                bool trans_a, bool trans_b, td_matmul_form how,
                                td_shape *out) {
  td_shape_text at, bt;
  int ra = a->rank, rb = b->rank;
  int64_t inner_a = a->dim[ra - (trans_a ? 2 : 1)];
  int64_t inner_b = b->dim[rb - (trans_b ? 1 : 2)];
  if (inner_a >= 0 && inner_b >= 0 && inner_a != inner_b)
    return td_error(TD_INVALID_ARGUMENT,
                    "cannot multiply %s%s by %s%s: %lld columns, %lld rows",
                    td_shape_str(a, &at), trans_a ? " transposed" : "",
                    td_shape_str(b, &bt), trans_b ? " transposed" : "",
                    (long long)inner_a, (long long)inner_b);
  TD_TRY(join_batches(a, b, how, out));
  out->rank += 2;
  out->dim[out->rank - 2] = a->dim[ra - (trans_a ? 1 : 2)];
  out->dim[out->rank - 1] = b->dim[rb - (trans_b ? 2 : 1)];
  return NULL;
}

static td_status *infer(td_infer *c, const char *const names[2], bool trans_a,
                        bool trans_b, td_matmul_form how) {
  const td_shape *a = td_infer_in(c, 0), *b = td_infer_in(c, 1);
  td_shape two = td_shape_ranked(2), out;
  TD_TRY(check_operand(a, names[0], how));
  TD_TRY(check_operand(b, names[1], how));
  if (how == TD_MATMUL_PLAIN && a->rank < 0) a = &two;
  if (how == TD_MATMUL_PLAIN && b->rank < 0) b = &two;
  if (a->rank < 0 || b->rank < 0) return NULL;
  TD_TRY(product_shape(a, b, trans_a, trans_b, how, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static const char *const ab[] = {"a", "b"}, *const xy[] = {"x", "y"};

static td_status *matmul_infer(td_infer *c) {
  return infer(c, ab, td_infer_bool(c, "transpose_a"),
               td_infer_bool(c, "transpose_b"), TD_MATMUL_PLAIN);
}

static td_status *batch_infer(td_infer *c) {
  return infer(c, xy, td_infer_bool(c, "adj_x"), td_infer_bool(c, "adj_y"),
               TD_MATMUL_EQUAL);
}

static td_status *batch_v2_infer(td_infer *c) {
  return infer(c, xy, td_infer_bool(c, "adj_x"), td_infer_bool(c, "adj_y"),
               TD_MATMUL_BROADCAST);
}

/* ---- running ------------------------------------------------------------- */

/* Where in `s` the product at `index` of the result's batch axes begins. */
static int64_t place_of(const td_shape *s, const td_shape *out, int64_t index) {
  int64_t at = 0, step = s->dim[s->rank - 2] * s->dim[s->rank - 1];
  for (int k = s->rank - 3, j = out->rank - 3; j >= 0; k--, j--) {
    int64_t i = index % out->dim[j];
    index /= out->dim[j];
    if (k < 0) continue;
    if (s->dim[k] > 1) at += i * step;
    step *= s->dim[k];
  }
  return at;
}

/* Fills an int64 tensor with {a, b, c} for each product. */
static td_status *place_all(td_kernel_ctx *c, const td_shape *out,
                            int64_t count, td_tensor *t) {
  const td_shape *a = &td_in(c, 0)->shape, *b = &td_in(c, 1)->shape;
  td_shape shape = td_shape_matrix(count, 3);
  TD_TRY(td_temp(c, TD_INT64, &shape, t));
  int64_t *at = t->data;
  for (int64_t i = 0; i < count; i++, at += 3) {
    at[0] = place_of(a, out, i);
    at[1] = place_of(b, out, i);
    at[2] = place_of(out, out, i);
  }
  return NULL;
}

static td_status *multiply(td_kernel_ctx *c, td_product *p, int64_t batch,
                           const int64_t *offsets, td_tensor *y) {
  const td_tensor *a = td_in(c, 0), *b = td_in(c, 1);
  if (td_is_half(y->dtype)) return td_gemm_half(c, p, batch, offsets, a, b, y);
  p->dtype = y->dtype;
  p->a = a->data;
  p->b = b->data;
  p->c = y->data;
  return td_gemm(c, p, batch, offsets);
}

td_status *td_matmul_of(const td_kernel_ctx *c, td_matmul_form how,
                        td_matmul *p) {
  const td_node *n = td_ctx_node(c);
  bool plain = how == TD_MATMUL_PLAIN;
  const char *const *names = plain ? ab : xy;
  const td_shape *a = &td_in(c, 0)->shape, *b = &td_in(c, 1)->shape;
  bool conj = !plain && td_dtype_is_complex(n->out[0].dtype);
  p->trans_a = td_node_bool(n, plain ? "transpose_a" : "adj_x");
  p->trans_b = td_node_bool(n, plain ? "transpose_b" : "adj_y");
  p->conj_a = conj && p->trans_a;
  p->conj_b = conj && p->trans_b;
  TD_TRY(check_operand(a, names[0], how));
  TD_TRY(check_operand(b, names[1], how));
  TD_TRY(product_shape(a, b, p->trans_a, p->trans_b, how, &p->out));
  TD_TRY(td_array_count(&p->out, NULL));
  p->batch = td_shape_span(&p->out, 0, p->out.rank - 2);
  p->m = p->out.dim[p->out.rank - 2];
  p->n = p->out.dim[p->out.rank - 1];
  p->k = a->dim[a->rank - (p->trans_a ? 2 : 1)];
  return NULL;
}

static td_status *run(td_kernel_ctx *c, td_matmul_form how) {
  const td_shape *a = &td_in(c, 0)->shape, *b = &td_in(c, 1)->shape;
  td_tensor places = {.dtype = TD_INVALID}, *y;
  td_matmul g;
  TD_TRY(td_matmul_of(c, how, &g));
  TD_TRY(td_out(c, 0, &g.out, &y));
  if (td_tensor_count(y) == 0) return NULL;
  td_product p = {.m = g.m,
                  .n = g.n,
                  .k = g.k,
                  .lda = a->dim[a->rank - 1],
                  .ldb = b->dim[b->rank - 1],
                  .ldc = g.n,
                  .trans_a = g.trans_a,
                  .trans_b = g.trans_b,
                  .conj_a = g.conj_a,
                  .conj_b = g.conj_b};
  if (g.batch > 1) TD_TRY(place_all(c, &g.out, g.batch, &places));
  td_status *s = multiply(c, &p, g.batch, g.batch > 1 ? places.data : NULL, y);
  td_tensor_release(&places);
  return s;
}

static td_status *matmul_run(td_kernel_ctx *c) {
  return run(c, TD_MATMUL_PLAIN);
}

static td_status *batch_run(td_kernel_ctx *c) {
  return run(c, TD_MATMUL_EQUAL);
}

static td_status *batch_v2_run(td_kernel_ctx *c) {
  return run(c, TD_MATMUL_BROADCAST);
}

/* Input i in the dtype of the result. */
static td_status *widen(td_kernel_ctx *c, int i) {
  td_tensor *x = &c->in[i], wide;
  td_dtype to = td_ctx_node(c)->out[0].dtype;
  if (x->dtype == to) return NULL;
  TD_TRY(td_temp(c, to, &x->shape, &wide));
  int64_t n = td_tensor_count(x);
  for (int64_t k = 0; k < n; k++)
    td_tensor_set_i(&wide, k, td_tensor_get_i(x, k));
  td_tensor_release(x);
  *x = wide;
  return NULL;
}

static td_status *batch_v3_run(td_kernel_ctx *c) {
  TD_TRY(widen(c, 0));
  TD_TRY(widen(c, 1));
  return run(c, TD_MATMUL_BROADCAST);
}

/* ---- cost -----------------------------------------------------------------
 */

/* A multiply-add for each element of the product and of what is summed over. */
static void product_cost(td_infer *c, td_cost *cost, const char *turned) {
  int summed = td_infer_bool(c, turned) ? -2 : -1;
  cost->flops =
      2 * td_infer_out_count(c, 0) * td_infer_size(td_infer_in(c, 0), summed);
}

static void matmul_cost(td_infer *c, td_cost *cost) {
  product_cost(c, cost, "transpose_a");
}

static void batch_cost(td_infer *c, td_cost *cost) {
  product_cost(c, cost, "adj_x");
}

/* ---- tables -------------------------------------------------------------- */

#define TYPES "T=half|bfloat16|float|double|int32|int64|complex64|complex128"

#define SMALL                                                                  \
  "{bfloat16, half, float, double, uint8, int8, int16, int32, int64, "         \
  "complex64, complex128}"
#define V3(which)                                                              \
  {                                                                            \
    .op = "BatchMatMulV3", .device = "CPU", .types = which,                    \
    .run = batch_v3_run                                                        \
  }
#define V3_SAME(t) V3("Ta=" t ", Tb=" t ", Tout=" t)

static const td_op_def ops[] = {
    {.type = "MatMul",
     .sig = "a: T, b: T -> product: T; "
            "transpose_a: bool = false; transpose_b: bool = false; "
            "T: {bfloat16, half, float, double, int32, int64, uint8, uint16, "
            "uint32, uint64, complex64, complex128}; "
            "grad_a: bool = false; grad_b: bool = false",
     .shape = matmul_infer,
     .cost = matmul_cost,
     .doc = "The product of two matrices, either transposed first.",
     .lua = "matmul",
     .example = "td.matmul(td.tensor{{1, 2}}, td.tensor{{3}, {4}})  --> 11",
     .section = "Matrix / linear algebra"},
    {.type = "BatchMatMul",
     .sig = "x: T, y: T -> output: T; "
            "T: {bfloat16, half, float, double, int32, int64, complex64, "
            "complex128}; "
            "adj_x: bool = false; adj_y: bool = false; "
            "grad_x: bool = false; grad_y: bool = false",
     .shape = batch_infer,
     .cost = batch_cost,
     .doc = "Products of the matrices in the last two axes, either transposed "
            "and conjugated first.",
     .lua = "",
     .section = "Matrix / linear algebra"},
    {.type = "BatchMatMulV2",
     .sig = "x: T, y: T -> output: T; "
            "T: {bfloat16, half, float, double, int16, int32, int64, uint8, "
            "uint16, uint32, uint64, complex64, complex128}; "
            "adj_x: bool = false; adj_y: bool = false; "
            "grad_x: bool = false; grad_y: bool = false",
     .shape = batch_v2_infer,
     .cost = batch_cost,
     .doc = "Products of the matrices in the last two axes, either transposed "
            "and conjugated first; the axes before broadcast.",
     .lua = "batch_matmul",
     .example = "td.batch_matmul({{{1, 2}}}, {{{3}, {4}}})  --> 11",
     .section = "Matrix / linear algebra"},
    {.type = "BatchMatMulV3",
     .sig = "x: Ta, y: Tb -> output: Tout; Ta: " SMALL "; Tb: " SMALL "; "
            "Tout: {bfloat16, half, float, double, int16, int32, int64, "
            "complex64, complex128}; "
            "adj_x: bool = false; adj_y: bool = false; "
            "grad_x: bool = false; grad_y: bool = false",
     .shape = batch_v2_infer,
     .cost = batch_cost,
     .doc = "The products of BatchMatMulV2; small integers are multiplied in "
            "int32 or bfloat16.",
     .lua = "",
     .section = "Matrix / linear algebra"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "MatMul", .device = "CPU", .types = TYPES, .run = matmul_run},
    {.op = "BatchMatMul", .device = "CPU", .types = TYPES, .run = batch_run},
    {.op = "BatchMatMulV2",
     .device = "CPU",
     .types = TYPES "|int16",
     .run = batch_v2_run},
    V3_SAME("half"),
    V3_SAME("bfloat16"),
    V3_SAME("float"),
    V3_SAME("double"),
    V3_SAME("int16"),
    V3_SAME("int32"),
    V3_SAME("int64"),
    V3_SAME("complex64"),
    V3_SAME("complex128"),
    V3("Ta=int8|uint8, Tb=int8|uint8, Tout=int32"),
    V3("Ta=int8|uint8, Tb=bfloat16, Tout=bfloat16"),
    V3("Ta=bfloat16, Tb=int8|uint8, Tout=bfloat16"),
    {0},
};

TD_MODULE(matmul, ops, kernels)
