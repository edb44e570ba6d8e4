/* signatures.c - every registered op against TensorFlow's own table.
 *
 * tests/golden/opdefs.json is that table: inputs, outputs, attributes, flags of
 * hundreds of ops. An op that is registered here and stands there must be the
 * same in every part. The reader of signatures is tested by the whole table:
 * each op is written as a signature, read back and compared.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "engine/graph/op_sig.h"

static const char *const table_path = "tests/golden/opdefs.json";

/* The first difference found; empty when there is none. */
typedef struct diff {
  char text[256];
} diff;

static void note(diff *d, const char *fmt, ...) TD_PRINTF(2, 3);
static void note(diff *d, const char *fmt, ...) {
  if (d->text[0]) return;
  va_list args;
  va_start(args, fmt);
  vsnprintf(d->text, sizeof d->text, fmt, args);
  va_end(args);
}

static const char *text_of(const json_t *o, const char *key) {
  const char *s = json_string_value(json_object_get(o, key));
  return s ? s : "";
}

static td_dtype dtype_of(const char *name) {
  return td_dtype_parse(name, strlen(name));
}

/* ---- arguments ----------------------------------------------------------- */

/* A handle by reference, of TensorFlow's older ops, is a resource here, and who
 * takes one has a state. */
static bool is_handle(const td_arg *a, const json_t *want) {
  return json_is_true(json_object_get(want, "ref")) &&
         dtype_of(text_of(want, "type")) == TD_STRING && a->type == TD_RESOURCE;
}

static bool has_handle(const td_op *op, const json_t *want) {
  return op->n_in > 0 && json_array_size(want) > 0 &&
         is_handle(&op->in[0], json_array_get(want, 0));
}

static const char *attr_name(const td_op *op, int i) {
  return i >= 0 ? op->attr[i].name : "";
}

static void compare_arg(const td_op *op, const td_arg *a, const json_t *want,
                        diff *d) {
  const char *type = text_of(want, "type_attr");
  const char *list = text_of(want, "type_list_attr");
  if (strcmp(a->name, text_of(want, "name")) != 0)
    note(d, "argument %s is named %s", text_of(want, "name"), a->name);
  if (strcmp(attr_name(op, a->number_attr), text_of(want, "number_attr")) != 0)
    note(d, "number of %s", a->name);
  if (strcmp(attr_name(op, a->type_attr), list[0] ? list : type) != 0 ||
      a->type_list != (list[0] != '\0'))
    note(d, "type attribute of %s", a->name);
  if (a->type_attr < 0 && !is_handle(a, want) &&
      a->type != dtype_of(text_of(want, "type")))
    note(d, "dtype of %s", a->name);
}

static void compare_args(const td_op *op, const td_arg *args, int n,
                         const json_t *want, diff *d) {
  if ((size_t)n != json_array_size(want))
    note(d, "%d arguments, not %zu", n, json_array_size(want));
  for (int i = 0; i < n && !d->text[0]; i++)
    compare_arg(op, &args[i], json_array_get(want, (size_t)i), d);
}

/* ---- attributes ---------------------------------------------------------- */

static bool same_int(int64_t v, const json_t *want) {
  return json_is_integer(want) && json_integer_value(want) == v;
}

static bool same_float(float v, const json_t *want) {
  return json_is_number(want) && (float)json_number_value(want) == v;
}

static bool same_shape(const td_shape *s, const json_t *want) {
  const json_t *dims = json_object_get(want, "dim");
  if (json_is_true(json_object_get(want, "unknownRank"))) return s->rank == -1;
  if (s->rank != (int)json_array_size(dims)) return false;
  for (int i = 0; i < s->rank; i++) {
    const char *size = text_of(json_array_get(dims, (size_t)i), "size");
    char ours[24];
    snprintf(ours, sizeof ours, "%lld", (long long)s->dim[i]);
    if (strcmp(size, ours) != 0) return false;
  }
  return true;
}

static bool same_tensor(const td_tensor *t, const json_t *want) {
  const json_t *values = json_object_get(want, "intVal");
  if (strcmp(text_of(want, "dtype"), "DT_UINT8") != 0 || t->dtype != TD_UINT8 ||
      !same_shape(&t->shape, json_object_get(want, "tensorShape")))
    return false;
  for (int64_t i = 0; i < td_tensor_count(t); i++)
    if (!same_int(td_tensor_get_i(t, i), json_array_get(values, (size_t)i)))
      return false;
  return true;
}

static bool same_single(const td_attr *a, const json_t *want) {
  switch (a->kind) {
  case TD_ATTR_INT:
    return same_int(a->i, want);
  case TD_ATTR_FLOAT:
    return same_float(a->f, want);
  case TD_ATTR_BOOL:
    return json_is_boolean(want) && json_is_true(want) == a->b;
  case TD_ATTR_STRING:
    return json_is_string(want) &&
           strcmp(a->s.at, json_string_value(want)) == 0;
  case TD_ATTR_TYPE:
    return json_is_string(want) && a->type == dtype_of(json_string_value(want));
  case TD_ATTR_SHAPE:
    return same_shape(a->shape, want);
  case TD_ATTR_TENSOR:
    return same_tensor(a->tensor, want);
  default:
    return false;
  }
}

static bool same_default(const td_attr *a, const json_t *want) {
  if (!a->is_list) return same_single(a, want);
  if (!json_is_array(want) || (size_t)a->len != json_array_size(want))
    return false;
  for (int i = 0; i < a->len; i++) {
    const json_t *w = json_array_get(want, (size_t)i);
    if (a->kind == TD_ATTR_INT && !same_int(a->is[i], w)) return false;
    if (a->kind == TD_ATTR_FLOAT && !same_float(a->fs[i], w)) return false;
    if (a->kind != TD_ATTR_INT && a->kind != TD_ATTR_FLOAT) return false;
  }
  return true;
}

/* Sets of dtypes are compared as sets, sets of strings in their order. */
static bool same_allowed(const td_attr_def *a, const json_t *want) {
  uint32_t types = 0;
  size_t strings = 0;
  for (size_t i = 0; i < json_array_size(want); i++) {
    const char *s = json_string_value(json_array_get(want, i));
    if (a->kind == TD_ATTR_TYPE) types |= 1u << dtype_of(s);
    if (a->kind != TD_ATTR_STRING) continue;
    if (!a->strings || !a->strings[i] || strcmp(a->strings[i], s) != 0)
      return false;
    strings++;
  }
  return types == a->types && (!a->strings || !a->strings[strings]);
}

static void compare_attr(const td_attr_def *a, const json_t *want, diff *d) {
  const json_t *minimum = json_object_get(want, "minimum");
  const json_t *value = json_object_get(want, "default");
  if (strcmp(a->name, text_of(want, "name")) != 0)
    note(d, "attribute %s is named %s", text_of(want, "name"), a->name);
  if (strcmp(td_attr_kind_name(a->kind, a->is_list), text_of(want, "type")) !=
      0)
    note(d, "kind of %s is %s", a->name, text_of(want, "type"));
  if (a->has_minimum != (minimum != NULL) ||
      (minimum && !same_int(a->minimum, minimum)))
    note(d, "minimum of %s", a->name);
  if (!same_allowed(a, json_object_get(want, "allowed")))
    note(d, "allowed values of %s", a->name);
  if (a->has_default != (value != NULL) ||
      (value && !same_default(&a->value, value)))
    note(d, "default of %s", a->name);
}

/* ---- ops ----------------------------------------------------------------- */

static void compare_flag(const td_op *op, unsigned flag, const char *key,
                         const json_t *want, diff *d) {
  bool has = (op->flags & flag) != 0;
  if (has != json_is_true(json_object_get(want, key)))
    note(d, "%s is %s", key, has ? "false" : "true");
}

static void compare(const td_op *op, const json_t *want, diff *d) {
  const json_t *attrs = json_object_get(want, "attrs");
  compare_args(op, op->in, op->n_in, json_object_get(want, "inputs"), d);
  compare_args(op, op->out, op->n_out, json_object_get(want, "outputs"), d);
  if ((size_t)op->n_attr != json_array_size(attrs))
    note(d, "%d attributes, not %zu", op->n_attr, json_array_size(attrs));
  for (int i = 0; i < op->n_attr && !d->text[0]; i++)
    compare_attr(&op->attr[i], json_array_get(attrs, (size_t)i), d);
  if (!has_handle(op, json_object_get(want, "inputs")))
    compare_flag(op, TD_STATEFUL, "is_stateful", want, d);
  compare_flag(op, TD_COMMUTATIVE, "is_commutative", want, d);
  compare_flag(op, TD_AGGREGATE, "is_aggregate", want, d);
}

static int load_table(void **state) {
  json_error_t error;
  *state = json_load_file(table_path, 0, &error);
  if (!*state) print_error("%s: %s\n", table_path, error.text);
  return *state ? 0 : -1;
}

static int free_table(void **state) {
  json_decref(*state);
  return 0;
}

static void test_registered_ops(void **state) {
  int compared = 0, wrong = 0;
  td_status *s = td_op_check();
  if (s) fail_msg("%s", td_status_message(s));
  for (int i = 0; i < td_op_count(); i++) {
    const td_op *op = td_op_at(i);
    const json_t *want = json_object_get(*state, op->type);
    diff d = {0};
    if (!want) continue;
    compare(op, want, &d);
    compared++;
    if (!d.text[0]) continue;
    wrong++;
    print_error("%s: %s\n", op->type, d.text);
  }
  print_message("%d ops compared\n", compared);
  assert_int_equal(wrong, 0);
}

/* ---- the reader of signatures -------------------------------------------- */

static void write_args(const json_t *args, td_str *out) {
  size_t i;
  const json_t *a;
  json_array_foreach(args, i, a) {
    td_str_addf(out, "%s%s: ", i ? ", " : "", text_of(a, "name"));
    const char *number = text_of(a, "number_attr");
    if (number[0]) td_str_addf(out, "%s*", number);
    td_str_addf(out, "%s%s%s", text_of(a, "type"), text_of(a, "type_attr"),
                text_of(a, "type_list_attr"));
  }
}

static void write_string(const char *s, td_str *out) {
  td_str_addc(out, '"');
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') td_str_addc(out, '\\');
    if (*s == '\n')
      td_str_add(out, "\\n");
    else if (*s == '\t')
      td_str_add(out, "\\t");
    else
      td_str_addc(out, *s);
  }
  td_str_addc(out, '"');
}

static void write_value(const json_t *v, bool quoted, td_str *out) {
  size_t i;
  const json_t *e;
  if (json_is_integer(v))
    td_str_addf(out, "%lld", (long long)json_integer_value(v));
  else if (json_is_real(v))
    td_str_addf(out, "%.9g", json_real_value(v));
  else if (json_is_boolean(v))
    td_str_add(out, json_is_true(v) ? "true" : "false");
  else if (json_is_string(v) && quoted)
    write_string(json_string_value(v), out);
  else if (json_is_string(v))
    td_str_add(out, json_string_value(v));
  else if (json_object_get(v, "unknownRank"))
    td_str_addc(out, '?');
  else {
    if (json_is_object(v)) {
      td_str_add(out, "uint8");
      v = json_object_get(v, "intVal");
    }
    td_str_addc(out, '{');
    json_array_foreach(v, i, e) {
      if (i) td_str_add(out, ", ");
      write_value(e, quoted, out);
    }
    td_str_addc(out, '}');
  }
}

static void write_attr(const json_t *a, td_str *out) {
  const char *kind = text_of(a, "type");
  const json_t *allowed = json_object_get(a, "allowed");
  const json_t *minimum = json_object_get(a, "minimum");
  const json_t *value = json_object_get(a, "default");
  bool quoted = strstr(kind, "string") != NULL;
  bool list = strncmp(kind, "list", 4) == 0;
  td_str_addf(out, "; %s: ", text_of(a, "name"));
  if (allowed && list) td_str_add(out, "list(");
  if (allowed)
    write_value(allowed, quoted, out);
  else
    td_str_add(out, kind);
  if (allowed && list) td_str_addc(out, ')');
  if (minimum) td_str_add(out, " >= ");
  if (minimum) write_value(minimum, quoted, out);
  if (value) td_str_add(out, " = ");
  if (value) write_value(value, quoted, out);
}

static void write_op(const json_t *op, td_str *out) {
  size_t i;
  const json_t *a;
  write_args(json_object_get(op, "inputs"), out);
  td_str_add(out, " -> ");
  write_args(json_object_get(op, "outputs"), out);
  json_array_foreach(json_object_get(op, "attrs"), i, a) write_attr(a, out);
}

static unsigned flags_of(const json_t *op) {
  unsigned flags = 0;
  if (json_is_true(json_object_get(op, "is_stateful"))) flags |= TD_STATEFUL;
  if (json_is_true(json_object_get(op, "is_commutative")))
    flags |= TD_COMMUTATIVE;
  if (json_is_true(json_object_get(op, "is_aggregate"))) flags |= TD_AGGREGATE;
  return flags;
}

static void test_every_signature_reads(void **state) {
  const char *type;
  json_t *want;
  int read = 0;
  json_object_foreach(*state, type, want) {
    td_str sig = {0};
    td_arena arena;
    td_op op;
    diff d = {0};
    write_op(want, &sig);
    td_op_def def = {.type = type,
                     .sig = td_str_c(&sig),
                     .shape = td_infer_any,
                     .flags = flags_of(want)};
    td_arena_init(&arena);
    td_status *s = td_op_parse(&arena, &def, &op);
    if (s) fail_msg("%s: %s", type, td_status_message(s));
    compare(&op, want, &d);
    if (d.text[0]) fail_msg("%s: %s in \"%s\"", type, d.text, def.sig);
    td_op_unparse(&op);
    td_arena_deinit(&arena);
    td_str_deinit(&sig);
    read++;
  }
  print_message("%d signatures read\n", read);
  assert_true(read >= 717);
}

/* The comparison itself sees each kind of difference. */
static void test_differences_are_found(void **state) {
  static const struct {
    const char *type, *sig;
    unsigned flags;
    const char *part;
  } rows[] = {
      {"Softmax", "logits: T -> softmax: T; T: {half, bfloat16, float, double}",
       0, ""},
      {"Softmax", "logits: T -> y: T; T: {half, bfloat16, float, double}", 0,
       "softmax is named y"},
      {"Softmax", "logits: T -> softmax: T; T: {half, float, double}", 0,
       "allowed"},
      {"Softmax", "logits: T -> softmax: T; T: {half, bfloat16, float, double}",
       TD_STATEFUL, "is_stateful"},
      {"Softmax",
       "logits: T -> softmax: float; T: {half, bfloat16, float, double}", 0,
       "type attribute of softmax"},
      {"Pack", "values: N*T -> output: T; N: int; T: type; axis: int = 0", 0,
       "minimum of N"},
      {"Pack", "values: N*T -> output: T; N: int >= 1; T: type; axis: int = 1",
       0, "default of axis"},
      {"Pack", "values: T -> output: T; N: int >= 1; T: type; axis: int = 0", 0,
       "number of values"},
      {"Pack", "values: N*T -> output: T; N: int >= 1; T: type", 0,
       "2 attributes, not 3"},
      {"Pack", "values: N*T -> output: T; T: type; N: int >= 1; axis: int = 0",
       0, "N is named T"},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_arena arena;
    td_op op;
    diff d = {0};
    td_op_def def = {.type = rows[i].type,
                     .sig = rows[i].sig,
                     .shape = td_infer_any,
                     .flags = rows[i].flags};
    td_arena_init(&arena);
    td_status *s = td_op_parse(&arena, &def, &op);
    if (s) fail_msg("%s", td_status_message(s));
    compare(&op, json_object_get(*state, def.type), &d);
    if (rows[i].part[0] ? !strstr(d.text, rows[i].part) : d.text[0] != '\0')
      fail_msg("row %zu: \"%s\", not \"%s\"", i, d.text, rows[i].part);
    td_op_unparse(&op);
    td_arena_deinit(&arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_registered_ops),
      cmocka_unit_test(test_every_signature_reads),
      cmocka_unit_test(test_differences_are_found),
  };
  return cmocka_run_group_tests(tests, load_table, free_table);
}
