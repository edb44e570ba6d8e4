/* op.c - tests of engine/graph/op.h: signatures, names, the registry.
 *
 * signatures.c reads TensorFlow's whole table; here are the corners.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

#include <pthread.h>
#include <stdio.h>

#include "engine/graph/op_sig.h"

/* ---- signatures ---------------------------------------------------------- */

typedef struct parsed {
  td_arena arena;
  td_op op;
} parsed;

static td_status *parse(parsed *p, const td_op_def *def) {
  td_arena_init(&p->arena);
  td_status *s = td_op_parse(&p->arena, def, &p->op);
  if (s) td_arena_deinit(&p->arena);
  return s;
}

static void end(parsed *p) {
  td_op_unparse(&p->op);
  td_arena_deinit(&p->arena);
}

static void every_part_is_read(void **state) {
  (void)state;
  parsed p;
  OK(parse(&p, &(td_op_def){
                   .type = "ConcatV2",
                   .sig = " values:N*T,axis : Tidx->output: T ;N: int >=2;\n"
                          "\tT: type; Tidx: {int32, int64} = int32 ",
                   .shape = td_infer_any,
                   .flags = TD_CHEAP,
                   .host = "axis"}));
  const td_op *op = &p.op;
  assert_int_equal(op->n_in, 2);
  assert_int_equal(op->n_out, 1);
  assert_int_equal(op->n_attr, 3);
  assert_string_equal(op->in[0].name, "values");
  assert_int_equal(op->in[0].number_attr, td_op_attr(op, "N"));
  assert_int_equal(op->in[0].type_attr, td_op_attr(op, "T"));
  assert_false(op->in[0].host);
  assert_int_equal(op->in[1].number_attr, -1);
  assert_true(op->in[1].host);
  assert_true(op->attr[0].deduced && op->attr[1].deduced);
  assert_true(op->attr[0].has_minimum);
  assert_int_equal(op->attr[0].minimum, 2);
  assert_int_equal(op->attr[2].types, 1u << TD_INT32 | 1u << TD_INT64);
  assert_int_equal(op->attr[2].value.type, TD_INT32);
  assert_string_equal(op->lua, "concat");
  assert_int_equal(op->flags, TD_CHEAP);
  assert_int_equal(td_op_attr(op, "nothing"), -1);
  end(&p);
}

static void every_kind_of_default(void **state) {
  (void)state;
  parsed p;
  OK(parse(&p, &(td_op_def){
                   .type = "All",
                   .shape = td_infer_any,
                   .sig = "-> out: resource, text: string; i: int = -3; "
                          "f: float = -1e-4; inf: float = inf; b: bool = true; "
                          "s: string = \"a\\\"\\n\\t\\\\;:\"; t: type = half; "
                          "sh: shape = {}; un: shape = ?; "
                          "c: tensor = uint8{255, 0}; e: list(shape) = {}; "
                          "ls: list(shape) = {{2, -1}, ?}; g: func; "
                          "set: {\"A\", \"B\"} = \"B\"; "
                          "some: list({float, int64}) >= 0"}));
  const td_attr_def *a = p.op.attr;
  assert_int_equal(a[0].value.i, -3);
  assert_true(a[1].value.f == -1e-4f);
  assert_true(a[2].value.f > 1e38f);
  assert_true(a[3].value.b);
  assert_string_equal(a[4].value.s.at, "a\"\n\t\\;:");
  assert_int_equal(a[5].value.type, TD_FLOAT16);
  assert_int_equal(a[6].value.shape->rank, 0);
  assert_int_equal(a[7].value.shape->rank, -1);
  assert_int_equal(td_tensor_get_i(a[8].value.tensor, 0), 255);
  assert_true(a[9].has_default && a[9].value.is_list && a[9].value.len == 0);
  assert_int_equal(a[10].value.len, 2);
  assert_int_equal(a[10].value.shapes[0].dim[1], -1);
  assert_int_equal(a[10].value.shapes[1].rank, -1);
  assert_false(a[11].has_default);
  assert_int_equal(a[11].kind, TD_ATTR_FUNC);
  assert_string_equal(a[12].strings[1], "B");
  assert_null(a[12].strings[2]);
  assert_int_equal(a[13].types, 1u << TD_FLOAT32 | 1u << TD_INT64);
  assert_true(p.op.out[0].host && p.op.out[1].host); /* never on a device */
  end(&p);
}

static void bad_signatures(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"", "\"->\" after the inputs at column 1"},
      {"x: float", "\"->\" after the inputs at column 9"},
      {"x -> y: float", "\":\" after the argument's name"},
      {"x: -> y: float", "the argument's type"},
      {"x: T -> y: T", "a dtype or a type attribute at column 4"},
      {"x: T -> y: T; T: int", "a type attribute"},
      {"x: N*float -> ; N: type", "an int attribute before \"*\""},
      {"x: M*float -> ; N: int", "an int attribute before \"*\""},
      {"x: N*T -> ; N: int; T: list(type)", "an int attribute before \"*\""},
      {"x: N* -> ; N: int", "a type after \"*\""},
      {"x: float, x: float ->", "an argument only once"},
      {"-> ; a: int; a: int", "an attribute only once"},
      {"-> ; a: integer", "int, float, bool"},
      {"-> ; a: list(list(int))", "int, float, bool"},
      {"-> ; a: list(int", "\")\" after list("},
      {"-> ; a: int = x", "an integer"},
      {"-> ; a: int = 99999999999999999999", "a 64-bit integer"},
      {"-> ; a: int >= 2 = 1", "itself allowed"},
      {"-> ; a: float = ", "a number"},
      {"-> ; a: bool = maybe", "true or false"},
      {"-> ; a: string = b", "a string in quotes"},
      {"-> ; a: string = \"b", "the end of the string"},
      {"-> ; a: {float = float", "\",\" or \"}\""},
      {"-> ; a: {\"A\" = \"A\"", "\",\" or \"}\""},
      {"-> ; a: {\"A\", ", "a string in quotes"},
      {"-> ; a: {float, flout}", "a dtype"},
      {"-> ; a: {float, int32} = string", "itself allowed"},
      {"-> ; a: {\"A\"} = \"B\"", "itself allowed"},
      {"-> ; a: shape = 3", "a shape"},
      {"-> ; a: shape = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}",
       "at most 16 sizes"},
      {"-> ; a: shape = {-2}", "sizes >= -1"},
      {"-> ; a: bool >= 1", "no minimum"},
      {"-> ; a: func = f", "no default"},
      {"-> ; a: list(func) = {f}", "an empty list"},
      {"-> ; a: tensor = string{1}", "a real dtype"},
      {"-> ; a: tensor = float 1", "\"{\" after the tensor's dtype"},
      {"-> ; a: list(int) = {1 2}", "\",\" or \"}\""},
      {"-> ;", "an attribute's name"},
      {"-> y: float y", "\";\" or the end"},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    parsed p;
    td_op_def def = {.type = "Bad", .sig = rows[i][0], .shape = td_infer_any};
    td_status *s = parse(&p, &def);
    if (!s) fail_msg("\"%s\" was taken", rows[i][0]);
    if (!strstr(td_status_message(s), rows[i][1]) ||
        !strstr(td_status_message(s), "signature of Bad"))
      fail_msg("\"%s\": %s", rows[i][0], td_status_message(s));
    td_status_release(s);
  }
}

static void bad_rows(void **state) {
  (void)state;
  static const struct {
    td_op_def def;
    const char *part;
  } rows[] = {
      {{.type = "softmax", .sig = "->", .shape = td_infer_any}, "op type"},
      {{.type = "Soft-max", .sig = "->", .shape = td_infer_any}, "op type"},
      {{.type = "_", .sig = "->", .shape = td_infer_any}, "op type"},
      {{.type = "A", .shape = td_infer_any}, "no signature"},
      {{.type = "A", .sig = "->"}, "no shape function"},
      {{.type = "A", .sig = "x: int32 ->", .shape = td_infer_any, .host = "y"},
       "no argument \"y\""},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    parsed p;
    FAILS(parse(&p, &rows[i].def), TD_INVALID_ARGUMENT, rows[i].part);
  }
  char many[2048] = "->", *at = many + 2;
  for (int i = 0; i <= TD_OP_MAX_ATTRS; i++) at += sprintf(at, "; a%d: int", i);
  parsed p;
  td_op_def def = {.type = "Many", .sig = many, .shape = td_infer_any};
  FAILS(parse(&p, &def), TD_INVALID_ARGUMENT, "fewer attributes");
}

static void lua_names(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"AddN", "add_n"},
      {"ReadVariableOp", "read_variable_op"},
      {"ConcatV2", "concat"},
      {"Conv2D", "conv2d"},
      {"BatchMatMulV2", "batch_mat_mul"},
      {"LRN", "lrn"},
      {"L2Loss", "l2_loss"},
      {"FIFOQueueV2", "fifo_queue"},
      {"Conv2DBackpropInput", "conv2d_backprop_input"},
      {"MaxPool3DGrad", "max_pool3d_grad"},
      {"HSVToRGB", "hsv_to_rgb"},
      {"CTCLoss", "ctc_loss"},
      {"Relu6", "relu6"},
      {"TensorArrayReadV3", "tensor_array_read"},
      {"ApplyAdagradDA", "apply_adagrad_da"},
      {"IsNan", "is_nan"},
      {"V2", "v2"},
      {"_Send", ""},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    parsed p;
    OK(parse(&p, &(td_op_def){
                     .type = rows[i][0], .sig = "->", .shape = td_infer_any}));
    assert_string_equal(p.op.lua, rows[i][1]);
    end(&p);
  }
  parsed p;
  OK(parse(&p, &(td_op_def){.type = "MatMul",
                            .sig = "->",
                            .shape = td_infer_any,
                            .lua = "matmul"}));
  assert_string_equal(p.op.lua, "matmul");
  end(&p);
}

static td_status *parse_once(void *arg) {
  parsed p;
  (void)arg;
  td_status *s = parse(
      &p, &(td_op_def){.type = "ConcatV2",
                       .sig = "values: N*T, axis: Tidx -> output: T; "
                              "N: int >= 2; T: type; Tidx: {int32, int64} = "
                              "int32; s: {\"A\", \"B\"} = \"A\"; "
                              "c: tensor = uint8{1, 2}; l: list(int) = {1}",
                       .shape = td_infer_any});
  if (!s) end(&p);
  return s;
}

static void signature_without_memory(void **state) {
  (void)state;
  print_message("%lld allocations failed\n",
                (long long)fail_each(parse_once, NULL));
}

/* ---- the registry -------------------------------------------------------- */

/* Runs first: nothing has looked an op up yet. */
static void load_without_memory(void **state) {
  (void)state;
  for (int64_t n = 1;; n++) {
    td_mem_fail(n, false);
    td_status *s = td_op_check();
    td_mem_fail(0, false);
    if (!s) break;
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
  }
  OK(td_op_check());
}

static void finds(void **state) {
  (void)state;
  const td_op *op = td_op_find("TestAdd");
  assert_non_null(op);
  assert_ptr_equal(td_op_find_lua("test_add"), op);
  assert_null(td_op_find("testadd"));
  assert_null(td_op_find(""));
  assert_null(td_op_find_lua(""));
  assert_non_null(td_op_find("_TestOwn"));
  assert_string_equal(td_op_nearest("testadd"), "TestAdd");
  assert_string_equal(td_op_nearest("TestAddd"), "TestAdd");
  assert_null(td_op_nearest("Zzzzzzzzzzzzzz"));
  for (int i = 0; i < td_op_count(); i++) {
    assert_ptr_equal(td_op_find(td_op_at(i)->type), td_op_at(i));
    if (i) assert_true(strcmp(td_op_at(i - 1)->type, td_op_at(i)->type) < 0);
  }
  assert_null(td_op_at(-1));
  assert_null(td_op_at(td_op_count()));
}

static void prints(void **state) {
  (void)state;
  td_str out = {0};
  td_op_print(td_op_find("TestAddN"), &out);
  assert_string_equal(td_str_c(&out), "TestAddN(inputs: N*T) -> (sum: T), "
                                      "N: int >= 1, T in {float32, int32}");
  td_str_clear(&out);
  td_op_print(td_op_find("TestAttrs"), &out);
  assert_non_null(strstr(td_str_c(&out), "s in {\"SAME\", \"VALID\"} = "
                                         "\"SAME\""));
  assert_non_null(strstr(td_str_c(&out), "li: list(int) >= 1 = {1, 2}"));
  td_str_deinit(&out);
}

#define ROW(name, ...)                                                         \
  { .type = name, .sig = "->", .shape = td_infer_none, __VA_ARGS__ }

static void libraries(void **state) {
  (void)state;
  static const td_op_def good[] = {ROW("LibThing"),
                                   ROW("LibThingV3"),
                                   ROW("LibThingV2"),
                                   ROW("LibOther", .lua = "lib_name"),
                                   ROW("LibNameV7"),
                                   ROW("LibHidden", .lua = ""),
                                   {0}};
  static const td_op_def twice[] = {ROW("LibNew"), ROW("LibThing"), {0}};
  static const td_op_def doubled[] = {ROW("LibNew"), ROW("LibNew"), {0}};
  static const td_op_def broken[] = {
      ROW("LibNew"),
      {.type = "LibBad", .sig = "?", .shape = td_infer_none},
      {0}};
  static const td_op_def clash[] = {
      ROW("LibA", .lua = "lib_x"), ROW("LibB", .lua = "lib_x"), {0}};
  static const td_op_def taken[] = {ROW("LibC", .lua = "lib_name"), {0}};
  static const td_op_def later[] = {ROW("LibThingV9"), {0}};
  int before = td_op_count();
  OK(td_op_register(&(td_module){"good", good, NULL}));
  assert_int_equal(td_op_count(), before + 6);
  assert_string_equal(td_op_find_lua("lib_thing")->type, "LibThingV3");
  assert_string_equal(td_op_find("LibThing")->lua, "");
  assert_string_equal(td_op_find_lua("lib_name")->type, "LibOther");
  assert_string_equal(td_op_find("LibNameV7")->lua, "");
  assert_null(td_op_find_lua("lib_hidden"));
  const td_op *kept = td_op_find("LibThing");
  FAILS(td_op_register(&(td_module){"twice", twice, NULL}), TD_ALREADY_EXISTS,
        "op LibThing is registered twice");
  FAILS(td_op_register(&(td_module){"doubled", doubled, NULL}),
        TD_ALREADY_EXISTS, "op LibNew is registered twice");
  FAILS(td_op_register(&(td_module){"broken", broken, NULL}),
        TD_INVALID_ARGUMENT, "signature of LibBad");
  FAILS(td_op_register(&(td_module){"clash", clash, NULL}), TD_ALREADY_EXISTS,
        "both named td.lib_x");
  FAILS(td_op_register(&(td_module){"taken", taken, NULL}), TD_ALREADY_EXISTS,
        "ops LibC and LibOther are both named td.lib_name");
  assert_null(td_op_find("LibNew"));
  assert_null(td_op_find("LibC"));
  assert_int_equal(td_op_count(), before + 6);
  OK(td_op_register(&(td_module){"later", later, NULL}));
  assert_string_equal(td_op_find("LibThingV9")->lua, ""); /* came too late */
  assert_ptr_equal(td_op_find("LibThing"), kept);
  OK(td_op_register(&(td_module){"none", NULL, NULL}));
}

/* Each round needs rows that are not there yet; the failing rounds leave
 * nothing behind. */
static td_status *register_fresh(void *arg) {
  static td_op_def rows[8][3];
  static char names[8][2][16];
  int *round = arg, r = *round;
  assert_in_range(r, 0, 7);
  int before = td_op_count();
  for (int i = 0; i < 2; i++) {
    sprintf(names[r][i], "Fresh%c%dV2", 'A' + i, r);
    rows[r][i] = (td_op_def)ROW(names[r][i]);
  }
  td_status *s = td_op_register(&(td_module){"fresh", rows[r], NULL});
  if (!s)
    ++*round;
  else
    assert_int_equal(td_op_count(), before);
  return s;
}

static void register_without_memory(void **state) {
  (void)state;
  int round = 0;
  print_message("%lld allocations failed\n",
                (long long)fail_each(register_fresh, &round));
  assert_int_equal(round, 2);
}

static void *look_up(void *arg) {
  (void)arg;
  for (int i = 0; i < 2000; i++) {
    const td_op *op = td_op_find("TestAdd");
    if (!op || td_op_find_lua("test_add") != op) return "lost";
    if (!td_op_at(i % td_op_count())) return "hole";
  }
  return NULL;
}

static void many_threads(void **state) {
  (void)state;
  static td_op_def rows[50][2];
  static char names[50][16];
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, look_up, NULL), 0);
  for (int i = 0; i < 50; i++) {
    sprintf(names[i], "Threaded%d", i);
    rows[i][0] = (td_op_def)ROW(names[i]);
    OK(td_op_register(&(td_module){"threaded", rows[i], NULL}));
  }
  for (int i = 0; i < 4; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
}

static void registers(void **state) {
  assert_int_equal(register_ops(state), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(load_without_memory),
      cmocka_unit_test(registers),
      cmocka_unit_test(every_part_is_read),
      cmocka_unit_test(every_kind_of_default),
      cmocka_unit_test(bad_signatures),
      cmocka_unit_test(bad_rows),
      cmocka_unit_test(lua_names),
      cmocka_unit_test(signature_without_memory),
      cmocka_unit_test(finds),
      cmocka_unit_test(prints),
      cmocka_unit_test(libraries),
      cmocka_unit_test(register_without_memory),
      cmocka_unit_test(many_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
