/* accumulator.c - the accumulator of gradients: life, adding, taking; see
 * accumulator.h.
 *
 * A gradient counts from the moment it is accepted. Whoever takes waits until
 * nobody is busy adding; between, the mutex is only held to hand sums over. A
 * take that finds no memory for its result puts back what it took, step and
 * all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/accumulator.h"

#include "engine/base/cpu.h"
#include "engine/base/mem.h"
#include "kernels/cost.h"
#include "kernels/operand.h"

enum { TAKE };                  /* the line */
enum { HEAVY_BYTES = 1 << 18 }; /* a sum of more is finished on the pool */
enum { MAX_SLOTS = 1 << 20 };

static const char dense_type[] = "accumulator";
static const char sparse_type[] = "sparse accumulator";

static const char *name_of(const td_accumulator *a) {
  return a->base.name ? a->base.name : "";
}

/* ---- life ---------------------------------------------------------------- */

static void free_list(td_gradient *g) {
  for (td_gradient *next; g; g = next) {
    next = g->next;
    td_gradient_free(g);
  }
}

static void accumulator_free(td_object *o) {
  td_accumulator *a = (td_accumulator *)o;
  free_list(a->parts);
  for (int64_t i = 0; a->slot && i < a->slots; i++)
    td_gradient_free(a->slot[i]);
  td_free(a->slot);
  td_attempts_deinit(&a->attempts);
  td_resource_deinit(&a->base);
  td_free(a);
}

static td_status *was_reset(const td_accumulator *a) {
  return td_error(TD_CANCELLED, "the container of accumulator %s was reset",
                  name_of(a));
}

static void accumulator_removed(td_resource *r) {
  td_accumulator *a = (td_accumulator *)r;
  td_status *s = was_reset(a);
  td_attempts_enter(&a->attempts);
  td_attempts_fail(&a->attempts, TAKE, s);
  td_attempts_leave(&a->attempts);
  td_status_release(s);
}

static int64_t slots_of(const td_node *n) {
  return td_node_attr(n, "slots") ? td_node_int(n, "slots") : 0;
}

static bool is_mean(const td_node *n) {
  return td_node_string(n, "reduction_type")[0] == 'M';
}

static td_status *make(const td_kernel *k, bool sparse, td_resource **out) {
  const td_node *n = k->node;
  int64_t slots = slots_of(n);
  if (slots > MAX_SLOTS)
    return td_error(TD_INVALID_ARGUMENT,
                    "an accumulator has at most %d slots, not %lld", MAX_SLOTS,
                    (long long)slots);
  td_accumulator *a = td_calloc(1, sizeof *a);
  if (!a) return td_oom();
  a->base.object = (td_object){.refs = 1,
                               .type = sparse ? sparse_type : dense_type,
                               .free = accumulator_free,
                               .named = true};
  a->base.removed = accumulator_removed;
  td_attempts_init(&a->attempts);
  a->sparse = sparse;
  a->mean = is_mean(n);
  a->dtype = td_node_type(n, "dtype");
  a->shape = *td_node_attr(n, "shape")->shape;
  a->slots = slots;
  *out = &a->base;
  if (slots > 0 && !(a->slot = td_calloc((size_t)slots, sizeof *a->slot))) {
    td_object_release(&a->base.object);
    return td_oom();
  }
  return NULL;
}

static td_status *check(const td_node *n, const td_resource *r) {
  const td_accumulator *a = (const td_accumulator *)r;
  td_shape_text have, want;
  const td_shape *shape = td_node_attr(n, "shape")->shape;
  TD_TRY(td_accumulator_typed(a, td_node_type(n, "dtype")));
  if (!td_shape_equal(shape, &a->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "accumulator %s is of shape %s, not of %s", name_of(a),
                    td_shape_str(&a->shape, &have), td_shape_str(shape, &want));
  if (is_mean(n) != a->mean)
    return td_error(TD_INVALID_ARGUMENT, "accumulator %s gives %s, not %s",
                    name_of(a), a->mean ? "means" : "sums",
                    a->mean ? "sums" : "means");
  if (slots_of(n) != a->slots)
    return td_error(TD_INVALID_ARGUMENT,
                    "accumulator %s has %lld slots, not %lld (none: it is not "
                    "ordered)",
                    name_of(a), (long long)a->slots, (long long)slots_of(n));
  return NULL;
}

static td_status *make_dense(const td_kernel *k, td_resource **out) {
  return make(k, false, out);
}

static td_status *make_sparse(const td_kernel *k, td_resource **out) {
  return make(k, true, out);
}

static td_status *dense_run(td_kernel_ctx *c) {
  static const td_handle_kind kind = {dense_type, make_dense, check};
  return td_handle_run(c, &kind);
}

static td_status *sparse_run(td_kernel_ctx *c) {
  static const td_handle_kind kind = {sparse_type, make_sparse, check};
  return td_handle_run(c, &kind);
}

td_status *td_accumulator_in(const td_kernel_ctx *c, bool sparse,
                             td_accumulator **out) {
  return td_handle_in(c, 0, sparse ? sparse_type : dense_type,
                      sparse ? "a sparse accumulator" : "an accumulator",
                      (td_resource **)out);
}

/* One of either kind. */
static td_status *find_any(const td_kernel_ctx *c, td_accumulator **out) {
  td_status *s = td_accumulator_in(c, true, out);
  if (td_ok(s)) return NULL;
  td_status_release(s);
  return td_accumulator_in(c, false, out);
}

td_status *td_accumulator_typed(const td_accumulator *a, td_dtype dtype) {
  if (a->dtype == dtype) return NULL;
  return td_error(TD_INVALID_ARGUMENT, "accumulator %s holds %s, not %s",
                  name_of(a), td_dtype_name(a->dtype), td_dtype_name(dtype));
}

/* ---- adding -------------------------------------------------------------- */

static td_status *merge(td_kernel_ctx *c, const td_accumulator *a,
                        td_gradient *x, const td_gradient *y) {
  TD_TRY(a->sparse ? td_gradient_add_rows(c, x, y)
                   : td_gradient_add(c, &x->values, &y->values));
  x->count += y->count;
  return NULL;
}

/* The gradients of a sparse one may differ in rows. */
static bool fits_now(const td_accumulator *a, const td_shape *s) {
  td_shape now = a->now;
  if (a->sparse && now.rank > 0) now.dim[0] = -1;
  return a->count == 0 || td_shape_allows(&now, s);
}

static td_status *check_shape(const td_accumulator *a, const td_shape *s) {
  td_shape_text have, text;
  const td_shape *want = NULL;
  if (!fits_now(a, s)) want = &a->now;
  if (!want && !a->sparse && !td_shape_allows(&a->shape, s)) want = &a->shape;
  if (!want) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the gradients of accumulator %s have shape %s: one of shape "
                  "%s cannot be added",
                  name_of(a), td_shape_str(want, &text),
                  td_shape_str(s, &have));
}

static td_status *check_slot(const td_accumulator *a, int64_t slot) {
  if (a->slots == 0 && slot < 0) return NULL;
  if (slot < 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "accumulator %s is ordered: tell the slot of a gradient",
                    name_of(a));
  if (a->slots == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "accumulator %s is not ordered and has no slot %lld",
                    name_of(a), (long long)slot);
  if (slot >= a->slots)
    return td_error(TD_INVALID_ARGUMENT,
                    "accumulator %s has %lld slots, there is none of number "
                    "%lld",
                    name_of(a), (long long)a->slots, (long long)slot);
  if (!a->slot[slot]) return NULL;
  return td_error(TD_ALREADY_EXISTS,
                  "slot %lld of accumulator %s has its gradient for global "
                  "step %lld",
                  (long long)slot, name_of(a), (long long)a->step);
}

/* Under the mutex: *g is the accumulator's when it comes to a slot, else it is
 * to be added; NULL when it is dropped. */
static td_status *accept(td_accumulator *a, int64_t slot, int64_t step,
                         const td_shape *shape, td_gradient **g) {
  if (step < a->step) {
    td_gradient_free(*g);
    *g = NULL;
    return NULL;
  }
  TD_TRY(check_shape(a, shape));
  TD_TRY(check_slot(a, slot));
  if (a->count++ == 0) a->now = *shape;
  (*g)->count = 1;
  if (slot < 0) {
    a->busy++;
    return NULL;
  }
  a->slot[slot] = *g;
  *g = NULL;
  return NULL;
}

/* So that an input which others may read is not copied to be added to. */
static void prefer_sole(const td_accumulator *a, td_gradient *x,
                        td_gradient *y) {
  td_tensor t = x->values;
  if (a->sparse || td_buffer_sole(t.buffer)) return;
  if (!td_buffer_sole(y->values.buffer)) return;
  x->values = y->values;
  y->values = t;
}

/* Takes over what others have left, until there is nothing, and leaves `g`. The
 * mutex is held at both ends. */
static td_status *add_up(td_kernel_ctx *c, td_accumulator *a, td_gradient *g) {
  td_status *s = NULL;
  while (td_ok(s) && a->parts) {
    td_gradient *other = a->parts;
    a->parts = other->next;
    pthread_mutex_unlock(&a->attempts.mutex);
    prefer_sole(a, g, other);
    s = merge(c, a, g, other);
    if (td_ok(s)) td_gradient_free(other);
    td_attempts_enter(&a->attempts);
    if (td_ok(s)) continue;
    other->next = a->parts;
    a->parts = other;
  }
  a->busy--;
  if (!td_ok(s) && g->count == 1) { /* as if it had not come */
    a->count--;
    td_gradient_free(g);
    return s;
  }
  g->next = a->parts; /* more than this node's own: it must not be lost */
  a->parts = g;
  td_status_release(s);
  return NULL;
}

td_status *td_accumulator_apply(td_kernel_ctx *c, td_accumulator *a,
                                int64_t slot, int64_t step,
                                const td_shape *shape, td_gradient *g) {
  td_attempts_enter(&a->attempts);
  td_status *s = accept(a, slot, step, shape, &g);
  if (!td_ok(s))
    td_gradient_free(g);
  else if (g)
    s = add_up(c, a, g);
  td_attempts_leave(&a->attempts);
  return s;
}

static td_status *apply(td_kernel_ctx *c, int64_t slot, int first) {
  td_accumulator *a;
  int64_t step;
  const td_tensor *t = td_in(c, first + 1);
  TD_TRY(td_accumulator_in(c, false, &a));
  TD_TRY(td_accumulator_typed(a, t->dtype));
  TD_TRY(td_operand_scalar(td_in(c, first), "local_step", &step));
  td_gradient *g = td_gradient_new();
  if (!g) return td_oom();
  td_status *s = td_gradient_widen(c, t, &g->values);
  if (td_ok(s)) return td_accumulator_apply(c, a, slot, step, &t->shape, g);
  td_gradient_free(g);
  return s;
}

static td_status *apply_run(td_kernel_ctx *c) {
  return apply(c, -1, 1);
}

static td_status *ordered_apply_run(td_kernel_ctx *c) {
  int64_t slot;
  TD_TRY(td_operand_scalar(td_in(c, 1), "slot", &slot));
  if (slot < 0)
    return td_error(TD_INVALID_ARGUMENT, "slot must not be negative, not %lld",
                    (long long)slot);
  return apply(c, slot, 2);
}

/* ---- taking -------------------------------------------------------------- */

typedef struct taking {
  td_attempt base;   /* first */
  td_accumulator *a; /* held by the handle */
  int64_t need;
  int64_t step, count; /* of the accumulator, before it was taken */
  td_shape now;
  td_gradient **slot; /* room for those of an ordered one */
  td_gradient *got;   /* not ordered: a list */
} taking;

static size_t bytes_of(const taking *t) {
  const td_gradient *g = t->got;
  for (int64_t i = 0; !g && t->slot && i < t->a->slots; i++) g = t->slot[i];
  return g ? td_tensor_bytes(&g->values) : 0;
}

static bool take_go(td_attempt *base) {
  taking *t = (taking *)base;
  td_accumulator *a = t->a;
  a->need = t->need;
  if (__atomic_load_n(&a->base.gone,
                      __ATOMIC_ACQUIRE)) { /* before it could wait */
    base->status = was_reset(a);
    base->over = true;
    return false;
  }
  if (a->count < t->need || a->busy > 0) return false;
  t->step = a->step;
  t->count = a->count;
  t->now = a->now;
  t->got = a->parts;
  a->parts = NULL;
  if (t->slot) {
    td_gradient **empty = t->slot;
    t->slot = a->slot;
    a->slot = empty;
  }
  a->count = 0;
  a->step++;
  base->over = true;
  base->heavy = bytes_of(t) > HEAVY_BYTES;
  return true;
}

/* All of an ordered one's, in the order of slots, as a list. */
static void list_slots(taking *t) {
  td_gradient **end = &t->got;
  for (int64_t i = 0; t->slot && i < t->a->slots; i++) {
    if (!t->slot[i]) continue;
    t->slot[i]->next = NULL;
    *end = t->slot[i];
    end = &t->slot[i]->next;
  }
}

static td_status *give(taking *t, td_gradient *sum) {
  td_kernel_ctx *c = t->base.ctx;
  const td_accumulator *a = t->a;
  if (a->sparse)
    return td_gradient_out_rows(c, sum, a->dtype, a->mean,
                                a->shape.rank > 0 ? a->shape.dim[0] : -1);
  return td_gradient_out(c, 0, a->dtype, &sum->values, NULL,
                         a->mean ? sum->count : 1);
}

/* The sum of all in the order of the list; they stay as they are. */
static td_status *sum_up(taking *t, td_gradient *sum) {
  const td_gradient *first = t->got;
  sum->count = first->count;
  td_tensor_retain(&first->values, &sum->values);
  if (td_tensor_valid(&first->indices)) {
    td_tensor_retain(&first->indices, &sum->indices);
    td_tensor_retain(&first->counts, &sum->counts);
  }
  for (const td_gradient *g = first->next; g; g = g->next)
    TD_TRY(merge(t->base.ctx, t->a, sum, g));
  return give(t, sum);
}

/* A single sum is changed in place; of several none is, so that they can be
 * put back. */
static td_status *take_all(taking *t) {
  if (!t->got->next) return give(t, t->got);
  td_gradient *sum = td_gradient_new();
  if (!sum) return td_oom();
  td_status *s = sum_up(t, sum);
  td_gradient_free(sum);
  return s;
}

/* There was no memory: as if nobody had taken anything. What was accepted
 * since stays, but in a slot there is one gradient, the earlier. */
static void put_back(taking *t) {
  td_accumulator *a = t->a;
  td_attempts_enter(&a->attempts);
  if (a->step == t->step + 1) a->step = t->step;
  for (int64_t i = 0; t->slot && i < a->slots; i++) {
    if (!t->slot[i]) continue;
    a->count -= a->slot[i] != NULL;
    td_gradient_free(a->slot[i]);
    a->slot[i] = t->slot[i];
    t->slot[i] = NULL;
  }
  td_gradient **end = &a->parts;
  while (*end) end = &(*end)->next;
  if (!t->slot) *end = t->got;
  if (a->count == 0) a->now = t->now;
  a->count += t->count;
  t->got = NULL;
  td_attempts_leave(&a->attempts);
}

/* It may run on any thread: flushes denormals as kernels do, for the same
 * bits. */
static td_status *take_finish(td_attempt *base, td_status *s) {
  taking *t = (taking *)base;
  if (td_ok(s)) {
    unsigned was = td_cpu_flush_on();
    list_slots(t);
    s = take_all(t);
    td_cpu_flush_restore(was);
    if (td_ok(s))
      free_list(t->got);
    else
      put_back(t);
  }
  td_free(t->slot);
  return s;
}

static const td_attempt_kind take_kind = {.go = take_go, .finish = take_finish};

static td_status *check_take(const td_kernel_ctx *c, const td_accumulator *a,
                             int dtype_at, int64_t *need) {
  TD_TRY(td_accumulator_typed(a, td_kernel_type(c->kernel, dtype_at)));
  TD_TRY(td_operand_scalar(td_in(c, 1), "num_required", need));
  if (*need <= 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "num_required must be positive, not %lld",
                    (long long)*need);
  if (a->slots > 0 && *need > a->slots)
    return td_error(TD_INVALID_ARGUMENT,
                    "accumulator %s has %lld slots and never gathers %lld "
                    "gradients",
                    name_of(a), (long long)a->slots, (long long)*need);
  return NULL;
}

static td_status *make_taking(td_accumulator *a, int64_t need, taking **out) {
  taking *t = td_calloc(1, sizeof *t);
  if (!t) return td_oom();
  t->base.kind = &take_kind;
  t->a = a;
  t->need = need;
  *out = t;
  if (a->slots == 0) return NULL;
  t->slot = td_calloc((size_t)a->slots, sizeof *t->slot);
  if (t->slot) return NULL;
  td_free(t);
  return td_oom();
}

static void take_start(td_kernel_ctx *c, bool sparse) {
  td_accumulator *a = NULL;
  taking *t = NULL;
  int64_t need = 0;
  td_status *s = td_accumulator_in(c, sparse, &a);
  if (td_ok(s)) s = check_take(c, a, sparse, &need);
  if (td_ok(s)) s = make_taking(a, need, &t);
  if (td_ok(s))
    td_attempts_start(&a->attempts, &t->base, c, TAKE);
  else
    td_kernel_done(c, s);
}

static void dense_take_start(td_kernel_ctx *c) {
  take_start(c, false);
}

void td_accumulator_sparse_take_start(td_kernel_ctx *c) {
  take_start(c, true);
}

void td_accumulator_take_cancel(td_kernel_ctx *c) {
  td_accumulator *a = NULL;
  td_status *s = find_any(c, &a);
  if (td_ok(s)) td_attempts_cancel(&a->attempts, c);
  td_status_release(s);
}

void td_accumulator_take_why(const td_kernel_ctx *c, td_str *out) {
  td_accumulator *a = NULL;
  td_status *s = find_any(c, &a);
  td_status_release(s);
  if (!a) return;
  pthread_mutex_lock(&a->attempts.mutex);
  td_str_addf(out, "accumulator %s: %lld of %lld gradients, global step %lld",
              name_of(a), (long long)a->count, (long long)a->need,
              (long long)a->step);
  if (a->attempts.waiting[TAKE] > 1)
    td_str_addf(out, ", %d takes wait", a->attempts.waiting[TAKE]);
  pthread_mutex_unlock(&a->attempts.mutex);
}

/* ---- looking, and the global step ---------------------------------------- */

static td_status *count_run(td_kernel_ctx *c) {
  td_accumulator *a = NULL;
  TD_TRY(find_any(c, &a));
  pthread_mutex_lock(&a->attempts.mutex);
  int64_t n = a->count;
  pthread_mutex_unlock(&a->attempts.mutex);
  return td_tensor_scalar_i(TD_INT32, n, &c->out[0]);
}

static td_status *set_step_run(td_kernel_ctx *c) {
  td_accumulator *a = NULL;
  int64_t step;
  TD_TRY(find_any(c, &a));
  TD_TRY(td_operand_scalar(td_in(c, 1), "new_global_step", &step));
  pthread_mutex_lock(&a->attempts.mutex);
  int64_t was = a->step;
  if (step > was) a->step = step;
  pthread_mutex_unlock(&a->attempts.mutex);
  if (step >= was) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "accumulator %s is at global step %lld and cannot go back to "
                  "%lld",
                  name_of(a), (long long)was, (long long)step);
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *apply_infer(td_infer *c) {
  td_dtype dtype;
  td_shape shape;
  td_shape_text want, have;
  int last = td_infer_inputs(c) - 1;
  const td_shape *g = td_infer_in(c, last);
  for (int i = 1; i < last; i++)
    TD_TRY(td_infer_rank(c, i, 0, i < last - 1 ? "slot" : "local_step", NULL));
  if (!td_infer_handle(c, 0, &dtype, &shape)) return NULL;
  if (dtype != td_infer_in_type(c, last))
    return td_error(
        TD_INVALID_ARGUMENT, "the accumulator holds %s and cannot add %s",
        td_dtype_name(dtype), td_dtype_name(td_infer_in_type(c, last)));
  if (td_shape_compatible(&shape, g)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the gradients of the accumulator have shape %s: one of "
                  "shape %s cannot be added",
                  td_shape_str(&shape, &want), td_shape_str(g, &have));
}

static td_status *take_infer(td_infer *c) {
  td_dtype dtype;
  td_shape shape;
  TD_TRY(td_infer_rank(c, 1, 0, "num_required", NULL));
  TD_TRY(td_infer_any(c));
  if (!td_infer_handle(c, 0, &dtype, &shape)) return NULL;
  if (dtype != td_infer_out_type(c, 0))
    return td_error(
        TD_INVALID_ARGUMENT, "the accumulator holds %s and cannot give %s",
        td_dtype_name(dtype), td_dtype_name(td_infer_out_type(c, 0)));
  td_infer_out(c, 0, shape);
  return NULL;
}

static td_status *set_step_infer(td_infer *c) {
  return td_infer_rank(c, 1, 0, "new_global_step", NULL);
}

static void apply_cost(td_infer *c, td_cost *cost) {
  td_cost_per_input(c, cost, 1, td_infer_inputs(c) - 1);
}

/* ---- rows ---------------------------------------------------------------- */

#define WORKS                                                                  \
  .section = "Data flow: queues, stacks, arrays, accumulators", .lua = "",     \
  .host = "*", .flags = TD_STATEFUL | TD_NO_GRADIENT
#define SECTION                                                                \
  .section = "Data flow: queues, stacks, arrays, accumulators", .lua = "",     \
  .host = "*", .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP
#define MAKES                                                                  \
  "-> handle: resource; dtype: " TD_ACCUMULATOR_TYPES "; shape: shape; "       \
  "container: string = \"\"; shared_name: string = \"\"; "                     \
  "reduction_type: {\"MEAN\", \"SUM\"} = \"MEAN\""
#define ORDERED MAKES "; slots: int >= 1"
#define TYPED "; dtype: " TD_ACCUMULATOR_TYPES
#define MAKER .shape = td_infer_scalars, .cost = td_cost_none, SECTION

#define APPLIES                                                                \
  .sig = "handle: resource, local_step: int64, gradient: dtype ->" TYPED,      \
  .shape = apply_infer, .cost = apply_cost, WORKS,                             \
  .doc = "Adds a gradient, unless it was computed for a step that is over."
#define TAKES                                                                  \
  .sig = "handle: resource, num_required: int32 -> average: dtype" TYPED,      \
  .shape = take_infer, .cost = td_cost_move, WORKS,                            \
  .doc = "Waits for so many gradients, gives their mean or sum, and begins "   \
         "the next step."
#define COUNTS                                                                 \
  .sig = "handle: resource -> num_accumulated: int32",                         \
  .shape = td_infer_scalars, .cost = td_cost_none, SECTION,                    \
  .doc = "How many gradients an accumulator has for this step."
#define SETS                                                                   \
  .sig = "handle: resource, new_global_step: int64 ->",                        \
  .shape = set_step_infer, .cost = td_cost_none, SECTION,                      \
  .doc = "Has an accumulator drop gradients of steps before this one."

static const td_op_def ops[] = {
    {.type = "ConditionalAccumulator",
     .sig = MAKES,
     .doc = "Gathers gradients of a step until enough are there.",
     MAKER},
    {.type = "ResourceConditionalAccumulator",
     .sig = MAKES,
     .doc = "Gathers gradients of a step until enough are there.",
     MAKER},
    {.type = "SparseConditionalAccumulator",
     .sig = MAKES,
     .doc = "Gathers gradients of some rows until enough are there.",
     MAKER},
    {.type = "OrderedConditionalAccumulator",
     .sig = ORDERED,
     .doc = "Gathers gradients, each in its slot, and adds them in the order "
            "of slots: the same bits whoever comes first.",
     MAKER},
    {.type = "OrderedSparseConditionalAccumulator",
     .sig = ORDERED,
     .doc = "Gathers gradients of some rows, each in its slot, and adds them "
            "in the order of slots.",
     MAKER},
    {.type = "OrderedAccumulatorApplyGradient",
     .sig = "handle: resource, slot: int32, local_step: int64, gradient: "
            "dtype ->" TYPED,
     .shape = apply_infer,
     .cost = apply_cost,
     .doc = "Puts a gradient into its slot, unless it was computed for a step "
            "that is over.",
     WORKS},
    {.type = "AccumulatorApplyGradient", APPLIES},
    {.type = "ResourceAccumulatorApplyGradient", APPLIES},
    {.type = "AccumulatorTakeGradient", TAKES},
    {.type = "ResourceAccumulatorTakeGradient", TAKES},
    {.type = "AccumulatorNumAccumulated", COUNTS},
    {.type = "ResourceAccumulatorNumAccumulated", COUNTS},
    {.type = "AccumulatorSetGlobalStep", SETS},
    {.type = "ResourceAccumulatorSetGlobalStep", SETS},
    {0},
};

#define HANDLE                                                                 \
  .device = "CPU", .types = "dtype=half|bfloat16|float|double",                \
  .flags = TD_KERNEL_INLINE, TD_HANDLE_STATE
#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE
#define WAITS                                                                  \
  .device = "CPU", .start = dense_take_start,                                  \
  .cancel = td_accumulator_take_cancel, .why = td_accumulator_take_why

static const td_kernel_def kernels[] = {
    {.op = "ConditionalAccumulator", .run = dense_run, HANDLE},
    {.op = "ResourceConditionalAccumulator", .run = dense_run, HANDLE},
    {.op = "SparseConditionalAccumulator", .run = sparse_run, HANDLE},
    {.op = "OrderedConditionalAccumulator", .run = dense_run, HANDLE},
    {.op = "OrderedSparseConditionalAccumulator", .run = sparse_run, HANDLE},
    {.op = "OrderedAccumulatorApplyGradient",
     .device = "CPU",
     .run = ordered_apply_run},
    {.op = "AccumulatorApplyGradient", .device = "CPU", .run = apply_run},
    {.op = "ResourceAccumulatorApplyGradient",
     .device = "CPU",
     .run = apply_run},
    {.op = "AccumulatorTakeGradient", WAITS},
    {.op = "ResourceAccumulatorTakeGradient", WAITS},
    {.op = "AccumulatorNumAccumulated", .run = count_run, CPU},
    {.op = "ResourceAccumulatorNumAccumulated", .run = count_run, CPU},
    {.op = "AccumulatorSetGlobalStep", .run = set_step_run, CPU},
    {.op = "ResourceAccumulatorSetGlobalStep", .run = set_step_run, CPU},
    {0},
};

TD_MODULE(accumulator, ops, kernels)
