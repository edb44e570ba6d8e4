/* map.c - tests of engine/base/map.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/philox.h"

static void *number(intptr_t n) {
  return (void *)n;
}

static void *removed(td_map *m, const char *key) {
  return td_map_removen(m, key, strlen(key));
}

static void puts_gets_removes(void **state) {
  (void)state;
  td_map m;
  td_map_init(&m);
  assert_null(td_map_get(&m, "x"));
  assert_null(removed(&m, "x"));
  assert_true(td_map_put(&m, "x", number(1)));
  assert_true(td_map_put(&m, "", number(2)));
  assert_true(td_map_putn(&m, NULL, 0, number(3))); /* the same key as "" */
  assert_int_equal(m.count, 2);
  assert_ptr_equal(td_map_get(&m, "x"), number(1));
  assert_ptr_equal(td_map_get(&m, ""), number(3));
  assert_true(td_map_put(&m, "x", number(4)));
  assert_ptr_equal(removed(&m, "x"), number(4));
  assert_null(td_map_get(&m, "x"));
  assert_null(removed(&m, "x"));
  assert_int_equal(m.count, 1);
  td_map_deinit(&m);
  td_map_deinit(&m);
}

static void keys_are_bytes(void **state) {
  (void)state;
  td_map m;
  td_map_init(&m);
  char key[3] = {'a', 0, 'b'};
  assert_true(td_map_putn(&m, key, 3, number(1)));
  assert_true(td_map_putn(&m, key, 2, number(2)));
  assert_true(td_map_putn(&m, key, 1, number(3)));
  key[0] = 'z'; /* copied */
  assert_ptr_equal(td_map_getn(&m, "a\0b", 3), number(1));
  assert_ptr_equal(td_map_getn(&m, "a\0", 2), number(2));
  assert_ptr_equal(td_map_get(&m, "a"), number(3));
  assert_null(td_map_getn(&m, key, 3));
  td_map_deinit(&m);
}

static void join_keys(const td_map *m, char *out) {
  const td_map_entry *e;
  *out = '\0';
  for (size_t i = 0; td_map_next(m, &i, &e);) strcat(out, e->key);
}

static void walks_in_order_of_insertion(void **state) {
  (void)state;
  td_map m;
  char keys[64];
  td_map_init(&m);
  join_keys(&m, keys);
  assert_string_equal(keys, "");
  for (const char *p = "qwertyuiopasdfgh"; *p; p++)
    assert_true(td_map_putn(&m, p, 1, number(*p)));
  assert_true(td_map_put(&m, "w", NULL)); /* replacing keeps the place */
  removed(&m, "q");
  removed(&m, "o");
  assert_true(td_map_put(&m, "q", NULL));
  join_keys(&m, keys);
  assert_string_equal(keys, "wertyuipasdfghq");
  td_map_deinit(&m);
}

/* Random puts and removes against a plain array; 300 keys. */
static void agrees_with_a_model(void **state) {
  (void)state;
  enum { KEYS = 300, STEPS = 60000 };
  intptr_t model[KEYS] = {0};
  size_t count = 0;
  td_philox p;
  td_map m;
  td_philox_init(&p, 1, 2);
  td_map_init(&m);
  for (int i = 1; i <= STEPS; i++) {
    uint32_t r[4];
    char key[16];
    td_philox_next(&p, r);
    size_t k = r[0] % KEYS;
    snprintf(key, sizeof key, "key/%zu", k);
    assert_ptr_equal(td_map_get(&m, key), number(model[k]));
    bool grows = (r[1] >> 8) % 100 < (i / 10000 % 2 ? 20u : 70u);
    if (grows) {
      assert_true(td_map_put(&m, key, number(i)));
      count += !model[k];
      model[k] = i;
    } else {
      assert_ptr_equal(removed(&m, key), number(model[k]));
      count -= model[k] != 0;
      model[k] = 0;
    }
    assert_int_equal(m.count, count);
  }
  size_t walked = 0;
  const td_map_entry *e;
  for (size_t i = 0; td_map_next(&m, &i, &e); walked++)
    assert_ptr_equal(e->value, number(model[atoi(e->key + 4)]));
  assert_int_equal(walked, count);
  assert_true(m.cap <= 4 * KEYS); /* gaps were closed */
  td_map_deinit(&m);
}

/* Each allocation fails once: the map is as before and then works. */
static void without_memory(void **state) {
  (void)state;
  for (int n = 1; n < 60; n++) {
    td_map m;
    td_map_init(&m);
    int refused = 0;
    td_mem_fail(n, false);
    for (int i = 0; i < 30; i++) {
      char key[16];
      snprintf(key, sizeof key, "%d", i);
      if (td_map_put(&m, key, number(i + 1))) continue;
      refused++;
      assert_int_equal(m.count, i);
      assert_null(td_map_get(&m, key));
      if (i) assert_ptr_equal(td_map_get(&m, "0"), number(1));
      assert_true(td_map_put(&m, key, number(i + 1)));
    }
    td_mem_fail(0, false);
    assert_true(refused <= 1);
    assert_int_equal(m.count, 30);
    td_map_deinit(&m);
  }
}

/* Op seeds are made of it: the values must never change. */
static void hash_is_fixed(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t seed, hash;
  } rows[] = {
      {"", 0, 0x97AC994D5663FF3E},
      {"a", 0, 0x74CBFE019564F8E4},
      {"a", 1, 0x620161CBE5441982},
      {"dense/kernel", 0, 0x6FA5EA2526A2BF31},
      {"0123456789abcdef", 0, 0x8297042502E20862},
      {"0123456789abcdefg", 0, 0x1FCB9E83AC34058E},
      {"a name that is longer than two blocks of it", 87654321,
       0xC20652B7352366AD},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    assert_true(td_hash(rows[i].text, strlen(rows[i].text), rows[i].seed) ==
                rows[i].hash);
}

/* One bit changed anywhere changes about half of the bits. */
static void hash_avalanches(void **state) {
  (void)state;
  char text[40] = "some text that is forty bytes in length";
  uint64_t h = td_hash(text, sizeof text, 5);
  for (size_t bit = 0; bit < 8 * sizeof text; bit++) {
    text[bit / 8] ^= (char)(1 << bit % 8);
    int changed = __builtin_popcountll(h ^ td_hash(text, sizeof text, 5));
    assert_in_range(changed, 10, 54);
    text[bit / 8] ^= (char)(1 << bit % 8);
  }
}

static void hash_counts_length(void **state) {
  (void)state;
  static const char zeros[64];
  uint64_t seen[sizeof zeros];
  for (size_t n = 0; n < sizeof zeros; n++) {
    seen[n] = td_hash(zeros, n, 0);
    for (size_t k = 0; k < n; k++) assert_true(seen[k] != seen[n]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(puts_gets_removes),
      cmocka_unit_test(keys_are_bytes),
      cmocka_unit_test(walks_in_order_of_insertion),
      cmocka_unit_test(agrees_with_a_model),
      cmocka_unit_test(without_memory),
      cmocka_unit_test(hash_is_fixed),
      cmocka_unit_test(hash_avalanches),
      cmocka_unit_test(hash_counts_length),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
