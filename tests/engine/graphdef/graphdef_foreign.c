/* graphdef_foreign.c - nodes of ops that are not known are kept as they came.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include "engine/graph/graph_check.h"
#include "engine/graph/region.h"
#include "engine/graphdef/function.h"
#include "engine/graphdef/graphdef.h"

#define X "x Placeholder dtype=t1 shape=S2,3\n"

static td_status *read_text(td_graph *g, const char *text,
                            const td_graphdef_options *o) {
  td_str m = wire_graph(text);
  td_status *s = td_graphdef_read(g, m.at, m.len, o);
  td_str_deinit(&m);
  return s;
}

/* A node's outputs: "f32 i32". */
static void assert_outputs(const td_node *n, const char *want) {
  td_str t = {0};
  for (int i = 0; i < n->n_out; i++)
    td_str_addf(&t, "%s%s", i ? " " : "", td_dtype_name(n->out[i].dtype));
  assert_string_equal(td_str_c(&t), want);
  td_str_deinit(&t);
}

/* ---- what is made of them ------------------------------------------------ */

static const struct {
  const char *text, *outputs; /* of "f" */
} good[] = {
    {X "f Foo x a=i1 b=f2 c=sx d=t3 e=S2,-1 g=b1 h=V1\n", "variant"},
    {X "f Foo x a=e b=T1,3 c=Cx _n=i5\n", "variant"},
    {"f Foo\n", "variant"},
    {"f Foo dtype=t9\n", "int64"},
    {"f Foo dtypes=T1,7 T=t3\n", "float32 string"},
    /* who takes an output knows what it is */
    {"f Foo dtype=t9\ny Relu f T=t1\n", "float32"},
    {"f Foo\ny Relu f:2 T=t2\nz AddN f f:1 N=i2 T=t3\n", "int32 int32 float64"},
    {"f Foo\ny ConcatV2 f f:1 f:2 N=i2 T=t1 Tidx=t9\n",
     "float32 float32 int64"},
    {"f Foo\ny IdentityN f:1 f:0 T=T7,1\n", "float32 string"},
    {"f Foo\ny Baz f:3 T=t1\n", "variant variant variant variant"},
    /* in any order, in loops, after and before others */
    {"y Relu f T=t1\nf Foo x ^k\nk NoOp\n" X, "float32"},
    {X "f Foo\np Placeholder dtype=t10 shape=S\n"
       "e Enter f T=t1 frame_name=sw\n"
       "pe Enter p T=t10 frame_name=sw is_constant=b1\n"
       "m Merge e n T=t1 N=i2\nc LoopCond pe\ns Switch m c T=t1\n"
       "x2 Exit s T=t1\nb Bar s:1 ^m\nn NextIteration s:1 T=t1\n",
     "float32"},
};

/* What was read is written so that it is read as the same again. */
static td_status *write_and_read(const td_graph *g, char **bytes, size_t *len,
                                 td_graph *again) {
  TD_TRY(td_graphdef_write(g, bytes, len));
  return td_graphdef_read(again, *bytes, *len, NULL);
}

static void test_good(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(good); i++) {
    td_graph *g = new_graph(), *again = new_graph();
    char *one, *two;
    size_t n_one, n_two;
    OK(read_text(g, good[i].text, NULL));
    OK(td_graph_verify(g));
    assert_outputs(td_graph_find(g, "f"), good[i].outputs);
    OK(write_and_read(g, &one, &n_one, again));
    OK(td_graphdef_write(again, &two, &n_two));
    assert_int_equal(n_one, n_two);
    assert_memory_equal(one, two, n_one);
    td_free(one);
    td_free(two);
    td_graph_release(g);
    td_graph_release(again);
  }
}

/* A file in which all is in the order in which it is written comes out of the
 * graph as it went in. */
#define ATTRS "_a=i7 a=i1 b=f2 c=sx d=t3 e=S2,-1 g=b1 i=e\n"

static void test_as_it_was(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_str m = wire_graph(X "f Foo x x:0 ^x " ATTRS "y Relu f:1 T=t1\n");
  td_str want = wire_graph(X "f Foo x x ^x " ATTRS "y Relu f:1 T=t1\n");
  char *bytes;
  size_t len;
  OK(td_graphdef_read(g, m.at, m.len, NULL));
  OK(td_graphdef_write(g, &bytes, &len));
  assert_true(len > want.len); /* the version is behind */
  assert_memory_equal(bytes, want.at, want.len);
  td_free(bytes);
  td_str_deinit(&m);
  td_str_deinit(&want);
  td_graph_release(g);
}

/* The op goes with the region of its node. */
static void test_region(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_region *r;
  OK(td_region_new(g, &r));
  td_region_enter(r);
  td_graphdef_options o = {.prefix = "cell"};
  OK(read_text(g, X "f Foo x a=i1 c=sx\ny Relu f:1 T=t1\n", &o));
  td_region_enter(NULL);
  const td_node *f = td_graph_find(g, "cell/f");
  assert_string_equal(f->op->type, "Foo");
  assert_int_equal(td_node_int(f, "a"), 1);
  int32_t gone;
  OK(td_region_retire(r, "it ran again"));
  OK(td_region_sweep(g, &gone));
  assert_int_equal(gone, 3);
  assert_string_equal(f->op->type, "Foo"); /* while the region is held */
  td_region_release(r);
  td_graph_release(g);
}

/* ---- what is refused ----------------------------------------------------- */

static void test_bad(void **state) {
  (void)state;
  static const struct {
    const char *text, *part;
  } rows[] = {
      {"f Foo\ny Relu f:65536 T=t1\n", "output 65536 is taken: at most 65536"},
      {"f Foo\ny AddN f f N=i2 T=t1\nz Relu f T=t2\n",
       "features must be float64, not float32"},
      {"f Foo a=-\n", "attribute a: no value"},
      {"f Foo a=t99\n", "attribute a: 99 is no dtype"},
      {"f Foo a=i1 a=i1\n", "attribute a comes twice"},
      {"f Foo g\ng Foo f\n", "a cycle that passes no NextIteration"},
      {"f Foo a0=i1 a1=i1 a2=i1 a3=i1 a4=i1 a5=i1 a6=i1 a7=i1 a8=i1 a9=i1 "
       "b0=i1 b1=i1 b2=i1 b3=i1 b4=i1 b5=i1 b6=i1 b7=i1 b8=i1 b9=i1 "
       "c0=i1 c1=i1 c2=i1 c3=i1 c4=i1 c5=i1 c6=i1 c7=i1 c8=i1 c9=i1 "
       "d0=i1 d1=i1 d2=i1\n",
       "more than 32 attributes"},
      {"f Foo/Bar:baz\n", NULL}, /* any text may be a type */
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_graph *g = new_graph();
    td_status *s = read_text(g, rows[i].text, NULL);
    if (!rows[i].part) {
      OK(s);
    } else {
      FAILS(s, TD_INVALID_ARGUMENT, rows[i].part);
      assert_int_equal(td_graph_size(g), 0);
    }
    td_graph_release(g);
  }
}

static void test_unknown(void **state) {
  (void)state;
  const char *types[40] = {"Relv", "Foo", "Relv", "Foo", "Bar"};
  char names[40][8];
  FAILS(td_op_unknown("it", types, 5), TD_NOT_FOUND,
        "it needs what there is not here: op \"Bar\", op \"Foo\", op \"Relv\" "
        "(did you mean \"Relu\"?)");
  for (int i = 0; i < 40; i++) {
    snprintf(names[i], sizeof names[i], "Q%02d", i % 25);
    types[i] = names[i];
  }
  FAILS(td_op_unknown("it", types, 40), TD_NOT_FOUND, "op \"Q19\" and 5 more");
}

/* "f:65535" makes thousands of outputs: a file of them shares one limit. */
static void test_many_outputs(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_str text = {0};
  for (int i = 0; i < 150; i++) td_str_addf(&text, "f%d Foo\n", i);
  td_str_add(&text, "y Bar");
  for (int i = 0; i < 150; i++) td_str_addf(&text, " f%d:65535", i);
  td_str_add(&text, "\n");
  FAILS(read_text(g, td_str_c(&text), NULL), TD_RESOURCE_EXHAUSTED,
        "outputs would take");
  assert_int_equal(td_graph_size(g), 0);
  td_str_deinit(&text);
  td_graph_release(g);
}

static td_status *all(void *arg) {
  td_str *m = arg;
  char *bytes = NULL;
  size_t len;
  td_graph *g, *again = NULL;
  TD_TRY(td_graph_new(&g));
  td_status *s = td_graph_new(&again);
  if (td_ok(s)) s = td_graphdef_read(g, m->at, m->len, NULL);
  if (td_ok(s)) s = write_and_read(g, &bytes, &len, again);
  td_free(bytes);
  td_graph_release(g);
  td_graph_release(again);
  return s;
}

static void test_no_memory(void **state) {
  (void)state;
  td_str m = wire_graph(X "f Foo x a=i1 c=sx h=V1\ny Relu f:1 T=t1\n");
  assert_true(fail_each(all, &m) > 20);
  td_str_deinit(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good),      cmocka_unit_test(test_as_it_was),
      cmocka_unit_test(test_region),    cmocka_unit_test(test_bad),
      cmocka_unit_test(test_unknown),   cmocka_unit_test(test_many_outputs),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
