/* network.c - see network.h: the calls of channels, and faults.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/base/sim.h"
#include "tests/sim/wires.h"

enum { SLOW = 2 }; /* in a thousand, of a healthy network */

static const size_t fuse = 16 << 20; /* bytes under way on a line */
static const int64_t us = 1000, ms = 1000000;

const char *const sim_saw_names[SAW_KINDS] = {
    "sent",    "came",     "dropped",     "duplicated", "overtaken",
    "slow",    "vanished", "connected",   "lost",       "unreached",
    "refused", "killed",   "unconnected", "full"};

int64_t sim_network_saw(const sim_network *net, sim_saw what) {
  return net->saw[what];
}

static char *text(const char *s, const char *more) {
  size_t n = strlen(s) + strlen(more) + 1;
  char *copy = sim_memory(n);
  snprintf(copy, n, "%s%s", s, more);
  return copy;
}

/* ---- the channel's calls ------------------------------------------------- */

static end *end_new(channel *c, wire *w, int side) {
  end *e = sim_memory(sizeof *e);
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
  if (k->address) wire_leave(k, 0);
  free(k->address);
  k->address = text(address, "");
  wire_try(k, 50 * us, 2 * ms);
  return NULL;
}

static td_status *channel_dial(td_channel *base, const td_dial *to,
                               td_link **out) {
  channel *c = (channel *)base;
  TD_TRY(check_address(to->control));
  if (to->data) TD_TRY(check_address(to->data));
  wire *w = wire_new(c->net, c);
  end *e = end_new(c, w, 0);
  w->lane[TD_LANE_CONTROL].address = text(to->control, "");
  wire_try(&w->lane[TD_LANE_CONTROL], 50 * us, 2 * ms);
  *out = &e->link;
  return to->data ? channel_dial_data(*out, to->data) : NULL;
}

static td_status *measure(const td_raw *frames, int n, size_t *bytes) {
  if (n < 1 || n > TD_MESSAGE_FRAMES)
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

static td_status *channel_send(td_link *link, td_lane lane, td_raw *frames,
                               int n) {
  end *e = (end *)link;
  connection *k = &e->wire->lane[lane];
  line *l = &k->line[e->side];
  sim_network *net = e->wire->net;
  size_t bytes = 0;
  td_status *s = measure(frames, n, &bytes);
  if (td_ok(s)) s = may_send(e, lane, bytes);
  if (!td_ok(s)) {
    if (td_status_code(s) != TD_UNAVAILABLE) wire_release(frames, n);
    return s;
  }
  channel *from = (channel *)link->of, *to = e->side ? e->wire->dialler : k->to;
  item like = {
      .wire = e->wire, .lane = lane, .side = e->side, .n = n, .bytes = bytes};
  net->saw[SAW_SENT]++;
  if (sim_dead(from->node) || l->broken) {
    net->saw[SAW_VANISHED]++;
    l->bytes += bytes;
  } else if (!wire_happens(net, wire_rule(net, from->node, to->node),
                           SIM_DROP)) {
    wire_put(&like, frames, from, to);
    return NULL;
  }
  const sim_onlooker *who = &net->onlooker;
  if (who->lost) who->lost(who->arg, frames, n);
  wire_release(frames, n);
  return NULL;
}

/* What came over a wire, or trouble with it. */
static void forget_inbox(channel *c, const wire *w, int side) {
  for (item *m = c->inbox.first, *next; m; m = next) {
    next = m->next;
    if (m->wire != w || m->side != side) continue;
    wire_unlink(&c->inbox, m);
    wire_free_item(m);
  }
}

static void channel_hang_up(td_link *link) {
  end *e = (end *)link, **at;
  wire *w = e->wire;
  channel *c = (channel *)link->of;
  forget_inbox(c, w, !e->side);
  if (w->end[e->side] == e) w->end[e->side] = NULL;
  if (e->side == 0) {
    for (int lane = 0; lane < TD_LANES; lane++) wire_leave(&w->lane[lane], 0);
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
    wire_unlink(&c->inbox, m);
    end *e = w->end[!m->side];
    if (m->side == 0 && (!e || e->link.of != base)) e = end_new(c, w, 1);
    td_raw frame[TD_MESSAGE_FRAMES];
    td_lane lane = m->lane;
    td_trouble what = m->what;
    int n = m->n;
    sim_node_t from = m->sender;
    if (n > 0) memcpy(frame, m->frame, (size_t)n * sizeof *frame);
    if (n > 0) memset(m->frame, 0, (size_t)n * sizeof *frame);
    wire_free_item(m);
    const sim_onlooker *who = &c->net->onlooker;
    if (n > 0 && who->before) who->before(who->arg, from, c->node, frame, n);
    if (n > 0)
      base->events.message(base->events.arg, &e->link, lane, frame, n);
    else
      base->events.trouble(base->events.arg, &e->link, what);
    if (who->after) who->after(who->arg, c->node);
  }
  if (c->inbox.first) wire_notify(c);
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
  wire_notify(c);
}

/* Messages under way know it no more. */
static void forget_channel(channel *c) {
  for (wire *w = c->net->wires; w; w = w->next)
    for (int i = 0; i < 2 * TD_LANES; i++) {
      connection *k = &w->lane[i / 2];
      for (item *m = k->line[i % 2].items.first; m; m = m->next) {
        if (m->to == c) m->to = NULL;
        if (m->from == c) wire_spend(m);
      }
      if (i % 2 == 0 && k->to == c) {
        wire_leave(k, 1);
        k->to = NULL;
      }
    }
}

static void channel_free(td_channel *base) {
  channel *c = (channel *)base, **at;
  while (c->ends) channel_hang_up(&c->ends->link);
  forget_channel(c);
  for (item *m; (m = c->inbox.first);) {
    wire_unlink(&c->inbox, m);
    wire_free_item(m);
  }
  sim_stop(&c->posted);
  sim_stop(&c->letting);
  wire_let_go(c);
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
  if (address && wire_listener(net, TD_LANE_CONTROL, address))
    return td_error(TD_FAILED_PRECONDITION, "%s is in use", address);
  channel *c = sim_memory(sizeof *c);
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
  if (c->inbox.first) wire_notify(c);
}

/* ---- who looks on -------------------------------------------------------- */

void sim_network_watch(sim_network *net, const sim_onlooker *who) {
  net->onlooker = who ? *who : (sim_onlooker){0};
}

sim_end sim_link_end(const td_link *l) {
  const end *e = (const end *)l;
  return (sim_end){e->wire, e->side};
}

int64_t sim_end_heard(sim_end e) {
  return ((const wire *)e.wire)->heard[e.side];
}

/* ---- the network --------------------------------------------------------- */

static const rule healthy = {.fault[SIM_SLOW] = SLOW, .refuse = -1};

sim_network *sim_network_new(void) {
  sim_network *net = sim_memory(sizeof *net);
  sim_network_heal(net, SIM_ANY, SIM_ANY);
  return net;
}

void sim_network_free(sim_network *net) {
  if (net->channels) sim_give_up("a channel is left on the network");
  for (wire *w; (w = net->wires);) {
    net->wires = w->next;
    wire_free(w);
  }
  free(net);
}

/* The nodes that one, or any, means: from the first to before the last. */
static int first(sim_node_t n) {
  return n == SIM_ANY ? 0 : n;
}
static int last(sim_node_t n) {
  if (n >= MOST) sim_give_up("too many nodes for a network");
  return n == SIM_ANY ? MOST : n + 1;
}

void sim_network_fault(sim_network *net, sim_node_t from, sim_node_t to,
                       sim_fault what, int per_mille) {
  for (int a = first(from); a < last(from); a++)
    for (int b = first(to); b < last(to); b++)
      net->rule[a][b].fault[what] = (short)per_mille;
}

void sim_network_refuse(sim_network *net, sim_node_t dialler,
                        sim_node_t listens, td_trouble how) {
  for (int a = first(dialler); a < last(dialler); a++)
    for (int b = first(listens); b < last(listens); b++)
      net->rule[a][b].refuse = (signed char)how;
}

static void heal(sim_network *net, sim_node_t from, sim_node_t to) {
  for (int a = first(from); a < last(from); a++)
    for (int b = first(to); b < last(to); b++) net->rule[a][b] = healthy;
}

void sim_network_heal(sim_network *net, sim_node_t a, sim_node_t b) {
  heal(net, a, b);
  if (a != b) heal(net, b, a);
}

void sim_network_inherit(sim_network *net, sim_node_t old, sim_node_t young) {
  for (int i = 0; i < MOST; i++) {
    *wire_rule(net, young, i) = *wire_rule(net, old, i);
    *wire_rule(net, i, young) = *wire_rule(net, i, old);
  }
}

void sim_network_cut(sim_network *net, sim_node_t from, sim_node_t to) {
  for (int a = first(from); a < last(from); a++)
    for (int b = first(to); b < last(to); b++) {
      if (a != b) net->rule[a][b].cut = true;
    }
  for (wire *w = net->wires; w; w = w->next)
    for (int i = 0; i < 2 * TD_LANES; i++) {
      connection *k = &w->lane[i / 2];
      int side = i % 2;
      if (!k->up || !w->dialler || k->to == NULL) continue;
      sim_node_t here = w->dialler->node, there = k->to->node;
      if (!wire_rule(net, side ? there : here, side ? here : there)->cut)
        continue;
      if (k->line[side].broken) continue;
      wire_cut_off(&k->line[side]);
      wire_break(k, side, 100 * ms, 3000 * ms);
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
        wire_leave(k, 0);
      else if (k->to && k->to->node == n)
        wire_leave(k, 1);
    }
}
