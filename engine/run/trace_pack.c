/* trace_pack.c - see trace_pack.h.
 *
 * All integers are as in memory: both processes are of one version and little
 * endian, as values of tensors are. A record's names are offsets into the text
 * behind the records, where each name ends with a 0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/trace_pack.h"

#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"

enum { FAILED = 4 /* a bit of `way` */ };
enum { MAGIC = 0x32725474, THREADS_MOST = 4096, NAME_MOST = 4096 };

typedef struct head {
  uint32_t magic, events;
  uint64_t text;
  int64_t dropped;
} head;

typedef struct packed_event {
  int64_t ready, start, end, iteration, bytes, memory;
  uint64_t frame;
  uint32_t node, op, device, value, stream; /* where in the text */
  int32_t edge;
  int16_t thread, way;
  uint32_t zero;
} packed_event;

_Static_assert(sizeof(head) == 24 && sizeof(packed_event) == 88, "no padding");

/* ---- writing ------------------------------------------------------------- */

/* The names so far, and where each is. */
typedef struct names {
  td_str text;
  td_map at; /* name -> offset + 1 */
} names;

static bool place(names *n, const char *name, uint32_t *out) {
  uintptr_t at = (uintptr_t)td_map_get(&n->at, name);
  if (!at) {
    at = n->text.len + 1;
    if (at > UINT32_MAX || !td_map_put(&n->at, name, (void *)at)) return false;
    td_str_addn(&n->text, name, strlen(name) + 1);
  }
  *out = (uint32_t)(at - 1);
  return !n->text.failed;
}

static bool write_event(names *n, const td_trace_event *e, packed_event *r) {
  *r = (packed_event){.ready = e->ready,
                      .start = e->start,
                      .end = e->end,
                      .iteration = e->iteration,
                      .bytes = e->bytes,
                      .memory = e->memory,
                      .frame = e->frame,
                      .thread = (int16_t)((unsigned)e->thread % THREADS_MOST),
                      .edge = e->edge,
                      .way = (int16_t)(e->way | (e->failed ? FAILED : 0))};
  return place(n, e->node, &r->node) && place(n, e->op, &r->op) &&
         place(n, e->device, &r->device) && place(n, e->value, &r->value) &&
         place(n, e->stream, &r->stream);
}

static td_status *join(const head *h, const packed_event *records,
                       const names *n, td_tensor *out) {
  size_t events = h->events * sizeof *records;
  td_shape shape = td_shape_vector((int64_t)(sizeof *h + events + h->text));
  TD_TRY(td_tensor_new(NULL, TD_UINT8, &shape, out));
  char *to = out->data;
  memcpy(to, h, sizeof *h);
  if (events) memcpy(to + sizeof *h, records, events);
  if (h->text) memcpy(to + sizeof *h + events, td_str_c(&n->text), h->text);
  return NULL;
}

td_status *td_trace_pack(td_trace *t, td_tensor *out) {
  int64_t count;
  const td_trace_event *e = td_trace_events(t, &count);
  if (count > TD_TRACE_MOST) count = TD_TRACE_MOST;
  names n = {0};
  td_map_init(&n.at);
  packed_event *records = td_calloc((size_t)count + 1, sizeof *records);
  bool ok = records != NULL;
  for (int64_t i = 0; ok && i < count; i++)
    ok = write_event(&n, &e[i], &records[i]);
  head h = {MAGIC, (uint32_t)count, n.text.len, td_trace_dropped(t)};
  td_status *s = ok ? join(&h, records, &n, out) : td_oom();
  td_map_deinit(&n.at);
  td_str_deinit(&n.text);
  td_free(records);
  return s;
}

/* ---- reading ------------------------------------------------------------- */

typedef struct reader {
  head h;
  const char *records, *text;
  const td_trace_terms *terms;
} reader;

static td_status *bad(const reader *r, const char *what) {
  return td_error(TD_INVALID_ARGUMENT, "the trace of %s %s", r->terms->task,
                  what);
}

static td_status *open_bytes(reader *r, const char *bytes, size_t len) {
  if (len < sizeof r->h || len > TD_TRACE_BYTES_MOST)
    return bad(r, "is too short or too long");
  memcpy(&r->h, bytes, sizeof r->h);
  if (r->h.magic != MAGIC) return bad(r, "is none");
  if (r->h.events > TD_TRACE_MOST || r->h.dropped < 0)
    return bad(r, "has too many events");
  size_t events = r->h.events * sizeof(packed_event);
  if (len - sizeof r->h < events || r->h.text != len - sizeof r->h - events)
    return bad(r, "has another length than it says");
  r->records = bytes + sizeof r->h;
  r->text = r->records + events;
  if (r->h.text && r->text[r->h.text - 1])
    return bad(r, "has a name without an end");
  return NULL;
}

/* NULL: there is none at that place. */
static const char *name_at(const reader *r, uint32_t at) {
  if (at >= r->h.text) return NULL;
  const char *name = r->text + at; /* it ends: the whole text does */
  return strnlen(name, NAME_MOST) < NAME_MOST ? name : NULL;
}

static bool is_device(const td_trace_terms *t, const char *name) {
  for (size_t i = 0; i < t->n_devices; i++)
    if (strcmp(t->devices[i], name) == 0) return true;
  return false;
}

/* To our clock; false: at no time of the step. */
static bool move(const td_trace_terms *t, int64_t *at) {
  return !__builtin_sub_overflow(*at, t->clock, at) && *at >= t->from &&
         *at <= t->to;
}

static td_status *read_event(const reader *r, uint32_t i, td_trace_event *e) {
  packed_event x;
  memcpy(&x, r->records + i * sizeof x, sizeof x);
  *e = (td_trace_event){.node = name_at(r, x.node),
                        .op = name_at(r, x.op),
                        .device = name_at(r, x.device),
                        .value = name_at(r, x.value),
                        .stream = name_at(r, x.stream),
                        .memory = x.memory,
                        .ready = x.ready,
                        .start = x.start,
                        .end = x.end,
                        .thread = x.thread,
                        .frame = x.frame,
                        .iteration = x.iteration,
                        .bytes = x.bytes,
                        .way = (td_trace_way)(x.way & ~FAILED),
                        .failed = (x.way & FAILED) != 0,
                        .edge = x.edge};
  if (!e->node || !e->op || !e->device || !e->value || !e->stream)
    return bad(r, "lacks a name");
  if (!is_device(r->terms, e->device)) return bad(r, "has no such device");
  if (!move(r->terms, &e->start) || !move(r->terms, &e->end) ||
      e->end < e->start)
    return bad(r, "has an event at another time than the step's");
  if (!move(r->terms, &e->ready) || e->ready > e->start) e->ready = e->start;
  if (x.way < 0 || (x.way & ~FAILED) > TD_TRACE_RECEIVES || x.edge < 0 ||
      x.thread < 0 || x.thread >= THREADS_MOST || x.bytes < 0 || x.memory < 0 ||
      x.iteration < 0 || x.zero)
    return bad(r, "has numbers that mean nothing");
  return NULL;
}

td_status *td_trace_unpack(td_trace *t, const void *bytes, size_t len,
                           const td_trace_terms *terms, int64_t *dropped) {
  reader r = {.terms = terms};
  td_trace_event e;
  TD_TRY(open_bytes(&r, bytes, len));
  for (uint32_t i = 0; i < r.h.events; i++) TD_TRY(read_event(&r, i, &e));
  for (uint32_t i = 0; i < r.h.events; i++) {
    td_status_release(read_event(&r, i, &e)); /* it was fine before */
    td_trace_add(t, &e);
  }
  *dropped = r.h.dropped;
  return NULL;
}
