/* matrix_diag.c - diagonals of the matrices in the last two axes: MatrixDiag,
 * MatrixDiagPart, MatrixSetDiag and their V3, MatrixBandPart.
 *
 * Diagonal d holds the elements whose column is d more than their row. Several,
 * upper to lower, are packed as rows of the longest one's length; shorter ones
 * are aligned to the left or to the right. The ops without k are the band
 * [0, 0]. Every diagonal is one strided copy over all matrices.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/linalg.h"
#include "kernels/moves.h"
#include "kernels/row_plans.h"
#include "kernels/strided_copy.h"
#include "kernels/operand.h"
#include "kernels/array.h"

/* ---- bands --------------------------------------------------------------- */

typedef struct band {
  int64_t rows, cols;          /* of a matrix; -1: not known */
  int64_t lower, upper;        /* diagonals */
  bool known;                  /* lower and upper are */
  bool left_above, left_below; /* alignment of d > 0, d < 0 */
} band;

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static int64_t length_of(const band *b, int64_t d) {
  return least(b->rows + least(d, 0), b->cols - most(d, 0));
}

/* Of the longest diagonal; -1 while the sizes are not known. */
static int64_t longest(const band *b) {
  if (b->rows < 0 || b->cols < 0 || !b->known) return -1;
  return least(b->rows + least(b->upper, 0), b->cols - most(b->lower, 0));
}

static void align(band *b, const char *how) {
  b->left_above = strncmp(how, "LEFT", 4) == 0;
  b->left_below = strlen(how) > 4 && strcmp(strchr(how, '_'), "_LEFT") == 0;
}

static td_status *set_k(band *b, const td_small *k) {
  if (k->rank > 1 || k->count < 1 || k->count > 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "k must be a diagonal or two, {lower, upper}, not %d "
                    "numbers",
                    k->count);
  b->known = td_operand_known(k);
  if (!b->known) return NULL;
  b->lower = k->at[0];
  b->upper = k->at[k->count - 1];
  if (b->lower <= b->upper) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "k must be {lower, upper}, not {%lld, %lld}",
                  (long long)b->lower, (long long)b->upper);
}

/* Are both diagonals in the matrix? Without elements only the main one is. */
static td_status *check_range(const band *b) {
  if (!b->known || b->rows < 0 || b->cols < 0) return NULL;
  bool low = b->lower == 0 || (b->lower > -b->rows && b->lower < b->cols);
  bool high = b->upper == 0 || (b->upper > -b->rows && b->upper < b->cols);
  if (low && high) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "k is {%lld, %lld}; a matrix of %lld rows and %lld columns "
                  "has diagonals %lld to %lld",
                  (long long)b->lower, (long long)b->upper, (long long)b->rows,
                  (long long)b->cols, (long long)(b->rows ? 1 - b->rows : 0),
                  (long long)(b->cols ? b->cols - 1 : 0));
}

/* The sizes of the matrices in `s`, of known rank. */
static td_status *set_matrix(band *b, const td_shape *s) {
  b->rows = s->dim[s->rank - 2];
  b->cols = s->dim[s->rank - 1];
  return check_range(b);
}

/* What the band of matrices `s` is packed into; *packed is of unknown rank
 * while k is not known. */
static td_shape packed_shape(const band *b, const td_shape *s) {
  int64_t length = longest(b), two[2] = {b->upper - b->lower + 1, length};
  if (!b->known) return td_shape_unknown();
  return two[0] == 1 ? td_linalg_shape(s, 1, &length)
                     : td_linalg_shape(s, 2, two);
}

/* Moves the band between matrices and rows, of `count` matrices. */
static td_status *move_band(td_kernel_ctx *c, const band *b, int64_t count,
                            size_t size, bool to_matrix, const void *from,
                            void *to) {
  int64_t length = longest(b), matrix = b->rows * b->cols;
  int64_t all = (b->upper - b->lower + 1) * length;
  int64_t first_in = most(b->lower, 1 - b->rows);
  int64_t last_in = least(b->upper, b->cols - 1);
  for (int64_t d = first_in; d <= last_in; d++) {
    td_strided_copy m;
    td_strided_copy_init(&m);
    int64_t n = length_of(b, d);
    bool left = (d >= 0 && b->left_above) || (d <= 0 && b->left_below);
    int64_t packed = (b->upper - d) * length + (left ? 0 : length - n);
    int64_t first = most(d, 0) + most(-d, 0) * b->cols;
    if (n <= 0 || count == 0) continue;
    int64_t get = to_matrix ? packed : first, put = to_matrix ? first : packed;
    td_strided_copy_loop(&m, count, to_matrix ? all : matrix,
                         to_matrix ? matrix : all);
    td_strided_copy_loop(&m, n, to_matrix ? 1 : b->cols + 1,
                         to_matrix ? b->cols + 1 : 1);
    TD_TRY(td_strided_copy_do(c, &m, size,
                              (const char *)from + (size_t)get * size,
                              (char *)to + (size_t)put * size));
  }
  return NULL;
}

static td_status *fill(td_kernel_ctx *c, td_tensor *t, const void *value) {
  td_strided_copy m;
  td_strided_copy_init(&m);
  td_strided_copy_loop(&m, td_tensor_count(t), 0, 1);
  return td_strided_copy_spread(c, &m, td_dtype_size(t->dtype), value, t->data);
}

/* A scalar's element, or zero for input -1. */
static td_status *padding(td_kernel_ctx *c, int i, const void **value) {
  static const char zero[16];
  td_shape_text text;
  *value = zero;
  if (i < 0) return NULL;
  if (td_in(c, i)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "padding_value must be a scalar, not of shape %s",
                    td_shape_str(&td_in(c, i)->shape, &text));
  *value = td_in(c, i)->data;
  return NULL;
}

static band main_diagonal(void) {
  return (band){.known = true};
}

/* k and align of a V3 node, in a shape function. */
static td_status *ask_band(td_infer *c, int k, band *b) {
  td_small v;
  bool known;
  *b = (band){0};
  align(b, td_infer_string(c, "align"));
  TD_TRY(td_operand_infer_ints(c, k, "k", &v, &known));
  if (!known) return NULL;
  return set_k(b, &v);
}

static td_status *read_band(td_kernel_ctx *c, int k, band *b) {
  td_small v;
  *b = (band){0};
  align(b, td_node_string(td_ctx_node(c), "align"));
  TD_TRY(td_operand_ints(td_in(c, k), "k", &v));
  return set_k(b, &v);
}

/* ---- MatrixDiag ---------------------------------------------------------- */

/* The matrices that the rows of `s` are a band of; -1 in rows and cols: as few
 * as hold it. */
static td_status *diag_shape(const td_shape *s, band *b, td_shape *out) {
  td_shape_text text;
  int64_t diagonals = b->upper - b->lower + 1;
  int packed = diagonals > 1 ? 2 : 1;
  *out = td_shape_unknown();
  if (s->rank < 0 || !b->known) return NULL;
  TD_TRY(td_shape_check_rank(s->rank - packed + 2));
  if (s->rank < packed || (packed == 2 && s->dim[s->rank - 2] >= 0 &&
                           s->dim[s->rank - 2] != diagonals))
    return td_error(TD_INVALID_ARGUMENT,
                    "diagonal must have %lld diagonals in rows%s, not shape %s",
                    (long long)diagonals,
                    packed == 1 ? " of its last axis" : "",
                    td_shape_str(s, &text));
  int64_t length = s->dim[s->rank - 1];
  if (length >= 0) {
    int64_t rows = length - least(b->upper, 0);
    int64_t cols = length + most(b->lower, 0);
    if (b->rows < 0 && b->cols < 0) b->rows = b->cols = most(rows, cols);
    if (b->rows < 0) b->rows = rows;
    if (b->cols < 0) b->cols = cols;
    if (b->rows < rows || b->cols < cols ||
        (b->rows != rows && b->cols != cols))
      return td_error(TD_INVALID_ARGUMENT,
                      "num_rows %lld and num_cols %lld do not fit diagonals "
                      "%lld to %lld of length %lld",
                      (long long)b->rows, (long long)b->cols,
                      (long long)b->lower, (long long)b->upper,
                      (long long)length);
  }
  *out = *s;
  out->rank -= packed;
  out->dim[out->rank++] = b->rows;
  out->dim[out->rank++] = b->cols;
  return NULL;
}

static td_status *diag_with(td_kernel_ctx *c, band *b, int pad) {
  const td_tensor *x = td_in(c, 0);
  const void *value;
  td_shape out;
  td_tensor *y;
  TD_TRY(diag_shape(&x->shape, b, &out));
  TD_TRY(padding(c, pad, &value));
  TD_TRY(td_array_count(&out, NULL));
  TD_TRY(td_out(c, 0, &out, &y));
  if (td_tensor_count(y) == 0) return NULL;
  TD_TRY(fill(c, y, value));
  return move_band(c, b, td_linalg_count(&out), td_dtype_size(x->dtype), true,
                   x->data, y->data);
}

static td_status *diag_infer(td_infer *c) {
  band b = main_diagonal();
  td_shape out;
  b.rows = b.cols = -1;
  TD_TRY(diag_shape(td_infer_in(c, 0), &b, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

td_status *td_moves_matrix_diag(td_kernel_ctx *c) {
  band b = main_diagonal();
  b.rows = b.cols = -1;
  return diag_with(c, &b, -1);
}

/* num_rows or num_cols: -1 is "as few as needed". */
static td_status *check_size(int64_t size, const char *what) {
  if (size >= -1) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "%s must be -1 or more, not %lld", what,
                  (long long)size);
}

static td_status *diag_v3_infer(td_infer *c) {
  static const char *const names[] = {"num_rows", "num_cols"};
  int64_t size[2];
  bool all = true;
  td_shape out;
  band b;
  TD_TRY(ask_band(c, 1, &b));
  for (int i = 0; i < 2; i++) {
    td_small v;
    bool known;
    TD_TRY(td_infer_rank(c, 2 + i, 0, names[i], NULL));
    TD_TRY(td_operand_infer_ints(c, 2 + i, names[i], &v, &known));
    if (known) TD_TRY(td_operand_single(&v, names[i], &size[i], &known));
    if (known) TD_TRY(check_size(size[i], names[i]));
    all &= known;
  }
  TD_TRY(td_infer_rank(c, 4, 0, "padding_value", NULL));
  if (!all) return NULL;
  b.rows = size[0];
  b.cols = size[1];
  TD_TRY(diag_shape(td_infer_in(c, 0), &b, &out));
  td_infer_out(c, 0, out);
  return NULL;
}

td_status *td_moves_matrix_diag_v3(td_kernel_ctx *c) {
  band b;
  TD_TRY(read_band(c, 1, &b));
  TD_TRY(td_operand_scalar(td_in(c, 2), "num_rows", &b.rows));
  TD_TRY(td_operand_scalar(td_in(c, 3), "num_cols", &b.cols));
  TD_TRY(check_size(b.rows, "num_rows"));
  TD_TRY(check_size(b.cols, "num_cols"));
  return diag_with(c, &b, 4);
}

/* ---- MatrixDiagPart ------------------------------------------------------ */

static td_status *part_with(td_kernel_ctx *c, band *b, int pad) {
  const td_tensor *x = td_in(c, 0);
  const void *value;
  td_tensor *y;
  TD_TRY(td_linalg_matrices(&x->shape, "input"));
  TD_TRY(set_matrix(b, &x->shape));
  td_shape out = packed_shape(b, &x->shape);
  TD_TRY(padding(c, pad, &value));
  TD_TRY(td_array_count(&out, NULL));
  TD_TRY(td_out(c, 0, &out, &y));
  if (td_tensor_count(y) == 0) return NULL;
  if (b->lower != b->upper) TD_TRY(fill(c, y, value));
  return move_band(c, b, td_linalg_count(&x->shape), td_dtype_size(x->dtype),
                   false, x->data, y->data);
}

static td_status *infer_part(td_infer *c, band *b) {
  const td_shape *x = td_infer_in(c, 0);
  TD_TRY(td_linalg_matrices(x, "input"));
  if (x->rank < 0) return NULL;
  TD_TRY(set_matrix(b, x));
  td_infer_out(c, 0, packed_shape(b, x));
  return NULL;
}

static td_status *part_infer(td_infer *c) {
  band b = main_diagonal();
  return infer_part(c, &b);
}

static td_status *part_v3_infer(td_infer *c) {
  band b;
  TD_TRY(ask_band(c, 1, &b));
  TD_TRY(td_infer_rank(c, 2, 0, "padding_value", NULL));
  return infer_part(c, &b);
}

td_status *td_moves_matrix_diag_part(td_kernel_ctx *c) {
  band b = main_diagonal();
  return part_with(c, &b, -1);
}

td_status *td_moves_matrix_diag_part_v3(td_kernel_ctx *c) {
  band b;
  TD_TRY(read_band(c, 1, &b));
  return part_with(c, &b, 2);
}

/* ---- MatrixSetDiag ------------------------------------------------------- */

/* Both of known rank. */
static td_status *check_diagonal(const band *b, const td_shape *x,
                                 const td_shape *d) {
  td_shape_text xt, dt;
  td_shape want = packed_shape(b, x);
  if (td_shape_compatible(&want, d)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "diagonal must be of shape %s for an input of shape %s, not "
                  "%s",
                  td_shape_str(&want, &dt), td_shape_str(x, &xt),
                  td_shape_str(d, &(td_shape_text){{0}}));
}

static td_status *infer_set(td_infer *c, band *b) {
  const td_shape *x = td_infer_in(c, 0);
  TD_TRY(td_linalg_matrices(x, "input"));
  td_infer_out(c, 0, *x);
  if (x->rank < 0) return NULL;
  TD_TRY(set_matrix(b, x));
  return check_diagonal(b, x, td_infer_in(c, 1));
}

static td_status *set_with(td_kernel_ctx *c, band *b) {
  td_tensor x = *td_in(c, 0), *y;
  TD_TRY(td_linalg_matrices(&x.shape, "input"));
  TD_TRY(set_matrix(b, &x.shape));
  TD_TRY(check_diagonal(b, &x.shape, &td_in(c, 1)->shape));
  TD_TRY(td_out_like(c, 0, 0, &y));
  if (td_tensor_count(y) == 0) return NULL;
  td_strided_copy m;
  td_strided_copy_init(&m);
  td_strided_copy_loop(&m, td_tensor_count(y), 1, 1);
  if (y->data != x.data)
    TD_TRY(td_strided_copy_do(c, &m, td_dtype_size(x.dtype), x.data, y->data));
  return move_band(c, b, td_linalg_count(&x.shape), td_dtype_size(x.dtype),
                   true, td_in(c, 1)->data, y->data);
}

static td_status *set_infer(td_infer *c) {
  band b = main_diagonal();
  return infer_set(c, &b);
}

static td_status *set_v3_infer(td_infer *c) {
  band b;
  TD_TRY(ask_band(c, 2, &b));
  return infer_set(c, &b);
}

td_status *td_moves_matrix_set_diag(td_kernel_ctx *c) {
  band b = main_diagonal();
  return set_with(c, &b);
}

td_status *td_moves_matrix_set_diag_v3(td_kernel_ctx *c) {
  band b;
  TD_TRY(read_band(c, 2, &b));
  return set_with(c, &b);
}

/* ---- MatrixBandPart ------------------------------------------------------ */

typedef struct band_job {
  const char *from;
  char *to;
  size_t size;
  int64_t rows, cols, below, above; /* below, above: -1 is all */
} band_job;

static void band_rows(void *arg, int64_t begin, int64_t end) {
  const band_job *b = arg;
  size_t row = (size_t)b->cols * b->size;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i % b->rows, first = 0, last = b->cols;
    if (b->below >= 0) first = least(most(at - b->below, 0), b->cols);
    if (b->above >= 0 && b->above < b->cols)
      last = most(least(at + b->above + 1, b->cols), first);
    size_t left = (size_t)first * b->size, right = (size_t)last * b->size;
    const char *from = b->from + (size_t)i * row;
    char *to = b->to + (size_t)i * row;
    memset(to, 0, left);
    memmove(to + left, from + left, right - left);
    memset(to + right, 0, row - right);
  }
}

static td_status *band_infer(td_infer *c) {
  TD_TRY(td_linalg_matrices(td_infer_in(c, 0), "input"));
  TD_TRY(td_infer_rank(c, 1, 0, "num_lower", NULL));
  TD_TRY(td_infer_rank(c, 2, 0, "num_upper", NULL));
  td_infer_out(c, 0, *td_infer_in(c, 0));
  return NULL;
}

static td_status *read_count(td_kernel_ctx *c, int i, const char *what,
                             int64_t size, int64_t *n) {
  TD_TRY(td_operand_scalar(td_in(c, i), what, n));
  if (*n <= size) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%s must be %lld at most, or negative for all, not %lld",
                  what, (long long)size, (long long)*n);
}

td_status *td_band_read(td_kernel_ctx *c, td_band_plan *p) {
  const td_shape *x = &td_in(c, 0)->shape;
  TD_TRY(td_linalg_matrices(x, "input"));
  p->rows = x->dim[x->rank - 2];
  p->cols = x->dim[x->rank - 1];
  TD_TRY(read_count(c, 1, "num_lower", p->rows, &p->below));
  return read_count(c, 2, "num_upper", p->cols, &p->above);
}

static td_status *band_run(td_kernel_ctx *c) {
  td_tensor x = *td_in(c, 0), *y;
  td_band_plan p;
  TD_TRY(td_band_read(c, &p));
  band_job b = {.size = td_dtype_size(x.dtype),
                .rows = p.rows,
                .cols = p.cols,
                .below = p.below,
                .above = p.above};
  TD_TRY(td_out_like(c, 0, 0, &y));
  if (td_tensor_count(y) == 0) return NULL;
  b.from = x.data;
  b.to = y->data;
  td_for(c, td_linalg_count(&x.shape) * b.rows, td_grain_of(b.cols), band_rows,
         &b);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

#define TYPES                                                                  \
  "T=bool|complex64|complex128|double|float|bfloat16|half|int32|int8|uint8|"   \
  "int16|uint16|uint32|int64|uint64"
#define ALIGN                                                                  \
  "align: {\"LEFT_RIGHT\", \"RIGHT_LEFT\", \"LEFT_LEFT\", "                    \
  "\"RIGHT_RIGHT\"} = \"RIGHT_LEFT\""

static const td_op_def ops[] = {
    {.type = "MatrixDiag",
     .sig = "diagonal: T -> output: T; T: type",
     .shape = diag_infer,
     .cost = td_cost_move,
     .doc = "Square matrices of zeros with the rows of diagonal on theirs.",
     .lua = "",
     .section = "Array"},
    {.type = "MatrixDiagV3",
     .sig = "diagonal: T, k: int32, num_rows: int32, num_cols: int32, "
            "padding_value: T -> output: T; T: type; " ALIGN,
     .shape = diag_v3_infer,
     .cost = td_cost_move,
     .doc = "Matrices of padding_value with diagonals k, or k[0] to k[1].",
     .lua = "",
     .host = "k, num_rows, num_cols, padding_value",
     .section = "Array"},
    {.type = "MatrixDiagPart",
     .sig = "input: T -> diagonal: T; T: type",
     .shape = part_infer,
     .cost = td_cost_move,
     .doc = "The diagonal of each matrix.",
     .lua = "",
     .section = "Array"},
    {.type = "MatrixDiagPartV3",
     .sig =
         "input: T, k: int32, padding_value: T -> diagonal: T; T: type; " ALIGN,
     .shape = part_v3_infer,
     .cost = td_cost_move,
     .doc = "Diagonals k, or k[0] to k[1], of each matrix, upper ones first, "
            "padded to the length of the longest.",
     .lua = "",
     .host = "k, padding_value",
     .section = "Array"},
    {.type = "MatrixSetDiag",
     .sig = "input: T, diagonal: T -> output: T; T: type",
     .shape = set_infer,
     .cost = td_cost_move,
     .doc = "Each matrix with another diagonal.",
     .lua = "",
     .section = "Array"},
    {.type = "MatrixSetDiagV3",
     .sig = "input: T, diagonal: T, k: int32 -> output: T; T: type; " ALIGN,
     .shape = set_v3_infer,
     .cost = td_cost_move,
     .doc = "Each matrix with other diagonals k, or k[0] to k[1].",
     .lua = "",
     .host = "k",
     .section = "Array"},
    {.type = "MatrixBandPart",
     .sig = "input: T, num_lower: Tindex, num_upper: Tindex -> band: T; "
            "T: type; Tindex: {int32, int64} = int64",
     .shape = band_infer,
     .cost = td_cost_move,
     .doc = "Each matrix with zeros but for so many diagonals below and above "
            "the main one; negative numbers keep all.",
     .example = "td.matrix_band_part({{1, 2}, {3, 4}}, 0, -1)  --> 1 2 0 4",
     .host = "num_lower, num_upper",
     .section = "Array"},
    {0},
};

#define ROW(name, function)                                                    \
  { .op = name, .device = "CPU", .types = TYPES, .run = function }

static const td_kernel_def kernels[] = {
    ROW("MatrixDiag", td_moves_matrix_diag),
    ROW("MatrixDiagV3", td_moves_matrix_diag_v3),
    ROW("MatrixDiagPart", td_moves_matrix_diag_part),
    ROW("MatrixDiagPartV3", td_moves_matrix_diag_part_v3),
    ROW("MatrixSetDiag", td_moves_matrix_set_diag),
    ROW("MatrixSetDiagV3", td_moves_matrix_set_diag_v3),
    ROW("MatrixBandPart", band_run),
    {0},
};

TD_MODULE(matrix_diag, ops, kernels)
