/* frames.c - loops and conds read statically.
 *
 * Graphs are written as text, a node a line:
 *
 *   name: Kind data inputs ^control inputs; key=value ...
 *
 * in the order in which they are built. "@" is a back edge that a line
 * "merge <- next" closes later.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/graph/build.h"
#include "engine/graph/frames.h"
#include "engine/graph/node_edit.h"

/* ---- ops ----------------------------------------------------------------- */

static td_status *same_as_first(td_infer *c) {
  const td_shape *in = td_infer_in(c, 0);
  for (int i = 0; i < td_infer_outputs(c); i++)
    td_infer_out(c, i, in ? *in : td_shape_unknown());
  return NULL;
}

/* clang-format off */
static const td_op_def flow_ops[] = {
  {.type = "FSwitch", .sig = "data: T, pred: bool -> no: T, yes: T; T: type",
   .shape = same_as_first, .kind = TD_OP_SWITCH},
  {.type = "FMerge", .sig = "inputs: N*T -> output: T, index: int32; T: type; N: int >= 1",
   .shape = same_as_first, .kind = TD_OP_MERGE},
  {.type = "FEnter", .sig = "data: T -> output: T; T: type; frame_name: string; "
          "is_constant: bool = false; parallel_iterations: int = 10",
   .shape = same_as_first, .kind = TD_OP_ENTER},
  {.type = "FExit", .sig = "data: T -> output: T; T: type",
   .shape = same_as_first, .kind = TD_OP_EXIT},
  {.type = "FNext", .sig = "data: T -> output: T; T: type",
   .shape = same_as_first, .kind = TD_OP_NEXT},
  {.type = "FCond", .sig = "input: bool -> output: bool",
   .shape = same_as_first, .kind = TD_OP_COND},
  {.type = "FTrigger", .sig = "->", .shape = td_infer_none, .kind = TD_OP_TRIGGER},
  {.type = "FRecv", .sig = "-> tensor: T; T: type", .shape = td_infer_any, .kind = TD_OP_RECV},
  {.type = "FId", .sig = "input: T -> output: T; T: type",
   .shape = same_as_first, .kind = TD_OP_IDENTITY},
  {.type = "FAny", .sig = "in: N*bool -> out: bool; N: int", .shape = td_infer_any},
  {0}};
/* clang-format on */

static const td_module flow_module = {"flow_ops", flow_ops, NULL};

static int register_all(void **state) {
  td_status *s = td_op_register(&flow_module);
  return s || register_ops(state) ? -1 : 0;
}

/* ---- graphs from text ---------------------------------------------------- */

static void set_attr(td_build *b, char *text) {
  char *value = strchr(text, '=');
  assert_non_null(value);
  *value++ = '\0';
  if (strcmp(text, "frame_name") == 0)
    td_build_attr(b, text, td_attr_string(value));
  else if (strcmp(text, "parallel_iterations") == 0)
    td_build_attr(b, text, td_attr_int(atoll(value)));
  else
    td_build_attr(b, text, td_attr_bool(value[0] == 't'));
}

static void add_line(td_graph *g, char *line) {
  char *save, name[64], op[64];
  char *word = strtok_r(line, " ", &save);
  td_edge in[128], e;
  int n_in = 0;
  td_build b;
  td_node *n;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word, ":"), word);
  word = strtok_r(NULL, " ", &save);
  if (strcmp(word, "<-") == 0) {
    td_node *m = td_graph_find(g, name);
    int open = 0;
    OK(td_graph_edge(g, strtok_r(NULL, " ", &save), &e));
    while (m->in[open].node) open++;
    OK(td_node_set_back_edge(m, open, e));
    return;
  }
  snprintf(op, sizeof op, "F%s", word);
  td_build_init(&b, g, op, name);
  b.origin = "loop.lua:7";
  while ((word = strtok_r(NULL, " ", &save))) {
    if (strchr(word, '=')) {
      set_attr(&b, word);
    } else if (word[0] == '@') {
      in[n_in++] = (td_edge){NULL, 0};
    } else {
      OK(td_graph_edge(g, word, &e));
      if (e.port < 0)
        td_build_control(&b, e.node);
      else
        in[n_in++] = e;
    }
  }
  td_build_flat(&b, in, n_in);
  if (td_op_attr(b.op, "T") >= 0) td_build_attr(&b, "T", td_attr_type(TD_BOOL));
  if (td_op_attr(b.op, "N") >= 0) td_build_attr(&b, "N", td_attr_int(n_in));
  OK(td_build_node(&b, &n));
  assert_string_equal(n->name, name);
}

static td_graph *graph_of(const char *text) {
  td_graph *g = new_graph();
  char *copy = td_strdup(text), *save;
  for (char *l = strtok_r(copy, "\n", &save); l;
       l = strtok_r(NULL, "\n", &save))
    add_line(g, l);
  td_free(copy);
  return g;
}

/* ---- good graphs --------------------------------------------------------- */

/* A loop "w" over `x`; its parts can be told apart by their prefix. */
#define LOOP(p, x, frame)                                                      \
  p "e: Enter " x " frame_name=" frame "\n" p "m: Merge " p "e @\n" p          \
    "c: Cond " p "m\n" p "s: Switch " p "m " p "c\n" p "b: Id " p "s:1\n"

#define END(p) p "n: Next " p "b\n" p "m <- " p "n\n" p "x: Exit " p "s:0\n"

/* dead: names of those that may die, "[m]" where the loop goes on all the same;
 * frames: "name frame" where not the root */
static const struct {
  const char *what, *text, *dead, *frames;
} good[] = {
    {"nothing", "", "", ""},
    {"a line", "a: Any\nb: Any a\nc: Any ^b\n", "", ""},
    {"a cond",
     "a: Any\np: Any\ns: Switch a p\nt: Id s:1\nf: Id s:0\n"
     "m: Merge f t\nd: Any m\n",
     "t f", ""},
    {"a cond by control edges",
     "a: Any\np: Any\ns: Switch p p\nt: Id s:1\nf: Id s:0\n"
     "x: Any ^t\ny: Any ^f\nm: Merge y x\nd: Any m\n",
     "t f x y", ""},
    {"the same predicate through Identity",
     "a: Any\np: Any\nq: Id p\ns: Switch a p\nr: Switch a q\nm: Merge s:0 r:1\n"
     "d: Any m\n",
     "", ""},
    {"two predicates",
     "a: Any\np: Any\nq: Any\ns: Switch a p\nr: Switch a q\nm: Merge s:0 r:1\n"
     "d: Any m\n",
     "m d", ""},
    {"both sides the same",
     "a: Any\np: Any\ns: Switch a p\nr: Switch a p\nm: Merge s:0 r:0\nd: Any "
     "m\n",
     "m d", ""},
    {"a live input settles a Merge",
     "a: Any\np: Any\ns: Switch a p\nm: Merge s:0 a\n", "", ""},
    {"a cond in a cond",
     "a: Any\np: Any\nq: Any\ns: Switch a p\nqs: Switch q p\n"
     "i: Switch s:1 qs:1\nit: Id i:1\nif: Id i:0\nim: Merge it if\n"
     "f: Id s:0\nm: Merge f im\n",
     "i it if im f", ""},
    {"a case of three",
     "a: Any\np: Any\nq: Any\ns: Switch a p\nr: Switch s:0 q\n"
     "m: Merge s:1 r:1 r:0\nd: Any m\n",
     "r", ""},
    {"a trigger never dies",
     "a: Any\np: Any\ns: Switch a p\nt: Id s:1\nc: Trigger ^t\nd: Any ^c\n",
     "t", ""},
    {"a side alone", "a: Any\np: Any\ns: Switch a p\nt: Any s:1\nu: Any a ^t\n",
     "t u", ""},
    {"a loop", "a: Any\n" LOOP("", "a", "w") END("") "d: Any x\n", "b n",
     "m w, c w, s w, b w, n w, x w"},
    {"a loop with a constant",
     "a: Any\nk: Any\n" LOOP("", "a",
                             "w") "ke: Enter k frame_name=w "
                                  "is_constant=true\nkb: Any b ke\n" END(""),
     "b n kb", "m w, c w, s w, b w, n w, x w, kb w"},
    {"two variables",
     "a: Any\n" LOOP(
         "", "a",
         "w") "ye: Enter a frame_name=w\nym: Merge @ ye\nys: Switch ym c\n"
              "yn: Next ys:1\nym <- yn\nyx: Exit ys:0\n" END(
                  "") "d: Any x yx\n",
     "b n yn", "m w, c w, s w, b w, n w, x w, ym w, ys w, yn w, yx w"},
    {"a loop in a cond",
     "a: Any\np: Any\nq: Switch a p\nt: Id q:1\n" LOOP("", "t", "w")
         END("") "f: Id q:0\nj: Merge f x\nd: Any j\n",
     "t e m c s b n x f", "m w, c w, s w, b w, n w, x w"},
    {"a cond in a loop",
     "a: Any\n" LOOP(
         "", "a",
         "w") "p: Any b\nq: Switch b p\nt: Id q:1\nf: Id q:0\nj: Merge f t\n"
              "n: Next j\nm <- n\nx: Exit s:0\nd: Any x\n",
     "b p q t f j n", "m w, c w, s w, b w, n w, x w, p w, q w, t w, f w, j w"},
    {"a cond in the condition",
     "a: Any\ne: Enter a frame_name=w\nm: Merge e @\np: Any m\n"
     "q: Switch m p\nj: Merge q:0 q:1\nc: Cond j\ns: Switch m c\n"
     "n: Next s:1\nm <- n\nx: Exit s:0\n",
     "n", "m w, p w, q w, j w, c w, s w, n w, x w"},
    {"a loop in a loop",
     "a: Any\n" LOOP("", "a", "w") LOOP("i", "b", "v")
         END("i") "n: Next ix\nm <- n\nx: Exit s:0\nd: Any x\n",
     "b n ie im ic is ib in ix",
     "m w, c w, s w, b w, n w, x w, ie w, im v, ic v, is v, ib v, in v, ix v"},
    {"frames of one name, in two parents",
     "a: Any\n" LOOP("", "a", "w") LOOP("i", "b", "w")
         END("i") "n: Next ix\nm <- n\nx: Exit s:0\nd: Any x\n",
     "b n ie im ic is ib in ix",
     "m w, c w, s w, b w, n w, x w, ie w, im w, ic w, is w, ib w, in w, ix w"},
    {"a variable that a cond may lose",
     "a: Any\n" LOOP(
         "", "a",
         "w") "ye: Enter a frame_name=w\nym: Merge ye @\nys: Switch ym c\n"
              "p: Any b\nq: Switch ys:1 p\nyn: Next q:1\nym <- yn\nyx: Exit "
              "ys:0\n" END("") "d: Any x\n",
     "b n [ym] ys p q yn yx",
     "m w, c w, s w, b w, n w, x w, ym w, ys w, p w, q w, yn w, yx w"},
    {"a variable fed from one that may be lost",
     "a: Any\n" LOOP(
         "", "a",
         "w") "ye: Enter a frame_name=w\nym: Merge ye @\nys: Switch ym c\n"
              "p: Any b\nq: Switch ys:1 p\nyn: Next q:1\nym <- yn\n"
              "ze: Enter a frame_name=w\nzm: Merge ze @\nzs: Switch zm c\n"
              "zy: Any zs:1 ym\nzn: Next zy\nzm <- zn\nzx: Exit zs:0\n" END(
                  "") "d: Any x\n",
     "b n [m] s c x d [ym] ys p q yn [zm] zs zy zn zx",
     "m w, c w, s w, b w, n w, x w, ym w, ys w, p w, q w, yn w, zm w, zs w, "
     "zy w, zn w, zx w"},
    {"a value of the body that never leaves",
     "a: Any\n" LOOP(
         "", "a",
         "w") "y: Any b\nys: Switch y c\nyx: Exit ys:0\n" END("") "d: Any yx\n",
     "b n y ys yx d", "m w, c w, s w, b w, n w, x w, y w, ys w, yx w"},
    {"a loop that begins with a constant of the one around it",
     "a: Any\nk: Any\n" LOOP(
         "", "a", "w") "ke: Enter k frame_name=w "
                       "is_constant=true\n" LOOP(
                           "i", "ke",
                           "v") "ye: Enter b frame_name=v\nym: Merge ye @\nys: "
                                "Switch ym ic\n"
                                "yn: Next ys:1\nym <- yn\nyx: Exit ys:0\n" END(
                                    "i") "n: Next s:1\nm <- n\nx: Exit s:0\n",
     "b n ib in ye [ym] ys yn yx",
     "m w, c w, s w, b w, n w, x w, ie w, ye w, im v, ic v, is v, ib v, in v, "
     "ix v, ym v, ys v, yn v, yx v"},
    {"a loop that waits for the body of the one around it",
     "a: Any\nk: Any\n" LOOP(
         "", "a",
         "w") "ke: Enter k frame_name=w "
              "is_constant=true\n"
              "ie: Enter ke ^b frame_name=v\n"
              "im: Merge ie @\nic: Cond im\nis: Switch im ic\nib: Id is:1\n"
              "ye: Enter b frame_name=v\nym: Merge ye @\nys: Switch ym ic\n"
              "yn: Next ys:1\nym <- yn\nyx: Exit ys:0\n" END(
                  "i") "n: Next s:1\nm <- n\nx: Exit s:0\n",
     "b n ie im ic is ib in ix ye ym ys yn yx",
     "m w, c w, s w, b w, n w, x w, ie w, ye w, im v, ic v, is v, ib v, in v, "
     "ix v, ym v, ys v, yn v, yx v"},
    {"a frame that does not turn",
     "a: Any\ne: Enter a frame_name=w\nb: Id e\nx: Exit b\nd: Any x\n", "",
     "b w, x w"},
    {"a part of a plan",
     "a: Any\n" LOOP("", "a",
                     "w") "r: Recv ^m _may_die=true\nye: Enter a "
                          "frame_name=w\nym: Merge ye @\n"
                          "yn: Next r\nym <- yn\nyr: Recv ^m "
                          "_may_die=true\nyx: Exit yr\n" END("") "d: Any x\n",
     "b n r [ym] yn yr yx",
     "m w, c w, s w, b w, n w, x w, r w, ym w, yn w, yr w, yx w"},
};

static bool listed(const char *list, const char *word) {
  size_t len = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at++)
    if ((at == list || at[-1] == ' ') && (!at[len] || at[len] == ' '))
      return true;
  return false;
}

/* "name w" in "m w, c w"; the root otherwise. */
static void assert_frame(const td_frames *f, const td_node *n,
                         const char *list) {
  char entry[80];
  const char *name = f->at[n->frame].name;
  snprintf(entry, sizeof entry, "%s %s", n->name, *name ? name : "w");
  const char *at = strstr(list, entry);
  while (at && at != list && at[-1] != ' ') at = strstr(at + 1, entry);
  if ((at != NULL) != (*name != '\0'))
    fail_msg("'%s' is in frame \"%s\"", n->name, name);
}

static void test_good(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(good); i++) {
    td_graph *g = graph_of(good[i].text);
    td_frames f;
    td_status *s = td_frames_check(g, &f);
    if (s) fail_msg("%s: %s", good[i].what, td_status_message(s));
    for (int32_t id = 0; id < td_graph_size(g); id++) {
      const td_node *n = td_graph_node(g, id);
      char stops[80];
      snprintf(stops, sizeof stops, "[%s]", n->name);
      bool stop = listed(good[i].dead, stops);
      if (n->may_stop != stop)
        fail_msg("%s: may_stop of '%s' is %d", good[i].what, n->name,
                 n->may_stop);
      if (n->may_die != (stop || listed(good[i].dead, n->name)))
        fail_msg("%s: may_die of '%s' is %d", good[i].what, n->name,
                 n->may_die);
      assert_frame(&f, n, good[i].frames);
    }
    td_frames_free(&f);
    td_graph_release(g);
  }
}

static void test_tree(void **state) {
  (void)state;
  td_graph *g = graph_of("a: Any\n" LOOP("", "a", "w") LOOP("i", "b", "v")
                             END("i") "n: Next ix\nm <- n\nx: Exit s:0\n");
  td_frames f;
  OK(td_frames_check(g, &f));
  assert_int_equal(f.count, 3);
  assert_string_equal(f.at[0].name, "");
  assert_int_equal(f.at[0].parent, -1);
  assert_null(f.at[0].enter);
  for (int32_t i = 1; i < 3; i++) {
    assert_string_equal(f.at[i].name, i == 1 ? "w" : "v");
    assert_int_equal(f.at[i].parent, i - 1);
    assert_int_equal(f.at[i].depth, i);
    assert_int_equal(f.at[i].enters, 1);
    assert_int_equal(f.at[i].parallel, 10);
    assert_string_equal(f.at[i].cond->name, i == 1 ? "c" : "ic");
    assert_int_equal(f.beyond[f.at[i].enter->id], i);
  }
  assert_int_equal(f.beyond[td_graph_find(g, "ix")->id], 1);
  assert_int_equal(f.beyond[td_graph_find(g, "x")->id], 0);
  td_frames_free(&f);
  td_graph_release(g);
}

/* ---- bad graphs ---------------------------------------------------------- */

static const struct {
  const char *text, *node, *part;
} bad[] = {
    {"a: Any\nk: Any\n" LOOP("", "a", "w") "z: Any b k\n" END(""), "z",
     "two frames: 'b' (loop.lua:7) from frame \"w\", 'k' (loop.lua:7) from "
     "outside all loops"},
    {"a: Any\nk: Any\n" LOOP("", "a", "w") "z: Any b ^k\n" END(""), "z",
     "two frames"},
    {"a: Any\n" LOOP("", "a", "w") LOOP("i", "a", "v") END("")
         END("i") "z: Any b ib\n",
     "z", "from frame \"w\", 'ib' (loop.lua:7) from frame \"v\""},
    {"a: Any\n" LOOP("", "a", "w"), "m",
     "input 1 of this Merge is missing: no NextIteration"},
    {"a: Any\nm: Merge a @\nc: Cond m\ns: Switch m c\nn: Next s:1\nm <- n\n",
     "m",
     "neither Enter nor NextIteration; the cycle: 'm' (loop.lua:7) -> 's' "
     "(loop.lua:7) -> 'n' (loop.lua:7) -> 'm'"},
    {"a: Any\ne: Enter a frame_name=w\nm: Merge e a @\nn: Next m\nm <- n\n",
     "m", "neither Enter nor NextIteration"},
    {"m: Merge @ @\nn: Next m\nm <- n\nm <- n\n", "m",
     "no Enter leads to this loop"},
    {"a: Any\ne: Enter a frame_name=w is_constant=true\nm: Merge e @\n"
     "n: Next m\nm <- n\n",
     "m", "a constant Enter"},
    {"a: Any\n" LOOP("", "a", "w") "n: Next b\nm <- n\nz: Any n\n", "n",
     "may feed a Merge only, not FAny 'z' (loop.lua:7)"},
    {"a: Any\n" LOOP("", "a", "w") "n: Next b\nm <- n\nz: Any ^n\n", "n",
     "by a control edge"},
    {"a: Any\n" LOOP("", "a", "w")
         LOOP("i", "b", "v") "n: Next ib\nm <- n\nin: Next ib\nim <- in\n",
     "m", "a Merge of another frame; the cycle: 'm'"},
    {"a: Any\nx: Exit a\n", "x", "FExit is in no loop"},
    {"a: Any\nx: Next a\n", "x", "FNext is in no loop"},
    {"a: Any\nx: Cond a\n", "x", "FCond is in no loop"},
    {"a: Any\ne: Enter a frame_name=w\nf: Enter a frame_name=w "
     "parallel_iterations=3\n",
     "f", "disagree: parallel_iterations is 3 here, 10 at 'e' (loop.lua:7)"},
    {"a: Any\ne: Enter a frame_name=w parallel_iterations=0\n", "e",
     "from 1 to 1000000, not 0"},
    {"a: Any\ne: Enter a frame_name=w parallel_iterations=1000001\n", "e",
     "from 1 to 1000000, not 1000001"},
    {"a: Any\ne: Enter a frame_name=w\nm: Merge e @\nn: Next m\nm <- n\n", "m",
     "a loop without LoopCond would never end; the cycle: 'm'"},
    {"a: Any\n" LOOP("", "a", "w") "d: Cond b\n" END(""), "d",
     "has a LoopCond already, 'c': two loops may not share"},
    {"a: Any\n" LOOP("", "a", "w") "n: Next m\nm <- n\nx: Exit s:0\n", "n",
     "FNext must follow output 1 of a Switch that LoopCond 'c' controls, else "
     "the loop would never end"},
    {"a: Any\n" LOOP("", "a", "w") "n: Next b\nm <- n\nx: Exit s:1\n", "x",
     "FExit must follow output 0 of a Switch that LoopCond 'c' controls"},
    {"a: Any\ne: Enter a frame_name=w\nm: Merge e @\nc: Cond m\np: Any m\n"
     "s: Switch m p\nn: Next s:1\nm <- n\nx: Exit s:0\n",
     "n", "that LoopCond 'c' controls"},
    {"a: Any\ne: Enter a frame_name=w\nm: Merge e @\nk: Enter a frame_name=w\n"
     "c: Cond m\ns: Switch m c\nn: Next k\nm <- n\n",
     "n", "would never end"},
};

static void test_bad(void **state) {
  (void)state;
  for (size_t i = 0; i < TD_COUNT(bad); i++) {
    td_graph *g = graph_of(bad[i].text);
    td_frames f;
    td_status *s = td_frames_check(g, &f);
    if (!s) fail_msg("no error, wanted \"%s\"", bad[i].part);
    assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
    if (!strstr(td_status_message(s), bad[i].part))
      fail_msg("\"%s\" lacks \"%s\"", td_status_message(s), bad[i].part);
    assert_string_equal(td_status_node(s), bad[i].node);
    assert_string_equal(td_status_origin(s), "loop.lua:7");
    assert_null(f.at);
    td_status_release(s);
    td_frames_free(&f);
    td_graph_release(g);
  }
}

/* ---- sizes --------------------------------------------------------------- */

/* `levels` Switches one below the other, then Merges back up. */
static td_graph *deep_cond(int levels) {
  td_str t = {0};
  td_str_add(&t, "p: Any\ns0: Switch p p\n");
  for (int i = 1; i <= levels; i++)
    td_str_addf(&t, "p%d: Any\ns%d: Switch s%d:1 p%d\n", i, i, i - 1, i);
  td_str_addf(&t, "m%d: Id s%d:1\n", levels + 1, levels);
  for (int i = levels; i >= 0; i--)
    td_str_addf(&t, "m%d: Merge s%d:0 m%d\n", i, i, i + 1);
  td_graph *g = graph_of(td_str_c(&t));
  td_str_deinit(&t);
  return g;
}

static void test_deep_cond(void **state) {
  (void)state;
  for (int levels = 1; levels <= 400; levels = levels * 2 + 1) {
    td_graph *g = deep_cond(levels);
    td_frames f;
    OK(td_frames_check(g, &f));
    /* Proved as far as sets reach; beyond, caution. */
    assert_int_equal(td_graph_find(g, "m0")->may_die, levels >= 128);
    td_frames_free(&f);
    td_graph_release(g);
  }
}

static td_graph *deep_loop(int levels) {
  td_str t = {0};
  td_str_add(&t, "b0: Any\n");
  for (int i = 1; i <= levels; i++)
    td_str_addf(&t,
                "e%d: Enter b%d frame_name=w\nm%d: Merge e%d @\nc%d: Cond m%d\n"
                "s%d: Switch m%d c%d\nb%d: Id s%d:1\n",
                i, i - 1, i, i, i, i, i, i, i, i, i);
  td_str_addf(&t, "x%d: Id b%d\n", levels + 1, levels);
  for (int i = levels; i > 0; i--)
    td_str_addf(&t, "n%d: Next x%d\nm%d <- n%d\nx%d: Exit s%d:0\n", i, i + 1, i,
                i, i, i);
  td_graph *g = graph_of(td_str_c(&t));
  td_str_deinit(&t);
  return g;
}

static void test_deep_loop(void **state) {
  (void)state;
  td_frames f;
  td_graph *g = deep_loop(32);
  OK(td_frames_check(g, &f));
  assert_int_equal(f.count, 33);
  assert_false(td_graph_find(g, "x1")->may_die);
  assert_true(td_graph_find(g, "x2")->may_die);
  td_frames_free(&f);
  td_graph_release(g);
  g = deep_loop(33);
  FAILS(td_frames_check(g, &f), TD_INVALID_ARGUMENT, "more than 32 deep");
  td_graph_release(g);
}

static void test_long_cycle(void **state) {
  (void)state;
  td_str t = {0};
  td_str_add(&t, "b0: Any\nm: Merge b0 @\nb1: Id m\n");
  for (int i = 2; i <= 60; i++) td_str_addf(&t, "b%d: Id b%d\n", i, i - 1);
  td_str_add(&t, "n: Next b60\nm <- n\n");
  td_graph *g = graph_of(td_str_c(&t));
  td_frames f;
  FAILS(td_frames_check(g, &f), TD_INVALID_ARGUMENT,
        "-> 'b24' (loop.lua:7) -> ... -> 'n' (loop.lua:7) -> 'm'");
  td_str_deinit(&t);
  td_graph_release(g);
}

/* ---- faults -------------------------------------------------------------- */

static td_status *check_once(void *arg) {
  td_frames f;
  td_status *s = td_frames_check(arg, &f);
  td_frames_free(&f);
  return s;
}

static void test_no_memory(void **state) {
  (void)state;
  td_graph *g = graph_of("a: Any\n" LOOP(
      "", "a",
      "w") "p: Any b\nq: Switch b p\nt: Id q:1\nf: Id q:0\nj: Merge f t\n"
           "n: Next j\nm <- n\nx: Exit s:0\nd: Any x\n");
  assert_true(fail_each(check_once, g) > 10);
  td_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good),      cmocka_unit_test(test_tree),
      cmocka_unit_test(test_bad),       cmocka_unit_test(test_deep_cond),
      cmocka_unit_test(test_deep_loop), cmocka_unit_test(test_long_cycle),
      cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, register_all, NULL);
}
