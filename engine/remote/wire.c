/* wire.c - heads packed and read; errors and values in them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/wire_impl.h"

#include <string.h>

#include "engine/graphdef/graphdef_impl.h"

/* ---- frames -------------------------------------------------------------- */

td_status *td_raw_copy(const void *bytes, size_t len, td_raw *out) {
  char *copy = td_malloc(len + 1);
  if (!copy) return td_oom();
  if (len) memcpy(copy, bytes, len);
  *out = (td_raw){copy, len, td_free, copy};
  return NULL;
}

static void release_buffer(void *arg) {
  td_buffer_release(arg);
}

td_status *td_raw_tensor(const td_tensor *t, size_t offset, size_t len,
                         td_raw *out) {
  if (len <= 512) return td_raw_copy((char *)t->data + offset, len, out);
  td_buffer_retain(t->buffer);
  *out = (td_raw){(char *)t->data + offset, len, release_buffer, t->buffer};
  return NULL;
}

td_status *td_wire_pack(const td_head *head, td_raw *out) {
  char *bytes;
  size_t len;
  TD_TRY(td_graphdef_pack(&head->base, &bytes, &len));
  *out = (td_raw){bytes, len, td_free, bytes};
  return NULL;
}

/* Who it is from and to, and how many frames have it. */
static td_status *pack_front(const td_head *head, int frames, td_raw *out) {
  td_head front;
  td__remote__message__init(&front);
  front.version = head->version;
  front.from = head->from;
  front.to = head->to;
  front.session_high = head->session_high;
  front.session_low = head->session_low;
  front.count = head->count;
  front.long_head = (uint32_t)frames;
  return td_wire_pack(&front, out);
}

static td_status *split(const td_head *head, const td_raw *whole, int most,
                        td_raw *out, int *n) {
  size_t frames = (whole->len + TD_FRAME_MOST - 1) / TD_FRAME_MOST;
  if (frames > TD_WIRE_LONG_MOST || (int)frames >= most)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "a message that begins with %zu bytes; there may be %d",
                    whole->len, TD_WIRE_LONG_MOST * TD_FRAME_MOST);
  td_status *s = pack_front(head, (int)frames, &out[0]);
  if (td_ok(s)) *n = 1;
  for (size_t at = 0; td_ok(s) && at < whole->len; at += TD_FRAME_MOST) {
    size_t len = whole->len - at;
    if (len > TD_FRAME_MOST) len = TD_FRAME_MOST;
    s = td_raw_copy((const char *)whole->at + at, len, &out[*n]);
    if (td_ok(s)) ++*n;
  }
  return s;
}

td_status *td_wire_head(const td_head *head, int most, td_raw *out, int *n) {
  *n = 0;
  TD_TRY(td_wire_pack(head, &out[0]));
  if (out[0].len <= TD_WIRE_IMPL_HEAD_MOST) {
    *n = 1;
    return NULL;
  }
  td_raw whole = out[0];
  td_status *s = split(head, &whole, most, out, n);
  for (int i = 0; !td_ok(s) && i < *n; i++) td_raw_release(&out[i]);
  td_raw_release(&whole);
  return s;
}

/* ---- reading ------------------------------------------------------------- */

void td_message_deinit(td_message *m) {
  for (; m->taken < m->n; m->taken++) td_raw_release(&m->frames[m->taken]);
  td_arena_deinit(&m->arena);
  m->n = m->taken = 0;
  m->head = NULL;
}

/* By these two processes of different versions find that out. */
static bool is_of_any_version(const td_head *h) {
  return h->body_case == TD__REMOTE__MESSAGE__BODY_HELLO ||
         h->body_case == TD__REMOTE__MESSAGE__BODY_REFUSED;
}

static td_status *unpack(const td_raw *f, td_message *m) {
  if (f->len > TD_WIRE_IMPL_HEAD_MOST)
    return td_error(TD_INVALID_ARGUMENT,
                    "a message begins with %zu bytes, more than %d", f->len,
                    TD_WIRE_IMPL_HEAD_MOST);
  TD_TRY(td_graphdef_unpack(&td__remote__message__descriptor, &m->arena, f->at,
                            f->len, &m->head));
  if (m->head->version == TD_WIRE_VERSION || is_of_any_version(m->head))
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a message of protocol version %u; this process speaks %d",
                  (unsigned)m->head->version, TD_WIRE_VERSION);
}

static td_status *join(td_message *m, const char **at, size_t *len) {
  int n = (int)m->head->long_head;
  *len = 0;
  for (int i = 0; i < n; i++) *len += m->frames[i].len;
  char *all = td_arena_alloc(&m->arena, *len + 1);
  if (!all) return td_oom();
  *at = all;
  for (; m->taken < n; m->taken++) {
    td_raw *f = &m->frames[m->taken];
    if (f->len) memcpy(all, f->at, f->len);
    all += f->len;
    td_raw_release(f);
  }
  return NULL;
}

/* The head is in the frames that follow. Of whom and for whom it is was said
 * before. */
static td_status *read_long(td_message *m) {
  const td_head *front = m->head;
  const char *at = NULL;
  size_t len = 0;
  if (front->long_head > (uint32_t)m->n ||
      front->long_head > TD_WIRE_LONG_MOST ||
      front->body_case != TD__REMOTE__MESSAGE__BODY__NOT_SET)
    return td_error(TD_INVALID_ARGUMENT,
                    "a message of %d frames, %u of them "
                    "its head",
                    m->n, (unsigned)front->long_head);
  TD_TRY(join(m, &at, &len));
  TD_TRY(td_graphdef_unpack(&td__remote__message__descriptor, &m->arena, at,
                            len, &m->head));
  if (m->head->version == front->version && m->head->from == front->from &&
      m->head->to == front->to && m->head->count == front->count &&
      m->head->long_head == 0)
    return NULL;
  return td_error(TD_INVALID_ARGUMENT, "a message with two heads");
}

static td_status *check_own(const td_head *head, int n) {
  if (head->own <= (uint32_t)n) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "a message of %u frames, of which %d came",
                  (unsigned)head->own, n);
}

td_status *td_wire_read(td_raw *frames, int n, td_message *out) {
  td_arena_init(&out->arena);
  out->head = NULL;
  out->n = out->taken = 0;
  out->next = n;
  td_status *s =
      n < 1 || n > TD_MESSAGE_FRAMES
          ? td_error(TD_INVALID_ARGUMENT, "a message of %d frames", n)
          : unpack(&frames[0], out);
  if (td_ok(s)) s = check_own(out->head, n);
  int from = 0;
  if (td_ok(s)) {
    if (out->head->own > 0) out->next = (int)out->head->own;
    from = out->next;
    td_raw_release(&frames[0]);
    out->n = out->next - 1;
    for (int i = 0; i < out->n; i++) out->frames[i] = frames[i + 1];
    if (out->head->long_head) s = read_long(out);
  }
  if (td_ok(s)) return NULL;
  for (int i = from; i < n; i++) td_raw_release(&frames[i]);
  td_message_deinit(out);
  return s;
}

td_status *td_message_take(td_message *m, uint64_t bytes, td_raw *out) {
  if (m->taken == m->n)
    return td_error(TD_INVALID_ARGUMENT, "a message lacks a frame");
  if (m->frames[m->taken].len != bytes)
    return td_error(TD_INVALID_ARGUMENT,
                    "a frame of %zu bytes, where %llu were announced",
                    m->frames[m->taken].len, (unsigned long long)bytes);
  *out = m->frames[m->taken++];
  return NULL;
}

/* ---- errors -------------------------------------------------------------- */

static char *borrow(const char *s) {
  return (char *)s;
}

Td__Remote__Status *td_wire_status_out(td_arena *a, const td_status *s) {
  if (td_ok(s)) return NULL;
  Td__Remote__Status *p = td_arena_alloc(a, sizeof *p);
  if (!p) return NULL;
  td__remote__status__init(p);
  p->code = (int32_t)td_status_code(s);
  p->derived = td_status_derived(s);
  p->about_task = borrow(td_status_about_task(s));
  const char *text = td_status_message(s);
  p->message = strlen(text) <= TD_WIRE_MESSAGE_MOST
                   ? borrow(text)
                   : td_arena_strn(a, text, TD_WIRE_MESSAGE_MOST);
  if (!p->message) p->message = borrow("");
  p->op = borrow(td_status_op(s));
  p->node = borrow(td_status_node(s));
  p->device = borrow(td_status_device(s));
  p->applied = borrow(td_status_applied_where(s));
  return p;
}

static td_code code_in(int32_t code) {
  return code > TD_OK && code <= TD_UNAUTHENTICATED ? (td_code)code
                                                    : TD_UNKNOWN;
}

static const char *some(const char *s) {
  return s && *s ? s : NULL;
}

td_status *td_wire_status_in(const Td__Remote__Status *p, const char *task) {
  if (!p || p->code == TD_OK) return NULL;
  td_status *s =
      td_error(code_in(p->code), "%.*s", TD_WIRE_MESSAGE_MOST, p->message);
  s = td_status_at(s, some(p->op), some(p->node), NULL,
                   some(p->device) ? p->device : task);
  if (some(p->about_task)) s = td_status_about(s, p->about_task);
  if (some(p->applied)) s = td_status_applied(s, p->applied);
  return p->derived ? td_status_derive(s) : s;
}

/* ---- values -------------------------------------------------------------- */

td_status *td_wire_value_out(td_arena *a, const td_tensor *t,
                             Td__Remote__Value **out) {
  Td__Remote__Value *p = td_arena_alloc(a, sizeof *p);
  if (!p) return td_oom();
  td__remote__value__init(p);
  *out = p;
  p->dead = !t || !td_tensor_valid(t);
  if (p->dead) return NULL;
  if (t->dtype == TD_RESOURCE || t->dtype == TD_VARIANT)
    return td_error(TD_UNIMPLEMENTED,
                    "a %s stays in its process: what it stands for is not "
                    "bytes; keep the ops that use it on one task",
                    td_dtype_name(t->dtype));
  p->dtype = (int32_t)t->dtype;
  p->n_dim = (size_t)t->shape.rank;
  p->dim = td_arena_alloc(a, (p->n_dim + 1) * sizeof *p->dim);
  if (!p->dim) return td_oom();
  for (size_t i = 0; i < p->n_dim; i++) p->dim[i] = t->shape.dim[i];
  p->bytes = td_tensor_bytes(t);
  return NULL;
}

static td_status *bad_value(const Td__Remote__Value *p, const char *what) {
  return td_error(TD_INVALID_ARGUMENT, "a value of dtype %d and %llu bytes: %s",
                  (int)p->dtype, (unsigned long long)p->bytes, what);
}

static td_status *shape_in(const Td__Remote__Value *p, td_shape *out) {
  if (p->n_dim > TD_MAX_RANK) return bad_value(p, "its rank is too high");
  *out = (td_shape){.rank = (int)p->n_dim};
  for (int i = 0; i < out->rank; i++) {
    if (p->dim[i] < 0) return bad_value(p, "a size is below zero");
    out->dim[i] = p->dim[i];
  }
  return NULL;
}

/* The elements of a shape that fits into memory. */
static td_status *count_in(const Td__Remote__Value *p, int64_t *out) {
  int64_t n = 1;
  for (size_t i = 0; i < p->n_dim; i++)
    if (__builtin_mul_overflow(n, p->dim[i], &n))
      return bad_value(p, "its sizes overflow");
  if (n > TD_WIRE_VALUE_MOST) return bad_value(p, "it is too large");
  *out = n;
  return NULL;
}

/* Is it a value that may be? dtype known and sendable, shape without unknown
 * sizes, bytes what both say. */
static td_status *check_value(const Td__Remote__Value *p) {
  td_shape shape;
  int64_t n = 0;
  if (p->dead) return NULL;
  td_dtype d = (td_dtype)p->dtype;
  if (!td_dtype_is_plain(d) && d != TD_STRING)
    return bad_value(p, "no such dtype can be sent");
  TD_TRY(shape_in(p, &shape));
  TD_TRY(count_in(p, &n));
  uint64_t each = p->narrow ? sizeof(uint16_t) : td_dtype_size(d);
  if (p->narrow && d != TD_FLOAT32)
    return bad_value(p, "only float32 is made narrow");
  if (p->bytes > (uint64_t)TD_WIRE_VALUE_MOST)
    return bad_value(p, "it is too large");
  if (d == TD_STRING && p->bytes < ((uint64_t)n + 1) * 8)
    return bad_value(p, "it is too short for its shape");
  if (d != TD_STRING && p->bytes != (uint64_t)n * each)
    return bad_value(p, "its shape takes another number of bytes");
  return NULL;
}

td_status *td_wire_value_read(const Td__Remote__Value *p, td_tensor *out) {
  *out = (td_tensor){0};
  TD_TRY(check_value(p));
  if (p->dead) return NULL;
  TD_TRY(shape_in(p, &out->shape));
  out->dtype = (td_dtype)p->dtype;
  return NULL;
}

/* The block of a string tensor is what a plain one of bytes has. */
static td_status *string_room(td_tensor *t, uint64_t bytes, td_allocator *a) {
  TD_TRY(td_buffer_new(a, (size_t)bytes, &t->buffer));
  t->data = t->buffer->data;
  return NULL;
}

td_status *td_wire_value_room(td_tensor *t, uint64_t bytes, td_allocator *a) {
  td_tensor room;
  if (t->dtype == TD_STRING) return string_room(t, bytes, a);
  TD_TRY(td_tensor_new(a, t->dtype, &t->shape, &room));
  *t = room;
  return NULL;
}
