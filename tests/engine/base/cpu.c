/* cpu.c - tests of engine/base/cpu.h.
 *
 * What is read once is read in a child for each row.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/cpu.h"
#include "engine/base/file.h"

typedef struct row {
  const char *isa, *threads; /* of the environment; NULL: not set */
  td_code code;
  const char *says;
} row;

static void set(const char *name, const char *value) {
  if (value)
    setenv(name, value, 1);
  else
    unsetenv(name);
}

/* In the child: what the row wants, else what is wrong. */
static const char *wrong_with(const row *r) {
  td_status *s = td_cpu_check();
  if (td_status_code(s) != r->code) return "code";
  if (!strstr(td_status_message(s), r->says)) return "message";
  td_isa best = td_cpu_best(), isa = td_cpu_isa();
  if (best > TD_AVX512 || isa > best) return "isa";
  bool chosen = r->isa && *r->isa && td_ok(s);
  if (chosen && strcmp(td_isa_name(isa), r->isa)) return "isa not in force";
  if (!chosen && isa != best) return "isa not the best";
  int n = td_cpu_count();
  if (n < 1 || n > TD_CPU_MAX) return "count";
  if (r->threads && td_ok(s) && n != atoi(r->threads)) return "threads";
  td_status_release(s);
  return NULL;
}

static void in_child(const row *r) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    set("TIDE_ISA", r->isa);
    set("TIDE_THREADS", r->threads);
    const char *wrong = wrong_with(r);
    if (wrong) fprintf(stderr, "TIDE_ISA=%s: %s\n", r->isa, wrong);
    _exit(wrong ? 1 : 0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (status)
    fail_msg("TIDE_ISA=%s TIDE_THREADS=%s", r->isa ? r->isa : "(none)",
             r->threads ? r->threads : "(none)");
}

static void the_environment(void **state) {
  (void)state;
  static const row rows[] = {
      {NULL, NULL, TD_OK, ""},
      {"", NULL, TD_OK, ""},
      {"scalar", NULL, TD_OK, ""},
      {"avx", NULL, TD_INVALID_ARGUMENT, "TIDE_ISA=avx: expected scalar"},
      {"AVX2", NULL, TD_INVALID_ARGUMENT, "expected scalar, avx2 or avx512"},
      {"avx2 ", NULL, TD_INVALID_ARGUMENT, "avx2 "},
      {"a value that is far longer than the room kept for it", NULL,
       TD_INVALID_ARGUMENT, "a value that is far"},
      {NULL, "1", TD_OK, ""},
      {NULL, "7", TD_OK, ""},
      {NULL, "512", TD_OK, ""},
      {NULL, "0", TD_INVALID_ARGUMENT, "TIDE_THREADS=0: expected"},
      {NULL, "513", TD_INVALID_ARGUMENT, "from 1 to 512"},
      {NULL, "-2", TD_INVALID_ARGUMENT, "-2"},
      {NULL, "2x", TD_INVALID_ARGUMENT, "2x"},
      {NULL, "99999999999999999999", TD_INVALID_ARGUMENT, "9999"},
      {"scalar", "3", TD_OK, ""},
      {"bad", "bad", TD_INVALID_ARGUMENT, "TIDE_THREADS"},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) in_child(&rows[i]);
}

/* What this processor has is accepted, what it lacks is refused. */
static void each_isa(void **state) {
  (void)state;
  bool has2 = __builtin_cpu_supports("avx2");
  bool has512 = __builtin_cpu_supports("avx512vl");
  row two = {"avx2", NULL, has2 ? TD_OK : TD_FAILED_PRECONDITION,
             has2 ? "" : "at most"};
  row wide = {"avx512", NULL, has512 ? TD_OK : TD_FAILED_PRECONDITION,
              has512 ? "" : "at most"};
  in_child(&two);
  in_child(&wide);
  assert_string_equal(td_isa_name(TD_SCALAR), "scalar");
  assert_string_equal(td_isa_name((td_isa)9), "unknown");
}

static void count_follows_affinity(void **state) {
  (void)state;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
      if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
    set("TIDE_THREADS", NULL);
    _exit(td_cpu_count() == 1 ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/* ---- quotas, from made-up trees ------------------------------------------ */

typedef struct tree {
  const char *cgroup; /* /proc/self/cgroup */
  struct {
    const char *path, *text; /* below /sys/fs/cgroup */
  } files[4];
  int quota;
} tree;

static void write_text(const char *root, const char *path, const char *text) {
  char full[1024], parent[1024];
  snprintf(full, sizeof full, "%s%s", root, path);
  snprintf(parent, sizeof parent, "%s", full);
  *strrchr(parent, '/') = '\0';
  td_status *s = td_file_mkdirs(parent);
  if (td_ok(s)) s = td_file_write(full, text, strlen(text));
  if (!td_ok(s)) fail_msg("%s", td_status_message(s));
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *at) {
  (void)st, (void)type, (void)at;
  return remove(path);
}

static int quota_of(const tree *t) {
  char root[256];
  const char *tmp = getenv("TMPDIR");
  snprintf(root, sizeof root, "%.200s/tide-cpu-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(root));
  if (t->cgroup) write_text(root, "/proc/self/cgroup", t->cgroup);
  for (size_t i = 0; i < TD_COUNT(t->files) && t->files[i].path; i++) {
    char path[256];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s", t->files[i].path);
    write_text(root, path, t->files[i].text);
  }
  int quota = td_cpu_quota(root);
  nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  return quota;
}

static void quotas(void **state) {
  (void)state;
  static const tree trees[] = {
      {NULL, {{NULL, NULL}}, 0},
      {"0::/\n", {{NULL, NULL}}, 0},
      {"0::/\n", {{"/cpu.max", "max 100000\n"}}, 0},
      {"0::/\n", {{"/cpu.max", "200000 100000\n"}}, 2},
      {"0::/\n", {{"/cpu.max", "150000 100000\n"}}, 2}, /* rounded up */
      {"0::/\n", {{"/cpu.max", "5000 100000\n"}}, 1},
      {"0::/\n", {{"/cpu.max", "garbage"}}, 0},
      {"0::/\n", {{"/cpu.max", ""}}, 0},
      {"0::/\n", {{"/cpu.max", "100000"}}, 0},
      {"0::/\n", {{"/cpu.max", "100000 0"}}, 0},
      {"0::/\n", {{"/cpu.max", "9223372036854775807 1"}}, INT32_MAX},
      {"0::/a/b\n", {{"/a/b/cpu.max", "400000 100000"}}, 4},
      {"0::/a/b\n", /* the parent allows less */
       {{"/a/b/cpu.max", "400000 100000"}, {"/a/cpu.max", "300000 100000"}},
       3},
      {"0::/not/seen/here\n", {{"/cpu.max", "300000 100000"}}, 3},
      {"4:memory:/m\n2:cpu,cpuacct:/x\n",
       {{"/cpu/x/cpu.cfs_quota_us", "250000\n"},
        {"/cpu/x/cpu.cfs_period_us", "100000\n"}},
       3},
      {"1:cpu:/\n",
       {{"/cpu/cpu.cfs_quota_us", "-1\n"},
        {"/cpu/cpu.cfs_period_us", "100000\n"}},
       0},
      {"1:cpuacct:/\n3:cpuset:/\n", /* other controllers */
       {{"/cpu/cpu.cfs_quota_us", "100000\n"},
        {"/cpu/cpu.cfs_period_us", "100000\n"}},
       0},
      {"1:cpu:/\n0::/\n", /* both hierarchies: the smaller */
       {{"/cpu/cpu.cfs_quota_us", "500000\n"},
        {"/cpu/cpu.cfs_period_us", "100000\n"},
        {"/cpu.max", "200000 100000"}},
       2},
      {"no colons\n:\n::\n", {{NULL, NULL}}, 0},
  };
  for (size_t i = 0; i < TD_COUNT(trees); i++)
    if (quota_of(&trees[i]) != trees[i].quota)
      fail_msg("tree %zu: %d, expected %d", i, quota_of(&trees[i]),
               trees[i].quota);
}

/* ---- denormals ----------------------------------------------------------- */

static void flushes_denormals(void **state) {
  (void)state;
  volatile float tiny = 1e-30f, scale = 1e-10f;
  assert_true(tiny * scale > 0);
  unsigned was = td_cpu_flush_on();
  assert_true(tiny * scale == 0); /* the result is flushed */
  unsigned inner = td_cpu_flush_on();
  assert_true((td_cpu_flush_get() & 0x8040) == 0x8040);
  td_cpu_flush_restore(inner);
  assert_true(tiny * scale == 0); /* the outer one is still on */
  td_cpu_flush_restore(was);
  assert_true(tiny * scale > 0);
  volatile float denormal = tiny * scale, big = 1e30f;
  assert_true(denormal * big > 0);
  was = td_cpu_flush_on();
  assert_true(denormal * big == 0); /* the operand counts as zero */
  td_cpu_flush_restore(was);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_environment),        cmocka_unit_test(each_isa),
      cmocka_unit_test(count_follows_affinity), cmocka_unit_test(quotas),
      cmocka_unit_test(flushes_denormals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
