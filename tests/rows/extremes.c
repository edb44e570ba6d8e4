/* extremes.c - operands that are empty, of size 1, of another rank or out of
 * range, against TensorFlow's answers.
 *
 * tests/golden/extremes/<Op>.txt has a line for each change of a golden case
 * and what TensorFlow said: shapes and a weighted sum of each output, or a code
 * (the head of tests/peers/extremes.py, which writes them). The node is built
 * with everything known of its inputs and with nothing, so that the shape
 * function and the kernel each give that answer. Where Tide differs on purpose,
 * differs.txt beside this file has the lines, by pattern, and why; a pattern
 * that excuses nothing is a failure.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/rows/rows.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/str.h"

enum { MAX_LINE = 1024, MAX_WORD = 48 };

/* A line, and the case that it makes of a golden one. */
typedef struct question {
  const row *r;
  golden_case from, c; /* c: operands changed; owns those in `made` */
  td_tensor made[MAX_IN];
  int n_made;
  td_note attr;  /* name NULL: none */
  char *text;    /* before the arrow */
  char *want;    /* after it, without the mark */
  bool stricter; /* TensorFlow's shape function refuses */
} question;

/* ---- reading a line ------------------------------------------------------ */

static td_shape shape_of(const char *s) {
  td_shape out = td_shape_scalar();
  if (strcmp(s, ".") == 0) return out;
  for (char *end; out.rank < TD_MAX_RANK; s = end + 1) {
    out.dim[out.rank++] = strtoll(s, &end, 10);
    if (*end != 'x') break;
  }
  return out;
}

/* An operand: an input, or what its variable holds. */
static td_tensor *operand(golden_case *c, int i) {
  for (int v = 0; v < c->n_var; v++)
    if (c->var_in[v] == i) return &c->before[v];
  return &c->in[i];
}

static void replace(question *q, td_tensor *at, td_tensor by) {
  q->made[q->n_made++] = by;
  *at = by;
}

/* "in2[0]=-1", "in2=0x3" or "padding=VALID". */
static void change(question *q, const char *word) {
  int i, k, used = 0;
  long long n;
  if (sscanf(word, "in%d[%d]=%lld", &i, &k, &n) == 3) {
    td_tensor t, *at = operand(&q->c, i);
    OK(td_tensor_copy(at, &t));
    td_tensor_set_i(&t, k, n);
    replace(q, at, t);
  } else if (sscanf(word, "in%d=%n", &i, &used) == 1 && used) {
    td_tensor *at = operand(&q->c, i);
    replace(q, at, refill(at, shape_of(word + used)));
  } else {
    assert_string_equal(word, "padding=VALID");
    q->attr = (td_note){"padding", td_attr_string("VALID")};
  }
}

static void ask(const row *r, const Td__Golden *g, char *line, question *q) {
  char *arrow = strstr(line, " -> "), words[MAX_LINE];
  assert_non_null(arrow);
  *arrow = '\0';
  *q = (question){.r = r, .text = line, .want = arrow + 4};
  q->want[strcspn(q->want, "\n")] = '\0';
  q->stricter = strncmp(q->want, "! ", 2) == 0;
  if (q->stricter) q->want += 2;
  snprintf(words, sizeof words, "%s", line);
  char *rest, *word = strtok_r(words, " ", &rest);
  golden_open(g, atoi(word), &q->from);
  q->c = q->from;
  memset(q->c.again, 0, sizeof q->c.again);
  while ((word = strtok_r(NULL, " ", &rest))) change(q, word);
}

static void ask_end(question *q) {
  for (int i = 0; i < q->n_made; i++) td_tensor_release(&q->made[i]);
  golden_close(&q->from);
}

/* ---- answers ------------------------------------------------------------- */

typedef struct sum {
  double total, size; /* size: of the terms' moduli */
  int64_t n;
} sum;

static void add(sum *s, double x) {
  if (isnan(x)) x = 1000.25;
  if (isinf(x)) x = copysign(2000.5, x);
  double term = x * ((double)(7 * s->n++ % 11) - 5.5) / 8;
  s->total += term;
  s->size += fabs(term);
}

static void add_text(sum *s, const td_tensor *t, int64_t i) {
  size_t len;
  const char *p = td_tensor_str(t, i, &len);
  add(s, (double)len);
  for (size_t k = 0; k < len; k++) add(s, (unsigned char)p[k]);
}

static sum sum_of(const td_tensor *t) {
  sum s = {0};
  for (int64_t i = 0; i < td_tensor_count(t); i++)
    if (t->dtype == TD_STRING)
      add_text(&s, t, i);
    else if (t->dtype == TD_COMPLEX64)
      for (int k = 0; k < 2; k++) add(&s, ((float *)t->data)[2 * i + k]);
    else if (t->dtype == TD_COMPLEX128)
      for (int k = 0; k < 2; k++) add(&s, ((double *)t->data)[2 * i + k]);
    else if (td_dtype_is_float(t->dtype))
      add(&s, td_tensor_get_f(t, i));
    else
      add(&s, (double)td_tensor_get_i(t, i));
  return s;
}

static double room(const td_tensor *t) {
  if (t->dtype == TD_BFLOAT16) return 0.03;
  return t->dtype == TD_FLOAT16 ? 0.004 : 1e-5;
}

/* Is a tensor what a word says: "0x3:0", or "-" for none? */
static bool is(const td_tensor *t, const char *word) {
  if (word[0] == '-' || !td_tensor_valid(t))
    return word[0] == '-' && !td_tensor_valid(t);
  char shape[MAX_WORD];
  double want;
  if (sscanf(word, "%47[^:]:%lf", shape, &want) != 2) return false;
  td_shape s = shape_of(shape);
  sum got = sum_of(t);
  if (!td_shape_equal(&s, &t->shape)) return false;
  if (!isfinite(want)) return !isfinite(got.total); /* of the lowest numbers */
  return fabs(got.total - want) <= room(t) * (got.size + 1e-3);
}

/* The next words of an answer against tensors. */
static bool all_are(const td_tensor *t, int n, char **rest) {
  bool yes = true;
  for (int i = 0; i < n; i++) {
    const char *word = strtok_r(NULL, " ", rest);
    yes = yes && word && is(&t[i], word);
  }
  return yes;
}

static bool answered(const question *q, const result *x) {
  char words[MAX_LINE], *rest = words;
  snprintf(words, sizeof words, "%s", q->want);
  if (x->n_out == 0 && strcmp(strtok_r(NULL, " ", &rest), "ok") != 0)
    return false;
  if (!all_are(x->out, x->n_out, &rest)) return false;
  if (q->c.n_var > 0) strtok_r(NULL, " ", &rest); /* "|" */
  return all_are(x->after, q->c.n_var, &rest);
}

static void say_tensors(const td_tensor *t, int n, td_str *out) {
  td_shape_text text;
  for (int i = 0; i < n; i++)
    if (td_tensor_valid(&t[i]))
      td_str_addf(out, " %s:%.8g", td_shape_str(&t[i].shape, &text),
                  sum_of(&t[i]).total);
    else
      td_str_add(out, " -");
}

/* ---- a line -------------------------------------------------------------- */

static bool wants_code(const question *q) {
  return !strchr(q->want, ':') && q->want[0] != '-' &&
         strncmp(q->want, "ok", 2) != 0;
}

static bool has_windows(const row *r) {
  const td_op *op = td_op_find(r->op);
  for (int i = 0; i < op->n_attr; i++)
    if (strcmp(op->attr[i].name, "padding") == 0) return true;
  return false;
}

/* A shape function's refusal is an invalid argument, in TensorFlow too. What
 * TensorFlow's kernels take though the shape function does not, a window that
 * is larger than the image apart, may be refused whatever is known. An internal
 * error there is one of the caller here. */
static bool rightly(const question *q, bool ran, const char *code) {
  bool invalid = strcmp(code, "invalid_argument") == 0;
  if (wants_code(q))
    return strcmp(code, q->want) == 0 ||
           (invalid && (!ran || strcmp(q->want, "internal") == 0));
  return q->stricter && invalid && (!ran || !has_windows(q->r));
}

/* Says in `out` how Tide's answer differs, if it does. */
static void differs(const question *q, knowledge k, td_str *out) {
  result x;
  built b;
  td_status *s =
      build_changed(&q->c, q->c.in, k, q->attr.name ? &q->attr : NULL, &b);
  bool made = td_ok(s);
  if (made) s = run_node(&b, &q->c, q->c.in, 0xff, false, 1, &x);
  if (made) built_drop(&b);
  if (!td_ok(s)) {
    const char *code = td_code_name(td_status_code(s));
    if (!rightly(q, made || k == NOTHING, code))
      td_str_addf(out, "%s (%s)", code, td_status_message(s));
    td_status_release(s);
    return;
  }
  if (wants_code(q) || !answered(q, &x)) {
    say_tensors(x.out, x.n_out, out);
    if (q->c.n_var) td_str_add(out, " |");
    say_tensors(x.after, q->c.n_var, out);
  }
  result_drop(&x);
}

/* ---- what differs on purpose --------------------------------------------- */

enum { MAX_EXCUSES = 256 };

/* "OP PATTERN: reason": a line that says that an op's lines differ. */
typedef struct excuse {
  char op[64], pattern[128];
  bool used;
} excuse;

static int load_excuses(const char *op, excuse *out) {
  char line[MAX_LINE];
  int n = 0;
  FILE *f = fopen("tests/rows/differs.txt", "r");
  if (!f) fail_msg("tests/rows/differs.txt: not found");
  while (fgets(line, sizeof line, f)) {
    excuse e = {0};
    if (line[0] == '#' || line[0] == '\n') continue;
    if (sscanf(line, "%63s %127[^:]: %*s", e.op, e.pattern) != 2)
      fail_msg("differs.txt: no reason: %s", line);
    if (fnmatch(e.op, op, 0) != 0) continue;
    assert_true(n < MAX_EXCUSES);
    out[n++] = e;
  }
  fclose(f);
  return n;
}

static bool excused(excuse *all, int n, const char *text) {
  for (int i = 0; i < n; i++)
    if (fnmatch(all[i].pattern, text, 0) == 0) return all[i].used = true;
  return false;
}

/* ---- an op --------------------------------------------------------------- */

static void check_line(const row *r, const Td__Golden *g, char *line,
                       excuse *excuses, int n, td_str *out) {
  static const char *const knowing[] = {
      [VALUES] = "everything", [NOTHING] = "nothing"};
  question q;
  ask(r, g, line, &q);
  for (knowledge k = VALUES; k <= NOTHING; k += NOTHING - VALUES) {
    td_str how;
    td_str_init(&how);
    differs(&q, k, &how);
    if (how.len && !excused(excuses, n, q.text))
      td_str_addf(out, "%s %s, knowing %s: %s\n    TensorFlow: %s%s\n", r->op,
                  q.text, knowing[k], td_str_c(&how),
                  q.stricter ? "refused when built, then " : "", q.want);
    td_str_deinit(&how);
  }
  ask_end(&q);
}

void check_extremes(const row *r, const Td__Golden *g) {
  char path[256], line[MAX_LINE];
  excuse excuses[MAX_EXCUSES];
  td_str out;
  snprintf(path, sizeof path, "tests/golden/extremes/%s.txt", r->op);
  FILE *f = fopen(path, "r");
  if (!f) return;
  int n = load_excuses(r->op, excuses);
  td_str_init(&out);
  while (fgets(line, sizeof line, f)) check_line(r, g, line, excuses, n, &out);
  fclose(f);
  for (int i = 0; i < n; i++)
    if (!excuses[i].used && strcmp(excuses[i].op, r->op) == 0)
      td_str_addf(&out, "differs.txt excuses %s %s for nothing\n", r->op,
                  excuses[i].pattern);
  fputs(td_str_c(&out), stdout);
  bool same = out.len == 0;
  td_str_deinit(&out);
  if (!same) fail_msg("%s: not as in %s", r->op, path);
}
