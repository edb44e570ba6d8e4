/* bind_tensor.c - values: counted, read, printed, sliced into rows.
 *
 * Lua's collector does not see tensor memory, so the binding counts the bytes
 * that values hold and runs a full collection when those made since the last
 * one outgrow what was alive after it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_tensor.h"

#include <string.h>

#include "engine/tensor/difference.h"
#include "lua/bind.h"
#include "lua/bind_shape.h"

enum { DEBT_FREE = 64 << 20 }; /* bytes made without looking */

typedef struct lua_tensor {
  td_tensor t;
  size_t counted; /* bytes it added to state->held */
} lua_tensor;

/* ---- making ---- */

static void pay_debt(lua_State *L, td_lua_state *st, size_t bytes) {
  size_t allowed = st->held_after > DEBT_FREE ? st->held_after : DEBT_FREE;
  st->debt += bytes;
  if (st->debt <= allowed) return;
  lua_gc(L, LUA_GCCOLLECT);
  st->debt = 0;
  st->held_after = st->held;
}

/* Pushes a value that takes what is in `t`; false leaves an error on the stack
 * and `t` released. */
static bool try_tensor(lua_State *L, td_tensor *t) {
  td_lua_state *st = td_lua_get(L);
  if (!td_lua_try_object(L, TD_LUA_TENSOR, sizeof(lua_tensor), 0)) {
    td_tensor_release(t);
    return false;
  }
  lua_tensor *u = lua_touserdata(L, -1);
  u->t = *t;
  u->counted = td_tensor_bytes(t);
  *t = (td_tensor){0};
  st->held += u->counted;
  pay_debt(L, st, u->counted);
  return true;
}

void td_lua_push_tensor(lua_State *L, td_tensor *t) {
  if (!try_tensor(L, t)) lua_error(L);
}

/* ---- results on their way ---- */

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
  lua_tensor *u = luaL_testudata(L, i, TD_LUA_TENSOR);
  return u ? &u->t : NULL;
}

td_tensor *td_lua_check_value(lua_State *L, int i) {
  return &((lua_tensor *)luaL_checkudata(L, i, TD_LUA_TENSOR))->t;
}

static int tensor_gc(lua_State *L) {
  lua_tensor *u = lua_touserdata(L, 1);
  td_lua_get(L)->held -= u->counted;
  u->counted = 0;
  td_tensor_release(&u->t);
  return 0;
}

/* ---- reading ---- */

void td_lua_push_element(lua_State *L, const td_tensor *t, int64_t i) {
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
  td_lua_push_element(L, td_lua_to_value(L, 1), 0);
  return 1;
}

bool td_lua_try_result(lua_State *L, td_tensor *t, bool as_value) {
  if (as_value || t->shape.rank != 0 || !has_elements(t))
    return try_tensor(L, t);
  if (t->dtype == TD_STRING || td_dtype_is_complex(t->dtype)) {
    if (!try_tensor(L, t)) return false;
    lua_pushcfunction(L, read_scalar);
    lua_insert(L, -2);
    return lua_pcall(L, 1, 1, 0) == LUA_OK;
  }
  td_lua_push_element(L, t, 0); /* a number or boolean: cannot raise */
  td_tensor_release(t);
  return true;
}

void td_lua_push_result(lua_State *L, td_tensor *t, bool as_value) {
  if (!td_lua_try_result(L, t, as_value)) lua_error(L);
}

/* The value at `i`, of numbers, booleans or strings; raises. */
static td_tensor *check_elements(lua_State *L, int i) {
  td_tensor *t = td_lua_check_value(L, i);
  if (!has_elements(t))
    td_lua_error(L, TD_INVALID_ARGUMENT, "a %s has no elements to read",
                 td_dtype_name(t->dtype));
  return t;
}

static int tensor_item(lua_State *L) {
  const td_tensor *t = check_elements(L, 1);
  if (td_tensor_count(t) != 1) {
    td_shape_text text;
    return td_lua_error(L, TD_INVALID_ARGUMENT,
                        "item() reads a tensor of one element; this one has "
                        "shape %s",
                        td_shape_str(&t->shape, &text));
  }
  td_lua_push_element(L, t, 0);
  return 1;
}

enum { MOST_AT_ONCE = 1 << 16 }; /* places made in a table before it grows */

/* `steps` counts elements and rows, of which there may be many with none. */
static void push_table(lua_State *L, const td_tensor *t, int depth, int64_t *at,
                       int64_t *steps) {
  luaL_checkstack(L, 4, "tensor:table");
  if (td_lua_ends_at((*steps)++)) luaL_error(L, "interrupted");
  if (depth == t->shape.rank) {
    td_lua_push_element(L, t, (*at)++);
    return;
  }
  int64_t n = t->shape.dim[depth];
  lua_createtable(L, (int)(n < MOST_AT_ONCE ? n : MOST_AT_ONCE), 0);
  for (int64_t k = 1; k <= n; k++) {
    push_table(L, t, depth + 1, at, steps);
    lua_rawseti(L, -2, k);
  }
}

static int tensor_table(lua_State *L) {
  int64_t at = 0, steps = 0;
  push_table(L, check_elements(L, 1), 0, &at, &steps);
  return 1;
}

static int tensor_bytes(lua_State *L) {
  const td_tensor *t = check_elements(L, 1);
  if (t->dtype == TD_STRING)
    return td_lua_error(L, TD_INVALID_ARGUMENT,
                        "bytes() is for numbers; use item() or table()");
  lua_pushlstring(L, t->data, td_tensor_bytes(t));
  return 1;
}

/* Iterator step of rows(): value, index -> index + 1, row. */
static int next_row(lua_State *L) {
  const td_tensor *t = check_elements(L, 1);
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
  const td_tensor *t = check_elements(L, 1);
  if (t->shape.rank == 0)
    return td_lua_error(L, TD_INVALID_ARGUMENT, "a scalar has no rows");
  lua_pushcfunction(L, next_row);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, -1);
  return 3;
}

static int tensor_tostring(lua_State *L) {
  const td_tensor *t = td_lua_check_value(L, 1);
  td_str s;
  td_str_init(&s);
  td_tensor_print(t, 1000, &s);
  td_lua_push_str(L, &s);
  return 1;
}

static int tensor_index(lua_State *L) {
  const td_tensor *t = &((lua_tensor *)lua_touserdata(L, 1))->t;
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
    td_lua_push_shape(L, &t->shape);
  else if (!strcmp(key, "dtype"))
    lua_pushstring(L, td_dtype_name(t->dtype));
  else if (!strcmp(key, "size"))
    lua_pushinteger(L, td_tensor_count(t));
  else if (!strcmp(key, "rank"))
    lua_pushinteger(L, t->shape.rank);
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

static int core_same(lua_State *L) {
  lua_pushboolean(
      L, td_tensor_same(td_lua_check_value(L, 1), td_lua_check_value(L, 2)));
  return 1;
}

/* core.difference(a, b) -> elements that differ, largest absolute difference */
static int core_difference(lua_State *L) {
  const td_tensor *a = td_lua_check_value(L, 1), *b = td_lua_check_value(L, 2);
  luaL_argcheck(L, a->dtype == b->dtype && td_shape_equal(&a->shape, &b->shape),
                2, "must have the dtype and shape of the first");
  luaL_argcheck(L, td_dtype_is_plain(a->dtype) || a->dtype == TD_STRING, 1,
                "numbers, bools or strings expected");
  td_lua_state *st = td_lua_get(L);
  td_lua_unlock(st);
  td_difference d = td_difference_of(a, b);
  td_lua_lock(st);
  lua_pushinteger(L, d.count);
  lua_pushnumber(L, d.largest);
  return 2;
}

/* core.held(): bytes of tensors that Lua values keep alive. */
static int core_held(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)td_lua_get(L)->held);
  return 1;
}

TD_LUA_OPEN(tensor) {
  static const luaL_Reg functions[] = {{"from_bytes", core_from_bytes},
                                       {"same", core_same},
                                       {"difference", core_difference},
                                       {"held", core_held},
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
