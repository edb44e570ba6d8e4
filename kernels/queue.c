/* queue.c - queues of tuples: life, and tuples in and out; see queue.h.
 *
 * A waiting dequeue of many takes tuples as they come, so that it may ask for
 * more than the queue has room for, and gives them back when it does not get
 * all, or cannot make a batch of them. That must not fail: whoever puts one
 * sees to it that there is room for those that are lent, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/queue.h"

#include <string.h>

#include "engine/base/mem.h"

const char td_queue_type[] = "queue";

/* ---- tuples -------------------------------------------------------------- */

td_tuple *td_tuple_new(int n) {
  td_tuple *t = td_calloc(1, sizeof *t + (size_t)n * sizeof *t->at);
  if (!t) return NULL;
  t->n = n;
  t->at = (td_tensor *)(t + 1);
  return t;
}

void td_tuple_free(td_tuple *t) {
  if (!t) return;
  for (int i = 0; i < t->n; i++) td_tensor_release(&t->at[i]);
  td_free(t);
}

/* ---- life ---------------------------------------------------------------- */

static void queue_free(td_object *o) {
  td_queue *q = (td_queue *)o;
  while (q->count > 0) td_tuple_free(td_queue_take(q));
  if (q->kind->deinit) q->kind->deinit(q);
  for (int i = 0; i < q->users.n; i++) td_free(q->users.name[i]);
  td_status_release(q->cause);
  td_free(q->slot);
  td_free((void *)q->dtypes);
  td_free(q->shapes);
  td_attempts_deinit(&q->attempts);
  td_resource_deinit(&q->base);
  td_free(q);
}

/* All that is in it, as a list. Under the mutex. */
static td_tuple *take_all(td_queue *q) {
  td_tuple *list = NULL;
  while (q->count > 0) {
    td_tuple *t = td_queue_take(q);
    td_queue_keep(q, 1);
    t->next = list;
    list = t;
  }
  return list;
}

/* Its container was reset: who waits would wait for ever, and what is in it
 * would stay as long as a node remembers the handle. */
static void queue_removed(td_resource *r) {
  td_queue *q = (td_queue *)r;
  td_status *s = td_error(TD_CANCELLED, "the container of queue %s was reset",
                          q->base.name);
  td_attempts_enter(&q->attempts);
  q->closed = true;
  if (!q->cause) q->cause = td_error(TD_CANCELLED, "its container was reset");
  for (int i = 0; i < TD_ATTEMPT_LINES; i++)
    td_attempts_fail(&q->attempts, i, s);
  td_tuple *list = take_all(q), *next;
  td_attempts_leave(&q->attempts);
  td_status_release(s);
  for (td_tuple *t = list; t; t = next) {
    next = t->next;
    td_tuple_free(t);
  }
}

/* What a node says of its tuples. */
typedef struct layout {
  const td_attr *types, *shapes;
  int lead; /* tensors of which it says nothing */
} layout;

static layout layout_of(const td_node *n, const td_queue_kind *kind) {
  return (layout){td_node_attr(n, "component_types"), td_node_attr(n, "shapes"),
                  kind->ranked};
}

static int count_of(const layout *l) {
  return l->lead + l->types->len;
}

static td_dtype dtype_at(const layout *l, int i) {
  return i < l->lead ? TD_INT64 : l->types->types[i - l->lead];
}

static td_shape shape_at(const layout *l, int i) {
  return i < l->lead ? td_shape_scalar() : l->shapes->shapes[i - l->lead];
}

static bool has_shapes(const layout *l) {
  return l->shapes->len > 0 || (l->lead && l->types->len == 0);
}

static td_status *check_shape(const td_shape *s, int i,
                              const td_queue_kind *kind) {
  td_shape_text text;
  if (kind->pads && s->rank < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "shape %d of a %s is unknown: its rank must be known", i,
                    kind->name);
  if (kind->pads || td_shape_known(s)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "shape %d of a %s is %s: it must be fully known (a padding "
                  "queue takes sizes of -1)",
                  i, kind->name, td_shape_str(s, &text));
}

static td_status *check_layout(const layout *l, const td_queue_kind *kind) {
  if (l->shapes->len > 0 && l->shapes->len != l->types->len)
    return td_error(TD_INVALID_ARGUMENT,
                    "a %s of %d components is given %d shapes: give one for "
                    "each, or none",
                    kind->name, l->types->len, l->shapes->len);
  for (int i = 0; i < l->shapes->len; i++)
    TD_TRY(check_shape(&l->shapes->shapes[i], i, kind));
  return NULL;
}

static td_status *copy_layout(td_queue *q, const layout *l) {
  td_dtype *dtypes = td_calloc((size_t)q->n, sizeof *dtypes);
  q->dtypes = dtypes;
  if (!dtypes) return td_oom();
  for (int i = 0; i < q->n; i++) dtypes[i] = dtype_at(l, i);
  if (!has_shapes(l)) return NULL;
  q->shapes = td_calloc((size_t)q->n, sizeof *q->shapes);
  if (!q->shapes) return td_oom();
  for (int i = 0; i < q->n; i++) q->shapes[i] = shape_at(l, i);
  return NULL;
}

td_status *td_queue_new(const td_kernel *k, const td_queue_kind *kind,
                        td_resource **out) {
  layout l = layout_of(k->node, kind);
  int64_t capacity = td_node_int(k->node, "capacity");
  TD_TRY(check_layout(&l, kind));
  td_queue *q = td_calloc(1, sizeof *q);
  if (!q) return td_oom();
  q->base.object = (td_object){
      .refs = 1, .type = td_queue_type, .free = queue_free, .named = true};
  q->base.removed = queue_removed;
  td_attempts_init(&q->attempts);
  q->kind = kind;
  q->n = count_of(&l);
  q->capacity = capacity < 0 ? -1 : capacity;
  td_status *s = copy_layout(q, &l);
  if (td_ok(s) && kind->init) s = kind->init(q, k);
  if (td_ok(s))
    *out = &q->base;
  else
    td_object_release(&q->base.object);
  return s;
}

/* ---- one that is there --------------------------------------------------- */

static bool same_layout(const td_queue *q, const layout *l) {
  if (q->n != count_of(l) || !q->shapes != !has_shapes(l)) return false;
  for (int i = 0; i < q->n; i++) {
    td_shape s = q->shapes ? shape_at(l, i) : td_shape_scalar();
    if (q->dtypes[i] != dtype_at(l, i) ||
        (q->shapes && !td_shape_equal(&q->shapes[i], &s)))
      return false;
  }
  return true;
}

td_status *td_queue_check(const td_node *n, const td_resource *r,
                          const td_queue_kind *kind) {
  const td_queue *q = (const td_queue *)r;
  layout l = layout_of(n, kind);
  int64_t capacity = td_node_int(n, "capacity");
  if (q->kind != kind)
    return td_error(TD_INVALID_ARGUMENT, "queue %s is a %s, not a %s", r->name,
                    q->kind->name, kind->name);
  if (q->capacity != (capacity < 0 ? -1 : capacity))
    return td_error(TD_INVALID_ARGUMENT,
                    "queue %s has a capacity of %lld, not of %lld", r->name,
                    (long long)q->capacity, (long long)capacity);
  if (same_layout(q, &l)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "queue %s was made with other dtypes or shapes of its "
                  "components",
                  r->name);
}

/* ---- tuples in and out, under the mutex ---------------------------------- */

/* Room for one more, and for what is lent; slots from `first` on, which may go
 * round, stay in order. */
static bool make_room(td_queue *q) {
  size_t need = (size_t)(q->count + q->lent) + 1, now = q->slots;
  if (need <= now) return true;
  size_t room = now < 16 ? 16 : now * 2;
  td_tuple **slot = td_calloc(room, sizeof *slot);
  if (!slot) return false;
  for (size_t i = 0; i < (size_t)q->count; i++)
    slot[i] = q->slot[(q->first + i) % now];
  td_free(q->slot);
  q->slot = slot;
  q->slots = room;
  q->first = 0;
  return true;
}

bool td_queue_put(td_queue *q, td_tuple *t) {
  if (!make_room(q)) return false;
  q->kind->put(q, t);
  q->count++;
  return true;
}

td_tuple *td_queue_take(td_queue *q) {
  td_tuple *t = q->kind->take(q);
  q->count--;
  q->lent++;
  q->takes++;
  return t;
}

void td_queue_keep(td_queue *q, int64_t n) {
  q->lent -= n;
}

void td_queue_give_back(td_queue *q, td_tuple *t) {
  q->lent--;
  q->kind->give_back(q, t);
  q->count++;
}
