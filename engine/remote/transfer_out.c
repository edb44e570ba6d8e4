/* transfer_out.c - values that go: along with a message, or offered.
 *
 * An offer holds its value until the peer says DROP (it has all of it, or wants
 * none), the step that made it takes it back, or the peer is dead. What is
 * asked for and not there is answered with GONE.
 *
 * What rides along is with the channel until the system took it. A peer that is
 * slow to read is offered what it would otherwise be given beyond EAGER_MOST,
 * so that the step waits, and the channel is never full of it.
 *
 * How much goes to a peer is seen of what it pulls: from the first chunk that
 * it asks for until it has all that it asked for, if that was some. By that the
 * link is slow, or not, for sessions that asked for fewer bits then.
 *
 * What a peer may ask for is what it was offered, by chunks; anything else
 * changes nothing. A chunk that the channel does not take now is owed, and sent
 * later: as many as a peer that keeps to its windows can have under way.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/remote/narrow.h"
#include "engine/remote/transfer_impl.h"

enum {
  EAGER_MOST = 4 << 20, /* bytes that ride along, with the channel */
  EAGER_SMALL = 4096,   /* not counted, nor held back */
};
enum {
  SMALL_MOST = 1024,   /* bytes of a value in a head */
  SMALL_ALL = 2 << 20, /* of all of a message */
};
enum { RATED_LEAST = TD_WINDOW }; /* less says how late it is, not how broad */
enum { OWED_MOST = TD_PULLS_MOST * (TD_WINDOW / TD_CHUNK) };

struct td_offer {
  td_offer *prev, *next; /* the remote's */
  uint64_t number, step;
  td_session_id session;
  td_peer *to;     /* retained */
  td_tensor value; /* as it travels */
  size_t bytes;
  bool shared; /* it is at `place`, too */
  bool pulled;
  uint64_t sent; /* bytes of chunks */
  td_segment_place place;
};

/* ---- how much goes ------------------------------------------------------- */

static void begin_pull(td_offer *o) {
  td_peer_values *v = &o->to->values;
  if (o->pulled) return;
  o->pulled = true;
  if (v->pulled++ > 0) return;
  v->busy = td_clock_now();
  v->gone = 0;
}

static void end_pull(td_offer *o) {
  td_peer_values *v = &o->to->values;
  if (!o->pulled) return;
  if (o->sent >= o->bytes) v->gone += o->bytes;
  if (--v->pulled > 0 || v->gone < RATED_LEAST) return;
  double took = (double)(td_clock_now() - v->busy) * 1e-9;
  double rate = (double)v->gone / (took > 1e-9 ? took : 1e-9);
  v->rate = v->rate > 0 ? v->rate + (rate - v->rate) / 4 : rate;
}

/* ---- offers -------------------------------------------------------------- */

static void unlist(td_transfers *all, td_offer *o) {
  if (o->prev)
    o->prev->next = o->next;
  else
    all->offers = o->next;
  if (o->next) o->next->prev = o->prev;
}

static td_offer *find(td_peer *p, uint64_t number) {
  return td_map_getn(&p->values.offers, &number, sizeof number);
}

static void end_offer(td_offer *o) {
  td_peer *to = o->to;
  td_transfers *all = to->of->transfers;
  end_pull(o);
  unlist(all, o);
  (void)td_map_removen(&to->values.offers, &o->number, sizeof o->number);
  to->values.offered -= o->bytes;
  if (o->shared)
    (void)td_segments_done(all->segments, to->incarnation, &o->place);
  td_tensor_release(&o->value);
  td_free(o);
  td_peer_release(to);
}

static bool is_near(const td_peer *to) {
  const td_transfers *all = to->of->transfers;
  return all->segments && to->incarnation && to->host &&
         strcmp(to->host, td_str_c(&all->host)) == 0;
}

/* Where there is no room for it, or it is not worth it, chunks do. */
static void share(td_offer *o) {
  td_transfers *all = o->to->of->transfers;
  if (o->bytes < TD_SHARED_LEAST || !is_near(o->to)) return;
  td_status *s = td_segments_put(all->segments, o->to->incarnation,
                                 o->value.data, o->bytes, &o->place);
  o->shared = td_ok(s);
  td_status_release(s);
}

static td_status *offer(const td_sending *to, const td_tensor *value,
                        td_arena *arena, Td__Remote__Value *v) {
  td_transfers *all = to->to->of->transfers;
  td_offer *o = td_calloc(1, sizeof *o);
  if (!o) return td_oom();
  o->number = td_remote_number(to->to->of);
  if (!td_map_putn(&to->to->values.offers, &o->number, sizeof o->number, o)) {
    td_free(o);
    return td_oom();
  }
  o->session = *to->session;
  o->step = to->step;
  o->to = td_peer_retain(to->to);
  o->bytes = (size_t)v->bytes;
  to->to->values.offered += o->bytes;
  td_tensor_retain(value, &o->value);
  o->next = all->offers;
  if (o->next) o->next->prev = o;
  all->offers = o;
  all->traffic.offered++;
  if (!v->narrow) share(o);
  v->offer = o->number;
  if (!o->shared) return NULL;
  v->segment = td_arena_str(arena, o->place.segment);
  v->offset = o->place.offset;
  if (!v->segment) v->segment = (char *)protobuf_c_empty_string;
  return NULL;
}

/* ---- values -------------------------------------------------------------- */

/* Rows of a string tensor have their text elsewhere in the buffer: what goes
 * out is offsets and text in one block, offsets from its beginning. */
static bool is_whole(const td_tensor *t) {
  if (t->dtype != TD_STRING) return true;
  const uint64_t *offset = t->data;
  return t->data == t->buffer->data &&
         offset[0] == ((uint64_t)td_tensor_count(t) + 1) * sizeof *offset;
}

static td_status *make_narrow(const td_tensor *value, td_tensor *out) {
  TD_TRY(td_tensor_new(NULL, TD_BFLOAT16, &value->shape, out));
  td_narrow_pack(value->data, (size_t)td_tensor_count(value), out->data);
  return NULL;
}

/* The bytes as they travel: a share, or a copy. */
static td_status *make_whole(const td_tensor *value, bool narrow,
                             td_tensor *out) {
  *out = (td_tensor){0};
  if (narrow) return make_narrow(value, out);
  if (!is_whole(value)) return td_tensor_copy(value, out);
  td_tensor_retain(value, out);
  return NULL;
}

/* ---- what rides along ---------------------------------------------------- */

/* Bytes of a peer's that are with the channel: each such frame has a share. */
struct td_eager {
  int32_t refs;  /* atomic */
  int64_t bytes; /* atomic */
};

typedef struct counted {
  td_raw frame;
  td_eager *eager;
} counted;

void td_transfer_drop_eager(td_eager *e) {
  if (e && __atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL) == 0) td_free(e);
}

/* Any thread. */
static void sent(void *arg) {
  counted *c = arg;
  __atomic_sub_fetch(&c->eager->bytes, (int64_t)c->frame.len, __ATOMIC_RELAXED);
  td_transfer_drop_eager(c->eager);
  td_raw_release(&c->frame);
  td_free(c);
}

/* Without memory it is not counted. */
static void count_in(td_peer_values *v, td_raw *f) {
  if (f->len <= EAGER_SMALL) return;
  if (!v->eager && (v->eager = td_calloc(1, sizeof *v->eager)))
    v->eager->refs = 1;
  counted *c = v->eager ? td_malloc(sizeof *c) : NULL;
  if (!c) return;
  *c = (counted){*f, v->eager};
  __atomic_add_fetch(&v->eager->refs, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&v->eager->bytes, (int64_t)f->len, __ATOMIC_RELAXED);
  f->release = sent;
  f->arg = c;
}

static bool is_held_back(const td_peer_values *v, uint64_t bytes) {
  return bytes > EAGER_SMALL && v->eager &&
         __atomic_load_n(&v->eager->bytes, __ATOMIC_RELAXED) + (int64_t)bytes >
             EAGER_MOST;
}

/* Has the message no frame left for it? A small one goes in the head. */
static bool goes_in_head(const td_sending *to, const Td__Remote__Value *v,
                         int n) {
  return n >= TD_WIRE_VALUE_FRAMES && to->small && v->bytes > 0 &&
         v->bytes <= SMALL_MOST && *to->small + v->bytes <= SMALL_ALL;
}

static td_status *put_in_head(const td_sending *to, const td_tensor *value,
                              td_arena *arena, Td__Remote__Value *v) {
  void *copy = td_arena_alloc(arena, (size_t)v->bytes);
  if (!copy) return td_oom();
  memcpy(copy, value->data, (size_t)v->bytes);
  v->small = (ProtobufCBinaryData){(size_t)v->bytes, copy};
  *to->small += (size_t)v->bytes;
  to->to->of->transfers->traffic.eager++;
  return NULL;
}

static td_status *describe(const td_sending *to, const td_tensor *value,
                           td_arena *arena, td_raw *frames, int *n,
                           Td__Remote__Value *v) {
  td_transfers *all = to->to->of->transfers;
  bool eager = v->bytes <= TD_WIRE_EAGER &&
               !(v->bytes > 0 && (all->no_eager || to->full)) &&
               !is_held_back(&to->to->values, v->bytes);
  if (v->narrow) all->traffic.narrowed++;
  if (eager && goes_in_head(to, v, *n)) return put_in_head(to, value, arena, v);
  if (!eager || *n >= TD_WIRE_VALUE_FRAMES) return offer(to, value, arena, v);
  TD_TRY(td_raw_tensor(value, 0, (size_t)v->bytes, &frames[*n]));
  count_in(&to->to->values, &frames[*n]);
  ++*n;
  all->traffic.eager++;
  return NULL;
}

/* Shared memory is no link. */
static bool is_slow(const td_sending *to, const td_tensor *value) {
  double rate = to->to->values.rate;
  return rate > 0 && rate < (double)to->slow_link &&
         td_tensor_bytes(value) > TD_WIRE_EAGER && !is_near(to->to);
}

td_status *td_transfer_out(const td_sending *to, const td_tensor *value,
                           td_arena *arena, td_raw *frames, int *n,
                           Td__Remote__Value **out) {
  td_tensor whole;
  bool dead = !value || !td_tensor_valid(value);
  TD_TRY(td_wire_value_out(arena, dead ? NULL : value, out));
  if (dead) return NULL;
  if (!td_tensor_touchable(value))
    return td_error(TD_INTERNAL, "a value in a device's memory cannot be sent");
  td_transfers *all = to->to->of->transfers;
  bool may = value->dtype == TD_FLOAT32 && !all->no_narrow;
  bool narrow = may && (to->narrow || is_slow(to, value));
  TD_TRY(make_whole(value, narrow, &whole));
  all->traffic.slowed += narrow && !to->narrow;
  (*out)->narrow = narrow;
  (*out)->bytes = td_tensor_bytes(&whole);
  td_status *s = describe(to, &whole, arena, frames, n, *out);
  td_tensor_release(&whole);
  return s;
}

/* ---- chunks -------------------------------------------------------------- */

static td_status *send_chunk(td_offer *o, uint64_t offset) {
  td_head head;
  td_raw frame;
  Td__Remote__Chunk body = TD__REMOTE__CHUNK__INIT;
  uint64_t len = o->bytes - offset;
  if (len > TD_CHUNK) len = TD_CHUNK;
  td_head_init(&head, &o->session);
  head.body_case = TD__REMOTE__MESSAGE__BODY_CHUNK;
  head.chunk = &body;
  body.offer = o->number;
  body.offset = offset;
  body.bytes = len;
  TD_TRY(td_raw_tensor(&o->value, (size_t)offset, (size_t)len, &frame));
  TD_TRY(td_peer_send(o->to, TD_LANE_DATA, &head, &frame, 1));
  o->sent += len;
  return NULL;
}

/* False: the channel takes nothing now. */
static bool send_or_owe(td_peer *p, td_offer *o, uint64_t offset) {
  td_peer_values *v = &p->values;
  td_status *s = send_chunk(o, offset);
  if (td_ok(s)) return true;
  td_status_release(s);
  if (v->owed.len >= OWED_MOST ||
      !td_vec_push(&v->owed, ((td_owed){o->number, offset})))
    p->of->transfers->traffic.strays++;
  return false;
}

void td_transfer_send_owed(td_peer *p) {
  td_peer_values *v = &p->values;
  size_t n = v->owed.len;
  bool on = true;
  for (size_t i = 0; i < n && on && p->health.state != TD_DEAD; i++) {
    td_owed w = v->owed.at[0];
    td_offer *o = find(p, w.offer);
    memmove(v->owed.at, v->owed.at + 1, --v->owed.len * sizeof w);
    if (o) on = send_or_owe(p, o, w.offset);
  }
}

static void say_gone(td_peer *p, uint64_t number) {
  td_head head;
  Td__Remote__Handles body = TD__REMOTE__HANDLES__INIT;
  td_head_init(&head, NULL);
  head.body_case = TD__REMOTE__MESSAGE__BODY_GONE;
  head.gone = &body;
  body.n_handle = 1;
  body.handle = &number;
  td_status_release(td_peer_send(p, TD_LANE_CONTROL, &head, NULL, 0));
}

void td_transfer_pulled(td_peer *p, const Td__Remote__Chunk *m) {
  td_offer *o = find(p, m->offer);
  if (!o) {
    say_gone(p, m->offer);
    return;
  }
  if (m->offset % TD_CHUNK || m->offset > o->bytes ||
      m->bytes > o->bytes - m->offset || m->bytes > TD_WINDOW) {
    p->of->transfers->traffic.strays++;
    return;
  }
  begin_pull(o);
  td_transfer_send_owed(p);
  for (uint64_t at = 0; at < m->bytes; at += TD_CHUNK)
    (void)send_or_owe(p, o, m->offset + at);
}

/* ---- ends ---------------------------------------------------------------- */

void td_transfer_dropped(td_peer *p, const Td__Remote__Handles *m) {
  for (size_t i = 0; i < m->n_handle; i++) {
    td_offer *o = find(p, m->handle[i]);
    if (o) end_offer(o);
  }
}

void td_transfer_withdraw(td_remote *r, const td_session_id *session,
                          uint64_t step) {
  for (td_offer *next, *o = r->transfers->offers; o; o = next) {
    next = o->next;
    if (o->session.high == session->high && o->session.low == session->low &&
        (step == 0 || o->step == step))
      end_offer(o);
  }
}

void td_transfer_end_offers(td_peer *p) {
  for (td_offer *next, *o = p->of->transfers->offers; o; o = next) {
    next = o->next;
    if (o->to == p) end_offer(o);
  }
  p->values.owed.len = 0;
}
