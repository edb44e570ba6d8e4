/* remote_round.c - bare ZeroMQ between two processes, as a contestant of the
 * benchmarks: remote_round ROW FOLDER.
 *
 *   round_ipc      a message of 64 bytes there and back, by a DEALER and a
 *                  ROUTER that block
 *   round_curve    the same by tcp, encrypted
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"

enum { PING = 64, PINGS = 500 };

static struct {
  bool curve;
  char address[300];
  char public_key[2][41], secret[2][41]; /* who answers, who asks */
} row;

static void must(bool ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
  exit(1);
}

static void answer_all(void *router) {
  for (;;) {
    zmq_msg_t id, m;
    zmq_msg_init(&id);
    zmq_msg_init(&m);
    must(zmq_msg_recv(&id, router, 0) >= 0, "id");
    must(zmq_msg_recv(&m, router, 0) >= 0, "message");
    must(zmq_msg_send(&id, router, ZMQ_SNDMORE) >= 0, "id");
    must(zmq_msg_send(&m, router, 0) >= 0, "answer");
  }
}

/* In a process of its own; says where it listens. */
static void be_peer(int to) {
  int yes = 1;
  size_t len = sizeof row.address;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  void *router = zmq_socket(zmq_ctx_new(), ZMQ_ROUTER);
  if (row.curve) {
    zmq_setsockopt(router, ZMQ_CURVE_SERVER, &yes, sizeof yes);
    zmq_setsockopt(router, ZMQ_CURVE_SECRETKEY, row.secret[0], 41);
  }
  must(zmq_bind(router, row.address) == 0, row.address);
  zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, row.address, &len);
  must(write(to, row.address, len) == (ssize_t)len, "pipe");
  answer_all(router);
}

static void start_peer(void) {
  int p[2];
  must(pipe(p) == 0, "pipe");
  if (fork() == 0) be_peer(p[1]);
  must(read(p[0], row.address, sizeof row.address) > 0, "peer");
}

static void *dial(void) {
  void *dealer = zmq_socket(zmq_ctx_new(), ZMQ_DEALER);
  if (row.curve) {
    zmq_setsockopt(dealer, ZMQ_CURVE_SERVERKEY, row.public_key[0], 41);
    zmq_setsockopt(dealer, ZMQ_CURVE_PUBLICKEY, row.public_key[1], 41);
    zmq_setsockopt(dealer, ZMQ_CURVE_SECRETKEY, row.secret[1], 41);
  }
  must(zmq_connect(dealer, row.address) == 0, row.address);
  return dealer;
}

static void ask(void *dealer) {
  char bytes[PING] = {0};
  must(zmq_send(dealer, bytes, PING, 0) == PING, "send");
  must(zmq_recv(dealer, bytes, PING, 0) == PING, "receive");
}

static void read_row(const char *name, const char *folder) {
  row.curve = strstr(name, "curve") != NULL;
  if (row.curve)
    snprintf(row.address, sizeof row.address, "tcp://127.0.0.1:0");
  else
    snprintf(row.address, sizeof row.address, "ipc://%s/%s", folder, name);
  for (int i = 0; i < 2; i++)
    zmq_curve_keypair(row.public_key[i], row.secret[i]);
}

int main(int argc, char **argv) {
  char line[64];
  if (argc < 3) return 1;
  read_row(argv[1], argv[2]);
  start_peer();
  void *dealer = dial();
  ask(dealer);
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    int64_t start_ns = td_clock_now();
    for (int i = 0; i < PINGS; i++) ask(dealer);
    printf("%.9g\n", (double)(td_clock_now() - start_ns) * 1e-9 / PINGS);
    fflush(stdout);
  }
  return 0;
}
