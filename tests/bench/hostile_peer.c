/* hostile_peer.c - who means a worker harm, for rows of the benchmarks:
 * hostile_peer HOST:PORT KEY, until the standard input ends.
 *
 * One connection after the other, as fast as it can: without a key it says what
 * is no greeting, or a greeting and noise; with one, messages of random bytes.
 * `hostile_peer nobody` does so at a port of its own, where nobody takes any:
 * what it does to a worker is only that the machine is busy.
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
  setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon); /* to connect */
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

/* A port whose queue is full once nobody has taken the first. */
static bool aim_at_nobody(void) {
  char secret[41];
  socklen_t len = sizeof to.at;
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  to.at.sin_family = AF_INET;
  to.at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (s < 0 || bind(s, (struct sockaddr *)&to.at, len) != 0 ||
      listen(s, 0) != 0 || getsockname(s, (struct sockaddr *)&to.at, &len) != 0)
    return false;
  snprintf(to.endpoint, sizeof to.endpoint, "tcp://127.0.0.1:%d",
           ntohs(to.at.sin_port));
  return zmq_curve_keypair(to.key, secret) == 0;
}

static bool aim(char *address, const char *key) {
  char *colon = strrchr(address, ':');
  if (!colon || strlen(key) != 40) return false;
  snprintf(to.endpoint, sizeof to.endpoint, "tcp://%s", address);
  memcpy(to.key, key, sizeof to.key);
  *colon = '\0';
  to.at.sin_family = AF_INET;
  to.at.sin_port = htons((uint16_t)atoi(colon + 1));
  return inet_pton(AF_INET, address, &to.at.sin_addr) == 1;
}

int main(int argc, char **argv) {
  if (argc < 3 ? !aim_at_nobody() : !aim(argv[1], argv[2])) return 1;
  if (!td_thread_start(NULL, "harm", -1, harm, NULL)) return 1;
  char line[64];
  while (fgets(line, sizeof line, stdin)) continue;
  _exit(0);
}
