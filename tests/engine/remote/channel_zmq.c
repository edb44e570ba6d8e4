/* channel_zmq.c - tests of engine/remote/channel_zmq.c: the suite of channels
 * over ipc and over tcp with CURVE, what connections meet with, hostile peers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/remote/channel_zmq_pair.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "engine/remote/channel_zmq_impl.h"
#include "tests/engine/base/pipes.h"

SUITE_TESTS(ipc)
SUITE_TESTS(tcp)

/* ---- what connections meet with ------------------------------------------ */

static int *heard(channel_pair *p, td_trouble what) {
  return &p->dialler.troubles[what];
}

static bool on_list(void *arg, const char *key) {
  return *(const char **)arg && strcmp(*(const char **)arg, key) == 0;
}

/* The key is not on the list: said, again and again; once it is, all is well.
 */
static void test_key(void **state) {
  (void)state;
  const char *allowed = keys[2].public_key;
  channel_pair p;
  td_channel_zmq_options a = with_key(0, "tcp://127.0.0.1:0"),
                         b = with_key(1, NULL);
  a.allow = on_list, a.allow_arg = &allowed;
  join(&p, &a, &b);
  td_link *l = dial_to(&p);
  AWAIT(&p, *heard(&p, TD_TROUBLE_KEY) >= 2);
  FAILS(send_one(l, TD_LANE_CONTROL, 3, 3), TD_UNAVAILABLE, "no connection");
  allowed = keys[1].public_key;
  send_first(&p, l, TD_LANE_CONTROL, 3);
  AWAIT(&p, p.listener.got.len == 1);
  assert_int_equal(*heard(&p, TD_TROUBLE_LOST), 0);
  assert_int_equal(*heard(&p, TD_TROUBLE_UNREACHED), 0);
  assert_int_equal(*heard(&p, TD_TROUBLE_HANDSHAKE), 0);
  all_released(&p);
}

/* The key that was given is not that of who listens. */
static void test_wrong_key(void **state) {
  (void)state;
  channel_pair p;
  tcp(&p);
  p.to.key = keys[2].public_key;
  dial_to(&p);
  AWAIT(&p, *heard(&p, TD_TROUBLE_HANDSHAKE) > 0);
  assert_int_equal(*heard(&p, TD_TROUBLE_KEY), 0);
  assert_int_equal(*heard(&p, TD_TROUBLE_MECHANISM), 0);
  assert_int_equal(*heard(&p, TD_TROUBLE_LOST), 0);
  all_released(&p);
}

/* Who listens by ipc speaks no CURVE, whatever key he has. */
static void test_no_key_by_ipc(void **state) {
  (void)state;
  channel_pair p;
  td_link *back;
  td_channel_zmq_options a = {0}, b = with_key(1, NULL);
  join(&p, &a, &b);
  p.to.key = keys[0].public_key;
  td_link *there = dial_up(&p, &back);
  assert_null(there->key);
  assert_null(back->key);
  all_released(&p);
}

/* A link has the key that the other side has proved. */
static void test_proof(void **state) {
  (void)state;
  channel_pair p;
  td_link *back;
  tcp(&p);
  td_link *there = dial_up(&p, &back);
  assert_string_equal(there->key, keys[0].public_key);
  assert_string_equal(back->key, keys[1].public_key);
  all_released(&p);
}

/* Something else listens there. */
static void test_stranger(void **state) {
  (void)state;
  channel_pair p;
  char address[100];
  size_t len = sizeof address;
  void *context = zmq_ctx_new(), *rep = zmq_socket(context, ZMQ_REP);
  assert_int_equal(zmq_bind(rep, "tcp://127.0.0.1:*"), 0);
  assert_int_equal(zmq_getsockopt(rep, ZMQ_LAST_ENDPOINT, address, &len), 0);
  tcp(&p);
  p.to = (td_dial){address, NULL, keys[0].public_key};
  dial_to(&p);
  AWAIT(&p, *heard(&p, TD_TROUBLE_MECHANISM) > 0);
  pair_end(&p);
  zmq_close(rep);
  zmq_ctx_term(context);
}

static void *take_and_close(void *arg) {
  int fd, s = *(int *)arg;
  while ((fd = accept(s, NULL, NULL)) >= 0) close(fd);
  return NULL;
}

/* A forwarder takes connections and closes them: that is no wrong key, and who
 * is there later is reached. */
static void test_forwarder(void **state) {
  (void)state;
  channel_pair p;
  char address[32];
  pthread_t thread;
  struct sockaddr_in at = {.sin_family = AF_INET};
  socklen_t len = sizeof at;
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
  assert_int_equal(bind(s, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(s, 8), 0);
  assert_int_equal(getsockname(s, (struct sockaddr *)&at, &len), 0);
  assert_int_equal(pthread_create(&thread, NULL, take_and_close, &s), 0);
  snprintf(address, sizeof address, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
  tcp(&p);
  p.to = (td_dial){address, NULL, keys[0].public_key};
  td_link *l = dial_to(&p);
  AWAIT(&p, *heard(&p, TD_TROUBLE_CLOSED) > 1);
  assert_int_equal(*heard(&p, TD_TROUBLE_HANDSHAKE), 0);
  shutdown(s, SHUT_RDWR);
  pthread_join(thread, NULL);
  close(s);
  p.listener.c->ops->free(p.listener.c);
  td_channel_zmq_options o = with_key(0, address);
  open_side(&p.listener, &o);
  send_first(&p, l, TD_LANE_CONTROL, 3);
  AWAIT(&p, p.listener.got.len == 1);
  all_released(&p);
}

static void test_nobody(void **state) {
  (void)state;
  static const char *const hosts[] = {"tcp://127.0.0.1:9",
                                      "tcp://no.such.host.invalid:9000", NULL};
  for (size_t i = 0; i < TD_COUNT(hosts); i++) {
    channel_pair p;
    char nowhere[250];
    tcp(&p);
    snprintf(nowhere, sizeof nowhere, "%s-not", ((folder *)p.own)->address);
    p.to = (td_dial){hosts[i] ? hosts[i] : nowhere, NULL,
                     hosts[i] ? keys[0].public_key : NULL};
    td_link *l = dial_to(&p);
    AWAIT(&p, *heard(&p, TD_TROUBLE_UNREACHED) > 1);
    FAILS(send_one(l, TD_LANE_CONTROL, 3, 3), TD_UNAVAILABLE, "no connection");
    assert_int_equal(*heard(&p, TD_TROUBLE_LOST), 0);
    all_released(&p);
  }
}

/* Has the end of both lanes' connections been heard of? What is sent before
 * goes nowhere. */
static bool is_lost(const td_link *l) {
  const td_zmq_link *z = (const td_zmq_link *)l;
  return !z->lane[TD_LANE_CONTROL].passed && !z->lane[TD_LANE_DATA].passed;
}

/* Who listens is gone and another listens there: the same link, once more; what
 * was under way to the first does not come to the second. */
static void again(channel_pair_make *make, td_channel_zmq_options o) {
  channel_pair p;
  td_link *back;
  char control[200], data[200];
  make(&p);
  snprintf(control, sizeof control, "%s", p.to.control);
  snprintf(data, sizeof data, "%s", p.to.data);
  o.listen = control, o.listen_data = data;
  td_link *there = dial_up(&p, &back);
  for (unsigned i = 0; i < 10; i++) OK(send_one(there, TD_LANE_CONTROL, 9, i));
  side_deinit(&p.listener);
  AWAIT(&p, is_lost(there));
  assert_true(*heard(&p, TD_TROUBLE_LOST) > 0);
  open_side(&p.listener, &o);
  send_first(&p, there, TD_LANE_CONTROL, 77);
  send_first(&p, there, TD_LANE_DATA, 78);
  AWAIT(&p, p.listener.got.len >= 2);
  assert_int_equal(p.listener.got.len, 2);
  assert_int_equal(p.listener.links.len, 1);
  for (size_t i = 0; i < 2; i++)
    check_frame(&p.listener.got.at[i].frames[0], 10,
                77 + p.listener.got.at[i].lane);
  OK(send_one(p.listener.links.at[0], TD_LANE_DATA, 5, 5));
  AWAIT(&p, p.dialler.got.len == 1);
  assert_ptr_equal(p.dialler.got.at[0].link, there);
  all_released(&p);
}

static void test_again(void **state) {
  (void)state;
  again(ipc, (td_channel_zmq_options){0});
  again(tcp, with_key(0, NULL));
}

/* A connection breaks and is made again while who listens does nothing: it has
 * not heard of the end when the same peer comes again. */
static void test_broken(void **state) {
  (void)state;
  channel_pair p;
  td_link *back;
  tcp(&p);
  td_link *there = dial_up(&p, &back);
  for (int lane = 0; lane < TD_LANES; lane++) {
    int fd = ((td_zmq_link *)back)->fd[lane];
    assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
  }
  int64_t until = real_now() + PATIENCE;
  for (int more = 100; more > 0 && real_now() < until;) {
    p.dialler.c->ops->wait(p.dialler.c, td_clock_now() + 5 * MS);
    p.dialler.c->ops->drain(p.dialler.c, 10);
    more -= is_lost(there); /* then to dial again */
  }
  assert_true(is_lost(there) && *heard(&p, TD_TROUBLE_LOST) > 0);
  for (td_lane lane = TD_LANE_CONTROL; lane <= TD_LANE_DATA; lane++) {
    send_first(&p, there, lane, 5);
    OK(send_one(there, lane, 10, 5));
    AWAIT(&p, p.listener.got.len >= 2);
    pair_idle(&p);
    assert_int_equal(p.listener.got.len, 2);
    assert_ptr_equal(p.listener.got.at[0].link, back);
    assert_ptr_equal(p.listener.got.at[1].link, back);
    check_frame(&p.listener.got.at[0].frames[0], 10, 5);
    side_forget(&p.listener);
    OK(send_one(back, lane, 10, 5));
    AWAIT(&p, p.dialler.got.len == 1);
    side_forget(&p.dialler);
  }
  assert_int_equal(p.listener.links.len, 1);
  all_released(&p);
}

/* ---- hostile peers ------------------------------------------------------- */

/* A DEALER without rules, by ipc. */
typedef struct raw {
  void *context, *socket;
} raw;

static void raw_id(raw *r, uint64_t n) {
  char id[9] = "T";
  memcpy(id + 1, &n, sizeof n);
  zmq_setsockopt(r->socket, ZMQ_ROUTING_ID, id, sizeof id);
}

/* ZeroMQ closes on a thread of its own: there may be too many just now. */
static void raw_socket(raw *r) {
  int linger = 0;
  int64_t until = real_now() + PATIENCE;
  while (!(r->socket = zmq_socket(r->context, ZMQ_DEALER)) &&
         real_now() < until)
    usleep(1000);
  assert_non_null(r->socket);
  zmq_setsockopt(r->socket, ZMQ_LINGER, &linger, sizeof linger);
}

static void raw_init(raw *r, const char *address, uint64_t n) {
  int wait_ms = 60000;
  r->context = zmq_ctx_new();
  raw_socket(r);
  zmq_setsockopt(r->socket, ZMQ_SNDTIMEO, &wait_ms, sizeof wait_ms);
  if (n) raw_id(r, n);
  assert_int_equal(zmq_connect(r->socket, address), 0);
}

static void raw_deinit(raw *r) {
  zmq_close(r->socket);
  zmq_ctx_term(r->context);
}

static void raw_send(raw *r, size_t len, int n) {
  char *bytes = calloc(1, len + 1);
  for (int i = 0; i < n; i++)
    assert_int_equal(
        zmq_send(r->socket, bytes, len, i + 1 < n ? ZMQ_SNDMORE : 0), len);
  free(bytes);
}

/* More frames or bytes than there may be: that peer is not heard again, all
 * others are. */
static void beyond(size_t len, int n, int most_heard) {
  channel_pair p;
  td_link *back;
  raw r;
  ipc(&p);
  td_link *there = dial_up(&p, &back);
  raw_init(&r, p.to.control, 1);
  raw_send(&r, 3, 1);
  AWAIT(&p, p.listener.got.len == 1);
  td_link *bad = p.listener.links.at[1];
  raw_send(&r, len, n);
  raw_send(&r, 3, 1);
  if (most_heard == 1) {
    AWAIT(&p, p.listener.troubles[TD_TROUBLE_LOST] >= 1);
    FAILS(send_one(bad, TD_LANE_CONTROL, 3, 3), TD_UNAVAILABLE, "no conn");
  }
  AWAIT(&p, p.listener.got.len >= (size_t)most_heard);
  pair_idle(&p);
  assert_int_equal(p.listener.got.len, most_heard);
  p.listener.c->ops->hang_up(bad);
  raw_send(&r, 3, 1);
  pair_idle(&p);
  bool kept = most_heard > 1; /* to the rules: a stranger, then */
  assert_int_equal(p.listener.got.len, most_heard + kept);
  side_forget(&p.listener);
  OK(send_one(there, TD_LANE_CONTROL, 3, 3));
  AWAIT(&p, p.listener.got.len == 1);
  raw_deinit(&r);
  all_released(&p);
}

static void test_beyond(void **state) {
  (void)state;
  beyond(1, TD_MESSAGE_FRAMES, 3); /* may be */
  beyond(1, TD_MESSAGE_FRAMES + 1, 1);
  beyond(1, 5000, 1);
  beyond(TD_FRAME_MOST, 17, 1);
}

/* A frame that is too long ends the connection: ZeroMQ's. */
static void test_long_frame(void **state) {
  (void)state;
  channel_pair p;
  raw r;
  ipc(&p);
  raw_init(&r, p.to.control, 1);
  raw_send(&r, TD_FRAME_MOST, 1);
  AWAIT(&p, p.listener.got.len == 1);
  raw_send(&r, TD_FRAME_MOST + 4096, 1);
  pair_idle(&p);
  assert_int_equal(p.listener.got.len, 1);
  raw_deinit(&r);
  all_released(&p);
}

/* Ids that are none of ours, and as many peers as there may be. */
static void test_ids(void **state) {
  (void)state;
  enum { MOST = 4096, MORE = 50 };
  channel_pair p;
  raw r;
  ipc(&p);
  raw_init(&r, p.to.control, 0); /* ZeroMQ draws one: 5 bytes */
  raw_send(&r, 3, 1);
  pair_idle(&p);
  assert_int_equal(p.listener.got.len, 0);
  for (uint64_t i = 1; i <= MOST + MORE; i++) {
    zmq_close(r.socket);
    raw_socket(&r);
    raw_id(&r, i);
    assert_int_equal(zmq_connect(r.socket, p.to.control), 0);
    raw_send(&r, 3, 1);
    int64_t until = real_now() + PATIENCE;
    while (i <= MOST && p.listener.got.len < i) {
      assert_true(real_now() < until);
      p.listener.c->ops->wait(p.listener.c, td_clock_now() + 100 * MS);
      p.listener.c->ops->drain(p.listener.c, 10);
    }
  }
  pair_idle(&p);
  assert_int_equal(p.listener.links.len, MOST);
  /* Room again. */
  for (int i = 0; i < MORE; i++)
    p.listener.c->ops->hang_up(p.listener.links.at[i]);
  raw_send(&r, 3, 1);
  /* One of those refused above may only be read now. */
  AWAIT(&p, p.listener.got.len > MOST);
  raw_deinit(&r);
  all_released(&p);
}

/* ---- memory, processes --------------------------------------------------- */

/* The n-th allocation fails, in turn, from making the channels to receiving. */
static void test_memory(void **state) {
  (void)state;
  channel_pair p;
  td_link *back;
  ipc(&p);
  td_link *there = dial_up(&p, &back);
  int refused = 0, lost = 0;
  for (int64_t n = 1; n <= 40; n++) {
    td_link *l = NULL;
    td_channel *c = NULL;
    char other[220];
    snprintf(other, sizeof other, "%s-2", ((folder *)p.own)->address);
    td_channel_zmq_options o = {.listen = other};
    td_raw f[2] = {frame_of(100, 1), frame_of(3000, 2)};
    td_mem_fail(n, false);
    td_status *s = td_channel_zmq_new(&o, &c);
    if (td_ok(s)) s = p.dialler.c->ops->dial(p.dialler.c, &p.to, &l);
    if (td_ok(s)) {
      s = p.dialler.c->ops->send(there, TD_LANE_DATA, f, 2);
    } else {
      td_raw_release(&f[0]);
      td_raw_release(&f[1]);
    }
    bool sent = td_ok(s);
    if (!sent) {
      refused++;
      assert_int_equal(td_status_code(s), TD_RESOURCE_EXHAUSTED);
      td_status_release(s);
    }
    for (int i = 0; sent && i < 20 && p.listener.got.len == 0; i++) {
      p.rest(&p);
      p.listener.c->ops->drain(p.listener.c, 10);
    }
    td_mem_fail(0, false);
    lost += sent && p.listener.got.len == 0;
    side_forget(&p.listener);
    if (l) p.dialler.c->ops->hang_up(l);
    if (c) c->ops->free(c);
  }
  assert_true(refused >= 10);
  assert_true(lost >= 2); /* a message without memory for a frame */
  all_released(&p);
}

/* Nothing stays open, and a child that was forked ends. */
static void test_leaves_nothing(void **state) {
  (void)state;
  channel_pair p;
  td_link *back;
  int status, before = fifo_descriptors();
  for (int i = 0; i < 3; i++) {
    tcp(&p);
    dial_up(&p, &back);
    dial_up(&p, &back);
    pid_t child = fork();
    if (child == 0) {
      p.dialler.c->ops->free(p.dialler.c);
      p.listener.c->ops->free(p.listener.c);
      _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    td_link *there = p.dialler.links.len ? NULL : dial_up(&p, &back);
    OK(send_one(there, TD_LANE_CONTROL, 3, 3));
    AWAIT(&p, p.listener.got.len == 1);
    all_released(&p);
  }
  assert_int_equal(fifo_descriptors(), before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      SUITE(ipc),
      SUITE(tcp),
      cmocka_unit_test(test_key),
      cmocka_unit_test(test_wrong_key),
      cmocka_unit_test(test_no_key_by_ipc),
      cmocka_unit_test(test_proof),
      cmocka_unit_test(test_stranger),
      cmocka_unit_test(test_forwarder),
      cmocka_unit_test(test_nobody),
      cmocka_unit_test(test_again),
      cmocka_unit_test(test_broken),
      cmocka_unit_test(test_beyond),
      cmocka_unit_test(test_long_frame),
      cmocka_unit_test(test_ids),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_leaves_nothing),
  };
  return cmocka_run_group_tests(tests, make_keys, NULL);
}
