/* transfer.c - values that are too large to ride along: offered, then pulled.
 *
 * Who has a value says so, with its dtype, shape and size, and holds it. Who wants
 * it takes memory for all of it and asks for chunks, WINDOW bytes at a time
 * under way, so that neither side's queues grow with the value and what is small
 * and prompt waits for a chunk at most. The last chunk has come when as many
 * bytes as were offered have: then the offer is dropped.
 *
 * A chunk is copied once, from its frame into its place.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/remote/cells.h"
#include "engine/remote/remote_impl.h"

enum { WINDOW = 4 * TD_CHUNK };

struct td_offer {
  td_offer *prev, *next;
  uint64_t number, step;
  td_session_id session;
  td_peer *to; /* retained */
  td_tensor value;
  size_t bytes;
};

/* ---- offers -------------------------------------------------------------- */

static void unlist_offer(td_remote *r, td_offer *o) {
  if (o->prev)
    o->prev->next = o->next;
  else
    r->offers = o->next;
  if (o->next) o->next->prev = o->prev;
}

static void end_offer(td_remote *r, td_offer *o) {
  unlist_offer(r, o);
  td_tensor_release(&o->value);
  td_peer_release(o->to);
  td_free(o);
}

static td_offer *find_offer(td_peer *p, uint64_t number) {
  for (td_offer *o = p->of->offers; o; o = o->next)
    if (o->number == number && o->to == p) return o;
  return NULL;
}

static td_status *offer(td_remote *r, td_peer *to, const td_session_id *session,
                        uint64_t step, const td_tensor *value, size_t bytes,
                        uint64_t *number) {
  td_offer *o = td_calloc(1, sizeof *o);
  if (!o) return td_oom();
  *number = o->number = td_remote_number(r);
  o->session = *session;
  o->step = step;
  o->to = td_peer_retain(to);
  o->bytes = bytes;
  td_tensor_retain(value, &o->value);
  o->next = r->offers;
  if (o->next) o->next->prev = o;
  r->offers = o;
  return NULL;
}

/* Rows of a string tensor have their text elsewhere in the buffer: what goes
 * out is offsets and text in one block, offsets from its beginning. */
static bool is_whole(const td_tensor *t) {
  if (t->dtype != TD_STRING) return true;
  const uint64_t *offset = t->data;
  return t->data == t->buffer->data &&
         offset[0] == ((uint64_t)td_tensor_count(t) + 1) * sizeof *offset;
}

static td_status *describe(td_remote *r, td_peer *to,
                           const td_session_id *session, uint64_t step,
                           const td_tensor *value, Td__Remote__Value *v,
                           td_raw *frames, int *n) {
  if (v->dead) return NULL;
  if (v->bytes > TD_WIRE_EAGER || *n >= TD_FRAMES_MOST - 2)
    return offer(r, to, session, step, value, (size_t)v->bytes, &v->offer);
  TD_TRY(td_raw_tensor(value, 0, (size_t)v->bytes, &frames[*n]));
  ++*n;
  return NULL;
}

td_status *td_transfer_out(td_remote *r, td_peer *to,
                           const td_session_id *session, uint64_t step,
                           const td_tensor *value, td_arena *arena,
                           td_raw *frames, int *n, Td__Remote__Value **out) {
  td_tensor whole = {0};
  bool dead = !value || !td_tensor_valid(value);
  TD_TRY(td_wire_value_out(arena, dead ? NULL : value, out));
  if (dead) return NULL;
  if (!td_tensor_touchable(value))
    return td_error(TD_INTERNAL, "a value in a device's memory cannot be sent");
  td_status *s = NULL;
  if (is_whole(value))
    td_tensor_retain(value, &whole);
  else
    s = td_tensor_copy(value, &whole);
  if (td_ok(s)) s = describe(r, to, session, step, &whole, *out, frames, n);
  td_tensor_release(&whole);
  return s;
}

static td_status *send_chunk(td_peer *p, const td_offer *o, uint64_t offset,
                             size_t len) {
  td_head head;
  td_raw frame;
  Td__Remote__Chunk body = TD__REMOTE__CHUNK__INIT;
  td_head_init(&head, &o->session);
  head.body_case = TD__REMOTE__MESSAGE__BODY_CHUNK;
  head.chunk = &body;
  body.offer = o->number;
  body.offset = offset;
  body.bytes = len;
  TD_TRY(td_raw_tensor(&o->value, (size_t)offset, len, &frame));
  return td_peer_send(p, TD_LANE_DATA, &head, &frame, 1);
}

void td_transfer_pulled(td_peer *p, const Td__Remote__Chunk *m) {
  td_offer *o = find_offer(p, m->offer);
  td_status *s = NULL;
  if (!o || m->offset > o->bytes || m->bytes > o->bytes - m->offset ||
      m->bytes > WINDOW)
    return; /* it was withdrawn meanwhile, or never was */
  for (uint64_t at = 0; td_ok(s) && at < m->bytes; at += TD_CHUNK) {
    uint64_t len = m->bytes - at < TD_CHUNK ? m->bytes - at : TD_CHUNK;
    s = send_chunk(p, o, m->offset + at, (size_t)len);
  }
  td_status_release(s); /* counted, and so missed */
}

void td_transfer_dropped(td_peer *p, const Td__Remote__Handles *m) {
  for (size_t i = 0; i < m->n_handle; i++) {
    td_offer *o = find_offer(p, m->handle[i]);
    if (o) end_offer(p->of, o);
  }
}

void td_transfer_withdraw(td_remote *r, const td_session_id *session,
                          uint64_t step) {
  for (td_offer *next, *o = r->offers; o; o = next) {
    next = o->next;
    if (o->session.high == session->high && o->session.low == session->low &&
        (step == 0 || o->step == step))
      end_offer(r, o);
  }
}

/* ---- pulls --------------------------------------------------------------- */

static void unlist(td_transfer *t) {
  if (!t->listed) return;
  t->listed = false;
  if (t->prev)
    t->prev->next = t->next;
  else
    t->of->transfers = t->next;
  if (t->next) t->next->prev = t->prev;
}

static void list(td_transfer *t) {
  t->prev = NULL;
  t->next = t->of->transfers;
  if (t->next) t->next->prev = t;
  t->of->transfers = t;
  t->listed = true;
}

/* The last thing done with `t`. */
static void end(td_transfer *t, td_status *s) {
  td_tensor value = t->value;
  unlist(t);
  td_peer_release(t->from);
  t->from = NULL;
  t->value = (td_tensor){0};
  if (td_ok(s) && value.dtype == TD_STRING) s = td_tensor_strings_check(&value);
  if (!td_ok(s)) td_tensor_release(&value);
  t->got(t, &value, t->dead, s);
}

static void say_drop(td_transfer *t) {
  td_head head;
  Td__Remote__Handles body = TD__REMOTE__HANDLES__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_DROP;
  head.drop = &body;
  body.n_handle = 1;
  body.handle = &t->offer;
  td_status_release(
      td_peer_send(t->from, TD_LANE_CONTROL, &head, NULL, 0));
}

/* Asks for more, up to a window beyond what has come. */
static td_status *ask(td_transfer *t) {
  td_head head;
  Td__Remote__Chunk body = TD__REMOTE__CHUNK__INIT;
  uint64_t until = t->came + WINDOW;
  if (until > t->bytes || TD_BUG(TD_BUG_WINDOW)) until = t->bytes;
  while (t->asked < until) {
    uint64_t len = until - t->asked;
    if (len > WINDOW) len = WINDOW;
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

/* The message's own bytes. */
static td_status *take(const Td__Remote__Value *v, td_message *m,
                       td_tensor *out) {
  td_raw f = {0};
  TD_TRY(td_wire_value_check(v));
  if (v->dead) return NULL;
  TD_TRY(td_message_take(m, v->bytes, &f));
  td_status *s = td_wire_value_in(v, f.at, out);
  td_raw_release(&f);
  return s;
}

void td_transfer_in(td_remote *r, td_peer *from, const Td__Remote__Value *v,
                    td_message *m, td_transfer *t) {
  t->of = r;
  t->from = td_peer_retain(from);
  t->value = (td_tensor){0};
  t->dead = v->dead;
  t->listed = false;
  td_status *s;
  if (v->dead || v->offer == 0) {
    s = take(v, m, &t->value);
    end(t, s);
    return;
  }
  t->offer = v->offer;
  t->bytes = v->bytes;
  t->asked = t->came = 0;
  s = td_wire_value_room(v, &t->value, &t->room);
  if (td_ok(s)) {
    list(t);
    s = ask(t);
  }
  if (!td_ok(s)) end(t, s);
}

void td_transfer_stop(td_transfer *t) {
  if (!t->listed) return;
  unlist(t);
  say_drop(t);
  td_peer_release(t->from);
  t->from = NULL;
  td_tensor_release(&t->value);
}

static td_transfer *find(td_peer *p, uint64_t offer) {
  for (td_transfer *t = p->of->transfers; t; t = t->next)
    if (t->offer == offer && t->from == p) return t;
  return NULL;
}

/* Chunks come in order, as they were asked for. */
void td_transfer_chunk(td_peer *p, td_message *m) {
  const Td__Remote__Chunk *c = m->head->chunk;
  td_transfer *t = find(p, c->offer);
  td_raw f;
  if (!t || c->offset != t->came || c->bytes > t->asked - t->came) return;
  td_status *s = td_message_take(m, c->bytes, &f);
  if (td_ok(s)) {
    memcpy(t->room + t->came, f.at, f.len);
    t->came += f.len;
    td_raw_release(&f);
    /* Half a window at a time: fewer messages. */
    if (t->came < t->bytes && t->asked - t->came <= WINDOW / 2) s = ask(t);
  }
  if (td_ok(s) && t->came < t->bytes) return;
  say_drop(t);
  end(t, s);
}

void td_transfer_peer_dead(td_peer *p) {
  td_remote *r = p->of;
  for (td_offer *next, *o = r->offers; o; o = next) {
    next = o->next;
    if (o->to == p) end_offer(r, o);
  }
  for (td_transfer *t = r->transfers; t;) {
    td_transfer *next = t->next;
    if (t->from == p) {
      end(t, td_peer_lost(p));
      next = r->transfers; /* `got` may have ended others */
    }
    t = next;
  }
}
