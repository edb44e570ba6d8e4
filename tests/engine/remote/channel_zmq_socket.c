/* channel_zmq_socket.c - tests of engine/remote/channel_zmq_socket.c: no signal
 * of a socket is lost, whoever takes it, and nobody wakes for nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/remote/channel_zmq_pair.h"

#include <pthread.h>

#include "engine/base/thread.h"

/* ---- wait and wake ------------------------------------------------------- */

/* In ms: a wait of this is cut short by what it waits for, before its half. */
enum { LONG = 60000 };

static int64_t waited(td_channel *c, int64_t ms) {
  int64_t start = td_clock_now();
  c->ops->wait(c, start + ms * MS);
  return (td_clock_now() - start) / MS;
}

static void *wake_later(void *arg) {
  td_channel *c = arg;
  usleep(30000);
  c->ops->wake(c);
  return NULL;
}

static void test_wait(void **state) {
  (void)state;
  channel_pair p;
  td_link *back;
  pthread_t thread;
  ipc(&p);
  td_link *there = dial_up(&p, &back);
  pair_idle(&p);
  td_channel *c = p.listener.c;
  /* It sleeps, and no longer than it is told. */
  assert_true(waited(c, 60) >= 59);
  assert_true(waited(c, -5) < LONG / 2);
  /* A wake is heard before, during, and once. */
  c->ops->wake(c);
  c->ops->wake(c);
  assert_true(waited(c, LONG) < LONG / 2);
  assert_true(waited(c, 60) >= 59);
  assert_true(td_thread_start(&thread, "wake", -1, wake_later, c));
  assert_true(waited(c, LONG) < LONG / 2);
  pthread_join(thread, NULL);
  /* A message, until it was taken. */
  OK(send_one(there, TD_LANE_DATA, 5, 5));
  assert_true(waited(c, LONG) < LONG / 2);
  assert_true(waited(c, LONG) < LONG / 2);
  AWAIT(&p, p.listener.got.len == 1);
  assert_true(waited(c, 60) >= 59);
  all_released(&p);
}

/* A message whose signal a send of the same thread may have taken, and one that
 * drain left there. */
static void test_wait_after_send(void **state) {
  (void)state;
  channel_pair p;
  td_link *back;
  ipc(&p);
  td_link *there = dial_up(&p, &back);
  td_channel *c = p.listener.c;
  for (unsigned i = 0; i < 200; i++) {
    OK(send_one(there, i % 2, 5, i));
    if (i % 3) usleep(i * 5 % 400);
    OK(send_one(back, i % 2, 5, i));
    assert_true(waited(c, LONG) < LONG / 2);
    AWAIT(&p, p.listener.got.len == 1);
    side_forget(&p.listener);
  }
  for (unsigned i = 0; i < 3; i++) OK(send_one(there, TD_LANE_DATA, 5, i));
  for (size_t i = 1; i <= 3; i++)
    while (p.listener.got.len < i) {
      assert_true(waited(c, LONG) < LONG / 2);
      c->ops->drain(c, 1);
    }
  all_released(&p);
}

static bool nobody(void *arg, const char *key) {
  (void)arg, (void)key;
  return false;
}

/* While a refused link waits to be dialled again, `wait` ends in time for it.
 */
static void test_retry(void **state) {
  (void)state;
  channel_pair p;
  td_channel_zmq_options a = with_key(0, "tcp://127.0.0.1:0"),
                         b = with_key(1, NULL);
  a.allow = nobody;
  join(&p, &a, &b);
  dial_to(&p);
  AWAIT(&p, p.dialler.troubles[TD_TROUBLE_KEY] > 0);
  int64_t since = td_clock_now();
  pair_idle(&p); /* the other lane */
  assert_true(waited(p.dialler.c, LONG) < LONG / 2);
  assert_true(td_clock_now() - since > 500 * MS);
  all_released(&p);
}

/* ---- threads in turns ---------------------------------------------------- */

enum { WINDOW = 8 };

/* A channel, a thread that waits and drains, and one that only sends. */
typedef struct peer {
  pthread_mutex_t turn;
  td_channel *c;
  td_link *link;
  struct peer *other;
  int got;      /* atomic */
  int most;     /* to be sent by each */
  int64_t late; /* the most, in ns */
  int missed;   /* waits that ended by their deadline with messages under way */
  int bad;      /* atomic: order or content */
  int over;     /* atomic */
} peer;

static int load(const int *n) {
  return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static void blame(peer *p, bool is) {
  if (is) __atomic_store_n(&p->bad, 1, __ATOMIC_RELEASE);
}

typedef struct stamp {
  int64_t at;
  int n;
} stamp;

static void on_message(void *arg, td_link *l, td_lane lane, td_raw *frames,
                       int n) {
  peer *p = arg;
  stamp s;
  (void)lane;
  blame(p, n != 1 || frames[0].len != sizeof s);
  memcpy(&s, frames[0].at, sizeof s);
  td_raw_release(&frames[0]);
  if (s.n < 0) {
    p->link = l;
    return;
  }
  int64_t late = td_clock_now() - s.at;
  if (late > p->late) p->late = late;
  blame(p, s.n != p->got);
  __atomic_store_n(&p->got, s.n + 1, __ATOMIC_RELEASE);
}

static void on_trouble(void *arg, td_link *l, td_trouble what) {
  (void)arg, (void)l, (void)what;
}

static void *pump(void *arg) {
  peer *p = arg;
  while (!load(&p->over)) {
    int64_t until = td_clock_now() + LONG * (int64_t)MS;
    p->c->ops->wait(p->c, until);
    p->missed += td_clock_now() >= until;
    for (bool more = true; more;) {
      pthread_mutex_lock(&p->turn);
      more = p->c->ops->drain(p->c, 4);
      pthread_mutex_unlock(&p->turn);
    }
  }
  return NULL;
}

static td_status *say(peer *p, int n) {
  stamp s = {td_clock_now(), n};
  td_raw f = {&s, sizeof s, NULL, NULL};
  pthread_mutex_lock(&p->turn);
  td_status *status = p->c->ops->send(p->link, TD_LANE_CONTROL, &f, 1);
  if (td_status_code(status) == TD_UNAVAILABLE) td_raw_release(&f);
  pthread_mutex_unlock(&p->turn);
  return status;
}

/* Never more than WINDOW under way, so that what is late was missed. */
static void *talk(void *arg) {
  peer *p = arg;
  for (int n = 0; n < p->most && !load(&p->bad); n++) {
    td_status *s = say(p, n);
    blame(p, !td_ok(s));
    td_status_release(s);
    int burst = 1 + (n * 31 >> 4) % WINDOW;
    while (n + 1 - load(&p->other->got) >= burst && !load(&p->over)) usleep(10);
  }
  return NULL;
}

static void test_turns(void **state) {
  (void)state;
  channel_pair p;
  pthread_t threads[4];
  tcp(&p);
  peer a = {.turn = PTHREAD_MUTEX_INITIALIZER, .c = p.listener.c},
       b = {.turn = PTHREAD_MUTEX_INITIALIZER, .c = p.dialler.c};
  a.other = &b, b.other = &a;
  a.most = b.most = getenv("TIDE_SOAK") ? 100000 : 5000;
  a.c->events = (td_channel_events){on_message, on_trouble, &a};
  b.c->events = (td_channel_events){on_message, on_trouble, &b};
  OK(b.c->ops->dial(b.c, &p.to, &b.link));
  for (td_status *s; (s = say(&b, -1));) {
    td_status_release(s);
    rest(&p);
    pair_drain(&p);
  }
  while (!a.link) pair_drain(&p);
  assert_true(td_thread_start(&threads[0], "a", -1, pump, &a));
  assert_true(td_thread_start(&threads[1], "b", -1, pump, &b));
  assert_true(td_thread_start(&threads[2], "a2", -1, talk, &a));
  assert_true(td_thread_start(&threads[3], "b2", -1, talk, &b));
  int64_t until = td_clock_now() + 300000 * (int64_t)MS;
  while ((load(&a.got) < a.most || load(&b.got) < b.most) &&
         td_clock_now() < until)
    usleep(1000);
  __atomic_store_n(&a.over, 1, __ATOMIC_RELEASE);
  __atomic_store_n(&b.over, 1, __ATOMIC_RELEASE);
  a.c->ops->wake(a.c);
  b.c->ops->wake(b.c);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  print_message("latest of %d each way: %.1f and %.1f ms\n", a.most,
                (double)a.late / MS, (double)b.late / MS);
  assert_int_equal(a.got, a.most);
  assert_int_equal(b.got, b.most);
  assert_false(a.bad || b.bad);
  assert_int_equal(a.missed + b.missed, 0);
  /* A missed one is a minute late; on a busy machine nobody is on time. */
  assert_true(a.late < LONG / 2 * (int64_t)MS &&
              b.late < LONG / 2 * (int64_t)MS);
  pair_end(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_wait),
      cmocka_unit_test(test_wait_after_send),
      cmocka_unit_test(test_retry),
      cmocka_unit_test(test_turns),
  };
  return cmocka_run_group_tests(tests, make_keys, NULL);
}
