/* probe.c - how good the way to a peer is: round trips, its clock, what goes
 * through.
 *
 * LOAD without frames is a round: the answer, LOADED, comes by the same lane
 * and says when it was there. The quickest of them tells the clocks apart, to
 * within half of what it took. Then LOADs of 256 KiB go by the lane for data,
 * four under way, until enough were answered: what steps send goes between
 * them. Who answers keeps nothing.
 *
 * MEASURE has another process do so, with a peer of its own, or with one that
 * it dials as it would for a step. It is asked by those with a key only, as all
 * is, and is bounded: 64 MiB, 64 rounds, a minute, one at a time for each who
 * asks and sixteen for all. A link that was made for it stays, since the other
 * side may use it by now.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/remote/remote_impl.h"

enum { PROBES_MOST = 16, WINDOW = 4 };
#define PATIENCE INT64_C(10000000000) /* ns */
#define PATIENCE_MOST INT64_C(60000000000)
#define MORE                                                                   \
  INT64_C(1000000000) /* ns for another to tell that it was too late */

/* ---- life ---------------------------------------------------------------- */

static void unlist(td_remote *r, td_probe *b) {
  td_probe **at = &r->probes;
  while (*at && *at != b) at = &(*at)->next;
  if (*at) *at = b->next;
}

void td_probe_let_go(td_peer *p) {
  if (!p->welcomed && p->health.state != TD_DEAD && p->refs == 2)
    td_peer_end(p, TD_ENDED, td_error(TD_UNAVAILABLE, "nobody was there"));
  td_peer_release(p);
}

void td_probe_drop(td_remote *r, td_probe *b) {
  unlist(r, b);
  td_probe_let_go(b->of);
  td_peer_release(b->asker);
  td_status_release(b->status);
  td_free(b);
}

static td_probe *find(const td_peer *p, uint64_t id, bool far) {
  td_probe *b = p->of->probes;
  while (b && (b->of != p || b->id != id || b->far != far || b->over))
    b = b->next;
  return b;
}

static void say_measured(td_peer *to, uint64_t id, const td_status *s,
                         const td_remote_measured *found, uint32_t rounds) {
  td_arena a;
  td_head head;
  Td__Remote__Measured body = TD__REMOTE__MEASURED__INIT;
  td_arena_init(&a);
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_MEASURED;
  head.measured = &body;
  body.id = id;
  body.status = td_wire_status_out(&a, s);
  if (td_ok(s) && found) {
    body.rounds = rounds;
    body.least = found->least;
    body.median = found->median;
    body.clock = found->clock;
    body.wall = found->wall;
    body.bytes = found->bytes;
    body.took = found->took;
  }
  td_peer_say(to, &head);
  td_arena_deinit(&a);
}

/* Its end; takes ownership of `s`. Who waits here drops it, else it goes. */
static void settle(td_probe *b, td_status *s) {
  td_remote *r = b->of->of;
  b->over = true;
  b->status = s;
  if (b->asker) {
    say_measured(b->asker, b->asked, s, &b->found, b->rounds);
    td_probe_drop(r, b);
  } else {
    td_remote_news(r);
  }
}

/* ---- measuring ----------------------------------------------------------- */

static td_status *say_load(td_probe *b, td_lane lane, uint64_t n, td_raw *raw,
                           int n_raw) {
  td_head head;
  Td__Remote__Load body = TD__REMOTE__LOAD__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_LOAD;
  head.load = &body;
  body.id = b->id;
  body.n = n;
  return td_peer_send(b->of, lane, &head, raw, n_raw);
}

static td_status *say_round(td_probe *b) {
  b->said = td_clock_now();
  b->wall_said = td_clock_wall_us() * 1000;
  return say_load(b, TD_LANE_CONTROL, b->sent++, NULL, 0);
}

static int compare(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

/* As many as may be under way. What the peer does not take just now goes with
 * the next answer. */
static td_status *send_more(td_probe *b) {
  static const char nothing[TD_CHUNK];
  while (b->sent < b->bytes && b->sent - b->came < WINDOW * TD_CHUNK) {
    uint64_t left = b->bytes - b->sent;
    size_t len = left < TD_CHUNK ? (size_t)left : TD_CHUNK;
    td_raw raw = {.at = nothing, .len = len};
    td_status *s = say_load(b, TD_LANE_DATA, b->sent, &raw, 1);
    if (td_status_code(s) == TD_RESOURCE_EXHAUSTED && b->sent > b->came) {
      td_status_release(s);
      return NULL;
    }
    TD_TRY(s);
    b->sent += len;
  }
  return NULL;
}

/* The rounds are made: then what goes through. */
static td_status *load(td_probe *b) {
  qsort(b->trip, b->rounds, sizeof *b->trip, compare);
  b->found.median = b->trip[b->rounds / 2];
  b->sent = b->came = 0;
  b->loading = true;
  b->said = td_clock_now();
  return send_more(b);
}

static void take_round(td_probe *b, const Td__Remote__Load *m) {
  int64_t now = td_clock_now(), trip = now - b->said - (m->t2 - m->t1);
  td_remote_measured *f = &b->found;
  if (trip < 0) trip = now - b->said;
  b->trip[b->came++] = trip;
  if (b->came > 1 && trip >= f->least) return;
  f->least = trip;
  f->clock = m->t1 - (b->said + trip / 2);
  f->wall = m->wall - (b->wall_said + trip / 2);
}

static void take_load(td_probe *b, const Td__Remote__Load *m) {
  b->came += m->bytes;
  b->found.bytes = b->came;
  b->found.took = td_clock_now() - b->said;
}

void td_probe_loaded(td_peer *p, const Td__Remote__Load *m) {
  td_probe *b = find(p, m->id, false);
  td_status *s = NULL;
  bool loading = b && b->loading;
  if (!b || !b->begun) return;
  if (loading ? m->bytes == 0 || m->bytes > b->sent - b->came
              : m->n != b->came || m->bytes)
    return;
  if (loading)
    take_load(b, m);
  else
    take_round(b, m);
  if (!loading && b->came < b->rounds)
    s = say_round(b);
  else if (!loading)
    s = load(b);
  else
    s = send_more(b);
  if (!td_ok(s) || (b->loading && b->came == b->bytes)) settle(b, s);
}

/* ---- answering ----------------------------------------------------------- */

void td_probe_load(td_peer *p, const td_message *m) {
  td_head head;
  Td__Remote__Load body = TD__REMOTE__LOAD__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_LOADED;
  head.loaded = &body;
  body.id = m->head->load->id;
  body.n = m->head->load->n;
  body.t1 = td_clock_now();
  body.wall = td_clock_wall_us() * 1000;
  for (int i = 0; i < m->n; i++) body.bytes += m->frames[i].len;
  body.t2 = td_clock_now();
  td_peer_say(p, &head);
}

/* ---- beginning ----------------------------------------------------------- */

static bool is_at_limit(const td_remote *r, const td_peer *asker) {
  int n = 0;
  for (const td_probe *b = r->probes; b; b = b->next, n++)
    if (asker && b->asker == asker) return true;
  return n >= PROBES_MOST;
}

/* A share of `of` becomes its own, if it is there. */
static td_status *probe_new(td_remote *r, td_peer *of, td_peer *asker,
                            td_probe **out) {
  if (is_at_limit(r, asker))
    return td_error(TD_RESOURCE_EXHAUSTED, "it measures enough already");
  td_probe *b = td_calloc(1, sizeof *b);
  if (!b) return td_oom();
  b->of = of;
  b->asker = asker ? td_peer_retain(asker) : NULL;
  b->id = td_remote_number(r);
  b->until = td_clock_now() + PATIENCE;
  b->next = r->probes;
  r->probes = b;
  *out = b;
  return NULL;
}

static void bound(td_probe *b, uint64_t rounds, uint64_t bytes,
                  int64_t timeout) {
  if (timeout > 0 && timeout <= PATIENCE_MOST)
    b->until = td_clock_now() + timeout;
  b->rounds = rounds < 1                 ? 1
              : rounds > TD_PROBE_ROUNDS ? TD_PROBE_ROUNDS
                                         : (uint32_t)rounds;
  b->bytes = bytes > TD_PROBE_BYTES ? TD_PROBE_BYTES : bytes;
}

/* As soon as it is there. */
static void go_on(td_probe *b) {
  if (b->of->health.state == TD_DEAD) {
    settle(b, td_peer_lost(b->of));
  } else if (!b->far && !b->begun && b->of->welcomed) {
    b->begun = true;
    td_status *s = say_round(b);
    if (!td_ok(s)) settle(b, s);
  }
}

static td_status *say_measure(td_probe *b, const Td__Remote__Task *way) {
  td_head head;
  Td__Remote__Measure body = TD__REMOTE__MEASURE__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_MEASURE;
  head.measure = &body;
  body.id = b->id;
  body.to = (Td__Remote__Task *)way;
  body.rounds = b->rounds;
  body.bytes = b->bytes;
  body.timeout = b->until - td_clock_now();
  return td_peer_send(b->of, TD_LANE_CONTROL, &head, NULL, 0);
}

td_status *td_probe_begin(td_remote *r, td_peer *of,
                          const Td__Remote__Task *way,
                          const td_measure_options *o, td_probe **out) {
  td_probe *b;
  TD_TRY(probe_new(r, of, NULL, &b));
  td_peer_retain(of);
  bound(b, o->rounds, o->bytes, o->timeout);
  b->far = way != NULL;
  td_status *s = way ? say_measure(b, way) : NULL;
  if (way) b->until += MORE;
  if (!td_ok(s)) {
    td_probe_drop(r, b);
    return s;
  }
  if (!way) go_on(b);
  *out = b;
  return NULL;
}

/* A share of the peer that a MEASURE means. Caller owns the result. */
static td_status *peer_of(td_remote *r, const Td__Remote__Task *t,
                          td_peer **out) {
  td_peer *p = td_peer_find(r, t->incarnation, t->key);
  td_dial to = {.control = t->control,
                .data = *t->data ? t->data : NULL,
                .key = *t->key ? t->key : NULL};
  if (p) {
    *out = td_peer_retain(p);
    return NULL;
  }
  if (!*t->control)
    return td_error(TD_NOT_FOUND, "%s is not known here and does not listen",
                    t->task);
  return td_peer_dial(r, &to, out);
}

void td_probe_asked(td_peer *p, const Td__Remote__Measure *m) {
  td_remote *r = p->of;
  td_probe *b;
  td_peer *of = NULL;
  td_status *s = NULL;
  if (!r->serve || !m->to)
    s = td_error(TD_INVALID_ARGUMENT, "nothing to measure");
  if (td_ok(s)) s = peer_of(r, m->to, &of);
  if (td_ok(s)) s = probe_new(r, of, p, &b);
  if (!td_ok(s)) {
    say_measured(p, m->id, s, NULL, 0);
    if (of) td_probe_let_go(of);
    td_status_release(s);
    return;
  }
  b->asked = m->id;
  bound(b, m->rounds, m->bytes, m->timeout);
  go_on(b);
}

void td_probe_told(td_peer *p, const Td__Remote__Measured *m) {
  td_probe *b = find(p, m->id, true);
  if (!b) return;
  b->found = (td_remote_measured){.least = m->least,
                                  .median = m->median,
                                  .clock = m->clock,
                                  .wall = m->wall,
                                  .bytes = m->bytes,
                                  .took = m->took};
  settle(b, td_wire_status_in(m->status, p->task));
}

/* ---- the clock ----------------------------------------------------------- */

static td_status *too_late(const td_probe *b) {
  const td_peer *p = b->of;
  const char *who = *p->task ? p->task : p->control ? p->control : "it";
  if (!b->far && !p->welcomed)
    return p->error ? td_status_retain(p->error)
                    : td_error(TD_UNAVAILABLE, "nobody answers at %s", who);
  if (!b->far && b->loading)
    return td_error(TD_DEADLINE_EXCEEDED,
                    "%s took %llu of %llu bytes and no more", who,
                    (unsigned long long)b->came, (unsigned long long)b->bytes);
  return td_error(TD_DEADLINE_EXCEEDED, "%s did not answer in time", who);
}

void td_probe_tick(td_remote *r, int64_t now) {
  for (td_probe *next, *b = r->probes; b; b = next) {
    next = b->next;
    if (b->over) continue;
    if (now >= b->until)
      settle(b, too_late(b));
    else
      go_on(b);
  }
}

void td_probe_close_all(td_remote *r) {
  for (td_probe *next, *b = r->probes; b; b = next) {
    next = b->next;
    if (!b->over)
      settle(b, td_error(TD_CANCELLED, "this process takes part in nothing "
                                       "any more"));
  }
}
