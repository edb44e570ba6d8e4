/* channel_zmq_flood.c - tests of engine/remote/channel_zmq_flood.c: who makes
 * too many connections waits, and nobody else does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/remote/channel_zmq_pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "engine/remote/channel_zmq_impl.h"

enum { A_SECOND = 4, AT_ONCE = 8 * A_SECOND };

typedef struct flood {
  channel_pair p;
  td_link *there, *back;
  int open[4 * AT_ONCE], n;
} flood;

static bool tcp_at(channel_pair *p, const char *listen, int connections) {
  td_channel_zmq_options a = with_key(0, listen), b = with_key(1, NULL);
  td_channel *c;
  a.connections = connections;
  td_status *s = td_channel_zmq_new(&a, &c);
  bool can = td_ok(s);
  td_status_release(s);
  if (!can) return false;
  c->ops->free(c);
  join(p, &a, &b);
  return true;
}

/* A connection to the control lane of port `at`, begun: its descriptor. */
static int begin(const channel_pair *p, const char *from) {
  bool six = strchr(from, ':') != NULL;
  uint16_t port = htons((uint16_t)atoi(strrchr(p->to.control, ':') + 1));
  struct sockaddr_in four = {.sin_family = AF_INET};
  struct sockaddr_in6 long_one = {.sin6_family = AF_INET6,
                                  .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  struct sockaddr *at =
      six ? (struct sockaddr *)&long_one : (struct sockaddr *)&four;
  socklen_t len = six ? sizeof long_one : sizeof four;
  int s = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  assert_true(s >= 0);
  if (!six) assert_int_equal(inet_pton(AF_INET, from, &four.sin_addr), 1);
  assert_int_equal(bind(s, at, len), 0);
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  four.sin_port = long_one.sin6_port = port;
  if (connect(s, at, len) != 0) assert_int_equal(errno, EINPROGRESS);
  return s;
}

static bool is_there(int s) {
  struct pollfd p = {.fd = s, .events = POLLOUT};
  return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

static bool is_anybody_out(const channel_pair *p) {
  return ((td_zmq *)p->listener.c)->flood.until != INT64_MAX;
}

/* It grows with each that is counted. */
static int64_t counted(const channel_pair *p) {
  int64_t sum = 0;
  for (int i = 0; i < TD_ZMQ_PLACES; i++)
    sum += ((td_zmq *)p->listener.c)->flood.places[i].due;
  return sum;
}

/* Connections until no more are taken. */
static void flood_from(flood *f, const char *from) {
  f->n = 0;
  while (!is_anybody_out(&f->p)) {
    int64_t before = counted(&f->p);
    assert_true(f->n < (int)TD_COUNT(f->open));
    f->open[f->n++] = begin(&f->p, from);
    AWAIT(&f->p, counted(&f->p) != before);
  }
}

static void leave(flood *f) {
  for (int i = 0; i < f->n; i++) close(f->open[i]);
  f->n = 0;
}

static void say_both_ways(flood *f) {
  side_forget(&f->p.listener);
  side_forget(&f->p.dialler);
  OK(send_one(f->there, TD_LANE_CONTROL, 5, 1));
  OK(send_one(f->back, TD_LANE_CONTROL, 5, 2));
  AWAIT(&f->p, f->p.listener.got.len == 1 && f->p.dialler.got.len == 1);
}

/* Of a link that is there nothing is lost. Who is out comes in later. */
static void test_waits(void **state) {
  (void)state;
  flood f;
  if (!tcp_at(&f.p, "tcp://127.0.0.1:0", A_SECOND)) fail();
  f.there = dial_up(&f.p, &f.back);
  flood_from(&f, "127.0.0.1");
  assert_true(f.n >= AT_ONCE - 2 /* the link's */ - 1);
  int late = begin(&f.p, "127.0.0.1"), other = begin(&f.p, "127.0.0.2");
  AWAIT(&f.p, is_there(other));
  say_both_ways(&f);
  AWAIT(&f.p, !is_anybody_out(&f.p));
  AWAIT(&f.p, is_there(late));
  say_both_ways(&f);
  close(late);
  close(other);
  leave(&f);
  assert_int_equal(f.p.listener.troubles[TD_TROUBLE_LOST], 0);
  all_released(&f.p);
}

/* While one is out it gets no answer, and another does. */
static void test_is_dropped(void **state) {
  (void)state;
  flood f;
  if (!tcp_at(&f.p, "tcp://127.0.0.1:0", A_SECOND)) fail();
  flood_from(&f, "127.0.0.3");
  /* The listener does not look any more, and so nobody is let in. */
  int late = begin(&f.p, "127.0.0.3"), other = begin(&f.p, "127.0.0.2");
  struct pollfd both[] = {{.fd = late, .events = POLLOUT},
                          {.fd = other, .events = POLLOUT}};
  assert_int_equal(poll(both + 1, 1, 60000), 1);
  assert_int_equal(poll(both, 1, 1500), 0); /* asked twice */
  AWAIT(&f.p, is_there(late));
  close(late);
  close(other);
  leave(&f);
  all_released(&f.p);
}

/* By IPv6, and by IPv4 at a socket of IPv6. */
static void test_long_addresses(void **state) {
  (void)state;
  flood f;
  if (!tcp_at(&f.p, "tcp://[::1]:0", A_SECOND)) skip();
  flood_from(&f, "::1");
  assert_true(f.n >= AT_ONCE - 1);
  int late = begin(&f.p, "::1");
  struct pollfd one = {.fd = late, .events = POLLOUT};
  assert_int_equal(poll(&one, 1, 200), 0);
  AWAIT(&f.p, is_there(late));
  close(late);
  leave(&f);
  all_released(&f.p);
  if (!tcp_at(&f.p, "tcp://[::]:0", A_SECOND)) skip();
  flood_from(&f, "127.0.0.1");
  late = begin(&f.p, "127.0.0.1");
  int other = begin(&f.p, "127.0.0.2"), third = begin(&f.p, "::1");
  struct pollfd all[] = {{.fd = other, .events = POLLOUT},
                         {.fd = third, .events = POLLOUT},
                         {.fd = late, .events = POLLOUT}};
  assert_int_equal(poll(all, 1, 60000), 1);
  assert_int_equal(poll(all + 1, 1, 60000), 1);
  assert_int_equal(poll(all + 2, 1, 200), 0);
  close(late);
  close(other);
  close(third);
  leave(&f);
  all_released(&f.p);
}

/* More addresses than are known: those beyond count together. */
static void test_many_addresses(void **state) {
  (void)state;
  flood f;
  char from[32];
  if (!tcp_at(&f.p, "tcp://127.0.0.1:0", 1)) fail();
  for (int i = 0; i < 2000 && !is_anybody_out(&f.p); i++) {
    snprintf(from, sizeof from, "127.0.%d.%d", 1 + i / 200, i % 200 + 1);
    int64_t before = counted(&f.p);
    int s = begin(&f.p, from);
    AWAIT(&f.p, counted(&f.p) != before);
    close(s);
  }
  AWAIT(&f.p, is_anybody_out(&f.p));
  int late = begin(&f.p, "127.0.0.9");
  struct pollfd one = {.fd = late, .events = POLLOUT};
  assert_int_equal(poll(&one, 1, 200), 0);
  AWAIT(&f.p, is_there(late));
  close(late);
  all_released(&f.p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_waits),
      cmocka_unit_test(test_is_dropped),
      cmocka_unit_test(test_long_addresses),
      cmocka_unit_test(test_many_addresses),
  };
  return cmocka_run_group_tests(tests, make_keys, NULL);
}
