/* network.c - see network.h.
 *
 * A *wire* is what one dial made: an end here, one there, and a connection for
 * each lane. A *line* is one direction of a connection: messages under way,
 * sorted by when they arrive. Wires live as long as the network, so that a
 * timer never meets one that is gone; timers are the world's. What has arrived
 * waits in the channel's inbox for `drain`.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/base/sim.h"

enum { MOST = 64 }; /* nodes that faults can name */
enum { SLOW = 2 };  /* in a thousand, of a healthy network */

static const size_t fuse = 16 << 20; /* bytes under way on a line */
static const int64_t us = 1000, ms = 1000000;

typedef struct wire wire;
typedef struct channel channel;

/* A message, or trouble (frame NULL). */
typedef struct item {
  struct item *next, *prev;
  wire *wire;
  td_lane lane;
  int side; /* the sender's: 0 dialled */
  td_trouble what;
  uint64_t number; /* on its line */
  uint32_t epoch;  /* of its line */
  int64_t at;
  channel *from; /* has `sent` to let go; NULL: nothing is left of it */
  channel *to;   /* NULL: gone */
  td_frame *sent, *frame;
  int n;
  size_t bytes;
  bool copy; /* the second of two */
} item;

typedef struct list {
  item *first, *last;
} list;

typedef struct line {
  struct connection *of;
  list items;
  bool broken;    /* what is sent vanishes, until the connection is lost */
  uint32_t epoch; /* what is of an older one is lost */
  uint64_t sent, came;
  int64_t last;   /* when the last that keeps the order arrives */
  size_t bytes;   /* under way or in the inbox */
  uint64_t timer; /* of the first; 0: none */
} line;

typedef struct connection {
  wire *of;
  td_lane lane;
  char *address; /* NULL: not told yet */
  channel *to;   /* that it leads to, or led to */
  bool up;
  int refused;            /* times, one after the other */
  uint64_t attempt, loss; /* timers; 0: none */
  line line[2];           /* by the sender's side */
} connection;

typedef struct end {
  td_link link;
  wire *wire;
  int side;
  struct end *next; /* of its channel */
} end;

struct wire {
  sim_network *net;
  channel *dialler; /* NULL: hung up */
  end *end[2];      /* NULL: hung up, or nothing came yet */
  connection lane[TD_LANES];
  wire *next;
};

struct channel {
  td_channel base;
  sim_network *net;
  sim_node_t node;
  char *address[TD_LANES]; /* NULL: it does not listen */
  end *ends;
  list inbox;
  td_frame *spent; /* to be let go */
  int n_spent, room;
  uint64_t letting; /* an event of the node; 0: none */
  void (*ready)(void *arg);
  void *ready_arg;
  uint64_t posted; /* the same */
  bool woken;
  channel *next;
};

typedef struct rule {
  short fault[SIM_FAULTS]; /* in a thousand */
  bool cut;
  signed char refuse; /* td_trouble; -1: no */
} rule;

struct sim_network {
  rule rule[MOST][MOST]; /* from, to */
  channel *channels;
  wire *wires;
  int64_t saw[SAW_KINDS];
};

const char *const sim_saw_names[SAW_KINDS] = {
    "sent",    "came",     "dropped",     "duplicated", "overtaken",
    "slow",    "vanished", "connected",   "lost",       "unreached",
    "refused", "killed",   "unconnected", "full"};

static int64_t frames_left;

int64_t sim_frames_left(void) {
  return frames_left;
}
int64_t sim_network_saw(const sim_network *net, sim_saw what) {
  return net->saw[what];
}

static void *memory(size_t n) {
  void *p = calloc(1, n ? n : 1);
  if (!p) sim_give_up("no memory");
  return p;
}

static char *text(const char *s, const char *more) {
  size_t n = strlen(s) + strlen(more) + 1;
  char *copy = memory(n);
  snprintf(copy, n, "%s%s", s, more);
  return copy;
}

static int64_t between(int64_t low, int64_t high) {
  return low + (int64_t)sim_draw((uint64_t)(high - low));
}

static int64_t now(void) {
  return sim_clock(SIM_WORLD);
}

static uint64_t after(int64_t ns, void (*fire)(void *arg), void *arg) {
  return sim_post(SIM_WORLD, now() + ns, fire, arg);
}

static void stop(uint64_t *timer) {
  if (*timer) sim_timer_cancel(*timer);
  *timer = 0;
}

/* ---- lists of items ------------------------------------------------------ */

/* Behind all that arrive no later. */
static void insert(list *l, item *m) {
  item *before = l->last;
  while (before && before->at > m->at) before = before->prev;
  m->prev = before;
  m->next = before ? before->next : l->first;
  *(m->next ? &m->next->prev : &l->last) = m;
  *(before ? &before->next : &l->first) = m;
}

static void unlink_item(list *l, item *m) {
  *(m->prev ? &m->prev->next : &l->first) = m->next;
  *(m->next ? &m->next->prev : &l->last) = m->prev;
}

static line *line_of(const item *m) {
  return &m->wire->lane[m->lane].line[m->side];
}

/* ---- frames -------------------------------------------------------------- */

static void free_bytes(void *arg) {
  free(arg);
  frames_left--;
}

static td_frame *copies(const td_frame *frames, int n) {
  td_frame *to = memory((size_t)n * sizeof *to);
  for (int i = 0; i < n; i++) {
    void *bytes = memory(frames[i].len);
    if (frames[i].len) memcpy(bytes, frames[i].at, frames[i].len);
    to[i] = (td_frame){bytes, frames[i].len, free_bytes, bytes};
    frames_left++;
  }
  return to;
}

static void release(td_frame *frames, int n) {
  for (int i = 0; i < n; i++) td_frame_release(&frames[i]);
}

/* Inside of the sender's node. */
static void let_go(void *arg) {
  channel *c = arg;
  td_frame *spent = c->spent;
  int n = c->n_spent;
  c->letting = 0;
  c->spent = NULL;
  c->n_spent = c->room = 0;
  release(spent, n);
  free(spent);
}

static void check_unchanged(const item *m) {
  for (int i = 0; i < m->n; i++)
    if (m->sent[i].len && memcmp(m->sent[i].at, m->frame[i].at, m->sent[i].len))
      sim_give_up("bytes of a message changed before they were released");
}

static void spend(item *m) {
  channel *c = m->from;
  if (!c) return;
  check_unchanged(m);
  if (c->n_spent + m->n > c->room) {
    c->room = 2 * c->room + m->n;
    c->spent = realloc(c->spent, (size_t)c->room * sizeof *c->spent);
    if (!c->spent) sim_give_up("no memory");
  }
  memcpy(&c->spent[c->n_spent], m->sent, (size_t)m->n * sizeof *m->sent);
  c->n_spent += m->n;
  m->from = NULL;
  if (!c->letting) c->letting = sim_post(c->node, 0, let_go, c);
}

static void free_item(item *m) {
  spend(m);
  if (m->frame) {
    line *l = line_of(m);
    if (m->epoch == l->epoch) l->bytes -= m->bytes;
    release(m->frame, m->n);
  }
  free(m->sent);
  free(m->frame);
  free(m);
}

/* ---- the inbox ----------------------------------------------------------- */

static void fire_ready(void *arg) {
  channel *c = arg;
  c->posted = 0;
  c->ready(c->ready_arg);
}

static void notify(channel *c) {
  if (c->ready && !c->posted) c->posted = sim_post(c->node, 0, fire_ready, c);
}

static void push(channel *c, item *m) {
  m->at = 0;
  insert(&c->inbox, m);
  notify(c);
}

static void trouble(connection *k, td_trouble what) {
  if (!k->of->dialler || sim_dead(k->of->dialler->node)) return;
  item *m = memory(sizeof *m);
  *m = (item){.wire = k->of, .what = what, .side = 1};
  push(k->of->dialler, m);
}

/* Order and bytes are part of what a seed says. */
static void note(const item *m) {
  uint64_t h = (uint64_t)m->lane << 32 | m->bytes;
  for (int i = 0; i < m->n; i++) {
    const unsigned char *at = m->frame[i].at;
    for (size_t k = 0; k < m->frame[i].len && k < 64; k++)
      h = (h ^ at[k]) * 0x100000001B3u;
  }
  sim_note(SIM_MESSAGE, h);
}

static void arrive(item *m) {
  line *l = line_of(m);
  int64_t *saw = m->wire->net->saw;
  if (!m->to || m->epoch != l->epoch || sim_dead(m->to->node)) {
    saw[SAW_VANISHED]++;
    free_item(m);
    return;
  }
  spend(m);
  note(m);
  saw[SAW_CAME]++;
  saw[SAW_OVERTAKEN] += !m->copy && m->number < l->came;
  if (m->number > l->came) l->came = m->number;
  push(m->to, m);
}

/* ---- under way ----------------------------------------------------------- */

static void deliver(void *arg) {
  line *l = arg;
  l->timer = 0;
  while (l->items.first && l->items.first->at <= now()) {
    item *m = l->items.first;
    unlink_item(&l->items, m);
    arrive(m);
  }
  if (l->items.first)
    l->timer = sim_post(SIM_WORLD, l->items.first->at, deliver, l);
}

static void depart(item *m) {
  line *l = line_of(m);
  l->bytes += m->bytes;
  insert(&l->items, m);
  if (l->items.first != m) return;
  stop(&l->timer);
  l->timer = sim_post(SIM_WORLD, m->at, deliver, l);
}

static rule *rule_of(sim_network *net, sim_node_t from, sim_node_t to) {
  if (from >= MOST || to >= MOST) sim_give_up("too many nodes for a network");
  return &net->rule[from][to];
}

static bool happens(sim_network *net, const rule *r, sim_fault what) {
  static const sim_saw seen[] = {SAW_DROPPED, SAW_DUPLICATED, SAW_KINDS,
                                 SAW_SLOW};
  if (r->fault[what] == 0 || sim_draw(1000) >= (uint64_t)r->fault[what])
    return false;
  if (seen[what] != SAW_KINDS) net->saw[seen[what]]++;
  return true;
}

/* When it arrives. What may be overtaken holds up nobody. */
static int64_t arrival(line *l, sim_network *net, const rule *r) {
  int64_t at = now() + between(20 * us, 500 * us);
  if (happens(net, r, SIM_SLOW)) at += between(100 * ms, 3000 * ms);
  if (at <= l->last) at = l->last + 1;
  if (happens(net, r, SIM_REORDER)) return at + between(500 * us, 20 * ms);
  return l->last = at;
}

static item *message(const item *like, const td_frame *frames, const rule *r) {
  item *m = memory(sizeof *m);
  *m = *like;
  m->frame = copies(frames, m->n);
  m->at = arrival(line_of(m), m->wire->net, r);
  return m;
}

/* Keeps the sender's frames until the message is over, or not. */
static void put(item *like, td_frame *frames, channel *from, channel *to) {
  sim_network *net = like->wire->net;
  const rule *r = rule_of(net, from->node, to->node);
  line *l = line_of(like);
  like->to = to;
  like->epoch = l->epoch;
  like->number = ++l->sent;
  item *m = message(like, frames, r);
  if (happens(net, r, SIM_DUPLICATE)) {
    item *again = message(like, frames, r);
    again->copy = true;
    depart(again);
  }
  if (sim_draw(2)) {
    m->from = from;
    m->sent = memory((size_t)m->n * sizeof *m->sent);
    memcpy(m->sent, frames, (size_t)m->n * sizeof *frames);
  } else {
    release(frames, m->n);
  }
  depart(m);
}

/* ---- connections --------------------------------------------------------- */

static void attempt(void *arg);

static void try_in(connection *k, int64_t low, int64_t high) {
  if (!k->attempt) k->attempt = after(between(low, high), attempt, k);
}

static void cut_off(line *l) {
  l->epoch++;
  l->bytes = 0;
}

static void down(connection *k) {
  k->up = false;
  stop(&k->loss);
  stop(&k->attempt);
  for (int i = 0; i < 2; i++) k->line[i].broken = false;
}

static void lose(void *arg) {
  connection *k = arg;
  k->loss = 0;
  down(k);
  cut_off(&k->line[0]);
  cut_off(&k->line[1]);
  k->of->net->saw[SAW_LOST]++;
  trouble(k, TD_TROUBLE_LOST);
  try_in(k, 100 * ms, 2000 * ms);
}

/* Nothing more passes, and after a while somebody notices. */
static void break_line(connection *k, int side, int64_t low, int64_t high) {
  k->line[side].broken = true;
  if (!k->loss) k->loss = after(between(low, high), lose, k);
}

static channel *listener(sim_network *net, td_lane lane, const char *address) {
  for (channel *c = net->channels; c; c = c->next)
    if (c->address[lane] && !strcmp(c->address[lane], address) &&
        !sim_dead(c->node))
      return c;
  return NULL;
}

static void refuse(connection *k, td_trouble how) {
  k->of->net->saw[SAW_REFUSED]++;
  k->refused++;
  if (how != TD_TROUBLE_HANDSHAKE)
    trouble(k, how);
  else if (k->refused % 3 == 0)
    trouble(k, how);
  try_in(k, 100 * ms, 2000 * ms);
}

static void connect_to(connection *k, channel *to) {
  wire *w = k->of;
  if (w->end[1] && w->end[1]->link.of != &to->base) w->end[1] = NULL;
  for (int i = 0; i < 2; i++) {
    cut_off(&k->line[i]);
    k->line[i].last = k->line[i].sent = k->line[i].came = 0;
  }
  k->to = to;
  k->up = true;
  k->refused = 0;
  w->net->saw[SAW_CONNECTED]++;
}

static void attempt(void *arg) {
  connection *k = arg;
  wire *w = k->of;
  k->attempt = 0;
  if (!w->dialler || sim_dead(w->dialler->node)) return;
  if (sim_paused(w->dialler->node)) {
    try_in(k, ms, 100 * ms);
    return;
  }
  channel *to = listener(w->net, k->lane, k->address);
  sim_node_t here = w->dialler->node, there = to ? to->node : 0;
  if (!to || rule_of(w->net, here, there)->cut ||
      rule_of(w->net, there, here)->cut) {
    w->net->saw[SAW_UNREACHED]++;
    trouble(k, TD_TROUBLE_UNREACHED);
    try_in(k, 100 * ms, 2000 * ms);
  } else if (sim_paused(there)) {
    try_in(k, ms, 100 * ms);
  } else if (rule_of(w->net, here, there)->refuse >= 0) {
    refuse(k, (td_trouble)rule_of(w->net, here, there)->refuse);
  } else {
    connect_to(k, to);
  }
}

/* One side is gone: perhaps what it had sent arrives. */
static void leave(connection *k, int side) {
  if (sim_draw(2)) cut_off(&k->line[side]);
  cut_off(&k->line[!side]);
  if (side == 0)
    down(k);
  else if (k->up)
    for (int i = 0; i < 2; i++) break_line(k, i, 200 * us, 50 * ms);
}

/* ---- the channel's calls ------------------------------------------------- */

static end *end_new(channel *c, wire *w, int side) {
  end *e = memory(sizeof *e);
  *e = (end){.link = {.of = &c->base, .dialled = side == 0},
             .wire = w,
             .side = side,
             .next = c->ends};
  c->ends = e;
  w->end[side] = e;
  return e;
}

static td_status *check_address(const char *address) {
  if (address && !strncmp(address, "sim://", 6) && address[6]) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "\"%s\" is no address of this network",
                  address ? address : "");
}

static td_status *channel_dial_data(td_link *l, const char *address) {
  wire *w = ((end *)l)->wire;
  connection *k = &w->lane[TD_LANE_DATA];
  TD_TRY(check_address(address));
  if (!l->dialled)
    return td_error(TD_INVALID_ARGUMENT, "the peer dialled this link");
  if (k->address && !strcmp(k->address, address)) return NULL;
  if (k->address) leave(k, 0);
  free(k->address);
  k->address = text(address, "");
  try_in(k, 50 * us, 2 * ms);
  return NULL;
}

static wire *wire_new(sim_network *net, channel *dialler) {
  wire *w = memory(sizeof *w);
  *w = (wire){.net = net, .dialler = dialler, .next = net->wires};
  for (int lane = 0; lane < TD_LANES; lane++) {
    connection *k = &w->lane[lane];
    *k = (connection){.of = w, .lane = (td_lane)lane};
    k->line[0].of = k->line[1].of = k;
  }
  return net->wires = w;
}

static td_status *channel_dial(td_channel *base, const td_dial *to,
                               td_link **out) {
  channel *c = (channel *)base;
  TD_TRY(check_address(to->control));
  if (to->data) TD_TRY(check_address(to->data));
  wire *w = wire_new(c->net, c);
  end *e = end_new(c, w, 0);
  w->lane[TD_LANE_CONTROL].address = text(to->control, "");
  try_in(&w->lane[TD_LANE_CONTROL], 50 * us, 2 * ms);
  *out = &e->link;
  return to->data ? channel_dial_data(*out, to->data) : NULL;
}

static td_status *measure(const td_frame *frames, int n, size_t *bytes) {
  if (n < 1 || n > TD_FRAMES_MOST)
    return td_error(TD_INVALID_ARGUMENT, "a message of %d frames", n);
  for (int i = 0; i < n; i++) {
    if (frames[i].len > TD_FRAME_MOST)
      return td_error(TD_INVALID_ARGUMENT, "a frame of %zu bytes",
                      frames[i].len);
    *bytes += frames[i].len;
  }
  return NULL;
}

static td_status *may_send(const end *e, td_lane lane, size_t bytes) {
  wire *w = e->wire;
  connection *k = &w->lane[lane];
  if (w->end[e->side] != e || !k->up ||
      (e->side == 1 && k->to != (channel *)e->link.of)) {
    w->net->saw[SAW_UNCONNECTED]++;
    return td_error(TD_UNAVAILABLE, "there is no connection");
  }
  if (k->line[e->side].bytes + bytes > fuse) {
    w->net->saw[SAW_FULL]++;
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "%zu bytes are under way already, of %zu",
                    k->line[e->side].bytes, fuse);
  }
  return NULL;
}

static td_status *channel_send(td_link *link, td_lane lane, td_frame *frames,
                               int n) {
  end *e = (end *)link;
  connection *k = &e->wire->lane[lane];
  line *l = &k->line[e->side];
  sim_network *net = e->wire->net;
  size_t bytes = 0;
  td_status *s = measure(frames, n, &bytes);
  if (td_ok(s)) s = may_send(e, lane, bytes);
  if (!td_ok(s)) {
    release(frames, n);
    return s;
  }
  channel *from = (channel *)link->of, *to = e->side ? e->wire->dialler : k->to;
  item like = {
      .wire = e->wire, .lane = lane, .side = e->side, .n = n, .bytes = bytes};
  net->saw[SAW_SENT]++;
  if (sim_dead(from->node) || l->broken) {
    net->saw[SAW_VANISHED]++;
    l->bytes += bytes;
  } else if (!happens(net, rule_of(net, from->node, to->node), SIM_DROP)) {
    put(&like, frames, from, to);
    return NULL;
  }
  release(frames, n);
  return NULL;
}

/* What came over a wire, or trouble with it. */
static void forget_inbox(channel *c, const wire *w, int side) {
  for (item *m = c->inbox.first, *next; m; m = next) {
    next = m->next;
    if (m->wire != w || m->side != side) continue;
    unlink_item(&c->inbox, m);
    free_item(m);
  }
}

static void channel_hang_up(td_link *link) {
  end *e = (end *)link, **at;
  wire *w = e->wire;
  channel *c = (channel *)link->of;
  forget_inbox(c, w, !e->side);
  if (w->end[e->side] == e) w->end[e->side] = NULL;
  if (e->side == 0) {
    for (int lane = 0; lane < TD_LANES; lane++) leave(&w->lane[lane], 0);
    w->dialler = NULL;
  }
  for (at = &c->ends; *at != e;) at = &(*at)->next;
  *at = e->next;
  free(e);
}

static const char *channel_address(const td_channel *c, td_lane lane) {
  return ((const channel *)c)->address[lane];
}

static bool channel_drain(td_channel *base, int most) {
  channel *c = (channel *)base;
  bool any = c->inbox.first != NULL;
  while (c->inbox.first && most-- > 0) {
    item *m = c->inbox.first;
    wire *w = m->wire;
    unlink_item(&c->inbox, m);
    end *e = w->end[!m->side];
    if (m->side == 0 && (!e || e->link.of != base)) e = end_new(c, w, 1);
    td_frame frame[TD_FRAMES_MOST];
    td_lane lane = m->lane;
    td_trouble what = m->what;
    int n = m->n;
    if (n > 0) memcpy(frame, m->frame, (size_t)n * sizeof *frame);
    if (n > 0) memset(m->frame, 0, (size_t)n * sizeof *frame);
    free_item(m);
    if (n > 0)
      base->events.message(base->events.arg, &e->link, lane, frame, n);
    else
      base->events.trouble(base->events.arg, &e->link, what);
  }
  if (c->inbox.first) notify(c);
  return any;
}

static void channel_wait(td_channel *base, int64_t until) {
  channel *c = (channel *)base;
  while (!c->inbox.first && !c->woken && sim_now() < until) {
    sim_step(until);
    if (sim_dead(c->node)) break;
  }
  c->woken = false;
}

static void channel_wake(td_channel *base) {
  channel *c = (channel *)base;
  c->woken = true;
  notify(c);
}

/* Messages under way know it no more. */
static void forget_channel(channel *c) {
  for (wire *w = c->net->wires; w; w = w->next)
    for (int i = 0; i < 2 * TD_LANES; i++) {
      connection *k = &w->lane[i / 2];
      for (item *m = k->line[i % 2].items.first; m; m = m->next) {
        if (m->to == c) m->to = NULL;
        if (m->from == c) spend(m);
      }
      if (i % 2 == 0 && k->to == c) {
        leave(k, 1);
        k->to = NULL;
      }
    }
}

static void channel_free(td_channel *base) {
  channel *c = (channel *)base, **at;
  while (c->ends) channel_hang_up(&c->ends->link);
  forget_channel(c);
  for (item *m; (m = c->inbox.first);) {
    unlink_item(&c->inbox, m);
    free_item(m);
  }
  stop(&c->posted);
  stop(&c->letting);
  let_go(c);
  for (at = &c->net->channels; *at != c;) at = &(*at)->next;
  *at = c->next;
  for (int i = 0; i < TD_LANES; i++) free(c->address[i]);
  free(c);
}

static const td_channel_ops channel_ops = {
    .dial = channel_dial,
    .dial_data = channel_dial_data,
    .send = channel_send,
    .hang_up = channel_hang_up,
    .address = channel_address,
    .drain = channel_drain,
    .wait = channel_wait,
    .wake = channel_wake,
    .free = channel_free,
};

td_status *sim_channel_new(sim_network *net, sim_node_t node,
                           const char *address, td_channel **out) {
  if (address) TD_TRY(check_address(address));
  if (address && listener(net, TD_LANE_CONTROL, address))
    return td_error(TD_FAILED_PRECONDITION, "%s is in use", address);
  channel *c = memory(sizeof *c);
  *c = (channel){.base.ops = &channel_ops,
                 .net = net,
                 .node = node,
                 .next = net->channels};
  if (address) {
    c->address[TD_LANE_CONTROL] = text(address, "");
    c->address[TD_LANE_DATA] = text(address, "/data");
  }
  net->channels = c;
  *out = &c->base;
  return NULL;
}

void sim_channel_on_ready(td_channel *base, void (*ready)(void *arg),
                          void *arg) {
  channel *c = (channel *)base;
  c->ready = ready;
  c->ready_arg = arg;
  if (c->inbox.first) notify(c);
}

/* ---- the network --------------------------------------------------------- */

static const rule healthy = {.fault[SIM_SLOW] = SLOW, .refuse = -1};

sim_network *sim_network_new(void) {
  sim_network *net = memory(sizeof *net);
  sim_network_heal(net, SIM_ANY, SIM_ANY);
  return net;
}

static void free_wire(wire *w) {
  for (int i = 0; i < 2 * TD_LANES; i++) {
    connection *k = &w->lane[i / 2];
    line *l = &k->line[i % 2];
    stop(&l->timer);
    for (item *m; (m = l->items.first);) {
      unlink_item(&l->items, m);
      free_item(m);
    }
    if (i % 2) continue;
    stop(&k->attempt);
    stop(&k->loss);
    free(k->address);
  }
  free(w);
}

void sim_network_free(sim_network *net) {
  if (net->channels) sim_give_up("a channel is left on the network");
  for (wire *w; (w = net->wires);) {
    net->wires = w->next;
    free_wire(w);
  }
  free(net);
}

/* The pairs that two nodes, or any, mean. */
#define EACH_PAIR(a, b, from, to)                                              \
  for (int a = (from) == SIM_ANY ? 0 : (from);                                 \
       a < ((from) == SIM_ANY ? MOST : (from) + 1); a++)                       \
    for (int b = (to) == SIM_ANY ? 0 : (to);                                   \
         b < ((to) == SIM_ANY ? MOST : (to) + 1); b++)

void sim_network_fault(sim_network *net, sim_node_t from, sim_node_t to,
                       sim_fault what, int per_mille) {
  EACH_PAIR(a, b, from, to)
  rule_of(net, a, b)->fault[what] = (short)per_mille;
}

void sim_network_refuse(sim_network *net, sim_node_t dialler,
                        sim_node_t listens, td_trouble how) {
  EACH_PAIR(a, b, dialler, listens)
  rule_of(net, a, b)->refuse = (signed char)how;
}

void sim_network_heal(sim_network *net, sim_node_t a, sim_node_t b) {
  EACH_PAIR(i, k, a, b)
  *rule_of(net, i, k) = *rule_of(net, k, i) = healthy;
}

void sim_network_inherit(sim_network *net, sim_node_t old, sim_node_t young) {
  for (int i = 0; i < MOST; i++) {
    *rule_of(net, young, i) = *rule_of(net, old, i);
    *rule_of(net, i, young) = *rule_of(net, i, old);
  }
}

void sim_network_cut(sim_network *net, sim_node_t from, sim_node_t to) {
  EACH_PAIR(a, b, from, to) {
    if (a != b) rule_of(net, a, b)->cut = true;
  }
  for (wire *w = net->wires; w; w = w->next)
    for (int i = 0; i < 2 * TD_LANES; i++) {
      connection *k = &w->lane[i / 2];
      int side = i % 2;
      if (!k->up || !w->dialler || k->to == NULL) continue;
      sim_node_t here = w->dialler->node, there = k->to->node;
      if (!rule_of(net, side ? there : here, side ? here : there)->cut)
        continue;
      if (k->line[side].broken) continue;
      cut_off(&k->line[side]);
      break_line(k, side, 100 * ms, 3000 * ms);
    }
}

void sim_network_kill(sim_network *net, sim_node_t n) {
  if (sim_dead(n)) return;
  sim_kill(n);
  net->saw[SAW_KILLED]++;
  for (wire *w = net->wires; w; w = w->next)
    for (int lane = 0; lane < TD_LANES; lane++) {
      connection *k = &w->lane[lane];
      if (w->dialler && w->dialler->node == n)
        leave(k, 0);
      else if (k->to && k->to->node == n)
        leave(k, 1);
    }
}
