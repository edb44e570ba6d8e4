/* stage_batch.c - stages that put elements side by side: batch, and bucket,
 * which does so with elements of like lengths.
 *
 * A batch is put together where it becomes full. Where all elements have one
 * shape each that nobody else holds goes into its row as it comes, as long as
 * the caches have it, and what it was in is free for the next one; in the group
 * it then is a view of that row. What waits for others is part of no state: it
 * is taken again, from the oldest element on, and those that were given since
 * are told apart by their numbers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/pipeline/stage.h"

/* Elements that will be one. */
typedef struct group {
  TD_VEC(td_element) e;
  TD_VEC(int64_t) number; /* of each, among the inputs */
  td_tensor *rows; /* by column: the batch in which elements have theirs */
} group;

/* Which inputs waited in groups after output `out`. */
typedef struct waiting {
  int64_t out;
  td_mark mark;
  int64_t *number; /* n of them, in the order of groups */
  int *of;         /* the group of each */
  int n;
} waiting;

typedef struct batching {
  td_stage base; /* first */
  int64_t n;
  bool whole;
  td_allocator *memory; /* of batches */
  td_shape *room;       /* of each column; NULL: they have one shape */
  td_tensor *pad;
  group *groups;
  int n_groups;
  int length; /* the column that tells the group, -1: there is one group */
  int64_t *bounds;
  bool ending; /* the end of the epoch was taken */
  TD_VEC(waiting) states;
} batching;

/* The shape of n elements of shape `each`. */
static td_shape batched(const td_shape *each, int64_t n) {
  td_shape s = *each;
  if (s.rank < 0 || s.rank >= TD_MAX_RANK) return td_shape_unknown();
  s.rank++;
  s.dim[0] = n;
  for (int k = 0; k < each->rank; k++) s.dim[k + 1] = each->dim[k];
  return s;
}

/* ---- rows ---------------------------------------------------------------- */

/* Room for a whole batch of elements like `t`; none: they wait as they are.
 * Batches that large may be meant to be never full. */
static void make_rows(const batching *b, const td_tensor *t, td_tensor *out) {
  enum { MOST = 64 << 20 }; /* bytes */
  td_shape shape = batched(&t->shape, b->n);
  size_t each = td_tensor_bytes(t);
  if (!td_dtype_is_plain(t->dtype) || shape.rank < 0 || each == 0 ||
      each > MOST / (size_t)b->n)
    return;
  td_status_release(td_tensor_new(b->memory, t->dtype, &shape, out));
}

static bool is_like_rows(const td_tensor *rows, const td_tensor *t) {
  bool like = rows->shape.rank == t->shape.rank + 1;
  for (int k = 0; like && k < t->shape.rank; k++)
    like = rows->shape.dim[k + 1] == t->shape.dim[k];
  return like;
}

static char *row_at(const td_tensor *rows, size_t k) {
  return (char *)rows->data +
         td_tensor_bytes(rows) / (size_t)rows->shape.dim[0] * k;
}

/* Element `k` of a group becomes a view of its row. */
static void settle(const batching *b, group *g, size_t k) {
  td_element *e = &g->e.at[k];
  if (b->room || !e->at || k >= (size_t)b->n) return;
  if (!g->rows) g->rows = td_calloc((size_t)e->n + 1, sizeof *g->rows);
  for (int i = 0; g->rows && i < e->n; i++) {
    td_tensor *rows = &g->rows[i], *t = &e->at[i], view;
    if (k == 0 && td_buffer_sole(t->buffer)) make_rows(b, t, rows);
    if (!td_tensor_valid(rows) || !is_like_rows(rows, t) ||
        !td_buffer_sole(t->buffer))
      continue;
    td_tensor_retain(rows, &view);
    view.shape = t->shape;
    view.data = row_at(rows, k);
    memcpy(view.data, t->data, td_tensor_bytes(t));
    td_tensor_release(t);
    *t = view;
  }
}

/* Is the batch of column i there already? */
static bool is_settled(const batching *b, const group *g, int i) {
  bool all =
      g->e.len == (size_t)b->n && g->rows && td_tensor_valid(&g->rows[i]);
  for (size_t k = 0; all && k < g->e.len; k++)
    all = g->e.at[k].at[i].data == row_at(&g->rows[i], k);
  return all;
}

static void clear_rows(const batching *b, group *g) {
  for (int i = 0; g->rows && i < b->base.n_columns; i++)
    if (td_tensor_valid(&g->rows[i])) td_tensor_release(&g->rows[i]);
}

/* ---- a batch ------------------------------------------------------------- */

static td_status *stack_column(const batching *b, const group *g, int i,
                               td_tensor *out) {
  size_t n = g->e.len;
  if (is_settled(b, g, i)) {
    td_tensor_retain(&g->rows[i], out);
    return NULL;
  }
  td_tensor *at = td_calloc(n, sizeof *at);
  if (!at) return td_oom();
  for (size_t k = 0; k < n; k++) at[k] = g->e.at[k].at[i];
  const td_tensor *pad =
      b->pad && td_tensor_valid(&b->pad[i]) ? &b->pad[i] : NULL;
  td_status *s = td_tensor_stack(b->memory, at, (int64_t)n,
                                 b->room ? &b->room[i] : NULL, pad, out);
  td_free(at);
  return s;
}

static void clear(batching *b, group *g) {
  for (size_t i = 0; i < g->e.len; i++) td_stage_drop(&b->base, &g->e.at[i]);
  g->e.len = g->number.len = 0;
  clear_rows(b, g);
}

static td_status *damaged(void) {
  return td_error(TD_DATA_LOSS, "the state of the batches is damaged");
}

/* An element that was taken again may be an error this time, or none. */
static td_status *check_elements(const group *g) {
  for (size_t i = 0; i < g->e.len; i++) {
    const td_element *e = &g->e.at[i];
    if (!e->at) return e->status ? td_status_retain(e->status) : damaged();
  }
  return NULL;
}

static td_status *stack(const batching *b, const group *g, td_element *out) {
  TD_TRY(check_elements(g));
  TD_TRY(td_element_new(b->base.n_columns, out));
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < out->n; i++)
    s = stack_column(b, g, i, &out->at[i]);
  if (!td_ok(s)) td_element_drop(out);
  return s;
}

/* ---- states -------------------------------------------------------------- */

static void waiting_free(waiting *w) {
  td_free(w->number);
  td_free(w->of);
}

static int count_waiting(const batching *b) {
  size_t n = 0;
  for (int i = 0; i < b->n_groups; i++) n += b->groups[i].number.len;
  return (int)n;
}

/* What waits now, after `in` inputs. */
static td_status *keep_state(batching *b, int64_t in) {
  int n = count_waiting(b), at = 0;
  waiting w = {.out = b->base.out,
               .mark = b->base.now,
               .number = td_calloc((size_t)n + 1, sizeof *w.number),
               .of = td_calloc((size_t)n + 1, sizeof *w.of),
               .n = n};
  w.mark.in = in;
  if (!w.number || !w.of || !td_vec_reserve(&b->states, 1)) {
    waiting_free(&w);
    return td_oom();
  }
  for (int i = 0; i < b->n_groups; i++)
    for (size_t k = 0; k < b->groups[i].number.len; k++) {
      w.number[at] = b->groups[i].number.at[k];
      w.of[at++] = i;
    }
  b->states.at[b->states.len++] = w;
  return NULL;
}

static int64_t oldest(const waiting *w) {
  int64_t first = w->mark.in;
  for (int i = 0; i < w->n; i++)
    if (w->number[i] < first) first = w->number[i];
  return first;
}

static const waiting *last_before(const batching *b, int64_t upto) {
  size_t i = b->states.len;
  while (i > 1 && b->states.at[i - 1].out > upto) i--;
  return &b->states.at[i - 1];
}

static td_status *batch_save(td_stage *s, int64_t upto, td_str *out,
                             int64_t *at, td_mark *mark) {
  const waiting *w = last_before((batching *)s, upto);
  *at = w->out;
  *mark = w->mark;
  mark->in = oldest(w);
  td_stage_write(out, w->mark.in);
  td_stage_write(out, w->n);
  for (int i = 0; i < w->n; i++) {
    td_stage_write(out, w->number[i]);
    td_stage_write(out, w->of[i]);
  }
  return NULL;
}

/* A place for an input that will be taken again. */
static td_status *await(batching *b, int64_t number, int64_t of) {
  if (of < 0 || of >= b->n_groups) return damaged();
  group *g = &b->groups[of];
  if ((int64_t)g->e.len >= b->n) return damaged();
  if (!td_vec_push(&g->e, (td_element){0}) || !td_vec_push(&g->number, number))
    return td_oom();
  return NULL;
}

static td_status *batch_load(td_stage *s, const char **at, const char *end) {
  batching *b = (batching *)s;
  int64_t to, n;
  TD_TRY(td_stage_read(at, end, &to));
  TD_TRY(td_stage_read(at, end, &n));
  if (to < s->now.in || n < 0) return damaged();
  for (int64_t i = 0; i < n; i++) {
    int64_t number, of;
    TD_TRY(td_stage_read(at, end, &number));
    TD_TRY(td_stage_read(at, end, &of));
    if (number < s->now.in || number >= to) return damaged();
    TD_TRY(await(b, number, of));
  }
  b->base.refill_to = to;
  waiting_free(&b->states.at[0]);
  b->states.len = 0;
  return keep_state(b, to);
}

static int64_t batch_forget(td_stage *s, int64_t upto) {
  batching *b = (batching *)s;
  size_t kept = 0, n = b->states.len;
  while (kept + 1 < n && b->states.at[kept + 1].out <= upto)
    waiting_free(&b->states.at[kept++]);
  memmove(b->states.at, b->states.at + kept, (n - kept) * sizeof *b->states.at);
  b->states.len -= kept;
  s->marks.len = 0; /* of no use here */
  s->first_mark = s->out;
  return oldest(&b->states.at[0]);
}

/* ---- elements ------------------------------------------------------------ */

static void put_group(batching *b, group *g) {
  td_stage *s = &b->base;
  td_element out;
  td_status *st = stack(b, g, &out);
  clear(b, g);
  if (td_ok(st))
    td_stage_put(s, out);
  else
    td_stage_put_error(s, st);
}

static td_status *group_of(const batching *b, const td_element *e,
                           group **out) {
  int i = 0;
  *out = b->groups;
  if (b->length < 0) return NULL;
  const td_tensor *t = &e->at[b->length];
  if (t->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "the length of an element must be a scalar");
  int64_t length = td_tensor_get_i(t, 0);
  while (i < b->n_groups - 1 && length >= b->bounds[i]) i++;
  *out = &b->groups[i];
  return NULL;
}

/* An input that was taken before the state was saved. */
static void take_again(batching *b, int64_t number, td_element e) {
  for (int i = 0; i < b->n_groups; i++) {
    group *g = &b->groups[i];
    for (size_t k = 0; k < g->number.len; k++)
      if (g->number.at[k] == number && !g->e.at[k].at && !e.end) {
        td_element_drop(&g->e.at[k]);
        g->e.at[k] = e;
        return;
      }
  }
  td_element_drop(&e);
}

static void gather(batching *b, int64_t number, td_element e) {
  td_stage *s = &b->base;
  group *g = NULL;
  td_status *st = group_of(b, &e, &g);
  if (td_ok(st) &&
      (!td_vec_reserve(&g->e, 1) || !td_vec_reserve(&g->number, 1)))
    st = td_oom();
  if (!td_ok(st)) {
    td_element_drop(&e);
    td_stage_put_error(s, st);
    return;
  }
  g->e.at[g->e.len++] = e;
  g->number.at[g->number.len++] = number;
  settle(b, g, g->e.len - 1);
  if ((int64_t)g->e.len == b->n) put_group(b, g);
}

static void take_one(batching *b) {
  td_stage *s = &b->base;
  int64_t number = s->now.in, epoch = s->now.in_epoch;
  td_element e = td_stage_take(s);
  if (number < b->base.refill_to) {
    s->now.in_epoch = epoch; /* it was seen then */
    take_again(b, number, e);
  } else if (e.end) {
    b->ending = true;
  } else if (e.status) {
    td_stage_put(s, e);
  } else {
    gather(b, number, e);
  }
}

/* At the end of an epoch: a group that is not full, or the end itself. */
static void end_one(batching *b) {
  for (int i = 0; i < b->n_groups; i++) {
    group *g = &b->groups[i];
    if (g->e.len == 0) continue;
    if (b->whole)
      clear(b, g);
    else
      put_group(b, g);
    return;
  }
  b->ending = false;
  td_stage_put_end(&b->base, b->base.now.in_epoch);
}

/* One move; false when there is none. */
static bool step(batching *b) {
  td_stage *s = &b->base;
  int64_t before = s->out;
  if (s->now.in < b->base.refill_to) {
    if (!td_stage_has_input(s)) return false;
    take_one(b);
    return true;
  }
  if (!td_stage_has_room(s) || (!b->ending && !td_stage_has_input(s)))
    return false;
  if (b->ending)
    end_one(b);
  else
    take_one(b);
  if (s->out != before && !b->ending) {
    td_status *st = keep_state(b, s->now.in);
    if (!td_ok(st)) td_stage_put_error(s, st);
  }
  return true;
}

static bool batch_advance(td_stage *s) {
  bool changed = false;
  while (step((batching *)s)) changed = true;
  return changed;
}

/* ---- life ---------------------------------------------------------------- */

static void batch_free(td_stage *s) {
  batching *b = (batching *)s;
  for (int i = 0; b->groups && i < b->n_groups; i++) {
    clear(b, &b->groups[i]);
    td_free(b->groups[i].rows);
    td_vec_free(&b->groups[i].e);
    td_vec_free(&b->groups[i].number);
  }
  for (size_t i = 0; i < b->states.len; i++) waiting_free(&b->states.at[i]);
  td_vec_free(&b->states);
  for (int i = 0; b->pad && i < s->n_columns; i++)
    td_tensor_release(&b->pad[i]);
  td_free(b->pad);
  td_free(b->room);
  td_free(b->groups);
  td_free(b->bounds);
}

static void batch_why(td_stage *s, td_str *out) {
  batching *b = (batching *)s;
  td_str_addf(out, "%s has %d of %lld", s->kind->name, count_waiting(b),
              (long long)b->n);
}

#define GROUPS                                                                 \
  .advance = batch_advance, .free = batch_free, .save = batch_save,            \
  .load = batch_load, .forget = batch_forget, .why = batch_why

static const td_stage_kind batch_kind = {.name = "batch", GROUPS};
static const td_stage_kind bucket_kind = {.name = "bucket", GROUPS};

/* ---- making one ---------------------------------------------------------- */

static td_status *check_pads(const td_pipeline *p,
                             const td_pipeline_batching *o) {
  td_shape_text a, b;
  for (int i = 0; o->room && i < td_pipeline_columns(p); i++) {
    const td_column *c = td_pipeline_column(p, i);
    if (c->shape.rank >= 0 && c->shape.rank != o->room[i].rank)
      return td_error(TD_INVALID_ARGUMENT,
                      "column %d is of shape %s and cannot be padded to %s", i,
                      td_shape_str(&c->shape, &a),
                      td_shape_str(&o->room[i], &b));
  }
  for (int i = 0; o->pad && i < td_pipeline_columns(p); i++)
    if (td_tensor_valid(&o->pad[i]) &&
        (o->pad[i].dtype != td_pipeline_column(p, i)->dtype ||
         o->pad[i].shape.rank != 0))
      return td_error(TD_INVALID_ARGUMENT,
                      "what column %d is padded with must be a scalar of %s", i,
                      td_dtype_name(td_pipeline_column(p, i)->dtype));
  return NULL;
}

static td_status *fill(batching *b, const td_pipeline_batching *o,
                       int n_groups) {
  int n = b->base.n_columns;
  b->n = o->n;
  b->whole = o->whole;
  b->n_groups = n_groups;
  b->memory = td_stage_memory();
  b->length = -1;
  b->groups = td_calloc((size_t)n_groups, sizeof *b->groups);
  if (!b->groups) return td_oom();
  if (o->room) {
    b->room = td_calloc((size_t)n + 1, sizeof *b->room);
    if (!b->room) return td_oom();
    for (int i = 0; i < n; i++) b->room[i] = o->room[i];
  }
  if (o->pad) {
    b->pad = td_calloc((size_t)n + 1, sizeof *b->pad);
    if (!b->pad) return td_oom();
    for (int i = 0; i < n; i++)
      if (td_tensor_valid(&o->pad[i])) td_tensor_retain(&o->pad[i], &b->pad[i]);
  }
  return keep_state(b, 0);
}

static td_status *add(td_pipeline *p, const td_stage_kind *kind,
                      const td_pipeline_batching *o, int n_groups,
                      batching **out) {
  enum { MOST = 1 << 24 };
  int n = td_pipeline_columns(p);
  bool exact = kind == &batch_kind;
  if (o->n < 1 || o->n > MOST)
    return td_error(TD_INVALID_ARGUMENT,
                    "a batch needs from 1 to %d elements, not %lld", MOST,
                    (long long)o->n);
  TD_TRY(check_pads(p, o));
  td_column *columns = td_calloc((size_t)n + 1, sizeof *columns);
  if (!columns) return td_oom();
  for (int i = 0; i < n; i++) {
    const td_column *c = td_pipeline_column(p, i);
    columns[i].dtype = c->dtype;
    columns[i].shape = batched(o->room ? &o->room[i] : &c->shape,
                               exact && o->whole ? o->n : -1);
  }
  td_status *s = td_stage_add(p, kind, sizeof **out, columns, n, out);
  td_free(columns);
  if (td_ok(s)) s = fill(*out, o, n_groups);
  return s;
}

td_status *td_pipeline_batch(td_pipeline *p, const td_pipeline_batching *o) {
  batching *b = NULL;
  return add(p, &batch_kind, o, 1, &b);
}

td_status *td_pipeline_bucket(td_pipeline *p, int length, const int64_t *bounds,
                              int n_bounds, const td_pipeline_batching *o) {
  batching *b = NULL;
  for (int i = 1; i < n_bounds; i++)
    if (bounds[i] <= bounds[i - 1])
      return td_error(
          TD_INVALID_ARGUMENT,
          "the bounds of buckets must ascend; %lld comes after %lld",
          (long long)bounds[i], (long long)bounds[i - 1]);
  if (!td_dtype_is_integer(td_pipeline_column(p, length)->dtype))
    return td_error(TD_INVALID_ARGUMENT,
                    "the length of an element must be an integer, not %s",
                    td_dtype_name(td_pipeline_column(p, length)->dtype));
  TD_TRY(add(p, &bucket_kind, o, n_bounds + 1, &b));
  b->length = length;
  b->bounds = td_calloc((size_t)n_bounds + 1, sizeof *b->bounds);
  if (!b->bounds) return td_oom();
  for (int i = 0; i < n_bounds; i++) b->bounds[i] = bounds[i];
  return NULL;
}
