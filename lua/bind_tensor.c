/* bind_tensor.c - values: counted, read, printed, sliced into rows.
 *
 * Lua's collector does not see tensor memory, so the binding counts the bytes
 * that values hold and runs a full collection when those made since the last
 * one outgrow what was alive after it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "engine/base/mem.h"
#include "lua/bind.h"

enum { DEBT_FREE = 64 << 20 }; /* bytes made without looking */

/* ---- making ---- */

static void pay_debt(lua_State *L, td_lua_state *st, size_t bytes) {
  size_t allowed = st->held_after > DEBT_FREE ? st->held_after : DEBT_FREE;
  st->debt += bytes;
  if (st->debt <= allowed) return;
  lua_gc(L, LUA_GCCOLLECT);
  st->debt = 0;
  st->held_after = st->held;
}

bool td_lua_try_tensor(lua_State *L, td_tensor *t) {
  td_lua_state *st = td_lua_get(L);
  if (!td_lua_try_object(L, TD_LUA_TENSOR, sizeof(td_lua_tensor), 0)) {
    td_tensor_release(t);
    return false;
  }
  td_lua_tensor *u = lua_touserdata(L, -1);
  u->t = *t;
  u->counted = td_tensor_bytes(t);
  *t = (td_tensor){0};
  st->held += u->counted;
  pay_debt(L, st, u->counted);
  return true;
}

void td_lua_push_tensor(lua_State *L, td_tensor *t) {
  if (!td_lua_try_tensor(L, t)) lua_error(L);
}

/* ---- results on their way: let go by the collector when an error comes ----
 */

#define TENSORS "tide.tensors"

static int tensors_gc(lua_State *L) {
  td_tensor *t = lua_touserdata(L, 1);
  size_t n = lua_rawlen(L, 1) / sizeof *t;
  for (size_t i = 0; i < n; i++) td_tensor_release(&t[i]);
  return 0;
}

td_tensor *td_lua_tensors(lua_State *L, size_t n) {
  td_tensor *t = td_lua_block(L, n, sizeof *t);
  luaL_setmetatable(L, TENSORS);
  return t;
}

td_tensor *td_lua_to_value(lua_State *L, int i) {
  td_lua_tensor *u = luaL_testudata(L, i, TD_LUA_TENSOR);
  return u ? &u->t : NULL;
}

static int tensor_gc(lua_State *L) {
  td_lua_tensor *u = lua_touserdata(L, 1);
  td_lua_get(L)->held -= u->counted;
  u->counted = 0;
  td_tensor_release(&u->t);
  return 0;
}

/* ---- shapes and dtypes ---- */

/* A shape is an empty table in front of the list of its sizes, so that writing
 * to it meets __newindex. */
static const char shape_meta_key = 0, shape_list_key = 0;

void td_lua_list(lua_State *L, int i) {
  if (!lua_istable(L, i) || lua_rawlen(L, i)) return;
  i = lua_absindex(L, i);
  if (lua_rawgetp(L, i, &shape_list_key) == LUA_TTABLE)
    lua_replace(L, i);
  else
    lua_pop(L, 1);
}

/* core.shape_list(shape): its plain list; another table as it is. */
static int core_shape_list(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  td_lua_list(L, 1);
  return 1;
}

/* core.shape_of(list): the list as a shape, which takes it. */
static int core_shape_of(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 1);
  lua_rawsetp(L, -2, &shape_list_key);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &shape_meta_key);
  lua_setmetatable(L, -2);
  return 1;
}

/* core.set_shape_meta(metatable): what shape lists carry. */
static int set_shape_meta(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &shape_meta_key);
  return 0;
}

void td_lua_push_shape(lua_State *L, const td_shape *s) {
  if (s->rank < 0) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, 0, 1);
  lua_createtable(L, s->rank, 0);
  for (int i = 0; i < s->rank; i++) {
    lua_pushinteger(L, s->dim[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_rawsetp(L, -2, &shape_list_key);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &shape_meta_key) == LUA_TTABLE)
    lua_setmetatable(L, -2);
  else
    lua_pop(L, 1);
}

static td_status *read_sizes(lua_State *L, int i, td_shape *out) {
  int64_t n = (int64_t)lua_rawlen(L, i);
  if (n > TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT, "rank %lld is over %d", (long long)n,
                    TD_MAX_RANK);
  *out = td_shape_of((int)n, (int64_t[TD_MAX_RANK]){0});
  for (int64_t k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    int is_int;
    int64_t v = lua_tointegerx(L, -1, &is_int);
    char text[32];
    if (lua_type(L, -1) == LUA_TNUMBER)
      snprintf(text, sizeof text, "%.14g", (double)lua_tonumber(L, -1));
    else
      snprintf(text, sizeof text, "%s", td_lua_what(L, -1));
    lua_pop(L, 1);
    if (!is_int || v < -1)
      return td_error(TD_INVALID_ARGUMENT,
                      "size %lld of a shape must be a whole number, or -1 for "
                      "one that is not known; given %s",
                      (long long)k + 1, text);
    out->dim[k] = v;
  }
  return NULL;
}

td_status *td_lua_to_shape(lua_State *L, int i, td_shape *out) {
  i = lua_absindex(L, i);
  if (lua_isnoneornil(L, i)) {
    *out = td_shape_unknown();
    return NULL;
  }
  if (!lua_istable(L, i))
    return td_error(TD_INVALID_ARGUMENT,
                    "a shape is a list of sizes such as {2, -1}, not %s",
                    luaL_typename(L, i));
  lua_pushvalue(L, i);
  td_lua_list(L, -1);
  td_status *s = read_sizes(L, lua_gettop(L), out);
  lua_pop(L, 1);
  return s;
}

/* The error for what is no dtype, with the name most like it. */
static td_status *no_dtype(const char *name) {
  const char *best = "float32";
  int least = 4;
  for (int t = 1; t < TD_DTYPES; t++) {
    int d = td_str_distance(name, td_dtype_name((td_dtype)t));
    if (d < least) {
      best = td_dtype_name((td_dtype)t);
      least = d;
    }
  }
  return td_error(TD_INVALID_ARGUMENT,
                  "a dtype is a string such as \"%s\", not %s", best, name);
}

td_status *td_lua_to_dtype(lua_State *L, int i, td_dtype *out) {
  size_t len = 0;
  const char *name =
      lua_type(L, i) == LUA_TSTRING ? lua_tolstring(L, i, &len) : NULL;
  *out = name ? td_dtype_parse(name, len) : TD_INVALID;
  if (*out != TD_INVALID) return NULL;
  return no_dtype(name ? name : luaL_typename(L, i));
}

/* ---- reading ---- */

static void push_element(lua_State *L, const td_tensor *t, int64_t i) {
  size_t len;
  const char *s;
  switch (t->dtype) {
  case TD_STRING:
    s = td_tensor_str(t, i, &len);
    lua_pushlstring(L, s, len);
    break;
  case TD_BOOL:
    lua_pushboolean(L, ((const bool *)t->data)[i]);
    break;
  case TD_COMPLEX64:
  case TD_COMPLEX128:
    lua_createtable(L, 2, 0);
    for (int k = 0; k < 2; k++) {
      lua_pushnumber(L, t->dtype == TD_COMPLEX64
                            ? ((const float *)t->data)[2 * i + k]
                            : ((const double *)t->data)[2 * i + k]);
      lua_rawseti(L, -2, k + 1);
    }
    break;
  default:
    if (td_dtype_is_float(t->dtype))
      lua_pushnumber(L, td_tensor_get_f(t, i));
    else
      lua_pushinteger(L, td_tensor_get_i(t, i));
  }
}

static bool has_elements(const td_tensor *t) {
  return t->dtype != TD_RESOURCE && t->dtype != TD_VARIANT;
}

/* Pushes the element of a scalar value that is on top, in its place. */
static int read_scalar(lua_State *L) {
  push_element(L, td_lua_to_value(L, 1), 0);
  return 1;
}

bool td_lua_try_result(lua_State *L, td_tensor *t, bool as_value) {
  if (as_value || t->shape.rank != 0 || !has_elements(t))
    return td_lua_try_tensor(L, t);
  if (t->dtype == TD_STRING || td_dtype_is_complex(t->dtype)) {
    if (!td_lua_try_tensor(L, t)) return false;
    lua_pushcfunction(L, read_scalar);
    lua_insert(L, -2);
    return lua_pcall(L, 1, 1, 0) == LUA_OK;
  }
  push_element(L, t, 0); /* a number or boolean: cannot raise */
  td_tensor_release(t);
  return true;
}

void td_lua_push_result(lua_State *L, td_tensor *t, bool as_value) {
  if (!td_lua_try_result(L, t, as_value)) lua_error(L);
}

static td_tensor *check_value(lua_State *L, int i) {
  td_lua_tensor *u = luaL_checkudata(L, i, TD_LUA_TENSOR);
  if (!has_elements(&u->t))
    td_lua_error(L, TD_INVALID_ARGUMENT, "a %s has no elements to read",
                 td_dtype_name(u->t.dtype));
  return &u->t;
}

static int tensor_item(lua_State *L) {
  const td_tensor *t = check_value(L, 1);
  if (td_tensor_count(t) != 1) {
    td_shape_text text;
    return td_lua_error(L, TD_INVALID_ARGUMENT,
                        "item() reads a tensor of one element; this one has "
                        "shape %s",
                        td_shape_str(&t->shape, &text));
  }
  push_element(L, t, 0);
  return 1;
}

static void push_table(lua_State *L, const td_tensor *t, int depth,
                       int64_t *at) {
  luaL_checkstack(L, 4, "tensor:table");
  if (depth == t->shape.rank) {
    push_element(L, t, (*at)++);
    return;
  }
  int64_t n = t->shape.dim[depth];
  lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
  for (int64_t k = 1; k <= n; k++) {
    push_table(L, t, depth + 1, at);
    lua_rawseti(L, -2, k);
  }
}

static int tensor_table(lua_State *L) {
  int64_t at = 0;
  push_table(L, check_value(L, 1), 0, &at);
  return 1;
}

static int tensor_bytes(lua_State *L) {
  const td_tensor *t = check_value(L, 1);
  if (t->dtype == TD_STRING)
    return td_lua_error(L, TD_INVALID_ARGUMENT,
                        "bytes() is for numbers; use item() or table()");
  lua_pushlstring(L, t->data, td_tensor_bytes(t));
  return 1;
}

/* Iterator step of rows(): value, index -> index + 1, row. */
static int next_row(lua_State *L) {
  const td_tensor *t = check_value(L, 1);
  int64_t i = luaL_checkinteger(L, 2) + 1;
  if (i >= t->shape.dim[0]) return 0;
  td_tensor row, flat;
  td_lua_check(L, td_tensor_rows(t, i, 1, &row));
  td_shape shape = td_shape_of(t->shape.rank - 1, t->shape.dim + 1);
  td_status *s = td_tensor_reshape(&row, &shape, &flat);
  td_tensor_release(&row);
  td_lua_check(L, s);
  lua_pushinteger(L, i);
  td_lua_push_result(L, &flat, false);
  return 2;
}

static int tensor_rows(lua_State *L) {
  const td_tensor *t = check_value(L, 1);
  if (t->shape.rank == 0)
    return td_lua_error(L, TD_INVALID_ARGUMENT, "a scalar has no rows");
  lua_pushcfunction(L, next_row);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, -1);
  return 3;
}

static int tensor_tostring(lua_State *L) {
  td_lua_tensor *u = luaL_checkudata(L, 1, TD_LUA_TENSOR);
  td_str s;
  td_str_init(&s);
  td_tensor_print(&u->t, 1000, &s);
  td_lua_push_str(L, &s);
  return 1;
}

static int tensor_index(lua_State *L) {
  td_lua_tensor *u = lua_touserdata(L, 1);
  static const char *const fields[] = {"shape", "dtype", "size", "rank", "item",
                                       "table", "bytes", "rows", NULL};
  const char *key = lua_type(L, 2) == LUA_TSTRING ? td_lua_text(L, 2) : "1:";
  if (!td_lua_identifier(key)) {
    lua_pushliteral(L, "[]");
    if (td_lua_method(L, TD_LUA_TENSOR, -1)) {
      lua_pushvalue(L, 1);
      lua_pushvalue(L, 2);
      lua_call(L, 2, 1);
      return 1;
    }
    return td_lua_error(L, TD_INVALID_ARGUMENT, "a value cannot be indexed");
  }
  if (!strcmp(key, "shape"))
    td_lua_push_shape(L, &u->t.shape);
  else if (!strcmp(key, "dtype"))
    lua_pushstring(L, td_dtype_name(u->t.dtype));
  else if (!strcmp(key, "size"))
    lua_pushinteger(L, td_tensor_count(&u->t));
  else if (!strcmp(key, "rank"))
    lua_pushinteger(L, u->t.shape.rank);
  else if (lua_pushvalue(L, 2), lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
    return 1;
  else if (!td_lua_method(L, TD_LUA_TENSOR, 2))
    return td_lua_no_field(L, TD_LUA_TENSOR, key, fields);
  return 1;
}

static int tensor_newindex(lua_State *L) {
  return td_lua_error(L, TD_INVALID_ARGUMENT,
                      "a tensor never changes; for rows of a variable use "
                      "W[\"0:2\"]:assign(t)");
}

/* ---- functions of core ---- */

/* core.tensor(data [, dtype [, shape]]) */
static int core_tensor(lua_State *L) {
  td_dtype want = TD_INVALID;
  td_tensor t, r;
  lua_settop(L, 3);
  if (!lua_isnoneornil(L, 2)) td_lua_check(L, td_lua_to_dtype(L, 2, &want));
  td_lua_check(L, td_lua_as_tensor(L, 1, want, &t));
  td_lua_push_tensor(L, &t);
  if (lua_isnoneornil(L, 3)) return 1;
  td_shape shape;
  td_lua_check(L, td_lua_to_shape(L, 3, &shape));
  td_lua_check(L, td_tensor_reshape(td_lua_to_value(L, -1), &shape, &r));
  td_lua_push_tensor(L, &r);
  return 1;
}

/* core.from_bytes(bytes, dtype, shape) */
static int core_from_bytes(lua_State *L) {
  size_t len;
  const char *bytes = luaL_checklstring(L, 1, &len);
  td_dtype dtype;
  td_shape shape;
  td_tensor t;
  td_lua_check(L, td_lua_to_dtype(L, 2, &dtype));
  td_lua_check(L, td_lua_to_shape(L, 3, &shape));
  int64_t count = td_shape_count(&shape);
  size_t want = 0;
  if (!td_dtype_is_plain(dtype) || count < 0 ||
      !td_mul((size_t)count, td_dtype_size(dtype), &want) || want != len)
    return td_lua_error(L, TD_INVALID_ARGUMENT,
                        "%zu bytes do not make that shape of %s", len,
                        td_dtype_name(dtype));
  td_lua_check(L, td_tensor_from(dtype, &shape, bytes, &t));
  td_lua_push_tensor(L, &t);
  return 1;
}

/* core.to_lua(value): rank 0 as a Lua value. */
static int core_to_lua(lua_State *L) {
  td_lua_tensor *u = luaL_checkudata(L, 1, TD_LUA_TENSOR);
  if (u->t.shape.rank != 0 || !has_elements(&u->t))
    lua_settop(L, 1);
  else
    push_element(L, &u->t, 0);
  return 1;
}

static int core_same(lua_State *L) {
  td_lua_tensor *a = luaL_checkudata(L, 1, TD_LUA_TENSOR);
  td_lua_tensor *b = luaL_checkudata(L, 2, TD_LUA_TENSOR);
  lua_pushboolean(L, td_tensor_same(&a->t, &b->t));
  return 1;
}

/* core.kind(x): "tensor", "edge", "op", "graph", "session", ... or nil. */
static const char *kind_of(lua_State *L, int i) {
  static const char *const types[] = {TD_LUA_TENSOR, TD_LUA_EDGE, TD_LUA_OP,
                                      TD_LUA_GRAPH, TD_LUA_SESSION};
  for (size_t k = 0; lua_isuserdata(L, i) && k < TD_COUNT(types); k++)
    if (luaL_testudata(L, i, types[k])) return types[k] + 5;
  return NULL;
}

static int core_kind(lua_State *L) {
  lua_pushstring(L, kind_of(L, 1));
  return 1;
}

const char *td_lua_what(lua_State *L, int i) {
  const char *kind = kind_of(L, i);
  if (!kind) { /* an object of the library may say what it is */
    kind = luaL_getmetafield(L, i, "__name") == LUA_TSTRING
               ? lua_tostring(L, -1)
               : luaL_typename(L, i);
    return kind;
  }
  return strcmp(kind, "edge") ? kind : "graph tensor";
}

/* core.held(): bytes of tensors that Lua values keep alive. */
static int core_held(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)td_lua_get(L)->held);
  return 1;
}

void td_lua_open_tensor(lua_State *L) {
  static const luaL_Reg functions[] = {{"tensor", core_tensor},
                                       {"from_bytes", core_from_bytes},
                                       {"to_lua", core_to_lua},
                                       {"same", core_same},
                                       {"kind", core_kind},
                                       {"held", core_held},
                                       {"set_shape_meta", set_shape_meta},
                                       {"shape_list", core_shape_list},
                                       {"shape_of", core_shape_of},
                                       {NULL, NULL}};
  static const luaL_Reg methods[] = {{"item", tensor_item},
                                     {"table", tensor_table},
                                     {"bytes", tensor_bytes},
                                     {"rows", tensor_rows},
                                     {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", tensor_gc},
                                  {"__tostring", tensor_tostring},
                                  {"__newindex", tensor_newindex},
                                  {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, TENSORS);
  lua_pushcfunction(L, tensors_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_newmetatable(L, TD_LUA_TENSOR);
  luaL_setfuncs(L, meta, 0);
  luaL_newlib(L, methods);
  lua_pushcclosure(L, tensor_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
