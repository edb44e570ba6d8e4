/* decode_raw.c - DecodeRaw, DecodePaddedRaw: the bytes of strings read as
 * numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/array.h"
#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/text.h"

static td_status *infer(td_infer *c) {
  td_shape s = *td_infer_in(c, 0);
  TD_TRY(td_shape_check_rank(s.rank + 1));
  if (s.rank >= 0) s.dim[s.rank++] = -1;
  td_infer_out(c, 0, s);
  return NULL;
}

/* Turns the parts of every element round: two of complex numbers. */
static void swap_bytes(char *at, size_t bytes, size_t part) {
  for (size_t i = 0; i < bytes; i += part)
    for (size_t k = 0; k < part / 2; k++) {
      char was = at[i + k];
      at[i + k] = at[i + part - 1 - k];
      at[i + part - 1 - k] = was;
    }
}

/* All strings have one length, a multiple of `size`. */
static td_status *read_length(const td_tensor *x, size_t size, size_t *len) {
  int64_t n = td_tensor_count(x);
  *len = n > 0 ? td_text_at(x, 0).len : 0;
  for (int64_t i = 1; i < n; i++)
    if (td_text_at(x, i).len != *len)
      return td_error(TD_INVALID_ARGUMENT,
                      "bytes must be strings of one length; string 0 has %zu "
                      "bytes, string %lld has %zu",
                      *len, (long long)i, td_text_at(x, i).len);
  if (*len % size == 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "strings of %zu bytes are no numbers of %zu bytes each", *len,
                  size);
}

static td_status *run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  const td_tensor *x = td_in(c, 0);
  td_dtype t = n->out[0].dtype;
  size_t size = td_dtype_size(t), len;
  td_shape shape = x->shape;
  td_tensor *y;
  TD_TRY(td_shape_check_rank(shape.rank + 1));
  TD_TRY(read_length(x, size, &len));
  shape.dim[shape.rank++] = (int64_t)(len / size);
  TD_TRY(td_array_count(&shape, NULL));
  TD_TRY(td_out(c, 0, &shape, &y));
  char *to = y->data;
  int64_t count = len ? td_tensor_count(x) : 0;
  for (int64_t i = 0; i < count; i++)
    memcpy(to + (size_t)i * len, td_text_at(x, i).at, len);
  if (!td_node_bool(n, "little_endian"))
    swap_bytes(to, (size_t)count * len,
               td_dtype_is_complex(t) ? size / 2 : size);
  if (t == TD_BOOL) /* any byte but 0 */
    for (size_t i = 0; i < (size_t)count * len; i++) to[i] = to[i] != 0;
  return NULL;
}

/* ---- strings of any length, filled up with zeros ------------------------- */

/* Numbers that fixed_length bytes are. */
static td_status *padded_numbers(int64_t length, td_dtype t, int64_t *n) {
  int64_t size = (int64_t)td_dtype_size(t);
  if (length <= 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "fixed_length must be above 0, not %lld",
                    (long long)length);
  *n = length / size;
  if (length % size == 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "fixed_length is %lld: no multiple of the %lld bytes of %s",
                  (long long)length, (long long)size, td_dtype_name(t));
}

static td_status *padded_infer(td_infer *c) {
  td_shape s = *td_infer_in(c, 0);
  td_small v;
  int64_t n = -1;
  TD_TRY(td_infer_rank(c, 1, 0, "fixed_length", NULL));
  if (td_infer_small(c, 1, &v) && v.known[0])
    TD_TRY(padded_numbers(v.at[0], td_infer_type(c, "out_type"), &n));
  TD_TRY(td_shape_check_rank(s.rank + 1));
  if (s.rank >= 0) s.dim[s.rank++] = n;
  td_infer_out(c, 0, s);
  return NULL;
}

static td_status *padded_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  const td_tensor *x = td_in(c, 0);
  td_dtype t = n->out[0].dtype;
  td_shape shape = x->shape;
  int64_t length, numbers = 0;
  td_tensor *y;
  TD_TRY(td_operand_scalar(td_in(c, 1), "fixed_length", &length));
  TD_TRY(padded_numbers(length, t, &numbers));
  TD_TRY(td_shape_check_rank(shape.rank + 1));
  shape.dim[shape.rank++] = numbers;
  TD_TRY(td_array_count(&shape, NULL));
  TD_TRY(td_out(c, 0, &shape, &y));
  char *to = y->data;
  size_t room = (size_t)length;
  int64_t count = td_tensor_count(x);
  for (int64_t i = 0; i < count; i++, to += room) {
    td_bytes s = td_text_at(x, i);
    size_t len = s.len < room ? s.len : room;
    memcpy(to, s.at, len);
    memset(to + len, 0, room - len);
  }
  if (!td_node_bool(n, "little_endian"))
    swap_bytes(y->data, (size_t)count * room, td_dtype_size(t));
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "DecodeRaw",
     .sig = "bytes: string -> output: out_type; "
            "out_type: {half, float, double, int32, uint16, uint8, int16, "
            "int8, int64, complex64, complex128, bool, bfloat16}; "
            "little_endian: bool = true",
     .shape = infer,
     .cost = td_cost_move,
     .doc = "The bytes of each string, all of one length, as numbers along a "
            "new last axis.",
     .flags = TD_NO_GRADIENT,
     .section = "I/O: readers, checkpoints, files"},
    {.type = "DecodePaddedRaw",
     .sig = "input_bytes: string, fixed_length: int32 -> output: out_type; "
            "out_type: {half, float, double, int32, uint16, uint8, int16, "
            "int8, int64, bfloat16}; little_endian: bool = true",
     .shape = padded_infer,
     .cost = td_cost_move,
     .doc = "The first fixed_length bytes of each string, and zeros where it "
            "is shorter, as numbers along a new last axis.",
     .flags = TD_NO_GRADIENT,
     .lua = "",
     .section = "I/O: readers, checkpoints, files"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "DecodeRaw", .device = "CPU", .run = run},
    {.op = "DecodePaddedRaw", .device = "CPU", .run = padded_run},
    {0},
};

TD_MODULE(decode_raw, ops, kernels)
