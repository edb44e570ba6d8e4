/* wires.c - see wires.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/wires.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/base/sim.h"

static const int64_t us = 1000, ms = 1000000;

static int64_t frames_left;

int64_t sim_frames_left(void) {
  return frames_left;
}

void *sim_memory(size_t n) {
  void *p = calloc(1, n ? n : 1);
  if (!p) sim_give_up("no memory");
  return p;
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

void sim_stop(uint64_t *timer) {
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

void wire_unlink(list *l, item *m) {
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

static td_raw *copies(const td_raw *frames, int n) {
  td_raw *to = sim_memory((size_t)n * sizeof *to);
  for (int i = 0; i < n; i++) {
    void *bytes = sim_memory(frames[i].len);
    if (frames[i].len) memcpy(bytes, frames[i].at, frames[i].len);
    to[i] = (td_raw){bytes, frames[i].len, free_bytes, bytes};
    frames_left++;
  }
  return to;
}

void wire_release(td_raw *frames, int n) {
  for (int i = 0; i < n; i++) td_raw_release(&frames[i]);
}

/* Inside of the sender's node. */
void wire_let_go(void *arg) {
  channel *c = arg;
  td_raw *spent = c->spent;
  int n = c->n_spent;
  c->letting = 0;
  c->spent = NULL;
  c->n_spent = c->room = 0;
  wire_release(spent, n);
  free(spent);
}

static void check_unchanged(const item *m) {
  for (int i = 0; i < m->n; i++)
    if (m->sent[i].len && memcmp(m->sent[i].at, m->frame[i].at, m->sent[i].len))
      sim_give_up("bytes of a message changed before they were released");
}

void wire_spend(item *m) {
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
  if (!c->letting) c->letting = sim_post(c->node, 0, wire_let_go, c);
}

void wire_free_item(item *m) {
  wire_spend(m);
  if (m->frame) {
    line *l = line_of(m);
    if (m->epoch == l->epoch) l->bytes -= m->bytes;
    wire_release(m->frame, m->n);
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

void wire_notify(channel *c) {
  if (c->ready && !c->posted) c->posted = sim_post(c->node, 0, fire_ready, c);
}

static void push(channel *c, item *m) {
  m->at = 0;
  insert(&c->inbox, m);
  wire_notify(c);
}

static void trouble(connection *k, td_trouble what) {
  if (!k->of->dialler || sim_dead(k->of->dialler->node)) return;
  item *m = sim_memory(sizeof *m);
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
    const sim_onlooker *who = &m->wire->net->onlooker;
    saw[SAW_VANISHED]++;
    if (who->lost) who->lost(who->arg, m->frame, m->n);
    wire_free_item(m);
    return;
  }
  wire_spend(m);
  note(m);
  saw[SAW_CAME]++;
  m->wire->heard[!m->side] = now();
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
    wire_unlink(&l->items, m);
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
  sim_stop(&l->timer);
  l->timer = sim_post(SIM_WORLD, m->at, deliver, l);
}

rule *wire_rule(sim_network *net, sim_node_t from, sim_node_t to) {
  if (from >= MOST || to >= MOST) sim_give_up("too many nodes for a network");
  return &net->rule[from][to];
}

bool wire_happens(sim_network *net, const rule *r, sim_fault what) {
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
  if (wire_happens(net, r, SIM_SLOW)) at += between(100 * ms, 3000 * ms);
  if (at <= l->last) at = l->last + 1;
  if (wire_happens(net, r, SIM_REORDER))
    return at + between(500 * us, (sim_draw(2) ? 20 : 200) * ms);
  return l->last = at;
}

static item *message(const item *like, const td_raw *frames, const rule *r) {
  item *m = sim_memory(sizeof *m);
  *m = *like;
  m->frame = copies(frames, m->n);
  m->at = arrival(line_of(m), m->wire->net, r);
  return m;
}

/* Keeps the sender's frames until the message is over, or not. */
void wire_put(item *like, td_raw *frames, channel *from, channel *to) {
  sim_network *net = like->wire->net;
  const rule *r = wire_rule(net, from->node, to->node);
  line *l = line_of(like);
  like->to = to;
  like->sender = from->node;
  like->epoch = l->epoch;
  like->number = ++l->sent;
  item *m = message(like, frames, r);
  if (wire_happens(net, r, SIM_DUPLICATE)) {
    item *again = message(like, frames, r);
    again->copy = true;
    if (sim_draw(2)) again->at += between(0, 2000 * ms);
    depart(again);
  }
  if (sim_draw(2)) {
    m->from = from;
    m->sent = sim_memory((size_t)m->n * sizeof *m->sent);
    memcpy(m->sent, frames, (size_t)m->n * sizeof *frames);
  } else {
    wire_release(frames, m->n);
  }
  depart(m);
}

/* ---- connections --------------------------------------------------------- */

static void attempt(void *arg);

void wire_try(connection *k, int64_t low, int64_t high) {
  if (!k->attempt) k->attempt = after(between(low, high), attempt, k);
}

void wire_cut_off(line *l) {
  l->epoch++;
  l->bytes = 0;
}

static void down(connection *k) {
  k->up = false;
  sim_stop(&k->loss);
  sim_stop(&k->attempt);
  for (int i = 0; i < 2; i++) k->line[i].broken = false;
}

static void lose(void *arg) {
  connection *k = arg;
  k->loss = 0;
  down(k);
  wire_cut_off(&k->line[0]);
  wire_cut_off(&k->line[1]);
  k->of->net->saw[SAW_LOST]++;
  trouble(k, TD_TROUBLE_LOST);
  wire_try(k, 100 * ms, 2000 * ms);
}

/* Nothing more passes, and after a while somebody notices. */
void wire_break(connection *k, int side, int64_t low, int64_t high) {
  k->line[side].broken = true;
  if (!k->loss) k->loss = after(between(low, high), lose, k);
}

channel *wire_listener(sim_network *net, td_lane lane, const char *address) {
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
  wire_try(k, 100 * ms, 2000 * ms);
}

static void connect_to(connection *k, channel *to) {
  wire *w = k->of;
  if (w->end[1] && w->end[1]->link.of != &to->base) w->end[1] = NULL;
  for (int i = 0; i < 2; i++) {
    wire_cut_off(&k->line[i]);
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
    wire_try(k, ms, 100 * ms);
    return;
  }
  channel *to = wire_listener(w->net, k->lane, k->address);
  sim_node_t here = w->dialler->node, there = to ? to->node : 0;
  if (!to || wire_rule(w->net, here, there)->cut ||
      wire_rule(w->net, there, here)->cut) {
    w->net->saw[SAW_UNREACHED]++;
    trouble(k, TD_TROUBLE_UNREACHED);
    wire_try(k, 100 * ms, 2000 * ms);
  } else if (sim_paused(there)) {
    wire_try(k, ms, 100 * ms);
  } else if (wire_rule(w->net, here, there)->refuse >= 0) {
    refuse(k, (td_trouble)wire_rule(w->net, here, there)->refuse);
  } else {
    connect_to(k, to);
  }
}

/* One side is gone: perhaps what it had sent arrives. */
void wire_leave(connection *k, int side) {
  if (sim_draw(2)) wire_cut_off(&k->line[side]);
  wire_cut_off(&k->line[!side]);
  if (side == 0)
    down(k);
  else if (k->up)
    for (int i = 0; i < 2; i++) wire_break(k, i, 200 * us, 50 * ms);
}

/* ---- a wire -------------------------------------------------------------- */

wire *wire_new(sim_network *net, channel *dialler) {
  wire *w = sim_memory(sizeof *w);
  *w = (wire){
      .net = net, .dialler = dialler, .heard = {-1, -1}, .next = net->wires};
  for (int lane = 0; lane < TD_LANES; lane++) {
    connection *k = &w->lane[lane];
    *k = (connection){.of = w, .lane = (td_lane)lane};
    k->line[0].of = k->line[1].of = k;
  }
  return net->wires = w;
}

void wire_free(wire *w) {
  for (int i = 0; i < 2 * TD_LANES; i++) {
    connection *k = &w->lane[i / 2];
    line *l = &k->line[i % 2];
    sim_stop(&l->timer);
    for (item *m; (m = l->items.first);) {
      wire_unlink(&l->items, m);
      wire_free_item(m);
    }
    if (i % 2) continue;
    sim_stop(&k->attempt);
    sim_stop(&k->loss);
    free(k->address);
  }
  free(w);
}
