/* inline.c - the bodies of functions in place of their calls.
 *
 * Runs before the passes that look at single nodes, so that a body is folded,
 * merged and scheduled with the rest: what a gradient computes again of a
 * function is merged with the first time. Names do not depend on what else the
 * step needs, so that a random stream inside goes on from run to run.
 *
 * A call y = f(x) of f(a) = a + 1 in a loop or a branch, or one that waits for
 * other nodes, becomes
 *
 *   x -> f/arg (Identity) --------------------> f/add -> y
 *          |                                      ^
 *          +--^--> f/begin (NoOp) --^--> f/one ---+
 *
 * The Const f/one has no inputs: without its control edge it would run in the
 * root, too early, or though x is dead. So the body's nodes without inputs, its
 * loops and what has a state wait for f/begin. Handles of resources go in
 * directly, not through an Identity: order_updates must find who reads a
 * variable. Where others wait for the call itself, they wait for f/end, a NoOp
 * that waits for all results.
 *
 * If, Case and While become branches and loops whose bodies are calls
 * (lower.c); these are met in their turn.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/build.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/node_edit.h"
#include "engine/plan/inline_impl.h"

static bool is_call(const td_node *n) {
  return td_op_is_call(n->op->kind);
}

/* ---- where it begins and ends -------------------------------------------- */

static td_status *add_node(td_inliner *x, const td_node *call, const char *op,
                           const char *end, const td_edge *in, td_node **out) {
  td_str name = {0};
  td_build b;
  const char *unique = NULL;
  td_str_addf(&name, "%s/%s", call->name, end);
  td_status *s =
      name.failed ? td_oom() : td_graph_unique(x->g, td_str_c(&name), &unique);
  td_str_deinit(&name);
  TD_TRY(s);
  td_build_init(&b, x->g, op, unique);
  b.exact_name = true;
  b.origin = call->origin;
  if (in) td_build_in(&b, *in);
  TD_TRY(td_build_node(&b, out));
  (*out)->placed = in ? in->node->placed : call->placed;
  return NULL;
}

/* The edge that this output of a call became, calls within calls included. */
static td_edge resolve(const td_inliner *x, td_edge e) {
  while (e.node && is_call(e.node) && x->at.at[e.node->id].body.results)
    e = x->at.at[e.node->id].body.results[e.port];
  return e;
}

static bool needs_entry(const td_inliner *x, const td_node *call) {
  if (call->n_in + call->n_control == 0) return false;
  return call->id >= x->n || call->frame > 0 || call->may_die ||
         call->n_control > 0;
}

/* x->args becomes what the body takes; *entry, where it begins, or NULL. */
static td_status *begin(td_inliner *x, td_node *call, td_node **entry) {
  bool guarded = needs_entry(x, call);
  *entry = x->at.at[call->id].pivot;
  x->args.len = 0;
  for (int i = 0; i < call->n_in; i++)
    if (!td_vec_push(&x->args, resolve(x, call->in[i]))) return td_oom();
  if (!guarded || *entry) return NULL;
  TD_TRY(add_node(x, call, "NoOp", "begin", NULL, entry));
  for (int i = 0; i < call->n_control; i++)
    TD_TRY(td_node_add_control(*entry, call->control[i]));
  for (int i = 0; i < call->n_in; i++) {
    td_node *pass;
    TD_TRY(add_node(x, call, "Identity", "arg", &x->args.at[i], &pass));
    TD_TRY(td_node_add_control(*entry, pass));
    if (td_edge_dtype(x->args.at[i]) != TD_RESOURCE)
      x->args.at[i] = (td_edge){pass, 0};
  }
  return NULL;
}

/* The input in whose frame `n` runs; NULL when `n` has no inputs. */
static const td_node *settles(const td_node *n) {
  for (int i = 0; i < n->n_in; i++)
    if (n->op->kind != TD_OP_MERGE || n->in[i].node->op->kind != TD_OP_NEXT)
      return n->in[i].node;
  return n->n_control ? n->control[0] : NULL;
}

/* How many loops of the body are around `n`. `loops`, by node of the body,
 * holds how many are around its outputs, which is known of the inputs of `n`.
 */
static int32_t loops_around(const td_node *n, int32_t begin, int32_t *loops) {
  const td_node *from = settles(n);
  int32_t around = from && from->id >= begin ? loops[from->id - begin] : 0;
  loops[n->id - begin] =
      around + (n->op->kind == TD_OP_ENTER) - (n->op->kind == TD_OP_EXIT);
  return around;
}

/* Must `n` wait for the entry? What has a state must: it may only run when all
 * inputs of the call are there. */
static bool waits(const td_node *n) {
  return n->n_in + n->n_control == 0 || (n->op->flags & TD_STATEFUL) ||
         n->op->kind == TD_OP_ENTER;
}

static td_status *wait_for(td_graph *g, td_node *entry, int32_t begin) {
  int32_t end = td_graph_size(g);
  int32_t *loops = td_calloc((size_t)(end - begin) + 1, sizeof *loops);
  td_status *s = loops ? NULL : td_oom();
  for (int32_t id = begin; id < end && td_ok(s); id++) {
    td_node *n = td_graph_node(g, id);
    if (loops_around(n, begin, loops) == 0 && waits(n))
      s = td_node_add_control(n, entry);
  }
  td_free(loops);
  return s;
}

static td_status *place_body(td_inliner *x, const td_node *call, td_node *entry,
                             const td_function_body *body) {
  int32_t end = td_graph_size(x->g);
  if (entry) TD_TRY(wait_for(x->g, entry, body->begin));
  for (int32_t id = body->begin; id < end; id++) {
    td_node *n = td_graph_node(x->g, id);
    if (!n->origin[0]) n->origin = call->origin;
    n->may_die = call->may_die;
    n->frame = call->frame;
    TD_TRY(td_placer_choose_inlined(x->p->request->placer, n, call->placed));
  }
  return NULL;
}

static td_status *end(td_inliner *x, const td_node *call, td_node *entry,
                      td_inlined *to) {
  bool awaited = call->id >= x->n || x->awaited[call->id];
  if (!awaited) return NULL;
  TD_TRY(add_node(x, call, "NoOp", "end", NULL, &to->done));
  if (entry) TD_TRY(td_node_add_control(to->done, entry));
  for (int i = 0; i < to->body.n_results; i++) {
    td_node *n = to->body.results[i].node;
    if (to->pivot && n->id < to->body.begin) continue; /* an argument */
    TD_TRY(td_node_add_control(to->done, n));
  }
  for (int i = 0; i < to->body.n_controls; i++)
    TD_TRY(td_node_add_control(to->done, to->body.controls[i]));
  return NULL;
}

/* A call's body, which waits where it must; else what becomes of an If or
 * While, which calls more. */
static td_status *put_body(td_inliner *x, td_node *call, td_node *entry,
                           td_inlined *to) {
  if (call->op->kind != TD_OP_CALL) return td_lower(x, call, entry, &to->body);
  TD_TRY(td_function_expand(x->g, call, x->args.at, &x->fill, &to->body));
  td_status *s = place_body(x, call, entry, &to->body);
  if (!td_ok(s)) td_function_body_deinit(&to->body);
  return s;
}

static td_status *expand(td_inliner *x, td_node *call) {
  td_node *entry;
  td_inlined to = {.pivot = x->at.at[call->id].pivot};
  TD_TRY(begin(x, call, &entry));
  TD_TRY(put_body(x, call, entry, &to));
  for (int32_t id = to.body.begin; id < td_graph_size(x->g); id++)
    td_graph_node(x->g, id)->serial = call->serial;
  td_status *s = end(x, call, entry, &to);
  if (td_ok(s)) s = td_inline_known(x);
  if (!td_ok(s)) {
    td_function_body_deinit(&to.body);
    return s;
  }
  x->at.at[call->id] = to;
  td_pass_log(x->p, "%s: %d nodes", call->name,
              (int)td_graph_size(x->g) - to.body.begin);
  return NULL;
}

/* ---- what used the calls ------------------------------------------------- */

/* Control inputs of `n` that are calls become the ends of these. */
static td_status *rewire_controls(td_inliner *x, td_node *n) {
  for (int i = n->n_control; i-- > 0;) {
    td_node *before = n->control[i];
    if (!is_call(before)) continue;
    td_node_drop_control(n, i);
    TD_TRY(td_node_add_control(n, x->at.at[before->id].done));
  }
  return NULL;
}

static td_status *rewire(td_inliner *x) {
  for (int32_t id = 0; id < td_graph_size(x->g); id++) {
    td_node *n = td_graph_node(x->g, id);
    if (is_call(n)) continue;
    for (int i = 0; i < n->n_in; i++)
      if (n->in[i].node && is_call(n->in[i].node))
        td_node_set_in(n, i, resolve(x, n->in[i]));
    TD_TRY(rewire_controls(x, n));
  }
  for (int32_t i = 0; i < x->p->n_targets; i++)
    if (is_call(x->p->targets[i]))
      x->p->targets[i] = x->at.at[x->p->targets[i]->id].done;
  return NULL;
}

static td_status *drop_calls(td_inliner *x) {
  int32_t n = td_graph_size(x->g);
  bool *drop = td_calloc((size_t)n + 1, sizeof *drop);
  if (!drop) return td_oom();
  for (int32_t id = 0; id < n; id++)
    drop[id] = is_call(td_graph_node(x->g, id));
  td_graph_remove(x->g, drop);
  td_free(drop);
  return NULL;
}

/* ---- the pass ------------------------------------------------------------ */

static td_status *start(td_inliner *x) {
  size_t n = (size_t)x->n;
  x->awaited = td_calloc(n + 1, sizeof *x->awaited);
  if (!x->awaited) return td_oom();
  TD_TRY(td_inline_known(x));
  for (int32_t id = 0; id < x->n; id++) {
    const td_node *node = td_graph_node(x->g, id);
    for (int i = 0; i < node->n_control; i++)
      x->awaited[node->control[i]->id] = true;
  }
  for (int32_t i = 0; i < x->p->n_targets; i++)
    x->awaited[x->p->targets[i]->id] = true;
  return NULL;
}

/* Calls inside a body are added behind, and met in their turn. */
static td_status *inline_all(td_inliner *x) {
  TD_TRY(start(x));
  for (int32_t id = 0; id < td_graph_size(x->g); id++) {
    td_node *n = td_graph_node(x->g, id);
    if (is_call(n)) TD_TRY(expand(x, n));
  }
  TD_TRY(rewire(x));
  TD_TRY(td_lower_check(x));
  TD_TRY(drop_calls(x));
  return td_pass_sweep(x->p);
}

static bool has_calls(const td_graph *g) {
  for (int32_t id = 0; id < td_graph_size(g); id++)
    if (is_call(td_graph_node(g, id))) return true;
  return false;
}

/* Bodies bring frames of their own. */
static td_status *find_frames(td_pass *p) {
  td_frames all;
  TD_TRY(td_frames_check(p->graph, &all));
  td_status *s = td_pass_keep_frames(p, &all);
  td_frames_free(&all);
  return s;
}

td_status *td_inline(td_pass *p) {
  td_inliner x = {.p = p,
                  .g = p->graph,
                  .n = td_graph_size(p->graph),
                  .fill = TD_FUNCTION_FILL};
  if (!has_calls(p->graph)) return NULL;
  td_status *s = inline_all(&x);
  for (size_t i = 0; i < x.at.len; i++)
    td_function_body_deinit(&x.at.at[i].body);
  td_vec_free(&x.at);
  td_vec_free(&x.args);
  td_vec_free(&x.claims);
  td_free(x.awaited);
  return td_ok(s) ? find_frames(p) : s;
}
