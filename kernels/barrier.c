/* barrier.c - Barrier: elements of several components that come at different
 * times, by key, and are taken once they are whole.
 *
 * An element has the number of the batch in which its key first came; those
 * that are whole are given in that order, then in the order in which they
 * became so. A batch goes in as a whole or not at all. Closed, a barrier takes
 * no new keys, but what lacks a component may still get it; when pending ones
 * are cancelled, that neither.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "kernels/attempts.h"
#include "kernels/cost.h"
#include "kernels/handle.h"
#include "kernels/operand.h"
#include "kernels/parts.h"

enum { TAKE };                  /* the line */
enum { HEAVY_BYTES = 1 << 18 }; /* a batch of more is made on the pool */

static const char type[] = "barrier";

typedef struct element {
  int64_t index; /* of its batch, from INT64_MIN on */
  int64_t order; /* in which it became whole */
  int missing;   /* components */
  size_t key_len;
  char *key;     /* owned */
  td_tensor *at; /* behind the struct; invalid while missing */
} element;

typedef struct barrier {
  td_resource base; /* first */
  int n;            /* components */
  td_dtype *dtypes;
  td_shape *shapes;        /* fully known */
  td_attempts attempts;    /* its mutex protects what follows */
  td_map incomplete;       /* elements by key */
  TD_VEC(element *) ready; /* a heap */
  size_t lent; /* elements that may come back to it: there is room for them */
  int64_t batches, orders;
  bool closed;
} barrier;

static const char *name_of(const barrier *b) {
  return b->base.name ? b->base.name : "";
}

/* ---- elements ------------------------------------------------------------ */

static element *element_new(const barrier *b, const char *key, size_t len) {
  element *e = td_calloc(1, sizeof *e + (size_t)b->n * sizeof *e->at);
  if (!e) return NULL;
  e->at = (td_tensor *)(e + 1);
  e->missing = b->n;
  e->index = INT64_MIN + b->batches;
  e->key_len = len;
  e->key = td_malloc(len + 1);
  if (e->key) {
    if (len) memcpy(e->key, key, len);
    return e;
  }
  td_free(e);
  return NULL;
}

static void element_free(element *e, int n) {
  for (int i = 0; i < n; i++) td_tensor_release(&e->at[i]);
  td_free(e->key);
  td_free(e);
}

/* ---- those that are whole: a heap ---------------------------------------- */

static bool before(const element *a, const element *b) {
  return a->index != b->index ? a->index < b->index : a->order < b->order;
}

/* There is room. */
static void ready_push(barrier *b, element *e) {
  size_t i = b->ready.len++;
  for (size_t up; i > 0 && before(e, b->ready.at[up = (i - 1) / 2]); i = up)
    b->ready.at[i] = b->ready.at[up];
  b->ready.at[i] = e;
}

static element *ready_pop(barrier *b) {
  element *first = b->ready.at[0], *last = b->ready.at[--b->ready.len];
  size_t i = 0, n = b->ready.len;
  for (size_t down; (down = 2 * i + 1) < n; i = down) {
    if (down + 1 < n && before(b->ready.at[down + 1], b->ready.at[down]))
      down++;
    if (!before(b->ready.at[down], last)) break;
    b->ready.at[i] = b->ready.at[down];
  }
  if (n > 0) b->ready.at[i] = last;
  return first;
}

/* ---- life ---------------------------------------------------------------- */

static void drop_incomplete(barrier *b) {
  const td_map_entry *m;
  for (size_t i = 0; td_map_next(&b->incomplete, &i, &m);)
    element_free(m->value, b->n);
  td_map_deinit(&b->incomplete);
  td_map_init(&b->incomplete);
}

static void barrier_free(td_object *o) {
  barrier *b = (barrier *)o;
  drop_incomplete(b);
  td_map_deinit(&b->incomplete);
  for (size_t i = 0; i < b->ready.len; i++) element_free(b->ready.at[i], b->n);
  td_vec_free(&b->ready);
  td_free(b->dtypes);
  td_free(b->shapes);
  td_attempts_deinit(&b->attempts);
  td_resource_deinit(&b->base);
  td_free(b);
}

static void barrier_removed(td_resource *r) {
  barrier *b = (barrier *)r;
  td_status *s = td_error(TD_CANCELLED, "the container of barrier %s was reset",
                          name_of(b));
  td_attempts_enter(&b->attempts);
  b->closed = true;
  td_attempts_fail(&b->attempts, TAKE, s);
  td_attempts_leave(&b->attempts);
  td_status_release(s);
}

static td_status *check_attrs(const td_node *n) {
  const td_attr *types = td_node_attr(n, "component_types");
  const td_attr *shapes = td_node_attr(n, "shapes");
  td_shape_text text;
  if (td_node_int(n, "capacity") >= 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "a barrier has no limit: its capacity must be -1, not %lld",
                    (long long)td_node_int(n, "capacity"));
  if (shapes->len != types->len)
    return td_error(TD_INVALID_ARGUMENT,
                    "a barrier of %d components is given %d shapes: give one "
                    "for each",
                    types->len, shapes->len);
  for (int i = 0; i < shapes->len; i++)
    if (!td_shape_known(&shapes->shapes[i]))
      return td_error(TD_INVALID_ARGUMENT,
                      "shape %d of a barrier is %s: it must be fully known", i,
                      td_shape_str(&shapes->shapes[i], &text));
  return NULL;
}

static td_status *barrier_make(const td_kernel *k, td_resource **out) {
  TD_TRY(check_attrs(k->node));
  const td_attr *types = td_node_attr(k->node, "component_types");
  const td_attr *shapes = td_node_attr(k->node, "shapes");
  barrier *b = td_calloc(1, sizeof *b);
  if (!b) return td_oom();
  b->base.object =
      (td_object){.refs = 1, .type = type, .free = barrier_free, .named = true};
  b->base.removed = barrier_removed;
  td_attempts_init(&b->attempts);
  td_map_init(&b->incomplete);
  b->n = types->len;
  b->dtypes = td_calloc((size_t)b->n, sizeof *b->dtypes);
  b->shapes = td_calloc((size_t)b->n, sizeof *b->shapes);
  if (!b->dtypes || !b->shapes) {
    td_object_release(&b->base.object);
    return td_oom();
  }
  for (int i = 0; i < b->n; i++) {
    b->dtypes[i] = types->types[i];
    b->shapes[i] = shapes->shapes[i];
  }
  *out = &b->base;
  return NULL;
}

static td_status *barrier_check(const td_node *n, const td_resource *r) {
  const barrier *b = (const barrier *)r;
  const td_attr *types = td_node_attr(n, "component_types");
  const td_attr *shapes = td_node_attr(n, "shapes");
  TD_TRY(check_attrs(n));
  bool same = types->len == b->n;
  for (int i = 0; same && i < b->n; i++)
    same = b->dtypes[i] == types->types[i] &&
           td_shape_equal(&b->shapes[i], &shapes->shapes[i]);
  if (same) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "barrier %s was made with other dtypes or shapes of its "
                  "components",
                  name_of(b));
}

static td_status *barrier_run(td_kernel_ctx *c) {
  static const td_handle_kind kind = {type, barrier_make, barrier_check};
  return td_handle_run(c, &kind);
}

static td_status *find(const td_kernel_ctx *c, barrier **out) {
  return td_handle_in(c, 0, type, "a barrier", (td_resource **)out);
}

/* ---- inserting ----------------------------------------------------------- */

/* A batch on its way in. */
typedef struct inserting {
  barrier *b;
  const td_tensor *keys, *values;
  int component;
  int64_t n;
  element **at; /* of each key; the first `done` have their value */
  int64_t done;
} inserting;

static td_status *check_values(const inserting *in) {
  const barrier *b = in->b;
  td_shape rest;
  td_shape_text want, have;
  if (in->component < 0 || in->component >= b->n)
    return td_error(TD_INVALID_ARGUMENT,
                    "component_index is %d: barrier %s has components 0 to %d",
                    in->component, name_of(b), b->n - 1);
  if (in->values->dtype != b->dtypes[in->component])
    return td_error(TD_INVALID_ARGUMENT,
                    "component %d of barrier %s is %s and cannot be %s",
                    in->component, name_of(b),
                    td_dtype_name(b->dtypes[in->component]),
                    td_dtype_name(in->values->dtype));
  if (in->keys->shape.rank != 1 || in->values->shape.rank < 1 ||
      in->keys->shape.dim[0] != in->values->shape.dim[0])
    return td_error(TD_INVALID_ARGUMENT,
                    "keys must be a vector and values as many rows, not of "
                    "shape %s and %s",
                    td_shape_str(&in->keys->shape, &want),
                    td_shape_str(&in->values->shape, &have));
  TD_TRY(td_parts_rest(&in->values->shape, &rest));
  if (td_shape_equal(&b->shapes[in->component], &rest)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "component %d of barrier %s is of shape %s and cannot be of "
                  "%s",
                  in->component, name_of(b),
                  td_shape_str(&b->shapes[in->component], &want),
                  td_shape_str(&rest, &have));
}

static td_status *new_element(barrier *b, const char *key, size_t len,
                              element **out) {
  if (b->closed)
    return td_error(TD_CANCELLED, "barrier %s is closed: there is no key %.*s",
                    name_of(b), (int)(len < 99 ? len : 99), key);
  element *e = element_new(b, key, len);
  if (!e) return td_oom();
  if (!td_map_putn(&b->incomplete, key, len, e)) {
    element_free(e, b->n);
    return td_oom();
  }
  *out = e;
  return NULL;
}

static td_status *insert_one(inserting *in) {
  barrier *b = in->b;
  size_t len;
  const char *key = td_tensor_str(in->keys, in->done, &len);
  element *e = td_map_getn(&b->incomplete, key, len);
  if (!e) TD_TRY(new_element(b, key, len, &e));
  in->at[in->done] = e;
  if (td_tensor_valid(&e->at[in->component]))
    return td_error(TD_INVALID_ARGUMENT,
                    "key %.*s of barrier %s has a value for component %d "
                    "already",
                    (int)(len < 99 ? len : 99), key, name_of(b), in->component);
  TD_TRY(td_parts_row(in->values, in->done, &e->at[in->component]));
  e->missing--;
  in->done++;
  return NULL;
}

/* As if the batch had not come. */
static void take_out(inserting *in) {
  barrier *b = in->b;
  for (int64_t i = 0; i < in->n && in->at[i]; i++) {
    element *e = in->at[i];
    if (i < in->done) {
      td_tensor_release(&e->at[in->component]);
      e->missing++;
    }
  }
  const td_map_entry *m;
  for (size_t i = 0; td_map_next(&b->incomplete, &i, &m);) {
    element *e = m->value;
    if (e->missing < b->n) continue;
    td_map_removen(&b->incomplete, e->key, e->key_len);
    element_free(e, b->n);
  }
}

/* Those that are whole now can be taken. */
static void move_whole(inserting *in, size_t known) {
  barrier *b = in->b;
  b->batches += b->incomplete.count > known;
  for (int64_t i = 0; i < in->n; i++) {
    element *e = in->at[i];
    if (e->missing > 0) continue;
    td_map_removen(&b->incomplete, e->key, e->key_len);
    e->order = b->orders++;
    ready_push(b, e);
  }
}

static td_status *insert_all(inserting *in) {
  barrier *b = in->b;
  size_t known = b->incomplete.count;
  if (!td_vec_reserve(&b->ready, (size_t)in->n + b->lent)) return td_oom();
  td_status *s = NULL;
  while (td_ok(s) && in->done < in->n) s = insert_one(in);
  if (td_ok(s))
    move_whole(in, known);
  else
    take_out(in);
  return s;
}

static td_status *insert_run(td_kernel_ctx *c) {
  inserting in = {.keys = td_in(c, 1),
                  .values = td_in(c, 2),
                  .component =
                      (int)td_node_int(td_ctx_node(c), "component_index")};
  TD_TRY(find(c, &in.b));
  TD_TRY(check_values(&in));
  in.n = in.keys->shape.dim[0];
  in.at = td_calloc((size_t)in.n + 1, sizeof(element *));
  if (!in.at) return td_oom();
  td_attempts_enter(&in.b->attempts);
  td_status *s = insert_all(&in);
  td_attempts_leave(&in.b->attempts);
  td_free(in.at);
  return s;
}

/* ---- taking -------------------------------------------------------------- */

typedef struct taking {
  td_attempt base; /* first */
  barrier *b;      /* held by the handle */
  int64_t want;
  bool small, patient; /* allow_small_batch, wait_for_incomplete */
  TD_VEC(element *) got;
} taking;

/* How many can be taken now; -1: to wait; an error when there never will. */
static td_status *can_take(const taking *t, int64_t *n) {
  const barrier *b = t->b;
  int64_t ready = (int64_t)b->ready.len;
  int64_t left = (int64_t)b->incomplete.count;
  *n = t->want;
  if (ready >= t->want && (!b->closed || ready + left > 0)) return NULL;
  *n = -1;
  if (!b->closed) return NULL;
  if (t->small && !(t->patient && left > 0) && ready > 0) *n = ready;
  if (*n > 0 || (t->small && t->patient && left > 0)) return NULL;
  if (!t->small && ready + left >= t->want && ready + left > 0) return NULL;
  return td_error(TD_OUT_OF_RANGE,
                  "barrier %s is closed and has insufficient elements "
                  "(requested %lld, ready %lld, incomplete %lld)",
                  name_of(b), (long long)t->want, (long long)ready,
                  (long long)left);
}

static bool is_heavy(const taking *t) {
  size_t bytes = 0;
  for (int i = 0; t->got.len > 0 && i < t->b->n; i++)
    bytes += td_tensor_bytes(&t->got.at[0]->at[i]);
  return t->got.len > 0 && bytes > HEAVY_BYTES / t->got.len;
}

static bool take_go(td_attempt *base) {
  taking *t = (taking *)base;
  int64_t n;
  base->status = can_take(t, &n);
  base->over = !td_ok(base->status) || n >= 0;
  if (!td_ok(base->status) || n < 0) return false;
  if (!td_vec_reserve(&t->got, n)) {
    base->status = td_oom();
    return false;
  }
  while (n-- > 0) t->got.at[t->got.len++] = ready_pop(t->b);
  t->b->lent += t->got.len;
  base->heavy = is_heavy(t);
  return true;
}

static td_status *give_keys(const taking *t) {
  size_t n = t->got.len;
  td_shape shape = td_shape_vector((int64_t)n);
  td_tensor *index;
  TD_TRY(td_out(t->base.ctx, 0, &shape, &index));
  const char **at = td_calloc(n + 1, sizeof *at);
  size_t *len = td_calloc(n + 1, sizeof *len);
  for (size_t i = 0; at && len && i < n; i++) {
    td_tensor_set_i(index, (int64_t)i, t->got.at[i]->index);
    at[i] = t->got.at[i]->key;
    len[i] = t->got.at[i]->key_len;
  }
  td_status *s = at && len
                     ? td_tensor_strings(&shape, at, len, &t->base.ctx->out[1])
                     : td_oom();
  td_free(at);
  td_free(len);
  return s;
}

static td_status *give_component(const taking *t, int i) {
  td_parts p;
  TD_TRY(td_parts_init(&p, (int64_t)t->got.len));
  for (; p.n < (int64_t)t->got.len; p.n++)
    td_tensor_retain(&t->got.at[p.n]->at[i], &p.at[p.n]);
  td_status *s = td_parts_stack(t->base.ctx, i + 2, &p, t->b->shapes[i]);
  td_parts_drop(&p);
  return s;
}

static td_status *take_finish(td_attempt *base, td_status *s) {
  taking *t = (taking *)base;
  barrier *b = t->b;
  if (td_ok(s)) s = give_keys(t);
  for (int i = 0; td_ok(s) && i < b->n; i++) s = give_component(t, i);
  td_attempts_enter(&b->attempts);
  b->lent -= t->got.len;
  for (size_t i = 0; i < t->got.len; i++) {
    if (td_ok(s))
      element_free(t->got.at[i], b->n);
    else
      ready_push(b, t->got.at[i]);
  }
  td_attempts_leave(&b->attempts);
  td_vec_free(&t->got);
  return s;
}

static const td_attempt_kind take_kind = {.go = take_go, .finish = take_finish};

static td_status *check_take(const td_kernel_ctx *c, const barrier *b,
                             int64_t *want) {
  const td_node *n = td_ctx_node(c);
  TD_TRY(td_operand_scalar(td_in(c, 1), "num_elements", want));
  if (*want < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "num_elements must not be negative, not %lld",
                    (long long)*want);
  if (td_node_int(n, "timeout_ms") >= 0)
    return td_error(TD_UNIMPLEMENTED,
                    "timeout_ms is not supported: give the step a timeout");
  bool same = n->n_out == b->n + 2;
  for (int i = 0; same && i < b->n; i++)
    same = n->out[i + 2].dtype == b->dtypes[i];
  if (same) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "barrier %s has other components than those asked for",
                  name_of(b));
}

static void take_start(td_kernel_ctx *c) {
  barrier *b = NULL;
  int64_t want = 0;
  td_status *s = find(c, &b);
  if (td_ok(s)) s = check_take(c, b, &want);
  taking *t = td_ok(s) ? td_calloc(1, sizeof *t) : NULL;
  if (td_ok(s) && !t) s = td_oom();
  if (!td_ok(s)) {
    td_kernel_done(c, s);
    return;
  }
  t->base.kind = &take_kind;
  t->b = b;
  t->want = want;
  t->small = td_node_bool(td_ctx_node(c), "allow_small_batch");
  t->patient = td_node_bool(td_ctx_node(c), "wait_for_incomplete");
  td_attempts_start(&b->attempts, &t->base, c, TAKE);
}

static void take_cancel(td_kernel_ctx *c) {
  barrier *b = NULL;
  td_status *s = find(c, &b);
  if (td_ok(s)) td_attempts_cancel(&b->attempts, c);
  td_status_release(s);
}

static void take_why(const td_kernel_ctx *c, td_str *out) {
  barrier *b = NULL;
  int64_t want = 0;
  td_status *s = find(c, &b);
  if (td_ok(s)) s = td_operand_scalar(td_in(c, 1), "num_elements", &want);
  if (td_ok(s)) {
    pthread_mutex_lock(&b->attempts.mutex);
    td_str_addf(out, "barrier %s: %zu of %lld elements ready, %zu incomplete%s",
                name_of(b), b->ready.len, (long long)want, b->incomplete.count,
                b->closed ? ", closed" : "");
    pthread_mutex_unlock(&b->attempts.mutex);
  }
  td_status_release(s);
}

/* ---- closing, looking ---------------------------------------------------- */

static td_status *close_run(td_kernel_ctx *c) {
  barrier *b = NULL;
  TD_TRY(find(c, &b));
  bool cancel = td_node_bool(td_ctx_node(c), "cancel_pending_enqueues");
  td_attempts_enter(&b->attempts);
  bool was = b->closed;
  b->closed = true;
  if (cancel) drop_incomplete(b);
  td_attempts_leave(&b->attempts);
  if (!was || cancel) return NULL;
  return td_error(TD_CANCELLED, "barrier %s is already closed", name_of(b));
}

static td_status *give_size(td_kernel_ctx *c, bool ready) {
  barrier *b = NULL;
  TD_TRY(find(c, &b));
  pthread_mutex_lock(&b->attempts.mutex);
  size_t n = ready ? b->ready.len : b->incomplete.count;
  pthread_mutex_unlock(&b->attempts.mutex);
  return td_tensor_scalar_i(TD_INT32, (int64_t)n, &c->out[0]);
}

static td_status *ready_run(td_kernel_ctx *c) {
  return give_size(c, true);
}

static td_status *incomplete_run(td_kernel_ctx *c) {
  return give_size(c, false);
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *insert_infer(td_infer *c) {
  const td_attr *types = td_infer_maker_attr(c, 0, "component_types");
  int64_t i = td_infer_int(c, "component_index");
  TD_TRY(td_infer_rank(c, 1, 1, "keys", NULL));
  TD_TRY(td_infer_rank_at_least(c, 2, 1, "values"));
  if (!types) return NULL;
  if (i < 0 || i >= types->len)
    return td_error(TD_INVALID_ARGUMENT,
                    "component_index is %lld: the barrier has components 0 to "
                    "%d",
                    (long long)i, types->len - 1);
  if (types->types[i] == td_infer_in_type(c, 2)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "component %lld of the barrier is %s and cannot be %s",
                  (long long)i, td_dtype_name(types->types[i]),
                  td_dtype_name(td_infer_in_type(c, 2)));
}

static td_status *take_infer(td_infer *c) {
  const td_attr *shapes = td_infer_maker_attr(c, 0, "shapes");
  int n = td_infer_outputs(c);
  td_small v;
  TD_TRY(td_infer_rank(c, 1, 0, "num_elements", NULL));
  TD_TRY(td_infer_any(c));
  bool sure = !td_infer_bool(c, "allow_small_batch") &&
              td_infer_small(c, 1, &v) && v.known[0] && v.at[0] >= 0;
  int64_t rows = sure ? v.at[0] : -1;
  td_infer_out(c, 0, td_shape_vector(rows));
  td_infer_out(c, 1, td_shape_vector(rows));
  for (int i = 2; shapes && shapes->len == n - 2 && i < n; i++) {
    td_shape each = shapes->shapes[i - 2], s = each;
    if (each.rank < 0 || each.rank == TD_MAX_RANK) continue;
    s.rank++;
    s.dim[0] = rows;
    for (int j = 0; j < each.rank; j++) s.dim[j + 1] = each.dim[j];
    td_infer_out(c, i, s);
  }
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .section = "Data flow: queues, stacks, arrays, accumulators", .lua = "",     \
  .host = "*", .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP

static const td_op_def ops[] = {
    {.type = "Barrier",
     .sig = "-> handle: resource; component_types: list(type) >= 1; shapes: "
            "list(shape) >= 0 = {}; capacity: int = -1; container: string = "
            "\"\"; shared_name: string = \"\"",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .doc = "Gathers the components of elements, by key, until they are whole.",
     SECTION},
    {.type = "BarrierInsertMany",
     .sig = "handle: resource, keys: string, values: T ->; T: type; "
            "component_index: int",
     .shape = insert_infer,
     .cost = td_cost_none,
     .doc = "Gives one component of the elements with these keys.",
     SECTION},
    {.type = "BarrierTakeMany",
     .sig = "handle: resource, num_elements: int32 -> indices: int64, keys: "
            "string, values: component_types; component_types: list(type) >= "
            "1; allow_small_batch: bool = false; wait_for_incomplete: bool = "
            "false; timeout_ms: int = -1",
     .shape = take_infer,
     .cost = td_cost_move,
     .doc = "Takes whole elements, the oldest first, and puts them side by "
            "side.",
     SECTION},
    {.type = "BarrierClose",
     .sig = "handle: resource ->; cancel_pending_enqueues: bool = false",
     .shape = td_infer_none,
     .cost = td_cost_none,
     .doc = "Closes a barrier: no new keys come, what is whole comes out.",
     SECTION},
    {.type = "BarrierReadySize",
     .sig = "handle: resource -> size: int32",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .doc = "How many elements of a barrier are whole.",
     SECTION},
    {.type = "BarrierIncompleteSize",
     .sig = "handle: resource -> size: int32",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .doc = "How many elements of a barrier lack a component.",
     SECTION},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE

static const td_kernel_def kernels[] = {
    {.op = "Barrier", .run = barrier_run, CPU, TD_HANDLE_STATE},
    {.op = "BarrierInsertMany", .run = insert_run, CPU},
    {.op = "BarrierTakeMany",
     .device = "CPU",
     .start = take_start,
     .cancel = take_cancel,
     .why = take_why},
    {.op = "BarrierClose", .run = close_run, CPU},
    {.op = "BarrierReadySize", .run = ready_run, CPU},
    {.op = "BarrierIncompleteSize", .run = incomplete_run, CPU},
    {0},
};

TD_MODULE(barrier, ops, kernels)
