/* hostile_peer.c - who means a worker harm, for a row of the benchmarks:
 * hostile_peer HOST:PORT KEY, until the standard input ends.
 *
 * One connection after the other, as fast as it can: without a key it says what
 * is no greeting, or a greeting and noise; with one, messages of random bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/thread.h"

enum { NOISE = 4096, MESSAGES = 200 };

static struct {
  struct sockaddr_in at;
  char endpoint[300], key[41];
} to;

static void fill(unsigned *seed, unsigned char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    *seed = *seed * 1664525 + 1013904223;
    bytes[i] = (unsigned char)(*seed >> 24);
  }
}

/* ---- without a key ------------------------------------------------------- */

static const unsigned char greeting[64] = {
    [0] = 0xff, [9] = 0x7f, [10] = 3, [12] = 'C', 'U', 'R', 'V', 'E'};

static void knock(unsigned *seed) {
  unsigned char bytes[NOISE];
  struct timeval soon = {.tv_usec = 2000};
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  fill(seed, bytes, sizeof bytes);
  if (*seed >> 31) memcpy(bytes, greeting, sizeof greeting);
  setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
  if (connect(s, (struct sockaddr *)&to.at, sizeof to.at) == 0 &&
      send(s, bytes, sizeof bytes, MSG_NOSIGNAL) > 0)
    while (recv(s, bytes, sizeof bytes, 0) > 0) continue;
  close(s);
}

/* ---- with one ------------------------------------------------------------ */

static void talk(void *context, unsigned *seed) {
  unsigned char bytes[NOISE];
  char public_key[41], secret[41];
  int none = 0, ms = 100;
  void *s = zmq_socket(context, ZMQ_DEALER);
  zmq_curve_keypair(public_key, secret);
  zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, to.key, sizeof to.key);
  zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, public_key, sizeof public_key);
  zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, secret, sizeof secret);
  zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof none);
  zmq_setsockopt(s, ZMQ_SNDTIMEO, &ms, sizeof ms);
  if (zmq_connect(s, to.endpoint) == 0)
    for (int i = 0; i < MESSAGES; i++) {
      fill(seed, bytes, sizeof bytes);
      (void)zmq_send(s, bytes, *seed >> 21, i % 3 ? ZMQ_SNDMORE : 0);
    }
  zmq_close(s);
}

static void *harm(void *arg) {
  unsigned seed = 1;
  void *context = zmq_ctx_new();
  for (;;) {
    knock(&seed);
    talk(context, &seed);
  }
  return arg;
}

int main(int argc, char **argv) {
  if (argc < 3) return 1;
  char *colon = strrchr(argv[1], ':');
  if (!colon || strlen(argv[2]) != 40) return 1;
  snprintf(to.endpoint, sizeof to.endpoint, "tcp://%s", argv[1]);
  memcpy(to.key, argv[2], sizeof to.key);
  *colon = '\0';
  to.at.sin_family = AF_INET;
  to.at.sin_port = htons((uint16_t)atoi(colon + 1));
  if (inet_pton(AF_INET, argv[1], &to.at.sin_addr) != 1) return 1;
  if (!td_thread_start(NULL, "harm", -1, harm, NULL)) return 1;
  char line[64];
  while (fgets(line, sizeof line, stdin)) continue;
  _exit(0);
}
