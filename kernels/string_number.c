/* string_number.c - StringToNumber, AsString.
 *
 * A format is built here from checked fields, never taken from an attribute.
 * Widths and precisions are bounded: a hostile one would fill the memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/text.h"

/* ---- StringToNumber ------------------------------------------------------ */

enum { SHORT = 128 }; /* bytes of a number that need no memory of their own */

static locale_t plain; /* numbers are written with a point everywhere */
static pthread_once_t plain_once = PTHREAD_ONCE_INIT;

static void plain_make(void) {
  plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Puts the number in `text` into element i; false when it is none. What strtod
 * takes is one, hexadecimal digits ("0xF", "0x1p-3") and "nan(1)" too. */
static bool put_float(const char *text, td_tensor *y, int64_t i) {
  char *end;
  if (y->dtype == TD_FLOAT32)
    ((float *)y->data)[i] = strtof_l(text, &end, plain);
  else
    ((double *)y->data)[i] = strtod_l(text, &end, plain);
  return end != text && *end == '\0';
}

/* The size of a whole number; false when it is none, or above `most`. */
static bool read_digits(const char *s, uint64_t most, uint64_t *out) {
  *out = 0;
  if (!*s) return false;
  for (; *s; s++) {
    uint64_t digit = (uint64_t)(*s - '0');
    if (*s < '0' || *s > '9' || *out > (most - digit) / 10) return false;
    *out = *out * 10 + digit;
  }
  return true;
}

static bool put_whole(const char *text, td_tensor *y, int64_t i) {
  bool wide = td_dtype_size(y->dtype) == 8, minus = *text == '-';
  bool is_signed = y->dtype == TD_INT32 || y->dtype == TD_INT64;
  uint64_t most = wide ? UINT64_MAX : UINT32_MAX, size;
  if (minus && !is_signed) return false;
  if (is_signed) most = most / 2 + minus;
  if (!read_digits(text + (minus || *text == '+'), most, &size)) return false;
  td_tensor_set_i(y, i, (int64_t)(minus ? -size : size));
  return true;
}

td_status *td_text_number(td_bytes s, td_tensor *y, int64_t i) {
  char near[SHORT], *text = near;
  td_bytes number = td_text_strip(s);
  pthread_once(&plain_once, plain_make);
  if (!plain) return td_oom();
  if (number.len >= SHORT && !(text = td_malloc(number.len + 1)))
    return td_oom();
  memcpy(text, number.at, number.len);
  text[number.len] = '\0';
  bool whole = strlen(text) == number.len;
  bool done = whole && (td_dtype_is_float(y->dtype) ? put_float(text, y, i)
                                                    : put_whole(text, y, i));
  if (text != near) td_free(text);
  if (done) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "string %lld, \"%.*s\", is no %s",
                  (long long)i, td_text_shown(s), s.at,
                  td_dtype_name(y->dtype));
}

static td_status *to_number_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  td_tensor *y;
  TD_TRY(td_out(c, 0, &x->shape, &y));
  int64_t n = td_tensor_count(x);
  for (int64_t i = 0; i < n; i++)
    TD_TRY(td_text_number(td_text_at(x, i), y, i));
  return NULL;
}

/* ---- AsString ------------------------------------------------------------ */

enum { MOST = 4096 /* of width and precision */, FORMAT = 32 };

typedef struct format {
  char text[FORMAT]; /* of one number */
  bool shortest;     /* as few digits as give the number back */
  int width;
  int64_t precision; /* negative: none */
} format;

static td_status *check_fields(const td_node *n, td_dtype t) {
  int64_t precision = td_node_int(n, "precision");
  int64_t width = td_node_int(n, "width");
  bool floats = /* strings take the words, too */
      td_dtype_is_float(t) || td_dtype_is_complex(t) || t == TD_STRING;
  bool both = td_node_bool(n, "scientific") && td_node_bool(n, "shortest");
  if (both)
    return td_error(TD_INVALID_ARGUMENT,
                    "scientific and shortest exclude each other");
  if (!floats && (td_node_bool(n, "scientific") || td_node_bool(n, "shortest")))
    return td_error(TD_INVALID_ARGUMENT,
                    "scientific and shortest are of floats, not of %s",
                    td_dtype_name(t));
  if (!floats && precision >= 0)
    return td_error(TD_INVALID_ARGUMENT, "precision %lld is of floats, not %s",
                    (long long)precision, td_dtype_name(t));
  if (precision > MOST || width > MOST)
    return td_error(TD_INVALID_ARGUMENT,
                    "width and precision must be %d at most, not %lld and "
                    "%lld",
                    MOST, (long long)width, (long long)precision);
  return NULL;
}

static td_status *read_fill(const td_node *n, char fill[2]) {
  const char *text = td_node_string(n, "fill");
  size_t len = td_node_attr(n, "fill")->s.len;
  fill[0] = text[0];
  fill[1] = '\0';
  if (len > 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "fill must be one character or none, not \"%.60s\"", text);
  if (len == 0 || (text[0] && strchr(" #+-0", text[0]))) return NULL;
  return td_error(
      TD_INVALID_ARGUMENT,
      "fill must be \" \", \"#\", \"+\", \"-\" or \"0\", not \"%s\"", text);
}

static bool is_unsigned(td_dtype t) {
  return t == TD_UINT8 || t == TD_UINT16 || t == TD_UINT32 || t == TD_UINT64;
}

/* "%" fill width precision, then what the dtype says. */
static td_status *make_format(const td_node *n, td_dtype t, format *f) {
  char fill[2], *at = f->text, *end = f->text + sizeof f->text;
  int64_t precision = f->precision = td_node_int(n, "precision");
  TD_TRY(check_fields(n, t));
  TD_TRY(read_fill(n, fill));
  f->width = (int)td_node_int(n, "width");
  f->shortest = td_node_bool(n, "shortest");
  at += snprintf(at, (size_t)(end - at), "%%%s", fill);
  if (f->width > 0) at += snprintf(at, (size_t)(end - at), "%d", f->width);
  if (precision >= 0)
    at += snprintf(at, (size_t)(end - at), ".%d", (int)precision);
  const char *kind = f->shortest                     ? "g"
                     : td_node_bool(n, "scientific") ? "e"
                                                     : "f";
  if (!td_dtype_is_float(t) && !td_dtype_is_complex(t))
    kind = t == TD_BOOL || t == TD_STRING ? "s"
           : is_unsigned(t)               ? PRIu64
                                          : PRId64;
  snprintf(at, (size_t)(end - at), "%s", kind);
  return NULL;
}

static void add_float(const format *f, double v, td_str *out) {
  td_str_addf(out, f->text, v);
}

static void add_complex(const format *f, const td_tensor *x, int64_t i,
                        td_str *out) {
  const float *z = (const float *)x->data + 2 * i;
  const double *w = (const double *)x->data + 2 * i;
  bool wide = x->dtype == TD_COMPLEX128;
  td_str_addc(out, '(');
  add_float(f, wide ? w[0] : (double)z[0], out);
  td_str_addc(out, ',');
  add_float(f, wide ? w[1] : (double)z[1], out);
  td_str_addc(out, ')');
}

static void add_padded(const format *f, td_bytes s, td_str *out) {
  size_t width = f->width > 0 ? (size_t)f->width : 0;
  bool cut = width > 0 && f->precision >= 0; /* as printf's "%5.2s" */
  if (cut && s.len > (size_t)f->precision) s.len = (size_t)f->precision;
  size_t pad = s.len < width ? width - s.len : 0;
  bool left = f->text[1] == '-';
  for (size_t i = 0; !left && i < pad; i++) td_str_addc(out, ' ');
  td_str_addn(out, s.at, s.len);
  for (size_t i = 0; left && i < pad; i++) td_str_addc(out, ' ');
}

static void add_element(const format *f, const td_tensor *x, int64_t i,
                        td_str *out) {
  if (td_dtype_is_complex(x->dtype))
    add_complex(f, x, i, out);
  else if (td_dtype_is_float(x->dtype))
    add_float(f, td_tensor_get_f(x, i), out);
  else if (x->dtype == TD_BOOL)
    td_str_add(out, td_tensor_get_i(x, i) ? "true" : "false");
  else if (x->dtype == TD_STRING)
    add_padded(f, td_text_at(x, i), out);
  else
    td_str_addf(out, f->text, td_tensor_get_i(x, i));
}

static td_status *as_string_run(td_kernel_ctx *c) {
  const td_tensor *x = td_in(c, 0);
  int64_t n = td_tensor_count(x);
  format f;
  td_text t = {0};
  TD_TRY(make_format(td_ctx_node(c), x->dtype, &f));
  if (!td_text_reserve(&t, n)) return td_oom();
  for (int64_t i = 0; i < n; i++) {
    add_element(&f, x, i, &t.all);
    td_text_end(&t);
  }
  td_status *s = td_text_out(c, 0, &x->shape, &t);
  td_text_drop(&t);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "StringToNumber",
     .sig = "string_tensor: string -> output: out_type; "
            "out_type: {float, double, int32, int64, uint32, uint64} = float",
     .shape = td_infer_same,
     .doc = "The number that each string is, white space around it left out.",
     .flags = TD_NO_GRADIENT,
     .example = "td.string_to_number(td.tensor{\"1.5\", \" -2\"})  --> 1.5 -2",
     .section = "Strings"},
    {.type = "AsString",
     .sig = "input: T -> output: string; "
            "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, "
            "uint16, half, uint32, uint64, complex64, complex128, bool, "
            "variant, string}; "
            "precision: int = -1; scientific: bool = false; "
            "shortest: bool = false; width: int = -1; fill: string = \"\"",
     .shape = td_infer_same,
     .doc = "Each element as text.",
     .section = "Strings"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "StringToNumber", .device = "CPU", .run = to_number_run},
    {.op = "AsString",
     .device = "CPU",
     .types = "T=float|double|int32|uint8|int16|int8|int64|bfloat16|uint16|"
              "half|uint32|uint64|complex64|complex128|bool|string",
     .run = as_string_run},
    {0},
};

TD_MODULE(string_number, ops, kernels)
