/* bind_attr.c - attributes, from and to Lua.
 *
 * What an attribute points to lives in blocks on the Lua stack, or inside the
 * Lua strings and tensors that it was made from.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_attr.h"

#include "lua/bind.h"
#include "lua/bind_literal.h"
#include "lua/bind_shape.h"
#include "lua/bind_tensor.h"

/* ---- from Lua ---- */

/* "1.5", "function": what was given, for messages. */
static const char *given(lua_State *L, int i) {
  if (lua_type(L, i) == LUA_TNUMBER) return luaL_tolstring(L, i, NULL);
  return td_lua_what(L, i);
}

static td_status *mismatch(lua_State *L, int i, const td_op *op,
                           const td_attr_def *def) {
  return td_error(TD_INVALID_ARGUMENT,
                  "attribute \"%s\" of %s is %s %s; given %s", def->name,
                  op->type, def->kind == TD_ATTR_INT ? "an" : "a",
                  td_attr_kind_name(def->kind, def->is_list), given(L, i));
}

static bool to_integer(lua_State *L, int i, int64_t *out) {
  int ok;
  if (lua_type(L, i) != LUA_TNUMBER) return false;
  *out = lua_tointegerx(L, i, &ok);
  return ok;
}

static td_status *one(lua_State *L, int i, const td_op *op,
                      const td_attr_def *def, td_attr *a) {
  a->kind = def->kind;
  switch (def->kind) {
  case TD_ATTR_INT:
    return to_integer(L, i, &a->i) ? NULL : mismatch(L, i, op, def);
  case TD_ATTR_FLOAT:
    if (lua_type(L, i) != LUA_TNUMBER) return mismatch(L, i, op, def);
    a->f = (float)lua_tonumber(L, i);
    return NULL;
  case TD_ATTR_BOOL:
    if (!lua_isboolean(L, i)) return mismatch(L, i, op, def);
    a->b = lua_toboolean(L, i);
    return NULL;
  case TD_ATTR_STRING:
  case TD_ATTR_PLACEHOLDER:
    if (lua_type(L, i) != LUA_TSTRING) return mismatch(L, i, op, def);
    a->s.at = lua_tolstring(L, i, &a->s.len);
    return NULL;
  case TD_ATTR_TYPE:
    return td_lua_to_dtype(L, i, &a->type);
  case TD_ATTR_SHAPE: {
    td_shape *s = td_lua_block(L, 1, sizeof *s);
    bool unknown = lua_isboolean(L, i) && !lua_toboolean(L, i);
    a->shape = s;
    if (!unknown) return td_lua_to_shape(L, i, s);
    *s = td_shape_unknown();
    return NULL;
  }
  case TD_ATTR_TENSOR: {
    td_tensor t;
    if (!td_lua_to_value(L, i)) {
      TD_TRY(td_lua_literal(L, i, TD_INVALID, &t));
      td_lua_push_tensor(L, &t);
      i = lua_gettop(L);
    }
    a->tensor = td_lua_to_value(L, i);
    return NULL;
  }
  case TD_ATTR_FUNC: {
    td_func_attr *f = td_lua_block(L, 1, sizeof *f);
    if (lua_type(L, i) != LUA_TSTRING) return mismatch(L, i, op, def);
    f->name = td_lua_text(L, i);
    a->func = f;
    return NULL;
  }
  default:
    return mismatch(L, i, op, def);
  }
}

/* Where element k of a list attribute goes. */
static void store(td_attr *list, void *block, int k, const td_attr *v) {
  switch (list->kind) {
  case TD_ATTR_INT:
    ((int64_t *)block)[k] = v->i;
    break;
  case TD_ATTR_FLOAT:
    ((float *)block)[k] = v->f;
    break;
  case TD_ATTR_BOOL:
    ((bool *)block)[k] = v->b;
    break;
  case TD_ATTR_STRING:
    ((td_bytes *)block)[k] = v->s;
    break;
  case TD_ATTR_TYPE:
    ((td_dtype *)block)[k] = v->type;
    break;
  case TD_ATTR_SHAPE:
    ((td_shape *)block)[k] = *v->shape;
    break;
  case TD_ATTR_TENSOR:
    ((td_tensor *)block)[k] = *v->tensor;
    break;
  default:
    ((td_func_attr *)block)[k] = *v->func;
  }
}

td_status *td_lua_to_attr(lua_State *L, int i, const td_op *op,
                          const td_attr_def *def, td_attr *out) {
  i = lua_absindex(L, i);
  *out = (td_attr){0};
  luaL_checkstack(L, 8, "attribute");
  if (!def->is_list) return one(L, i, op, def, out);
  if (!lua_istable(L, i)) return mismatch(L, i, op, def);
  lua_pushvalue(L, i); /* stays, as its elements do */
  i = lua_gettop(L);
  td_lua_list(L, i);
  int n = (int)lua_rawlen(L, i);
  void *block = td_lua_block(L, (size_t)n + 1, sizeof(td_tensor));
  out->kind = def->kind;
  out->is_list = true;
  out->len = n;
  out->is = block; /* every member of the union is a pointer here */
  for (int k = 0; k < n; k++) {
    td_attr v = {0};
    luaL_checkstack(L, 4, "attribute list");
    lua_rawgeti(L, i, k + 1); /* stays: strings are borrowed from it */
    TD_TRY(one(L, lua_gettop(L), op, def, &v));
    store(out, block, k, &v);
  }
  return NULL;
}

/* ---- to Lua ---- */

static void push_one_of(lua_State *L, const td_attr *a, int i) {
  switch (a->kind) {
  case TD_ATTR_INT:
    lua_pushinteger(L, a->is[i]);
    break;
  case TD_ATTR_FLOAT:
    lua_pushnumber(L, a->fs[i]);
    break;
  case TD_ATTR_BOOL:
    lua_pushboolean(L, a->bs[i]);
    break;
  case TD_ATTR_STRING:
    lua_pushlstring(L, a->ss[i].at, a->ss[i].len);
    break;
  case TD_ATTR_TYPE:
    lua_pushstring(L, td_dtype_name(a->types[i]));
    break;
  case TD_ATTR_SHAPE:
    td_lua_push_shape(L, &a->shapes[i]);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_pushboolean(L, false);
    }
    break;
  case TD_ATTR_FUNC:
    lua_pushstring(L, a->funcs[i].name);
    break;
  default:
    lua_pushboolean(L, false);
  }
}

void td_lua_push_attr(lua_State *L, const td_attr *a) {
  td_tensor t;
  if (a->is_list) {
    lua_createtable(L, a->len, 0);
    for (int i = 0; i < a->len; i++) {
      push_one_of(L, a, i);
      lua_rawseti(L, -2, i + 1);
    }
    return;
  }
  switch (a->kind) {
  case TD_ATTR_INT:
    lua_pushinteger(L, a->i);
    break;
  case TD_ATTR_FLOAT:
    lua_pushnumber(L, a->f);
    break;
  case TD_ATTR_BOOL:
    lua_pushboolean(L, a->b);
    break;
  case TD_ATTR_STRING:
  case TD_ATTR_PLACEHOLDER:
    lua_pushlstring(L, a->s.at, a->s.len);
    break;
  case TD_ATTR_TYPE:
    lua_pushstring(L, td_dtype_name(a->type));
    break;
  case TD_ATTR_SHAPE:
    td_lua_push_shape(L, a->shape);
    break;
  case TD_ATTR_TENSOR:
    td_tensor_retain(a->tensor, &t);
    td_lua_push_tensor(L, &t);
    break;
  case TD_ATTR_FUNC:
    lua_pushstring(L, a->func->name);
    break;
  default:
    lua_pushnil(L);
  }
}
