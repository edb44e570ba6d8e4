/* checkpoint_crash.c - whatever a crash leaves of the disk, the checkpoint of
 * before or the new one is there.
 *
 * Saves and a merge of one prefix are logged; of each moment of the log states
 * are made that the disk may be in.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/io/logged_files.h"
#include "tests/engine/io/saved.h"

static const char prefix[] = "log://run/m";

/* Three parts, each of which has some of the tensors. */
static void merge(int64_t step) {
  static const char *const parts[] = {"log://run/temp/part-0",
                                      "log://run/temp/part-1",
                                      "log://run/temp/part-2"};
  OK(saved_write_some(parts[0], step, 0, 0));
  OK(saved_write_some(parts[1], step, 1, 1));
  OK(saved_write_some(parts[2], step, 2, 3));
  OK(td_checkpoint_merge(parts, 3, prefix, true));
}

/* A save of which everything fails from its n-th operation on, as if the
 * process had been killed there, and the same one again. */
static void interrupted(int64_t step) {
  bool killed = true;
  for (int64_t n = 10; killed; n++, step++) {
    td_file_fail(n, true);
    td_status *s = saved_write(prefix, step);
    td_file_fail(0, false);
    killed = !td_ok(s);
    td_status_release(s);
    if (killed) OK(saved_write(prefix, step));
    logged_mark(step);
  }
}

static void log_saves(void) {
  for (int64_t step = 1; step <= 6; step++) {
    if (step == 3 || step == 4)
      merge(step);
    else
      OK(saved_write(prefix, step));
    logged_mark(step);
  }
  interrupted(7);
}

static void assert_clean(int64_t step) {
  OK(saved_write(prefix, step));
  assert_int_equal(saved_step(prefix), step);
  for (int i = 0; i < LOGGED_NAMES; i++) {
    const char *name = logged_now.names[i].path;
    if (strstr(name, "temp/part-")) continue; /* another prefix's */
    if (strstr(name, "tempstate") || strstr(name, ".lock"))
      fail_msg("%s was left behind", name);
  }
}

/* Before the first save ended there may be none; it is not damaged. */
static void look(size_t n, logged_fate fate, unsigned seed) {
  int64_t safe = logged_crash(n, fate, seed), step = 0;
  td_status *s = saved_read(prefix, &step);
  if (td_status_code(s) == TD_NOT_FOUND && safe == 0) {
    td_status_release(s);
    s = NULL;
  }
  if (!td_ok(s))
    fail_msg("event %zu, fate %d, seed %u: %s", n, fate, seed,
             td_status_message(s));
  if (step < safe || step > safe + 1)
    fail_msg("event %zu, fate %d, seed %u: step %d, and %d was saved", n, fate,
             seed, (int)step, (int)safe);
  if (seed % 3 == 0) assert_clean(safe + 2);
}

static void test_states_of_a_disk(void **state) {
  (void)state;
  const char *soak = getenv("TIDE_SOAK");
  bool all = soak && *soak == '1';
  unsigned draws = all ? 20 : 1, states = 0;
  log_saves();
  logged_stopped = true;
  for (size_t n = 0; n <= logged_count; n += all ? 1 : 7) {
    for (logged_fate fate = LOGGED_LOST; fate < LOGGED_DRAWN; fate++)
      look(n, fate, (unsigned)n), states++;
    for (unsigned i = 0; i < draws; i++)
      look(n, LOGGED_DRAWN, (unsigned)n * 1000 + i), states++;
  }
  print_message("%u states of %zu events\n", states, logged_count);
  for (size_t i = 0; i < logged_count; i++) free(logged_events[i].bytes);
  free(logged_events);
  logged_clear(&logged_now);
}

int main(void) {
  OK(td_file_system_register(&logged_file_system));
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_states_of_a_disk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
