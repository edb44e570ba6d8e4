/* queue_ops.c - what is done with a queue of any kind: QueueEnqueueV2,
 * QueueDequeueManyV2, QueueCloseV2, ...
 *
 * A step that waits here stands in line and holds no thread. Elements move:
 * what is dequeued one by one is the tensor that was enqueued, rows of an
 * enqueue_many share its memory (where the kind does not have them copied).
 * Batches are put together after the queue's mutex was let go; when that fails
 * the elements go back. A queue that failed gives what it has, then the error
 * of its producer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/vec.h"
#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/parts.h"
#include "kernels/queue.h"

enum { PUT, TAKE };             /* the lines */
enum { HEAVY_BYTES = 1 << 18 }; /* a batch of more is made on the pool */

static td_status *find(const td_kernel_ctx *c, td_queue **out) {
  return td_handle_in(c, 0, td_queue_type, "a queue", (td_resource **)out);
}

static const char *name_of(const td_queue *q) {
  return q->base.name ? q->base.name : "";
}

/* A node whose handle, or whose components, cannot be used. */
static bool failed(td_kernel_ctx *c, td_status *s) {
  if (td_ok(s)) return false;
  td_kernel_done(c, s);
  return true;
}

static td_status *check_timeout(const td_node *n) {
  if (td_node_int(n, "timeout_ms") < 0) return NULL;
  return td_error(TD_UNIMPLEMENTED,
                  "timeout_ms is not supported: give the step a timeout");
}

/* Why nothing more comes: what the producer said, or that it is closed. */
static td_status *producer_failed(const td_queue *q) {
  return td_error(td_status_code(q->cause), "queue %s failed: %s", name_of(q),
                  td_status_message(q->cause));
}

/* ---- enqueue ------------------------------------------------------------- */

typedef struct enqueuing {
  td_attempt base; /* first */
  td_queue *q;     /* held by the handle */
  bool many;
  int64_t next, n; /* tuples */
} enqueuing;

/* In host memory, whatever device the node is on. */
static td_status *copy_of(const td_kernel_ctx *c, const td_tensor *t,
                          td_tensor *out) {
  if (!td_dtype_is_plain(t->dtype)) return td_tensor_copy(t, out);
  TD_TRY(td_tensor_new(c->kernel->device->host, t->dtype, &t->shape, out));
  size_t bytes = td_tensor_bytes(t);
  if (bytes) memcpy(out->data, t->data, bytes);
  return NULL;
}

static td_status *row_of(const td_tensor *t, const enqueuing *e,
                         td_tensor *out) {
  td_tensor row;
  if (!e->many) {
    td_tensor_retain(t, out);
    return NULL;
  }
  if (!e->q->kind->copies) return td_parts_row(t, e->next, out);
  TD_TRY(td_parts_row(t, e->next, &row));
  td_status *s = copy_of(e->base.ctx, &row, out);
  td_tensor_release(&row);
  return s;
}

static td_status *put_next(enqueuing *e) {
  td_queue *q = e->q;
  td_kernel_ctx *c = e->base.ctx;
  td_tuple *t = td_tuple_new(q->n);
  if (!t) return td_oom();
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < q->n; i++)
    s = row_of(td_in(c, i + 1), e, &t->at[i]);
  if (td_ok(s) && !td_queue_put(q, t)) s = td_oom();
  if (!td_ok(s)) td_tuple_free(t);
  return s;
}

/* Its name is told to who waits for elements. */
static void remember_user(td_queue *q, const td_node *n) {
  struct td_queue_users *u = &q->users;
  for (int i = 0; i < u->n; i++)
    if (strcmp(u->name[i], n->name) == 0) return;
  if (u->n == TD_COUNT(u->name)) return;
  char *name = td_strdup(n->name);
  if (name) u->name[u->n++] = name;
}

static td_status *closed_for(const td_queue *q) {
  if (q->cause) return producer_failed(q);
  return td_error(TD_CANCELLED, "queue %s is closed", name_of(q));
}

static bool enqueue_go(td_attempt *a) {
  enqueuing *e = (enqueuing *)a;
  td_queue *q = e->q;
  int64_t before = e->next;
  if (before == 0) remember_user(q, td_ctx_node(a->ctx));
  if (q->closed) {
    a->status = closed_for(q);
    a->over = true;
    return false;
  }
  while (td_ok(a->status) && e->next < e->n &&
         (q->capacity < 0 || q->count < q->capacity)) {
    a->status = put_next(e);
    if (td_ok(a->status)) e->next++;
  }
  a->over = !td_ok(a->status) || e->next == e->n;
  return e->next != before;
}

static const td_attempt_kind enqueue_kind = {.go = enqueue_go};

/* A rank is a scalar whether or not shapes were given. */
static td_shape shape_said(const td_queue *q, int i) {
  if (q->kind->ranked && i == 0) return td_shape_scalar();
  return q->shapes ? q->shapes[i] : td_shape_unknown();
}

/* Component i of a tuple (of a batch of them: `many`) against the queue's. */
static td_status *check_component(const td_queue *q, int i, const td_tensor *t,
                                  bool many) {
  td_shape s = t->shape;
  td_shape_text want, have;
  if (t->dtype != q->dtypes[i])
    return td_error(
        TD_INVALID_ARGUMENT, "component %d of queue %s is %s and cannot be %s",
        i, name_of(q), td_dtype_name(q->dtypes[i]), td_dtype_name(t->dtype));
  if (many && s.rank == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "component %d is a scalar: enqueue_many takes batches", i);
  if (many) TD_TRY(td_parts_rest(&s, &s));
  td_shape said = shape_said(q, i);
  if (td_shape_allows(&said, &s)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "component %d of queue %s is of shape %s and cannot be of %s",
                  i, name_of(q), td_shape_str(&said, &want),
                  td_shape_str(&s, &have));
}

static td_status *check_components(const td_kernel_ctx *c, const td_queue *q,
                                   bool many, int64_t *n) {
  if (c->n_in - 1 != q->n)
    return td_error(TD_INVALID_ARGUMENT,
                    "queue %s has tuples of %d components, and is given %d",
                    name_of(q), q->n, c->n_in - 1);
  for (int i = 0; i < q->n; i++)
    TD_TRY(check_component(q, i, td_in(c, i + 1), many));
  *n = many ? td_in(c, 1)->shape.dim[0] : 1;
  for (int i = 1; many && i < q->n; i++)
    if (td_in(c, i + 1)->shape.dim[0] != *n)
      return td_error(TD_INVALID_ARGUMENT,
                      "component %d has %lld rows, component 0 %lld: a batch "
                      "has as many of each",
                      i, (long long)td_in(c, i + 1)->shape.dim[0],
                      (long long)*n);
  return check_timeout(td_ctx_node(c));
}

static void start_enqueue(td_kernel_ctx *c, bool many) {
  td_queue *q = NULL;
  int64_t n = 1;
  td_status *s = find(c, &q);
  if (td_ok(s)) s = check_components(c, q, many, &n);
  if (failed(c, s)) return;
  if (n == 0) {
    td_kernel_done(c, NULL);
    return;
  }
  enqueuing *e = td_calloc(1, sizeof *e);
  if (failed(c, e ? NULL : td_oom())) return;
  e->base.kind = &enqueue_kind;
  e->q = q;
  e->many = many;
  e->n = n;
  td_attempts_start(&q->attempts, &e->base, c, PUT);
}

static void enqueue_start(td_kernel_ctx *c) {
  start_enqueue(c, false);
}

static void enqueue_many_start(td_kernel_ctx *c) {
  start_enqueue(c, true);
}

/* ---- dequeue ------------------------------------------------------------- */

typedef enum amount { ONE, MANY, UP_TO } amount;

typedef struct dequeuing {
  td_attempt base; /* first */
  td_queue *q;     /* held by the handle */
  amount how;
  int64_t want;
  int64_t takes; /* the queue's, when it took its last */
  TD_VEC(td_tuple *) got;
} dequeuing;

static void give_back_all(dequeuing *d) {
  while (d->got.len > 0) td_queue_give_back(d->q, d->got.at[--d->got.len]);
}

static void dequeue_undo(td_attempt *a) {
  give_back_all((dequeuing *)a);
}

static td_status *too_few(const dequeuing *d) {
  const td_queue *q = d->q;
  if (q->cause) return producer_failed(q);
  return td_error(TD_OUT_OF_RANGE,
                  "queue %s is closed and has insufficient elements (requested "
                  "%lld, current size %lld)",
                  name_of(q), (long long)d->want, (long long)d->got.len);
}

static bool is_heavy(const dequeuing *d) {
  size_t bytes = 0;
  if (d->how == ONE || d->got.len == 0) return false;
  for (int i = 0; i < d->q->n; i++)
    bytes += td_tensor_bytes(&d->got.at[0]->at[i]);
  return bytes > HEAVY_BYTES / d->got.len;
}

static void take_some(dequeuing *d) {
  td_queue *q = d->q;
  int64_t left = q->count - (q->closed ? 0 : q->keep);
  while (left-- > 0 && (int64_t)d->got.len < d->want) {
    if (!td_vec_reserve(&d->got, 1)) {
      d->base.status = td_oom();
      return;
    }
    d->got.at[d->got.len++] = td_queue_take(q);
    d->takes = q->takes;
  }
}

static bool dequeue_go(td_attempt *a) {
  dequeuing *d = (dequeuing *)a;
  td_queue *q = d->q;
  size_t before = d->got.len;
  take_some(d);
  bool changed = d->got.len != before;
  if (td_ok(a->status) && (int64_t)d->got.len < d->want) {
    if (!q->closed) return changed;
    if (d->how != UP_TO || d->got.len == 0) a->status = too_few(d);
  }
  a->over = true;
  a->heavy = is_heavy(d);
  if (!td_ok(a->status))
    give_back_all(d);
  else if (d->how == ONE)
    td_queue_keep(q, 1);
  return true;
}

/* ---- its end ------------------------------------------------------------- */

static void hand_out(dequeuing *d) {
  td_tuple *t = d->got.at[0];
  for (int i = 0; i < t->n; i++) {
    d->base.ctx->out[i] = t->at[i];
    t->at[i] = (td_tensor){0};
  }
}

/* Its step was cancelled while the batch was made, and nobody took what stood
 * behind these, or was told that there is no more. */
static bool can_go_back(const dequeuing *d) {
  return td_stopped(d->base.ctx) && d->q->takes == d->takes && !d->q->closed;
}

/* What no batch can be made of, or nobody gets, is not lost. */
static td_status *make_batch(dequeuing *d) {
  td_attempts *w = &d->q->attempts;
  td_status *s = NULL;
  for (int i = 0; td_ok(s) && i < d->q->n; i++)
    s = td_queue_stack(d->base.ctx, i, d->q, d->got.at, (int64_t)d->got.len);
  td_attempts_enter(w);
  if (td_ok(s) && d->got.len > 0 && can_go_back(d))
    s = td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
  if (td_ok(s))
    td_queue_keep(d->q, (int64_t)d->got.len);
  else
    give_back_all(d);
  td_attempts_leave(w);
  return s;
}

static td_status *dequeue_finish(td_attempt *a, td_status *s) {
  dequeuing *d = (dequeuing *)a;
  if (td_ok(s) && d->how == ONE) hand_out(d);
  if (td_ok(s) && d->how != ONE) s = make_batch(d);
  for (size_t i = 0; i < d->got.len; i++) td_tuple_free(d->got.at[i]);
  td_vec_free(&d->got);
  return s;
}

static const td_attempt_kind dequeue_kind = {
    .go = dequeue_go, .undo = dequeue_undo, .finish = dequeue_finish};

static td_status *check_dtypes(const td_node *n, const td_queue *q) {
  if (n->n_out != q->n)
    return td_error(TD_INVALID_ARGUMENT,
                    "queue %s has tuples of %d components, not of %d",
                    name_of(q), q->n, n->n_out);
  for (int i = 0; i < q->n; i++)
    if (n->out[i].dtype != q->dtypes[i])
      return td_error(TD_INVALID_ARGUMENT,
                      "component %d of queue %s is %s and cannot be had as %s",
                      i, name_of(q), td_dtype_name(q->dtypes[i]),
                      td_dtype_name(n->out[i].dtype));
  return check_timeout(n);
}

static td_status *check_many(const td_kernel_ctx *c, const td_queue *q,
                             int64_t *want) {
  TD_TRY(td_operand_scalar(td_in(c, 1), "n", want));
  if (*want < 0)
    return td_error(TD_INVALID_ARGUMENT, "n must not be negative, not %lld",
                    (long long)*want);
  if (q->shapes) return NULL;
  return td_error(
      TD_INVALID_ARGUMENT,
      "queue %s does not know the shapes of its components: several "
      "can be dequeued only from one that was made with shapes",
      name_of(q));
}

static void start_dequeue(td_kernel_ctx *c, amount how) {
  td_queue *q = NULL;
  int64_t want = 1;
  td_status *s = find(c, &q);
  if (td_ok(s)) s = check_dtypes(td_ctx_node(c), q);
  if (td_ok(s) && how != ONE) s = check_many(c, q, &want);
  if (failed(c, s)) return;
  if (want == 0) {
    dequeuing none = {.base.ctx = c, .q = q, .how = how};
    td_kernel_done(c, dequeue_finish(&none.base, NULL));
    return;
  }
  dequeuing *d = td_calloc(1, sizeof *d);
  if (failed(c, d ? NULL : td_oom())) return;
  d->base.kind = &dequeue_kind;
  d->q = q;
  d->how = how;
  d->want = want;
  td_attempts_start(&q->attempts, &d->base, c, TAKE);
}

static void dequeue_start(td_kernel_ctx *c) {
  start_dequeue(c, ONE);
}

static void dequeue_many_start(td_kernel_ctx *c) {
  start_dequeue(c, MANY);
}

static void dequeue_up_to_start(td_kernel_ctx *c) {
  start_dequeue(c, UP_TO);
}

/* ---- closing ------------------------------------------------------------- */

typedef struct closing {
  td_attempt base; /* first */
  td_queue *q;     /* held by the handle */
} closing;

/* It stands behind those who enqueue, and waits for them. */
static bool close_go(td_attempt *a) {
  td_queue *q = ((closing *)a)->q;
  a->over = true;
  if (q->closed && !q->cause)
    a->status =
        td_error(TD_CANCELLED, "queue %s is already closed", name_of(q));
  q->closed = true;
  return true;
}

static const td_attempt_kind close_kind = {.go = close_go};

static void cancel_enqueues(td_queue *q) {
  td_status *s = td_error(TD_CANCELLED,
                          "queue %s was closed, and those who waited to "
                          "enqueue cancelled",
                          name_of(q));
  td_attempts_enter(&q->attempts);
  q->closed = true;
  td_attempts_fail(&q->attempts, PUT, s);
  td_attempts_leave(&q->attempts);
  td_status_release(s);
}

static void close_start(td_kernel_ctx *c) {
  td_queue *q = NULL;
  if (failed(c, find(c, &q))) return;
  if (td_node_bool(td_ctx_node(c), "cancel_pending_enqueues")) {
    cancel_enqueues(q);
    td_kernel_done(c, NULL);
    return;
  }
  closing *a = td_calloc(1, sizeof *a);
  if (failed(c, a ? NULL : td_oom())) return;
  a->base.kind = &close_kind;
  a->q = q;
  td_attempts_start(&q->attempts, &a->base, c, PUT);
}

static td_status *read_cause(const td_kernel_ctx *c, td_status **out) {
  int64_t code;
  size_t len;
  TD_TRY(td_operand_scalar(td_in(c, 1), "code", &code));
  if (code <= TD_OK || code > TD_UNAUTHENTICATED)
    return td_error(TD_INVALID_ARGUMENT,
                    "code must be that of an error, from 1 to 16, not %lld",
                    (long long)code);
  if (td_in(c, 2)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "message must be a scalar");
  const char *text = td_tensor_str(td_in(c, 2), 0, &len);
  *out = td_error((td_code)code, "%.*s", (int)len, text);
  return NULL;
}

static td_status *fail_run(td_kernel_ctx *c) {
  td_queue *q = NULL;
  td_status *cause = NULL;
  TD_TRY(find(c, &q));
  TD_TRY(read_cause(c, &cause));
  td_attempts_enter(&q->attempts);
  bool first = !q->cause && !q->closed;
  q->closed = true;
  if (first) {
    q->cause = cause;
    td_status *s = producer_failed(q);
    td_attempts_fail(&q->attempts, PUT, s);
    td_status_release(s);
  }
  td_attempts_leave(&q->attempts);
  if (!first) td_status_release(cause);
  return NULL;
}

/* ---- looking ------------------------------------------------------------- */

static td_status *size_run(td_kernel_ctx *c) {
  td_queue *q = NULL;
  TD_TRY(find(c, &q));
  pthread_mutex_lock(&q->attempts.mutex);
  int64_t n = q->count;
  pthread_mutex_unlock(&q->attempts.mutex);
  return td_tensor_scalar_i(TD_INT32, n, &c->out[0]);
}

static td_status *is_closed_run(td_kernel_ctx *c) {
  td_queue *q = NULL;
  TD_TRY(find(c, &q));
  pthread_mutex_lock(&q->attempts.mutex);
  bool closed = q->closed;
  pthread_mutex_unlock(&q->attempts.mutex);
  return td_tensor_scalar_i(TD_BOOL, closed, &c->out[0]);
}

/* ---- those who wait ------------------------------------------------------ */

static void cancel(td_kernel_ctx *c) {
  td_queue *q = NULL;
  td_status *s = find(c, &q);
  if (td_ok(s)) td_attempts_cancel(&q->attempts, c);
  td_status_release(s);
}

static void add_size(const td_queue *q, td_str *out) {
  td_str_addf(out, "%lld", (long long)q->count);
  if (q->capacity >= 0) td_str_addf(out, " of %lld", (long long)q->capacity);
  td_str_add(out, " elements");
}

static void add_users(const td_queue *q, td_str *out) {
  if (q->users.n == 0) td_str_add(out, "nothing has enqueued yet");
  if (q->users.n > 0) td_str_add(out, "its producers: ");
  for (int i = 0; i < q->users.n; i++)
    td_str_addf(out, "%s%s", i ? ", " : "", q->users.name[i]);
}

static void why_enqueue(const td_kernel_ctx *c, td_str *out) {
  td_queue *q = NULL;
  td_status *s = find(c, &q);
  td_status_release(s);
  if (!q) return;
  pthread_mutex_lock(&q->attempts.mutex);
  td_str_addf(out, "room in queue %s: ", name_of(q));
  add_size(q, out);
  td_str_addf(out, ", %d enqueues wait, %d dequeues", q->attempts.waiting[PUT],
              q->attempts.waiting[TAKE]);
  pthread_mutex_unlock(&q->attempts.mutex);
}

static void why_dequeue(const td_kernel_ctx *c, td_str *out) {
  td_queue *q = NULL;
  td_status *s = find(c, &q);
  td_status_release(s);
  if (!q) return;
  pthread_mutex_lock(&q->attempts.mutex);
  td_str_addf(out, "queue %s: ", name_of(q));
  add_size(q, out);
  if (q->keep > 0) td_str_addf(out, ", of which %lld stay", (long long)q->keep);
  td_str_addf(out, ", %d dequeues wait; ", q->attempts.waiting[TAKE]);
  add_users(q, out);
  pthread_mutex_unlock(&q->attempts.mutex);
}

/* ---- shapes -------------------------------------------------------------- */

/* What is known of the queue when the node is built. */
typedef struct known {
  const td_attr *types, *shapes;
  int lead; /* a priority queue's tuples begin with their rank */
} known;

static bool know(td_infer *c, known *k) {
  *k = (known){.types = td_infer_maker_attr(c, 0, "component_types"),
               .shapes = td_infer_maker_attr(c, 0, "shapes")};
  const char *maker = td_infer_maker(c, 0);
  if (!k->types || !k->shapes || !maker) return false;
  k->lead = strcmp(maker, "PriorityQueueV2") == 0;
  return true;
}

static td_shape known_shape(const known *k, int i) {
  if (i < k->lead) return td_shape_scalar();
  i -= k->lead;
  return i < k->shapes->len ? k->shapes->shapes[i] : td_shape_unknown();
}

static td_status *check_known(const known *k, int n) {
  int have = k->types->len + k->lead;
  if (n == have) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the queue has tuples of %d components, not of %d", have, n);
}

static td_status *check_known_input(td_infer *c, const known *k, int i,
                                    bool many) {
  td_shape want = known_shape(k, i), have = *td_infer_in(c, i + 1);
  td_dtype dtype = i < k->lead ? TD_INT64 : k->types->types[i - k->lead];
  td_shape_text a, b;
  if (td_infer_in_type(c, i + 1) != dtype)
    return td_error(
        TD_INVALID_ARGUMENT, "component %d of the queue is %s and cannot be %s",
        i, td_dtype_name(dtype), td_dtype_name(td_infer_in_type(c, i + 1)));
  if (many) {
    TD_TRY(td_infer_rank_at_least(c, i + 1, 1, "a batch of components"));
    TD_TRY(td_parts_rest(&have, &have));
  }
  if (td_shape_compatible(&want, &have)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "component %d of the queue is of shape %s and cannot be of "
                  "%s",
                  i, td_shape_str(&want, &a), td_shape_str(&have, &b));
}

static td_status *infer_enqueue(td_infer *c, bool many) {
  known k;
  int n = td_infer_inputs(c) - 1;
  if (!know(c, &k)) return NULL;
  TD_TRY(check_known(&k, n));
  for (int i = 0; i < n; i++) TD_TRY(check_known_input(c, &k, i, many));
  return NULL;
}

static td_status *enqueue_infer(td_infer *c) {
  return infer_enqueue(c, false);
}

static td_status *enqueue_many_infer(td_infer *c) {
  return infer_enqueue(c, true);
}

static td_status *dequeue_infer(td_infer *c) {
  known k;
  int n = td_infer_outputs(c);
  TD_TRY(td_infer_any(c));
  if (!know(c, &k)) return NULL;
  TD_TRY(check_known(&k, n));
  for (int i = 0; i < n; i++) td_infer_out(c, i, known_shape(&k, i));
  return NULL;
}

static td_status *infer_batch(td_infer *c, bool exact) {
  known k;
  td_small v;
  int n = td_infer_outputs(c);
  TD_TRY(td_infer_rank(c, 1, 0, "n", NULL));
  TD_TRY(td_infer_any(c));
  if (!know(c, &k)) return NULL;
  TD_TRY(check_known(&k, n));
  bool sure = exact && td_infer_small(c, 1, &v) && v.known[0];
  for (int i = 0; i < n; i++) {
    td_shape each = known_shape(&k, i), s = each;
    if (each.rank < 0 || each.rank == TD_MAX_RANK) continue;
    s.rank++;
    s.dim[0] = sure ? v.at[0] : -1;
    for (int j = 0; j < each.rank; j++) s.dim[j + 1] = each.dim[j];
    td_infer_out(c, i, s);
  }
  return NULL;
}

static td_status *dequeue_many_infer(td_infer *c) {
  return infer_batch(c, true);
}

static td_status *dequeue_up_to_infer(td_infer *c) {
  return infer_batch(c, false);
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .section = "Data flow: queues, stacks, arrays, accumulators", .lua = "",     \
  .host = "*", .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP
#define ENQUEUE                                                                \
  "handle: resource, components: Tcomponents ->; "                             \
  "Tcomponents: list(type) >= 1; timeout_ms: int = -1"
#define DEQUEUE                                                                \
  "components: component_types; component_types: list(type) >= 1; "            \
  "timeout_ms: int = -1"

static const td_op_def ops[] = {
    {.type = "QueueEnqueueV2",
     .old = "QueueEnqueue",
     .sig = ENQUEUE,
     .shape = enqueue_infer,
     .cost = td_cost_none,
     .doc = "Puts a tuple into a queue, once it has room.",
     SECTION},
    {.type = "QueueEnqueueManyV2",
     .old = "QueueEnqueueMany",
     .sig = ENQUEUE,
     .shape = enqueue_many_infer,
     .cost = td_cost_none,
     .doc = "Puts the rows of a batch into a queue, one by one as it has room.",
     SECTION},
    {.type = "QueueDequeueV2",
     .old = "QueueDequeue",
     .sig = "handle: resource -> " DEQUEUE,
     .shape = dequeue_infer,
     .cost = td_cost_none,
     .doc = "Takes a tuple out of a queue, once there is one.",
     SECTION},
    {.type = "QueueDequeueManyV2",
     .old = "QueueDequeueMany",
     .sig = "handle: resource, n: int32 -> " DEQUEUE,
     .shape = dequeue_many_infer,
     .cost = td_cost_move,
     .doc =
         "Takes n tuples out of a queue and puts them side by side; an error "
         "when it is closed with fewer.",
     SECTION},
    {.type = "QueueDequeueUpToV2",
     .old = "QueueDequeueUpTo",
     .sig = "handle: resource, n: int32 -> " DEQUEUE,
     .shape = dequeue_up_to_infer,
     .cost = td_cost_move,
     .doc = "Takes n tuples out of a queue, or what is left when it is closed.",
     SECTION},
    {.type = "QueueCloseV2",
     .old = "QueueClose",
     .sig = "handle: resource ->; cancel_pending_enqueues: bool = false",
     .shape = td_infer_none,
     .cost = td_cost_none,
     .doc =
         "Closes a queue: nothing more is enqueued, what is in it comes out.",
     SECTION},
    {.type = "QueueFail",
     .sig = "handle: resource, code: int32, message: string ->",
     .shape = td_infer_none,
     .cost = td_cost_none,
     .doc = "Closes a queue for an error of its producer, which whoever finds "
            "it empty is told.",
     SECTION},
    {.type = "QueueSizeV2",
     .old = "QueueSize",
     .sig = "handle: resource -> size: int32",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .doc = "How many tuples are in a queue.",
     SECTION},
    {.type = "QueueIsClosedV2",
     .old = "QueueIsClosed",
     .sig = "handle: resource -> is_closed: bool",
     .shape = td_infer_scalars,
     .cost = td_cost_none,
     .doc = "Was the queue closed?",
     SECTION},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE
#define PUTS .device = "CPU", .cancel = cancel, .why = why_enqueue
#define TAKES .device = "CPU", .cancel = cancel, .why = why_dequeue

static const td_kernel_def kernels[] = {
    {.op = "QueueEnqueueV2", .start = enqueue_start, PUTS},
    {.op = "QueueEnqueueManyV2", .start = enqueue_many_start, PUTS},
    {.op = "QueueDequeueV2", .start = dequeue_start, TAKES},
    {.op = "QueueDequeueManyV2", .start = dequeue_many_start, TAKES},
    {.op = "QueueDequeueUpToV2", .start = dequeue_up_to_start, TAKES},
    {.op = "QueueCloseV2", .start = close_start, PUTS},
    {.op = "QueueFail", .run = fail_run, CPU},
    {.op = "QueueSizeV2", .run = size_run, CPU},
    {.op = "QueueIsClosedV2", .run = is_closed_run, CPU},
    {0},
};

TD_MODULE(queue_ops, ops, kernels)
