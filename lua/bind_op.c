/* bind_op.c - one function for every op: arguments in, values or edges out.
 *
 * core.op(type) gives a closure over the registry row. Inputs stand in the
 * signature's order, lists are tables, one table of attributes may follow. On
 * values alone a pure op computes at once; otherwise a node is added to the
 * graph of the current scope, with its device, control inputs and place in
 * control flow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/map.h"
#include "lua/bind.h"

/* One tensor argument, list elements each their own. */
typedef struct item {
  int at;       /* stack index of the Lua value */
  int arg;      /* input argument of the op it belongs to */
  bool is_edge; /* else a value once converted */
  bool open;    /* a Merge's back edge, still to come */
  bool literal; /* still a number or table; dtype to be found */
  td_edge edge;
  td_dtype dtype; /* known unless literal */
} item;

/* A call being made: everything in it lives on the Lua stack. */
typedef struct call {
  const td_op *op;
  item *items;
  int n, cap;
  int *groups; /* items by input argument */
  td_note *attrs;
  int n_attrs;
  const char *name; /* or NULL */
  bool add;         /* core.add: a node even when it could compute */
  bool exact;       /* the name is whole, reserved with g:unique */
} call;

static int signature_error(lua_State *L, const td_op *op, const char *fmt, ...)
    TD_PRINTF(3, 4);

/* The message, then the signature. */
static int signature_error(lua_State *L, const td_op *op, const char *fmt,
                           ...) {
  td_str s;
  va_list args;
  td_str_init(&s);
  va_start(args, fmt);
  td_str_addv(&s, fmt, args);
  va_end(args);
  td_str_add(&s, "; ");
  td_op_print(op, &s);
  td_status *st = td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(&s));
  td_str_deinit(&s);
  st = td_status_at(st, op->type, NULL, NULL, NULL);
  td_lua_check(L, st);
  return 0;
}

/* ---- reading arguments ---- */

/* Variables and the like: calls metafield __tensor; replaces the value. */
static void resolve_object(lua_State *L, int i) {
  if (luaL_getmetafield(L, i, "__tensor") == LUA_TNIL) return;
  lua_pushvalue(L, i);
  lua_call(L, 1, 1);
  lua_replace(L, i);
}

/* Does a table hold graph tensors, at any depth? Then it is packed. */
static bool holds_edges(lua_State *L, int i, int depth) {
  if (depth > TD_MAX_RANK || !lua_checkstack(L, 4)) return false;
  size_t n = lua_rawlen(L, i);
  bool found = false;
  for (size_t k = 1; k <= n && !found; k++) {
    lua_rawgeti(L, i, (lua_Integer)k);
    if (td_lua_to_edge(L, -1))
      found = true;
    else if (luaL_getmetafield(L, -1, "__tensor") != LUA_TNIL) {
      lua_pop(L, 1);
      found = true;
    } else if (lua_istable(L, -1))
      found = holds_edges(L, lua_gettop(L), depth + 1);
    lua_pop(L, 1);
  }
  return found;
}

static int op_call(lua_State *L);

/* Replaces the table at `i` by the edge of a Pack of its elements. */
static void pack_table(lua_State *L, int i) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)td_op_find("Pack"));
  lua_pushcclosure(L, op_call, 1);
  lua_pushvalue(L, i);
  lua_call(L, 1, 1);
  lua_replace(L, i);
}

static void add_item(lua_State *L, call *c, int at, int arg) {
  if (c->n == c->cap) {
    int cap = c->cap ? 2 * c->cap : 8;
    item *more = td_lua_block(L, (size_t)cap, sizeof *more);
    if (c->n) memcpy(more, c->items, (size_t)c->n * sizeof *more);
    c->items = more;
    c->cap = cap;
  }
  item *it = &c->items[c->n++];
  *it = (item){.at = at, .arg = arg};
  const td_tensor *v;
  const td_lua_edge *e = td_lua_to_edge(L, at);
  if (e) {
    it->is_edge = true;
    it->edge = (td_edge){e->node, e->port};
    it->dtype = td_edge_dtype(it->edge);
  } else if ((v = td_lua_to_value(L, at))) {
    it->dtype = v->dtype;
  } else {
    it->literal = true;
  }
}

/* In the list of a Merge a last `false` stands for the back edge. */
static bool read_open(lua_State *L, call *c, int at, int arg) {
  if (c->op->kind != TD_KIND_MERGE || !lua_isboolean(L, at)) return false;
  add_item(L, c, at, arg);
  item *it = &c->items[c->n - 1];
  it->literal = false;
  it->open = it->is_edge = true;
  c->groups[arg]++;
  return true;
}

static void read_one(lua_State *L, call *c, int at, int arg) {
  if (read_open(L, c, at, arg)) return;
  resolve_object(L, at);
  if (lua_istable(L, at) && holds_edges(L, at, 0)) pack_table(L, at);
  int type = lua_type(L, at);
  bool usable = type == LUA_TNUMBER || type == LUA_TBOOLEAN ||
                type == LUA_TSTRING || type == LUA_TTABLE ||
                td_lua_to_edge(L, at) || td_lua_to_value(L, at);
  if (!usable)
    signature_error(L, c->op, "input \"%s\" must be a tensor, not %s",
                    c->op->in[arg].name, td_lua_what(L, at));
  add_item(L, c, at, arg);
  c->groups[arg]++;
}

static void read_list(lua_State *L, call *c, int at, int arg) {
  if (!lua_istable(L, at))
    signature_error(L, c->op, "input \"%s\" is a list of tensors, not %s",
                    c->op->in[arg].name, td_lua_what(L, at));
  size_t n = lua_rawlen(L, at);
  size_t keys = 0;
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) keys++;
  if (keys != n)
    signature_error(L, c->op, "the list \"%s\" has a hole or a named key",
                    c->op->in[arg].name);
  luaL_checkstack(L, (int)n + 16, "too many tensors");
  for (size_t k = 1; k <= n; k++) {
    lua_rawgeti(L, at, (lua_Integer)k);
    read_one(L, c, lua_gettop(L), arg);
  }
}

/* ---- attributes ---- */

static void attr_unknown(lua_State *L, const td_op *op, const char *key) {
  const char *best = NULL;
  int distance = 1 + (int)strlen(key) / 2;
  for (int i = 0; i < op->n_attr; i++) {
    int d = td_str_distance(key, op->attr[i].name);
    if (d <= distance) {
      best = op->attr[i].name;
      distance = d - 1;
    }
  }
  if (best)
    signature_error(L, op, "no attribute \"%s\"; did you mean \"%s\"?", key,
                    best);
  signature_error(L, op, "no attribute \"%s\"", key);
}

/* Annotations that the library gives as if they were attributes. */
static const td_attr_def library_notes[] = {
    {.name = "_invariant", .kind = TD_ATTR_SHAPE},
    {.name = "_gradient_op_type", .kind = TD_ATTR_STRING},
    {.name = "_handle_dtype", .kind = TD_ATTR_TYPE},
    {.name = "_handle_shape", .kind = TD_ATTR_SHAPE},
};

static bool is_note(const char *key) {
  for (size_t i = 0; i < TD_COUNT(library_notes); i++)
    if (!strcmp(key, library_notes[i].name)) return true;
  return false;
}

static void read_attr(lua_State *L, call *c, int at, const td_attr_def *def) {
  luaL_checkstack(L, 4, "attributes");
  if (lua_getfield(L, at, def->name) == LUA_TNIL) {
    lua_pop(L, 1);
    return;
  }
  td_note *note = &c->attrs[c->n_attrs++];
  note->name = def->name;
  td_status *s = td_lua_to_attr(L, lua_gettop(L), c->op, def, &note->value);
  td_lua_check(L, td_status_at(s, c->op->type, NULL, NULL, NULL));
}

static void read_options(lua_State *L, call *c, int at) {
  const td_op *op = c->op;
  if (lua_type(L, at) == LUA_TSTRING) {
    c->name = lua_tostring(L, at);
    return;
  }
  int room = 0;
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) room++;
  c->attrs = td_lua_block(L, (size_t)room, sizeof *c->attrs);
  for (int k = 0; k < op->n_attr; k++) read_attr(L, c, at, &op->attr[k]);
  for (size_t k = 0; k < TD_COUNT(library_notes); k++)
    read_attr(L, c, at, &library_notes[k]);
  bool named = lua_getfield(L, at, "name") == LUA_TSTRING;
  if (named && td_op_attr(op, "name") < 0) c->name = lua_tostring(L, -1);
  if (c->n_attrs + (c->name != NULL) == room) return;
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      signature_error(L, op, "surplus argument in the table of attributes");
    const char *key = lua_tostring(L, -2);
    if (strcmp(key, "name") && !is_note(key) && td_op_attr(op, key) < 0)
      attr_unknown(L, op, key);
  }
}

/* Is it what td:relu(x) gives, instead of td.relu(x)? */
static bool is_object(lua_State *L, int at) {
  int top = lua_gettop(L);
  bool yes = lua_istable(L, at) &&
             luaL_getmetafield(L, at, "__name") == LUA_TSTRING &&
             luaL_getmetafield(L, at, "__tensor") == LUA_TNIL;
  lua_settop(L, top);
  return yes;
}

static bool is_options(lua_State *L, int at) {
  return lua_type(L, at) == LUA_TSTRING ||
         (lua_istable(L, at) && !luaL_getmetafield(L, at, "__tensor"));
}

/* ---- dtypes of literals ---- */

static const td_attr *given_attr(const call *c, const char *name) {
  for (int i = 0; i < c->n_attrs; i++)
    if (!strcmp(c->attrs[i].name, name)) return &c->attrs[i].value;
  return NULL;
}

/* What the rest of the call says about the dtype of argument `arg`. */
static td_dtype dtype_of_arg(lua_State *L, const call *c, int arg) {
  const td_arg *a = &c->op->in[arg];
  if (a->type != TD_INVALID) return a->type;
  if (a->type_list) return TD_INVALID;
  const td_attr_def *def = &c->op->attr[a->type_attr];
  const td_attr *given = given_attr(c, def->name);
  if (given) return given->type;
  for (int i = 0; i < c->n; i++)
    if (!c->items[i].literal &&
        c->op->in[c->items[i].arg].type_attr == a->type_attr)
      return c->items[i].dtype;
  /* Literals alone: float32 if any of them is a float. */
  td_dtype all = TD_INVALID;
  for (int i = 0; i < c->n; i++) {
    if (!c->items[i].literal ||
        c->op->in[c->items[i].arg].type_attr != a->type_attr)
      continue;
    td_dtype t = td_lua_literal_dtype(L, c->items[i].at);
    if (all == TD_INVALID || (all == TD_INT32 && t == TD_FLOAT32)) all = t;
  }
  if (all == TD_INT32 && def->has_default && def->value.type == TD_INT64)
    return TD_INT64;
  /* {} is float32 by itself; where only integers go it is one of them. */
  if (all == TD_FLOAT32 && def->types && !(def->types >> TD_FLOAT32 & 1))
    return def->has_default             ? def->value.type
           : def->types >> TD_INT32 & 1 ? TD_INT32
                                        : all;
  return all;
}

/* Literals become values, in place on the stack. */
static void convert_literals(lua_State *L, call *c) {
  for (int i = 0; i < c->n; i++) {
    item *it = &c->items[i];
    if (!it->literal) continue;
    td_tensor t;
    td_dtype want = dtype_of_arg(L, c, it->arg);
    td_status *s = td_lua_literal(L, it->at, want, &t);
    if (!td_ok(s)) {
      td_status *full = td_error(td_status_code(s), "input \"%s\": %s",
                                 c->op->in[it->arg].name, td_status_message(s));
      td_status_release(s);
      td_lua_check(L, td_status_at(full, c->op->type, NULL, NULL, NULL));
    }
    it->dtype = t.dtype;
    it->literal = false; /* the other literals follow its dtype */
    td_lua_push_tensor(L, &t);
    lua_replace(L, it->at);
  }
}

/* ---- computing at once ---- */

static bool computes(const call *c) {
  if (c->add || c->n == 0) return false;
  if (c->op->flags & TD_STATEFUL || c->op->kind == TD_KIND_CONST ||
      (c->op->kind != TD_KIND_PLAIN && c->op->kind != TD_KIND_IDENTITY))
    return false;
  for (int i = 0; i < c->n; i++)
    if (c->items[i].is_edge) return false;
  return true;
}

/* Pushes results argument by argument: lists as tables. `push` pushes tensor
 * k. */
static int push_outputs(lua_State *L, const td_op *op, int total,
                        void (*push)(lua_State *L, void *arg, int k), void *arg,
                        const int *lists) {
  int k = 0;
  for (int a = 0; a < op->n_out; a++) {
    bool list = op->out[a].number_attr >= 0 || op->out[a].type_list;
    if (!list) {
      push(L, arg, k++);
      continue;
    }
    int n = lists ? lists[a] : total - k - (op->n_out - a - 1);
    lua_createtable(L, n, 0);
    for (int i = 1; i <= n; i++) {
      push(L, arg, k++);
      lua_rawseti(L, -2, i);
    }
  }
  return op->n_out;
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
    if (c->op->out[a].number_attr >= 0 || c->op->out[a].type_list) many = MOST;
  td_lua_check(L, td_runtime_cpu(st->runtime, 0, &cpu));
  td_tensor *in = td_lua_block(L, (size_t)c->n, sizeof *in);
  td_tensor *out = td_lua_tensors(L, (size_t)many);
  for (int i = 0; i < c->n; i++) in[i] = *td_lua_to_value(L, c->items[i].at);
  td_lua_unlock(st);
  td_status *s = td_eval(c->op, cpu, td_pool_size(), in, c->groups, c->attrs,
                         c->n_attrs, out, many, &n, &st->interrupt);
  td_lua_lock(st);
  if (!td_ok(s)) {
    td_lua_check_step(L, s);
    return 0;
  }
  return push_outputs(L, c->op, n, push_value, out, NULL);
}

/* ---- adding a node ---- */

/* Lets the scope's capture function bring an outer edge inside. */
static td_edge capture(lua_State *L, int scope, int graph, td_edge e) {
  lua_getiuservalue(L, scope, 3);
  td_lua_push_edge(L, graph, e.node, e.port);
  lua_call(L, 1, 1);
  td_lua_edge *in = luaL_checkudata(L, -1, TD_LUA_EDGE);
  e = (td_edge){in->node, in->port};
  lua_pop(L, 1); /* its graph holds it */
  return e;
}

/* A tensor of another graph, at `at`: a function that is traced takes it for a
 * further argument. */
static bool foreign(lua_State *L, int graph, int at, td_edge *e) {
  int top = lua_gettop(L);
  if (lua_getfield(L, LUA_REGISTRYINDEX, TD_LUA_FOREIGN) == LUA_TFUNCTION) {
    lua_pushvalue(L, graph);
    lua_pushvalue(L, at);
    lua_call(L, 2, 1);
    td_lua_edge *in = td_lua_to_edge(L, -1);
    if (in) *e = (td_edge){in->node, in->port}; /* its graph holds it */
  }
  lua_settop(L, top);
  return e->node->graph == td_lua_to_graph(L, graph);
}

/* TensorFlow's seeds: see DESIGN, "Kernels". */
static void add_seeds(td_build *b, td_graph *g, const char *full_name,
                      const call *c) {
  const td_attr *own = given_attr(c, "seed");
  int64_t seed;
  if (td_graph_seed(g, &seed)) {
    int64_t op_seed =
        own ? own->i
            : (int64_t)(td_hash(full_name, strlen(full_name), 0) >> 33);
    td_build_attr(b, "seed", td_attr_int(seed));
    td_build_attr(b, "seed2", td_attr_int(op_seed));
  } else if (own) {
    td_build_attr(b, "seed", td_attr_int(87654321));
    td_build_attr(b, "seed2", td_attr_int(own->i));
  }
}

typedef struct target {
  int scope, graph; /* stack indices */
  td_lua_scope *s;
} target;

static target push_target(lua_State *L) {
  target t;
  t.s = td_lua_scope_push(L);
  t.scope = lua_gettop(L);
  lua_getiuservalue(L, t.scope, 1);
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
    lua_getiuservalue(L, t->scope, 2);
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
    lua_getiuservalue(L, t->scope, 4);
    td_lua_push_edge(L, t->graph, n, -1);
    lua_call(L, 1, 1);
    if (!lua_isnil(L, -1))
      td_lua_check(L, td_node_set_device(n, luaL_checkstring(L, -1)));
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
  if (op->kind >= TD_KIND_SWITCH && op->kind <= TD_KIND_COND) return;
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
    bool is_list = c->op->in[a].number_attr >= 0 || c->op->in[a].type_list;
    int n = c->groups[a];
    for (int i = 0; i < n; i++) list[i] = c->items[k + i].edge;
    if (is_list)
      td_build_list(b, list, n);
    else if (n)
      td_build_in(b, list[0]);
    k += n;
  }
}

static void give_notes(lua_State *L, td_build *b, const target *t) {
  if (t->s->colocate) {
    td_bytes *loc = td_lua_block(L, 1, sizeof *loc);
    loc->at = lua_pushfstring(L, "loc:@%s", t->s->colocate->name);
    loc->len = strlen(loc->at);
    td_build_attr(b, "_class", td_attr_strings(loc, 1));
  }
  if (!t->s->has_notes) return;
  lua_getiuservalue(L, t->scope, 6);
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
    if (!in || in->op->kind != TD_KIND_ENTER ||
        !td_node_bool(in, "is_constant"))
      return false;
  }
  return true;
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
  bool own_seeds = seeded && !given_attr(c, "seed2");
  for (int i = 0; i < c->n_attrs; i++)
    if (!own_seeds || strcmp(c->attrs[i].name, "seed"))
      td_build_attr(&b, c->attrs[i].name, c->attrs[i].value);
  b.exact_name = seeded || c->exact;
  if (own_seeds) add_seeds(&b, t.s->graph, full, c);
  if (t.s->container[0] && td_op_attr(c->op, "container") >= 0 &&
      !given_attr(c, "container"))
    td_build_attr(&b, "container", td_attr_string(t.s->container));
  b.origin = origin(L, t.s, where, sizeof where);
  place(L, &b, &t, needs_pivot(c));
  give_notes(L, &b, &t);
  td_node *n = finish(L, &b, &t, c->op->type);
  if (n->n_out == 0 && c->op->n_out == 0) {
    td_lua_push_edge(L, t.graph, n, -1);
    return 1;
  }
  node_ref ref = {n, t.graph};
  int *counts = td_lua_block(L, (size_t)c->op->n_out, sizeof *counts);
  for (int a = 0; a < c->op->n_out; a++) {
    int begin;
    td_node_out_range(n, a, &begin, &counts[a]);
  }
  return push_outputs(L, c->op, n->n_out, push_edge_at, &ref, counts);
}

/* ---- the closures ---- */

static int op_call(lua_State *L) {
  call c = {.op = lua_touserdata(L, lua_upvalueindex(1))};
  const td_op *op = c.op;
  int given = lua_gettop(L);
  luaL_checkstack(L, 64, "op call");
  if (given > op->n_in + 1)
    signature_error(L, op,
                    "%d arguments, but %s takes %d and one table of "
                    "attributes",
                    given, op->type, op->n_in);
  if (given < op->n_in)
    signature_error(L, op, "input \"%s\" is missing", op->in[given].name);
  if (op->n_in && is_object(L, 1))
    signature_error(L, op, "input \"%s\" must be a tensor, not %s",
                    op->in[0].name, td_lua_what(L, 1));
  if (given > op->n_in && !lua_isnil(L, given)) {
    if (!is_options(L, given))
      signature_error(L, op, "surplus argument %d (%s)", given,
                      td_lua_what(L, given));
    lua_settop(L, given);
    read_options(L, &c, given);
  }
  c.groups = td_lua_block(L, (size_t)op->n_in, sizeof *c.groups);
  for (int a = 0; a < op->n_in; a++) {
    if (op->in[a].number_attr >= 0 || op->in[a].type_list)
      read_list(L, &c, a + 1, a);
    else
      read_one(L, &c, a + 1, a);
  }
  convert_literals(L, &c);
  return computes(&c) ? eval(L, &c) : build(L, &c);
}

/* core.op(type): its function, or nil when there is no such op. */
static int core_op(lua_State *L) {
  const td_op *op = td_op_find(luaL_checkstring(L, 1));
  if (!op) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushlightuserdata(L, (void *)(uintptr_t)op);
  lua_pushcclosure(L, op_call, 1);
  return 1;
}

/* core.add(type, {inputs}, {attributes}, name, exact): always a node. An exact
 * name is whole and was reserved with g:unique. */
static int core_add(lua_State *L) {
  const char *type = luaL_checkstring(L, 1);
  call c = {.op = td_op_find(type), .add = true};
  if (!c.op)
    return td_lua_error(L, TD_NOT_FOUND, "no op \"%s\"; did you mean \"%s\"?",
                        type, td_op_nearest(type) ? td_op_nearest(type) : "");
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 5);
  luaL_checkstack(L, 64, "core.add");
  if (lua_istable(L, 3)) read_options(L, &c, 3);
  if (!lua_isnil(L, 4)) c.name = luaL_checkstring(L, 4);
  c.exact = c.name && lua_toboolean(L, 5);
  c.groups = td_lua_block(L, (size_t)c.op->n_in, sizeof *c.groups);
  if ((int)lua_rawlen(L, 2) != c.op->n_in)
    signature_error(L, c.op, "%d inputs given", (int)lua_rawlen(L, 2));
  for (int a = 0; a < c.op->n_in; a++) {
    lua_rawgeti(L, 2, a + 1);
    if (c.op->in[a].number_attr >= 0 || c.op->in[a].type_list)
      read_list(L, &c, lua_gettop(L), a);
    else
      read_one(L, &c, lua_gettop(L), a);
  }
  convert_literals(L, &c);
  return build(L, &c);
}

td_edge td_lua_edge_of(lua_State *L, int i, td_dtype want) {
  int top = lua_gettop(L);
  luaL_checkstack(L, 32, "tensor");
  lua_pushvalue(L, i);
  int at = lua_gettop(L);
  resolve_object(L, at);
  if (lua_istable(L, at) && holds_edges(L, at, 0)) pack_table(L, at);
  td_lua_edge *e = td_lua_to_edge(L, at);
  td_edge out;
  if (e) {
    target g = push_target(L);
    out = (td_edge){e->node, e->port};
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
  td_edge e = td_lua_edge_of(L, 1, want);
  td_lua_scope_push(L);
  lua_getiuservalue(L, -1, 1);
  td_lua_push_edge(L, -1, e.node, e.port);
  return 1;
}

void td_lua_open_op(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"op", core_op}, {"add", core_add}, {"edge", core_edge}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
