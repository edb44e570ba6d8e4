/* segments.c - tests of engine/remote/segments.h: the owner's side.
 *
 * What was put is read back through views of the same process; other processes
 * are in segment_views.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/philox.h"
#include "engine/base/thread.h"
#include "engine/remote/segment_views.h"

enum { OWNER = 0x1234, PEER = 7, MIB = 1 << 20 };
enum { SMALLEST = (4 << 20) + (64 << 10) }; /* bytes of a first segment */

static char *noise; /* NOISE bytes */
enum { NOISE = 1 << 20 };

static int make_noise(void **state) {
  (void)state;
  noise = malloc(NOISE);
  for (size_t i = 0; i < NOISE; i++) noise[i] = (char)(i * i + i / 251);
  return 0;
}

static int count_descriptors(void) {
  DIR *d = opendir("/proc/self/fd");
  int n = 0;
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

/* The place has `len` bytes that are those at `from`. */
static void check_place(td_segment_views *v, const td_segment_place *p,
                        const char *from, size_t len) {
  char *to = malloc(len ? len : 1);
  assert_true(p->len == len);
  OK(td_segment_views_read(v, OWNER, p, to));
  assert_memory_equal(to, from, len);
  free(to);
}

/* ---- tests --------------------------------------------------------------- */

static void puts_and_frees(void **state) {
  (void)state;
  int before = count_descriptors();
  td_segments *t = td_segments_new(OWNER, 64 * MIB, 64 * MIB);
  td_segment_views *v = td_segment_views_new(64 * MIB);
  td_segment_place a, b, c;
  OK(td_segments_put(t, PEER, noise, 100000, &a));
  OK(td_segments_put(t, PEER, noise + 5, 0, &b));
  OK(td_segments_put(t, PEER, noise + 9, 1, &c));
  check_place(v, &a, noise, 100000);
  check_place(v, &b, noise + 5, 0);
  check_place(v, &c, noise + 9, 1);
  td_segments_stats s = td_segments_read_stats(t);
  assert_int_equal(s.segments, 1);
  assert_int_equal(s.blocks, 3);
  assert_int_equal(s.used, 100032 + 64 + 64);
  assert_true(td_segments_done(t, PEER, &a));
  assert_false(td_segments_done(t, PEER, &a)); /* once */
  assert_true(td_segments_done(t, PEER, &c));
  assert_true(td_segments_done(t, PEER, &b));
  assert_int_equal(td_segments_read_stats(t).used, 0);
  td_segment_place d;
  OK(td_segments_put(t, PEER, noise, NOISE, &d)); /* they are one again */
  assert_int_equal(d.offset, a.offset);
  assert_int_equal(td_segments_read_stats(t).made, 1);
  td_segment_views_free(v);
  td_segments_free(t);
  td_segments_free(NULL);
  td_segment_views_free(NULL);
  assert_int_equal(count_descriptors(), before);
}

static void done_believes_nothing(void **state) {
  (void)state;
  td_segments *t = td_segments_new(OWNER, 64 * MIB, 64 * MIB);
  td_segment_place a, wrong;
  OK(td_segments_put(t, PEER, noise, 1000, &a));
  assert_false(td_segments_done(t, PEER + 1, &a));
  wrong = a, wrong.offset += 64;
  assert_false(td_segments_done(t, PEER, &wrong));
  wrong = a, wrong.len = 5000;
  assert_false(td_segments_done(t, PEER, &wrong));
  wrong = a, wrong.len = UINT64_MAX;
  assert_false(td_segments_done(t, PEER, &wrong));
  wrong = a, wrong.offset = a.offset + 1024; /* the free block behind it */
  wrong.len = SMALLEST - 64 - 1024;
  assert_false(td_segments_done(t, PEER, &wrong));
  wrong = a, wrong.segment[6] ^= 1;
  assert_false(td_segments_done(t, PEER, &wrong));
  memset(wrong.segment, 'x', sizeof wrong.segment);
  assert_false(td_segments_done(t, PEER, &wrong));
  assert_true(td_segments_done(t, PEER, &a));
  td_segments_free(t);
}

static void there_are_limits(void **state) {
  (void)state;
  td_segments *t = td_segments_new(OWNER, 2 * SMALLEST, 3 * SMALLEST);
  td_segment_place a, b, c, d;
  OK(td_segments_put(t, 1, noise, MIB, &a)); /* 4 MiB */
  FAILS(td_segments_put(t, 1, noise, 9 * MIB, &b), TD_RESOURCE_EXHAUSTED,
        "the limits of 8519680 and 12779520");
  FAILS(td_segments_put(t, 1, noise, SIZE_MAX, &b), TD_RESOURCE_EXHAUSTED,
        "fits no memory");
  FAILS(td_segments_put(t, 1, noise, SIZE_MAX / 4, &b), TD_RESOURCE_EXHAUSTED,
        "bytes");
  for (int i = 0; i < 7; i++) OK(td_segments_put(t, 1, noise, MIB, &b));
  OK(td_segments_put(t, 2, noise, MIB, &c)); /* 4 MiB more: 12 */
  FAILS(td_segments_put(t, 3, noise, 10, &d), TD_RESOURCE_EXHAUSTED, "for all");
  assert_true(td_segments_done(t, 2, &c)); /* idle: makes room for another */
  OK(td_segments_put(t, 3, noise, 10, &d));
  td_segments_stats s = td_segments_read_stats(t);
  assert_int_equal(s.held, 3 * SMALLEST);
  assert_int_equal(s.segments, 3);
  td_segments_drop_peer(t, 1);
  assert_int_equal(td_segments_read_stats(t).held, SMALLEST);
  OK(td_segments_put(t, 3, noise, MIB, &d));
  td_segments_free(t);
}

/* Memory that idles is given up only where it helps. */
static void idle_segments_stay(void **state) {
  (void)state;
  td_segments *t = td_segments_new(OWNER, 2 * SMALLEST, 3 * SMALLEST);
  td_segment_place a, b;
  OK(td_segments_put(t, 1, noise, MIB, &a));
  OK(td_segments_put(t, 2, noise, MIB, &b));
  assert_true(td_segments_done(t, 2, &b));
  for (int i = 0; i < 7; i++) OK(td_segments_put(t, 1, noise, MIB, &a));
  FAILS(td_segments_put(t, 1, noise, MIB, &a), TD_RESOURCE_EXHAUSTED, "limit");
  assert_int_equal(td_segments_read_stats(t).segments, 3);
  td_segments_trim(t, td_clock_now() - 1000000000);
  assert_int_equal(td_segments_read_stats(t).segments, 3);
  td_segments_trim(t, td_clock_now() + 1);
  assert_int_equal(td_segments_read_stats(t).segments, 2);
  td_segments_free(t);
}

/* Segments double. */
static void few_segments(void **state) {
  (void)state;
  td_segments *t = td_segments_new(OWNER, 512ul * MIB, 512ul * MIB);
  td_segment_place p;
  for (int i = 0; i < 250; i++) OK(td_segments_put(t, PEER, noise, MIB, &p));
  td_segments_stats s = td_segments_read_stats(t);
  assert_int_equal(s.blocks, 250);
  assert_true(s.segments <= 8);
  assert_true(s.held <= 320ul * MIB);
  td_segments_free(t);
}

typedef struct item {
  td_segment_place place;
  size_t from;
  bool there;
} item;

static bool apart(const item *a, const item *b) {
  return strcmp(a->place.segment, b->place.segment) != 0 ||
         a->place.offset + a->place.len <= b->place.offset ||
         b->place.offset + b->place.len <= a->place.offset;
}

/* Random puts and frees: what is there stays as it was, nothing overlaps. */
static void random_puts(void **state) {
  (void)state;
  enum { ITEMS = 60, STEPS = 10000, PEERS = 3 };
  static item items[ITEMS];
  td_segments *t = td_segments_new(OWNER, 24 * MIB, 48 * MIB);
  td_segment_views *v = td_segment_views_new(64 * MIB);
  td_philox ph;
  int refused = 0;
  td_philox_init(&ph, 3, 4);
  for (int step = 0; step < STEPS; step++) {
    uint32_t r[4];
    td_philox_next(&ph, r);
    uint64_t peer = r[0] % ITEMS % PEERS;
    item *x = &items[r[0] % ITEMS];
    if (x->there) {
      check_place(v, &x->place, noise + x->from, x->place.len);
      assert_true(td_segments_done(t, peer, &x->place));
      x->there = false;
      continue;
    }
    size_t len = r[1] % (r[2] % 8 ? 70000 : NOISE);
    x->from = r[3] % (NOISE - len);
    td_status *s = td_segments_put(t, peer, noise + x->from, len, &x->place);
    x->there = td_ok(s);
    refused += !x->there;
    td_status_release(s);
    for (int i = 0; i < ITEMS && x->there; i++)
      if (items[i].there && &items[i] != x) assert_true(apart(&items[i], x));
  }
  assert_true(refused < STEPS / 10);
  for (int i = 0; i < ITEMS; i++)
    if (items[i].there)
      assert_true(td_segments_done(t, (uint64_t)i % PEERS, &items[i].place));
  td_segments_stats s = td_segments_read_stats(t);
  assert_int_equal(s.blocks, 0);
  assert_int_equal(s.used, 0);
  td_segment_views_free(v);
  td_segments_free(t);
}

/* Threads put, read and free for peers that another thread drops. */
typedef struct shared {
  td_segments *t;
  td_segment_views *v;
  int stop; /* atomic */
} shared;

typedef struct putter {
  shared *with;
  uint64_t peer;
  int done;
} putter;

static void *put_and_free(void *arg) {
  putter *me = arg;
  shared *w = me->with;
  char *to = malloc(300000);
  td_segment_place p[4];
  for (int round = 0; round < 300; round++) {
    bool there[4];
    for (int i = 0; i < 4; i++) {
      td_status *s = td_segments_put(w->t, me->peer, noise + round * 10 + i,
                                     300000 >> (round + i) % 8, &p[i]);
      there[i] = td_ok(s);
      td_status_release(s);
    }
    for (int i = 0; i < 4; i++) {
      if (!there[i]) continue;
      td_status *s = td_segment_views_read(w->v, OWNER, &p[i], to);
      if (td_ok(s) && me->peer > 1) {
        assert_memory_equal(to, noise + round * 10 + i, p[i].len);
        me->done++;
      }
      td_status_release(s);
      td_segments_done(w->t, me->peer, &p[i]);
    }
  }
  free(to);
  return NULL;
}

static void *drop_peers(void *arg) {
  shared *w = arg;
  while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
    td_segments_drop_peer(w->t, 0);
    td_segments_drop_peer(w->t, 1);
    td_segments_trim(w->t, td_clock_now() - 100000);
    td_segment_views_trim(w->v);
  }
  return NULL;
}

static void threads_put_and_free(void **state) {
  (void)state;
  enum { THREADS = 6 };
  shared w = {td_segments_new(OWNER, 16 * MIB, 64 * MIB),
              td_segment_views_new(256 * MIB), 0};
  pthread_t thread[THREADS], dropper;
  putter p[THREADS];
  int before = count_descriptors();
  assert_true(td_thread_start(&dropper, "drop", -1, drop_peers, &w));
  for (int i = 0; i < THREADS; i++) {
    p[i] = (putter){&w, (uint64_t)(i % 4), 0};
    assert_true(td_thread_start(&thread[i], "put", -1, put_and_free, &p[i]));
  }
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  __atomic_store_n(&w.stop, 1, __ATOMIC_RELEASE);
  pthread_join(dropper, NULL);
  assert_true(p[2].done > 0 && p[3].done > 0);
  assert_int_equal(td_segments_read_stats(w.t).blocks, 0);
  td_segments_free(w.t);
  td_segment_views_free(w.v);
  assert_int_equal(count_descriptors(), before);
}

/* ---- the system says no -------------------------------------------------- */

static void without_memory(void **state) {
  (void)state;
  for (int n = 1; n < 12; n++) {
    td_segment_place p[20];
    td_mem_fail(n, false);
    td_segments *t = td_segments_new(OWNER, 64 * MIB, 64 * MIB);
    int refused = 0;
    for (int i = 0; t && i < 20; i++) {
      td_status *s = td_segments_put(t, PEER, noise, 300000, &p[i]);
      if (td_ok(s)) continue;
      assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
      td_status_release(s);
      refused++;
      OK(td_segments_put(t, PEER, noise, 300000, &p[i]));
    }
    td_mem_fail(0, false);
    assert_true(refused <= 1);
    for (int i = 0; t && i < 20; i++)
      assert_true(td_segments_done(t, PEER, &p[i]));
    if (t) assert_int_equal(td_segments_read_stats(t).blocks, 0);
    td_segments_free(t);
  }
}

/* Neither pages nor descriptors: an error, no signal, nothing left behind. */
static void without_room(void **state) {
  (void)state;
  struct rlimit size, files;
  td_segment_place p;
  td_segments *t = td_segments_new(OWNER, 64 * MIB, 64 * MIB);
  getrlimit(RLIMIT_FSIZE, &size);
  getrlimit(RLIMIT_NOFILE, &files);
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){2 * MIB, size.rlim_max});
  FAILS(td_segments_put(t, PEER, noise, 1000, &p), TD_RESOURCE_EXHAUSTED,
        "no shared memory of 4259840 bytes");
  setrlimit(RLIMIT_FSIZE, &size);
  signal(SIGXFSZ, SIG_DFL);
  setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, files.rlim_max});
  FAILS(td_segments_put(t, PEER, noise, 1000, &p), TD_RESOURCE_EXHAUSTED,
        "open files");
  setrlimit(RLIMIT_NOFILE, &files);
  td_segments_stats s = td_segments_read_stats(t);
  assert_int_equal(s.held, 0);
  OK(td_segments_put(t, PEER, noise, 1000, &p));
  td_segments_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(puts_and_frees),
      cmocka_unit_test(done_believes_nothing),
      cmocka_unit_test(there_are_limits),
      cmocka_unit_test(idle_segments_stay),
      cmocka_unit_test(few_segments),
      cmocka_unit_test(random_puts),
      cmocka_unit_test(threads_put_and_free),
      cmocka_unit_test(without_memory),
      cmocka_unit_test(without_room),
  };
  int failed = cmocka_run_group_tests(tests, make_noise, NULL);
  free(noise);
  return failed;
}
