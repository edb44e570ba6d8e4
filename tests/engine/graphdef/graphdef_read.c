/* graphdef_read.c - files that come from elsewhere: in any order, with parts
 * left out, from other versions, and wrong in every way.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>

#include "wire.h"

#include "engine/graph/graph_check.h"
#include "engine/graphdef/graphdef.h"

#define X "x Placeholder dtype=t1 shape=S2,3\n"
#define P "p Placeholder dtype=t10 shape=S\n"
/* A loop over `x`, its predicate `p` from outside. */
#define LOOP                                                                   \
  "e Enter x T=t1 frame_name=sw\n"                                             \
  "pe Enter p T=t10 frame_name=sw is_constant=b1\n"                            \
  "m Merge e n T=t1 N=i2\n"                                                    \
  "pi Identity pe ^m T=t10\n"                                                  \
  "c LoopCond pi\n"                                                            \
  "s Switch m c T=t1\n"                                                        \
  "x2 Exit s T=t1\n"                                                           \
  "n NextIteration s:1 T=t1\n"

static td_status *read_text(td_graph *g, const char *text,
                            const td_graphdef_options *o) {
  td_str m = wire_graph(text);
  td_status *s = td_graphdef_read(g, m.at, m.len, o);
  td_str_deinit(&m);
  return s;
}

/* ---- what is read -------------------------------------------------------- */

/* Names in the order of the graph, then "name: shape" of some. */
static const struct {
  const char *text, *order, *node, *shape;
} good[] = {
    {X "y Relu x T=t1\n", "x y", "y", "{2, 3}"},
    {X "y Relu x:0 T=t1\n", "x y", "y", "{2, 3}"},
    {"y Relu x T=t1\n" X, "x y", "y", "{2, 3}"}, /* inputs last */
    {"d NoOp ^c ^b\nb NoOp ^a\nc NoOp ^a\na NoOp\n", "a c b d", NULL, NULL},
    {X "y Relu x\n", "x y", "y", "{2, 3}"}, /* T follows from x */
    {X P LOOP, "x p e pe m pi c s x2 n", "x2", "{2, 3}"},
    {LOOP P X, "x e p pe m pi c s x2 n", "x2", "{2, 3}"},
    {"x Placeholder dtype=t1 shape=S\n", "x", "x", "?"}, /* version 0 */
    {"x Placeholder dtype=t1\n", "x", "x", "?"},         /* the default */
    {"x Placeholder dtype=t1 shape=S\nversions 21", "x", "x", "?"},
    {"x Placeholder dtype=t1 shape=S\nversions 22", "x", "x", "{}"},
    {X "y Relu x T=t1 _any=i5 _other=Cb\n", "x y", NULL, NULL},
    /* a later version's attributes, which nobody has set */
    {X "y Relu x new=b0 other=s more=e n=i0 f=f0\nversions 1395\n", "x y", "y",
     "{2, 3}"},
};

static void assert_order(const td_graph *g, const char *want) {
  td_str names = {0};
  for (int32_t i = 0; i < td_graph_size(g); i++)
    td_str_addf(&names, "%s%s", i ? " " : "", td_graph_node(g, i)->name);
  assert_string_equal(td_str_c(&names), want);
  td_str_deinit(&names);
}

static void test_good(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(good); i++) {
    td_graph *g = new_graph();
    OK(read_text(g, good[i].text, NULL));
    assert_order(g, good[i].order);
    OK(td_graph_verify(g));
    if (good[i].node)
      assert_shape((td_edge){td_graph_find(g, good[i].node), 0}, good[i].shape);
    td_graph_release(g);
  }
}

/* Shapes of loop variables are found, though the file does not say them. */
static void test_loop_shapes(void **state) {
  (void)state;
  static const struct {
    const char *body, *shape;
  } rows[] = {
      {"b Relu s:1 T=t1\n", "{2, 3}"},
      {"k Const dtype=t3 value=V3 ^s\nb ConcatV2 s:1 s:1 k N=i2 T=t1 Tidx=t3\n",
       "{-1, 3}"},
      {"k Const dtype=t3 value=V3 ^s\nb ExpandDims s:1 k T=t1\n", "?"},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    char text[1024];
    td_graph *g = new_graph();
    snprintf(text, sizeof text,
             X P "e Enter x T=t1 frame_name=sw\nm Merge e n T=t1 N=i2\n"
                 "pe Enter p T=t10 frame_name=sw is_constant=b1\n"
                 "c LoopCond pe\ns Switch m c T=t1\nx2 Exit s T=t1\n"
                 "%sn NextIteration b T=t1\nz Relu x2 T=t1\n",
             rows[i].body);
    OK(read_text(g, text, NULL));
    assert_shape((td_edge){td_graph_find(g, "m"), 0}, rows[i].shape);
    assert_shape((td_edge){td_graph_find(g, "z"), 0}, rows[i].shape);
    OK(td_graph_verify(g));
    td_graph_release(g);
  }
}

/* Nobody who follows a loop's Merge is checked by the shape of the first
 * iteration alone. */
static void test_checked_loop_shapes(void **state) {
  (void)state;
#define HEAD                                                                   \
  P "a Placeholder dtype=t1 shape=S1,2\n"                                      \
    "w Placeholder dtype=t1 shape=S1,8\nv Placeholder dtype=t1 shape=S3\n"     \
    "e Enter a T=t1 frame_name=sw\nm Merge e n T=t1 N=i2\n"                    \
    "pe Enter p T=t10 frame_name=sw is_constant=b1\n"                          \
    "c LoopCond pe\ns Switch m c T=t1\nx2 Exit s T=t1\n"
#define GROWS                                                                  \
  "k Const dtype=t3 value=V3 ^s\nb ConcatV2 s:1 s:1 k N=i2 T=t1 Tidx=t3\n"     \
  "n NextIteration b T=t1\n"
  static const struct {
    const char *text, *node, *shape;
  } rows[] = {
      /* behind it, and in its body */
      {HEAD GROWS "z MatMul w x2 T=t1\n", "z", "{1, 2}"},
      {HEAD GROWS "we Enter w T=t1 frame_name=sw is_constant=b1\n"
                  "z MatMul we s:1 T=t1\n",
       "z", "{1, 2}"},
      /* an inner loop over the outer's variable */
      {HEAD "e2 Enter s:1 T=t1 frame_name=sin\nm2 Merge e2 n2 T=t1 N=i2\n"
            "pe2 Enter pe T=t10 frame_name=sin is_constant=b1\n"
            "ke Const dtype=t3 value=V3 ^s2\n"
            "we Enter w T=t1 frame_name=sw is_constant=b1\n"
            "we2 Enter we T=t1 frame_name=sin is_constant=b1\n"
            "z MatMul we2 s2:1 T=t1\n"
            "c2 LoopCond pe2\ns2 Switch m2 c2 T=t1\nx3 Exit s2 T=t1\n"
            "b2 ConcatV2 s2:1 s2:1 ke N=i2 T=t1 Tidx=t3\n"
            "n2 NextIteration b2 T=t1\nn NextIteration x3 T=t1\n",
       "x2", "{-1, 2}"},
      /* a variable whose shape is another's */
      {HEAD "n NextIteration b T=t1\nb Relu s3:1 T=t1\n"
            "e3 Enter w T=t1 frame_name=sw\nm3 Merge e3 n3 T=t1 N=i2\n"
            "s3 Switch m3 c T=t1\nn3 NextIteration s:1 T=t1\n"
            "z MatMul x2 w T=t1 transpose_a=b1\n",
       "z", "{-1, 8}"},
      /* unknown rank comes back */
      {HEAD
       "u Placeholder dtype=t1\n"
       "ue Enter u T=t1 frame_name=sw is_constant=b1\n"
       "t Identity s:1 T=t1\nb Identity ue ^t T=t1\nn NextIteration b T=t1\n"
       "z BiasAdd x2 v T=t1\n",
       "z", "?"},
      /* a body that can only fail: the loop may never turn */
      {HEAD "we Enter w T=t1 frame_name=sw is_constant=b1\n"
            "b MatMul we s:1 T=t1\nn NextIteration b T=t1\n",
       "x2", "?"},
      /* one that fails with the first shape only gives what it gives later */
      {HEAD GROWS "we Enter w T=t1 frame_name=sw is_constant=b1\n"
                  "ve Enter w T=t1 frame_name=sw\nvm Merge ve vn T=t1 N=i2\n"
                  "vs Switch vm c T=t1\nvn NextIteration b T=t1\n"
                  "q MatMul we vs:1 T=t1\n",
       "q", "{1, -1}"},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_graph *g = new_graph();
    OK(read_text(g, rows[i].text, NULL));
    assert_shape((td_edge){td_graph_find(g, rows[i].node), 0}, rows[i].shape);
    OK(td_graph_verify(g));
    td_graph_release(g);
  }
}

/* A loop without LoopCond gets one; a Switch that goes past it takes it. */
static void test_conds(void **state) {
  (void)state;
#define UNMARKED                                                               \
  "e Enter x T=t1 frame_name=sw\n"                                             \
  "pe Enter p T=t10 frame_name=sw is_constant=b1\n"                            \
  "m Merge e n T=t1 N=i2\n"                                                    \
  "pi Identity pe ^m T=t10\n"                                                  \
  "s Switch m pi T=t1\n"                                                       \
  "x2 Exit s T=t1\n"                                                           \
  "n NextIteration s:1 T=t1\n"
  static const struct {
    const char *text, *cond; /* what controls "s" */
    int nodes;
  } rows[] = {
      {X P UNMARKED, "pi/LoopCond", 10},
      {UNMARKED X P, "pi/LoopCond", 10},
      {X P UNMARKED "pi/LoopCond NoOp\n", "pi/LoopCond_1", 11},
      {X P UNMARKED "s2 Switch s:1 pi T=t1\n", "pi/LoopCond", 11},
      {X P UNMARKED "c LoopCond pi\n", "c", 10},
      {X P LOOP, "c", 10},
      /* a branch on the variable */
      {X P LOOP "q Enter p T=t10 frame_name=sw is_constant=b1\n"
                "y Switch m q T=t1\n",
       "c", 12},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_graph *g = new_graph();
    OK(read_text(g, rows[i].text, NULL));
    assert_int_equal(td_graph_size(g), rows[i].nodes);
    const td_node *s = td_graph_find(g, "s"), *s2 = td_graph_find(g, "s2");
    assert_string_equal(s->in[1].node->name, rows[i].cond);
    assert_string_equal(s->in[1].node->op->type, "LoopCond");
    if (s2) assert_ptr_equal(s2->in[1].node, s->in[1].node);
    OK(td_graph_verify(g));
    td_graph_release(g);
  }
}

/* In a part nothing is added: the mark may be in another, or must be there. */
static void test_conds_of_parts(void **state) {
  const td_graphdef_options how = {.part = true};
  (void)state;
  td_graph *g = new_graph();
  FAILS(read_text(g, X P UNMARKED, &how), TD_INVALID_ARGUMENT,
        "without LoopCond");
  td_graph_release(g);
}

/* Loop variables that feed one another settle one after the other. */
static void test_many_loop_shapes(void **state) {
  (void)state;
  enum { VARIABLES = 30 };
  td_graph *g = new_graph();
  td_str t = {0};
  td_str_add(&t, X P "w Placeholder dtype=t1 shape=S4,3\n"
                     "pe Enter p T=t10 frame_name=sw is_constant=b1\n"
                     "c LoopCond pe\n");
  for (int i = 0; i < VARIABLES; i++)
    td_str_addf(&t,
                "e%d Enter %s T=t1 frame_name=sw\nm%d Merge e%d n%d T=t1 N=i2\n"
                "s%d Switch m%d c T=t1\nn%d NextIteration s%d:1 T=t1\n",
                i, i ? "x" : "w", i, i, i, i, i, i, i ? i - 1 : 1);
  OK(read_text(g, td_str_c(&t), NULL));
  for (int i = 0; i < VARIABLES; i++) {
    char name[16];
    td_shape_text buf;
    snprintf(name, sizeof name, "m%d", i);
    td_edge m = {td_graph_find(g, name), 0};
    const char *shape = td_shape_str(td_edge_shape(m), &buf);
    if (strcmp(shape, "{-1, 3}") != 0) assert_string_equal(shape, "?");
  }
  OK(td_graph_verify(g));
  td_str_deinit(&t);
  td_graph_release(g);
}

/* ---- what is refused ----------------------------------------------------- */

static const struct {
  const char *text, *node;
  td_code code;
  const char *part;
} bad[] = {
    {X X, "x", TD_INVALID_ARGUMENT, "two nodes are called \"x\""},
    {" \n", "", TD_INVALID_ARGUMENT, "a name must be"},
    {"a:b NoOp\n", "a:b", TD_INVALID_ARGUMENT, "a name must be"},
    {"x\n", "x", TD_NOT_FOUND, "no op \"\""},
    {X "y Relu z T=t1\n", "y", TD_INVALID_ARGUMENT,
     "input \"z\" is of no node of the file (did you mean"},
    {X "y Relu x:1 T=t1\n", "y", TD_INVALID_ARGUMENT, "output 1 of \"x\""},
    {X "y Relu x:01 T=t1\n", "y", TD_INVALID_ARGUMENT, "name:port"},
    {X "y Relu x:-1 T=t1\n", "y", TD_INVALID_ARGUMENT, "name:port"},
    {X "y Relu x:99999999999 T=t1\n", "y", TD_INVALID_ARGUMENT, "name:port"},
    {X "y Relu ^x x T=t1\n", "y", TD_INVALID_ARGUMENT,
     "input \"x\" comes after a control input"},
    {X "y NoOp ^x ^x\n", "y", TD_INVALID_ARGUMENT, "\"^x\" comes twice"},
    {X "y NoOp ^x:0\n", "y", TD_INVALID_ARGUMENT, "is of no node"},
    {X "y NoOp ^y\n", "y", TD_INVALID_ARGUMENT, "\"y\" <- \"y\""},
    {X "y Relu T=t1\n", "y", TD_INVALID_ARGUMENT, "input"},
    {X "y Relu x x T=t1\n", "y", TD_INVALID_ARGUMENT, "input"},
    {X "y Relu x T=t2\n", "y", TD_INVALID_ARGUMENT, "T"},
    {X "y Relu x T=t10\n", "y", TD_INVALID_ARGUMENT, "T"},
    {X "y Relu x T=t101\n", "y", TD_INVALID_ARGUMENT,
     "attribute T: dtype 101 is float32_ref"},
    {X "y Relu x T=t99\n", "y", TD_INVALID_ARGUMENT, "99 is no dtype"},
    {X "y Relu x T=t-1\n", "y", TD_INVALID_ARGUMENT, "-1 is no dtype"},
    {X "y Relu x T=t0\n", "y", TD_INVALID_ARGUMENT, "T"},
    {X "y Relu x T=i1\n", "y", TD_INVALID_ARGUMENT, "T"},
    {X "y Relu x T=T1\n", "y", TD_INVALID_ARGUMENT, "T"},
    {X "y Relu x T=-\n", "y", TD_INVALID_ARGUMENT, "attribute T: no value"},
    {X "y Relu x T=t1 T=t1\n", "y", TD_INVALID_ARGUMENT, "T comes twice"},
    {X "y Relu x T=t1 _a=i1 _a=i2\n", "y", TD_INVALID_ARGUMENT,
     "_a comes twice"},
    {X "y Relu x T=t1 beta=f0\n", "y", TD_INVALID_ARGUMENT, "beta"},
    {X "y Relu x T=t1 beta=f1\nversions 999\n", "y", TD_INVALID_ARGUMENT,
     "beta"},
    {X "y Relu x new=b1\nversions 999\n", "y", TD_INVALID_ARGUMENT, "new"},
    {X "y Relu x new=t0\nversions 999\n", "y", TD_INVALID_ARGUMENT, "new"},
    {X "y Relu x new=-\nversions 999\n", "y", TD_INVALID_ARGUMENT,
     "attribute new: no value"},
    {X "y Relu x T=t1 _a=M\n", "y", TD_INVALID_ARGUMENT,
     "attribute _a: a list of several kinds"},
    {X "y Relu x T=t1 _a=Ff\n", "y", TD_INVALID_ARGUMENT,
     "attribute _a: attribute \"a\" of function \"f\" comes twice"},
    {X "y Relu x T=t1 _a=Pq\n", "y", TD_INVALID_ARGUMENT,
     "attribute _a: placeholder \"q\" outside a function's body"},
    {"x Placeholder shape=S\n", "x", TD_INVALID_ARGUMENT, "dtype"},
    {"x Placeholder dtype=t1 shape=S-2\n", "x", TD_INVALID_ARGUMENT,
     "attribute shape: a shape with a size of -2"},
    {"x Const dtype=t20 value=V20\n", "x", TD_INVALID_ARGUMENT,
     "attribute value: a constant of dtype resource"},
    {"x Const dtype=t3 value=V1\n", "x", TD_INVALID_ARGUMENT,
     "value is float32 but attribute dtype is int32"},
    {"x NoOp /job:a:b\n", "x", TD_INVALID_ARGUMENT, "device \"/job:a:b\""},
    {"a NoOp ^b\nb NoOp ^c\nc NoOp ^a\n", "a", TD_INVALID_ARGUMENT,
     "a cycle that passes no NextIteration: \"a\" <- \"c\" <- \"b\" <- \"a\""},
    {X "y Add y x T=t1\n", "y", TD_INVALID_ARGUMENT, "a cycle"},
    {X "m Merge x y T=t1 N=i2\ny Relu m T=t1\n", "m", TD_INVALID_ARGUMENT,
     "a cycle"},
    {X "m Merge x n T=t1 N=i2\nn NextIteration m T=t1\n", "m",
     TD_INVALID_ARGUMENT, "neither Enter nor NextIteration; the cycle: 'm'"},
    {X "m Merge x n T=t1\n", "m", TD_INVALID_ARGUMENT, "is of no node"},
    {X "m Merge T=t1 N=i0\n", "m", TD_INVALID_ARGUMENT, "N"},
    {X "e Exit x T=t1\n", "e", TD_INVALID_ARGUMENT, "Exit is in no loop"},
    {X P "e Enter x T=t1 frame_name=sw parallel_iterations=i0\n", "e",
     TD_INVALID_ARGUMENT, "parallel_iterations"},
    {X "s Switch x x T=t1\n", "s", TD_INVALID_ARGUMENT, "pred"},
    {X "p Placeholder dtype=t10 shape=S2\ns Switch x p T=t1\n", "s",
     TD_INVALID_ARGUMENT, "pred must be of rank 0"},
    {"x NoOp\nversions 200 135\n", "", TD_INVALID_ARGUMENT,
     "needs a reader of version 135; this is 134"},
};

static void test_bad(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(bad); i++) {
    td_graph *g = new_graph();
    td_build b;
    td_node *n;
    td_build_init(&b, g, "NoOp", "before");
    OK(td_build_node(&b, &n));
    uint64_t version = td_graph_version(g);
    td_status *s = read_text(g, bad[i].text, NULL);
    if (!s) fail_msg("no error, wanted \"%s\"", bad[i].part);
    if (!strstr(td_status_message(s), bad[i].part))
      fail_msg("\"%s\" lacks \"%s\"", td_status_message(s), bad[i].part);
    assert_int_equal(td_status_code(s), bad[i].code);
    assert_string_equal(td_status_node(s), bad[i].node);
    td_status_release(s);
    assert_int_equal(td_graph_size(g), 1); /* nothing has changed */
    assert_true(td_graph_version(g) == version);
    assert_null(td_graph_find(g, "x"));
    td_graph_release(g);
  }
}

/* More control inputs than are compared one by one. */
static void test_many_controls(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_str t = {0}, user = {0};
  td_str_add(&user, "u NoOp");
  for (int i = 0; i < 40; i++) {
    td_str_addf(&t, "n%d NoOp\n", i);
    td_str_addf(&user, " ^n%d", i);
  }
  size_t len = t.len;
  td_str_addf(&t, "%s ^n3\n", td_str_c(&user));
  FAILS(read_text(g, td_str_c(&t), NULL), TD_INVALID_ARGUMENT,
        "\"^n3\" comes twice");
  t.at[t.len = len] = '\0';
  td_str_add(&t, td_str_c(&user));
  OK(read_text(g, td_str_c(&t), NULL));
  assert_int_equal(td_graph_find(g, "u")->n_control, 40);
  td_str_deinit(&t);
  td_str_deinit(&user);
  td_graph_release(g);
}

static void test_bad_consumers(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_str m = {0}, versions = {0};
  wire_int(&versions, 3, 133);
  wire_int(&versions, 3, 134);
  wire_message(&m, 4, &versions);
  FAILS(td_graphdef_read(g, m.at, m.len, NULL), TD_INVALID_ARGUMENT,
        "must not be read by version 134");
  td_str_deinit(&m);
  td_graph_release(g);
}

static void test_target(void **state) {
  (void)state;
  td_graph *g = new_graph();
  OK(read_text(g, X, NULL));
  FAILS(read_text(g, "a NoOp\n" X, NULL), TD_ALREADY_EXISTS,
        "a node \"x\" exists already");
  assert_null(td_graph_find(g, "a"));
  OK(read_text(g, "a NoOp\n", NULL));
  td_graph_finalize(g);
  FAILS(read_text(g, "b NoOp\n", NULL), TD_FAILED_PRECONDITION,
        "the graph is final");
  td_graph_release(g);
}

/* ---- options ------------------------------------------------------------- */

static void test_prefix(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_graphdef_options o = {.prefix = "a/b"};
  const char *text = X P LOOP "y Relu x T=t1 _class=Cloc:@x\n"
                              "z Relu x T=t1 _class=Cloc:@elsewhere\n";
  OK(read_text(g, text, &o));
  assert_order(g, "a/b/x a/b/p a/b/e a/b/pe a/b/m a/b/pi a/b/c a/b/s a/b/x2 "
                  "a/b/n a/b/y a/b/z");
  td_node *y = td_graph_find(g, "a/b/y");
  assert_string_equal(td_node_attr(y, "_class")->ss[0].at, "loc:@a/b/x");
  y = td_graph_find(g, "a/b/z");
  assert_string_equal(td_node_attr(y, "_class")->ss[0].at, "loc:@elsewhere");
  assert_string_equal(td_node_string(td_graph_find(g, "a/b/e"), "frame_name"),
                      "a/b/w");
  FAILS(read_text(g, text, &o), TD_ALREADY_EXISTS, "\"a/b/x\" exists");
  o.prefix = "c";
  OK(read_text(g, text, &o));
  o.prefix = "";
  OK(read_text(g, X, &o));
  assert_non_null(td_graph_find(g, "x"));
  o.prefix = "/bad";
  FAILS(read_text(g, X, &o), TD_INVALID_ARGUMENT, "a name must be");
  td_graph_release(g);
}

static void test_inputs(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_build b;
  td_node *gate;
  td_edge mine = placeholder(g, TD_FLOAT32, td_shape_matrix(5, 7), "mine");
  td_build_init(&b, g, "NoOp", "gate");
  OK(td_build_node(&b, &gate));
  td_edge sizes = ints(g, (int32_t[]){7, 5}, 2);
  const char *names[] = {"x:0", "^c", "dims", "^d"};
  td_edge edges[] = {mine, {gate, 0}, sizes, {gate, -1}};
  td_graphdef_options o = {.names = names, .edges = edges, .n_inputs = 4};
  /* dims and ^c are not even in the file; x is, and is read all the same */
  OK(read_text(g, X "y Relu x ^c ^d T=t1\nc NoOp\nz Reshape y dims T=t1\n",
               &o));
  td_node *y = td_graph_find(g, "y"), *z = td_graph_find(g, "z");
  assert_ptr_equal(y->in[0].node, mine.node);
  assert_int_equal(y->n_control, 1); /* both were the gate */
  assert_ptr_equal(y->control[0], gate);
  assert_ptr_equal(z->in[1].node, sizes.node);
  assert_shape((td_edge){z, 0}, "{7, 5}"); /* by the constant's value */
  assert_non_null(td_graph_find(g, "x"));
  OK(td_graph_verify(g));
  td_graph_release(g);
}

static void test_bad_inputs(void **state) {
  (void)state;
  td_graph *g = new_graph(), *other = new_graph();
  td_edge mine = placeholder(g, TD_FLOAT32, td_shape_scalar(), "mine");
  td_edge bools = placeholder(g, TD_BOOL, td_shape_scalar(), "bools");
  td_edge far = placeholder(other, TD_FLOAT32, td_shape_scalar(), "far");
  const char *names[] = {"x", "x:0"};
  td_edge edges[] = {mine, mine};
  td_graphdef_options o = {.names = names, .edges = edges, .n_inputs = 1};
  FAILS(read_text(g, "y NoOp\n", &o), TD_NOT_FOUND, "takes the input \"x\"");
  o.n_inputs = 2;
  FAILS(read_text(g, "y Relu x T=t1\n", &o), TD_INVALID_ARGUMENT,
        "\"x:0\" is replaced twice");
  o.n_inputs = 1;
  edges[0] = bools;
  FAILS(read_text(g, "y Relu x T=t1\n", &o), TD_INVALID_ARGUMENT, "bool");
  edges[0] = far;
  FAILS(read_text(g, "y Relu x T=t1\n", &o), TD_INVALID_ARGUMENT,
        "must be replaced by a tensor of the graph");
  edges[0] = (td_edge){mine.node, 1};
  FAILS(read_text(g, "y Relu x T=t1\n", &o), TD_INVALID_ARGUMENT,
        "must be replaced by a tensor");
  edges[0] = (td_edge){NULL, 0};
  names[0] = "^x";
  FAILS(read_text(g, "y NoOp ^x\n", &o), TD_INVALID_ARGUMENT,
        "must be replaced by a node");
  assert_int_equal(td_graph_size(g), 2);
  td_graph_release(g);
  td_graph_release(other);
}

/* ---- threads ------------------------------------------------------------- */

typedef struct reader {
  pthread_t thread;
  td_graph *g;
  int number;
} reader;

enum { READERS = 4, READS = 25 };

/* Files by prefixes of its own, of which every second fails, and nodes. */
static void *read_many(void *arg) {
  reader *r = arg;
  for (int i = 0; i < READS; i++) {
    char prefix[16];
    td_build b;
    td_node *n;
    snprintf(prefix, sizeof prefix, "t%d_%d", r->number, i);
    td_graphdef_options o = {.prefix = prefix};
    OK(read_text(r->g, X P LOOP "y Relu x2 T=t1\n", &o));
    td_status_release(read_text(r->g, X P LOOP, &o));
    td_build_init(&b, r->g, "NoOp", "n");
    OK(td_build_node(&b, &n));
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  td_graph *g = new_graph();
  reader r[READERS];
  for (int i = 0; i < READERS; i++) {
    r[i] = (reader){.g = g, .number = i};
    assert_int_equal(pthread_create(&r[i].thread, NULL, read_many, &r[i]), 0);
  }
  for (int i = 0; i < READERS; i++) pthread_join(r[i].thread, NULL);
  assert_int_equal(td_graph_size(g), READERS * READS * 12);
  OK(td_graph_verify(g));
  td_graph_release(g);
}

/* ---- size, memory -------------------------------------------------------- */

/* Nodes in the worst order, each input after its user. */
static void test_backwards(void **state) {
  (void)state;
  enum { NODES = 20000 };
  td_graph *g = new_graph();
  td_str m = {0};
  char line[64];
  for (int i = NODES; i > 0; i--) {
    snprintf(line, sizeof line, "n%d Relu n%d T=t1", i, i - 1);
    wire_node(&m, line);
  }
  wire_node(&m, "n0 Placeholder dtype=t1 shape=S2,2");
  OK(td_graphdef_read(g, m.at, m.len, NULL));
  assert_string_equal(td_graph_node(g, NODES)->name, "n20000");
  assert_shape((td_edge){td_graph_node(g, NODES), 0}, "{2, 2}");
  td_str_deinit(&m);
  td_graph_release(g);
}

/* Constants that are small in the file and large in memory share one limit. */
static void test_fill(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_str m = {0};
  for (int i = 0; i < 5; i++) {
    td_str node = {0}, attr = {0}, value = {0}, tensor = {0}, shape;
    char name[8];
    snprintf(name, sizeof name, "c%d", i);
    wire_text(&node, 1, name);
    wire_text(&node, 2, "Const");
    wire_text(&attr, 1, "dtype");
    value = wire_value("t4");
    wire_message(&attr, 2, &value);
    wire_message(&node, 5, &attr);
    wire_text(&attr, 1, "value");
    wire_int(&tensor, 1, TD_UINT8);
    shape = wire_shape("60000000");
    wire_message(&tensor, 2, &shape);
    wire_int(&tensor, 7, 9);
    wire_message(&value, 8, &tensor);
    wire_message(&attr, 2, &value);
    wire_message(&node, 5, &attr);
    wire_message(&m, 1, &node);
    if (i < 4) continue;
    FAILS(td_graphdef_read(g, m.at, m.len, NULL), TD_RESOURCE_EXHAUSTED,
          "repeated values would take 59999999 bytes more than the file has");
  }
  assert_int_equal(td_graph_size(g), 0);
  td_str_deinit(&m);
  td_graph_release(g);
}

/* So do outputs of which a number says how many. */
static void test_many_outputs(void **state) {
  (void)state;
  td_graph *g = new_graph();
  td_str text = {0};
  td_str_add(&text, "a Placeholder dtype=t1\nk Placeholder dtype=t3\n");
  for (int i = 0; i < 40; i++)
    td_str_addf(&text, "s%d TestSplit k a num_split=i65536 T=t1\n", i);
  td_str m = wire_graph(td_str_c(&text));
  FAILS(td_graphdef_read(g, m.at, m.len, NULL), TD_RESOURCE_EXHAUSTED,
        "outputs would take");
  assert_int_equal(td_graph_size(g), 0);
  td_str_deinit(&text);
  td_str_deinit(&m);
  td_graph_release(g);
}

static td_status *read_into_new(void *arg) {
  const td_str *m = arg;
  td_graph *g;
  TD_TRY(td_graph_new(&g));
  td_status *s = td_graphdef_read(g, m->at, m->len, NULL);
  bool half = s && td_graph_size(g) != 0;
  td_graph_release(g);
  if (half) fail_msg("half a file was read");
  return s;
}

static void test_no_memory(void **state) {
  (void)state;
  td_str m = wire_graph(
      X P LOOP "y Relu x2 T=t1 _class=Cloc:@x\nk Const dtype=t1 value=V1\n");
  assert_true(fail_each(read_into_new, &m) > 40);
  td_str_deinit(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good),
      cmocka_unit_test(test_loop_shapes),
      cmocka_unit_test(test_checked_loop_shapes),
      cmocka_unit_test(test_conds),
      cmocka_unit_test(test_conds_of_parts),
      cmocka_unit_test(test_many_loop_shapes),
      cmocka_unit_test(test_bad),
      cmocka_unit_test(test_many_controls),
      cmocka_unit_test(test_bad_consumers),
      cmocka_unit_test(test_target),
      cmocka_unit_test(test_prefix),
      cmocka_unit_test(test_inputs),
      cmocka_unit_test(test_bad_inputs),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_backwards),
      cmocka_unit_test(test_fill),
      cmocka_unit_test(test_many_outputs),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
