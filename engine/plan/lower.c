/* lower.c - If, Case and While become branches and loops.
 *
 * Branches and bodies are functions; here they become calls, which inline.c
 * replaces in their turn, between the nodes that td.cond and td.while_loop are
 * made of. So they run in tagged frames like any other, on several devices and
 * in parallel iterations:
 *
 *   x -> Enter -> Merge -> Switch --true--> body -> NextIteration -> Merge
 *                   |        |  `-false--> Exit -> y
 *                   `-> cond -> LoopCond
 *
 * What a body hands on as it came, such as the handle of a variable, is no loop
 * variable: it enters as a constant and does not leave. Iterations of a While
 * (not StatelessWhile) read and write what they share, so each begins when the
 * one before is done.
 *
 * Nodes behind a While or If were built for the shapes that its attribute
 * output_shapes claims. A value that is not known to have such a shape goes
 * through an EnsureShape.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "engine/plan/inline_impl.h"

typedef struct lowering {
  td_inliner *x;
  td_node *call;
  td_node *entry;    /* may be NULL */
  const td_edge *in; /* copies of x->args, which expansion uses again */
  td_function_body *out;
} lowering;

/* ---- nodes --------------------------------------------------------------- */

/* Sets the names and the place of what `b` builds. */
static td_status *put(lowering *l, td_build *b, const char *name, int32_t with,
                      td_node **out) {
  td_str text = {0};
  const char *unique = NULL;
  td_str_addf(&text, "%s/%s", l->call->name, name);
  td_status *s = text.failed
                     ? td_oom()
                     : td_graph_unique(l->x->g, td_str_c(&text), &unique);
  td_str_deinit(&text);
  if (!td_ok(s)) {
    td_build_drop(b);
    return s;
  }
  b->name = unique;
  b->exact_name = true;
  b->origin = l->call->origin;
  TD_TRY(td_build_node(b, out));
  (*out)->serial = l->call->serial;
  (*out)->frame = l->call->frame;
  (*out)->may_die = l->call->may_die;
  return td_placer_choose_inlined(l->x->p->request->placer, *out, with);
}

static td_status *add1(lowering *l, const char *op, const char *name, td_edge a,
                       td_node **out) {
  td_build b;
  td_build_init(&b, l->x->g, op, NULL);
  td_build_in(&b, a);
  return put(l, &b, name, a.node->placed, out);
}

static td_status *add2(lowering *l, const char *op, const char *name, td_edge a,
                       td_edge b, td_node **out) {
  td_build build;
  td_build_init(&build, l->x->g, op, NULL);
  td_build_in(&build, a);
  td_build_in(&build, b);
  return put(l, &build, name, a.node->placed, out);
}

/* An int32, where the call runs. */
static td_status *constant(lowering *l, int32_t value, td_edge *out) {
  td_build b;
  td_tensor t;
  td_node *n;
  TD_TRY(td_tensor_scalar_i(TD_INT32, value, &t));
  td_build_init(&b, l->x->g, "Const", NULL);
  td_build_attr(&b, "value", td_attr_tensor(&t));
  td_build_attr(&b, "dtype", td_attr_type(TD_INT32));
  if (l->entry) td_build_control(&b, l->entry);
  td_status *s = put(l, &b, "const", l->call->placed, &n);
  td_tensor_release(&t);
  if (td_ok(s)) *out = (td_edge){n, 0};
  return s;
}

/* A scalar bool says the same as `e`: 0 and "" are false, and so is a tensor
 * without elements. */
static td_status *as_bool(lowering *l, td_edge e, td_edge *out) {
  td_node *n;
  *out = e;
  if (td_edge_dtype(e) == TD_BOOL && td_edge_shape(e)->rank == 0) return NULL;
  TD_TRY(add1(l, "ToBool", "bool", e, &n));
  *out = (td_edge){n, 0};
  return NULL;
}

/* A call of function `f` that runs when `pivot` does. */
static td_status *add_call(lowering *l, const td_func_attr *f, const char *name,
                           const td_edge *in, int n_in, const td_dtype *types,
                           int n_types, td_node *pivot, td_node **out) {
  td_build b;
  bool stateful = l->call->op->flags & TD_STATEFUL;
  td_attr func = {.kind = TD_ATTR_FUNC, .func = f};
  td_build_init(&b, l->x->g,
                stateful ? "StatefulPartitionedCall" : "PartitionedCall", NULL);
  td_build_list(&b, in, n_in);
  td_build_attr(&b, "Tout", td_attr_types(types, n_types));
  td_build_attr(&b, "f", func);
  td_build_control(&b, pivot);
  TD_TRY(put(l, &b, name, l->call->placed, out));
  TD_TRY(td_inline_known(l->x));
  l->x->at.at[(*out)->id].pivot = pivot;
  return NULL;
}

static td_status *claim(lowering *l, td_node *n, int32_t in, int result) {
  td_claim c = {n, in, l->call->out[result].shape, false};
  if (c.shape.rank < 0) return NULL;
  return td_vec_push(&l->x->claims, c) ? NULL : td_oom();
}

/* A condition whose shape is not known yet. */
static td_status *claim_scalar(lowering *l, td_node *n) {
  td_claim c = {.node = n, .shape = td_shape_scalar(), .pred = true};
  return td_vec_push(&l->x->claims, c) ? NULL : td_oom();
}

static td_status *types_of(const lowering *l, td_dtype **out) {
  *out = td_calloc((size_t)l->call->n_out + 1, sizeof **out);
  for (int i = 0; *out && i < l->call->n_out; i++)
    (*out)[i] = l->call->out[i].dtype;
  return *out ? NULL : td_oom();
}

/* ---- branches ------------------------------------------------------------ */

typedef struct branching {
  int32_t n;              /* branches */
  const td_func_attr **f; /* of each */
  td_edge *pred;          /* of each: is it the one? */
  int32_t *port;          /* of each: the output of a Switch that is alive */
  td_node **call;         /* of each */
  td_edge *ran;           /* of each: alive when it ran */
  int32_t first;          /* input of the call that is its first argument */
} branching;

/* Branch k: its arguments through Switches, and the call. */
static td_status *add_branch(lowering *l, branching *b, int32_t k,
                             const td_dtype *types, td_edge *arg) {
  td_node *n, *pivot;
  int n_arg = l->call->n_in - b->first;
  TD_TRY(add2(l, "Switch", "switch", b->pred[k], b->pred[k], &n));
  TD_TRY(add1(l, "Identity", "pivot", (td_edge){n, b->port[k]}, &pivot));
  if (l->entry) TD_TRY(td_node_add_control(pivot, l->entry));
  for (int i = 0; i < n_arg; i++) {
    TD_TRY(add2(l, "Switch", "switch", l->in[b->first + i], b->pred[k], &n));
    arg[i] = (td_edge){n, b->port[k]};
  }
  TD_TRY(add_call(l, b->f[k], "branch", arg, n_arg, types, l->call->n_out,
                  pivot, &b->call[k]));
  TD_TRY(add1(l, "Identity", "ran", (td_edge){pivot, 0}, &n));
  b->ran[k] = (td_edge){n, 0};
  return td_node_add_control(n, b->call[k]);
}

static td_status *merge(lowering *l, const td_edge *in, int32_t n,
                        td_node **out) {
  td_build b;
  td_build_init(&b, l->x->g, "Merge", NULL);
  td_build_list(&b, in, n);
  return put(l, &b, "merge", l->call->placed, out);
}

static td_status *merge_results(lowering *l, branching *b, td_edge *from) {
  td_node *n;
  for (int i = 0; i < l->call->n_out; i++) {
    for (int32_t k = 0; k < b->n; k++) from[k] = (td_edge){b->call[k], i};
    TD_TRY(merge(l, from, b->n, &n));
    TD_TRY(td_node_set_shape(n, 0, &l->call->out[i].shape));
    for (int32_t k = 0; k < b->n; k++) TD_TRY(claim(l, n, k, i));
    l->out->results[l->out->n_results++] = (td_edge){n, 0};
  }
  TD_TRY(merge(l, b->ran, b->n, &n));
  l->out->controls[l->out->n_controls++] = n;
  return NULL;
}

static td_status *add_branches(lowering *l, branching *b) {
  td_dtype *types = NULL;
  size_t room = (size_t)(l->call->n_in > b->n ? l->call->n_in : b->n);
  td_edge *edges = td_calloc(room + 1, sizeof *edges);
  td_status *s = edges ? types_of(l, &types) : td_oom();
  for (int32_t k = 0; k < b->n && td_ok(s); k++)
    s = add_branch(l, b, k, types, edges);
  if (td_ok(s)) s = merge_results(l, b, edges);
  td_free(types);
  td_free(edges);
  return s;
}

static td_status *lower_if(lowering *l) {
  td_edge pred, ran[2], preds[2];
  td_node *calls[2];
  const td_func_attr *f[2] = {td_node_attr(l->call, "else_branch")->func,
                              td_node_attr(l->call, "then_branch")->func};
  int32_t ports[2] = {0, 1};
  TD_TRY(as_bool(l, l->in[0], &pred));
  preds[0] = preds[1] = pred;
  branching b = {2, f, preds, ports, calls, ran, 1};
  return add_branches(l, &b);
}

/* The last branch is that of all other numbers. */
static td_status *case_pred(lowering *l, branching *b, int32_t k) {
  td_node *less, *more, *n;
  td_edge number;
  TD_TRY(constant(l, k, &number));
  if (k + 1 < b->n) {
    TD_TRY(add2(l, "Equal", "equal", l->in[0], number, &n));
  } else {
    td_edge zero;
    TD_TRY(constant(l, 0, &zero));
    TD_TRY(add2(l, "Less", "less", l->in[0], zero, &less));
    TD_TRY(add2(l, "GreaterEqual", "more", l->in[0], number, &more));
    TD_TRY(add2(l, "LogicalOr", "other", (td_edge){less, 0}, (td_edge){more, 0},
                &n));
  }
  b->pred[k] = (td_edge){n, 0};
  b->port[k] = 1;
  return NULL;
}

static td_status *lower_case(lowering *l) {
  const td_attr *f = td_node_attr(l->call, "branches");
  size_t n = (size_t)f->len;
  td_status *s = NULL;
  branching b = {.n = f->len, .first = 1};
  b.f = td_calloc(n + 1, sizeof *b.f);
  b.pred = td_calloc(n + 1, sizeof *b.pred);
  b.port = td_calloc(n + 1, sizeof *b.port);
  b.call = td_calloc(n + 1, sizeof *b.call);
  b.ran = td_calloc(n + 1, sizeof *b.ran);
  if (!b.f || !b.pred || !b.port || !b.call || !b.ran) s = td_oom();
  for (int32_t k = 0; td_ok(s) && k < b.n; k++) {
    b.f[k] = &f->funcs[k];
    s = case_pred(l, &b, k);
  }
  if (td_ok(s)) s = add_branches(l, &b);
  td_free(b.f);
  td_free(b.pred);
  td_free(b.port);
  td_free(b.call);
  td_free(b.ran);
  return s;
}

/* ---- loops --------------------------------------------------------------- */

/* Of each variable; the last may be one that only turns the loop. */
typedef struct looping {
  int32_t n;       /* arguments of cond and body */
  int32_t n_vars;  /* with the one that only turns it */
  bool *same;      /* by argument: the body hands it on as it came */
  td_edge *outer;  /* what enters */
  td_edge *first;  /* in an iteration: what cond takes */
  td_edge *second; /* what the body takes */
  td_node **merge; /* NULL of a constant */
  td_node **split; /* Switch */
  td_node *cond;   /* LoopCond */
  char *frame;
} looping;

static void drop_loop(looping *p) {
  td_free(p->same);
  td_free(p->outer);
  td_free(p->first);
  td_free(p->second);
  td_free(p->merge);
  td_free(p->split);
  td_free(p->frame);
}

/* Is there something that turns the loop? */
static bool turns(const looping *p) {
  for (int32_t i = 0; i < p->n; i++)
    if (!p->same[i]) return true;
  return false;
}

static td_status *begin_loop(lowering *l, const char *body, looping *p) {
  td_str frame = {0};
  int n = l->call->n_in;
  size_t room = (size_t)n + 2;
  *p = (looping){.n = n,
                 .n_vars = n,
                 .same = td_calloc(room, sizeof *p->same),
                 .outer = td_calloc(room, sizeof *p->outer),
                 .first = td_calloc(room, sizeof *p->first),
                 .second = td_calloc(room, sizeof *p->second),
                 .merge = td_calloc(room, sizeof *p->merge),
                 .split = td_calloc(room, sizeof *p->split)};
  td_str_addf(&frame, "%s/frame", l->call->name);
  p->frame = td_strdup(td_str_c(&frame));
  bool full = frame.failed || !p->same || !p->outer || !p->first ||
              !p->second || !p->merge || !p->split || !p->frame;
  td_str_deinit(&frame);
  if (full) return td_oom();
  for (int i = 0; i < n; i++) p->outer[i] = l->in[i];
  TD_TRY(td_function_passes(l->x->g, body, n, p->same));
  if (turns(p)) return NULL;
  p->n_vars++;
  return constant(l, 0, &p->outer[n]);
}

static td_status *add_enter(lowering *l, const looping *p, int32_t i,
                            td_node **out) {
  td_build b;
  td_build_init(&b, l->x->g, "Enter", NULL);
  td_build_in(&b, p->outer[i]);
  td_build_attr(&b, "frame_name", td_attr_string(p->frame));
  td_build_attr(&b, "is_constant", td_attr_bool(p->same[i]));
  const td_attr *parallel = td_node_attr(l->call, "parallel_iterations");
  if (parallel) td_build_attr(&b, "parallel_iterations", *parallel);
  if (!p->same[i] && i < p->n)
    td_build_attr(&b, "_invariant", td_attr_shape(&l->call->out[i].shape));
  if (l->entry) td_build_control(&b, l->entry);
  return put(l, &b, "enter", p->outer[i].node->placed, out);
}

static td_status *add_merge(lowering *l, td_edge enter, td_node **out) {
  td_edge in[2] = {enter, {NULL, 0}};
  td_build b;
  td_build_init(&b, l->x->g, "Merge", NULL);
  td_build_flat(&b, in, 2);
  td_build_attr(&b, "T", td_attr_type(td_edge_dtype(enter)));
  td_build_attr(&b, "N", td_attr_int(2));
  return put(l, &b, "merge", enter.node->placed, out);
}

static td_status *enter_all(lowering *l, looping *p) {
  for (int32_t i = 0; i < p->n_vars; i++) {
    td_node *n;
    TD_TRY(add_enter(l, p, i, &n));
    p->first[i] = p->second[i] = (td_edge){n, 0};
    if (p->same[i]) continue;
    TD_TRY(add_merge(l, p->first[i], &p->merge[i]));
    p->first[i] = (td_edge){p->merge[i], 0};
  }
  return NULL;
}

static td_node *first_merge(const looping *p) {
  int32_t i = 0;
  while (!p->merge[i]) i++;
  return p->merge[i];
}

/* The condition is computed when an iteration has begun. */
static td_status *add_cond(lowering *l, looping *p, const td_func_attr *f) {
  td_dtype type = TD_BOOL;
  td_node *call, *n;
  td_edge more;
  TD_TRY(td_function_result_type(l->x->g, f, &type));
  TD_TRY(
      add_call(l, f, "cond", p->first, p->n, &type, 1, first_merge(p), &call));
  more = (td_edge){call, 0};
  if (type != TD_BOOL) TD_TRY(as_bool(l, more, &more));
  TD_TRY(add1(l, "LoopCond", "go_on", more, &p->cond));
  if (type == TD_BOOL) TD_TRY(claim_scalar(l, p->cond));
  if (l->call->op->flags & TD_STATEFUL)
    TD_TRY(td_node_add_control(p->cond, call));
  for (int32_t i = 0; i < p->n_vars; i++) {
    if (p->same[i]) continue;
    TD_TRY(add2(l, "Switch", "switch", p->first[i], (td_edge){p->cond, 0}, &n));
    p->split[i] = n;
    p->second[i] = (td_edge){n, 1};
  }
  return NULL;
}

static td_status *add_back_edge(lowering *l, looping *p, int32_t i,
                                td_edge result, td_node *body) {
  td_node *n;
  TD_TRY(add1(l, "NextIteration", "next", result, &n));
  if (l->call->op->flags & TD_STATEFUL) TD_TRY(td_node_add_control(n, body));
  td_node_set_in(p->merge[i], 1, (td_edge){n, 0});
  return i < p->n ? claim(l, n, 0, i) : NULL;
}

static td_status *add_body(lowering *l, looping *p, const td_func_attr *f) {
  td_dtype *types = NULL;
  td_node *n, *pivot, *body = NULL;
  td_edge go = {p->cond, 0};
  TD_TRY(add2(l, "Switch", "switch", go, go, &n));
  TD_TRY(add1(l, "Identity", "pivot", (td_edge){n, 1}, &pivot));
  TD_TRY(types_of(l, &types));
  td_status *s =
      add_call(l, f, "body", p->second, p->n, types, p->n, pivot, &body);
  td_free(types);
  for (int32_t i = 0; i < p->n_vars && td_ok(s); i++)
    if (!p->same[i])
      s = add_back_edge(l, p, i, i < p->n ? (td_edge){body, i} : p->second[i],
                        body);
  return s;
}

static td_status *add_exits(lowering *l, looping *p) {
  for (int32_t i = 0; i < p->n_vars; i++) {
    td_node *n = NULL;
    if (!p->same[i])
      TD_TRY(add1(l, "Exit", "exit", (td_edge){p->split[i], 0}, &n));
    if (i < p->n)
      l->out->results[l->out->n_results++] = n ? (td_edge){n, 0} : p->outer[i];
    if (n && l->out->n_controls == 0)
      l->out->controls[l->out->n_controls++] = n;
  }
  return NULL;
}

static td_status *lower_while(lowering *l) {
  const td_func_attr *cond = td_node_attr(l->call, "cond")->func;
  const td_func_attr *body = td_node_attr(l->call, "body")->func;
  looping p;
  td_status *s = begin_loop(l, body->name, &p);
  if (td_ok(s)) s = enter_all(l, &p);
  if (td_ok(s)) s = add_cond(l, &p, cond);
  if (td_ok(s)) s = add_body(l, &p, body);
  if (td_ok(s)) s = add_exits(l, &p);
  drop_loop(&p);
  return s;
}

/* ---- all of them --------------------------------------------------------- */

static td_status *lower(lowering *l) {
  l->out->begin = td_graph_size(l->x->g);
  l->out->results = td_calloc((size_t)l->call->n_out + 1, sizeof(td_edge));
  l->out->controls = td_calloc(2, sizeof *l->out->controls);
  if (!l->out->results || !l->out->controls) return td_oom();
  switch (l->call->op->kind) {
  case TD_OP_IF:
    return lower_if(l);
  case TD_OP_CASE:
    return lower_case(l);
  default:
    return lower_while(l);
  }
}

td_status *td_lower(td_inliner *x, td_node *call, td_node *entry,
                    td_function_body *out) {
  size_t n = (size_t)call->n_in;
  td_edge *in = td_calloc(n + 1, sizeof *in);
  lowering l = {.x = x, .call = call, .entry = entry, .in = in, .out = out};
  *out = (td_function_body){0};
  for (size_t i = 0; in && i < n; i++) in[i] = x->args.at[i];
  td_status *s = in ? lower(&l) : td_oom();
  td_free(in);
  if (!td_ok(s)) td_function_body_deinit(out);
  return td_node_blame(s, call);
}

/* ---- claims -------------------------------------------------------------- */

static td_status *refuse(const td_claim *c, const td_shape *s) {
  td_shape_text said, is;
  return td_node_blame(
      td_error(TD_INVALID_ARGUMENT,
               "a function gives a tensor of shape %s, but output_shapes "
               "says %s",
               td_shape_str(s, &is), td_shape_str(&c->shape, &said)),
      c->node);
}

/* The value goes through a node that gives it the shape, or checks it. */
static td_status *ensure(td_inliner *x, const td_claim *c) {
  td_edge from = c->node->in[c->in];
  td_build b;
  td_node *n;
  td_build_init(&b, x->g, c->pred ? "ToBool" : "EnsureShape", c->node->name);
  td_build_in(&b, from);
  if (!c->pred) td_build_attr(&b, "shape", td_attr_shape(&c->shape));
  b.origin = c->node->origin;
  TD_TRY(td_build_node(&b, &n));
  n->serial = c->node->serial;
  TD_TRY(td_placer_choose_inlined(x->p->request->placer, n, from.node->placed));
  td_node_set_in(c->node, c->in, (td_edge){n, 0});
  return NULL;
}

td_status *td_lower_check(td_inliner *x) {
  for (size_t i = 0; i < x->claims.len; i++) {
    const td_claim *c = &x->claims.at[i];
    const td_shape *s = td_edge_shape(c->node->in[c->in]);
    if (td_shape_allows(&c->shape, s)) continue;
    if (!c->pred && !td_shape_compatible(&c->shape, s)) return refuse(c, s);
    TD_TRY(ensure(x, c));
  }
  return NULL;
}
