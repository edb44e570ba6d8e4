/* string_substr.c - StringLength, Substr, in bytes or characters.
 *
 * Characters of UTF-8 begin with a byte that is not 10xxxxxx; what is not UTF-8
 * is counted so too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/array.h"
#include "kernels/cpu.h"
#include "kernels/text.h"

static bool by_character(const td_node *n) {
  return strcmp(td_node_string(n, "unit"), "UTF8_CHAR") == 0;
}

static int64_t characters(td_bytes s) {
  int64_t n = 0;
  for (size_t i = 0; i < s.len; i++) n += !td_text_follows(s.at[i]);
  return n;
}

/* ---- StringLength -------------------------------------------------------- */

static td_status *length_run(td_kernel_ctx *c) {
  bool utf8 = by_character(td_ctx_node(c));
  const td_tensor *x = td_in(c, 0);
  td_tensor *y;
  TD_TRY(td_out(c, 0, &x->shape, &y));
  int64_t n = td_tensor_count(x);
  for (int64_t i = 0; i < n; i++) {
    td_bytes s = td_text_at(x, i);
    TD_TRY(td_array_put(y, i, utf8 ? characters(s) : (int64_t)s.len,
                        "the length"));
  }
  return NULL;
}

/* ---- Substr -------------------------------------------------------------- */

/* Byte at which character n begins. */
static size_t find_character(td_bytes s, int64_t n) {
  size_t i = 0;
  while (i < s.len && (n > 0 || td_text_follows(s.at[i]))) {
    i++;
    if (i == s.len || !td_text_follows(s.at[i])) n--;
  }
  return i;
}

static td_status *cut(td_bytes s, int64_t at, int64_t pos, int64_t len,
                      bool utf8, td_str *out) {
  int64_t size = utf8 ? characters(s) : (int64_t)s.len;
  int64_t from = pos < 0 ? pos + size : pos;
  if (from < 0 || from > size)
    return td_error(TD_INVALID_ARGUMENT,
                    "pos %lld is outside of string %lld, \"%.*s\"",
                    (long long)pos, (long long)at, td_text_shown(s), s.at);
  if (len < 0) len = 0;
  int64_t to = len > size - from ? size : from + len;
  size_t begin = utf8 ? find_character(s, from) : (size_t)from;
  size_t end = utf8 ? find_character(s, to) : (size_t)to;
  if (end > begin) td_str_addn(out, s.at + begin, end - begin);
  return NULL;
}

static td_status *substr_shape(const td_shape *x, const td_shape *pos,
                               const td_shape *len, td_shape *out) {
  td_shape_text a, b;
  td_shape both;
  if (!td_shape_merge(pos, len, &both))
    return td_error(TD_INVALID_ARGUMENT,
                    "pos and len must be of one shape, not %s and %s",
                    td_shape_str(pos, &a), td_shape_str(len, &b));
  if (td_shape_broadcast(x, &both, out)) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "input %s and pos %s do not broadcast",
                  td_shape_str(x, &a), td_shape_str(&both, &b));
}

static td_status *substr_infer(td_infer *c) {
  td_shape out;
  TD_TRY(substr_shape(td_infer_in(c, 0), td_infer_in(c, 1), td_infer_in(c, 2),
                      &out));
  td_infer_out(c, 0, out);
  return NULL;
}

static td_status *cut_all(td_kernel_ctx *c, const td_broadcast *plan,
                          td_text *t) {
  bool utf8 = by_character(td_ctx_node(c));
  if (!td_text_reserve(t, plan->count)) return td_oom();
  for (int64_t i = 0; i < plan->count; i++) {
    int64_t from = td_broadcast_index(plan, 0, i);
    int64_t k = td_broadcast_index(plan, 1, i);
    TD_TRY(cut(td_text_at(td_in(c, 0), from), from,
               td_tensor_get_i(td_in(c, 1), k), td_tensor_get_i(td_in(c, 2), k),
               utf8, &t->all));
    td_text_end(t);
  }
  return NULL;
}

static td_status *substr_run(td_kernel_ctx *c) {
  const td_shape *shapes[2] = {&td_in(c, 0)->shape, &td_in(c, 1)->shape};
  td_broadcast plan;
  td_text t = {0};
  td_shape out;
  TD_TRY(substr_shape(shapes[0], shapes[1], &td_in(c, 2)->shape, &out));
  TD_TRY(td_broadcast_plan(&plan, 2, shapes, &out));
  td_status *s = cut_all(c, &plan, &t);
  if (td_ok(s)) s = td_text_out(c, 0, &out, &t);
  td_text_drop(&t);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

#define UNIT "unit: {\"BYTE\", \"UTF8_CHAR\"} = \"BYTE\""

static const td_op_def ops[] = {
    {.type = "StringLength",
     .sig = "input: string -> output: int32; " UNIT,
     .shape = td_infer_same,
     .doc = "The length of each string.",
     .example = "td.string_length(td.tensor{\"moon\", \"\"})  --> 4 0",
     .section = "Strings"},
    {.type = "Substr",
     .sig = "input: string, pos: T, len: T -> output: string; "
            "T: {int32, int64}; " UNIT,
     .shape = substr_infer,
     .doc = "Of each string, `len` bytes or characters from `pos` on, which "
            "counts from the end when negative.",
     .example = "td.substr(td.tensor \"moonlight\", 4, 5)  --> light",
     .section = "Strings"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "StringLength", .device = "CPU", .run = length_run},
    {.op = "Substr", .device = "CPU", .run = substr_run},
    {0},
};

TD_MODULE(string_substr, ops, kernels)
