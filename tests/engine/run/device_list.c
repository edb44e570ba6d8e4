/* device_list.c - the devices of a runtime: made by factories, once each; added
 * and removed, or not, and who is asked before.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include "engine/run/device_list.h"

#define PLACE "/job:localhost/replica:0/task:0"

static int made, wanted;

static td_status *count(int *out) {
  *out = wanted;
  return NULL;
}

static td_status *make(int index, const char *place, const td_device_options *o,
                       td_device **out) {
  if (index == 3) return td_error(TD_UNAVAILABLE, "the card is broken");
  made++;
  return td_device_test_new(place, index, o->seed, NULL, out);
}

static const td_device_factory factory = {
    .type = "TEST", .count = count, .make = make};

static int devices_of(td_runtime *rt) {
  td_device **all;
  int n;
  OK(td_runtime_devices(rt, 1, &all, &n));
  assert_string_equal(all[0]->type, "CPU");
  for (int i = 1; i < n; i++) assert_int_equal(all[i]->index, i - 1);
  td_runtime_drop_devices(all, n);
  return n;
}

/* Each is made once, and more when there are more. */
static void test_factory(void **state) {
  (void)state;
  td_runtime *rt;
  OK(td_runtime_new(NULL, &rt));
  int before = devices_of(rt);
  made = 0;
  wanted = 2;
  for (int i = 0; i < 2; i++) OK(td_runtime_make_devices(rt, &factory));
  assert_int_equal(devices_of(rt), before + made);
  wanted = 4;
  FAILS(td_runtime_make_devices(rt, &factory), TD_UNAVAILABLE,
        "the card is broken");
  assert_int_equal(devices_of(rt), 1 + 3);
  td_runtime_release(rt);
}

/* ---- who watches --------------------------------------------------------- */

typedef struct watching {
  td_device_watcher base;
  int32_t refs;
  const char *holds;
  int told, dropped;
} watching;

static void release(void *arg) {
  ((watching *)arg)->refs--;
}

static void lives(void *arg, const td_device *d, td_str *names) {
  const watching *w = arg;
  (void)d;
  if (w->holds) td_str_addf(names, "%s%s", names->len ? ", " : "", w->holds);
}

static void gone(void *arg, td_device *d, bool drop) {
  watching *w = arg;
  assert_true(td_device_gone(d));
  assert_int_equal(w->refs, 2); /* held meanwhile */
  w->told++;
  w->dropped += drop;
}

static void watch(td_device_list *l, watching *w) {
  w->base = (td_device_watcher){.arg = w,
                                .refs = &w->refs,
                                .release = release,
                                .lives = lives,
                                .gone = gone};
  td_device_list_watch(l, &w->base);
}

static void test_watchers(void **state) {
  (void)state;
  td_device_list l;
  td_device *d;
  watching w[3] = {{.refs = 1, .holds = "v"}, {.refs = 0}, {.refs = 1}};
  td_device_list_init(&l);
  OK(td_device_test_new(PLACE, 0, 1, NULL, &d));
  for (int i = 0; i < 3; i++) watch(&l, &w[i]);
  OK(td_device_list_add(&l, d));
  FAILS(td_device_list_add(&l, d), TD_ALREADY_EXISTS, "there is a device");
  uint64_t version = l.version;
  FAILS(td_device_list_remove(&l, d, false, "u"), TD_FAILED_PRECONDITION,
        "which would be lost: u, v; save them");
  for (int64_t n = 1; n < 3; n++) { /* nothing has changed without memory */
    td_mem_fail(n, true);
    td_status *s = td_device_list_remove(&l, d, false, "u");
    td_mem_fail(0, false);
    FAILS(s, TD_RESOURCE_EXHAUSTED, "");
  }
  assert_int_equal(l.version, version);
  assert_false(td_device_gone(d));
  OK(td_device_list_remove(&l, d, true, "u"));
  assert_true(l.version > version && w[0].told == 1 && w[0].dropped == 1);
  assert_true(w[1].told == 0 && w[2].told == 1); /* [1] was ending */
  assert_true(w[0].refs == 1 && w[1].refs == 0 && w[2].refs == 1);
  FAILS(td_device_list_remove(&l, d, true, ""), TD_NOT_FOUND, "TEST:0");
  td_device_list_unwatch(&l, &w[1].base);
  td_device_list_unwatch(&l, &w[2].base);
  td_device_list_unwatch(&l, &w[0].base);
  assert_null(l.watchers);
  td_device_release(d);
  td_device_list_deinit(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_factory),
      cmocka_unit_test(test_watchers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
