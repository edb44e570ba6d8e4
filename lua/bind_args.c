/* bind_args.c - the arguments of an op's call, read from the Lua stack.
 *
 * Inputs stand in the signature's order, lists are tables, one table of
 * attributes may follow. Literals get the dtype that the rest of the call says.
 * Nothing is held but by the stack, so that any mistake may be raised.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_args.h"

#include <string.h>

#include "engine/base/nearest.h"
#include "lua/bind.h"
#include "lua/bind_attr.h"
#include "lua/bind_handle.h"
#include "lua/bind_literal.h"
#include "lua/bind_shape.h"
#include "lua/bind_tensor.h"

typedef td_lua_item item;
typedef td_lua_call call;

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
  td_lua_list(L, i);
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
    if (td_lua_ends_at((int64_t)k)) break; /* who reads it next says so */
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

/* Replaces the table at `i` by the edge of a Pack of its elements. */
static void pack_table(lua_State *L, int i) {
  lua_getfield(L, LUA_REGISTRYINDEX, TD_LUA_PACK);
  lua_pushvalue(L, i);
  lua_call(L, 1, 1);
  lua_replace(L, i);
}

void td_lua_args_resolve(lua_State *L, int i) {
  resolve_object(L, i);
  if (lua_istable(L, i) && holds_edges(L, i, 0)) pack_table(L, i);
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
  if (c->op->kind != TD_OP_MERGE || !lua_isboolean(L, at)) return false;
  add_item(L, c, at, arg);
  item *it = &c->items[c->n - 1];
  it->literal = false;
  it->open = it->is_edge = true;
  c->groups[arg]++;
  return true;
}

static void read_one(lua_State *L, call *c, int at, int arg) {
  if (read_open(L, c, at, arg)) return;
  td_lua_args_resolve(L, at);
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
  td_lua_list(L, at);
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

static bool is_axis(const char *name) {
  static const char *const words[] = {"axis", "axes",      "dim",
                                      "dims", "dimension", "reduction_indices"};
  for (size_t i = 0; i < TD_COUNT(words); i++)
    if (!strcmp(name, words[i])) return true;
  return false;
}

/* An input given as if it were an attribute: td.concat(list, {axis = 1}). */
static void check_no_input(lua_State *L, const td_op *op, const char *key) {
  for (int i = 0; i < op->n_in; i++) {
    const char *name = op->in[i].name;
    if (!strcmp(key, name) || (is_axis(key) && is_axis(name)))
      signature_error(L, op,
                      "no attribute \"%s\": it is argument %d, given by its "
                      "place",
                      key, i + 1);
  }
}

/* Every op takes a name, besides its attributes. */
static void attr_unknown(lua_State *L, const td_op *op, const char *key) {
  check_no_input(L, op, key);
  td_nearest near = td_nearest_to(key);
  for (int i = 0; i <= op->n_attr; i++)
    td_nearest_try(&near, i < op->n_attr ? op->attr[i].name : "name");
  if (near.best)
    signature_error(L, op, "no attribute \"%s\"; did you mean \"%s\"?", key,
                    near.best);
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
    c->name = td_lua_text(L, at);
    return;
  }
  int room = 0;
  for (lua_pushnil(L); lua_next(L, at); lua_pop(L, 1)) room++;
  c->attrs = td_lua_block(L, (size_t)room, sizeof *c->attrs);
  for (int k = 0; k < op->n_attr; k++) read_attr(L, c, at, &op->attr[k]);
  for (size_t k = 0; k < TD_COUNT(library_notes); k++)
    read_attr(L, c, at, &library_notes[k]);
  bool named = lua_getfield(L, at, "name") == LUA_TSTRING;
  if (named && td_op_attr(op, "name") < 0) c->name = td_lua_text(L, -1);
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

const td_attr *td_lua_args_attr(const call *c, const char *name) {
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
  const td_attr *given = td_lua_args_attr(c, def->name);
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
    s = td_lua_prefix(s, "input \"%s\"", c->op->in[it->arg].name);
    td_lua_check(L, td_status_at(s, c->op->type, NULL, NULL, NULL));
    it->dtype = t.dtype;
    it->literal = false; /* the other literals follow its dtype */
    td_lua_push_tensor(L, &t);
    lua_replace(L, it->at);
  }
}

/* ---- whole calls ---- */

static void read_input(lua_State *L, call *c, int at, int arg) {
  if (c->op->in[arg].number_attr >= 0 || c->op->in[arg].type_list)
    read_list(L, c, at, arg);
  else
    read_one(L, c, at, arg);
}

void td_lua_args_read(lua_State *L, call *c) {
  const td_op *op = c->op;
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
      signature_error(L, op, "surplus argument %d (%s)%s", given,
                      td_lua_what(L, given),
                      lua_type(L, given) == LUA_TNUMBER
                          ? ": numbers that belong together are one list, such "
                            "as {2, 3}"
                          : "");
    lua_settop(L, given);
    read_options(L, c, given);
  }
  c->groups = td_lua_block(L, (size_t)op->n_in, sizeof *c->groups);
  for (int a = 0; a < op->n_in; a++) read_input(L, c, a + 1, a);
  convert_literals(L, c);
}

void td_lua_args_read_lists(lua_State *L, call *c) {
  if (lua_istable(L, 3)) read_options(L, c, 3);
  c->groups = td_lua_block(L, (size_t)c->op->n_in, sizeof *c->groups);
  if ((int)lua_rawlen(L, 2) != c->op->n_in)
    signature_error(L, c->op, "%d inputs given", (int)lua_rawlen(L, 2));
  for (int a = 0; a < c->op->n_in; a++) {
    lua_rawgeti(L, 2, a + 1);
    read_input(L, c, lua_gettop(L), a);
  }
  convert_literals(L, c);
}
