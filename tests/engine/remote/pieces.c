/* pieces.c - tests of engine/remote/pieces.h.
 *
 * Graphs are written by hand, field by field, so that an edit is an edit of
 * bytes and nothing else.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/philox.h"
#include "engine/remote/pieces.h"

enum { NODES = 36000, MOST_NODES = 40000 };

/* ---- graphs -------------------------------------------------------------- */

/* The nodes of a graph by number; one number is one text. */
typedef struct nodes {
  int at[MOST_NODES], n;
} nodes;

static void field(td_str *out, int number, const char *bytes, size_t len) {
  td_varint_put(out, (uint64_t)number << 3 | 2);
  td_varint_put(out, len);
  td_str_addn(out, bytes, len);
}

/* About 140 bytes, as a node of a layer has. */
static void node_text(int number, td_str *out) {
  char name[64];
  int n = snprintf(name, sizeof name, "layer%d/block%d/op_%d", number % 97,
                   number % 13, number);
  td_str_clear(out);
  field(out, 1, name, (size_t)n);
  field(out, 2, "MatMul", 6);
  for (int i = 1; i < 3; i++) {
    n = snprintf(name, sizeof name, "layer%d/input_%d:0", number % 53,
                 number - i);
    field(out, 3, name, (size_t)n);
  }
  field(out, 5, "\n\1T\22\2\60\1", 7);
  field(out, 5, "\n\13transpose_a\22\2\50\0", 17);
  field(out, 5, "\n\13transpose_b\22\2\50\0", 17);
}

static void write_nodes(const nodes *g, td_str *out) {
  td_str node = {0};
  td_str_clear(out);
  for (int i = 0; i < g->n; i++) {
    node_text(g->at[i], &node);
    field(out, 1, node.at, node.len);
  }
  td_str_deinit(&node);
  assert_false(out->failed);
}

static nodes *make_nodes(int n) {
  nodes *g = malloc(sizeof *g);
  for (g->n = 0; g->n < n; g->n++) g->at[g->n] = g->n;
  return g;
}

/* ---- checks -------------------------------------------------------------- */

/* The pieces are the bytes, in their order, and the hashes are theirs. */
static void check_pieces(const td_pieces *p, const char *bytes, size_t len) {
  size_t at = 0;
  for (size_t i = 0; i < p->len; i++) {
    td_piece_hash h;
    assert_true(p->at[i].offset == at && p->at[i].len > 0);
    OK(td_pieces_hash(bytes + at, p->at[i].len, &h));
    assert_memory_equal(&h, &p->at[i].hash, sizeof h);
    at += p->at[i].len;
  }
  assert_true(at == len);
}

static void split(const td_str *bytes, td_pieces *out) {
  OK(td_pieces_split(bytes->at, bytes->len, out));
  check_pieces(out, bytes->at, bytes->len);
}

/* The share of the bytes of `b` in pieces that `a` has too. */
static double kept(const td_pieces *a, const td_pieces *b) {
  td_map m;
  size_t same = 0, all = 0;
  td_map_init(&m);
  for (size_t i = 0; i < a->len; i++)
    assert_true(td_map_putn(&m, &a->at[i].hash, 32, &m));
  for (size_t i = 0; i < b->len; i++) {
    all += b->at[i].len;
    if (td_map_getn(&m, &b->at[i].hash, 32)) same += b->at[i].len;
  }
  td_map_deinit(&m);
  return (double)same / (double)all;
}

/* ---- tests --------------------------------------------------------------- */

static void nothing_has_no_pieces(void **state) {
  (void)state;
  td_pieces p = {0};
  OK(td_pieces_split(NULL, 0, &p));
  assert_int_equal(p.len, 0);
  td_pieces_free(&p);
}

/* A hash must be the same in every version: workers keep pieces by it. */
static void hash_is_fixed(void **state) {
  (void)state;
  static const uint8_t abc[] = {0xbd, 0xdd, 0x81, 0x3c, 0x63, 0x42, 0x39, 0x72};
  td_piece_hash h;
  OK(td_pieces_hash("abc", 3, &h));
  assert_memory_equal(h.at, abc, sizeof abc);
}

static void splits_in_a_moment(void **state) {
  (void)state;
  td_str bytes = {0};
  td_pieces p = {0};
  nodes *g = make_nodes(NODES);
  int64_t best = INT64_MAX;
  write_nodes(g, &bytes);
  for (int i = 0; i < 7; i++) {
    int64_t start = td_clock_now();
    OK(td_pieces_split(bytes.at, bytes.len, &p));
    int64_t took = td_clock_now() - start;
    if (took < best) best = took;
  }
  check_pieces(&p, bytes.at, bytes.len);
  print_message("%d nodes, %.1f MB, %zu pieces: %.1f ms\n", NODES,
                (double)bytes.len / 1e6, p.len, (double)best / 1e6);
  assert_in_range(p.len, NODES / 64, NODES / 16);
  td_pieces_free(&p);
  td_str_deinit(&bytes);
  free(g);
}

/* A few nodes changed, removed or put in between, at random places. */
static void edit(nodes *g, td_philox *ph, int edits) {
  for (int i = 0; i < edits; i++) {
    uint32_t r[4];
    td_philox_next(ph, r);
    int at = (int)(r[0] % (uint32_t)g->n), *p = g->at + at;
    switch (r[1] % 3) {
    case 0:
      *p = NODES + (int)(r[2] % 100000);
      break;
    case 1:
      memmove(p, p + 1, sizeof *p * (size_t)(g->n - at - 1));
      g->n--;
      break;
    default:
      if (g->n == MOST_NODES) break;
      memmove(p + 1, p, sizeof *p * (size_t)(g->n - at));
      *p = NODES + (int)(r[2] % 100000);
      g->n++;
    }
  }
}

static void appended_nodes_leave_pieces(void **state) {
  (void)state;
  td_str bytes = {0};
  td_pieces before = {0}, after = {0};
  td_philox ph;
  td_philox_init(&ph, 18, 1);
  double least = 1;
  for (int i = 0; i < 40; i++) {
    uint32_t r[4];
    td_philox_next(&ph, r);
    nodes *g = make_nodes(1000 + (int)(r[0] % 3000));
    write_nodes(g, &bytes);
    split(&bytes, &before);
    double old = (double)bytes.len;
    int more = 1 + (int)(r[1] % 300);
    for (int k = 0; k < more; k++) g->at[g->n++] = NODES + k;
    write_nodes(g, &bytes);
    split(&bytes, &after);
    double share = kept(&before, &after) * (double)bytes.len / old;
    if (share < least) least = share;
    free(g);
  }
  print_message("after an append %.1f %% of the old bytes or more are in old "
                "pieces\n",
                100 * least);
  assert_true(least >= 0.9);
  td_pieces_free(&before);
  td_pieces_free(&after);
  td_str_deinit(&bytes);
}

static void edits_change_few_pieces(void **state) {
  (void)state;
  td_str bytes = {0};
  td_pieces before = {0}, after = {0};
  td_philox ph;
  td_philox_init(&ph, 18, 2);
  for (int i = 0; i < 10; i++) {
    nodes *g = make_nodes(NODES);
    write_nodes(g, &bytes);
    split(&bytes, &before);
    edit(g, &ph, 5 * (i + 1));
    write_nodes(g, &bytes);
    split(&bytes, &after);
    double share = kept(&before, &after);
    if (i % 3 == 0)
      print_message("%d edits: %.2f %% kept\n", 5 * (i + 1), 100 * share);
    assert_true(share >= 1 - 0.02 * (i + 1)); /* 64 nodes an edit: 0.9 % */
    free(g);
  }
  td_pieces_free(&before);
  td_pieces_free(&after);
  td_str_deinit(&bytes);
}

/* The piece that begins at `offset`. */
static const td_piece *piece_at(const td_pieces *p, size_t offset) {
  for (size_t i = 0; i < p->len; i++)
    if (p->at[i].offset == offset) return &p->at[i];
  fail_msg("no piece begins at %zu", offset);
  return NULL;
}

static void large_nodes_stand_alone(void **state) {
  (void)state;
  td_str bytes = {0}, node = {0};
  td_pieces p = {0};
  static char big[300 << 10];
  nodes *g = make_nodes(100);
  write_nodes(g, &bytes);
  size_t at[3];
  static const size_t size[3] = {TD_PIECE_ALONE - 3, sizeof big, 5000};
  for (int i = 0; i < 3; i++) {
    at[i] = bytes.len;
    field(&bytes, 1, big, size[i]);
    node_text(i, &node);
    field(&bytes, 1, node.at, node.len);
  }
  split(&bytes, &p);
  assert_int_equal(piece_at(&p, at[0])->len, TD_PIECE_ALONE);
  assert_int_equal(piece_at(&p, at[1])->len, sizeof big + 4);
  assert_int_equal(piece_at(&p, at[2])->len, 5003);
  td_pieces_free(&p);
  td_str_deinit(&node);
  td_str_deinit(&bytes);
  free(g);
}

/* Nodes of which none ends a piece: pieces end where they are long. */
static void no_piece_is_long(void **state) {
  (void)state;
  td_str bytes = {0}, node = {0};
  td_pieces p = {0};
  for (int i = 0, n = 0; n < 3000; i++) {
    td_str one = {0};
    node_text(i, &node);
    field(&one, 1, node.at, node.len);
    if (td_hash(one.at, one.len, 18) & 31) {
      td_str_addn(&bytes, one.at, one.len);
      n++;
    }
    td_str_deinit(&one);
  }
  split(&bytes, &p);
  assert_true(p.len >= bytes.len / (TD_PIECE_LONG + 200));
  for (size_t i = 0; i < p.len; i++)
    assert_true(p.at[i].len < TD_PIECE_LONG + 200);
  td_pieces_free(&p);
  td_str_deinit(&node);
  td_str_deinit(&bytes);
}

static void write_library(td_str *out, int functions, int changed) {
  td_str library = {0}, body = {0};
  for (int i = 0; i < functions; i++) {
    nodes g = {.n = 20};
    for (int k = 0; k < g.n; k++) g.at[k] = i * 20 + k + (i == changed ? 7 : 0);
    write_nodes(&g, &body);
    field(&library, 1, body.at, body.len);
  }
  field(&library, 2, "gradient", 8);
  nodes *g = make_nodes(500);
  write_nodes(g, out);
  field(out, 2, library.at, library.len);
  field(out, 4, "\b\202\16", 3); /* versions */
  free(g);
  td_str_deinit(&library);
  td_str_deinit(&body);
}

static void functions_stand_alone(void **state) {
  (void)state;
  td_str bytes = {0};
  td_pieces a = {0}, b = {0};
  write_library(&bytes, 30, -1);
  split(&bytes, &a);
  double old = (double)bytes.len;
  write_library(&bytes, 31, -1); /* one more: its head changes as well */
  split(&bytes, &b);
  assert_true(kept(&a, &b) * (double)bytes.len > old - 20);
  write_library(&bytes, 30, 11);
  split(&bytes, &b);
  assert_true(kept(&a, &b) * 1.0 > 1 - 1.1 / 30);
  assert_true(kept(&a, &b) < 1);
  td_pieces_free(&a);
  td_pieces_free(&b);
  td_str_deinit(&bytes);
}

static void one_piece(const char *bytes, size_t len) {
  td_pieces p = {0};
  OK(td_pieces_split(bytes, len, &p));
  check_pieces(&p, bytes, len);
  assert_int_equal(p.len, 1);
  td_pieces_free(&p);
}

static void what_is_no_graph_is_one_piece(void **state) {
  (void)state;
  td_str bytes = {0};
  one_piece("\0", 1);                               /* field 0 */
  one_piece("\xff\xff\xff\xff\xff\xff\xff\xff", 8); /* a tag without end */
  one_piece("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10); /* a size */
  one_piece("\x0a\x05nod", 5);                               /* cut off */
  one_piece("\x0b\x0c", 2);                                  /* a group */
  one_piece("\x09seven..", 8);
  one_piece("\x12\x03\x0a\x07x", 5); /* in the library */
  nodes *g = make_nodes(2000);
  write_nodes(g, &bytes);
  one_piece(bytes.at, bytes.len - 1); /* what was good before counts no more */
  free(g);
  td_str_deinit(&bytes);
}

/* Whatever the bytes are: they come out whole, and no byte beyond is read. */
static void takes_any_bytes(void **state) {
  (void)state;
  td_philox ph;
  td_pieces p = {0};
  td_philox_init(&ph, 18, 3);
  for (int i = 0; i < 100000; i++) {
    uint32_t r[68];
    for (int k = 0; k < 68; k += 4) td_philox_next(&ph, r + k);
    size_t len = r[67] % 257;
    char *copy = malloc(len ? len : 1); /* so that its end is seen */
    memcpy(copy, r, len);
    /* Small numbers, which are tags and sizes. */
    for (size_t k = 0; k < len && i % 3; k++)
      copy[k] = (char)(copy[k] & (i % 3 == 1 ? 0x1f : 0x92));
    OK(td_pieces_split(copy, len, &p));
    check_pieces(&p, copy, len);
    free(copy);
  }
  td_pieces_free(&p);
}

static void without_memory(void **state) {
  (void)state;
  td_str bytes = {0};
  nodes *g = make_nodes(2000);
  write_nodes(g, &bytes);
  for (int n = 1;; n++) {
    td_pieces p = {0};
    td_mem_fail(n, false);
    td_status *s = td_pieces_split(bytes.at, bytes.len, &p);
    td_mem_fail(0, false);
    if (td_ok(s)) {
      check_pieces(&p, bytes.at, bytes.len);
      td_pieces_free(&p);
      assert_true(n > 1);
      break;
    }
    assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    assert_int_equal(p.len, 0);
    td_status_release(s);
    td_pieces_free(&p);
  }
  free(g);
  td_str_deinit(&bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_has_no_pieces),
      cmocka_unit_test(hash_is_fixed),
      cmocka_unit_test(splits_in_a_moment),
      cmocka_unit_test(appended_nodes_leave_pieces),
      cmocka_unit_test(edits_change_few_pieces),
      cmocka_unit_test(large_nodes_stand_alone),
      cmocka_unit_test(no_piece_is_long),
      cmocka_unit_test(functions_stand_alone),
      cmocka_unit_test(what_is_no_graph_is_one_piece),
      cmocka_unit_test(takes_any_bytes),
      cmocka_unit_test(without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
