/* remote.c - the actor: its clock, and who gets what comes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/entropy.h"
#include "engine/device/kernel_table.h"
#include "engine/remote/cells.h"
#include "engine/remote/far_session_impl.h"
#include "engine/remote/keeper_impl.h"
#include "engine/remote/piece_cache.h"
#include "engine/remote/remote_impl.h"

enum { DRAINS = 256 };
#define LEAVE INT64_C(200000000) /* ns for others to hear that we leave */

/* ---- what comes ---------------------------------------------------------- */

/* Once a second at most: there is nobody of that number here. It tells which
 * message it answers: what was begun since then is not meant. */
static void say_stale(td_peer *p, td_lane lane, const td_head *got) {
  int64_t now = td_clock_now();
  if (p->stale_said && now - p->stale_said < TD_HEALTH_BEAT) return;
  p->stale_said = now;
  td_head head;
  Td__Remote__Handles body = TD__REMOTE__HANDLES__INIT;
  uint64_t which[] = {(uint64_t)lane, got->count};
  td_session_id id = {got->session_high, got->session_low};
  td_head_init(&head, &id);
  head.body_case = TD__REMOTE__MESSAGE__BODY_STALE;
  head.stale = &body;
  body.n_handle = TD_COUNT(which);
  body.handle = which;
  td_peer_say(p, &head);
}

static bool is_for_peers(const td_head *h) {
  switch (h->body_case) {
  case TD__REMOTE__MESSAGE__BODY_HELLO:
  case TD__REMOTE__MESSAGE__BODY_WELCOME:
  case TD__REMOTE__MESSAGE__BODY_REFUSED:
  case TD__REMOTE__MESSAGE__BODY_PING:
  case TD__REMOTE__MESSAGE__BODY_PONG:
  case TD__REMOTE__MESSAGE__BODY_PULL:
  case TD__REMOTE__MESSAGE__BODY_CHUNK:
  case TD__REMOTE__MESSAGE__BODY_DROP:
  case TD__REMOTE__MESSAGE__BODY_GONE:
  case TD__REMOTE__MESSAGE__BODY_BYE:
  case TD__REMOTE__MESSAGE__BODY_MEASURE:
  case TD__REMOTE__MESSAGE__BODY_MEASURED:
  case TD__REMOTE__MESSAGE__BODY_LOAD:
  case TD__REMOTE__MESSAGE__BODY_LOADED:
  case TD__REMOTE__MESSAGE__BODY_KEEP_ASK:
  case TD__REMOTE__MESSAGE__BODY_KEEP_ANSWER:
    return true;
  default:
    return false;
  }
}

static void took_leave(td_peer *p, const Td__Remote__Text *m) {
  td_peer_end(p, TD_ENDED,
              td_error(TD_UNAVAILABLE, "%s has ended: %s", p->task, m->text));
}

static void to_probe(td_peer *p, td_message *m) {
  const td_head *h = m->head;
  switch (h->body_case) {
  case TD__REMOTE__MESSAGE__BODY_MEASURE:
    td_probe_asked(p, h->measure);
    break;
  case TD__REMOTE__MESSAGE__BODY_MEASURED:
    td_probe_told(p, h->measured);
    break;
  case TD__REMOTE__MESSAGE__BODY_LOAD:
    td_probe_load(p, m);
    break;
  case TD__REMOTE__MESSAGE__BODY_LOADED:
    td_probe_loaded(p, h->loaded);
    break;
  default:
    break;
  }
}

static void to_peer(td_peer *p, td_message *m) {
  const td_head *h = m->head;
  switch (h->body_case) {
  case TD__REMOTE__MESSAGE__BODY_HELLO:
    td_peer_hello(p, h, false);
    break;
  case TD__REMOTE__MESSAGE__BODY_WELCOME:
    td_peer_hello(p, h, true);
    break;
  case TD__REMOTE__MESSAGE__BODY_REFUSED:
    td_peer_refused(p, h->refused);
    break;
  case TD__REMOTE__MESSAGE__BODY_PING:
    td_peer_pinged(p, h->ping);
    break;
  case TD__REMOTE__MESSAGE__BODY_PONG:
    td_peer_ponged(p, h->pong);
    break;
  case TD__REMOTE__MESSAGE__BODY_PULL:
    td_transfer_pulled(p, h->pull);
    break;
  case TD__REMOTE__MESSAGE__BODY_CHUNK:
    td_transfer_chunk(p, m);
    break;
  case TD__REMOTE__MESSAGE__BODY_DROP:
    td_transfer_dropped(p, h->drop);
    break;
  case TD__REMOTE__MESSAGE__BODY_GONE:
    td_transfer_gone(p, h->gone);
    break;
  case TD__REMOTE__MESSAGE__BODY_BYE:
    took_leave(p, h->bye);
    break;
  case TD__REMOTE__MESSAGE__BODY_KEEP_ASK:
    td_keeper_asked(p, h);
    break;
  case TD__REMOTE__MESSAGE__BODY_KEEP_ANSWER:
    td_far_answered(p, m);
    break;
  default:
    to_probe(p, m);
    break;
  }
}

/* Another process is where a peer was, or this one where another was. */
static void restarted(td_peer *p, const td_head *h) {
  td_peer_end(p, TD_RESTARTED,
              td_error(TD_UNAVAILABLE,
                       "%s was restarted: another process is at its address; "
                       "the variables of the old one are gone",
                       p->task));
  (void)h;
}

static bool is_of_another(const td_peer *p, const td_head *h) {
  return p->incarnation != 0 && p->incarnation != h->from;
}

static bool is_for_another(const td_remote *r, const td_head *h) {
  if (h->body_case == TD__REMOTE__MESSAGE__BODY_HELLO) return false;
  return h->to != r->incarnation;
}

/* Is it to be looked at at all? */
static bool is_welcome(td_remote *r, td_peer *p, td_lane lane,
                       const td_head *h) {
  if (p->health.state == TD_DEAD) {
    td_cell(TD_CELLS_PEER, TD_DEAD, TD_HEARD);
    say_stale(p, lane, h);
    return false;
  }
  if (TD_BUG(TD_BUG_ZOMBIE)) return true;
  if (is_of_another(p, h)) {
    restarted(p, h);
    return false;
  }
  if (!is_for_another(r, h)) return true;
  if (h->body_case != TD__REMOTE__MESSAGE__BODY_STALE) say_stale(p, lane, h);
  return false;
}

/* STALE that speaks of no session: who says it has hung up. */
static bool is_farewell(td_peer *p, const td_head *h) {
  if (h->body_case != TD__REMOTE__MESSAGE__BODY_STALE || h->session_high ||
      h->session_low)
    return false;
  td_peer_end(p, TD_ENDED,
              td_error(TD_UNAVAILABLE,
                       "%s has hung up: it took this process for dead, or was "
                       "told that it is",
                       p->task));
  return true;
}

/* One that is lost stays the next to come, whatever comes after it. Who is met
 * may have said HELLO before, to nobody. */
static void count(td_peer *p, td_lane lane, const td_head *h) {
  td_gap *g = &p->gap[lane];
  uint64_t *came = &p->came[lane], n = h->count;
  bool first = *came == 0 && !p->welcomed && p->link && !p->link->dialled &&
               h->body_case == TD__REMOTE__MESSAGE__BODY_HELLO;
  if (n > p->told[lane]) p->told[lane] = n;
  if (first && n > 0) *came = n - 1;
  if (n <= *came || n - *came > TD_AHEAD) return;
  g->ahead[n % TD_AHEAD / 64] |= (uint64_t)1 << (n % 64);
  for (;;) {
    uint64_t next = (*came + 1) % TD_AHEAD, bit = (uint64_t)1 << (next % 64);
    if (!(g->ahead[next / 64] & bit)) return;
    g->ahead[next / 64] &= ~bit;
    ++*came;
  }
}

static void dispatch(td_remote *r, td_peer *p, td_lane lane, td_message *m) {
  const td_head *h = m->head;
  count(p, lane, h);
  if (r->closed && h->body_case != TD__REMOTE__MESSAGE__BODY_BYE) return;
  if (!is_welcome(r, p, lane, h) || is_farewell(p, h)) return;
  if (p->welcomed && td_health_on(&p->health, TD_HEARD, td_clock_now()))
    td_remote_peer_changed(r, p);
  if (is_for_peers(h))
    to_peer(p, m);
  else if (!td_worker_message(p, m) && !td_master_message(p, m) &&
           h->body_case != TD__REMOTE__MESSAGE__BODY_STALE)
    say_stale(p, lane, h);
}

/* Who was hung up on, or was a link to a process that was here before, is told
 * so; not of what is an answer itself. */
static void say_unheard(td_remote *r, td_link *l, const td_head *got) {
  td_raw frame;
  td_head head;
  Td__Remote__Handles body = TD__REMOTE__HANDLES__INIT;
  if (got->body_case == TD__REMOTE__MESSAGE__BODY_STALE || !got->from) return;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_STALE;
  head.stale = &body;
  head.version = (uint32_t)r->protocol;
  head.from = r->incarnation;
  head.to = got->from;
  td_status *s = td_wire_pack(&head, &frame);
  if (!td_ok(s)) {
    td_status_release(s);
    return;
  }
  s = r->channel->ops->send(l, TD_LANE_CONTROL, &frame, 1);
  if (td_status_code(s) == TD_UNAVAILABLE) td_raw_release(&frame);
  td_status_release(s);
}

/* Of a link that nobody here dialled the first message is a HELLO. */
static td_status *meet(td_remote *r, td_link *l, const td_head *h) {
  if (h->body_case != TD__REMOTE__MESSAGE__BODY_HELLO || h->from == 0) {
    say_unheard(r, l, h);
    return td_error(TD_INVALID_ARGUMENT, "it does not begin with a HELLO");
  }
  return td_peer_let_in(r, l, h);
}

static size_t bytes_of(const td_raw *frames, int n) {
  size_t sum = 0;
  for (int i = 0; i < n; i++) sum += frames[i].len;
  return sum;
}

/* How many of the frames it took, into *took; false when nobody listens to the
 * link any more, which may be gone. */
static bool take_message(td_remote *r, td_link *l, td_lane lane, td_raw *frames,
                         int n, int *took) {
  td_message m;
  bool listens = false;
  size_t bytes = bytes_of(frames, n);
  td_status *s = td_wire_read(frames, n, &m);
  *took = td_ok(s) ? m.next : n;
  if (*took < n) bytes -= bytes_of(frames + *took, n - *took);
  if (td_ok(s) && !l->owner) s = meet(r, l, m.head);
  td_peer *p = l->owner;
  if (p) {
    td_peer_retain(p);
    p->bytes_in += bytes;
    r->meter.bytes_in += bytes;
    r->meter.messages_in++;
    if (td_ok(s))
      dispatch(r, p, lane, &m);
    else
      td_peer_end(p, TD_ENDED, td_status_retain(s));
    listens = p->link == l;
    td_peer_release(p);
  } else if (!l->dialled) {
    r->channel->ops->hang_up(l);
  }
  td_message_deinit(&m);
  td_status_release(s);
  return listens;
}

/* Several may come as one (peer_bundle.c); with the peer ends the rest. */
static void on_message(void *arg, td_link *l, td_lane lane, td_raw *frames,
                       int n) {
  int at = 0, took = 0;
  bool listens = true;
  for (; at < n && listens; at += took)
    listens = take_message(arg, l, lane, frames + at, n - at, &took);
  for (; at < n; at++) td_raw_release(&frames[at]);
}

static void on_trouble(void *arg, td_link *l, td_trouble what) {
  (void)arg;
  if (l->owner) td_peer_trouble(l->owner, what);
}

/* ---- the clock ----------------------------------------------------------- */

static void changed(td_remote *r, td_peer *p) {
  if (p->health.state == TD_DEAD) td_transfer_peer_dead(p);
  td_worker_peer_changed(r, p);
  td_master_peer_changed(r, p);
  td_remote_news(r);
}

/* Peers may end, and go, while they are looked at. */
static void tick_peers(td_remote *r, int64_t now) {
  for (size_t i = 0; i < r->peers.len; i++) {
    td_peer *p = td_peer_retain(r->peers.at[i]);
    td_peer_tick(p, now);
    td_peer_release(p);
  }
  size_t kept = 0;
  for (size_t i = 0; i < r->peers.len; i++) {
    td_peer *p = r->peers.at[i];
    if (p->health.state == TD_DEAD && p->refs == 1)
      td_peer_release(p);
    else
      r->peers.at[kept++] = p;
  }
  r->peers.len = kept;
}

/* Silence of others while our own loop stood still is none. */
static void excuse(td_remote *r, int64_t now) {
  int64_t still = r->ticked ? now - r->ticked - 2 * TD_HEALTH_TICK : 0;
  if (still <= 0 || TD_BUG(TD_BUG_STALL)) return;
  for (size_t i = 0; i < r->peers.len; i++)
    td_health_excuse(&r->peers.at[i]->health, now, still);
}

/* Did our own loop stand still? */
static bool is_stalled(td_remote *r, int64_t now) {
  bool stalled = r->ticked && now - r->ticked > TD_HEALTH_STALL;
  if (!stalled || TD_BUG(TD_BUG_STALL)) return false;
  r->patient = now + TD_HEALTH_PATIENCE;
  for (size_t i = 0; i < r->peers.len; i++)
    td_health_on(&r->peers.at[i]->health, TD_STALLED, now);
  return true;
}

/* What waits is heard before anybody is judged, but for a flood. */
static void hear(td_remote *r) {
  int n = 0;
  while (n++ < DRAINS && r->channel->ops->drain(r->channel, TD_DRAIN_MOST)) {
  }
}

static void tick(td_remote *r, int64_t now) {
  excuse(r, now);
  hear(r);
  bool stalled = is_stalled(r, now);
  r->ticked = now;
  tick_peers(r, now);
  td_transfer_tick(r, now);
  td_probe_tick(r, now);
  td_worker_tick(r, now, stalled);
  td_master_tick(r, now);
}

/* ---- life ---------------------------------------------------------------- */

static td_status *copy(const char *from, char **to) {
  if (!from) return NULL;
  *to = td_strdup(from);
  return *to ? NULL : td_oom();
}

static uint64_t hash_of(const td_kernel_table *t) {
  size_t n;
  uint64_t h = 0;
  const td_kernel_offer *rows = td_kernel_table_rows(t, &n);
  for (size_t i = 0; i < n; i++) {
    h = td_hash(rows[i].op, strlen(rows[i].op) + 1, h);
    h = td_hash(td_wire_text(rows[i].types),
                strlen(td_wire_text(rows[i].types)), h);
  }
  return h;
}

/* Tests have processes of several versions. */
static int protocol(void) {
  const char *env = getenv("TIDE_TEST_PROTOCOL");
  return env ? atoi(env) : TD_WIRE_VERSION;
}

/* What is no number, or none of these, is as if it were not there. */
static double patience(const td_remote_options *o) {
  const char *env = getenv("TIDE_PATIENCE");
  double n = o->patience > 0 ? o->patience : env ? strtod(env, NULL) : 1;
  return n >= 1 && n <= TD_PATIENCE_MOST ? n : 1;
}

static td_status *init(td_remote *r, const td_remote_options *o) {
  TD_TRY(copy(o->advertise, &r->advertise));
  TD_TRY(copy(o->public_key, &r->public_key));
  TD_TRY(copy(o->advertise_data, &r->advertise_data));
  TD_TRY(td_transfers_new(r, &r->transfers));
  r->host = td_transfers_host(r);
  TD_TRY(td_kernel_table_here("CPU", &r->kernels));
  r->kernels_hash = hash_of(r->kernels);
  if (o->serve && !(r->pieces = td_piece_cache_new(0, 0))) return td_oom();
  return o->thread ? td_pump_start(r) : NULL;
}

/* The last share went. */
static void end(td_remote *r) {
  for (size_t i = 0; i < r->peers.len; i++) td_peer_release(r->peers.at[i]);
  td_vec_free(&r->peers);
  td_vec_free(&r->hosted);
  td_vec_free(&r->masters);
  td_transfers_free(r->transfers);
  td_piece_cache_free(r->pieces);
  td_kernel_table_release(r->kernels);
  td_runtime_release(r->runtime);
  td_free(r->public_key);
  td_free(r->advertise);
  td_free(r->advertise_data);
  pthread_mutex_destroy(&r->turn);
  pthread_mutex_destroy(&r->ear);
  td_free(r);
}

static const td_remote_hooks hooks = {.changed = changed,
                                      .tick = tick,
                                      .greet = td_peers_greet,
                                      .send_off = td_peers_send_off,
                                      .drop_values = td_peer_values_deinit,
                                      .end = end};

td_status *td_remote_new(const td_remote_options *o, td_remote **out) {
  td_remote *r = td_calloc(1, sizeof *r);
  if (!r) {
    o->channel->ops->free(o->channel);
    return td_oom();
  }
  r->refs = 1;
  r->hooks = &hooks;
  r->runtime = td_runtime_retain(o->runtime);
  r->channel = o->channel;
  r->channel->events = (td_channel_events){on_message, on_trouble, r};
  r->incarnation = td_entropy() | 1;
  r->protocol = protocol();
  r->serve = o->serve;
  r->cpu_devices = o->cpu_devices > 0 ? o->cpu_devices : 1;
  r->threads = o->threads;
  r->room = TD_ROOM;
  r->room_idle = TD_ROOM_IDLE;
  r->after_end = &r->after;
  r->patience = patience(o);
  r->ticked = td_clock_now();
  pthread_mutex_init(&r->turn, NULL);
  pthread_mutex_init(&r->ear, NULL);
  td_status *s = init(r, o);
  if (!td_ok(s)) {
    td_remote_close(r);
    td_remote_release(r);
    return s;
  }
  *out = r;
  return NULL;
}

/* The peers are told; what they have here ends. */
static void say_bye(td_remote *r) {
  Td__Remote__Text body = TD__REMOTE__TEXT__INIT;
  td_head head;
  body.text = (char *)"its process ended in order";
  for (size_t i = 0; i < r->peers.len; i++) {
    td_peer *p = r->peers.at[i];
    if (p->health.state == TD_DEAD || !p->welcomed) continue;
    td_head_init(&head, NULL);
    head.body_case = TD__REMOTE__MESSAGE__BODY_BYE;
    head.bye = &body;
    td_peer_say(p, &head);
  }
}

static bool is_anybody_there(const td_remote *r) {
  for (size_t i = 0; i < r->peers.len; i++) {
    const td_peer *p = r->peers.at[i];
    if (p->link && !p->link->dialled && p->health.state == TD_UP) return true;
  }
  return false;
}

/* ZeroMQ lets a message go that came just before its connection ended, where it
 * was this side that listened. So they hang up first, as who hears BYE does. */
static void wait_to_be_left(td_remote *r) {
  int64_t now = td_clock_now(), until = now + LEAVE;
  for (; now < until && is_anybody_there(r); now = td_clock_now()) {
    td_remote_leave(r);
    r->channel->ops->wait(r->channel, until);
    td_remote_enter(r);
    (void)r->channel->ops->drain(r->channel, TD_DRAIN_MOST);
  }
}

void td_remote_close(td_remote *r) {
  bool threaded = r->has_thread;
  td_pump_stop(r);
  td_remote_enter(r);
  bool first = !r->closed;
  __atomic_store_n(&r->closed, true, __ATOMIC_RELEASE);
  if (first) {
    td_worker_close_all(r);
    td_master_close_all(r);
    td_probe_close_all(r);
    say_bye(r);
    if (threaded) wait_to_be_left(r);
    for (size_t i = 0; i < r->peers.len; i++)
      td_peer_end(r->peers.at[i], TD_ENDED,
                  td_error(TD_UNAVAILABLE, "this process takes part in "
                                           "nothing any more"));
    r->channel->ops->free(r->channel);
    r->channel = NULL;
  }
  td_remote_leave(r);
  if (first) td_keeper_close(r);
}

uint64_t td_remote_incarnation(const td_remote *r) {
  return r->incarnation;
}
