/* channel_zmq_flood.c - no more connections from one place than there is need
 * for.
 *
 * A handshake is work before anybody knows whose it is: keys are made and
 * agreed on by ZeroMQ's thread, which carries the messages of all. So each
 * address has so many connections a second, and eight seconds' worth of them at
 * once; of one that makes more the system is told to drop what asks for another
 * (a filter at the listening sockets), until it has fewer. Who asks is not told
 * no: the system asks again after one second, then two. Connections that are
 * there are not touched, nor are other addresses.
 *
 * Counted is what ZeroMQ says that it has accepted. A connection that is gone
 * before we look at its address counts to nobody's, and so do those of more
 * addresses than are known at a time; when that is too many all wait. Of IPv6
 * an address is its first 64 bits, as one host may have all of the rest.
 *
 * Where the system knows no such filters nothing is kept out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <linux/filter.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "engine/base/clock.h"
#include "engine/remote/channel_zmq_impl.h"

enum {
  AT_ONCE_S = 8, /* connections of so many seconds may come at once */
  BEYOND_S = 2,  /* and of so many more are held against who makes them */
  PAUSES = 4,    /* in a second: who is kept out is for this long */
  NOBODY = 0,    /* the place of those whose address is not known */
  LINES = 12 + 5 * TD_ZMQ_PLACES
};

/* Offsets and flags in the head of TCP, offsets in those of IP. */
enum { FLAGS = 13, SYN = 2, SYN_ACK = 18, IPV4_FROM = 12, IPV6_FROM = 8 };

static const int64_t second = 1000000000;

void td_zmq_flood_init(td_zmq_flood *f, int connections) {
  f->cost = second / (connections > 0 ? connections : TD_ZMQ_CONNECTIONS);
  f->until = INT64_MAX;
  for (int i = 0; i < TD_LANES; i++) f->fd[i] = -1;
}

/* ---- places ----------------------------------------------------------------
 */

static bool read_address(int fd, uint32_t at[2], int *family) {
  struct sockaddr_storage a;
  socklen_t len = sizeof a;
  at[0] = at[1] = 0;
  if (getpeername(fd, (struct sockaddr *)&a, &len) != 0) return false;
  const struct in6_addr *six = &((struct sockaddr_in6 *)&a)->sin6_addr;
  *family = a.ss_family;
  if (a.ss_family == AF_INET)
    memcpy(at, &((struct sockaddr_in *)&a)->sin_addr, 4);
  else if (a.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six))
    *family = AF_INET, memcpy(at, six->s6_addr + 12, 4);
  else if (a.ss_family == AF_INET6)
    memcpy(at, six->s6_addr, 8);
  else
    return false;
  for (int i = 0; i < 2; i++) at[i] = ntohl(at[i]);
  return true;
}

/* The place of the address, be it new: then it takes that of one that has made
 * no connection for the longest time. */
static td_zmq_place *place_of(td_zmq_flood *f, int fd, int64_t now) {
  uint32_t at[2];
  int family;
  td_zmq_place *oldest = &f->places[1];
  if (!read_address(fd, at, &family)) return &f->places[NOBODY];
  for (int i = 1; i < TD_ZMQ_PLACES; i++) {
    td_zmq_place *p = &f->places[i];
    if (p->family == family && memcmp(p->at, at, sizeof at) == 0) return p;
    if (p->due < oldest->due) oldest = p;
  }
  if (oldest->due > now) return &f->places[NOBODY];
  f->changed |= oldest->kept_out; /* nobody has looked for long */
  *oldest = (td_zmq_place){.family = family, .at = {at[0], at[1]}};
  return oldest;
}

void td_zmq_flood_came(td_zmq *c, int fd) {
  td_zmq_flood *f = &c->flood;
  int64_t now = td_clock_now(), most = now + (AT_ONCE_S + BEYOND_S) * second;
  td_zmq_place *p = place_of(f, fd, now);
  p->due = (p->due > now ? p->due : now) + f->cost;
  if (p->due > most)
    p->due = most; /* what was on its way when it was too many */
  f->came = true;
}

/* ---- the filter ------------------------------------------------------------
 */

typedef struct program {
  struct sock_filter line[LINES];
  unsigned short n;
} program;

static void add(program *p, int code, uint32_t k, int jump_if, int jump_else) {
  p->line[p->n++] = (struct sock_filter){(uint16_t)code, (uint8_t)jump_if,
                                         (uint8_t)jump_else, k};
}

static void load(program *p, int offset) {
  add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_NET_OFF + offset), 0, 0);
}

/* Goes on, or leaves out so many lines. */
static void unless(program *p, uint32_t is, int lines) {
  add(p, BPF_JMP | BPF_JEQ | BPF_K, is, 0, lines);
}

static void answer(program *p, bool pass) {
  add(p, BPF_RET | BPF_K, pass ? UINT32_MAX : 0, 0, 0);
}

static void of_family(program *p, const td_zmq_flood *f, int family) {
  if (family == AF_INET) load(p, IPV4_FROM);
  for (int i = 1; i < TD_ZMQ_PLACES; i++) {
    const td_zmq_place *at = &f->places[i];
    if (!at->kept_out || at->family != family) continue;
    if (family == AF_INET6) load(p, IPV6_FROM);
    unless(p, at->at[0], family == AF_INET6 ? 3 : 1);
    if (family == AF_INET6) {
      load(p, IPV6_FROM + 4);
      unless(p, at->at[1], 1);
    }
    answer(p, false);
  }
  answer(p, true);
}

/* All but requests for a connection pass, and those of others. */
static void write_program(program *p, const td_zmq_flood *f) {
  p->n = 0;
  add(p, BPF_LD | BPF_B | BPF_ABS, FLAGS, 0, 0);
  add(p, BPF_ALU | BPF_AND | BPF_K, SYN_ACK, 0, 0);
  add(p, BPF_JMP | BPF_JEQ | BPF_K, SYN, 1, 0);
  answer(p, true);
  if (f->places[NOBODY].kept_out) {
    answer(p, false);
    return;
  }
  add(p, BPF_LD | BPF_B | BPF_ABS, (uint32_t)SKF_NET_OFF, 0, 0);
  add(p, BPF_ALU | BPF_RSH | BPF_K, 4, 0, 0); /* the version of IP */
  add(p, BPF_JMP | BPF_JEQ | BPF_K, 4, 1, 0);
  unsigned short jump = p->n;
  add(p, BPF_JMP | BPF_JA, 0, 0, 0);
  of_family(p, f, AF_INET);
  p->line[jump].k = (uint32_t)(p->n - jump - 1);
  of_family(p, f, AF_INET6);
}

static void set_filter(const td_zmq_flood *f, bool any) {
  program p;
  int none = 0;
  struct sock_fprog all = {.filter = p.line};
  if (any) write_program(&p, f), all.len = p.n;
  for (int i = 0; i < TD_LANES; i++)
    if (f->fd[i] >= 0)
      (void)setsockopt(
          f->fd[i], SOL_SOCKET, any ? SO_ATTACH_FILTER : SO_DETACH_FILTER,
          any ? (void *)&all : (void *)&none, any ? sizeof all : sizeof none);
}

/* ---- looking ---------------------------------------------------------------
 */

/* True: it is kept out from now on, or not any more. */
static bool judge(td_zmq_place *p, int64_t now) {
  int64_t most = AT_ONCE_S * second, ahead = p->due - now;
  bool was = p->kept_out;
  p->kept_out = ahead > (was ? most - second / PAUSES : most);
  return p->kept_out != was;
}

void td_zmq_flood_look(td_zmq *c) {
  td_zmq_flood *f = &c->flood;
  int64_t now, until = INT64_MAX;
  bool changed = f->changed;
  if (!f->came && (f->until == INT64_MAX || f->until > td_clock_now())) return;
  f->came = f->changed = false;
  now = td_clock_now();
  for (int i = 0; i < TD_ZMQ_PLACES; i++) {
    td_zmq_place *p = &f->places[i];
    changed |= judge(p, now);
    int64_t over = p->due - AT_ONCE_S * second + second / PAUSES;
    if (p->kept_out && over < until) until = over;
  }
  __atomic_store_n(&f->until, until, __ATOMIC_RELAXED);
  if (changed) set_filter(f, until != INT64_MAX);
}
