/* string_regex.c - RegexReplace and RegexFullMatch, and the two whose pattern
 * is an attribute.
 *
 * In a rewrite \1 to \9 stand for groups, \0 for all that matched, \\ for a
 * backslash. An empty match right behind the last one is passed over, as RE2
 * does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/regex.h"

/* ---- replacing ----------------------------------------------------------- */

typedef struct job {
  td_regex *regex;
  td_bytes rewrite;
  bool all; /* not only the first */
  const td_kernel_ctx *ctx;
} job;

static td_status *check_rewrite(td_bytes w, int groups) {
  for (size_t i = 0; i < w.len; i++) {
    if (w.at[i] != '\\') continue;
    char c = ++i < w.len ? w.at[i] : 0;
    if (c == '\\') continue;
    if (c < '0' || c > '9')
      return td_error(TD_INVALID_ARGUMENT,
                      "rewrite \"%.*s\": a backslash is followed by a digit or "
                      "by another one",
                      td_text_shown(w), w.at);
    if (c - '0' > groups)
      return td_error(TD_INVALID_ARGUMENT,
                      "rewrite \"%.*s\" has \\%c, but the pattern has %d "
                      "groups in parentheses",
                      td_text_shown(w), w.at, c, groups);
  }
  return NULL;
}

/* What stands for a match. */
static void put_rewrite(const job *j, td_bytes in, td_str *out) {
  const size_t *at = td_regex_at(j->regex);
  td_bytes w = j->rewrite;
  for (size_t i = 0; i < w.len; i++) {
    if (w.at[i] != '\\') {
      td_str_addc(out, w.at[i]);
    } else if (w.at[++i] == '\\') {
      td_str_addc(out, '\\');
    } else {
      size_t k = 2 * (size_t)(w.at[i] - '0');
      if (at[k] < at[k + 1]) td_str_addn(out, in.at + at[k], at[k + 1] - at[k]);
    }
  }
}

static td_status *replace(const void *arg, td_bytes in, td_str *out) {
  const job *j = arg;
  size_t p = 0, last = SIZE_MAX; /* where the last match ended */
  TD_TRY(td_regex_text(j->regex, in));
  while (p <= in.len) {
    bool found;
    TD_TRY(td_regex_find(j->regex, p, j->ctx, &found));
    if (!found) break;
    size_t begin = td_regex_at(j->regex)[0], end = td_regex_at(j->regex)[1];
    td_str_addn(out, in.at + p, begin - p);
    p = begin;
    if (begin == last && end == begin) {
      size_t n = p < in.len ? td_regex_character(in, p) : 0;
      td_str_addn(out, in.at + p, n);
      p += n ? n : 1;
      continue;
    }
    put_rewrite(j, in, out);
    p = last = end;
    if (!j->all) break;
  }
  if (p < in.len) td_str_addn(out, in.at + p, in.len - p);
  return NULL;
}

static td_status *replace_with(td_kernel_ctx *c, td_bytes pattern,
                               td_bytes rewrite) {
  job j = {.rewrite = rewrite,
           .all = td_node_bool(td_ctx_node(c), "replace_global"),
           .ctx = c};
  TD_TRY(td_regex_new(pattern, &j.regex));
  td_status *s = check_rewrite(rewrite, td_regex_groups(j.regex));
  if (td_ok(s)) s = td_text_map(c, replace, &j);
  td_regex_free(j.regex);
  return s;
}

/* ---- matching ------------------------------------------------------------ */

static td_status *match_with(td_kernel_ctx *c, td_bytes pattern) {
  const td_tensor *x = td_in(c, 0);
  td_regex *r;
  td_tensor *y;
  TD_TRY(td_out(c, 0, &x->shape, &y));
  TD_TRY(td_regex_new(pattern, &r));
  td_status *s = NULL;
  bool *to = y->data;
  for (int64_t i = 0; i < td_tensor_count(x) && td_ok(s); i++) {
    to[i] = false;
    if (td_stopped(c)) break;
    s = td_regex_text(r, td_text_at(x, i));
    if (td_ok(s)) s = td_regex_whole(r, &to[i]);
  }
  td_regex_free(r);
  return s;
}

/* ---- kernels ------------------------------------------------------------- */

static td_status *scalar_operand(const td_kernel_ctx *c, int i,
                                 const char *what, td_bytes *out) {
  const td_tensor *t = td_in(c, i);
  td_shape_text text;
  if (t->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a scalar, not of shape %s",
                    what, td_shape_str(&t->shape, &text));
  *out = td_text_at(t, 0);
  return NULL;
}

static td_bytes text_attr(const td_kernel_ctx *c, const char *name) {
  const td_attr *a = td_node_attr(td_ctx_node(c), name);
  return a ? a->s : (td_bytes){"", 0};
}

static td_status *replace_run(td_kernel_ctx *c) {
  td_bytes pattern, rewrite;
  TD_TRY(scalar_operand(c, 1, "pattern", &pattern));
  TD_TRY(scalar_operand(c, 2, "rewrite", &rewrite));
  return replace_with(c, pattern, rewrite);
}

static td_status *match_run(td_kernel_ctx *c) {
  td_bytes pattern;
  TD_TRY(scalar_operand(c, 1, "pattern", &pattern));
  return match_with(c, pattern);
}

static td_status *static_replace_run(td_kernel_ctx *c) {
  return replace_with(c, text_attr(c, "pattern"), text_attr(c, "rewrite"));
}

static td_status *static_match_run(td_kernel_ctx *c) {
  return match_with(c, text_attr(c, "pattern"));
}

static td_status *infer(td_infer *c) {
  static const char *const what[] = {"input", "pattern", "rewrite"};
  for (int i = 1; i < td_infer_inputs(c); i++)
    TD_TRY(td_infer_rank(c, i, 0, what[i], NULL));
  return td_infer_same(c);
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "RegexReplace",
     .sig = "input: string, pattern: string, rewrite: string -> "
            "output: string; replace_global: bool = true",
     .shape = infer,
     .doc = "Each string with what matches a regular expression of RE2's "
            "rewritten; \\1 to \\9 in rewrite are the groups.",
     .example = "td.regex_replace(\"tide moon\", \"(o+)\", "
                "\"<\\\\1>\")  --> tide m<oo>n",
     .section = "Strings"},
    {.type = "RegexFullMatch",
     .sig = "input: string, pattern: string -> output: bool",
     .shape = infer,
     .doc = "Does a regular expression of RE2's match the whole string?",
     .example = "td.regex_full_match({\"moon\", \"moons\"}, "
                "\"mo+n\")  --> true false",
     .section = "Strings"},
    {.type = "StaticRegexReplace",
     .sig = "input: string -> output: string; pattern: string; "
            "rewrite: string; replace_global: bool = true",
     .shape = td_infer_same,
     .doc = "As RegexReplace, with a pattern that is known beforehand.",
     .lua = "",
     .section = "Strings"},
    {.type = "StaticRegexFullMatch",
     .sig = "input: string -> output: bool; pattern: string",
     .shape = td_infer_same,
     .doc = "As RegexFullMatch, with a pattern that is known beforehand.",
     .lua = "",
     .section = "Strings"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "RegexReplace", .device = "CPU", .run = replace_run},
    {.op = "RegexFullMatch", .device = "CPU", .run = match_run},
    {.op = "StaticRegexReplace", .device = "CPU", .run = static_replace_run},
    {.op = "StaticRegexFullMatch", .device = "CPU", .run = static_match_run},
    {0},
};

TD_MODULE(string_regex, ops, kernels)
