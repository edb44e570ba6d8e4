/* bind_op.c - one function for every op: arguments in, values or edges out.
 *
 * core.op(type) gives a closure over the registry row; bind_args.c reads what
 * it is called with. On values alone a pure op computes at once; otherwise a
 * node is added to the graph of the current scope, with its device, control
 * inputs and place in control flow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/device/eval.h"
#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "lua/bind.h"
#include "lua/bind_args.h"
#include "lua/bind_handle.h"
#include "lua/bind_literal.h"
#include "lua/bind_scope.h"
#include "lua/bind_shape.h"
#include "lua/bind_tensor.h"

#define FOREIGN "tide.foreign" /* in the registry: see core.set_foreign */

typedef td_lua_item item;
typedef td_lua_call call;

/* ---- computing at once ---- */

static bool computes(const call *c) {
  if (c->add || c->n == 0) return false;
  if (c->op->flags & TD_STATEFUL || c->op->kind == TD_OP_CONST ||
      (c->op->kind != TD_OP_PLAIN && c->op->kind != TD_OP_IDENTITY))
    return false;
  for (int i = 0; i < c->n; i++)
    if (c->items[i].is_edge) return false;
  return true;
}

static bool is_list(const td_arg *a) {
  return a->number_attr >= 0 || a->type_list;
}

/* Pushes results argument by argument: lists as tables, of the lengths in
 * `lists`. `push` pushes tensor k. */
static int push_outputs(lua_State *L, const td_op *op,
                        void (*push)(lua_State *L, void *arg, int k), void *arg,
                        const int *lists) {
  int k = 0;
  for (int a = 0; a < op->n_out; a++) {
    if (!is_list(&op->out[a])) {
      push(L, arg, k++);
      continue;
    }
    lua_createtable(L, lists[a], 0);
    for (int i = 1; i <= lists[a]; i++) {
      push(L, arg, k++);
      lua_rawseti(L, -2, i);
    }
  }
  return op->n_out;
}

static int list_attr(const td_arg *a) {
  return a->number_attr >= 0 ? a->number_attr : a->type_attr;
}

/* How many tensors output `a` is: what the call says of its list's attribute,
 * or an input that has the same, or the default. */
static int list_length(const call *c, const td_arg *a) {
  const td_attr_def *def = &c->op->attr[list_attr(a)];
  const td_attr *given = td_lua_args_attr(c, def->name);
  for (int i = 0; !given && i < c->op->n_in; i++)
    if (is_list(&c->op->in[i]) && list_attr(&c->op->in[i]) == list_attr(a))
      return c->groups[i];
  if (!given) given = &def->value;
  return given->is_list ? given->len : (int)td_attr_as_int(given);
}

static void push_value(lua_State *L, void *arg, int k) {
  td_lua_push_tensor(L, &((td_tensor *)arg)[k]);
}

static int eval(lua_State *L, call *c) {
  enum { MOST = 4096 };
  td_lua_state *st = td_lua_get(L);
  td_device *cpu;
  int n = 0, many = 16;
  for (int a = 0; a < c->op->n_out; a++)
    if (is_list(&c->op->out[a])) many = MOST;
  td_lua_check(L, td_runtime_cpu(st->runtime, 0, &cpu));
  td_tensor *in = td_lua_block(L, (size_t)c->n, sizeof *in);
  td_tensor *out = td_lua_tensors(L, (size_t)many);
  for (int i = 0; i < c->n; i++) in[i] = *td_lua_to_value(L, c->items[i].at);
  td_lua_unlock(st);
  td_status *s = td_eval(c->op, cpu, td_pool_size(), in, c->groups, c->attrs,
                         c->n_attrs, out, many, &n, td_lua_interrupt());
  td_lua_lock(st);
  if (!td_ok(s)) {
    td_lua_check_step(L, s);
    return 0;
  }
  int *lists = td_lua_block(L, (size_t)c->op->n_out + 1, sizeof *lists);
  for (int a = 0; a < c->op->n_out; a++)
    lists[a] = is_list(&c->op->out[a]) ? list_length(c, &c->op->out[a]) : 1;
  return push_outputs(L, c->op, push_value, out, lists);
}

/* ---- adding a node ---- */

/* Lets the scope's capture function bring an outer edge inside. */
static td_edge capture(lua_State *L, int scope, int graph, td_edge e) {
  lua_getiuservalue(L, scope, TD_LUA_SCOPE_CAPTURE);
  td_lua_push_edge(L, graph, e.node, e.port);
  lua_call(L, 1, 1);
  e = td_lua_check_edge(L, -1);
  lua_pop(L, 1); /* its graph holds it */
  return e;
}

/* A tensor of another graph, at `at`: a function that is traced takes it for a
 * further argument. */
static bool foreign(lua_State *L, int graph, int at, td_edge *e) {
  int top = lua_gettop(L);
  if (lua_getfield(L, LUA_REGISTRYINDEX, FOREIGN) == LUA_TFUNCTION) {
    lua_pushvalue(L, graph);
    lua_pushvalue(L, at);
    lua_call(L, 2, 1);
    td_lua_edge *in = td_lua_to_edge(L, -1);
    if (in) *e = (td_edge){in->node, in->port}; /* its graph holds it */
  }
  lua_settop(L, top);
  return e->node->graph == td_lua_to_graph(L, graph);
}

/* As in TensorFlow: with a seed of the graph `seed` is that one and `seed2` the
 * op's; with the op's alone, `seed` is TensorFlow's DEFAULT_GRAPH_SEED; with
 * none, both stay 0 and the stream is a random one; two that would be 0 are
 * TensorFlow's 0 and 2^31 - 1. Where the op has no seed of its own, TensorFlow
 * takes a count of the ops made so far; here it is a hash of the node's name,
 * so that one op more shifts no other's stream. */
static void add_seeds(td_build *b, td_graph *g, const char *full_name,
                      const call *c) {
  const td_attr *own = td_lua_args_attr(c, "seed");
  const td_attr *fixed = td_lua_args_attr(c, "deterministic");
  int64_t seed = 87654321, op_seed = own ? own->i : 0;
  bool seeded = td_graph_seed(g, &seed);
  if (!own && (!seeded || (fixed && !fixed->b))) return;
  if (!own) op_seed = (int64_t)(td_hash(full_name, strlen(full_name), 0) >> 33);
  if (!seed && !op_seed) op_seed = INT32_MAX;
  td_build_attr(b, "seed", td_attr_int(seed));
  td_build_attr(b, "seed2", td_attr_int(op_seed));
  if (!fixed && td_op_attr(c->op, "deterministic") >= 0)
    td_build_attr(b, "deterministic", td_attr_bool(true));
}

typedef struct target {
  int scope, graph; /* stack indices */
  td_lua_scope *s;
} target;

static target push_target(lua_State *L) {
  target t;
  t.s = td_lua_scope_push(L);
  t.scope = lua_gettop(L);
  lua_getiuservalue(L, t.scope, TD_LUA_SCOPE_GRAPH);
  t.graph = lua_gettop(L);
  if (!lua_isuserdata(L, t.graph))
    td_lua_error(L, TD_FAILED_PRECONDITION, "there is no graph to build in");
  return t;
}

static void place(lua_State *L, td_build *b, const target *t, bool sources) {
  td_lua_scope *s = t->s;
  b->device = s->device;
  b->flow = s->flow;
  if (sources && s->pivot) td_build_control(b, s->pivot);
  if (s->n_controls) {
    lua_getiuservalue(L, t->scope, TD_LUA_SCOPE_CONTROLS);
    for (int i = 1; i <= s->n_controls; i++) {
      lua_rawgeti(L, -1, i);
      td_build_control(b, ((td_lua_edge *)lua_touserdata(L, -1))->node);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
}

/* Raises for a failed build; calls the scope's device function. */
static td_node *finish(lua_State *L, td_build *b, const target *t,
                       const char *op) {
  td_node *n;
  td_status *st = td_build_node(b, &n);
  td_lua_check(L, td_status_at(st, op, NULL, NULL, NULL));
  if (t->s->has_device_fn) {
    lua_getiuservalue(L, t->scope, TD_LUA_SCOPE_DEVICE_FN);
    td_lua_push_edge(L, t->graph, n, -1);
    lua_call(L, 1, 1);
    if (!lua_isnil(L, -1))
      td_lua_check(L, td_node_set_device(n, td_lua_text(L, -1)));
    lua_pop(L, 1);
  }
  return n;
}

/* Where the node was made: the scope's word for it, else the Lua line. */
static const char *origin(lua_State *L, const td_lua_scope *s, char *buf,
                          size_t size) {
  return s->origin[0] ? s->origin : td_lua_origin(L, buf, size);
}

static const char *scoped_name(lua_State *L, const td_lua_scope *s,
                               const char *name) {
  return s->prefix[0] ? lua_pushfstring(L, "%s%s", s->prefix, name) : name;
}

static td_edge constant(lua_State *L, const target *t, const td_tensor *v) {
  td_build b;
  char where[300];
  const char *name = scoped_name(L, t->s, "Const");
  luaL_checkstack(L, 8, "constant");
  td_build_init(&b, t->s->graph, "Const", name);
  td_build_attr(&b, "dtype", td_attr_type(v->dtype));
  td_build_attr(&b, "value", td_attr_tensor(v));
  b.origin = origin(L, t->s, where, sizeof where);
  place(L, &b, t, true);
  return (td_edge){finish(L, &b, t, "Const"), 0};
}

typedef struct node_ref {
  td_node *node;
  int graph;
} node_ref;

static void push_edge_at(lua_State *L, void *arg, int k) {
  node_ref *r = arg;
  td_lua_push_edge(L, r->graph, r->node, k);
}

/* Outside of all control flow a tensor from inside comes by Exit or Merge
 * only. */
static void check_outside(lua_State *L, const td_op *op, td_edge e) {
  const td_flow *f = td_graph_flow_at(e.node->graph, e.node->flow);
  if (op->kind >= TD_OP_SWITCH && op->kind <= TD_OP_COND) return;
  td_lua_error(L, TD_INVALID_ARGUMENT,
               "\"%s:%d\" (made at %s) belongs to %s \"%s\" and cannot be used "
               "outside: only results of %s leave it, so give it as one more",
               e.node->name, (int)e.port, e.node->origin,
               f->kind == 'w' ? "the loop" : "a branch", f->name,
               f->kind == 'w' ? "while_loop" : "cond");
}

static void add_inputs(lua_State *L, call *c, const target *t) {
  for (int i = 0; i < c->n; i++) {
    item *it = &c->items[i];
    if (it->open) continue;
    if (!it->is_edge)
      it->edge = constant(L, t, td_lua_to_value(L, it->at));
    else if (it->edge.node->graph != t->s->graph &&
             !foreign(L, t->graph, it->at, &it->edge))
      td_lua_error(L, TD_INVALID_ARGUMENT,
                   "\"%s:%d\" belongs to another graph than the current one",
                   it->edge.node->name, (int)it->edge.port);
    if (it->is_edge && t->s->captures && it->edge.node->flow != t->s->flow)
      it->edge = capture(L, t->scope, t->graph, it->edge);
    else if (!t->s->flow && it->edge.node->flow)
      check_outside(L, c->op, it->edge);
  }
}

static void give_inputs(td_build *b, const call *c, td_edge *list) {
  int k = 0;
  if (c->n && c->items[c->n - 1].open) { /* it needs the flat form */
    for (; k < c->n; k++) list[k] = c->items[k].edge;
    td_build_flat(b, list, k);
    td_build_attr(b, "N", td_attr_int(k));
    return;
  }
  for (int a = 0; a < c->op->n_in; a++) {
    int n = c->groups[a];
    for (int i = 0; i < n; i++) list[i] = c->items[k + i].edge;
    if (is_list(&c->op->in[a]))
      td_build_list(b, list, n);
    else if (n)
      td_build_in(b, list[0]);
    k += n;
  }
}

/* It is where its resource is. In the scope of another it would tie the two
 * together: a learning rate that is read beside each variable, all of these. */
static bool takes_resource(const call *c) {
  for (int i = 0; i < c->n; i++)
    if (c->items[i].edge.node && td_edge_dtype(c->items[i].edge) == TD_RESOURCE)
      return true;
  return false;
}

static void give_notes(lua_State *L, td_build *b, const target *t,
                       const call *c) {
  if (t->s->colocate && !takes_resource(c)) {
    if (t->s->colocate->gone)
      td_lua_check(L, td_region_gone_error(t->s->colocate));
    td_bytes *loc = td_lua_block(L, 1, sizeof *loc);
    loc->at = lua_pushfstring(L, "loc:@%s", t->s->colocate->name);
    loc->len = strlen(loc->at);
    td_build_attr(b, "_class", td_attr_strings(loc, 1));
  }
  if (!t->s->has_notes) return;
  lua_getiuservalue(L, t->scope, TD_LUA_SCOPE_NOTES);
  if (lua_getfield(L, -1, b->op->type) != LUA_TTABLE) return;
  int at = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1))
    if (lua_type(L, -1) == LUA_TSTRING)
      td_build_attr(b, lua_tostring(L, -2),
                    td_attr_string(lua_tostring(L, -1)));
}

/* Nothing but loop constants as inputs: only the pivot says whether the body
 * runs at all. */
static bool needs_pivot(const call *c) {
  for (int i = 0; i < c->n; i++) {
    const td_node *in = c->items[i].edge.node;
    if (!in || in->op->kind != TD_OP_ENTER || !td_node_bool(in, "is_constant"))
      return false;
  }
  return true;
}

static void give_attrs(td_build *b, const target *t, const call *c,
                       const char *full, bool own_seeds) {
  for (int i = 0; i < c->n_attrs; i++)
    if (!own_seeds || strcmp(c->attrs[i].name, "seed"))
      td_build_attr(b, c->attrs[i].name, c->attrs[i].value);
  if (own_seeds) add_seeds(b, t->s->graph, full, c);
  if (t->s->container[0] && td_op_attr(c->op, "container") >= 0 &&
      !td_lua_args_attr(c, "container"))
    td_build_attr(b, "container", td_attr_string(t->s->container));
}

/* The node's edges; itself when its op has no results. */
static int push_results(lua_State *L, const target *t, const td_op *op,
                        td_node *n) {
  if (n->n_out == 0 && op->n_out == 0) {
    td_lua_push_edge(L, t->graph, n, -1);
    return 1;
  }
  node_ref ref = {n, t->graph};
  int *counts = td_lua_block(L, (size_t)op->n_out, sizeof *counts);
  for (int a = 0; a < op->n_out; a++) {
    int begin;
    td_node_out_range(n, a, &begin, &counts[a]);
  }
  return push_outputs(L, op, push_edge_at, &ref, counts);
}

static int build(lua_State *L, call *c) {
  char where[300];
  luaL_checkstack(L, 32, "building a node");
  target t = push_target(L);
  td_edge *list = td_lua_block(L, (size_t)c->n, sizeof *list);
  add_inputs(L, c, &t);
  const char *base = c->name ? c->name : c->op->type;
  const char *full = c->exact ? base : scoped_name(L, t.s, base);
  bool seeded = td_op_attr(c->op, "seed2") >= 0;
  if (seeded && !c->exact) /* the seed is drawn from the final name */
    td_lua_check(L, td_graph_unique(t.s->graph, full, &full));
  td_build b;
  td_build_op(&b, t.s->graph, c->op, full);
  give_inputs(&b, c, list);
  /* An op's own seed is TensorFlow's op seed; both attributes given are raw. */
  give_attrs(&b, &t, c, full, seeded && !td_lua_args_attr(c, "seed2"));
  b.exact_name = seeded || c->exact;
  b.origin = origin(L, t.s, where, sizeof where);
  place(L, &b, &t, needs_pivot(c));
  give_notes(L, &b, &t, c);
  return push_results(L, &t, c->op, finish(L, &b, &t, c->op->type));
}

/* ---- the closures ---- */

static int op_call(lua_State *L) {
  call c = {.op = lua_touserdata(L, lua_upvalueindex(1))};
  td_lua_args_read(L, &c);
  return computes(&c) ? eval(L, &c) : build(L, &c);
}

/* Pushes the function of `op`. */
static void push_op(lua_State *L, const td_op *op) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)op);
  lua_pushcclosure(L, op_call, 1);
}

/* core.op(type): its function, or nil when there is no such op. */
static int core_op(lua_State *L) {
  const td_op *op = td_op_find(td_lua_text(L, 1));
  if (!op) {
    lua_pushnil(L);
    return 1;
  }
  push_op(L, op);
  return 1;
}

/* core.add(type, {inputs}, {attributes}, name, exact): always a node. An exact
 * name is whole and was reserved with g:unique. */
static int core_add(lua_State *L) {
  const char *type = td_lua_text(L, 1);
  call c = {.op = td_op_find(type), .add = true};
  if (!c.op)
    return td_lua_error(L, TD_NOT_FOUND, "no op \"%s\"; did you mean \"%s\"?",
                        type, td_op_nearest(type) ? td_op_nearest(type) : "");
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 5);
  luaL_checkstack(L, 64, "core.add");
  td_lua_args_read_lists(L, &c);
  if (!lua_isnil(L, 4)) c.name = td_lua_text(L, 4);
  c.exact = c.name && lua_toboolean(L, 5);
  return build(L, &c);
}

/* An edge of the current graph for whatever is at `i` (edge, value, literal of
 * dtype `want`, table to pack, object with __tensor). Pushes nothing; may
 * raise. The result is held by its graph. */
static td_edge edge_of(lua_State *L, int i, td_dtype want) {
  int top = lua_gettop(L);
  luaL_checkstack(L, 32, "tensor");
  lua_pushvalue(L, i);
  int at = lua_gettop(L);
  td_lua_args_resolve(L, at);
  td_lua_edge *e = td_lua_to_edge(L, at);
  td_edge out;
  if (e) {
    target g = push_target(L);
    out = (td_edge){e->node, e->port};
    if (TD_UNLIKELY(out.node->gone))
      td_lua_check(L, td_region_gone_error(out.node));
    if (out.node->graph != g.s->graph) foreign(L, g.graph, at, &out);
  } else {
    td_tensor t;
    td_lua_check(L, td_lua_as_tensor(L, at, want, &t));
    td_lua_push_tensor(L, &t);
    int v = lua_gettop(L);
    target g = push_target(L);
    out = constant(L, &g, td_lua_to_value(L, v));
  }
  lua_settop(L, top);
  return out;
}

/* core.edge(x [, dtype]): x as an edge of the current graph. */
static int core_edge(lua_State *L) {
  td_dtype want = TD_INVALID;
  if (!lua_isnoneornil(L, 2)) td_lua_check(L, td_lua_to_dtype(L, 2, &want));
  td_edge e = edge_of(L, 1, want);
  td_lua_scope_push(L);
  lua_getiuservalue(L, -1, TD_LUA_SCOPE_GRAPH);
  td_lua_push_edge(L, -1, e.node, e.port);
  return 1;
}

enum { STRICT_NAME = 1, STRICT_F, STRICT_MOST, STRICT_TD };

static int strict_done(lua_State *L, int status, lua_KContext about) {
  (void)status;
  (void)about;
  return lua_gettop(L);
}

static int strict_call(lua_State *L) {
  int given = lua_gettop(L);
  const char *name = lua_tostring(L, lua_upvalueindex(STRICT_NAME));
  if (given && lua_rawequal(L, 1, lua_upvalueindex(STRICT_TD)))
    return td_lua_error(L, TD_INVALID_ARGUMENT,
                        "td.%s is called with a dot, not with a colon", name);
  lua_Integer most = lua_tointeger(L, lua_upvalueindex(STRICT_MOST));
  if (given > most)
    return td_lua_error(L, TD_INVALID_ARGUMENT,
                        "%s takes %d arguments and options at most, given %d",
                        name, (int)most - 1, given);
  lua_pushvalue(L, lua_upvalueindex(STRICT_F));
  lua_insert(L, 1);
  lua_callk(L, given, LUA_MULTRET, 0, strict_done);
  return lua_gettop(L);
}

/* core.strict(name, f, most or nil, td): f, refusing more than `most` arguments
 * and td itself. A function of Lua in its place would be called by tail calls,
 * `return td.f(x)`, which take the user's line off the stack. */
static int strict(lua_State *L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 4);
  if (lua_isnil(L, 3)) {
    lua_pushinteger(L, INT_MAX);
    lua_replace(L, 3);
  }
  lua_pushcclosure(L, strict_call, 4);
  return 1;
}

/* core.set_foreign(f): f(graph, edge) brings an edge of another graph into the
 * one being built, or gives nil. */
static int set_foreign(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, FOREIGN);
  return 0;
}

TD_LUA_OPEN(op) {
  static const luaL_Reg functions[] = {
      {"op", core_op},     {"add", core_add},
      {"edge", core_edge}, {"set_foreign", set_foreign},
      {"strict", strict},  {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  push_op(L, td_op_find("Pack"));
  lua_setfield(L, LUA_REGISTRYINDEX, TD_LUA_PACK);
}
