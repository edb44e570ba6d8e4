/* cudnn.c - plans of convolutions by the fake cuDNN: which engine is taken,
 * what is kept in memory and in files, what is done when one does not run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "kernels/cuda/cudnn.h"
#include "tests/cuda/fake/fake_cudnn.h"

enum { ROOM = 1 << 20 };

static const td_cudnn_api *api;
static td_fake_cudnn_counts *counts;
static td_cudnn_card card;
static char folder[4096];

/* ---- convolutions -------------------------------------------------------- */

static td_cudnn_conv conv_of(td_dtype t, td_matmul_type precision,
                             int64_t width) {
  td_conv_plan p = {.conv = {.batch = 2,
                             .in_channels = 4,
                             .out_channels = 6,
                             .groups = 2,
                             .in = {1, 8, width},
                             .filter = {1, 3, 3},
                             .out = {1, 4, (width - 1) / 2 + 1},
                             .stride = {1, 2, 2},
                             .dilation = {1, 1, 1},
                             .after = {0, 1, 1}},
                    .rule = {.axes = 2},
                    .pass = TD_CONV_FORWARD};
  td_cudnn_conv v;
  p.conv.before[2] = width % 2; /* as SAME pads */
  td_cudnn_conv_of(&p, t, NULL, NULL, &v);
  v.precision = (int32_t)precision;
  return v;
}

/* Beside the tests: build/cuda-fake/lib/libcudnn.so.9 */
static int begin(void **state) {
  char path[4096];
  (void)state;
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
  assert_true(n > 0);
  path[n] = '\0';
  for (int i = 0; i < 3; i++) (void)dirname(path);
  strcat(path, "/cuda-fake/lib");
  setenv("TIDE_CUDA_LIBS", path, 1);
  api = td_cudnn_open();
  if (!api) fail_msg("the fake cuDNN is not in %s", path);
  strcat(path, "/libcudnn.so.9");
  void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!library) fail_msg("%s", dlerror());
  counts = dlsym(library, "td_fake_cudnn");
  assert_non_null(counts);
  OK(td_cudnn_card_init(api, "{}", &card));
  return 0;
}

static int end(void **state) {
  (void)state;
  td_cudnn_card_deinit(&card, false);
  assert_int_equal(counts->descriptors, 0);
  assert_int_equal(counts->handles, 0);
  return 0;
}

/* ---- engines ------------------------------------------------------------- */

static int64_t engine_of(td_dtype t, td_matmul_type precision, size_t room) {
  td_cudnn_conv v = conv_of(t, precision, 7);
  td_cudnn_plan p;
  OK(td_cudnn_plan_make(&card, &v, 0, room, &p));
  int64_t engine = td_cudnn_plan_engine(&card, &p);
  td_cudnn_plan_deinit(&card, &p);
  return engine;
}

static void floats_are_exact_unless_they_need_not_be(void **state) {
  (void)state;
  assert_int_equal(engine_of(TD_FLOAT32, TD_PRECISION_FLOAT32, ROOM),
                   TD_FAKE_EXACT);
  assert_int_equal(engine_of(TD_FLOAT32, TD_PRECISION_TF32, ROOM),
                   TD_FAKE_CORES);
  assert_int_equal(engine_of(TD_FLOAT16, TD_PRECISION_FLOAT32, ROOM),
                   TD_FAKE_CORES);
  assert_int_equal(engine_of(TD_BFLOAT16, TD_PRECISION_FLOAT32, ROOM),
                   TD_FAKE_CORES);
}

static void workspace_has_a_limit(void **state) {
  (void)state;
  assert_int_equal(engine_of(TD_FLOAT32, TD_PRECISION_FLOAT32, 10),
                   TD_FAKE_LAST);
}

static void sizes_that_do_not_fit_are_an_error(void **state) {
  td_cudnn_conv v = conv_of(TD_FLOAT32, TD_PRECISION_FLOAT32, 7);
  td_cudnn_plan p;
  (void)state;
  v.y.dims[3] = 5;
  FAILS(td_cudnn_plan_make(&card, &v, 0, ROOM, &p), TD_INTERNAL,
        "an operation");
  v = conv_of(TD_FLOAT32, TD_PRECISION_FLOAT32, 7);
  FAILS(td_cudnn_plan_make(&card, &v, 100, ROOM, &p), TD_NOT_FOUND,
        "no engine for it, of 5");
}

/* ---- what is kept -------------------------------------------------------- */

static const td_cudnn_plan *find(td_cudnn_plans *p, int64_t width) {
  td_cudnn_conv v = conv_of(TD_FLOAT32, TD_PRECISION_FLOAT32, width);
  const td_cudnn_plan *plan;
  OK(td_cudnn_plans_find(p, &v, ROOM, &plan));
  return plan;
}

static void plans_are_kept_up_to_a_number(void **state) {
  td_cudnn_plans *p;
  (void)state;
  OK(td_cudnn_plans_new(&card, NULL, &p));
  int64_t asked = counts->asked;
  const td_cudnn_plan *plan = find(p, 7);
  assert_non_null(plan);
  assert_ptr_equal(find(p, 7), plan);
  assert_int_equal(counts->asked, asked + 1);
  for (int64_t i = 0; i < 1000; i++) {
    assert_non_null(find(p, 8 + i));
    assert_ptr_equal(find(p, 7), plan); /* in use: it stays */
  }
  td_cudnn_stats s = td_cudnn_plans_read_stats(p);
  assert_int_equal(s.kept, 512);
  assert_int_equal(s.made, 1001);
  td_cudnn_plans_free(p);
}

static td_cudnn_stats with_files(void) {
  td_cudnn_plans *p;
  OK(td_cudnn_plans_new(&card, folder, &p));
  for (int64_t i = 0; i < 3; i++) assert_non_null(find(p, 7 + i));
  td_cudnn_stats s = td_cudnn_plans_read_stats(p);
  td_cudnn_plans_free(p);
  return s;
}

/* Byte `at` of each file is another, or (at < 0) the last is missing. */
static void damage(long at) {
  td_str names;
  td_str_init(&names);
  OK(td_file_list(folder, &names));
  for (size_t i = 0; i < names.len; i += strlen(names.at + i) + 1) {
    const char *name = names.at + i;
    char path[8192], *bytes;
    size_t n;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    OK(td_file_read(path, 1 << 20, &bytes, &n));
    assert_true(at < (long)n);
    if (at < 0)
      n--;
    else
      bytes[at] ^= 1;
    OK(td_file_write(path, bytes, n));
    td_free(bytes);
  }
  td_str_deinit(&names);
}

static void plans_are_read_from_files(void **state) {
  td_str path;
  (void)state;
  td_str_init(&path);
  OK(td_file_temp_dir(2048, &path));
  snprintf(folder, sizeof folder, "%s/deep/plans", td_str_c(&path));
  td_cudnn_stats s = with_files();
  assert_int_equal(s.made, 3);
  assert_int_equal(s.written, 3);
  int64_t asked = counts->asked;
  s = with_files();
  assert_int_equal(s.read, 3);
  assert_int_equal(s.made, 0);
  assert_int_equal(counts->asked, asked);
  static const long places[] = {0, 12, 150, 250, -1};
  for (size_t i = 0; i < TD_COUNT(places); i++) {
    damage(places[i]);
    s = with_files();
    assert_int_equal(s.read, 0);
    assert_int_equal(s.written, 3);
    assert_int_equal(with_files().read, 3);
  }
  snprintf(folder, sizeof folder, "/proc/there/is/none");
  assert_int_equal(with_files().made, 3);
  char command[8192];
  snprintf(command, sizeof command, "rm -r '%s'", td_str_c(&path));
  assert_int_equal(system(command), 0);
  td_str_deinit(&path);
}

static void one_that_does_not_run_gives_way(void **state) {
  td_cudnn_conv v = conv_of(TD_FLOAT32, TD_PRECISION_TF32, 7);
  static const int order[] = {TD_FAKE_CORES, TD_FAKE_EXACT, TD_FAKE_LAST};
  const td_cudnn_plan *plan;
  td_cudnn_plans *p;
  (void)state;
  OK(td_cudnn_plans_new(&card, NULL, &p));
  OK(td_cudnn_plans_find(p, &v, ROOM, &plan));
  for (size_t i = 0; i < TD_COUNT(order); i++) {
    assert_non_null(plan);
    assert_int_equal(td_cudnn_plan_engine(&card, plan), order[i]);
    OK(td_cudnn_plans_next(p, &v, ROOM, &plan));
  }
  assert_null(plan);
  OK(td_cudnn_plans_find(p, &v, ROOM, &plan)); /* it is remembered */
  assert_null(plan);
  td_cudnn_plans_free(p);
}

static void memory_may_fail_at_any_time(void **state) {
  (void)state;
  for (int nth = 1, failed = 1; failed; nth++) {
    td_cudnn_conv v = conv_of(TD_FLOAT32, TD_PRECISION_FLOAT32, 7);
    const td_cudnn_plan *plan = NULL;
    td_cudnn_plans *p = NULL;
    int64_t before = td_mem_calls();
    td_mem_fail(nth, false);
    td_status *s = td_cudnn_plans_new(&card, "/proc/none", &p);
    if (td_ok(s)) s = td_cudnn_plans_find(p, &v, ROOM, &plan);
    failed = td_mem_calls() - before >= nth;
    td_mem_fail(0, false);
    if (!td_ok(s)) assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
    td_status_release(s);
    td_cudnn_plans_free(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(floats_are_exact_unless_they_need_not_be),
      cmocka_unit_test(workspace_has_a_limit),
      cmocka_unit_test(sizes_that_do_not_fit_are_an_error),
      cmocka_unit_test(plans_are_kept_up_to_a_number),
      cmocka_unit_test(plans_are_read_from_files),
      cmocka_unit_test(one_that_does_not_run_gives_way),
      cmocka_unit_test(memory_may_fail_at_any_time),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
