/* rendezvous.c - values meet receivers: orders, aborts, races, no leaks.
 *
 * Every case runs for the slots of the root frame and for the table of loops.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <pthread.h>
#include <sched.h>

#include "engine/base/mem.h"
#include "engine/device/rendezvous.h"

enum { EDGES = 4 };

static td_rendezvous *fresh(void) {
  td_rendezvous *r = NULL;
  assert_null(td_rendezvous_new(EDGES, &r));
  return r;
}

/* Frame 0 is the root. */
static td_key key(int32_t edge, uint64_t frame) {
  return (td_key){.edge = edge, .frame = frame, .iteration = frame ? 7 : 0};
}

static td_tensor number(int64_t v) {
  td_tensor t;
  assert_null(td_tensor_scalar_i(TD_INT64, v, &t));
  return t;
}

static td_code send(td_rendezvous *r, td_key k, int64_t v) {
  td_tensor t = number(v);
  td_status *s = td_rendezvous_send(r, k, &t, false);
  td_code code = td_status_code(s);
  td_status_release(s);
  assert_false(td_tensor_valid(&t)); /* taken in any case */
  return code;
}

static td_code send_dead(td_rendezvous *r, td_key k) {
  td_tensor t = {0};
  td_status *s = td_rendezvous_send(r, k, &t, true);
  td_code code = td_status_code(s);
  td_status_release(s);
  return code;
}

/* A receiver that keeps what it got. */
typedef struct taker {
  td_receiver base; /* first */
  int got;
  int64_t value;
  bool dead;
  td_code code;
} taker;

static void take(td_receiver *who, td_tensor value, bool dead, td_status *s) {
  taker *t = (taker *)who;
  t->got++;
  t->dead = dead;
  t->code = td_status_code(s);
  if (td_tensor_valid(&value)) t->value = td_tensor_get_i(&value, 0);
  td_tensor_release(&value);
  td_status_release(s);
}

static void receive(td_rendezvous *r, td_key k, taker *t) {
  *t = (taker){.base.got = take, .value = -1};
  td_rendezvous_receive(r, k, &t->base);
}

static void check(const taker *t, int64_t value, bool dead, td_code code) {
  assert_int_equal(t->got, 1);
  assert_int_equal(t->value, value);
  assert_int_equal(t->dead, dead);
  assert_int_equal(t->code, code);
}

#define FOR_FRAMES(f) for (uint64_t f = 0; f < 2; f++)

/* ---- meeting ------------------------------------------------------------- */

static void test_either_order(void **state) {
  (void)state;
  FOR_FRAMES(f) {
    td_rendezvous *r = fresh();
    taker a, b, c, d;
    for (int round = 0; round < 3; round++) {
      assert_int_equal(send(r, key(0, f), 10), TD_OK);
      receive(r, key(0, f), &a);
      check(&a, 10, false, TD_OK);
      receive(r, key(1, f), &b);
      assert_int_equal(b.got, 0);
      assert_int_equal(send(r, key(1, f), 11), TD_OK);
      check(&b, 11, false, TD_OK);
      assert_int_equal(send_dead(r, key(2, f)), TD_OK);
      receive(r, key(2, f), &c);
      check(&c, -1, true, TD_OK);
      receive(r, key(3, f), &d);
      assert_int_equal(send_dead(r, key(3, f)), TD_OK);
      check(&d, -1, true, TD_OK);
      td_rendezvous_reset(r);
    }
    td_rendezvous_free(r);
  }
}

/* Iterations and frames of one edge are different keys; many of them make the
 * table grow. */
static void test_keys_are_apart(void **state) {
  enum { MANY = 1000 };
  td_rendezvous *r = fresh();
  (void)state;
  for (int i = 0; i < MANY; i++)
    assert_int_equal(send(r, (td_key){1, (uint64_t)(i % 3 + 1), i / 3}, i),
                     TD_OK);
  for (int i = MANY; i-- > 0;) {
    taker t;
    receive(r, (td_key){1, (uint64_t)(i % 3 + 1), i / 3}, &t);
    check(&t, i, false, TD_OK);
  }
  td_rendezvous_free(r);
}

static void test_misuse(void **state) {
  (void)state;
  FOR_FRAMES(f) {
    td_rendezvous *r = fresh();
    taker a, b, c;
    assert_int_equal(send(r, key(EDGES, f), 1), TD_INTERNAL);
    assert_int_equal(send(r, key(-1, f), 1), TD_INTERNAL);
    receive(r, key(EDGES, f), &a);
    check(&a, -1, false, TD_INTERNAL);
    assert_int_equal(send(r, key(0, f), 1), TD_OK);
    assert_int_equal(send(r, key(0, f), 2), TD_INTERNAL);
    receive(r, key(0, f), &a);
    check(&a, 1, false, TD_OK);
    receive(r, key(1, f), &b);
    receive(r, key(1, f), &c);
    check(&c, -1, false, TD_INTERNAL);
    assert_int_equal(send(r, key(1, f), 3), TD_OK);
    check(&b, 3, false, TD_OK);
    assert_int_equal(send(r, key(2, f), 4), TD_OK); /* dropped at the end */
    td_rendezvous_free(r);
  }
}

/* ---- what was only offered ------------------------------------------------
 */

static const bool from_far[EDGES] = {true, true, true, false};

typedef struct asked {
  td_rendezvous *r;
  int times;
  td_key last;
  bool sends; /* at once */
} asked;

static void on_wanted(void *arg, td_key k) {
  asked *a = arg;
  a->times++;
  a->last = k;
  if (a->sends) assert_int_equal(send(a->r, k, 30), TD_OK);
}

/* Asked for once, when it is waited for and not there. */
static void test_wanted(void **state) {
  (void)state;
  FOR_FRAMES(f) {
    asked a = {.r = fresh()};
    taker t, again;
    td_rendezvous_expect(a.r, from_far, on_wanted, &a);
    assert_int_equal(send(a.r, key(0, f), 1), TD_OK);
    receive(a.r, key(0, f), &t); /* it is there */
    receive(a.r, key(3, f), &t); /* it comes from here */
    assert_int_equal(send(a.r, key(3, f), 2), TD_OK);
    check(&t, 2, false, TD_OK);
    receive(a.r, key(EDGES, f), &t); /* there is no such edge */
    assert_int_equal(a.times, 0);
    receive(a.r, key(1, f), &t);
    assert_int_equal(a.times, 1);
    assert_int_equal(a.last.edge, 1);
    assert_int_equal(a.last.frame, f);
    assert_int_equal(a.last.iteration, key(1, f).iteration);
    receive(a.r, key(1, f), &again); /* a mistake: nobody is asked twice */
    check(&again, -1, false, TD_INTERNAL);
    assert_int_equal(t.got, 0);
    assert_int_equal(send(a.r, key(1, f), 3), TD_OK);
    check(&t, 3, false, TD_OK);
    a.sends = true;
    receive(a.r, key(2, f), &t);
    check(&t, 30, false, TD_OK);
    assert_int_equal(a.times, 2);
    td_rendezvous_free(a.r);
  }
}

static void abort_with(td_rendezvous *r, td_code code);

/* Nor when all is over, nor when nobody asks any more. */
static void test_not_wanted(void **state) {
  (void)state;
  FOR_FRAMES(f) {
    asked a = {.r = fresh()};
    taker t;
    td_rendezvous_expect(a.r, from_far, on_wanted, &a);
    abort_with(a.r, TD_ABORTED);
    receive(a.r, key(0, f), &t);
    check(&t, -1, false, TD_ABORTED);
    td_rendezvous_reset(a.r);
    td_rendezvous_expect(a.r, NULL, NULL, NULL);
    receive(a.r, key(0, f), &t);
    assert_int_equal(send(a.r, key(0, f), 1), TD_OK);
    check(&t, 1, false, TD_OK);
    assert_int_equal(a.times, 0);
    td_rendezvous_free(a.r);
  }
}

/* ---- aborting ------------------------------------------------------------ */

static void abort_with(td_rendezvous *r, td_code code) {
  td_status *s = td_error(code, "gone");
  td_rendezvous_abort(r, s);
  td_status_release(s);
}

static void test_abort(void **state) {
  (void)state;
  FOR_FRAMES(f) {
    td_rendezvous *r = fresh();
    taker a, b, c;
    td_tensor held = number(5), sent;
    td_tensor_retain(&held, &sent);
    receive(r, key(0, f), &a);
    OK(td_rendezvous_send(r, key(1, f), &sent, false));
    assert_false(td_buffer_sole(held.buffer));
    abort_with(r, TD_ABORTED);
    abort_with(r, TD_UNAVAILABLE);            /* the first counts */
    assert_true(td_buffer_sole(held.buffer)); /* nobody will fetch it */
    td_tensor_release(&held);
    check(&a, -1, false, TD_ABORTED);
    receive(r, key(1, f), &b);
    check(&b, -1, false, TD_ABORTED);
    receive(r, key(2, f), &c);
    check(&c, -1, false, TD_ABORTED);
    assert_int_equal(send(r, key(3, f), 6), TD_ABORTED);
    td_rendezvous_reset(r);
    assert_int_equal(send(r, key(0, f), 7), TD_OK);
    receive(r, key(0, f), &a);
    check(&a, 7, false, TD_OK);
    td_rendezvous_free(r);
  }
}

/* ---- races --------------------------------------------------------------- */

enum { ROUNDS = 3000 };

typedef struct race {
  td_rendezvous *r;
  uint64_t frame;
  bool aborts;
  int64_t gate; /* atomic: arrivals of both */
  taker takers[EDGES];
  int64_t sent;
} race;

static void meet(race *x) {
  int64_t both = __atomic_fetch_add(&x->gate, 1, __ATOMIC_ACQ_REL) / 2 * 2 + 2;
  while (__atomic_load_n(&x->gate, __ATOMIC_ACQUIRE) < both) sched_yield();
}

static void *sender(void *arg) {
  race *x = arg;
  for (int round = 0; round < ROUNDS; round++) {
    meet(x);
    for (int i = 0; i < EDGES; i++) {
      if (x->aborts && i == round % EDGES)
        abort_with(x->r, TD_ABORTED);
      else if (send(x->r, key(i, x->frame), round * EDGES + i) == TD_OK)
        x->sent++;
    }
    meet(x);
  }
  return NULL;
}

/* Each receiver hears exactly once; what came is what was sent. */
static void run_race(uint64_t frame, bool aborts, bool asks) {
  static race x;
  pthread_t thread;
  int64_t got = 0;
  asked a = {0};
  x = (race){.r = fresh(), .frame = frame, .aborts = aborts};
  if (asks) td_rendezvous_expect(x.r, from_far, on_wanted, &a);
  assert_int_equal(pthread_create(&thread, NULL, sender, &x), 0);
  for (int round = 0; round < ROUNDS; round++) {
    meet(&x);
    for (int i = EDGES; i-- > 0;) receive(x.r, key(i, frame), &x.takers[i]);
    meet(&x);
    for (int i = 0; i < EDGES; i++) {
      assert_int_equal(x.takers[i].got, 1);
      if (x.takers[i].code != TD_OK) continue;
      assert_int_equal(x.takers[i].value, round * EDGES + i);
      got++;
    }
    td_rendezvous_reset(x.r);
  }
  pthread_join(thread, NULL);
  if (!aborts) assert_int_equal(got, (int64_t)ROUNDS * EDGES);
  assert_true(got <= x.sent);
  assert_true(a.times <= (asks ? ROUNDS * (EDGES - 1) : 0));
  td_rendezvous_free(x.r);
}

static void test_race(void **state) {
  (void)state;
  FOR_FRAMES(f) run_race(f, false, false);
  FOR_FRAMES(f) run_race(f, false, true);
}

static void test_race_with_abort(void **state) {
  (void)state;
  FOR_FRAMES(f) run_race(f, true, false);
  FOR_FRAMES(f) run_race(f, true, true);
}

/* ---- memory -------------------------------------------------------------- */

static void test_without_memory(void **state) {
  td_rendezvous *r = NULL;
  (void)state;
  for (int n = 1; n <= 2; n++) {
    td_mem_fail(n, false);
    assert_ptr_equal(td_rendezvous_new(EDGES, &r), td_oom());
  }
  td_mem_fail(0, false);
  r = fresh();
  for (int n = 1; n <= 2; n++) { /* a parcel, the first buckets */
    td_tensor t = number(1);
    td_mem_fail(n, false);
    assert_ptr_equal(td_rendezvous_send(r, key(0, 1), &t, false), td_oom());
    td_mem_fail(0, false);
  }
  taker a;
  td_mem_fail(1, false);
  receive(r, key(0, 1), &a);
  td_mem_fail(0, false);
  check(&a, -1, false, TD_RESOURCE_EXHAUSTED);
  td_rendezvous_free(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_either_order),
      cmocka_unit_test(test_keys_are_apart),
      cmocka_unit_test(test_misuse),
      cmocka_unit_test(test_wanted),
      cmocka_unit_test(test_not_wanted),
      cmocka_unit_test(test_abort),
      cmocka_unit_test(test_race),
      cmocka_unit_test(test_race_with_abort),
      cmocka_unit_test(test_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
