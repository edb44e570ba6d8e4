/* cost.c - what runs are said to take, against counts by hand.
 *
 * tests/rows asks of every op whether it is a number at all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"

enum { MOST = 12 };

#define S(...)                                                                 \
  {                                                                            \
    .rank = (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), .dim = {        \
      __VA_ARGS__                                                              \
    }                                                                          \
  }
#define SCALAR                                                                 \
  { .rank = 0 }
#define IMAGE S(2, 8, 8, 4)

/* Floats where the op allows them. Attributes as "ksize={1,2} padding=SAME". */
static const struct {
  const char *op, *attrs;
  int n_in, n_out;
  td_shape in[MOST], out[MOST];
  double flops, bytes; /* bytes -1: not looked at */
} rows[] = {
    /* element-wise: one for each element; all is read and written */
    {"AddV2", "", 2, 1, {S(3, 4), S(4)}, {S(3, 4)}, 12, 4 * (12 + 4 + 12)},
    {"Tanh", "", 1, 1, {S(5)}, {S(5)}, 5, 40},
    {"Less", "", 2, 1, {S(5), S(5)}, {S(5)}, 0, 45},
    {"AddN", "N=3", 3, 1, {S(5), S(5), S(5)}, {S(5)}, 10, 80},
    /* what hands on or moves */
    {"Identity", "", 1, 1, {S(5)}, {S(5)}, 0, 0},
    {"Reshape", "", 2, 1, {S(6), S(2)}, {S(2, 3)}, 0, 0},
    {"Shape", "", 1, 1, {S(6, 7)}, {S(2)}, 0, 0},
    {"ReadVariableOp", "dtype=float", 1, 1, {SCALAR}, {S(9)}, 0, 0},
    {"Enter", "frame_name=x", 1, 1, {S(5)}, {S(5)}, 0, 0},
    {"Transpose", "", 2, 1, {S(2, 3), S(2)}, {S(3, 2)}, 0, 8 * 6 + 8},
    {"GatherV2", "", 3, 1, {S(1000, 5), S(2), SCALAR}, {S(2, 5)}, 0, 80},
    {"Slice", "", 3, 1, {S(1000), S(1), S(1)}, {S(3)}, 0, 24},
    {"Fill", "", 2, 1, {S(2), SCALAR}, {S(3, 4)}, 0, 48},
    {"AccumulatorApplyGradient",
     "",
     3,
     0,
     {SCALAR, SCALAR, S(7)},
     {SCALAR},
     7,
     -1},
    {"AccumulatorTakeGradient",
     "dtype=float",
     2,
     1,
     {SCALAR, SCALAR},
     {S(7)},
     0,
     -1},
    {"StackPushV2", "T=float", 2, 1, {SCALAR, S(7)}, {S(7)}, 0, 0},
    {"TensorArrayReadV3",
     "dtype=float",
     3,
     1,
     {SCALAR, SCALAR, SCALAR},
     {S(7)},
     0,
     0},
    {"TensorArrayGatherV3",
     "dtype=float",
     3,
     1,
     {SCALAR, S(2), SCALAR},
     {S(2, 7)},
     0,
     112},
    /* 5 n log2 n for each transform; of reals half */
    {"FFT2D", "", 1, 1, {S(3, 8, 4)}, {S(3, 8, 4)}, 5 * 96 * 5, -1},
    {"AudioSpectrogram",
     "window_size=8 stride=4",
     1,
     1,
     {S(20, 2)},
     {S(2, 4, 5)},
     5 * 40 * 3,
     -1},
    {"Mfcc",
     "",
     2,
     1,
     {S(2, 3, 65), SCALAR},
     {S(2, 3, 13)},
     2 * 40 * 78 + 5 * 390,
     -1},
    {"RFFT", "", 2, 1, {S(3, 8), S(1)}, {S(3, 5)}, 2.5 * 24 * 3, -1},
    {"IRFFT", "", 2, 1, {S(3, 5), S(1)}, {S(3, 8)}, 2.5 * 24 * 3, -1},
    /* products */
    {"MatMul",
     "",
     2,
     1,
     {S(100, 784), S(784, 128)},
     {S(100, 128)},
     2.0 * 100 * 784 * 128,
     4.0 * (100 * 784 + 784 * 128 + 100 * 128)},
    {"MatMul",
     "transpose_a=true",
     2,
     1,
     {S(3, 5), S(3, 7)},
     {S(5, 7)},
     2 * 3 * 5 * 7,
     -1},
    {"BatchMatMulV2",
     "adj_x=true",
     2,
     1,
     {S(4, 3, 5), S(3, 7)},
     {S(4, 5, 7)},
     4 * 2 * 3 * 5 * 7,
     -1},
    {"Einsum",
     "N=2 equation=bij,bjk->bik",
     2,
     1,
     {S(4, 3, 5), S(4, 5, 7)},
     {S(4, 3, 7)},
     4 * 2 * 3 * 5 * 7,
     -1},
    {"Einsum", "N=1 equation=ij->i", 1, 1, {S(3, 5)}, {S(3)}, 15, -1},
    {"SparseTensorDenseMatMul",
     "",
     4,
     1,
     {S(6, 2), S(6), S(2), S(3, 5)},
     {S(4, 5)},
     2 * 6 * 5,
     -1},
    /* reductions */
    {"Sum", "", 2, 1, {S(3, 4), S(1)}, {S(3)}, 12, 4 * (12 + 1 + 3)},
    {"ArgMax", "", 2, 1, {S(3, 4), SCALAR}, {S(3)}, 12, -1},
    {"L2Loss", "", 1, 1, {S(3, 4)}, {SCALAR}, 12, -1},
    {"BiasAddGrad", "", 1, 1, {S(3, 4)}, {S(4)}, 12, -1},
    {"SegmentSum", "", 2, 1, {S(6, 4), S(6)}, {S(2, 4)}, 24, -1},
    {"SparseSegmentSum",
     "",
     3,
     1,
     {S(1000, 4), S(6), S(6)},
     {S(2, 4)},
     24,
     4 * 24 + 2 * 6 * 4 + 32},
    {"Softmax", "", 1, 1, {S(3, 4)}, {S(3, 4)}, 60, -1},
    /* convolutions: of x, of the filter, of its own */
    {"Conv2D",
     "strides={1,2,2,1} padding=SAME",
     2,
     1,
     {IMAGE, S(3, 3, 4, 6)},
     {S(2, 4, 4, 6)},
     2.0 * 192 * 3 * 3 * 4,
     -1},
    {"Conv2DBackpropInput",
     "strides={1,2,2,1} padding=SAME",
     3,
     1,
     {S(4), S(3, 3, 4, 6), S(2, 4, 4, 6)},
     {IMAGE},
     2.0 * 192 * 3 * 3 * 4,
     -1},
    {"Conv2DBackpropFilter",
     "strides={1,2,2,1} padding=SAME",
     3,
     1,
     {IMAGE, S(4), S(2, 4, 4, 6)},
     {S(3, 3, 4, 6)},
     2.0 * 192 * 3 * 3 * 4,
     -1},
    {"Conv3D",
     "strides={1,1,1,1,1} padding=SAME",
     2,
     1,
     {S(1, 2, 3, 4, 5), S(3, 3, 3, 5, 6)},
     {S(1, 2, 3, 4, 6)},
     2.0 * 144 * 27 * 5,
     -1},
    {"DepthwiseConv2dNative",
     "strides={1,1,1,1} padding=SAME",
     2,
     1,
     {IMAGE, S(3, 3, 4, 2)},
     {S(2, 8, 8, 8)},
     2.0 * 2 * 8 * 8 * 8 * 3 * 3,
     -1},
    {"DepthwiseConv2dNativeBackpropInput",
     "strides={1,1,1,1} padding=SAME",
     3,
     1,
     {S(4), S(3, 3, 4, 2), S(2, 8, 8, 8)},
     {IMAGE},
     2.0 * 2 * 8 * 8 * 8 * 3 * 3,
     -1},
    {"Dilation2D",
     "strides={1,1,1,1} rates={1,1,1,1} padding=SAME",
     2,
     1,
     {IMAGE, S(3, 2, 4)},
     {IMAGE},
     2 * 512 * 3 * 2,
     -1},
    {"Dilation2DBackpropFilter",
     "strides={1,1,1,1} rates={1,1,1,1} padding=SAME",
     3,
     1,
     {IMAGE, S(3, 2, 4), IMAGE},
     {S(3, 2, 4)},
     2 * 512 * 3 * 2,
     -1},
    /* pooling: each cell of each window */
    {"MaxPool",
     "ksize={1,2,2,1} strides={1,2,2,1} padding=SAME",
     1,
     1,
     {IMAGE},
     {S(2, 4, 4, 4)},
     128 * 4,
     -1},
    {"MaxPoolGrad",
     "ksize={1,2,2,1} strides={1,2,2,1} padding=SAME",
     3,
     1,
     {IMAGE, S(2, 4, 4, 4), S(2, 4, 4, 4)},
     {IMAGE},
     128 * 4,
     -1},
    {"AvgPoolGrad",
     "ksize={1,2,2,1} strides={1,2,2,1} padding=SAME",
     2,
     1,
     {S(4), S(2, 4, 4, 4)},
     {IMAGE},
     128 * 4,
     -1},
    {"MaxPoolV2",
     "padding=SAME",
     3,
     1,
     {IMAGE, S(4), S(4)},
     {S(2, 4, 4, 4)},
     NAN,
     -1}, /* the window is an operand, not known here */
    {"MaxPoolWithArgmax",
     "ksize={1,2,2,1} strides={1,2,2,1} padding=SAME",
     1,
     2,
     {IMAGE},
     {S(2, 4, 4, 4), S(2, 4, 4, 4)},
     128 * 4,
     -1},
    /* normalisation, pictures, sequences */
    {"FusedBatchNormV3",
     "is_training=false",
     5,
     6,
     {IMAGE, S(4), S(4), S(4), S(4)},
     {IMAGE, S(4), S(4), S(4), S(4), S(0)},
     2 * 512,
     -1},
    {"FusedBatchNormV3",
     "is_training=true",
     5,
     6,
     {IMAGE, S(4), S(4), S(4), S(4)},
     {IMAGE, S(4), S(4), S(4), S(4), S(0)},
     6 * 512,
     -1},
    {"LRN", "depth_radius=2", 1, 1, {IMAGE}, {IMAGE}, 512 * (2 * 5 + 3), -1},
    {"LRNGrad",
     "depth_radius=2",
     3,
     1,
     {IMAGE, IMAGE, IMAGE},
     {IMAGE},
     2 * 512 * (2 * 5 + 3),
     -1},
    {"ResizeBilinear",
     "",
     2,
     1,
     {IMAGE, S(2)},
     {S(2, 16, 16, 4)},
     8 * 2 * 16 * 16 * 4,
     -1},
    {"ResizeBicubic",
     "",
     2,
     1,
     {IMAGE, S(2)},
     {S(2, 16, 16, 4)},
     32 * 2 * 16 * 16 * 4,
     -1},
    {"ResizeNearestNeighbor",
     "",
     2,
     1,
     {IMAGE, S(2)},
     {S(2, 16, 16, 4)},
     0,
     -1},
    {"CTCLoss",
     "",
     4,
     2,
     {S(5, 2, 4), S(2, 2), S(2), S(2)},
     {S(2), S(5, 2, 4)},
     9 * 40,
     -1},
    {"CTCBeamSearchDecoder",
     "beam_width=3 top_paths=1",
     2,
     4,
     {S(5, 2, 4), S(2)},
     {S(1, 2), S(1), S(2), S(2, 1)},
     3 * 40,
     -1},
    {"BlockLSTM",
     "",
     9,
     7,
     {SCALAR, S(20, 32, 64), S(32, 128), S(32, 128), S(192, 512), S(128),
      S(128), S(128), S(512)},
     {S(20, 32, 128), S(20, 32, 128), S(20, 32, 128), S(20, 32, 128),
      S(20, 32, 128), S(20, 32, 128), S(20, 32, 128)},
     2.0 * 20 * 32 * 192 * 512,
     -1},
    {"GRUBlockCell",
     "",
     6,
     4,
     {S(3, 5), S(3, 7), S(12, 14), S(12, 7), S(14), S(7)},
     {S(3, 7), S(3, 7), S(3, 7), S(3, 7)},
     2 * 3 * 12 * 21,
     -1},
    /* matrices */
    {"Cholesky", "", 1, 1, {S(2, 6, 6)}, {S(2, 6, 6)}, 2 * 216 / 3, -1},
    {"MatrixSolve",
     "",
     2,
     1,
     {S(6, 6), S(6, 3)},
     {S(6, 3)},
     216 * 2 / 3 + 2 * 6 * 6 * 3,
     -1},
    /* variables: read and written; a slot as well */
    {"AssignAddVariableOp", "", 2, 0, {SCALAR, S(10)}, {SCALAR}, 10, 120},
    {"ResourceScatterAdd",
     "",
     3,
     0,
     {SCALAR, S(2), S(2, 5)},
     {SCALAR},
     10,
     3 * 40 + 8},
    {"ResourceApplyGradientDescent",
     "",
     3,
     0,
     {SCALAR, SCALAR, S(10)},
     {SCALAR},
     20,
     120},
    {"ResourceApplyMomentum",
     "",
     5,
     0,
     {SCALAR, SCALAR, SCALAR, S(10), SCALAR},
     {SCALAR},
     60,
     200},
    /* what is not known */
    {"Tanh", "", 1, 1, {S(5, -1)}, {S(5, -1)}, NAN, NAN},
    {"MatMul", "", 2, 1, {S(-1, 7), S(7, 2)}, {S(-1, 2)}, NAN, NAN},
    {"StringLength", "", 1, 1, {S(5)}, {S(5)}, 0, 5 * 8 + 5 * 4},
};

/* ---- building ------------------------------------------------------------ */

static td_dtype dtype_of(const td_op *op, int arg) {
  const td_arg *a = &op->in[arg < op->n_in ? arg : op->n_in - 1];
  if (a->type != TD_INVALID) return a->type;
  uint32_t allowed = op->attr[a->type_attr].types;
  if (!allowed || allowed >> TD_FLOAT32 & 1) return TD_FLOAT32;
  return allowed >> TD_INT32 & 1 ? TD_INT32 : TD_COMPLEX64;
}

static td_edge input(td_graph *g, td_dtype dtype, const td_shape *shape) {
  td_build b;
  td_edge e = {NULL, 0};
  td_build_init(&b, g, "Placeholder", NULL);
  td_build_attr(&b, "dtype", td_attr_type(dtype));
  td_build_attr(&b, "shape", td_attr_shape(shape));
  OK(td_build_node(&b, &e.node));
  return e;
}

/* One "name=value"; `ints` and `text` must live until the node is built. */
static void set_attr(td_build *b, const td_op *op, char *word, int64_t *ints) {
  char *value = strchr(word, '=');
  *value++ = 0;
  int i = td_op_attr(op, word), n = 0;
  assert_true(i >= 0);
  switch (op->attr[i].kind) {
  case TD_ATTR_BOOL:
    td_build_attr(b, word, td_attr_bool(value[0] == 't'));
    break;
  case TD_ATTR_TYPE:
    td_build_attr(b, word, td_attr_type(TD_FLOAT32));
    break;
  case TD_ATTR_STRING:
    td_build_attr(b, word, td_attr_string(value));
    break;
  default:
    if (!op->attr[i].is_list) {
      td_build_attr(b, word, td_attr_int(atoll(value)));
      break;
    }
    for (char *at = value; *at && *at != '}';)
      ints[n++] = strtoll(at + 1, &at, 10);
    td_build_attr(b, word, td_attr_ints(ints, n));
  }
}

static void test_by_hand(void **state) {
  (void)state;
  for (size_t r = 0; r < TD_COUNT(rows); r++) {
    td_graph *g;
    td_build b;
    td_node *n;
    td_edge in[MOST];
    char text[128], *save = NULL;
    int64_t ints[4][8];
    int k = 0;
    OK(td_graph_new(&g));
    const td_op *op = td_op_find(rows[r].op);
    if (!op) fail_msg("no op %s", rows[r].op);
    for (int i = 0; i < rows[r].n_in; i++)
      in[i] = input(g, dtype_of(op, i), &rows[r].in[i]);
    td_build_init(&b, g, rows[r].op, NULL);
    td_build_flat(&b, in, rows[r].n_in);
    snprintf(text, sizeof text, "%s", rows[r].attrs);
    for (char *w = strtok_r(text, " ", &save); w;
         w = strtok_r(NULL, " ", &save))
      set_attr(&b, op, w, ints[k++]);
    td_status *s = td_build_node(&b, &n);
    if (s) fail_msg("%s: %s", rows[r].op, td_status_message(s));
    assert_int_equal(n->n_out, rows[r].n_out);
    td_cost cost;
    td_infer_cost(n, rows[r].in, rows[r].out, &cost);
    bool same =
        isnan(rows[r].flops) ? isnan(cost.flops) : cost.flops == rows[r].flops;
    if (!same)
      fail_msg("%s: %g flops, not %g", rows[r].op, cost.flops, rows[r].flops);
    same =
        isnan(rows[r].bytes) ? isnan(cost.bytes) : cost.bytes == rows[r].bytes;
    if (rows[r].bytes != -1 && !same)
      fail_msg("%s: %g bytes, not %g", rows[r].op, cost.bytes, rows[r].bytes);
    td_graph_release(g);
  }
}

/* What the engine hands on costs nothing, unless its row says otherwise. */
static void test_of_the_engine(void **state) {
  (void)state;
  for (int i = 0; i < td_op_count(); i++)
    if (td_op_at(i)->kind != TD_OP_PLAIN) assert_null(td_op_at(i)->def->cost);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_hand),
      cmocka_unit_test(test_of_the_engine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
