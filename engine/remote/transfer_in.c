/* transfer_in.c - values that come: taken from their message, or pulled.
 *
 * A pull asks for chunks, TD_WINDOW bytes at a time under way, so that neither
 * side's queues grow with the value and what is small and prompt waits for a
 * chunk at most. From one peer TD_PULLS_MOST values are pulled at a time, the
 * others wait in the order in which they were wanted, without memory.
 *
 * Chunks may come in any order, twice, or of what nobody asked for: a chunk is
 * taken once, when it was asked for of this peer and is as long as it has to
 * be. It is copied once, from its frame into its place. When the last has come,
 * or the value was read from shared memory, DROP tells its owner.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/remote/cells.h"
#include "engine/remote/narrow.h"
#include "engine/remote/transfer_impl.h"

_Static_assert(TD_WINDOW / TD_CHUNK <= 64, "td_transfer.ahead has a bit each");

static td_transfers *common(const td_transfer *t) {
  return t->from->of->transfers;
}

/* ---- the peer's lists ---------------------------------------------------- */

static void wait_in_line(td_transfer *t) {
  td_peer_values *v = &t->from->values;
  t->state = TD_TRANSFER_WAITING;
  t->next = NULL;
  t->prev = v->last;
  if (t->prev)
    t->prev->next = t;
  else
    v->first = t;
  v->last = t;
}

static void leave_line(td_transfer *t) {
  td_peer_values *v = &t->from->values;
  if (t->prev)
    t->prev->next = t->next;
  else
    v->first = t->next;
  if (t->next)
    t->next->prev = t->prev;
  else
    v->last = t->prev;
}

static td_transfer *find(td_peer *p, uint64_t offer) {
  return td_map_getn(&p->values.transfers, &offer, sizeof offer);
}

/* Out of all that its peer has of it. */
static void unlist(td_transfer *t) {
  td_peer_values *v = &t->from->values;
  if (t->state == TD_TRANSFER_ENDED) return;
  if (t->state == TD_TRANSFER_WAITING) leave_line(t);
  if (t->state == TD_TRANSFER_PULLED) v->pulling--;
  t->state = TD_TRANSFER_ENDED;
  (void)td_map_removen(&v->transfers, &t->offer, sizeof t->offer);
}

/* ---- ends ---------------------------------------------------------------- */

static void say_drop(td_transfer *t) {
  td_head head;
  Td__Remote__Handles body = TD__REMOTE__HANDLES__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_DROP;
  head.drop = &body;
  body.n_handle = 1;
  body.handle = &t->offer;
  td_status_release(td_peer_send(t->from, TD_LANE_CONTROL, &head, NULL, 0));
}

static void forget(td_transfer *t) {
  unlist(t);
  td_peer_release(t->from);
  td_free(t->segment);
  t->from = NULL;
  t->segment = NULL;
}

/* The last thing done with `t`. */
static void end(td_transfer *t, td_status *s) {
  td_tensor value = t->value;
  t->value = (td_tensor){0};
  forget(t);
  if (td_ok(s) && value.dtype == TD_STRING) s = td_tensor_strings_check(&value);
  if (!td_ok(s)) td_tensor_release(&value);
  t->got(t, &value, t->dead, s);
}

static void start_next(td_peer *p);

void td_transfer_stop(td_transfer *t) {
  td_peer *p = t->from;
  if (t->state == TD_TRANSFER_ENDED) return;
  td_peer_retain(p);
  p->of->transfers->traffic.dropped++;
  say_drop(t);
  forget(t);
  td_tensor_release(&t->value);
  start_next(p);
  td_peer_release(p);
}

/* ---- bytes that are here ------------------------------------------------- */

/* `len` bytes of the wire from `offset` on, whole elements of them. */
static void put(td_transfer *t, uint64_t offset, const void *from, size_t len) {
  char *room = t->value.data;
  if (t->narrow)
    td_narrow_unpack(from, len / 2, (float *)(void *)room + offset / 2);
  else
    memcpy(room + offset, from, len);
  common(t)->traffic.copied += len;
}

static td_status *make_room(td_transfer *t) {
  return td_wire_value_room(&t->value, t->bytes, common(t)->memory);
}

static td_status *take_frame(td_transfer *t, const Td__Remote__Value *v,
                             td_message *m, td_raw *f) {
  if (v->small.len == 0) return td_message_take(m, t->bytes, f);
  *f = (td_raw){.at = v->small.data, .len = v->small.len};
  if (f->len == t->bytes) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%zu bytes in a head, where %llu were announced", f->len,
                  (unsigned long long)t->bytes);
}

/* The message's own bytes. */
static td_status *take(td_transfer *t, const Td__Remote__Value *v,
                       td_message *m) {
  td_raw f = {0};
  if (t->dead) return NULL;
  TD_TRY(take_frame(t, v, m, &f));
  td_status *s = make_room(t);
  if (td_ok(s) && f.len) put(t, 0, f.at, f.len);
  td_raw_release(&f);
  return s;
}

/* From shared memory; false: it is to be pulled. */
static bool take_shared(td_transfer *t) {
  td_transfers *all = common(t);
  td_segment_place place = {.offset = t->place, .len = t->bytes};
  if (!t->segment || !all->views || t->narrow) return false;
  memcpy(place.segment, t->segment, strlen(t->segment) + 1);
  td_status *s = td_segment_views_read(all->views, t->from->incarnation, &place,
                                       t->value.data);
  if (!td_ok(s)) {
    all->traffic.unshared++;
    td_status_release(s);
    return false;
  }
  all->traffic.shared++;
  all->traffic.copied += t->bytes;
  return true;
}

/* ---- pulls --------------------------------------------------------------- */

/* Asks for more, up to a window beyond what has come. */
static td_status *ask(td_transfer *t) {
  td_head head;
  Td__Remote__Chunk body = TD__REMOTE__CHUNK__INIT;
  uint64_t until = t->came + TD_WINDOW;
  if (until > t->bytes || TD_BUG(TD_BUG_WINDOW)) until = t->bytes;
  while (t->asked < until) {
    uint64_t len = until - t->asked;
    if (len > TD_WINDOW) len = TD_WINDOW;
    td_head_init(&head, NULL);
    head.body_case = TD__REMOTE__MESSAGE__BODY_PULL;
    head.pull = &body;
    body.offer = t->offer;
    body.offset = t->asked;
    body.bytes = len;
    t->asked += len;
    TD_TRY(td_peer_send(t->from, TD_LANE_CONTROL, &head, NULL, 0));
  }
  return NULL;
}

static void start(td_transfer *t) {
  t->from->values.pulling++;
  t->state = TD_TRANSFER_PULLED;
  td_status *s = make_room(t);
  bool here = td_ok(s) && (t->bytes == 0 || take_shared(t));
  if (td_ok(s) && !here) s = ask(t);
  if (td_ok(s) && !here) return;
  say_drop(t);
  end(t, s);
}

/* What `got` does may end others, or begin them: the outermost call goes on
 * until as many are under way as may be. */
static void start_next(td_peer *p) {
  td_peer_values *v = &p->values;
  if (v->starting) return;
  v->starting = true;
  while (v->first && v->pulling < TD_PULLS_MOST) {
    td_transfer *t = v->first;
    leave_line(t);
    start(t);
  }
  v->starting = false;
}

void td_transfer_go(td_transfer *t) {
  td_peer *p = t->from;
  if (t->state != TD_TRANSFER_OFFERED) return;
  td_peer_retain(p);
  wait_in_line(t);
  start_next(p);
  td_peer_release(p);
}

/* ---- what a message says ------------------------------------------------- */

static td_status *learn(td_transfer *t, const Td__Remote__Value *v) {
  td_peer *p = t->from;
  t->offer = v->offer;
  if (find(p, v->offer))
    return td_status_derive(td_error(TD_ALREADY_EXISTS,
                                     "value %llu of %s comes already",
                                     (unsigned long long)v->offer, p->task));
  if (p->health.state == TD_DEAD) return td_peer_lost(p);
  if (*v->segment && strlen(v->segment) < TD_SEGMENT_NAME) {
    t->segment = td_strdup(v->segment);
    if (!t->segment) return td_oom();
    t->place = v->offset;
  }
  if (!td_map_putn(&p->values.transfers, &t->offer, sizeof t->offer, t))
    return td_oom();
  t->state = TD_TRANSFER_OFFERED;
  return NULL;
}

bool td_transfer_in(td_peer *from, const Td__Remote__Value *v, td_message *m,
                    td_transfer *t) {
  td_tensor value;
  td_status *s = td_wire_value_read(v, &value);
  t->state = TD_TRANSFER_ENDED;
  t->from = td_peer_retain(from);
  t->segment = NULL;
  t->value = value;
  t->dead = v->dead;
  t->narrow = v->narrow;
  t->bytes = v->bytes;
  t->asked = t->came = t->ahead = 0;
  bool offered = !v->dead && v->offer != 0;
  if (td_ok(s)) s = offered ? learn(t, v) : take(t, v, m);
  if (!offered || !td_ok(s))
    end(t, s);
  else if (!t->later)
    td_transfer_go(t);
  else
    return true;
  return false;
}

/* ---- chunks -------------------------------------------------------------- */

static uint64_t chunk_len(const td_transfer *t, uint64_t offset) {
  return t->bytes - offset < TD_CHUNK ? t->bytes - offset : TD_CHUNK;
}

/* Was it asked for, and has not come? */
static bool is_due(const td_transfer *t, const Td__Remote__Chunk *c) {
  if (t->state != TD_TRANSFER_PULLED || c->offset % TD_CHUNK ||
      c->offset < t->came || c->offset >= t->asked ||
      c->bytes != chunk_len(t, c->offset))
    return false;
  uint64_t i = (c->offset - t->came) / TD_CHUNK;
  return i < 64 && !(t->ahead >> i & 1);
}

static void note(td_transfer *t, uint64_t offset) {
  t->ahead |= (uint64_t)1 << (offset - t->came) / TD_CHUNK;
  while (t->ahead & 1) {
    t->came += chunk_len(t, t->came);
    t->ahead >>= 1;
  }
}

static void finish(td_transfer *t) {
  td_peer *p = td_peer_retain(t->from);
  p->of->transfers->traffic.pulled++;
  say_drop(t);
  end(t, NULL);
  start_next(p);
  td_peer_release(p);
}

void td_transfer_chunk(td_peer *p, td_message *m) {
  const Td__Remote__Chunk *c = m->head->chunk;
  td_transfer *t = find(p, c->offer);
  td_raw f;
  td_status *s = t && is_due(t, c)
                     ? td_message_take(m, c->bytes, &f)
                     : td_error(TD_INVALID_ARGUMENT, "nobody asked for it");
  if (!td_ok(s)) {
    p->of->transfers->traffic.strays++;
    td_status_release(s);
    return;
  }
  put(t, c->offset, f.at, f.len);
  td_raw_release(&f);
  note(t, c->offset);
  if (t->came == t->bytes) {
    finish(t);
    return;
  }
  /* Half a window at a time: fewer messages. */
  if (t->asked - t->came > TD_WINDOW / 2) return;
  s = ask(t);
  if (td_ok(s)) return;
  say_drop(t);
  end(t, s);
  start_next(p);
}

/* ---- what is no more ----------------------------------------------------- */

void td_transfer_gone(td_peer *p, const Td__Remote__Handles *m) {
  for (size_t i = 0; i < m->n_handle; i++) {
    td_transfer *t = find(p, m->handle[i]);
    if (!t) continue;
    p->of->transfers->traffic.dropped++;
    end(t, td_status_derive(td_error(TD_CANCELLED,
                                     "%s took back what it offered", p->task)));
  }
  start_next(p);
}

/* `got` may end others of them. */
void td_transfer_fail_all(td_peer *p, td_status *why) {
  td_peer_values *v = &p->values;
  const td_map_entry *e;
  bool was = v->starting;
  v->starting = true; /* nothing is begun any more */
  for (size_t i = 0; td_map_next(&v->transfers, &i, &e);)
    end(e->value, td_status_retain(why));
  v->starting = was;
  td_status_release(why);
}
