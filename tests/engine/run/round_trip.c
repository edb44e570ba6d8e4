/* round_trip.c - whatever can be imported is written as what reads back equal.
 *
 * The corpus are the graphs of tests/golden, one for each case of each op and
 * those that TensorFlow wrote itself, and random graphs with loops, branches
 * and functions. One is drawn and changed by mutate.h; if it can still be read,
 * it is written and read again: both graphs have the same nodes, dtypes and
 * shapes, and are written as the same bytes. TIDE_SEEDS=n or first:n chooses
 * how many; TIDE_SOAK takes 400,000.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/mutate.h"
#include "tests/engine/run/random_call.h"

#include <dirent.h>

#include "engine/base/vec.h"
#include "engine/graph/graph_check.h"
#include "tests/engine/graphdef/wire.h"

enum { DRAWN = 40, CHANGED = 4000, SOAKED = 400000 };

typedef TD_VEC(td_str) corpus;

/* ---- golden cases (golden.proto) ----------------------------------------- */

typedef struct piece {
  const char *at;
  size_t len;
} piece;

static uint64_t varint(piece *p) {
  uint64_t v = 0;
  for (int bit = 0; p->len && bit < 64; bit += 7) {
    uint8_t byte = (uint8_t)*p->at++;
    p->len--;
    v |= (uint64_t)(byte & 0x7f) << bit;
    if (!(byte & 0x80)) break;
  }
  return v;
}

/* The next field of a message; *body is empty for a number. False at the end.
 */
static bool next_field(piece *p, int *field, piece *body) {
  if (!p->len) return false;
  uint64_t key = varint(p);
  *field = (int)(key >> 3);
  *body = (piece){0};
  size_t size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : 0;
  if ((key & 7) == 0) varint(p);
  if ((key & 7) == 2) {
    size = varint(p);
    *body = (piece){p->at, size};
  }
  p->at += size;
  p->len -= size;
  return true;
}

static int dtype_of(piece tensor) {
  int field;
  piece copy = tensor, body;
  uint64_t key = varint(&copy);
  if (key == 1 << 3) return (int)varint(&copy);
  while (next_field(&tensor, &field, &body)) continue;
  return 0;
}

/* Input i of a case as a Const of its graph. */
static void add_const(td_str *g, int i, piece tensor) {
  td_str node = {0}, attr = {0}, value = {0};
  char name[16];
  snprintf(name, sizeof name, "in%d", i);
  wire_text(&node, 1, name);
  wire_text(&node, 2, "Const");
  wire_text(&attr, 1, "dtype");
  wire_int(&value, 6, dtype_of(tensor));
  wire_message(&attr, 2, &value);
  wire_message(&node, 5, &attr);
  wire_text(&attr, 1, "value");
  wire_bytes(&value, 8, tensor.at, tensor.len);
  wire_message(&attr, 2, &value);
  wire_message(&node, 5, &attr);
  wire_message(g, 1, &node);
}

static void add_case(corpus *all, piece p) {
  td_str g = {0};
  int field, inputs = 0;
  piece body;
  while (next_field(&p, &field, &body)) {
    if (field == 1) td_str_addn(&g, body.at, body.len);
    if (field == 2 && body.len) add_const(&g, inputs, body);
    inputs += field == 2;
  }
  assert_true(td_vec_push(all, g));
}

static td_str read_file(const char *folder, const char *name) {
  char path[512], some[4096];
  td_str text = {0};
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("cannot open %s", path);
  for (size_t n; (n = fread(some, 1, sizeof some, f)) > 0;)
    td_str_addn(&text, some, n);
  fclose(f);
  return text;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Calls f for each .pb file, in the order of names. */
static void each_file(const char *folder, corpus *all,
                      void (*f)(corpus *all, td_str *text)) {
  TD_VEC(char *) names = {0};
  DIR *d = opendir(folder);
  if (!d) fail_msg("no folder %s", folder);
  for (struct dirent *e; (e = readdir(d));)
    if (strstr(e->d_name, ".pb"))
      assert_true(td_vec_push(&names, td_strdup(e->d_name)));
  closedir(d);
  qsort(names.at, names.len, sizeof *names.at, by_text);
  for (size_t i = 0; i < names.len; i++) {
    td_str text = read_file(folder, names.at[i]);
    f(all, &text);
    td_free(names.at[i]);
  }
  td_vec_free(&names);
}

static void take_golden(corpus *all, td_str *text) {
  piece p = {text->at, text->len}, body;
  int field;
  while (next_field(&p, &field, &body))
    if (field == 4) add_case(all, body);
  td_str_deinit(text);
}

/* What mutate.h can change: the GraphDef within. */
static void take_graph(corpus *all, td_str *text) {
  const void *at = text->at;
  size_t len = text->len;
  td_str graph = {0};
  OK(td_graphdef_within(&at, &len));
  td_str_addn(&graph, at, len);
  assert_true(td_vec_push(all, graph));
  td_str_deinit(text);
}

static void add_drawn(corpus *all, unsigned seed) {
  rig r;
  char *bytes;
  size_t len;
  td_str text = {0};
  rig_init(&r);
  drawn d = {.graph = r.graph, .seed = seed * 2654435761u + 1};
  context *root = context_new(NULL, 'r');
  for (int i = 0; i < 3; i++) fresh_value(&d, root, TD_INVALID);
  make_variables(&d, root);
  draw_ops(&d, root, root, 4 + draw(&d, 12), 0);
  OK(td_graphdef_write(d.graph, &bytes, &len));
  td_str_addn(&text, bytes, len);
  assert_true(td_vec_push(all, text));
  td_free(bytes);
  free(root);
  rig_deinit(&r);
}

/* ---- one seed ------------------------------------------------------------ */

static int64_t accepted, refused;
static int64_t current;

/* "seed 5, written:" before why it fails. */
static void must(td_status *s, const char *what) {
  if (s)
    fail_msg("seed %lld, %s: %s \"%s\" %s", (long long)current, what,
             td_status_op(s), td_status_node(s), td_status_message(s));
}

static void assert_same(const td_graph *a, const td_graph *b) {
  assert_int_equal(td_graph_size(a), td_graph_size(b));
  for (int32_t id = 0; id < td_graph_size(a); id++) {
    const td_node *x = td_graph_node(a, id), *y = td_graph_node(b, id);
    td_shape_text one, two;
    assert_string_equal(x->name, y->name);
    assert_int_equal(x->n_out, y->n_out);
    for (int i = 0; i < x->n_out; i++) {
      const char *s = td_shape_str(&x->out[i].shape, &one);
      const char *t = td_shape_str(&y->out[i].shape, &two);
      if (x->out[i].dtype != y->out[i].dtype || strcmp(s, t) != 0)
        fail_msg("seed %lld: \"%s:%d\" is %s, then %s", (long long)current,
                 x->name, i, s, t);
    }
  }
}

static void write_and_read(const td_graph *g) {
  td_graph *again;
  char *one, *two;
  size_t n_one, n_two;
  must(td_graph_verify(g), "what was read");
  must(td_graphdef_write(g, &one, &n_one), "writing it");
  OK(td_graph_new(&again));
  must(td_graphdef_read(again, one, n_one, NULL), "reading it again");
  must(td_graph_verify(again), "what was read again");
  must(td_graphdef_write(again, &two, &n_two), "writing it again");
  if (n_one != n_two || memcmp(one, two, n_one) != 0)
    fail_msg("seed %lld: other bytes", (long long)current);
  assert_same(g, again);
  td_free(one);
  td_free(two);
  td_graph_release(again);
}

static void try_bytes(const char *bytes, size_t len) {
  td_graph *g;
  OK(td_graph_new(&g));
  td_status *s = td_graphdef_read(g, bytes, len, NULL);
  if (td_ok(s)) {
    accepted++;
    write_and_read(g);
  } else {
    refused++;
    td_status_release(s);
  }
  td_graph_release(g);
}

static void try_seed(const corpus *all, int64_t seed) {
  mutation m = {.seed = (uint64_t)seed};
  const td_str *from = &all->at[any_of(&m, all->len)];
  char *bytes;
  size_t len;
  current = seed;
  if (!mutate(from->at, from->len, any_bits(&m), &bytes, &len)) return;
  try_bytes(bytes, len);
  td_free(bytes);
}

/* ---- all ----------------------------------------------------------------- */

static void test_round_trip(void **state) {
  (void)state;
  corpus all = {0};
  const char *seeds = getenv("TIDE_SEEDS");
  int64_t first = 0, count = soaked() ? SOAKED : CHANGED;
  if (seeds && strchr(seeds, ':')) first = atoll(seeds);
  if (seeds) count = atoll(strchr(seeds, ':') ? strchr(seeds, ':') + 1 : seeds);
  each_file("tests/golden", &all, take_golden);
  each_file("tests/golden/imports", &all, take_graph);
  for (unsigned i = 0; i < DRAWN; i++) add_drawn(&all, i);
  for (size_t i = 0; i < all.len; i++) {
    current = -1 - (int64_t)i;
    try_bytes(all.at[i].at, all.at[i].len);
  }
  for (int64_t seed = first; seed < first + count; seed++) try_seed(&all, seed);
  print_message("%zu graphs, %lld changed: %lld accepted, %lld refused\n",
                all.len, (long long)count, (long long)accepted,
                (long long)refused);
  assert_true(accepted * 4 > refused);
  for (size_t i = 0; i < all.len; i++) td_str_deinit(&all.at[i]);
  td_vec_free(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
