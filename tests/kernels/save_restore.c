/* save_restore.c - tensors to checkpoints and back: what is refused, when files
 * fail, memory runs out, steps are cancelled. What TensorFlow reads and writes
 * is in tests/lua/save_restore.lua, the files in tests/engine/io/checkpoint.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"
#include "tests/rounds.h"

#include <stdio.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/file_fault.h"
#include "engine/io/checkpoint_writer.h"
#include "tests/kernels/net.h"

enum { MOST = 8 };

static td_tensor strings(int n, const char *const *at) {
  td_tensor t;
  size_t len[MOST];
  td_shape shape = td_shape_vector(n);
  for (int i = 0; i < n; i++) len[i] = strlen(at[i]);
  OK(td_tensor_strings(&shape, at, len, &t));
  return t;
}

static td_tensor text(const char *s) {
  td_tensor t;
  td_shape scalar = td_shape_scalar();
  size_t len = strlen(s);
  OK(td_tensor_strings(&scalar, &s, &len, &t));
  return t;
}

/* ---- a folder with nodes ------------------------------------------------- */

typedef struct shelf {
  net n;
  td_str dir, prefix;
  td_edge path, x; /* the prefix; what reads "x", once made */
} shelf;

static void shelf_init(shelf *s) {
  *s = (shelf){0};
  net_init(&s->n, 1);
  OK(td_file_temp_dir(200, &s->dir));
  td_str_addf(&s->prefix, "%s/model", s->dir.at);
  assert_false(s->prefix.failed);
  s->path = net_feed(&s->n, text(s->prefix.at));
}

/* The names of the files, with a bar behind each. */
static void list(const shelf *s, td_str *out) {
  td_str names = {0};
  OK(td_file_list(s->dir.at, &names));
  td_str_clear(out);
  for (size_t i = 0; i < names.len; i += strlen(names.at + i) + 1)
    td_str_addf(out, "%s|", names.at + i);
  td_str_deinit(&names);
}

static void shelf_deinit(shelf *s) {
  td_str names = {0};
  char path[512];
  net_deinit(&s->n);
  OK(td_file_list(s->dir.at, &names));
  for (size_t i = 0; i < names.len; i += strlen(names.at + i) + 1) {
    snprintf(path, sizeof path, "%s/%s", s->dir.at, names.at + i);
    unlink(path);
  }
  rmdir(s->dir.at);
  td_str_deinit(&names);
  td_str_deinit(&s->dir);
  td_str_deinit(&s->prefix);
}

static td_status *save_try(shelf *s, const td_edge *in, const td_edge *tensors,
                           int n, td_edge *out) {
  td_build b;
  td_build_init(&b, s->n.graph, "SaveV2", NULL);
  for (int i = 0; i < 3; i++) td_build_in(&b, in[i]);
  td_build_list(&b, tensors, n);
  *out = (td_edge){NULL, 0};
  return td_build_node(&b, &out->node);
}

/* Of n tensors, which it takes. `parts` NULL: wholes. */
static td_edge save_node(shelf *s, int n, const char *const *names,
                         const char *const *parts, td_tensor *t) {
  static const char *const wholes[MOST] = {"", "", "", "", "", "", "", ""};
  td_edge in[] = {s->path, net_feed(&s->n, strings(n, names)),
                  net_feed(&s->n, strings(n, parts ? parts : wholes))};
  td_edge tensors[MOST], e;
  for (int i = 0; i < n; i++) tensors[i] = net_feed(&s->n, t[i]);
  OK(save_try(s, in, tensors, n, &e));
  return e;
}

static td_edge restore_node(shelf *s, int n, const char *const *names,
                            const char *const *parts, const td_dtype *dtypes) {
  static const char *const wholes[MOST] = {"", "", "", "", "", "", "", ""};
  td_edge in[] = {s->path, net_feed(&s->n, strings(n, names)),
                  net_feed(&s->n, strings(n, parts ? parts : wholes))};
  td_note attrs[] = {{"dtypes", td_attr_types(dtypes, n)}};
  return net_node(&s->n, "RestoreV2", in, 3, attrs, 1);
}

/* Runs a node of several outputs: net_run is for those of one. */
static td_status *restore_all(shelf *s, td_edge e, td_tensor *out) {
  td_tensor in[3] = {{.dtype = TD_INVALID}};
  td_kernel k;
  td_status *bad = td_kernel_init(&k, e.node, s->n.device, s->n.states);
  for (int i = 0; i < e.node->n_out; i++)
    out[i] = (td_tensor){.dtype = TD_INVALID};
  for (int i = 0; td_ok(bad) && i < e.node->n_in; i++)
    bad = net_run(&s->n, e.node->in[i], &in[i]);
  if (td_ok(bad)) bad = net_start(&s->n, &k, in, out);
  for (int i = 0; i < 3; i++) td_tensor_release(&in[i]);
  td_kernel_deinit(&k);
  return bad;
}

static void release_all(td_edge e, td_tensor *out) {
  for (int i = 0; i < e.node->n_out; i++) td_tensor_release(&out[i]);
}

/* As net_starve, for these; an error of `code` ends it, too. */
static void restore_starved(shelf *s, td_edge e, td_code code) {
  for (int64_t n = 1, over = 0; !over && n < 1000; n++) {
    td_tensor out[MOST];
    td_mem_fail(n, false);
    td_status *bad = restore_all(s, e, out);
    td_mem_fail(0, false);
    release_all(e, out);
    over = td_ok(bad) || td_status_code(bad) == code;
    if (!over) assert_int_equal(td_status_code(bad), TD_RESOURCE_EXHAUSTED);
    td_status_release(bad);
    assert_true(n < 999);
  }
}

static td_edge save_one(shelf *s, const char *name, td_tensor t) {
  return save_node(s, 1, &name, NULL, &t);
}

static td_edge restore_one(shelf *s, const char *name, td_dtype dtype) {
  return restore_node(s, 1, &name, NULL, &dtype);
}

static td_tensor filled(int64_t n, int32_t v) {
  td_tensor t;
  td_shape shape = td_shape_vector(n);
  OK(td_tensor_new(NULL, TD_INT32, &shape, &t));
  for (int64_t i = 0; i < n; i++) ((int32_t *)t.data)[i] = v;
  return t;
}

static td_edge the_x(shelf *s) {
  if (!s->x.node) s->x = restore_one(s, "x", TD_INT32);
  return s->x;
}

/* A vector of n times v is saved as "x". */
static void expect_filled(shelf *s, int64_t n, int32_t v) {
  td_tensor t;
  OK(net_run(&s->n, the_x(s), &t));
  assert_int_equal(td_tensor_count(&t), n);
  for (int64_t i = 0; i < n; i++)
    assert_int_equal(((const int32_t *)t.data)[i], v);
  td_tensor_release(&t);
}

/* ---- there and back ------------------------------------------------------ */

static void test_every_dtype(void **state) {
  (void)state;
  for (int k = 1; k < TD_DTYPES; k++) {
    td_dtype d = (td_dtype)k;
    if (!td_dtype_is_plain(d)) continue;
    shelf s;
    shelf_init(&s);
    td_tensor t[3], got;
    td_shape shapes[] = {td_shape_scalar(), td_shape_matrix(2, 3),
                         td_shape_matrix(0, 3)};
    const char *const names[] = {"scalar", "matrix", "none"};
    for (int i = 0; i < 3; i++) {
      OK(td_tensor_new(NULL, d, &shapes[i], &t[i]));
      memset(t[i].data, 1, td_tensor_bytes(&t[i]));
    }
    OK(net_do(&s.n, save_node(&s, 3, names, NULL, t)));
    for (int i = 0; i < 3; i++) {
      OK(net_run(&s.n, restore_one(&s, names[i], d), &got));
      assert_true(td_tensor_same(&got, &t[i]));
      td_tensor_release(&got);
    }
    shelf_deinit(&s);
  }
}

static void test_strings(void **state) {
  (void)state;
  shelf s;
  td_tensor got;
  shelf_init(&s);
  const char *const words[] = {"moon", "", "tide"};
  td_tensor t = strings(3, words);
  OK(net_do(&s.n, save_one(&s, "s", t)));
  OK(net_run(&s.n, restore_one(&s, "s", TD_STRING), &got));
  assert_true(td_tensor_same(&got, &t));
  td_tensor_release(&got);
  shelf_deinit(&s);
}

/* Written in two slices and a whole; read as other parts, many at once. */
static void test_slices(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  td_tensor t[] = {ints(4, (int32_t[]){0, 1, 10, 11}),
                   ints(2, (int32_t[]){20, 21}), ints(2, (int32_t[]){7, 8})};
  t[0].shape = td_shape_matrix(2, 2);
  t[1].shape = td_shape_matrix(1, 2);
  const char *const names[] = {"w", "w", "all"};
  const char *const parts[] = {"3 2 0,2:-", "3 2 2,1:-", "2 0,2"};
  OK(net_do(&s.n, save_node(&s, 3, names, parts, t)));
  const char *const wanted[] = {"all", "w", "w", "all"};
  const char *const places[] = {"2 1,1", "", "3 2 1,2:1,1", ""};
  const td_dtype dtypes[] = {TD_INT32, TD_INT32, TD_INT32, TD_INT32};
  td_tensor out[4];
  td_edge e = restore_node(&s, 4, wanted, places, dtypes);
  OK(restore_all(&s, e, out));
  static const int32_t rows[] = {0, 1, 10, 11, 20, 21};
  assert_int_equal(*(int32_t *)out[0].data, 8);
  assert_int_equal(out[1].shape.dim[0], 3);
  assert_memory_equal(out[1].data, rows, sizeof rows);
  assert_int_equal(((int32_t *)out[2].data)[0], 11);
  assert_int_equal(((int32_t *)out[2].data)[1], 21);
  assert_int_equal(td_tensor_count(&out[3]), 2);
  release_all(e, out);
  shelf_deinit(&s);
}

/* ---- refused ------------------------------------------------------------- */

static td_status *saved(shelf *s, td_edge prefix, td_edge names, td_edge parts,
                        td_edge x, int n) {
  td_edge in[] = {prefix, names, parts}, tensors[] = {x, x}, e;
  TD_TRY(save_try(s, in, tensors, n, &e));
  return net_do(&s->n, e);
}

static void test_bad_operands_of_a_save(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  td_edge prefix = net_feed(&s.n, text(s.prefix.at));
  const char *const two[] = {"a", "b"};
  const char *const same[] = {"a", "a"};
  const char *const none[] = {"", ""};
  const char *const part[] = {"", "3 0,2"};
  const char *const odd[] = {"", "3 0;2"};
  td_edge a = net_feed(&s.n, filled(1, 1)),
          names = net_feed(&s.n, strings(2, two));
  td_edge wholes = net_feed(&s.n, strings(2, none));
  FAILS(saved(&s, prefix, names, wholes, a, 1), TD_INVALID_ARGUMENT,
        "tensor_names must be a vector with one string for each of the 1 "
        "tensors, not of shape {2}");
  FAILS(saved(&s, prefix, names, net_feed(&s.n, strings(1, none)), a, 2),
        TD_INVALID_ARGUMENT, "shape_and_slices must be a vector with one");
  FAILS(saved(&s, names, names, wholes, a, 2), TD_INVALID_ARGUMENT,
        "prefix must be a scalar, not of shape {2}");
  FAILS(saved(&s, net_feed(&s.n, text("")), names, wholes, a, 2),
        TD_INVALID_ARGUMENT, "prefix \"\" is empty or has a NUL");
  FAILS(saved(&s, prefix, wholes, wholes, a, 2), TD_INVALID_ARGUMENT,
        "a tensor's name \"\" is empty");
  FAILS(saved(&s, prefix, net_feed(&s.n, strings(2, same)), wholes, a, 2),
        TD_INVALID_ARGUMENT, "\"a\" twice");
  FAILS(saved(&s, prefix, names, net_feed(&s.n, strings(2, part)), a, 2),
        TD_INVALID_ARGUMENT,
        "tensor \"b\" of shape {1} is no slice of shape {2}");
  FAILS(saved(&s, prefix, names, net_feed(&s.n, strings(2, odd)), a, 2),
        TD_INVALID_ARGUMENT, "\"3 0;2\" is not");
  td_edge v = net_variable(&s.n, "v", TD_FLOAT32, td_shape_scalar());
  FAILS(saved(&s, prefix, names, wholes, v, 2), TD_UNIMPLEMENTED,
        "tensor \"a\" of dtype resource cannot be saved");
  td_str files = {0};
  list(&s, &files);
  assert_null(strstr(td_str_c(&files), "model.index"));
  assert_null(strstr(td_str_c(&files), "data"));
  td_str_deinit(&files);
  shelf_deinit(&s);
}

static void test_what_a_checkpoint_lacks(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  FAILS(net_do(&s.n, restore_one(&s, "x", TD_INT32)), TD_NOT_FOUND, "/model");
  OK(net_do(&s.n, save_one(&s, "layer/weight", filled(3, 1))));
  FAILS(net_do(&s.n, restore_one(&s, "layer/weights", TD_INT32)), TD_NOT_FOUND,
        "/model' has no tensor \"layer/weights\" (did you mean "
        "\"layer/weight\"?)");
  FAILS(net_do(&s.n, restore_one(&s, "layer/weight", TD_FLOAT32)),
        TD_INVALID_ARGUMENT,
        "has tensor \"layer/weight\" as int32, and it is to be restored as "
        "float32");
  const char *const many[] = {"a", "b", "layer/weight", "c", "d", "e",
                              "f", "g"};
  td_dtype dtypes[MOST];
  for (int i = 0; i < MOST; i++) dtypes[i] = TD_INT32;
  td_tensor out[MOST];
  td_edge e = restore_node(&s, 8, many, NULL, dtypes);
  FAILS(restore_all(&s, e, out), TD_NOT_FOUND,
        "has no tensors \"a\", \"b\", \"c\", \"d\", \"e\" and 2 more");
  const char *const other[] = {"4 0,2"};
  FAILS(net_do(&s.n, restore_node(&s, 1, &many[2], other, dtypes)),
        TD_INVALID_ARGUMENT,
        "of shape {3}, and shape_and_slices takes a part of one of shape {4}");
  shelf_deinit(&s);
}

static void test_shapes_are_inferred(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  td_tensor parts = strings(2, (const char *const[]){"3 4 0,2:-", ""});
  td_note value[] = {{"value", td_attr_tensor(&parts)},
                     {"dtype", td_attr_type(TD_STRING)}};
  const td_dtype dtypes[] = {TD_INT32, TD_FLOAT32, TD_INT32};
  td_edge in[] = {net_feed(&s.n, text("p")), net_feed(&s.n, text("names")),
                  net_node(&s.n, "Const", NULL, 0, value, 2)};
  td_note two[] = {{"dtypes", td_attr_types(dtypes, 2)}};
  td_note three[] = {{"dtypes", td_attr_types(dtypes, 3)}};
  td_edge e = net_node(&s.n, "RestoreV2", in, 3, two, 1);
  td_shape want = td_shape_matrix(2, 4);
  assert_true(td_shape_equal(&e.node->out[0].shape, &want));
  assert_int_equal(e.node->out[1].shape.rank, -1);
  assert_int_equal(e.node->out[1].dtype, TD_FLOAT32);
  FAILS(net_try(&s.n, "RestoreV2", in, 3, three, 1, &e), TD_INVALID_ARGUMENT,
        "shape_and_slices has 2 strings, and there are 3 tensors");
  FAILS(net_try(&s.n, "RestoreV2", in, 3, NULL, 0, &e), TD_INVALID_ARGUMENT,
        "dtypes");
  td_tensor_release(&parts);
  shelf_deinit(&s);
}

/* ---- merging ------------------------------------------------------------- */

static td_edge merge_node(shelf *s, int n, const char *const *names,
                          bool allow_missing) {
  char paths[MOST][300];
  const char *at[MOST];
  for (int i = 0; i < n; i++) {
    snprintf(paths[i], sizeof paths[i], "%s/%s", s->dir.at, names[i]);
    at[i] = paths[i];
  }
  td_edge in[] = {net_feed(&s->n, strings(n, at)), s->path};
  td_note attrs[] = {{"allow_missing_files", td_attr_bool(allow_missing)}};
  return net_node(&s->n, "MergeV2Checkpoints", in, 2, attrs, 1);
}

/* Saves a vector of five times v as tensor `name` of prefix `part`. */
static void save_part(shelf *s, const char *part, const char *name, int32_t v) {
  td_str path = {0};
  td_edge was = s->path;
  td_str_addf(&path, "%s/%s", s->dir.at, part);
  s->path = net_feed(&s->n, text(path.at));
  OK(net_do(&s->n, save_one(s, name, filled(5, v))));
  s->path = was;
  td_str_deinit(&path);
}

static void test_merging(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  const char *const names[] = {"part-b", "part-a", "part-c"};
  save_part(&s, names[0], "y", 2);
  save_part(&s, names[1], "x", 1);
  FAILS(net_do(&s.n, merge_node(&s, 3, names, false)), TD_INVALID_ARGUMENT,
        "part-c' is not there, which was to become a part");
  OK(net_do(&s.n, merge_node(&s, 3, names, true)));
  expect_filled(&s, 5, 1);
  td_tensor t;
  OK(net_run(&s.n, restore_one(&s, "y", TD_INT32), &t));
  assert_int_equal(*(int32_t *)t.data, 2);
  td_tensor_release(&t);
  FAILS(net_do(&s.n, merge_node(&s, 3, names, true)), TD_INVALID_ARGUMENT,
        "none of the 3 checkpoints is there");
  expect_filled(&s, 5, 1);
  save_part(&s, names[0], "y", 2);
  save_part(&s, names[1], "y", 1);
  FAILS(net_do(&s.n, merge_node(&s, 2, names, false)), TD_INVALID_ARGUMENT,
        "\"y\"");
  shelf_deinit(&s);
}

static void test_merging_without_memory(void **state) {
  (void)state;
  const char *const names[] = {"part-a", "part-b"};
  for (int64_t n = 1, over = 0; !over && n < 1000; n++) {
    shelf s;
    shelf_init(&s);
    save_part(&s, names[0], "x", 1);
    save_part(&s, names[1], "y", 2);
    td_edge e = merge_node(&s, 2, names, false);
    td_mem_fail(n, false);
    td_status *bad = net_do(&s.n, e);
    td_mem_fail(0, false);
    over = td_ok(bad);
    if (!over) FAILS(bad, TD_RESOURCE_EXHAUSTED, "");
    if (over) expect_filled(&s, 5, 1);
    shelf_deinit(&s);
  }
}

/* ---- failures ------------------------------------------------------------ */

static void test_no_memory(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  td_tensor t[] = {filled(4, 1), ints(2, (int32_t[]){1, 2}),
                   strings(2, (const char *const[]){"moon", "tide"})};
  const char *const names[] = {"x", "part", "text"};
  const char *const parts[] = {"", "3 0,2", ""};
  const td_dtype dtypes[] = {TD_INT32, TD_INT32, TD_STRING};
  td_edge save = save_node(&s, 3, names, parts, t);
  net_starve(&s.n, save);
  net_starve(&s.n, save); /* over one that is there */
  const char *const places[] = {"4 1,2", "3 1,1", ""};
  restore_starved(&s, restore_node(&s, 3, names, places, dtypes), TD_OK);
  const char *const wrong[] = {"xx", "y", "text"};
  td_edge missing = restore_node(&s, 3, wrong, NULL, dtypes);
  restore_starved(&s, missing, TD_NOT_FOUND);
  shelf_deinit(&s);
}

/* The checkpoint before is whole after any allocation that failed. */
static void test_no_memory_over_another(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  td_edge save = save_one(&s, "x", filled(6, 2));
  OK(net_do(&s.n, save_one(&s, "x", filled(5, 1))));
  for (int64_t n = 1, over = 0; !over && n < 1000; n++) {
    td_mem_fail(n, false);
    td_status *bad = net_do(&s.n, save);
    td_mem_fail(0, false);
    over = td_ok(bad);
    td_status_release(bad);
    td_tensor t;
    OK(net_run(&s.n, the_x(&s), &t));
    if (over) assert_int_equal(td_tensor_count(&t), 6);
    td_tensor_release(&t);
  }
  shelf_deinit(&s);
}

/* Whichever operation fails, the checkpoint is the one before or the new one,
 * and the next save goes well. */
static void test_files_fail(void **state) {
  (void)state;
  int64_t calls = 0;
  for (int64_t nth = 1; calls == 0 || nth <= calls + 1; nth++) {
    shelf s;
    shelf_init(&s);
    OK(net_do(&s.n, save_one(&s, "x", filled(5, 1))));
    td_edge again = save_one(&s, "x", filled(6, 2));
    int64_t before = td_file_calls();
    td_file_fail(nth, false);
    td_status *bad = net_do(&s.n, again);
    td_file_fail(0, false);
    bool failed = !td_ok(bad), old = false;
    if (nth == 1) calls = 1;
    if (!failed)
      calls = td_file_calls() - before;
    else if (calls < nth)
      calls = nth;
    td_status_release(bad);
    td_tensor t;
    OK(net_run(&s.n, the_x(&s), &t));
    old = td_tensor_count(&t) == 5;
    td_tensor_release(&t);
    expect_filled(&s, old ? 5 : 6, old ? 1 : 2);
    if (!failed) assert_false(old);
    OK(net_do(&s.n, save_one(&s, "x", filled(7, 3))));
    expect_filled(&s, 7, 3);
    shelf_deinit(&s);
  }
  assert_true(calls > 5);
}

static void test_files_fail_when_read(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  OK(net_do(&s.n, save_one(&s, "x", filled(5, 1))));
  td_edge e = restore_one(&s, "x", TD_INT32);
  int failures = 0;
  for (int64_t nth = 1; nth < 100; nth++) {
    td_file_fail(nth, false);
    td_status *bad = net_do(&s.n, e);
    td_file_fail(0, false);
    if (td_ok(bad)) break;
    assert_int_equal(td_status_code(bad), TD_UNAVAILABLE);
    td_status_release(bad);
    failures++;
  }
  assert_true(failures > 2 && failures < 99);
  expect_filled(&s, 5, 1);
  shelf_deinit(&s);
}

/* ---- stopping ------------------------------------------------------------ */

enum { LARGE = 6 << 20 }; /* elements of 4 bytes */

static void expect_no_rest(shelf *s) {
  td_str files = {0};
  list(s, &files);
  assert_null(strstr(td_str_c(&files), "tempstate"));
  td_str_deinit(&files);
}

/* Stopped at any moment: what is told is what is there, and the prefix can be
 * saved again at once. */
static void test_a_save_is_cancelled(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  td_edge small = save_one(&s, "x", filled(5, 1));
  td_edge large = save_one(&s, "x", filled(LARGE, 2));
  td_edge next = save_one(&s, "x", filled(6, 3));
  int stopped = 0;
  for (int i = 0; i < 24; i++) {
    OK(net_do(&s.n, small));
    net_job j;
    int64_t begin = td_clock_now();
    net_begin(&s.n, large, &j);
    usleep((useconds_t)(i % 12 * i % 12 * 500));
    int64_t fired = td_clock_now();
    net_stop(&j);
    td_status *bad = net_end(&j, NULL);
    (void)begin;
    if (bad) {
      FAILS(bad, TD_CANCELLED, "");
      assert_true(td_clock_now() - fired < in_time(500000000));
      stopped++;
      if (i % 2) expect_filled(&s, 5, 1);
    }
    OK(net_do(&s.n, next)); /* waits for the one that stops */
    expect_filled(&s, 6, 3);
    expect_no_rest(&s);
  }
  assert_true(stopped > 5);
  shelf_deinit(&s);
}

/* Several stop at once, others wait for them, and are stopped too. */
static void test_many_saves_are_cancelled(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  td_edge large = save_one(&s, "x", filled(LARGE, 2));
  td_edge small = save_one(&s, "x", filled(5, 1));
  for (int round = 0; round < 4; round++) {
    net_job j[6];
    for (int i = 0; i < 6; i++) {
      net_begin(&s.n, large, &j[i]);
      usleep(2000);
      net_stop(&j[i]);
    }
    for (int i = 0; i < 6; i++) {
      td_status *bad = net_end(&j[i], NULL);
      if (bad) FAILS(bad, TD_CANCELLED, "");
    }
    OK(net_do(&s.n, small));
    expect_filled(&s, 5, 1);
  }
  expect_no_rest(&s);
  shelf_deinit(&s);
}

static void test_a_restore_is_cancelled(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  OK(net_do(&s.n, save_one(&s, "x", filled(LARGE, 2))));
  td_edge e = restore_one(&s, "x", TD_INT32);
  for (int i = 0; i < 10; i++) {
    net_job j;
    net_begin(&s.n, e, &j);
    usleep((useconds_t)(i * 500));
    net_stop(&j);
    td_status *bad = net_end(&j, NULL);
    if (bad) FAILS(bad, TD_CANCELLED, "");
  }
  expect_filled(&s, LARGE, 2);
  shelf_deinit(&s);
}

/* Two at once to one prefix: one writes, the other may be refused. */
static void test_two_saves_at_once(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  td_edge a = save_one(&s, "x", filled(LARGE, 1));
  td_edge b = save_one(&s, "x", filled(LARGE, 2));
  net_job ja, jb;
  net_begin(&s.n, a, &ja);
  net_begin(&s.n, b, &jb);
  td_status *bad_a = net_end(&ja, NULL), *bad_b = net_end(&jb, NULL);
  assert_true(td_ok(bad_a) || td_ok(bad_b));
  if (bad_a) FAILS(bad_a, TD_UNAVAILABLE, "/model");
  if (bad_b) FAILS(bad_b, TD_UNAVAILABLE, "/model");
  td_tensor t;
  OK(net_run(&s.n, the_x(&s), &t));
  int32_t v = *(int32_t *)t.data;
  td_tensor_release(&t);
  expect_filled(&s, LARGE, v);
  shelf_deinit(&s);
}

/* The step's inputs are let go of as they are written. */
static void test_tensors_are_moved(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  net_job j;
  net_begin(&s.n, save_one(&s, "x", filled(5, 1)), &j);
  assert_null(j.in[3].buffer);
  OK(net_end(&j, NULL));
  expect_filled(&s, 5, 1);
  shelf_deinit(&s);
}

/* ---- memory -------------------------------------------------------------- */

enum { TABLE = 4 << 20, TABLES = 4 }; /* floats; variables of that size */

/* Gives variable `name` 16 MiB of its own, of the device's memory. */
static td_edge table(shelf *s, const char *name) {
  td_tensor t;
  td_shape shape = td_shape_vector(TABLE);
  td_edge h = net_variable(&s->n, name, TD_FLOAT32, shape);
  OK(td_tensor_new(s->n.device->memory, TD_FLOAT32, &shape, &t));
  memset(t.data, 1, td_tensor_bytes(&t));
  td_edge in[] = {h, net_feed(&s->n, t)};
  OK(net_do(&s->n, net_node(&s->n, "AssignVariableOp", in, 2, NULL, 0)));
  net_refeed(&s->n, in[1], scalar_f(TD_FLOAT32, 0));
  return h;
}

/* Has a row worked on, as a table of embeddings has. */
static void work_on_rows(shelf *s, td_edge h) {
  td_edge in[] = {
      h, net_feed(&s->n, ints(1, (int32_t[]){1})),
      net_feed(&s->n, tensor_f(TD_FLOAT32, td_shape_vector(1), (double[]){1}))};
  OK(net_do(&s->n, net_node(&s->n, "ResourceScatterAdd", in, 3, NULL, 0)));
}

/* A save takes shares: 64 MiB of variables, one of them worked on by rows, are
 * saved with hardly more than they are; restored, they are there once more. */
static void test_memory(void **state) {
  (void)state;
  static const char *const names[] = {"a", "b", "c", "d"};
  static const char *const wholes[] = {"", "", "", ""};
  static const td_dtype dtypes[] = {TD_FLOAT32, TD_FLOAT32, TD_FLOAT32,
                                    TD_FLOAT32};
  shelf s;
  shelf_init(&s);
  td_allocator *a = s.n.device->memory;
  td_note dtype = {"dtype", td_attr_type(TD_FLOAT32)};
  td_edge h[TABLES], read[TABLES], save;
  for (int i = 0; i < TABLES; i++) {
    h[i] = table(&s, names[i]);
    read[i] = net_node(&s.n, "ReadVariableOp", &h[i], 1, &dtype, 1);
  }
  work_on_rows(&s, h[1]);
  td_edge in[] = {s.path, net_feed(&s.n, strings(TABLES, names)),
                  net_feed(&s.n, strings(TABLES, wholes))};
  OK(save_try(&s, in, read, TABLES, &save));
  OK(net_do(&s.n, net_node(&s.n, "DisableCopyOnRead", &h[1], 1, NULL, 0)));
  size_t size = td_allocator_read_stats(a).in_use;
  assert_true(size >= (size_t)TABLES * TABLE * 4);
  td_allocator_reset_peak(a);
  OK(net_do(&s.n, save));
  assert_true(td_allocator_read_stats(a).peak < size + size / 10);
  td_tensor out[TABLES];
  td_edge back = restore_node(&s, TABLES, names, NULL, dtypes);
  OK(restore_all(&s, back, out));
  release_all(back, out);
  assert_true(td_allocator_read_stats(a).peak < 2 * size + size / 10);
  shelf_deinit(&s);
}

/* Updates that come while a save is under way write elsewhere: what is saved is
 * of one moment. */
static void test_updates_meanwhile(void **state) {
  (void)state;
  shelf s;
  shelf_init(&s);
  static const char *const name = "x";
  td_note dtype = {"dtype", td_attr_type(TD_INT32)};
  td_edge h = net_variable(&s.n, "v", TD_INT32, td_shape_vector(LARGE));
  td_edge value = net_feed(&s.n, filled(LARGE, 1));
  td_edge with[] = {h, value}, save;
  td_edge set = net_node(&s.n, "AssignVariableOp", with, 2, NULL, 0);
  td_edge add = net_node(&s.n, "AssignAddVariableOp", with, 2, NULL, 0);
  td_edge read = net_node(&s.n, "ReadVariableOp", &h, 1, &dtype, 1);
  static const char *const whole[] = {""};
  td_edge in[] = {s.path, net_feed(&s.n, strings(1, &name)),
                  net_feed(&s.n, strings(1, whole))};
  OK(save_try(&s, in, &read, 1, &save));
  OK(net_do(&s.n, set));
  for (int i = 1; i < 5; i++) {
    net_job j;
    net_begin(&s.n, save, &j);
    OK(net_do(&s.n, add));
    OK(net_end(&j, NULL));
    expect_filled(&s, LARGE, i);
  }
  shelf_deinit(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_dtype),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_slices),
      cmocka_unit_test(test_bad_operands_of_a_save),
      cmocka_unit_test(test_what_a_checkpoint_lacks),
      cmocka_unit_test(test_shapes_are_inferred),
      cmocka_unit_test(test_merging),
      cmocka_unit_test(test_merging_without_memory),
      cmocka_unit_test(test_no_memory),
      cmocka_unit_test(test_no_memory_over_another),
      cmocka_unit_test(test_files_fail),
      cmocka_unit_test(test_files_fail_when_read),
      cmocka_unit_test(test_a_save_is_cancelled),
      cmocka_unit_test(test_many_saves_are_cancelled),
      cmocka_unit_test(test_a_restore_is_cancelled),
      cmocka_unit_test(test_two_saves_at_once),
      cmocka_unit_test(test_tensors_are_moved),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_updates_meanwhile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
