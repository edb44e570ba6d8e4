/* staging_ops.c - the ops of staging areas: Stage and Unstage, and of maps
 * MapStage, OrderedMapStage, ...
 *
 * What an area may hold is said by the node that puts: it waits until there is
 * room. Tuples that are taken without a key come in the order of keys, in maps
 * that promise it and in others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/staging.h"

enum { PUT, TAKE }; /* the lines */

/* ---- lines --------------------------------------------------------------- */

static void to_front(td_attempts *w, td_attempt *a) {
  td_attempt *first = w->first[a->line];
  a->prev->next = a->next;
  *(a->next ? &a->next->prev : &w->last[a->line]) = a->prev;
  a->prev = NULL;
  a->next = first;
  first->prev = a;
  w->first[a->line] = a;
}

/* Its container was reset before it could wait. */
static bool is_gone(const td_staging *a, td_attempt *attempt) {
  if (!__atomic_load_n(&a->base.gone, __ATOMIC_ACQUIRE)) return false;
  attempt->status = td_staging_was_reset(a);
  attempt->over = true;
  return true;
}

/* Who waits for one key, or for much room, does not stand in the way of others:
 * whoever behind `first` can go comes to the front. False: nobody. */
static bool let_pass(td_attempts *w, td_attempt *first,
                     bool (*can)(const td_attempt *a)) {
  for (td_attempt *a = first->next; a; a = a->next)
    if (a->over || can(a)) {
      to_front(w, a);
      return true;
    }
  return false;
}

/* ---- components ---------------------------------------------------------- */

/* Which components of a tuple are meant. */
typedef struct chosen {
  int n;
  const int32_t *at; /* ascending; NULL: all, 0 to n - 1 */
} chosen;

static int component(const chosen *w, int i) {
  return w->at ? w->at[i] : i;
}

static td_status *read_chosen(const td_tensor *t, int given, int of,
                              chosen *w) {
  if (t->shape.rank != 1 || t->shape.dim[0] != given)
    return td_error(TD_INVALID_ARGUMENT,
                    "indices must be a vector of %d, one for each of the "
                    "tensors",
                    given);
  *w = (chosen){given, t->data};
  for (int i = 0; i < given; i++) {
    if (w->at[i] < 0 || (of >= 0 && w->at[i] >= of))
      return td_error(TD_INVALID_ARGUMENT,
                      "indices[%d] is %d: a tuple has components 0 to %d", i,
                      (int)w->at[i], of - 1);
    if (i > 0 && w->at[i] <= w->at[i - 1])
      return td_error(TD_INVALID_ARGUMENT,
                      "indices must be ascending: %d comes after %d",
                      (int)w->at[i], (int)w->at[i - 1]);
  }
  return NULL;
}

/* ---- putting ------------------------------------------------------------- */

typedef struct putting {
  td_attempt base; /* first */
  td_staging *a;   /* owned */
  chosen which;
  int first,
      size; /* of the values among the inputs; of a whole td_staging_tuple */
  int64_t key;
  size_t bytes;
  int64_t capacity, limit; /* 0: none */
} putting;

static bool has_room(const putting *p) {
  const td_staging *a = p->a;
  if (p->capacity > 0 && (int64_t)a->complete.of.len >= p->capacity)
    return false;
  return p->limit == 0 || a->bytes + p->bytes <= (size_t)p->limit;
}

static td_status *check_missing(const putting *p, const td_staging_tuple *t) {
  if (t->n != p->size)
    return td_error(TD_INVALID_ARGUMENT,
                    "the tuple of key %lld has %d components, not %d",
                    (long long)p->key, t->n, p->size);
  for (int i = 0; i < p->which.n; i++)
    if (td_tensor_valid(&t->at[component(&p->which, i)]))
      return td_error(TD_INVALID_ARGUMENT,
                      "%s %s has component %d of key %lld already",
                      p->a->base.object.type, td_staging_name(p->a),
                      component(&p->which, i), (long long)p->key);
  return NULL;
}

/* The tuple that the components go to, in the list of incomplete ones; there is
 * room in both lists. */
static td_status *open_tuple(putting *p, td_staging_tuple **out) {
  td_staging *a = p->a;
  if (a->base.object.type == td_staging_plain) p->key = a->next;
  if (td_staging_lookup(&a->complete, p->key))
    return td_error(TD_INVALID_ARGUMENT, "%s %s has a tuple of key %lld",
                    a->base.object.type, td_staging_name(a), (long long)p->key);
  if (!td_vec_reserve(&a->complete.of, 1) ||
      !td_vec_reserve(&a->incomplete.of, 1))
    return td_oom();
  *out = td_staging_lookup(&a->incomplete, p->key);
  if (*out) return check_missing(p, *out);
  *out = td_staging_tuple_new(p->key, p->size);
  if (!*out) return td_oom();
  td_staging_insert(&a->incomplete, *out);
  return NULL;
}

static td_status *put(putting *p) {
  td_staging *a = p->a;
  td_staging_tuple *t = NULL;
  TD_TRY(open_tuple(p, &t));
  for (int i = 0; i < p->which.n; i++)
    td_tensor_retain(td_in(p->base.ctx, p->first + i),
                     &t->at[component(&p->which, i)]);
  t->missing -= p->which.n;
  a->bytes += p->bytes;
  a->next++;
  if (t->missing > 0) return NULL;
  td_staging_erase(&a->incomplete, t);
  td_staging_insert(&a->complete, t);
  return NULL;
}

static bool can_put(const td_attempt *base) {
  return has_room((const putting *)base);
}

/* In a plain area the order in which tuples come is the order of who waits. */
static bool put_go(td_attempt *base) {
  putting *p = (putting *)base;
  td_staging *a = p->a;
  if (is_gone(a, base)) return false;
  if (!has_room(p))
    return a->base.object.type != td_staging_plain &&
           let_pass(&a->attempts, base, can_put);
  base->status = put(p);
  base->over = true;
  return true;
}

static td_status *put_finish(td_attempt *base, td_status *s) {
  td_staging_release(((putting *)base)->a);
  return s;
}

static const td_attempt_kind put_kind = {.go = put_go, .finish = put_finish};

static td_status *check_put(putting *p, const td_kernel_ctx *c) {
  const td_attr *types = td_node_attr(td_ctx_node(c), "dtypes");
  int n = c->n_in - p->first;
  p->size = types->len;
  p->which = (chosen){n, NULL};
  if (p->first > 0) {
    TD_TRY(td_operand_scalar(td_in(c, 0), "key", &p->key));
    TD_TRY(read_chosen(td_in(c, 1), n, p->size, &p->which));
  }
  for (int i = 0; i < n; i++) {
    const td_tensor *t = td_in(c, p->first + i);
    td_dtype want = types->types[component(&p->which, i)];
    if (t->dtype != want)
      return td_error(TD_INVALID_ARGUMENT,
                      "component %d is %s and cannot be %s",
                      component(&p->which, i), td_dtype_name(want),
                      td_dtype_name(t->dtype));
    p->bytes += td_tensor_bytes(t);
  }
  if (p->limit == 0 || p->bytes <= (size_t)p->limit) return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "tensors of %zu bytes never fit a memory_limit of %lld",
                  p->bytes, (long long)p->limit);
}

static void put_start(td_kernel_ctx *c, int first) {
  const td_node *n = td_ctx_node(c);
  putting *p = td_calloc(1, sizeof *p);
  td_status *s = p ? NULL : td_oom();
  if (td_ok(s)) {
    p->base.kind = &put_kind;
    p->first = first;
    p->capacity = td_node_int(n, "capacity");
    p->limit = td_node_int(n, "memory_limit");
    s = check_put(p, c);
  }
  if (td_ok(s)) s = td_staging_find(c, &p->a);
  if (td_ok(s)) {
    td_attempts_start(&p->a->attempts, &p->base, c, PUT);
    return;
  }
  td_free(p);
  td_kernel_done(c, s);
}

static void stage_start(td_kernel_ctx *c) {
  put_start(c, 0);
}

static void map_stage_start(td_kernel_ctx *c) {
  put_start(c, 2);
}

/* ---- taking -------------------------------------------------------------- */

typedef enum choice { FIRST, BY_KEY, BY_INDEX } choice;

typedef struct taking {
  td_attempt base; /* first */
  td_staging *a;   /* owned */
  choice how;
  bool peek;     /* the tuple stays */
  int64_t which; /* key, index */
  chosen parts;
  int first; /* of the components among the outputs: 1 behind a key */
} taking;

static td_staging_tuple *wanted(const taking *t) {
  const td_staging_list *l = &t->a->complete;
  if (t->how == BY_KEY) return td_staging_lookup(l, t->which);
  uint64_t i = t->how == FIRST ? 0 : (uint64_t)t->which;
  return i < l->of.len ? l->of.at[i] : NULL;
}

static td_status *check_wanted(const taking *t, const td_staging_tuple *x) {
  const td_node *n = td_ctx_node(t->base.ctx);
  const td_staging *a = t->a;
  if (!t->parts.at && x->n != t->parts.n)
    return td_error(TD_INVALID_ARGUMENT,
                    "tuples of %s %s have %d components, not %d",
                    a->base.object.type, td_staging_name(a), x->n, t->parts.n);
  for (int i = 0; i < t->parts.n; i++) {
    int k = component(&t->parts, i);
    if (k >= x->n)
      return td_error(TD_INVALID_ARGUMENT,
                      "the tuple of key %lld has components 0 to %d, not %d",
                      (long long)x->key, x->n - 1, k);
    if (!td_tensor_valid(&x->at[k]))
      return td_error(TD_INVALID_ARGUMENT,
                      "component %d of key %lld was taken before", k,
                      (long long)x->key);
    if (x->at[k].dtype != n->out[t->first + i].dtype)
      return td_error(TD_INVALID_ARGUMENT,
                      "component %d of %s %s is %s and cannot be had as %s", k,
                      a->base.object.type, td_staging_name(a),
                      td_dtype_name(x->at[k].dtype),
                      td_dtype_name(n->out[t->first + i].dtype));
  }
  return NULL;
}

static td_status *hand_out(taking *t, td_staging_tuple *x) {
  td_kernel_ctx *c = t->base.ctx;
  td_staging *a = t->a;
  TD_TRY(check_wanted(t, x));
  if (t->first > 0) TD_TRY(td_tensor_scalar_i(TD_INT64, x->key, &c->out[0]));
  for (int i = 0; i < t->parts.n; i++) {
    td_tensor *at = &x->at[component(&t->parts, i)];
    td_out_set(c, t->first + i, at);
    if (t->peek) continue;
    a->bytes -= td_tensor_bytes(at);
    td_tensor_release(at);
    x->missing++;
  }
  if (x->missing < x->n) return NULL;
  td_staging_erase(&a->complete, x);
  td_staging_tuple_free(x);
  return NULL;
}

static bool can_take(const td_attempt *base) {
  return wanted((const taking *)base) != NULL;
}

static bool take_go(td_attempt *base) {
  taking *t = (taking *)base;
  td_staging_tuple *x = wanted(t);
  if (is_gone(t->a, base)) return false;
  if (!x) return let_pass(&t->a->attempts, base, can_take);
  base->status = hand_out(t, x);
  base->over = true;
  return true;
}

static td_status *take_finish(td_attempt *base, td_status *s) {
  td_staging_release(((taking *)base)->a);
  return s;
}

static const td_attempt_kind take_kind = {.go = take_go, .finish = take_finish};

/* What the node asks for. */
static td_status *read_wish(taking *t, const td_kernel_ctx *c) {
  t->first = t->how == FIRST && c->n_in > 0;
  t->parts = (chosen){c->n_out - t->first, NULL};
  if (t->how == BY_KEY)
    TD_TRY(td_operand_scalar(td_in(c, 0), "key", &t->which));
  if (t->how == BY_INDEX)
    TD_TRY(td_operand_scalar(td_in(c, 0), "index", &t->which));
  if (t->how == BY_INDEX && t->which < 0)
    return td_error(TD_INVALID_ARGUMENT, "index must not be negative, not %lld",
                    (long long)t->which);
  if (t->how == BY_INDEX || c->n_in == 0) return NULL;
  return read_chosen(td_in(c, c->n_in - 1), t->parts.n, -1, &t->parts);
}

static void take_start(td_kernel_ctx *c, choice how, bool peek) {
  taking *t = td_calloc(1, sizeof *t);
  td_status *s = t ? NULL : td_oom();
  if (td_ok(s)) {
    t->base.kind = &take_kind;
    t->how = how;
    t->peek = peek;
    s = read_wish(t, c);
  }
  if (td_ok(s)) s = td_staging_find(c, &t->a);
  if (td_ok(s)) {
    td_attempts_start(&t->a->attempts, &t->base, c, TAKE);
    return;
  }
  td_free(t);
  td_kernel_done(c, s);
}

static void unstage_start(td_kernel_ctx *c) {
  take_start(c, FIRST, false);
}

static void map_unstage_start(td_kernel_ctx *c) {
  take_start(c, BY_KEY, false);
}

static void stage_peek_start(td_kernel_ctx *c) {
  take_start(c, BY_INDEX, true);
}

static void map_peek_start(td_kernel_ctx *c) {
  take_start(c, BY_KEY, true);
}

/* ---- those who wait ------------------------------------------------------ */

static void cancel(td_kernel_ctx *c) {
  td_staging *a = td_staging_recall(c);
  if (a) td_attempts_cancel(&a->attempts, c);
  td_staging_release(a);
}

static void add_state(const td_staging *a, td_str *out) {
  td_str_addf(out, "%s %s: %zu tuples", a->base.object.type, td_staging_name(a),
              a->complete.of.len);
  if (a->incomplete.of.len > 0)
    td_str_addf(out, ", %zu incomplete", a->incomplete.of.len);
  td_str_addf(out, ", %zu bytes, %d puts wait, %d takes", a->bytes,
              a->attempts.waiting[PUT], a->attempts.waiting[TAKE]);
}

static void why(const td_kernel_ctx *c, const char *what, td_str *out) {
  td_staging *a = td_staging_recall(c);
  if (!a) return;
  pthread_mutex_lock(&a->attempts.mutex);
  td_str_add(out, what);
  add_state(a, out);
  pthread_mutex_unlock(&a->attempts.mutex);
  td_staging_release(a);
}

static void why_put(const td_kernel_ctx *c, td_str *out) {
  why(c, "room in ", out);
}

static void why_take(const td_kernel_ctx *c, td_str *out) {
  int64_t key;
  td_status *s = NULL;
  if (c->n_in == 2) s = td_operand_scalar(td_in(c, 0), "key", &key);
  if (c->n_in == 2 && td_ok(s))
    td_str_addf(out, "key %lld in ", (long long)key);
  td_status_release(s);
  why(c, "", out);
}

/* ---- looking, clearing --------------------------------------------------- */

static td_status *give_size(td_kernel_ctx *c, bool complete) {
  td_staging *a = NULL;
  TD_TRY(td_staging_find(c, &a));
  pthread_mutex_lock(&a->attempts.mutex);
  size_t n = complete ? a->complete.of.len : a->incomplete.of.len;
  pthread_mutex_unlock(&a->attempts.mutex);
  td_staging_release(a);
  return td_tensor_scalar_i(TD_INT32, (int64_t)n, &c->out[0]);
}

static td_status *size_run(td_kernel_ctx *c) {
  return give_size(c, true);
}

static td_status *incomplete_run(td_kernel_ctx *c) {
  return give_size(c, false);
}

static td_status *clear_run(td_kernel_ctx *c) {
  td_staging *a = NULL;
  TD_TRY(td_staging_find(c, &a));
  td_attempts_enter(&a->attempts);
  td_staging_list complete = a->complete, incomplete = a->incomplete;
  memset(&a->complete, 0, sizeof a->complete);
  memset(&a->incomplete, 0, sizeof a->incomplete);
  a->bytes = 0;
  td_attempts_leave(&a->attempts);
  td_staging_clear(&complete);
  td_staging_clear(&incomplete);
  td_staging_release(a);
  return NULL;
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *keyed_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "key", NULL));
  TD_TRY(td_infer_rank(c, 1, 1, "indices", NULL));
  return td_infer_any(c);
}

static td_status *no_key_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 1, "indices", NULL));
  TD_TRY(td_infer_any(c));
  td_infer_out(c, 0, td_shape_scalar());
  return NULL;
}

static td_status *peek_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "index", NULL));
  return td_infer_any(c);
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .cost = td_cost_none, .lua = "", .host = "*",                                \
  .section = "Data flow: queues, stacks, arrays, accumulators",                \
  .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP
#define LIMITS "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0; "
#define NAMES "container: string = \"\"; shared_name: string = \"\""
#define SOME "; " LIMITS "dtypes: list(type) >= 1; " NAMES
#define ANY "; " LIMITS "dtypes: list(type); " NAMES

#define MAP_OPS(O)                                                             \
  {.type = O "MapStage",                                                       \
   .sig = "key: int64, indices: int32, values: fake_dtypes ->; " LIMITS        \
          "dtypes: list(type); fake_dtypes: list(type) >= 1; " NAMES,          \
   .shape = keyed_infer,                                                       \
   .doc = "Puts components of the tuple with a key, once there is room.",      \
   SECTION},                                                                   \
      {.type = O "MapPeek",                                                    \
       .sig = "key: int64, indices: int32 -> values: dtypes" SOME,             \
       .shape = keyed_infer,                                                   \
       .doc = "Components of the tuple with a key, once it is there, which "   \
              "stay.",                                                         \
       SECTION},                                                               \
      {.type = O "MapUnstage",                                                 \
       .sig = "key: int64, indices: int32 -> values: dtypes" SOME,             \
       .shape = keyed_infer,                                                   \
       .doc = "Takes components of the tuple with a key, once it is there.",   \
       SECTION},                                                               \
      {.type = O "MapUnstageNoKey",                                            \
       .sig = "indices: int32 -> key: int64, values: dtypes" SOME,             \
       .shape = no_key_infer,                                                  \
       .doc = "Takes components of the tuple with the least key.",             \
       SECTION},                                                               \
      {.type = O "MapSize",                                                    \
       .sig = "-> size: int32" ANY,                                            \
       .shape = td_infer_scalars,                                              \
       .doc = "How many tuples are complete.",                                 \
       SECTION},                                                               \
      {.type = O "MapIncompleteSize",                                          \
       .sig = "-> size: int32" ANY,                                            \
       .shape = td_infer_scalars,                                              \
       .doc = "How many tuples lack components.",                              \
       SECTION},                                                               \
  {                                                                            \
    .type = O "MapClear", .sig = "->" ANY, .shape = td_infer_none,             \
    .doc = "Drops all tuples.", SECTION                                        \
  }

static const td_op_def ops[] = {
    {.type = "Stage",
     .sig = "values: dtypes ->" SOME,
     .shape = td_infer_none,
     .doc = "Puts a tuple into a staging area, once there is room.",
     SECTION},
    {.type = "Unstage",
     .sig = "-> values: dtypes" SOME,
     .shape = td_infer_any,
     .doc = "Takes the oldest tuple out of a staging area, once there is one.",
     SECTION},
    {.type = "StagePeek",
     .sig = "index: int32 -> values: dtypes" SOME,
     .shape = peek_infer,
     .doc = "A tuple of a staging area, counted from the oldest, which stays.",
     SECTION},
    {.type = "StageSize",
     .sig = "-> size: int32" ANY,
     .shape = td_infer_scalars,
     .doc = "How many tuples are in a staging area.",
     SECTION},
    {.type = "StageClear",
     .sig = "->" ANY,
     .shape = td_infer_none,
     .doc = "Drops all tuples of a staging area.",
     SECTION},
    MAP_OPS(""),
    MAP_OPS("Ordered"),
    {0},
};

#define STATE .device = "CPU", TD_STAGING_STATE
#define CPU STATE, .flags = TD_KERNEL_INLINE
#define PUTS STATE, .cancel = cancel, .why = why_put
#define TAKES STATE, .cancel = cancel, .why = why_take

#define MAP_KERNELS(O)                                                         \
  {.op = O "MapStage", .start = map_stage_start, PUTS},                        \
      {.op = O "MapPeek", .start = map_peek_start, TAKES},                     \
      {.op = O "MapUnstage", .start = map_unstage_start, TAKES},               \
      {.op = O "MapUnstageNoKey", .start = unstage_start, TAKES},              \
      {.op = O "MapSize", .run = size_run, CPU},                               \
      {.op = O "MapIncompleteSize", .run = incomplete_run, CPU}, {             \
    .op = O "MapClear", .run = clear_run, CPU                                  \
  }

static const td_kernel_def kernels[] = {
    {.op = "Stage", .start = stage_start, PUTS},
    {.op = "Unstage", .start = unstage_start, TAKES},
    {.op = "StagePeek", .start = stage_peek_start, TAKES},
    {.op = "StageSize", .run = size_run, CPU},
    {.op = "StageClear", .run = clear_run, CPU},
    MAP_KERNELS(""),
    MAP_KERNELS("Ordered"),
    {0},
};

TD_MODULE(staging_ops, ops, kernels)
