/* hostile.c - tests of engine/remote: a worker among those who mean it harm.
 *
 * Threads of their own speak ZeroMQ to a worker that runs the steps of a client
 * meanwhile: messages of tests/fuzz/wire_talk.h from random bytes, in the
 * client's session too, under its incarnation and the other worker's, cut off,
 * with parts without end. They have a key of their own that is on the list. The
 * client's steps, which send values between the workers, all succeed, and the
 * worker's memory does not grow. Who has no key is answered nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <zmq.h>

#include "engine/remote/worker_impl.h"
#include "pair.h"
#include "tests/fuzz/wire_talk.h"
#include "tests/rounds.h"

enum { ID = 9 /* as the channel has it */, TALKS = 256, STEPS_LEAST = 20 };
enum { HOSTILES = 8 };

/* ---- keys ---------------------------------------------------------------- */

enum { CLIENT, OTHER, WORKER, KEYS = WORKER + 2 };
static struct { char public_key[41], secret[41]; } keys[KEYS];

static bool is_but_other(void *arg, const char *key) {
  (void)arg;
  return strcmp(key, keys[OTHER].public_key) != 0;
}

static void start_worker(worker *w, int task, bool all) {
  td_channel *channel;
  snprintf(w->place, sizeof w->place, "/job:worker/replica:0/task:%d", task);
  OK(td_runtime_new(&(td_runtime_options){.place = w->place}, &w->runtime));
  OK(td_channel_zmq_new(
      &(td_channel_zmq_options){.listen = "tcp://127.0.0.1:0",
                                .public_key = keys[WORKER + task].public_key,
                                .secret = keys[WORKER + task].secret,
                                .connections = 1
                                               << 20, /* as if no limit were */
                                .allow = all ? NULL : is_but_other},
      &channel));
  OK(td_remote_new(
      &(td_remote_options){.runtime = w->runtime,
                           .channel = channel,
                           .public_key = keys[WORKER + task].public_key,
                           .serve = true,
                           .thread = true},
      &w->remote));
  snprintf(w->address, sizeof w->address, "%s", td_remote_address(w->remote));
}

/* `all`: the other's key is on the workers' list, too. */
static void start_with_keys(cluster *c, int workers, bool all) {
  td_channel *channel;
  td_member *m;
  for (int i = 0; i < KEYS; i++)
    zmq_curve_keypair(keys[i].public_key, keys[i].secret);
  rig_init(&c->r);
  strcpy(c->folder, "/tmp/tide-test-XXXXXX");
  assert_non_null(mkdtemp(c->folder));
  OK(td_channel_zmq_new(
      &(td_channel_zmq_options){.public_key = keys[CLIENT].public_key,
                                .secret = keys[CLIENT].secret},
      &channel));
  OK(td_remote_new(&(td_remote_options){.runtime = c->r.runtime,
                                        .channel = channel,
                                        .public_key = keys[CLIENT].public_key,
                                        .thread = true},
                   &c->remote));
  OK(td_session_new(c->r.runtime, c->r.graph, NULL, &c->s));
  c->n = workers;
  for (int i = 0; i < workers; i++) {
    worker *w = &c->worker[i];
    start_worker(w, i, all);
    td_attach_options o = {
        .to = {.control = w->address, .key = keys[WORKER + i].public_key}};
    OK(td_remote_attach(c->remote, c->s, &o, &m));
  }
}

static void use_keys(void *s, int task) {
  zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, keys[WORKER + task].public_key, 40);
  zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, keys[OTHER].public_key, 40);
  zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, keys[OTHER].secret, 40);
}

/* ---- the client ---------------------------------------------------------- */

static td_edge make_step(cluster *c) {
  c->s->options.passes_off = ~0u;
  td_edge two = make_const(&c->r, TD_FLOAT32, 2, NULL),
          three = make_const(&c->r, TD_FLOAT32, 3, NULL);
  td_edge sum = far_node(c, 0, "Add", "sum", (td_edge[]){two, three}, 2);
  td_edge product =
      c->n > 1 ? far_node(c, 1, "Mul", "product", (td_edge[]){sum, two}, 2)
               : NODE(&c->r, "Mul", "product", sum, two);
  return far_node(c, 0, "Add", "last", (td_edge[]){product, three}, 2);
}

static void run_step(cluster *c, td_edge fetch) {
  td_signature sig = {.fetches = &fetch, .n_fetches = 1};
  td_tensor value;
  OK(td_session_run(c->s, &sig, NULL, &value, NULL));
  assert_true(td_tensor_get_f(&value, 0) == 13);
  td_tensor_release(&value);
}

/* ---- who means harm ------------------------------------------------------ */

typedef struct hostile {
  pthread_t thread;
  const char *address;
  int at; /* whom it talks to */
  uint64_t worker, device;
  uint64_t victims[2];   /* the client, the other worker */
  td_session_id session; /* the client's */
  unsigned seed;
  int messages;
  int64_t answers;
  int32_t over; /* atomic */
} hostile;

static unsigned draw(hostile *h) {
  h->seed = h->seed * 1664525 + 1013904223;
  return h->seed >> 8;
}

static void *connect_to(void *context, const char *address, hostile *h) {
  char id[ID] = "T";
  void *s = zmq_socket(context, ZMQ_DEALER);
  int none = 0;
  for (int i = 1; i < ID; i++) id[i] = (char)draw(h);
  zmq_setsockopt(s, ZMQ_ROUTING_ID, id, sizeof id);
  zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof none);
  use_keys(s, h->at);
  assert_int_equal(zmq_connect(s, address), 0);
  return s;
}

/* Takes in what it is answered, for which it waits so long. */
static void hear(hostile *h, void *s, int ms) {
  zmq_msg_t m;
  zmq_pollitem_t item = {.socket = s, .events = ZMQ_POLLIN};
  if (ms && zmq_poll(&item, 1, ms) <= 0) return;
  for (;;) {
    zmq_msg_init(&m);
    int n = zmq_msg_recv(&m, s, ZMQ_DONTWAIT);
    zmq_msg_close(&m);
    if (n < 0) return;
    h->answers++;
  }
}

static void send_frames(void *s, td_raw *frames, int n) {
  for (int i = 0; i < n; i++) {
    (void)zmq_send(s, frames[i].at, frames[i].len, i + 1 < n ? ZMQ_SNDMORE : 0);
    td_raw_release(&frames[i]);
  }
}

/* What is no message at all. */
static void send_noise(hostile *h, void *s, const uint8_t *bytes, size_t len) {
  int parts = draw(h) % 8 ? (int)(draw(h) % 4) + 1 : 200;
  for (int i = 0; i < parts; i++)
    (void)zmq_send(s, bytes, draw(h) % len, i + 1 < parts ? ZMQ_SNDMORE : 0);
}

/* One connection: a HELLO, then anything. */
static void talk_once(hostile *h, void *context) {
  uint8_t bytes[1024];
  td_raw frames[TALK_FRAMES + 1];
  talk t = {.to = h->worker, .device = h->device, .from = draw(h) | 1};
  void *s = connect_to(context, h->address, h);
  bool plain = draw(h) % 2;
  t.session[0] = draw(h);
  if (draw(h) % 2 == 0) t.from = h->victims[draw(h) % 2];
  if (draw(h) % 2 == 0)
    t.session[0] = h->session.high, t.session[1] = h->session.low;
  for (int i = 0; i < TALKS && h->messages > 0; i++, h->messages--) {
    for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (uint8_t)draw(h);
    if (i < 2 || plain) /* without surprises */
      for (size_t k = 0; k < 4; k++) bytes[k] = 0;
    t.at = bytes;
    t.end = bytes + sizeof bytes;
    int what = i == 0   ? TD__REMOTE__MESSAGE__BODY_HELLO
               : i == 1 ? TD__REMOTE__MESSAGE__BODY_OPEN
               : plain  ? TD__REMOTE__MESSAGE__BODY_OPEN + (int)(draw(h) % 22)
                        : 0;
    if (i > 2 && draw(h) % 32 == 0)
      send_noise(h, s, bytes, sizeof bytes);
    else
      send_frames(s, frames, talk_say(&t, what, frames));
    hear(h, s, i == 0 ? 1000 : 0);
  }
  hear(h, s, 10);
  zmq_close(s);
  talk_deinit(&t);
}

static void *harm(void *arg) {
  hostile *h = arg;
  void *context = zmq_ctx_new();
  while (h->messages > 0) talk_once(h, context);
  zmq_ctx_term(context);
  __atomic_store_n(&h->over, 1, __ATOMIC_RELEASE);
  return NULL;
}

/* ---- memory -------------------------------------------------------------- */

static long resident_kib(void) {
  char line[128];
  long kib = 0;
  FILE *f = fopen("/proc/self/status", "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f))
    if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
  fclose(f);
  return kib;
}

/* ---- with a key ---------------------------------------------------------- */

static void know(hostile *h, cluster *c, int at) {
  td_device *d;
  td_remote *r = c->worker[at].remote;
  OK(td_runtime_cpu(c->worker[at].runtime, 0, &d));
  h->at = at;
  h->address = c->worker[at].address;
  h->device = d->incarnation;
  h->victims[0] = td_remote_incarnation(c->remote);
  h->victims[1] = td_remote_incarnation(c->worker[1 - at].remote);
  td_remote_enter(r);
  h->worker = r->incarnation;
  h->session = r->hosted.at[0]->id;
  td_remote_leave(r);
}

static void start(hostile *h, int messages) {
  for (int i = 0; i < HOSTILES; i++) {
    h[i].messages = messages / HOSTILES;
    h[i].over = 0;
    assert_int_equal(pthread_create(&h[i].thread, NULL, harm, &h[i]), 0);
  }
}

static bool are_over(hostile *h) {
  for (int i = 0; i < HOSTILES; i++)
    if (!__atomic_load_n(&h[i].over, __ATOMIC_ACQUIRE)) return false;
  for (int i = 0; i < HOSTILES; i++) pthread_join(h[i].thread, NULL);
  return true;
}

static void test_steps_go_on(void **state) {
  cluster c = {0};
  hostile h[HOSTILES] = {0};
  int64_t answers = 0;
  int steps = 0, all = rounds(100000, 1000000);
  (void)state;
  start_with_keys(&c, 2, true);
  td_edge last = make_step(&c);
  run_step(&c, last);
  for (int i = 0; i < HOSTILES; i++) {
    h[i].seed = 7 + (unsigned)i;
    know(&h[i], &c, i % 2);
  }
  long before = 0;
  for (int part = 0; part < 5; part++) {
    start(h, all / 5);
    do {
      run_step(&c, last);
      steps++;
    } while (!are_over(h));
    if (part == 1) before = resident_kib(); /* what is kept is kept by then */
  }
  long after = resident_kib();
  for (int i = 0; i < HOSTILES; i++) answers += h[i].answers;
  print_message("%d steps beside %d messages, answered %lld times; %ld KiB, "
                "then %ld\n",
                steps, all, (long long)answers, before, after);
  assert_true(steps >= STEPS_LEAST && answers > 0);
  assert_true(after - before < 96 << 10);
  run_step(&c, last);
  cluster_deinit(&c);
}

/* ---- with the name of another -------------------------------------------- */

/* Says to be a victim, and what ends it if that is believed. */
static void claim(hostile *h, void *context, uint64_t victim) {
  static const uint8_t zeros[64];
  static const int says[] = {
      TD__REMOTE__MESSAGE__BODY_HELLO, TD__REMOTE__MESSAGE__BODY_ABORT,
      TD__REMOTE__MESSAGE__BODY_FENCE, TD__REMOTE__MESSAGE__BODY_CLOSE,
      TD__REMOTE__MESSAGE__BODY_STALE, TD__REMOTE__MESSAGE__BODY_BYE};
  td_raw frames[TALK_FRAMES + 1];
  void *s = connect_to(context, h->address, h);
  for (size_t i = 0; i < TD_COUNT(says); i++) {
    talk t = {.at = zeros,
              .end = zeros + sizeof zeros,
              .to = h->worker,
              .from = victim,
              .session = {h->session.high, h->session.low}};
    send_frames(s, frames, talk_say(&t, says[i], frames));
    hear(h, s, i == 0 ? 10000 : 20);
    talk_deinit(&t);
  }
  zmq_close(s);
}

static void claim_all(cluster *c, hostile *h, void *context) {
  for (int at = 0; at < 2; at++) {
    know(h, c, at);
    for (int i = 0; i < 2; i++) claim(h, context, h->victims[i]);
  }
}

/* Nobody is another for having said so, be it before that one comes or when it
 * is there. */
static void test_claims(void **state) {
  cluster c = {0};
  hostile h = {.seed = 5};
  void *context = zmq_ctx_new();
  (void)state;
  start_with_keys(&c, 2, true);
  td_edge last = make_step(&c);
  claim_all(&c, &h, context);
  assert_true(h.answers >= 4);
  run_step(&c, last);
  for (int i = 0; i < 3; i++) {
    claim_all(&c, &h, context);
    run_step(&c, last);
  }
  for (int at = 0; at < 2; at++) {
    td_remote *r = c.worker[at].remote;
    td_remote_enter(r);
    assert_int_equal(r->hosted.len, 1);
    assert_int_equal(r->hosted.at[0]->master->health.state, TD_UP);
    td_remote_leave(r);
  }
  zmq_ctx_term(context);
  cluster_deinit(&c);
}

/* ---- with one key, too often -------------------------------------------- */

/* What came last is a refusal that says so. */
static bool is_refused(void *s, const char *says) {
  bool refused = false;
  zmq_pollitem_t item = {.socket = s, .events = ZMQ_POLLIN};
  while (!refused && zmq_poll(&item, 1, 10000) > 0) {
    zmq_msg_t m;
    zmq_msg_init(&m);
    assert_true(zmq_msg_recv(&m, s, 0) >= 0);
    size_t len = zmq_msg_size(&m);
    char *at = malloc(len + 1);
    memcpy(at, zmq_msg_data(&m), len);
    td_raw frame = {at, len, free, at};
    td_message got;
    OK(td_wire_read(&frame, 1, &got));
    refused = got.head->body_case == TD__REMOTE__MESSAGE__BODY_REFUSED &&
              got.head->refused->code == TD_RESOURCE_EXHAUSTED &&
              strstr(got.head->refused->message, says);
    td_message_deinit(&got);
    zmq_msg_close(&m);
  }
  return refused;
}

/* A connection of another incarnation, which is no task's. */
static void *come(hostile *h, void *context, uint64_t incarnation) {
  td_raw frame;
  td_head head;
  Td__Remote__Hello hello = TD__REMOTE__HELLO__INIT;
  void *s = connect_to(context, h->address, h);
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_HELLO;
  head.hello = &hello;
  head.version = TD_WIRE_VERSION;
  head.from = incarnation;
  hello.proto_min = hello.proto_max = TD_WIRE_VERSION;
  OK(td_wire_pack(&head, &frame));
  send_frames(s, &frame, 1);
  zmq_pollitem_t item = {.socket = s, .events = ZMQ_POLLIN};
  assert_int_equal(zmq_poll(&item, 1, 60000), 1);
  return s;
}

/* Those of OTHER's key that live. `hold`: so many shares more of each, which is
 * heard for ever then. */
static int others_of(td_remote *r, int hold) {
  int n = 0;
  td_remote_enter(r);
  for (size_t i = 0; i < r->peers.len; i++) {
    td_peer *p = r->peers.at[i];
    if (!p->proof || strcmp(p->proof, keys[OTHER].public_key) != 0) continue;
    if (hold > 0) td_peer_retain(p)->health.heard = INT64_MAX / 2;
    if (hold < 0) td_peer_release(p);
    n += p->health.state != TD_DEAD;
  }
  if (hold > 0) r->room = n;
  td_remote_leave(r);
  return n;
}

enum { COME = TD_ROOM_IDLE + 16 };

/* One key has so many places and no more, which go to who came last; who takes
 * part keeps its own, and other keys have theirs. */
static void test_crowd(void **state) {
  cluster c = {0};
  hostile h = {.seed = 9};
  void *context = zmq_ctx_new(), *s[COME + 1];
  (void)state;
  start_with_keys(&c, 1, true);
  td_edge last = make_step(&c);
  run_step(&c, last);
  td_remote *r = c.worker[0].remote;
  h.address = c.worker[0].address;
  h.worker = r->incarnation;
  for (int i = 0; i < COME; i++) {
    s[i] = come(&h, context, 1000 + (unsigned)i);
    assert_true(others_of(r, 0) <= TD_ROOM_IDLE);
  }
  assert_true(is_refused(s[0], "take part in no session"));
  run_step(&c, last);
  int held = others_of(r, 1); /* as if they had a session */
  assert_true(held > 0);
  s[COME] = come(&h, context, 1);
  assert_true(is_refused(s[COME], "of one key"));
  run_step(&c, last);
  assert_int_equal(others_of(r, -1), held);
  for (int i = 0; i <= COME; i++) zmq_close(s[i]);
  zmq_ctx_term(context);
  cluster_deinit(&c);
}

/* ---- without a key ------------------------------------------------------- */

static size_t peers_of(td_remote *r) {
  td_remote_enter(r);
  size_t n = r->peers.len;
  td_remote_leave(r);
  return n;
}

/* Plain, or with a key that is on no list: nothing is heard. */
static void knock(cluster *c, void *context, hostile *h, bool curve) {
  td_raw frames[TALK_FRAMES + 1];
  static const uint8_t zeros[16];
  char id[ID] = "Tabcdefg";
  void *s = zmq_socket(context, ZMQ_DEALER);
  int none = 0;
  id[1] = (char)draw(h);
  zmq_setsockopt(s, ZMQ_ROUTING_ID, id, sizeof id);
  zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof none);
  if (curve) use_keys(s, 0);
  assert_int_equal(zmq_connect(s, c->worker[0].address), 0);
  talk t = {.at = zeros, .end = zeros + sizeof zeros, .from = 99};
  send_frames(s, frames, talk_say(&t, TD__REMOTE__MESSAGE__BODY_HELLO, frames));
  zmq_pollitem_t item = {.socket = s, .events = ZMQ_POLLIN};
  assert_int_equal(zmq_poll(&item, 1, 20), 0);
  zmq_close(s);
  talk_deinit(&t);
}

static struct sockaddr_in place_of(const char *address) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  at.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

/* Bytes that are no ZeroMQ at all, or its greeting and then anything. */
static void shout(const struct sockaddr_in *at, hostile *h) {
  static const uint8_t greeting[10] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f};
  uint8_t bytes[4096];
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(s >= 0);
  for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (uint8_t)draw(h);
  if (draw(h) % 2) memcpy(bytes, greeting, sizeof greeting);
  if (connect(s, (const struct sockaddr *)at, sizeof *at) == 0)
    for (int i = (int)(draw(h) % 4); i >= 0; i--)
      (void)send(s, bytes, draw(h) % sizeof bytes, MSG_NOSIGNAL);
  close(s);
}

static void test_no_key_no_answer(void **state) {
  cluster c = {0};
  hostile h = {.seed = 11};
  void *context = zmq_ctx_new();
  int all = rounds(2000, 20000);
  long before = 0;
  (void)state;
  start_with_keys(&c, 1, false);
  td_edge last = make_step(&c);
  struct sockaddr_in at = place_of(c.worker[0].address);
  run_step(&c, last);
  size_t peers = peers_of(c.worker[0].remote);
  for (int i = 0; i < all; i++) {
    shout(&at, &h);
    if (i % 50 == 0) knock(&c, context, &h, i % 100 == 0);
    if (i % 10 == 0) run_step(&c, last);
    if (i == all / 4) before = resident_kib();
  }
  long after = resident_kib();
  print_message("%d connections; %ld KiB, then %ld\n", all, before, after);
  assert_int_equal(peers_of(c.worker[0].remote), peers);
  assert_true(after - before < 32 << 10);
  run_step(&c, last);
  zmq_ctx_term(context);
  cluster_deinit(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_claims),
      cmocka_unit_test(test_steps_go_on),
      cmocka_unit_test(test_crowd),
      cmocka_unit_test(test_no_key_no_answer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
