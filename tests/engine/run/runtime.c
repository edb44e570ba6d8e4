/* runtime.c - what a runtime does by itself: an idle one gives memory back; and
 * what it has its devices take.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/run/rig.h"

#include <time.h>

#include "engine/device/alloc.h"

enum { SIZE = 64 << 20 };

static int64_t ahead; /* atomic: how far the clock was put forward */

static int64_t put_forward(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec +
         __atomic_load_n(&ahead, __ATOMIC_RELAXED);
}

static size_t held(const td_device *d) {
  return td_allocator_read_stats(d->memory).held;
}

/* Waits at most ten seconds until the device holds little. */
static bool lets_go(const td_device *d) {
  struct timespec t = {.tv_nsec = 10000000};
  for (int i = 0; i < 1000 && held(d) >= SIZE; i++) {
    __atomic_fetch_add(&ahead, 100000000, __ATOMIC_RELAXED);
    nanosleep(&t, NULL);
  }
  return held(d) < SIZE;
}

static void use_much(td_device *d) {
  td_tensor t;
  td_shape shape = td_shape_vector(SIZE);
  OK(td_tensor_new(d->memory, TD_UINT8, &shape, &t));
  memset(t.data, 1, SIZE);
  td_tensor_release(&t);
}

static void test_rest(void **state) {
  (void)state;
  td_runtime *rt;
  td_device *cpu;
  td_clock_set(put_forward);
  OK(td_runtime_new(NULL, &rt));
  OK(td_runtime_cpu(rt, 0, &cpu));
  for (int i = 0; i < 3; i++) {
    use_much(cpu);
    td_runtime_used(rt);           /* wakes the watch */
#if !defined(__SANITIZE_ADDRESS__) /* keeps nothing anyway */
    assert_true(held(cpu) >= SIZE);
#endif
    assert_true(lets_go(cpu));
  }
  td_runtime_release(rt);
  td_clock_set(NULL);
}

/* A runtime that ends while it is looked after, sometimes just as a look is
 * due: it lets go of its devices, and what a device that outlives it keeps is
 * not looked at any more. */
static void test_release(void **state) {
  (void)state;
  struct timespec t = {.tv_nsec = 1500000};
  td_clock_set(put_forward);
  for (int i = 0; i < 200; i++) {
    td_runtime *rt;
    td_device *cpu;
    OK(td_runtime_new(NULL, &rt));
    OK(td_runtime_cpu(rt, 0, &cpu));
    td_device_retain(cpu);
    if (i % 20 == 1) use_much(cpu);
    td_runtime_used(rt);
    __atomic_fetch_add(&ahead, i % 2 * INT64_C(5000000000), __ATOMIC_RELAXED);
    if (i % 20 == 11) nanosleep(&t, NULL);
    td_runtime_release(rt);
    assert_int_equal(cpu->refs, 1);
    size_t kept = held(cpu);
    __atomic_fetch_add(&ahead, INT64_C(20000000000), __ATOMIC_RELAXED);
    if (i % 20 == 1) nanosleep(&t, NULL);
    assert_int_equal(held(cpu), kept);
    td_device_release(cpu);
  }
  td_clock_set(NULL);
}

static size_t limit(const td_device *d) {
  return td_allocator_read_stats(d->memory).limit;
}

static td_device *other(td_runtime *rt, int cpus, int k) {
  td_device **d, *found;
  int n;
  OK(td_runtime_devices(rt, cpus, &d, &n));
  assert_true(k < n);
  found = d[k];
  td_runtime_drop_devices(d, n);
  return found; /* the runtime has a share */
}

/* Of devices that there are and of those to come, of all and of a type. */
static void test_limits(void **state) {
  (void)state;
  td_runtime_options o = {.memory_limit = 64 << 20, .test_devices = 1};
  td_runtime *rt;
  td_device *cpu;
  OK(td_runtime_new(&o, &rt));
  td_device *test = other(rt, 1, 1);
  OK(td_runtime_limit(rt, NULL, 8 << 20));
  OK(td_runtime_cpu(rt, 0, &cpu));
  assert_int_equal(limit(cpu), 8 << 20);
  assert_int_equal(limit(test), 8 << 20);
  OK(td_runtime_limit(rt, "TEST", 5 << 20));
  OK(td_runtime_limit(rt, "CUDA", 6 << 20)); /* perhaps one comes */
  assert_int_equal(limit(cpu), 8 << 20);
  assert_int_equal(limit(test), 5 << 20);
  OK(td_runtime_cpu(rt, 1, &cpu)); /* shares the limit of the first */
  assert_int_equal(limit(cpu), 8 << 20);
  OK(td_runtime_limit(rt, "TEST", 7 << 20));
  assert_int_equal(limit(test), 7 << 20);
  OK(td_runtime_limit(rt, NULL, 9 << 20)); /* takes the place of all */
  assert_int_equal(limit(cpu), 9 << 20);
  assert_int_equal(limit(test), 9 << 20);
  OK(td_runtime_limit(rt, NULL, 0));
  assert_int_equal(limit(cpu), td_alloc_default_limit());
  FAILS(td_runtime_limit(rt, "A_TYPE_THAT_NO_DEVICE_IS_OF", 1),
        TD_INVALID_ARGUMENT, "no device is of the type");
  td_runtime_release(rt);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rest),
      cmocka_unit_test(test_release),
      cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
