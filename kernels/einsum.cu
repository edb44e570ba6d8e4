/* einsum.cu - Einstein's sums on a card.
 *
 * Nothing is brought into another order first: subscripts of both operands and
 * the result are batches of a product, one operand's own its lines or columns,
 * all others its steps; where an element is follows from the numbers of these
 * (tile.cuh). One operand is multiplied by ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/array.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/tile.cuh"
#include "kernels/einsum.h"

namespace {

/* ---- loops --------------------------------------------------------------- */

enum group { BATCH, LINES, COLUMNS, STEPS, GROUPS };
enum { A, B, Y, TENSORS };

/* The subscripts of a group, outermost first, with the elements between
 * neighbours in each tensor: the host's. */
struct subscripts {
  int n;
  int64_t size[2 * TD_MAX_RANK], step[TENSORS][2 * TD_MAX_RANK], count;
};

/* The same of one tensor. */
struct loops {
  int n;
  td_divider size[2 * TD_MAX_RANK];
  int64_t step[2 * TD_MAX_RANK];

  __device__ inline int64_t operator()(int64_t number) const {
    int64_t at = 0, i;
    for (int k = n - 1; k > 0; k--) {
      number = size[k].split(number, &i);
      at += i * step[k];
    }
    return n > 0 ? at + number * step[0] : 0;
  }
};

loops loops_of(const subscripts *s, int tensor) {
  loops l = {};
  l.n = s->n;
  for (int k = 0; k < s->n; k++) {
    l.size[k] = td_divider_by(s->size[k]);
    l.step[k] = s->step[tensor][k];
  }
  return l;
}

/* Behind those there are; as one with the last where that changes nothing. */
void add(subscripts *s, int64_t size, const int64_t step[TENSORS]) {
  int last = s->n - 1;
  bool joins = last >= 0;
  for (int t = 0; t < TENSORS && joins; t++)
    joins = s->step[t][last] == step[t] * size;
  s->count *= size;
  if (size == 1) return;
  if (!joins) last = s->n++;
  s->size[last] = joins ? s->size[last] * size : size;
  for (int t = 0; t < TENSORS; t++) s->step[t][last] = step[t];
}

/* Elements between neighbours along a subscript; of one that is there twice,
 * along the diagonal; 0 where the tensor is repeated. False: it has none. */
bool step_along(const td_einsum_axes *axes, const td_shape *s, int label,
                int64_t *step) {
  int64_t dense = 1;
  bool there = false;
  *step = 0;
  for (int k = axes->n - 1; k >= 0; k--) {
    if (axes->label[k] == label) {
      there = true;
      if (s->dim[k] != 1) *step += dense;
    }
    dense *= s->dim[k];
  }
  return there;
}

group group_of(bool a, bool b, bool y) {
  if (a && b) return y ? BATCH : STEPS;
  return !y ? STEPS : a ? LINES : COLUMNS;
}

void read_one(const td_einsum *e, const td_shape *const *shapes, int label,
              subscripts of[GROUPS]) {
  int64_t step[TENSORS] = {};
  bool a = step_along(&e->in[0], shapes[0], label, &step[A]);
  bool b = e->n_in > 1 &&
           step_along(&e->in[1], shapes[1], label, &step[B]);
  bool y = step_along(&e->out, shapes[2], label, &step[Y]);
  if (a || b) add(&of[group_of(a, b, y)], e->size[label], step);
}

/* In the order of the operand's axes, so that those that follow each other in
 * memory become one loop. shapes[2] is the result's. */
void read_all(const td_einsum *e, const td_shape *const *shapes,
              subscripts of[GROUPS]) {
  bool seen[TD_EINSUM_LABELS] = {};
  for (int g = 0; g < GROUPS; g++) of[g].count = 1;
  for (int k = 0; k < e->n_in; k++)
    for (int i = 0; i < e->in[k].n; i++) {
      int label = e->in[k].label[i];
      if (!seen[label]) read_one(e, shapes, label, of);
      seen[label] = true;
    }
}

/* ---- operands ------------------------------------------------------------ */

template <class T> struct operand {
  typedef typename td_num<T>::in in;
  typedef int64_t line, step;
  const T *from; /* NULL: ones */
  loops batch, lines, steps;
  bool near; /* neighbouring steps are neighbours */

  __device__ inline bool inner() const { return near; }
  __device__ inline line line_of(int64_t z, int64_t i) const {
    return batch(z) + lines(i);
  }
  __device__ inline step step_of(int64_t k) const { return steps(k); }
  __device__ inline in at(line l, step s) const {
    return from ? td_num<T>::load(from[l + s]) : in(1);
  }
};

template <class T> struct cells {
  typedef typename td_num<T>::in in;
  T *to;
  loops batch, lines, columns;
  __device__ inline void put(int64_t z, int64_t i, int64_t j, in v) const {
    to[batch(z) + lines(i) + columns(j)] = td_num<T>::store(v);
  }
};

template <class T>
operand<T> operand_of(const td_tensor *t, const subscripts of[GROUPS],
                      int tensor, group lines) {
  const subscripts *k = &of[STEPS];
  operand<T> o = {};
  o.from = t ? td_cuda_at<const T>(t) : nullptr;
  o.batch = loops_of(&of[BATCH], tensor);
  o.lines = loops_of(&of[lines], tensor);
  o.steps = loops_of(k, tensor);
  o.near = k->n > 0 && k->step[tensor][k->n - 1] == 1;
  return o;
}

/* ---- running ------------------------------------------------------------- */

/* Where a subscript stands twice in the result, what is not on its diagonal is
 * 0. */
td_status *fill(td_kernel_ctx *c, const subscripts of[GROUPS], td_tensor *y) {
  int64_t n = of[BATCH].count * of[LINES].count * of[COLUMNS].count;
  if (n == td_tensor_count(y)) return nullptr;
  return td_cuda_ok(cudaMemsetAsync(y->data, 0, td_tensor_bytes(y),
                                    td_cuda_stream(c)),
                    "a fill");
}

template <class T>
td_status *sum(td_kernel_ctx *c, const subscripts of[GROUPS], td_tensor *y) {
  td_tile s = tile_of(of[BATCH].count, of[LINES].count, of[COLUMNS].count,
                      of[STEPS].count);
  cells<T> to = {td_cuda_at<T>(y), loops_of(&of[BATCH], Y),
                 loops_of(&of[LINES], Y), loops_of(&of[COLUMNS], Y)};
  return tile_run(c, s, operand_of<T>(td_in(c, 0), of, A, LINES),
                  operand_of<T>(c->n_in > 1 ? td_in(c, 1) : nullptr, of, B,
                                COLUMNS),
                  to);
}

#define CASE(kind)                                                             \
  case TD_ELEMENT_##kind:                                                      \
    return sum<td_##kind>(c, of, y);

td_status *by_type(td_kernel_ctx *c, const subscripts of[GROUPS],
                   td_tensor *y) {
  switch ((int)y->dtype) {
    CASE(f16)
    CASE(bf16)
    CASE(f32)
    CASE(f64)
    CASE(i32)
    CASE(i64)
    CASE(c64)
    CASE(c128)
  default:
    return td_cuda_no_type(c, 0);
  }
}

td_status *run(td_kernel_ctx *c) {
  const td_shape *shapes[TENSORS] = {};
  td_einsum e;
  td_shape out;
  td_tensor *y;
  TD_TRY(td_einsum_read(c, &e, &out));
  TD_TRY(td_out(c, 0, &out, &y));
  if (td_tensor_count(y) == 0) return nullptr;
  subscripts of[GROUPS] = {};
  for (int k = 0; k < c->n_in; k++) shapes[k] = &td_in(c, k)->shape;
  shapes[Y] = &out;
  read_all(&e, shapes, of);
  TD_TRY(fill(c, of, y));
  return by_type(c, of, y);
}

/* ---- tables -------------------------------------------------------------- */

const td_kernel_def kernels[] = {
    {.op = "Einsum",
     .device = "CUDA",
     .types = "T=half|bfloat16|float|double|int32|int64|complex64|complex128",
     .run = run},
    {},
};

} // namespace

TD_CUDA_MODULE(einsum, kernels)
