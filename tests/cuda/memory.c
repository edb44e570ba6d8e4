/* memory.c - the memory of a card on the fake runtime: limits, refusals, blocks
 * for what arrives, which no kernel may still use; and pinned memory.
 *
 * No kernel runs here: the device is made to believe that some were enqueued
 * and are not complete.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/run/library.h"
#include "kernels/cuda/cuda.h"
#include "tests/cuda/fake/fake.h"

#define MIB ((size_t)1 << 20)

static const td_device_factory *cuda;

static struct {
  void (*plan)(const char *plan);
  bool (*happened)(void);
  void (*memory)(size_t bytes);
  td_fake_counts (*count)(void);
} fake;

static void *find(void *plugin, const char *name) {
  void *p = dlsym(plugin, name);
  if (!p) fail_msg("%s: %s", name, dlerror());
  return p;
}

/* Beside the tests: build/tests/cuda/memory, build/cuda-fake/libtide_cuda.so */
static int begin(void **state) {
  char path[4096];
  const td_library *library;
  (void)state;
  setenv("TIDE_CUDA_CACHE", "1", 1);
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
  assert_true(n > 0);
  path[n] = '\0';
  for (int i = 0; i < 3; i++) (void)dirname(path);
  strcat(path, "/cuda-fake/libtide_cuda.so");
  OK(td_library_load(path, &library));
  cuda = library->devices[0];
  void *plugin = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!plugin) fail_msg("%s", dlerror());
  *(void **)&fake.plan = find(plugin, "td_fake_plan");
  *(void **)&fake.happened = find(plugin, "td_fake_happened");
  *(void **)&fake.memory = find(plugin, "td_fake_memory");
  *(void **)&fake.count = find(plugin, "td_fake_count");
  return 0;
}

static td_device *new_card(size_t bytes) {
  static const td_device_options options = {.seed = 1};
  td_device *d;
  fake.plan(NULL);
  fake.memory(bytes);
  OK(cuda->make(0, "/job:localhost/replica:0/task:0", &options, &d));
  return d;
}

static void drop_card(td_device *d) {
  td_device_release(d);
  td_fake_counts n = fake.count();
  if (n.regions || n.pinned || n.streams || n.events)
    fail_msg("%lld regions, %lld of pinned memory, %lld streams, %lld events "
             "are left",
             (long long)n.regions, (long long)n.pinned, (long long)n.streams,
             (long long)n.events);
}

static td_tensor block(td_device *d, size_t bytes) {
  td_tensor t;
  td_shape shape = td_shape_vector((int64_t)bytes);
  OK(td_tensor_new(d->memory, TD_UINT8, &shape, &t));
  return t;
}

static size_t in_use(td_device *d) {
  return td_allocator_read_stats(d->memory).in_use;
}

/* ---- limits -------------------------------------------------------------- */

static void test_a_limit_before_it_is_used(void **state) {
  (void)state;
  td_device *d = new_card(64 * MIB);
  td_allocator_set_limit(d->memory, 4 * MIB);
  td_tensor t = block(d, 3 * MIB), more;
  assert_int_equal(td_allocator_read_stats(d->memory).limit, 4 * MIB);
  td_allocator_tag(d->memory, t.data, 3 * MIB, "weights");
  td_shape two = td_shape_vector((int64_t)(2 * MIB));
  FAILS(td_tensor_new(d->memory, TD_UINT8, &two, &more), TD_RESOURCE_EXHAUSTED,
        "CUDA:0 has no 2097152 bytes (2.0 MiB) within its memory limit of 4.0 "
        "MiB: 3.0 MiB are in use; the largest: weights 3.0 MiB");
  td_allocator_set_limit(d->memory, 0); /* as if none had ever been set */
  assert_int_equal(td_allocator_read_stats(d->memory).limit, 64 * MIB / 10 * 9);
  more = block(d, 2 * MIB);
  td_tensor_release(&more);
  td_tensor_release(&t);
  drop_card(d);
}

/* Others use the card, too: it has less than the limit. */
static void test_the_card_refuses(void **state) {
  (void)state;
  td_device *d = new_card(64 * MIB);
  td_tensor t = block(d, 3 * MIB), more;
  td_shape many = td_shape_vector((int64_t)(20 * MIB));
  fake.memory(8 * MIB);
  FAILS(td_tensor_new(d->memory, TD_UINT8, &many, &more), TD_RESOURCE_EXHAUSTED,
        "): the card gives no more, ");
  td_tensor_release(&t);
  drop_card(d);
}

/* ---- what arrives -------------------------------------------------------- */

/* So many kernels more were enqueued, and none is complete. */
static void pretend(td_device *d, uint64_t kernels) {
  __atomic_fetch_add(&((td_cuda *)d)->enqueued, kernels, __ATOMIC_RELEASE);
}

/* Bytes of `seed` go there; true: the copy had to wait for kernels. The wait is
 * refused then, and the copy with it. */
static bool arrive(td_device *d, size_t bytes, unsigned seed, td_tensor *out) {
  td_tensor here;
  td_shape shape = td_shape_vector((int64_t)bytes);
  OK(td_tensor_new(d->host, TD_UINT8, &shape, &here));
  for (size_t i = 0; i < bytes; i++)
    ((unsigned char *)here.data)[i] = (unsigned char)(seed + i * 7);
  fake.plan("cudaStreamWaitEvent:1:2");
  td_status *s = td_device_transfer_wait(d, &here, d->memory, out);
  bool waited = fake.happened();
  fake.plan(NULL);
  assert_true(waited == !td_ok(s));
  td_status_release(s);
  td_tensor_release(&here);
  return waited;
}

static void check_bytes(td_device *d, const td_tensor *t, unsigned seed) {
  td_tensor here;
  OK(td_device_transfer_wait(d, t, d->host, &here));
  const unsigned char *at = here.data;
  for (size_t i = 0, n = td_tensor_bytes(t); i < n; i++)
    if (at[i] != (unsigned char)(seed + i * 7))
      fail_msg("byte %zu of %zu is %d", i, n, at[i]);
  td_tensor_release(&here);
}

/* Kernels may use all that was let go; what arrives goes elsewhere. */
static void test_copies_need_not_wait(void **state) {
  (void)state;
  td_device *d = new_card(512 * MIB);
  td_tensor t = block(d, 3 * MIB), arrived[8];
  size_t first = in_use(d);
  pretend(d, 5);
  td_tensor_release(&t);
  for (unsigned i = 0; i < 8; i++) {
    assert_false(arrive(d, 3 * MIB - i, i, &arrived[i]));
    assert_int_equal(in_use(d), first * (i + 1));
  }
  assert_int_equal(td_allocator_read_stats(d->memory).peak, first * 8);
  for (unsigned i = 0; i < 8; i++) {
    check_bytes(d, &arrived[i], i);
    td_tensor_release(&arrived[i]);
  }
  assert_int_equal(in_use(d), 0);
  td_allocator_trim(d->memory, 0);
  assert_int_equal(td_allocator_read_stats(d->memory).held, 0);
  drop_card(d);
}

/* What waits to be used again is an eighth of the limit at most: then a copy
 * waits, too. And kernels get what nothing else is left for. */
static void test_they_take_no_more_than_a_share(void **state) {
  (void)state;
  td_device *d = new_card(64 * MIB);
  td_tensor t;
  int waited = 0;
  for (unsigned i = 0; i < 20; i++) {
    t = block(d, MIB);
    pretend(d, 1);
    td_tensor_release(&t);
    bool late = arrive(d, MIB, i, &t);
    if (!late) check_bytes(d, &t, i);
    td_tensor_release(&t);
    waited += late;
  }
  assert_true(waited > 0 && waited < 20);
  t = block(d, 50 * MIB);
  td_tensor_release(&t);
  drop_card(d);
}

/* ---- pinned memory ------------------------------------------------------- */

static td_tensor pinned(td_device *d, size_t bytes) {
  td_tensor t;
  td_shape shape = td_shape_vector((int64_t)bytes);
  OK(td_tensor_new(d->host, TD_UINT8, &shape, &t));
  memset(t.data, 1, bytes);
  return t;
}

/* No more than a quarter is lost, all sizes are aligned, what is kept can be
 * had back; where no more can be locked it is other memory. */
static void test_pinned_memory(void **state) {
  (void)state;
  td_device *d = new_card(64 * MIB);
  td_tensor t[2], many[200];
  for (int i = 0; i < 2; i++) t[i] = pinned(d, 4 * MIB);
  assert_int_equal(td_allocator_read_stats(d->host).held, 10 * MIB);
  for (int i = 0; i < 2; i++) td_tensor_release(&t[i]);
  assert_int_equal(td_allocator_read_stats(d->host).held, 10 * MIB);
  for (size_t i = 0; i < 200; i++) {
    many[i] = pinned(d, i * i * 5);
    assert_int_equal((uintptr_t)many[i].data % 64, 0);
  }
  size_t held = td_allocator_read_stats(d->host).held;
  td_allocator_trim(d->host, 0);
  td_allocator_stats s = td_allocator_read_stats(d->host);
  assert_int_equal(s.system_frees, 2);
  assert_int_equal(s.held, held - 10 * MIB);
  for (size_t i = 0; i < 200; i++) {
    const unsigned char *at = many[i].data;
    for (size_t k = 0; k < i * i * 5; k++) assert_int_equal(at[k], 1);
    td_tensor_release(&many[i]);
  }
  assert_int_equal(td_allocator_read_stats(d->host).in_use, 0);
  t[0] = pinned(d, MIB);
  td_tensor_release(&t[0]);
  fake.plan("cudaHostAlloc:1:2"); /* then the block of MIB goes, and it works */
  t[0] = pinned(d, 2 * MIB);
  assert_true(fake.happened());
  assert_true(td_allocator_read_stats(d->host).system_frees > 2);
  fake.plan(NULL);
  td_tensor_release(&t[0]);
  drop_card(d);
}

/* ---- by chance ----------------------------------------------------------- */

enum { SLOTS = 24, ROUNDS = 1500 };

static void test_by_chance(void **state) {
  (void)state;
  td_device *d = new_card(96 * MIB);
  td_tensor at[SLOTS] = {{0}};
  unsigned seed = 7;
  for (unsigned round = 0; round < ROUNDS; round++) {
    unsigned k = (unsigned)rand_r(&seed) % SLOTS;
    size_t bytes = (size_t)1 << rand_r(&seed) % 22;
    bytes += (size_t)rand_r(&seed) % bytes;
    if (td_tensor_valid(&at[k])) {
      check_bytes(d, &at[k], k);
      td_tensor_release(&at[k]);
    } else if (rand_r(&seed) % 3 == 0) { /* a kernel's, for a moment */
      td_tensor t = block(d, bytes);
      pretend(d, 1);
      td_tensor_release(&t);
    } else if (arrive(d, bytes, k, &at[k])) {
      td_tensor_release(&at[k]);
    }
  }
  for (unsigned k = 0; k < SLOTS; k++) {
    if (td_tensor_valid(&at[k])) check_bytes(d, &at[k], k);
    td_tensor_release(&at[k]);
  }
  assert_int_equal(in_use(d), 0);
  td_tensor t = block(d, 80 * MIB); /* all of it is whole again */
  td_tensor_release(&t);
  drop_card(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_limit_before_it_is_used),
      cmocka_unit_test(test_the_card_refuses),
      cmocka_unit_test(test_copies_need_not_wait),
      cmocka_unit_test(test_they_take_no_more_than_a_share),
      cmocka_unit_test(test_pinned_memory),
      cmocka_unit_test(test_by_chance),
  };
  return cmocka_run_group_tests(tests, begin, NULL);
}
