/* checkpoint_v1.c - TensorFlow's files of version 1 (tests/peers/savers.py),
 * broken in every way; short of memory; written.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint_v1.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "engine/io/checkpoint_entry.h"
#include "engine/io/field.h"
#include "engine/io/sorted_table.h"
#include "tests/check.h"

static const char golden[] = "tests/golden/savers/v1";
static const char golden_shards[] = "tests/golden/savers/v1_shards";

/* ---- reading ------------------------------------------------------------- */

/* Reads every tensor: the first error. */
static td_status *read_all(const char *path) {
  td_checkpoint_v1 *c;
  TD_TRY(td_checkpoint_v1_open(path, &c));
  td_status *s = NULL;
  for (size_t i = 0; td_ok(s) && i < td_checkpoint_v1_count(c); i++) {
    td_checkpoint_entry e;
    td_tensor t;
    assert_true(td_checkpoint_v1_find(c, td_checkpoint_v1_name(c, i), &e));
    s = td_checkpoint_v1_read(c, &e, NULL, &t);
    if (td_ok(s)) td_tensor_release(&t);
  }
  td_checkpoint_v1_close(c);
  return s;
}

static void test_tensorflows(void **state) {
  (void)state;
  td_checkpoint_v1 *c;
  td_checkpoint_entry e;
  td_tensor t;
  OK(read_all(golden));
  OK(td_checkpoint_v1_open(golden_shards, &c));
  assert_int_equal(td_checkpoint_v1_count(c), 3); /* w of both, x */
  assert_string_equal(td_checkpoint_v1_name(c, 1), "w");
  assert_false(td_checkpoint_v1_find(c, "v", &e));
  assert_true(td_checkpoint_v1_find(c, "w", &e));
  td_slice part = {.rank = 2, .start = {1, 0}, .length = {3, 1}};
  OK(td_checkpoint_v1_read(c, &e, &part, &t));
  for (int i = 0; i < 3; i++)
    assert_int_equal(((int32_t *)t.data)[i], 3 + 3 * i);
  td_tensor_release(&t);
  part.start[0] = 2;
  FAILS(td_checkpoint_v1_read(c, &e, &part, &t), TD_INVALID_ARGUMENT,
        "tensor \"w\": the slice of 3 from 2 on does not lie within");
  td_checkpoint_v1_close(c);
  FAILS(td_checkpoint_v1_open("tests/golden/savers/none", &c), TD_NOT_FOUND,
        "there is no checkpoint 'tests/golden/savers/none'");
}

/* ---- broken files -------------------------------------------------------- */

typedef struct scratch {
  td_str dir, path;
  char *bytes; /* the golden file's */
  size_t len;
} scratch;

static void scratch_init(scratch *s) {
  *s = (scratch){0};
  OK(td_file_temp_dir(200, &s->dir));
  td_str_addf(&s->path, "%s/v1", s->dir.at);
  OK(td_file_read(golden, 1 << 20, &s->bytes, &s->len));
}

static void scratch_deinit(scratch *s) {
  unlink(s->path.at);
  rmdir(s->dir.at);
  td_str_deinit(&s->path);
  td_str_deinit(&s->dir);
  td_free(s->bytes);
}

static void put(const scratch *s, const void *bytes, size_t len) {
  FILE *f = fopen(s->path.at, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, len, f), len);
  fclose(f);
}

static void test_cut_short(void **state) {
  (void)state;
  scratch s;
  scratch_init(&s);
  for (size_t n = 0; n < s.len; n++) {
    put(&s, s.bytes, n);
    FAILS(read_all(s.path.at), TD_DATA_LOSS, "is no checkpoint of version 1");
  }
  scratch_deinit(&s);
}

/* A bit that was flipped is told, wherever a check goes over it. */
static void test_flipped(void **state) {
  (void)state;
  scratch s;
  scratch_init(&s);
  int unseen = 0;
  for (size_t i = 0; i < s.len; i++) {
    s.bytes[i] ^= (char)(1 << i % 8);
    put(&s, s.bytes, s.len);
    s.bytes[i] ^= (char)(1 << i % 8);
    td_status *bad = read_all(s.path.at);
    if (bad) FAILS(bad, TD_DATA_LOSS, "");
    unseen += !bad;
  }
  assert_true(unseen < 48); /* the foot has no check */
  scratch_deinit(&s);
}

/* ---- broken messages in sound tables ------------------------------------- */

typedef struct pair {
  td_str key, value;
} pair;

typedef TD_VEC(pair) pairs;

static td_status *keep(void *arg, td_bytes key, td_bytes value) {
  pairs *p = arg;
  pair new = {{0}, {0}};
  td_str_addn(&new.key, key.at, key.len);
  td_str_addn(&new.value, value.at, value.len);
  assert_true(td_vec_push(p, new));
  return NULL;
}

static uint64_t draw(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

/* Changes a few bytes of a value, or cuts it. */
static void spoil(td_str *value, uint64_t *seed) {
  if (value->len == 0) return;
  if (draw(seed) % 8 == 0) {
    value->len = draw(seed) % value->len;
    return;
  }
  for (uint64_t n = 1 + draw(seed) % 3; n > 0; n--)
    value->at[draw(seed) % value->len] = (char)draw(seed);
}

static void write_table(const scratch *s, const pairs *p) {
  td_sorted_entry e[32];
  td_str file = {0};
  assert_true(p->len <= TD_COUNT(e));
  for (size_t i = 0; i < p->len; i++) {
    e[i].key = (td_bytes){td_str_c(&p->at[i].key), p->at[i].key.len};
    e[i].value = (td_bytes){td_str_c(&p->at[i].value), p->at[i].value.len};
  }
  OK(td_sorted_table_write(e, p->len, &file));
  put(s, file.at, file.len);
  td_str_deinit(&file);
}

/* Nothing of a file is believed: whatever stands there, an error or tensors. */
static void test_spoilt(void **state) {
  (void)state;
  scratch s;
  uint64_t seed = 17;
  int refused = 0;
  scratch_init(&s);
  for (int round = 0; round < 2000; round++) {
    pairs p = {0};
    OK(td_sorted_table_read((td_bytes){s.bytes, s.len}, keep, &p));
    spoil(&p.at[round % 2 ? 0 : draw(&seed) % p.len].value, &seed);
    write_table(&s, &p);
    td_status *bad = read_all(s.path.at);
    refused += bad != NULL;
    td_status_release(bad);
    for (size_t i = 0; i < p.len; i++) {
      td_str_deinit(&p.at[i].key);
      td_str_deinit(&p.at[i].value);
    }
    td_vec_free(&p);
  }
  assert_true(refused > 500 && refused < 2000);
  scratch_deinit(&s);
}

/* A small file that tells of a tensor of `size` elements in one piece. */
static void write_claim(const scratch *s, int64_t size) {
  td_str record = {0}, contents = {0}, all = {0}, key = {0};
  td_shape shape = td_shape_vector(size);
  td_slice whole = {.rank = 1, .length = {-1}};
  td_field_put_bytes(&record, 1, (td_bytes){"x", 1});
  td_checkpoint_shape_put(&record, 2, &shape);
  td_field_put(&record, 3, TD_INT32);
  td_checkpoint_slice_put(&record, 4, &shape, &whole);
  td_field_put_bytes(&contents, 1, (td_bytes){record.at, record.len});
  td_field_put_bytes(&all, 1, (td_bytes){contents.at, contents.len});
  td_slice_key("x", &whole, &key);
  pairs p = {0};
  OK(keep(&p, (td_bytes){"", 0}, (td_bytes){all.at, all.len}));
  OK(keep(&p, (td_bytes){key.at, key.len}, (td_bytes){"", 0}));
  write_table(s, &p);
  for (size_t i = 0; i < p.len; i++) {
    td_str_deinit(&p.at[i].key);
    td_str_deinit(&p.at[i].value);
  }
  td_vec_free(&p);
  td_str_deinit(&record);
  td_str_deinit(&contents);
  td_str_deinit(&all);
  td_str_deinit(&key);
}

/* No memory is taken for what cannot be in the file. */
static void test_sizes_that_lie(void **state) {
  (void)state;
  scratch s;
  scratch_init(&s);
  write_claim(&s, (int64_t)1 << 40);
  FAILS(read_all(s.path.at), TD_DATA_LOSS,
        "more elements than its files have bytes");
  write_claim(&s, 50);
  FAILS(read_all(s.path.at), TD_DATA_LOSS,
        "tensor \"x\": the values of a slice: ");
  scratch_deinit(&s);
}

/* ---- failures ------------------------------------------------------------ */

static void test_no_memory_to_read(void **state) {
  (void)state;
  for (int64_t n = 1, over = 0; !over; n++) {
    td_mem_fail(n, false);
    td_status *bad = read_all(n % 2 ? golden : golden_shards);
    td_mem_fail(0, false);
    over = td_ok(bad) && n > 400;
    if (bad) FAILS(bad, TD_RESOURCE_EXHAUSTED, "");
  }
}

static bool never(void *arg, bool last) {
  int *calls = arg;
  ++*calls;
  return !last;
}

static void test_writing(void **state) {
  (void)state;
  scratch s;
  td_tensor t;
  int calls = 0;
  const float numbers[] = {1, 2, 3, 4};
  td_shape matrix = td_shape_matrix(2, 2), whole = td_shape_matrix(4, 2);
  td_slice half = {.rank = 2, .start = {2, 0}, .length = {2, -1}};
  scratch_init(&s);
  OK(td_tensor_from(TD_FLOAT32, &matrix, numbers, &t));
  td_checkpoint_v1_item items[] = {{"a", NULL, NULL, &t},
                                   {"b", &whole, &half, &t}};
  for (int64_t n = 1, over = 0; !over; n++) {
    td_mem_fail(n, false);
    td_status *bad = td_checkpoint_v1_write(s.path.at, items, 2, NULL, NULL);
    td_mem_fail(0, false);
    over = td_ok(bad);
    if (bad) FAILS(bad, TD_RESOURCE_EXHAUSTED, "");
    assert_int_equal(over, td_file_exists(s.path.at));
  }
  unlink(s.path.at);
  FAILS(td_checkpoint_v1_write(s.path.at, items, 2, never, &calls),
        TD_CANCELLED, "/v1' was stopped");
  assert_int_equal(calls, 3);
  assert_false(td_file_exists(s.path.at));
  for (int nth = 1; nth < 3; nth++) {
    td_file_fail(nth, false);
    td_status *bad = td_checkpoint_v1_write(s.path.at, items, 2, NULL, NULL);
    td_file_fail(0, false);
    FAILS(bad, TD_UNAVAILABLE, "failed by a test");
    assert_false(td_file_exists(s.path.at));
  }
  items[1] = (td_checkpoint_v1_item){"a", &whole, &half, &t};
  FAILS(td_checkpoint_v1_write(s.path.at, items, 2, NULL, NULL),
        TD_INVALID_ARGUMENT, "\"a\" do not agree in dtype and shape");
  td_tensor_release(&t);
  scratch_deinit(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tensorflows),
      cmocka_unit_test(test_cut_short),
      cmocka_unit_test(test_flipped),
      cmocka_unit_test(test_spoilt),
      cmocka_unit_test(test_sizes_that_lie),
      cmocka_unit_test(test_no_memory_to_read),
      cmocka_unit_test(test_writing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
