/* fold.c - computes ahead what is the same in every step.
 *
 * A node whose inputs are all constant is run once, here, by the kernel that
 * would run it in each step, on a CPU device; and sizes that shape functions
 * know for certain need not even that. Folding never fails: a kernel's error
 * leaves the node, and the step will report it. It never grows the graph: a
 * result is kept when it is small or smaller than what it came from. Only what
 * is exact to the bit is done; x + 0 is not x where x is -0.
 *
 * Only nodes of the root are folded: a Const has no inputs, and one for a loop
 * or a branch would need a control edge to run there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/eval.h"
#include "engine/graph/graph_check.h"
#include "engine/graph/node_edit.h"
#include "engine/plan/pass_impl.h"

/* Results over SMALL bytes are kept when their inputs were larger. Planning
 * cannot be cancelled, a step can: nodes that read more than LARGE, and all
 * once WORK bytes have been read, are left to the step. */
static const size_t SMALL = (size_t)10 << 20, LARGE = (size_t)64 << 20,
                    WORK = (size_t)512 << 20;

typedef struct fold {
  td_pass *p;
  td_graph *g;
  int32_t n;            /* nodes before any Const was added */
  td_device *cpu;       /* NULL: none here, only sizes are folded */
  td_tensor **value;    /* by node id: its outputs, or NULL; owned */
  td_node ***made;      /* by node id: the Consts for them, or NULL; owned */
  TD_VEC(td_tensor) in; /* of the node at hand, borrowed */
  size_t work;          /* bytes read so far */
} fold;

/* ---- what may be folded -------------------------------------------------- */

static bool is_constant(const td_node *n) {
  return n->op->kind == TD_OP_CONST && n->n_control == 0;
}

static bool foldable(const td_node *n) {
  if (n->op->kind != TD_OP_PLAIN && n->op->kind != TD_OP_IDENTITY) return false;
  if (n->op->flags & (TD_STATEFUL | TD_NO_FOLD | TD_UPDATES | TD_READS))
    return false;
  if (n->frame || n->may_die || n->n_control || n->n_out == 0) return false;
  for (int i = 0; i < n->n_out; i++)
    if (n->out[i].dtype == TD_RESOURCE || n->out[i].dtype == TD_VARIANT)
      return false;
  return true;
}

/* A constant is there from the start: nobody needs to wait for it. */
static void drop_constant_controls(const fold *f, td_node *n) {
  for (int i = n->n_control; i-- > 0;)
    if (f->value[n->control[i]->id]) td_node_drop_control(n, i);
}

/* ---- values -------------------------------------------------------------- */

static void drop_values(td_tensor *at, int n) {
  for (int i = 0; at && i < n; i++) td_tensor_release(&at[i]);
  td_free(at);
}

/* Collects the values of all inputs in f->in, borrowed. */
static bool take_inputs(fold *f, const td_node *n, size_t *bytes) {
  *bytes = 0;
  f->in.len = 0;
  if (n->n_in == 0 || !td_vec_reserve(&f->in, n->n_in)) return false;
  for (int i = 0; i < n->n_in; i++) {
    const td_tensor *from = f->value[n->in[i].node->id];
    if (!from) return false;
    f->in.at[f->in.len++] = from[n->in[i].port];
    if (!td_add(*bytes, td_tensor_bytes(&from[n->in[i].port]), bytes))
      return false;
  }
  return true;
}

static bool fits(size_t made, size_t taken) {
  return made <= SMALL || made <= taken;
}

/* Would the result be too large? Asked before it is made, as far as shapes
 * tell. */
static bool too_large(const td_node *n, size_t taken) {
  size_t sum = 0, bytes;
  for (int i = 0; i < n->n_out; i++) {
    int64_t count = td_shape_count(&n->out[i].shape);
    if (count < 0 && td_shape_known(&n->out[i].shape)) return true;
    if (count < 0) continue;
    if (!td_mul((size_t)count, td_dtype_size(n->out[i].dtype), &bytes) ||
        !td_add(sum, bytes, &sum))
      return true;
  }
  return !fits(sum, taken);
}

static size_t bytes_of(const td_tensor *at, int n) {
  size_t sum = 0;
  for (int i = 0; i < n; i++) sum += td_tensor_bytes(&at[i]);
  return sum;
}

/* The outputs of a node with constant inputs; NULL when it is better left. */
static td_tensor *compute(fold *f, const td_node *n) {
  size_t taken;
  if (!f->cpu || f->work > WORK || !take_inputs(f, n, &taken) ||
      taken > LARGE || too_large(n, taken))
    return NULL;
  f->work += taken;
  td_tensor *out = td_calloc((size_t)n->n_out, sizeof *out);
  if (!out) return NULL;
  td_status *s = td_eval_node(n, f->cpu, 1, f->in.at, out, NULL);
  bool good = td_ok(s) && fits(bytes_of(out, n->n_out), taken);
  td_status_release(s);
  if (good) return out;
  drop_values(out, n->n_out);
  return NULL;
}

/* A vector of sizes that shapes alone give. */
static bool tensor_of_small(const td_small *v, td_dtype dtype, td_tensor *out) {
  td_shape shape = v->rank == 0 ? td_shape_scalar() : td_shape_vector(v->count);
  for (int i = 0; i < v->count; i++)
    if (!v->known[i] || (dtype == TD_INT32 && v->at[i] != (int32_t)v->at[i]))
      return false;
  td_status *s = td_tensor_new(NULL, dtype, &shape, out);
  td_status_release(s);
  if (!td_ok(s)) return false;
  for (int i = 0; i < v->count; i++) td_tensor_set_i(out, i, v->at[i]);
  return true;
}

static td_tensor *sizes(const td_node *n) {
  if (!n->op->def->value) return NULL;
  td_tensor *out = td_calloc((size_t)n->n_out, sizeof *out);
  for (int i = 0; out && i < n->n_out; i++) {
    td_small v;
    td_dtype dtype = n->out[i].dtype;
    bool good = (dtype == TD_INT32 || dtype == TD_INT64) &&
                td_infer_edge_small(&(td_edge){(td_node *)n, i}, &v) &&
                tensor_of_small(&v, dtype, &out[i]);
    if (good) continue;
    drop_values(out, n->n_out);
    return NULL;
  }
  return out;
}

static td_tensor *constant(const td_node *n) {
  const td_attr *a = td_node_attr(n, "value");
  if (!a || a->kind != TD_ATTR_TENSOR || a->is_list) return NULL;
  td_tensor *out = td_calloc(1, sizeof *out);
  if (out) td_tensor_retain(a->tensor, out);
  return out;
}

static td_status *find_values(fold *f) {
  int32_t *order = NULL;
  TD_TRY(td_graph_order(f->g, &order));
  for (int32_t k = 0; k < f->n; k++) {
    td_node *n = td_graph_node(f->g, order[k]);
    drop_constant_controls(f, n);
    if (is_constant(n)) {
      f->value[n->id] = constant(n);
    } else if (foldable(n)) {
      f->value[n->id] = compute(f, n);
      if (!f->value[n->id]) f->value[n->id] = sizes(n);
      if (f->value[n->id]) f->p->plan->folded++;
    }
  }
  td_free(order);
  return NULL;
}

/* ---- putting them in ----------------------------------------------------- */

/* The Const that stands for an output of a folded node; made at first use. */
static td_status *const_for(fold *f, td_edge e, td_node **out) {
  td_node ***made = &f->made[e.node->id];
  if (!*made) *made = td_calloc((size_t)e.node->n_out, sizeof **made);
  if (!*made) return td_oom();
  *out = (*made)[e.port];
  if (*out) return NULL;
  td_str name = {0};
  td_str_addf(&name, "_const_%s_%d", e.node->name, (int)e.port);
  const td_tensor *value = &f->value[e.node->id][e.port];
  td_status *s = name.failed ? td_oom()
                             : td_pass_const(f->g, td_str_c(&name), value,
                                             e.node->placed, out);
  td_str_deinit(&name);
  if (td_ok(s)) (*made)[e.port] = *out;
  return s;
}

static void log_folded(const fold *f, const td_node *n, const td_node *made) {
  td_str text = {0};
  if (!f->p->log) return;
  td_tensor_print(&f->value[n->id][0], 8, &text);
  td_pass_log(f->p, "%s (%s) is constant, now %s: %s", n->name, n->op->type,
              made->name, td_str_c(&text));
  td_str_deinit(&text);
}

/* Inputs of `n`, which is still computed, that are folded become Consts. */
static td_status *rewire(fold *f, td_node *n) {
  for (int i = 0; i < n->n_in; i++) {
    td_edge e = n->in[i];
    td_node *made;
    if (!e.node || e.node->id >= f->n || !f->value[e.node->id] ||
        e.node->op->kind == TD_OP_CONST)
      continue;
    TD_TRY(const_for(f, e, &made));
    log_folded(f, e.node, made);
    td_node_set_in(n, i, (td_edge){made, 0});
  }
  return NULL;
}

static td_device *find_cpu(const td_plan_request *r) {
  for (int i = 0; i < r->n_devices; i++)
    if (r->devices[i] && td_device_touchable(r->devices[i]) &&
        !r->devices[i]->launch)
      return r->devices[i];
  return NULL;
}

static void fold_deinit(fold *f) {
  for (int32_t id = 0; id < f->n; id++) {
    if (f->value && f->value[id])
      drop_values(f->value[id], td_graph_node(f->g, id)->n_out);
    if (f->made) td_free(f->made[id]);
  }
  td_free(f->value);
  td_free(f->made);
  td_vec_free(&f->in);
}

td_status *td_fold(td_pass *p) {
  fold f = {.p = p, .g = p->graph, .n = td_graph_size(p->graph)};
  f.cpu = find_cpu(p->request);
  f.value = td_calloc((size_t)f.n + 1, sizeof *f.value);
  f.made = td_calloc((size_t)f.n + 1, sizeof *f.made);
  td_status *s = f.value && f.made ? find_values(&f) : td_oom();
  for (int32_t id = 0; id < f.n && td_ok(s); id++)
    if (!f.value[id]) s = rewire(&f, td_graph_node(f.g, id));
  fold_deinit(&f);
  return td_ok(s) ? td_pass_sweep(p) : s;
}
