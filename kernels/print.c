/* print.c - Print: values as text.
 *
 * A tensor is written as TensorFlow writes it: the elements between brackets,
 * one pair a dimension, at most `summarize` of them (all when negative), then
 * "...". A float takes as few digits as give it back exactly.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/mem.h"
#include "engine/device/kernel.h"

/* ---- elements ------------------------------------------------------------ */

static void print_float(td_str *out, float v) {
  char text[40];
  snprintf(text, sizeof text, "%.6g", (double)v);
  if (v == v && strtof(text, NULL) != v)
    snprintf(text, sizeof text, "%.9g", (double)v);
  td_str_add(out, text[0] == '-' && v != v ? text + 1 : text);
}

static void print_double(td_str *out, double v) {
  char text[40];
  snprintf(text, sizeof text, "%.15g", v);
  if (v == v && strtod(text, NULL) != v)
    snprintf(text, sizeof text, "%.17g", v);
  td_str_add(out, text[0] == '-' && v != v ? text + 1 : text);
}

/* Quotes, backslashes and control characters as in C; UTF-8 as it is. */
static void print_text(td_str *out, const char *s, size_t len) {
  static const char plain[] = "\n\r\t\"'\\", letter[] = "nrt\"'\\";
  for (size_t i = 0; i < len; i++) {
    const char *at = s[i] ? strchr(plain, s[i]) : NULL;
    unsigned char byte = (unsigned char)s[i];
    if (at)
      td_str_addf(out, "\\%c", letter[at - plain]);
    else if (byte < 0x20 || byte == 0x7f)
      td_str_addf(out, "\\%03o", byte);
    else
      td_str_addc(out, s[i]);
  }
}

static void print_complex(td_str *out, const td_tensor *t, int64_t i) {
  td_str_addc(out, '(');
  if (t->dtype == TD_COMPLEX64) {
    const float *at = (const float *)t->data + 2 * i;
    print_float(out, at[0]);
    td_str_addc(out, ',');
    print_float(out, at[1]);
  } else {
    const double *at = (const double *)t->data + 2 * i;
    print_double(out, at[0]);
    td_str_addc(out, ',');
    print_double(out, at[1]);
  }
  td_str_addc(out, ')');
}

static void print_element(td_str *out, const td_tensor *t, int64_t i) {
  size_t len;
  if (t->dtype == TD_STRING) {
    const char *s = td_tensor_str(t, i, &len);
    print_text(out, s, len);
  } else if (!td_dtype_is_plain(t->dtype)) {
    td_str_addf(out, "<%s>", ((td_object *const *)t->data)[i]->type);
  } else if (td_dtype_is_complex(t->dtype)) {
    print_complex(out, t, i);
  } else if (t->dtype == TD_FLOAT64) {
    print_double(out, td_tensor_get_f(t, i));
  } else if (td_dtype_is_float(t->dtype)) {
    print_float(out, (float)td_tensor_get_f(t, i));
  } else if (t->dtype == TD_UINT64) {
    td_str_addf(out, "%" PRIu64, (uint64_t)td_tensor_get_i(t, i));
  } else {
    td_str_addf(out, "%" PRId64, td_tensor_get_i(t, i));
  }
}

/* ---- tensors ------------------------------------------------------------- */

typedef struct printer {
  td_str *out;
  const td_tensor *t;
  int64_t next, limit; /* elements: so many are printed, at most */
} printer;

/* Elements of the last dimension from `next` on. */
static void print_row(printer *p) {
  const td_shape *s = &p->t->shape;
  for (int64_t i = 0; i < s->dim[s->rank - 1]; i++) {
    if (p->next == p->limit) {
      if (s->rank > 1) td_str_add(p->out, "...");
      return;
    }
    if (i > 0) td_str_addc(p->out, ' ');
    print_element(p->out, p->t, p->next++);
  }
}

static void print_axis(printer *p, int axis) {
  const td_shape *s = &p->t->shape;
  if (axis == s->rank - 1) {
    print_row(p);
    return;
  }
  for (int64_t i = 0; i < s->dim[axis] && p->next < p->limit; i++) {
    td_str_addc(p->out, '[');
    print_axis(p, axis + 1);
    td_str_addc(p->out, ']');
  }
}

void td_print_tensor(td_str *out, const td_tensor *t, int64_t summarize) {
  int64_t count = td_tensor_count(t);
  printer p = {.out = out, .t = t, .limit = count};
  if (summarize >= 0 && summarize < count) p.limit = summarize;
  td_str_addc(out, '[');
  if (p.limit > 0 && t->shape.rank == 0)
    print_element(out, t, 0);
  else if (p.limit > 0)
    print_axis(&p, 0);
  if (count > p.limit) td_str_add(out, "...");
  td_str_addc(out, ']');
}

/* ---- arrays -------------------------------------------------------------- */

/* Between the elements of an axis; `left` more axes are inside. */
static void print_gap(td_str *out, int axis, int left) {
  for (int k = 0; k < left; k++) td_str_addc(out, '\n');
  for (int k = 0; k <= axis && left > 0; k++) td_str_addc(out, ' ');
  if (left == 0) td_str_addc(out, ' ');
}

static void print_quoted(td_str *out, const td_tensor *t, int64_t i) {
  if (t->dtype == TD_STRING) td_str_addc(out, '"');
  print_element(out, t, i);
  if (t->dtype == TD_STRING) td_str_addc(out, '"');
}

/* The part of an axis that begins with element `at` of the tensor; `ends` of
 * each axis are written from either end. */
static void print_part(td_str *out, const td_tensor *t, int axis, int64_t at,
                       int64_t ends) {
  const td_shape *s = &t->shape;
  if (axis == s->rank) {
    print_quoted(out, t, at);
    return;
  }
  int64_t n = s->dim[axis], each = td_shape_span(s, axis + 1, s->rank);
  int left = s->rank - 1 - axis;
  bool cut = ends < n - ends;
  td_str_addc(out, '[');
  for (int64_t i = 0; i < n && !out->failed; i++) {
    if (cut && i == ends) {
      print_gap(out, axis, left);
      td_str_add(out, "...");
      i = n - ends;
      if (i == n) break;
    }
    if (i > 0) print_gap(out, axis, left);
    print_part(out, t, axis + 1, at + i * each, ends);
  }
  td_str_addc(out, ']');
}

void td_print_array(td_str *out, const td_tensor *t, int64_t summarize) {
  int64_t count = td_tensor_count(t), ends = count;
  if (summarize >= 0 && summarize < count) ends = summarize;
  if (t->shape.rank == 0 && ends == 0)
    td_str_add(out, "...");
  else
    print_part(out, t, 0, 0, ends);
}

/* ---- Print --------------------------------------------------------------- */

static td_status *print_make(const td_kernel_info *info, void **state) {
  (void)info;
  *state = td_calloc(1, sizeof(int64_t)); /* how often it ran */
  return *state ? NULL : td_oom();
}

static td_status *print_save(const void *state, td_str *out) {
  int64_t runs = __atomic_load_n((const int64_t *)state, __ATOMIC_RELAXED);
  td_bytes_put(out, (uint64_t)runs, 8);
  return out->failed ? td_oom() : NULL;
}

static td_status *print_load(void *state, td_bytes from) {
  uint64_t runs;
  if (!td_bytes_get(&from, 8, &runs) || runs > INT64_MAX / 2 || from.len)
    return td_error(TD_DATA_LOSS, "these are not the bytes of a count");
  __atomic_store_n((int64_t *)state, (int64_t)runs, __ATOMIC_RELAXED);
  return NULL;
}

/* False once first_n runs have printed. */
static bool may_print(const td_kernel_ctx *c) {
  int64_t *runs = c->kernel->state;
  int64_t first = td_node_int(td_ctx_node(c), "first_n");
  if (first < 0) return true;
  if (__atomic_load_n(runs, __ATOMIC_RELAXED) >= first) return false;
  return __atomic_fetch_add(runs, 1, __ATOMIC_RELAXED) < first;
}

static void emit(const td_step *step, const td_str *line) {
  if (step->print)
    step->print(step->print_arg, line->at, line->len);
  else
    fwrite(line->at, 1, line->len, stderr);
}

static td_status *print_line(const td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  const td_attr *message = td_node_attr(n, "message");
  td_str line;
  td_str_init(&line);
  td_str_addn(&line, message->s.at, message->s.len);
  for (int i = 1; i < c->n_in; i++)
    td_print_tensor(&line, td_in(c, i), td_node_int(n, "summarize"));
  td_str_addc(&line, '\n');
  bool good = !line.failed;
  if (good) emit(c->step, &line);
  td_str_deinit(&line);
  return good ? NULL : td_oom();
}

static td_status *print_run(td_kernel_ctx *c) {
  if (may_print(c)) TD_TRY(print_line(c));
  td_out_pass(c, 0, 0);
  return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "Print",
     .sig = "input: T, data: U -> output: T; T: type; U: list(type) >= 0; "
            "message: string = \"\"; first_n: int = -1; summarize: int = 3",
     .shape = td_infer_same,
     .cost = td_cost_none,
     .doc = "Passes input on and prints message and data.",
     .flags = TD_STATEFUL,
     .host = "data",
     .section = "Graph plumbing, feeds/fetches, no-ops"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "Print",
     .device = "CPU",
     .run = print_run,
     .make = print_make,
     .drop = td_free,
     .save = print_save,
     .load = print_load,
     .flags = TD_KERNEL_INLINE},
    {0},
};

TD_MODULE(print, ops, kernels)
