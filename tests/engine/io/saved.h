/* saved.h - a checkpoint whose every byte follows from its step: what is
 * restored is whole, or it is noticed.
 *
 * Tensors: "step", "numbers" {SAVED_NUMBERS}, "text" {3}, and "rows" {4, 2} in
 * two slices.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SAVED_H
#define TEST_SAVED_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/io/checkpoint.h"
#include "engine/io/checkpoint_writer.h"
#include "tests/check.h"

enum { SAVED_NUMBERS = 5000, SAVED_TENSORS = 4 };

static const char *const saved_names[] = {"numbers", "rows", "step", "text"};

/* Tensor i of a step, as saved_names has them. */
static inline td_status *saved_tensor(int i, int64_t step, td_tensor *t) {
  static const char *const words[] = {"", "a", "some longer word"};
  char first[32];
  snprintf(first, sizeof first, "step %lld", (long long)step);
  td_shape shapes[] = {td_shape_vector(SAVED_NUMBERS), td_shape_matrix(4, 2),
                       td_shape_scalar(), td_shape_vector(3)};
  const char *at[] = {first, words[step % 3], words[(step + 1) % 3]};
  size_t len[] = {strlen(at[0]), strlen(at[1]), strlen(at[2])};
  if (i == 3) return td_tensor_strings(&shapes[3], at, len, t);
  TD_TRY(td_tensor_new(NULL, i == 0 ? TD_FLOAT32 : TD_INT64, &shapes[i], t));
  int64_t n = td_tensor_count(t);
  for (int64_t k = 0; k < n; k++)
    td_tensor_set_i(t, k, i == 2 ? step : (step * 7919 + k * 13) % 10007);
  return NULL;
}

static inline td_status *saved_add(td_checkpoint_writer *w, int i,
                                   const td_tensor *t) {
  if (i != 1) return td_checkpoint_writer_add(w, saved_names[i], t);
  td_status *s = NULL;
  for (int64_t row = 0; td_ok(s) && row < 4; row += 2) {
    td_slice half = {.rank = 2, .start = {row, 0}, .length = {2, -1}};
    td_tensor part;
    TD_TRY(td_tensor_rows(t, row, 2, &part));
    s = td_checkpoint_writer_add_slice(w, "rows", &t->shape, &half, &part);
    td_tensor_release(&part);
  }
  return s;
}

/* The tensors of the numbers first to last. */
static inline td_status *saved_write_some(const char *prefix, int64_t step,
                                          int first, int last) {
  td_checkpoint_writer *w;
  TD_TRY(td_checkpoint_writer_open(prefix, &w));
  td_status *s = NULL;
  for (int i = first; td_ok(s) && i <= last; i++) {
    td_tensor t;
    s = saved_tensor(i, step, &t);
    if (!td_ok(s)) break;
    s = saved_add(w, i, &t);
    td_tensor_release(&t);
  }
  if (td_ok(s)) s = td_checkpoint_writer_commit(w);
  td_checkpoint_writer_close(w);
  return s;
}

static inline td_status *saved_write(const char *prefix, int64_t step) {
  return saved_write_some(prefix, step, 0, SAVED_TENSORS - 1);
}

static inline td_status *saved_check(const td_checkpoint *c, int i,
                                     int64_t step) {
  td_checkpoint_entry e;
  td_tensor got, want;
  if (!td_checkpoint_find(c, saved_names[i], &e))
    return td_checkpoint_missing(c, saved_names[i]);
  TD_TRY(td_checkpoint_read(c, &e, NULL, NULL, &got));
  td_status *s = saved_tensor(i, step, &want);
  if (td_ok(s)) {
    if (!td_tensor_same(&got, &want))
      s = td_error(TD_INTERNAL, "\"%s\" is another step's", saved_names[i]);
    td_tensor_release(&want);
  }
  td_tensor_release(&got);
  return s;
}

static inline td_status *saved_check_all(const td_checkpoint *c,
                                         int64_t *step) {
  td_checkpoint_entry e;
  td_tensor t;
  if (!td_checkpoint_find(c, "step", &e))
    return td_checkpoint_missing(c, "step");
  TD_TRY(td_checkpoint_read(c, &e, NULL, NULL, &t));
  *step = td_tensor_get_i(&t, 0);
  td_tensor_release(&t);
  for (int i = 0; i < SAVED_TENSORS; i++) TD_TRY(saved_check(c, i, *step));
  return td_checkpoint_verify(c);
}

/* The step of the checkpoint that is there, every byte of it looked at. */
static inline td_status *saved_read(const char *prefix, int64_t *step) {
  td_checkpoint *c;
  TD_TRY(td_checkpoint_open(prefix, &c));
  td_status *s = saved_check_all(c, step);
  td_checkpoint_close(c);
  return s;
}

static inline int64_t saved_step(const char *prefix) {
  int64_t step = 0;
  OK(saved_read(prefix, &step));
  return step;
}

/* ---- a folder of the test ------------------------------------------------ */

static char saved_folder[256], saved_prefix[300]; /* ".../m" */

static inline int saved_set_up(void **state) {
  (void)state;
  td_str dir = {0};
  OK(td_file_temp_dir(200, &dir));
  snprintf(saved_folder, sizeof saved_folder, "%s", dir.at);
  snprintf(saved_prefix, sizeof saved_prefix, "%s/m", dir.at);
  td_str_deinit(&dir);
  return 0;
}

static inline int saved_tear_down(void **state) {
  (void)state;
  char command[300];
  snprintf(command, sizeof command, "rm -rf '%s'", saved_folder);
  return system(command);
}

#define SAVED_TEST(name)                                                       \
  cmocka_unit_test_setup_teardown(name, saved_set_up, saved_tear_down)

/* Nothing but one index and its data is in the folder. */
static inline void saved_assert_tidy(int shards) {
  int n = 0;
  DIR *dir = opendir(saved_folder);
  for (struct dirent *e; (e = readdir(dir));) {
    if (e->d_name[0] == '.' && (!e->d_name[1] || e->d_name[1] == '.')) continue;
    bool ours = strcmp(e->d_name, "m.index") == 0 ||
                (strncmp(e->d_name, "m.data-0", 8) == 0 &&
                 strlen(e->d_name) == strlen("m.data-00000-of-00001"));
    if (!ours) fail_msg("%s was left behind", e->d_name);
    n++;
  }
  closedir(dir);
  assert_int_equal(n, shards + 1);
}

static inline int saved_descriptors(void) {
  int n = 0;
  DIR *dir = opendir("/proc/self/fd");
  while (readdir(dir)) n++;
  closedir(dir);
  return n;
}

#endif
