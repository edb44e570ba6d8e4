/* remote_channel.c - a channel beside bare ZeroMQ, as contestants of the
 * benchmarks: remote_channel ROW FOLDER.
 *
 *   channel_ping_ipc      a message of 64 bytes there and back
 *   channel_ping_curve    the same by tcp, encrypted
 *   channel_bulk_ipc      100 MiB in chunks of 256 KiB, four on their way,
 *   channel_bulk_curve    copied into place by who receives
 *   ..._raw               the same by a DEALER and a ROUTER; channel_.._tcp_raw
 *                         is not encrypted
 *
 * Two threads, each with one end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "engine/remote/channel.h"

enum { PING = 64, PINGS = 500, BULK = 100 << 20, WINDOW = 4 };
enum { CHUNKS = BULK / TD_CHUNK };

static struct {
  bool bulk, raw, curve;
  char address[300];
  char *from, *to; /* BULK bytes, of who sends and who receives */
  char public_key[2][41], secret[2][41];
} row;

static void end(td_status *s) {
  if (td_ok(s)) return;
  fprintf(stderr, "%s\n", td_status_message(s));
  exit(1);
}

static void must(bool ok, const char *what) {
  if (!ok)
    end(td_error(TD_INTERNAL, "%s: %s", what, zmq_strerror(zmq_errno())));
}

/* ---- with a channel --------------------------------------------------------
 */

typedef struct side {
  td_channel *c;
  td_link *link;
  int left, sent, got;
} side;

static void drop(void *arg) {
  (void)arg;
}

static td_status *put(td_link *l, td_lane lane, const char *at, size_t len) {
  td_raw f = {at, len, drop, NULL};
  return l->of->ops->send(l, lane, &f, 1);
}

/* Who answers: a ping by itself, a chunk by one byte. */
static void answer(void *arg, td_link *l, td_lane lane, td_raw *f, int n) {
  side *s = arg;
  (void)n;
  if (lane == TD_LANE_CONTROL) {
    end(l->of->ops->send(l, lane, f, 1));
    return;
  }
  memcpy(row.to + (size_t)(s->got++ % CHUNKS) * TD_CHUNK, f->at, f->len);
  td_raw_release(f);
  end(put(l, TD_LANE_CONTROL, "", 1));
}

static void send_next(side *s) {
  if (!row.bulk) {
    end(put(s->link, TD_LANE_CONTROL, row.from, PING));
  } else if (s->sent < CHUNKS) {
    end(put(s->link, TD_LANE_DATA, row.from + (size_t)s->sent * TD_CHUNK,
            TD_CHUNK));
  }
  s->sent++;
}

static void answered(void *arg, td_link *l, td_lane lane, td_raw *f, int n) {
  side *s = arg;
  (void)l, (void)lane, (void)n;
  td_raw_release(f);
  if (--s->left > 0) send_next(s);
}

static void trouble(void *arg, td_link *l, td_trouble what) {
  (void)arg, (void)l, (void)what;
}

static void turn(side *s) {
  s->c->ops->wait(s->c, INT64_MAX);
  s->c->ops->drain(s->c, 64);
}

static void *serve(void *arg) {
  for (;;) turn(arg);
  return NULL;
}

static td_channel *open_end(int i, const char *listen) {
  td_channel *c;
  td_channel_zmq_options o = {.listen = listen};
  if (row.curve) o.public_key = row.public_key[i], o.secret = row.secret[i];
  end(td_channel_zmq_new(&o, &c));
  return c;
}

static void dial(side *s, td_channel *to) {
  td_dial d = {to->ops->address(to, TD_LANE_CONTROL),
               to->ops->address(to, TD_LANE_DATA),
               row.curve ? row.public_key[0] : NULL};
  end(s->c->ops->dial(s->c, &d, &s->link));
  for (td_lane lane = TD_LANE_CONTROL; lane <= TD_LANE_DATA; lane++) {
    s->left = 1;
    for (td_status *e; (e = put(s->link, lane, row.from, PING));) {
      td_status_release(e);
      s->c->ops->wait(s->c, td_clock_now() + 1000000);
      s->c->ops->drain(s->c, 64);
    }
    while (s->left > 0) turn(s);
  }
}

static side here, there;

static void start(void) {
  there.c = open_end(0, row.address);
  there.c->events = (td_channel_events){answer, trouble, &there};
  here.c = open_end(1, NULL);
  here.c->events = (td_channel_events){answered, trouble, &here};
  must(td_thread_start(NULL, "peer", -1, serve, &there), "thread");
  dial(&here, there.c);
}

static void work(void) {
  here.left = row.bulk ? CHUNKS : PINGS;
  here.sent = 0;
  for (int i = 0; i < (row.bulk ? WINDOW : 1); i++) send_next(&here);
  while (here.left > 0) turn(&here);
}

/* ---- bare ------------------------------------------------------------------
 */

static void *dealer, *router;

static void *serve_raw(void *arg) {
  int got = 0;
  (void)arg;
  for (;;) {
    zmq_msg_t id, m;
    zmq_msg_init(&id);
    zmq_msg_init(&m);
    must(zmq_msg_recv(&id, router, 0) >= 0, "id");
    must(zmq_msg_recv(&m, router, 0) >= 0, "message");
    must(zmq_msg_send(&id, router, ZMQ_SNDMORE) >= 0, "id");
    if (zmq_msg_size(&m) == PING) {
      must(zmq_msg_send(&m, router, 0) >= 0, "answer");
      continue;
    }
    memcpy(row.to + (size_t)(got++ % CHUNKS) * TD_CHUNK, zmq_msg_data(&m),
           zmq_msg_size(&m));
    zmq_msg_close(&m);
    must(zmq_send(router, "", 1, 0) >= 0, "answer");
  }
  return NULL;
}

static void drop_raw(void *data, void *arg) {
  (void)data, (void)arg;
}

static void put_raw(char *at, size_t len) {
  zmq_msg_t m;
  zmq_msg_init_data(&m, at, len, drop_raw, NULL);
  must(zmq_msg_send(&m, dealer, 0) >= 0, "send");
}

static void await_raw(void) {
  zmq_msg_t m;
  zmq_msg_init(&m);
  must(zmq_msg_recv(&m, dealer, 0) >= 0, "receive");
  zmq_msg_close(&m);
}

static void keys_raw(void) {
  int yes = 1;
  if (!row.curve) return;
  zmq_setsockopt(router, ZMQ_CURVE_SERVER, &yes, sizeof yes);
  zmq_setsockopt(router, ZMQ_CURVE_SECRETKEY, row.secret[0], 41);
  zmq_setsockopt(dealer, ZMQ_CURVE_SERVERKEY, row.public_key[0], 41);
  zmq_setsockopt(dealer, ZMQ_CURVE_PUBLICKEY, row.public_key[1], 41);
  zmq_setsockopt(dealer, ZMQ_CURVE_SECRETKEY, row.secret[1], 41);
}

static void start_raw(void) {
  char endpoint[300];
  size_t len = sizeof endpoint;
  router = zmq_socket(zmq_ctx_new(), ZMQ_ROUTER);
  dealer = zmq_socket(zmq_ctx_new(), ZMQ_DEALER);
  keys_raw();
  must(zmq_bind(router, row.address) == 0, row.address);
  zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &len);
  must(zmq_connect(dealer, endpoint) == 0, endpoint);
  must(td_thread_start(NULL, "peer", -1, serve_raw, NULL), "thread");
  put_raw(row.from, PING);
  await_raw();
}

static void work_raw(void) {
  int n = row.bulk ? CHUNKS : PINGS, sent = 0;
  for (int got = 0; got < n; got++) {
    for (; sent < n && sent < got + (row.bulk ? WINDOW : 1); sent++)
      put_raw(row.bulk ? row.from + (size_t)sent * TD_CHUNK : row.from,
              row.bulk ? TD_CHUNK : PING);
    await_raw();
  }
}

/* ---- the contest -----------------------------------------------------------
 */

static void read_row(const char *name, const char *folder) {
  row.bulk = strstr(name, "bulk") != NULL;
  row.raw = strstr(name, "_raw") != NULL;
  row.curve = strstr(name, "curve") != NULL;
  if (strstr(name, "ipc"))
    snprintf(row.address, sizeof row.address, "ipc://%s/%s", folder, name);
  else
    snprintf(row.address, sizeof row.address, "tcp://127.0.0.1:0");
  row.from = malloc(BULK);
  row.to = malloc(BULK);
  memset(row.from, 1, BULK);
  memset(row.to, 2, BULK);
  for (int i = 0; i < 2; i++)
    zmq_curve_keypair(row.public_key[i], row.secret[i]);
}

int main(int argc, char **argv) {
  char line[64];
  if (argc < 3) return 1;
  read_row(argv[1], argv[2]);
  row.raw ? start_raw() : start();
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    int64_t start_ns = td_clock_now();
    row.raw ? work_raw() : work();
    printf("%.9g\n",
           (double)(td_clock_now() - start_ns) * 1e-9 / (row.bulk ? 1 : PINGS));
    fflush(stdout);
  }
  return 0;
}
