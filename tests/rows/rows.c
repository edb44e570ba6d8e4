/* rows.c - every registered op against its row.
 *
 * One test an op. The cases of its golden file are run with everything, with
 * shapes and with nothing known of the inputs, on one thread and several, in
 * memory of its own and in that of its inputs: TensorFlow's answer within the
 * row's tolerance, or a refusal that says what was wrong. Then mutate*.c. An op
 * that takes tensors of any rank has a second file, with cases of ranks 0 to 15
 * or as far as TensorFlow goes.
 *
 *   rows [--list] [OP ...]     --list prints the registered ops
 *
 * With TIDE_DEVICE or TIDE_FLEET in the environment: device.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel_rows.h"
#include "tests/rows/rows.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ops without a golden file. */
static const char executors[] =
    "what goes in and out is the executor's: tests/engine/run";

static const char stacks[] = "a stack lives for a step: tests/lua/loops.lua";

static const char arrays[] = "an array lives for a step: tests/lua/arrays.lua";

static const char functions[] =
    "its function's body runs in its place: tests/lua/func.lua, functional.lua";

static const char variants[] =
    "a variant cannot be fed: tests/lua/functional.lua";

static const char queues[] = "what it gives depends on others: "
                             "tests/kernels/queue.c, tests/lua/queues.lua";
static const char readers[] = "files are read: tests/kernels/reader.c, "
                              "tests/lua/readers.lua";
static const char files[] = "files are read or written: "
                            "tests/kernels/file_ops.c, tests/lua/readers.lua";

static const char savers[] = "checkpoints are read or written: "
                             "tests/kernels/save_restore.c, "
                             "tests/lua/save_restore.lua";

static const char accumulators[] =
    "what it gives depends on others: tests/kernels/accumulator.c";

static const char barriers[] =
    "what it gives depends on others: tests/kernels/barrier.c";

static const char stages[] =
    "what it gives depends on others: tests/kernels/staging.c";

static const char mutexes[] =
    "it only orders what others do: tests/kernels/mutex.c";

static const char sessions[] =
    "what is kept belongs to a session: tests/lua/coordination.lua";

static const char tables[] = "a table outlives its step: "
                             "tests/kernels/table.c, tests/lua/tables.lua";

static const char global_norm[] =
    "TensorFlow 2.21 refuses it in graphs: tests/lua/gradients.lua";

static const struct {
  const char *op, *because;
} no_golden[] = {
#define X(op, because) {op, because},
#include "tests/rows/no_golden.def"
#undef X
};

static bool may_lack_golden(const char *op) {
  for (size_t i = 0; i < TD_COUNT(no_golden); i++)
    if (strcmp(no_golden[i].op, op) == 0) return true;
  return false;
}

/* ---- a case that TensorFlow answers -------------------------------------- */

static void check_inferred(const row *r, const golden_case *c, const built *b,
                           knowledge k) {
  if (b->node->n_out != c->n_out)
    fail_msg("%s, case %d: %d outputs, TensorFlow's %d", r->op, c->index,
             b->node->n_out, c->n_out);
  for (int i = 0; i < c->n_out; i++) {
    const td_result *said = &b->node->out[i];
    td_shape_text was, is;
    if (!td_tensor_valid(&c->out[i])) continue;
    bool right =
        td_shape_compatible(&said->shape, &c->out[i].shape) &&
        (k != VALUES || r->say->dynamic || td_shape_known(&said->shape));
    if (said->dtype != c->out[i].dtype || !right)
      fail_msg("%s, case %d: output %d is inferred as %s %s, TensorFlow's is "
               "%s %s",
               r->op, c->index, i, td_dtype_name(said->dtype),
               td_shape_str(&said->shape, &was), td_dtype_name(c->out[i].dtype),
               td_shape_str(&c->out[i].shape, &is));
  }
}

/* What a run takes is told of what was there, as a number. Where inputs' values
 * are not known it may not be, but never less than nothing. */
static void check_cost(const row *r, const golden_case *c, const built *b,
                       knowledge k, const result *ran) {
  td_shape in[MAX_IN], out[MAX_OUT];
  td_cost cost;
  for (int i = 0; i < c->n_in; i++)
    in[i] = td_tensor_valid(&c->in[i]) ? c->in[i].shape : td_shape_scalar();
  for (int i = 0; i < ran->n_out; i++)
    out[i] =
        td_tensor_valid(&ran->out[i]) ? ran->out[i].shape : td_shape_scalar();
  td_infer_cost(b->node, in, out, &cost);
  bool known = isfinite(cost.flops) && isfinite(cost.bytes);
  if ((k == VALUES && !known) || cost.flops < 0 || cost.bytes < 0)
    fail_msg("%s, case %d: costs %g flops and %g bytes", r->op, c->index,
             cost.flops, cost.bytes);
  td_infer_cost(b->node, NULL, NULL, &cost);
  if (cost.flops < 0 || cost.bytes < 0)
    fail_msg("%s, case %d: costs %g flops and %g bytes on inferred shapes",
             r->op, c->index, cost.flops, cost.bytes);
}

static void run_one(const row *r, const golden_case *c, knowledge k,
                    uint8_t poison, bool alone, int threads, result *out) {
  built b;
  td_status *s = build_node(c, c->in, k, &b);
  if (!td_ok(s))
    fail_msg("%s, case %d: not built: %s", r->op, c->index,
             td_status_message(s));
  check_inferred(r, c, &b, k);
  s = run_node(&b, c, c->in, poison, alone, threads, out);
  if (!td_ok(s))
    fail_msg("%s, case %d: %s", r->op, c->index, td_status_message(s));
  check_cost(r, c, &b, k, out);
  built_drop(&b);
}

/* Long vectors of the same elements, over and over, give the same results over
 * and over: vector loops and what they leave at the end agree. */
static void check_long(const row *r, const golden_case *c,
                       const result *small) {
  enum { LONG = 1031 };
  td_tensor in[MAX_IN], want;
  result big;
  built b;
  if (!r->say->each || !td_tensor_count(&c->in[0])) return;
  for (int i = 0; i < c->n_in; i++)
    if (!td_shape_equal(&c->in[0].shape, &c->in[i].shape) ||
        c->in[i].dtype == TD_STRING)
      return;
  td_shape shape = td_shape_vector(LONG);
  for (int i = 0; i < c->n_in; i++) in[i] = refill(&c->in[i], shape);
  td_status *s = build_node(c, in, SHAPES, &b);
  if (td_ok(s)) s = run_node(&b, c, in, 0xff, true, 1, &big);
  if (!td_ok(s))
    fail_msg("%s, case %d: %s", r->op, c->index, td_status_message(s));
  want = refill(&small->out[0], shape);
  if (!td_tensor_same(&want, &big.out[0]))
    fail_msg("%s, case %d: %d elements give other results than few", r->op,
             c->index, LONG);
  td_tensor_release(&want);
  for (int i = 0; i < c->n_in; i++) td_tensor_release(&in[i]);
  result_drop(&big);
  built_drop(&b);
}

static void check_answer(const row *r, const golden_case *c) {
  char what[64];
  result first, other;
  run_one(r, c, VALUES, 0xff, false, 1, &first);
  for (int i = 0; i < c->n_out; i++) {
    snprintf(what, sizeof what, "case %d, output %d", c->index, i);
    compare_tensors(r, what, &first.out[i], &c->out[i]);
    snprintf(what, sizeof what, "case %d, output %d again", c->index, i);
    compare_tensors(r, what, &first.again[i], &c->again[i]);
  }
  for (int i = 0; i < c->n_var; i++) {
    snprintf(what, sizeof what, "case %d, variable %d", c->index, i);
    compare_tensors(r, what, &first.after[i], &c->after[i]);
  }
  for (int k = SHAPES; k <= NOTHING; k++) {
    run_one(r, c, (knowledge)k, 0x11, true, 3, &other);
    if (!result_same(&first, &other, c->n_var))
      fail_msg("%s, case %d: two runs differ", r->op, c->index);
    result_drop(&other);
  }
  check_long(r, c, &first);
  check_without_memory(r, c);
  result_drop(&first);
}

/* ---- dtypes -------------------------------------------------------------- */

static uint32_t bits_of(const Td__GoldenTypes *p) {
  uint32_t bits = 0;
  for (size_t k = 0; k < p->n_dtype; k++) bits |= UINT32_C(1) << p->dtype[k];
  return bits;
}

/* The dtypes that a row excuses for an attribute. */
static uint32_t missing_types(const row *r, const char *attr) {
  for (size_t i = 0; i < r->say->n_missing; i++)
    if (strcmp(r->say->missing[i]->attr, attr) == 0)
      return bits_of(r->say->missing[i]);
  return 0;
}

static void check_types(const row *r, const Td__Golden *g) {
  const td_op *op = td_op_find(r->op);
  for (size_t i = 0; i < g->n_types; i++) {
    const Td__GoldenTypes *p = g->types[i];
    uint32_t ours = td_kernel_types(op, "CPU", p->attr), theirs = bits_of(p);
    uint32_t missing = missing_types(r, p->attr);
    for (int t = 0; t < TD_DTYPES; t++) {
      bool lacks = (theirs & ~ours) >> t & 1, said = missing >> t & 1;
      if (lacks && !said)
        fail_msg("%s: no kernel for %s=%s, which TensorFlow has", r->op,
                 p->attr, td_dtype_name((td_dtype)t));
      if (said && !lacks)
        fail_msg("%s: the row excuses %s=%s for nothing", r->op, p->attr,
                 td_dtype_name((td_dtype)t));
    }
  }
}

/* A case with a dtype that the row excuses. */
static bool excused(const row *r, const golden_case *c) {
  const td_op *op = td_op_find(r->op);
  built b;
  bool yes = false;
  if (!r->say->n_missing || c->from->fails) return false;
  td_status *s = build_node(c, c->in, NOTHING, &b);
  if (!td_ok(s)) {
    td_status_release(s);
    return false;
  }
  for (int i = 0; i < op->n_attr; i++) {
    td_dtype t = td_node_type(b.node, op->attr[i].name);
    yes |= missing_types(r, op->attr[i].name) >> t & (t != TD_INVALID);
  }
  built_drop(&b);
  return yes;
}

/* ---- an op --------------------------------------------------------------- */

enum { MUTATED = 6 }; /* cases of an op */

static void check_device_case(const row *r, const Td__Golden *g, int i) {
  golden_case c;
  golden_open(g, i, &c);
  if (!c.from->fails && !excused(r, &c)) check_on_device(r, &c);
  golden_close(&c);
}

static void check_case(const row *r, const Td__Golden *g, int i) {
  golden_case c;
  golden_open(g, i, &c);
  int stride = ((int)g->n_cases + MUTATED - 1) / MUTATED;
  if (excused(r, &c))
    ;
  else if (c.from->fails)
    check_refused(r, &c);
  else
    check_answer(r, &c);
  if (i == 0) check_wrong_inputs(r, &c);
  if (!c.from->fails && !excused(r, &c) && i % stride == 0) {
    mutate_inputs(r, &c);
    mutate_variables(r, &c);
    mutate_attrs(r, &c);
  }
  golden_close(&c);
}

/* The cases of each rank. */
static void test_ranks(const td_op *op) {
  Td__Golden *g = golden_load("tests/golden/ranks", op->type);
  if (!g) return;
  row r = {op->type, g->row};
  for (size_t i = 0; i < g->n_cases; i++)
    if (device_wanted()) {
      check_device_case(&r, g, (int)i);
    } else {
      golden_case c;
      golden_open(g, (int)i, &c);
      check_answer(&r, &c);
      golden_close(&c);
    }
  golden_free(g);
}

static void test_op(void **state) {
  const td_op *op = *state;
  if (!op->def->doc || !op->def->doc[0]) fail_msg("%s: no doc", op->type);
  Td__Golden *g = golden_load("tests/golden", op->type);
  if (!g == !may_lack_golden(op->type))
    fail_msg("%s: %s", op->type,
             g ? "has a golden file, which rows.c denies"
               : "no golden file: add its cases to tests/peers/cases and run "
                 "tests/peers/golden.py");
  if (!g) return;
  if (!g->row) fail_msg("%s: an old golden file", op->type);
  row r = {op->type, g->row};
  if (g->row->n_missing && !g->row->because[0])
    fail_msg("%s: an exception without a reason", op->type);
  if (!device_wanted()) check_types(&r, g);
  for (size_t i = 0; i < g->n_cases; i++)
    if (device_wanted())
      check_device_case(&r, g, (int)i);
    else
      check_case(&r, g, (int)i);
  if (!device_wanted()) check_extremes(&r, g);
  golden_free(g);
  test_ranks(op);
}

/* ---- all of them --------------------------------------------------------- */

static void test_exceptions_are_ops(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(no_golden); i++)
    if (!td_op_find(no_golden[i].op))
      fail_msg("%s: an exception without an op", no_golden[i].op);
}

static void check_files_have_ops(const char *folder) {
  DIR *d = opendir(folder);
  if (!d) fail_msg("%s: not found; run from the top of the tree", folder);
  for (struct dirent *e = readdir(d); e; e = readdir(d)) {
    size_t len = strlen(e->d_name);
    char op[256];
    if (len < 4 || strcmp(e->d_name + len - 3, ".pb") != 0) continue;
    snprintf(op, sizeof op, "%.*s", (int)len - 3, e->d_name);
    if (!td_op_find(op)) fail_msg("%s: a golden file without an op", op);
  }
  closedir(d);
}

static void test_golden_files_have_ops(void **state) {
  (void)state;
  check_files_have_ops("tests/golden");
  check_files_have_ops("tests/golden/ranks");
}

static void test_registry_is_sound(void **state) {
  (void)state;
  td_status *s = td_op_check();
  if (s) fail_msg("%s", td_status_message(s));
  s = td_kernel_check();
  if (s) fail_msg("%s", td_status_message(s));
}

static bool wanted(const char *op, int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], op) == 0) return true;
  return argc == 1;
}

static int run_chosen(struct CMUnitTest *tests, int argc, char **argv) {
  size_t n = 0;
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_registry_is_sound);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_exceptions_are_ops);
  tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_golden_files_have_ops);
  for (int i = 0; i < td_op_count(); i++) {
    const td_op *op = td_op_at(i);
    if (!wanted(op->type, argc, argv)) continue;
    tests[n++] = (struct CMUnitTest){.name = op->type,
                                     .test_func = test_op,
                                     .initial_state = (void *)(uintptr_t)op};
  }
  int failed = _cmocka_run_group_tests("rows", tests, n, NULL, NULL);
  devices_end();
  if (device_wanted() && steps_there == 0) {
    printf("no case was on %s\n", device_wanted());
    failed++;
  }
  if (device_wanted())
    printf("cases on %s: %d, elsewhere: %d\n", device_wanted(), steps_there,
           steps_elsewhere);
  else
    printf("changed inputs and attributes: %d accepted, %d refused; %d runs "
           "ended without memory\n",
           changed_accepted, changed_refused, runs_without_memory);
  printf("%zu passed, %d failed, 0 skipped\n", n - (size_t)failed, failed);
  return failed ? 1 : 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--list") == 0) {
    for (int i = 0; i < td_op_count(); i++) puts(td_op_at(i)->type);
    return 0;
  }
  struct CMUnitTest *tests =
      calloc((size_t)td_op_count() + 3, sizeof(struct CMUnitTest));
  if (!tests) return 1;
  int rc = run_chosen(tests, argc, argv);
  free(tests);
  return rc;
}
