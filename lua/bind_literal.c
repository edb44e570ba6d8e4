/* bind_literal.c - numbers, booleans, strings and tables of them as tensors.
 *
 * A table is walked twice: once for its shape and what it is made of, once to
 * copy. What is wrong is said with the index path to it. Nothing here raises.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_literal.h"

#include <math.h>
#include <string.h>

#include "lua/bind.h"
#include "lua/bind_shape.h"
#include "lua/bind_tensor.h"

/* What a nested table holds. */
typedef struct scan {
  td_shape shape;
  bool any_float, any_int, any_bool, any_string;
  size_t text;             /* bytes of strings */
  int64_t steps;           /* elements and rows that were read */
  int64_t at[TD_MAX_RANK]; /* the index on the way to what is being read */
} scan;

/* The error about what stands at depth `depth`: "at [2][1]: ragged table". */
static td_status *refuse(const scan *s, int depth, const char *fmt, ...)
    TD_PRINTF(3, 4);
static td_status *refuse(const scan *s, int depth, const char *fmt, ...) {
  td_str text;
  va_list args;
  td_str_init(&text);
  for (int k = 0; k < depth; k++)
    td_str_addf(&text, "%s[%lld]", k ? "" : "at ", (long long)s->at[k]);
  if (depth) td_str_add(&text, ": ");
  va_start(args, fmt);
  td_str_addv(&text, fmt, args);
  va_end(args);
  td_status *st = td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(&text));
  td_str_deinit(&text);
  return st;
}

static td_status *scan_leaf(lua_State *L, int i, int depth, scan *s) {
  switch (lua_type(L, i)) {
  case LUA_TNUMBER:
    if (lua_isinteger(L, i))
      s->any_int = true;
    else
      s->any_float = true;
    return NULL;
  case LUA_TBOOLEAN:
    s->any_bool = true;
    return NULL;
  case LUA_TSTRING:
    s->any_string = true;
    s->text += lua_rawlen(L, i);
    return NULL;
  default:
    return refuse(s, depth,
                  "a tensor is made of numbers, booleans or strings, not %s",
                  luaL_typename(L, i));
  }
}

static td_status *interrupted(void) {
  return td_error(TD_CANCELLED, "interrupted");
}

/* Holes show as keys beyond the length or nil inside it. */
static td_status *check_list(lua_State *L, int i, int64_t n, int depth,
                             const scan *s) {
  int64_t keys = 0;
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1))
    if (td_lua_ends_at(keys++)) {
      lua_pop(L, 2);
      return interrupted();
    }
  if (keys == n) return NULL;
  return refuse(s, depth,
                "the list has a hole or a named key: %lld entries, length "
                "%lld; nil cannot be an element",
                (long long)keys, (long long)n);
}

static td_status *scan_table(lua_State *L, int i, int depth, scan *s) {
  if (!lua_checkstack(L, 8)) return td_oom();
  td_lua_list(L, i);
  if (!lua_istable(L, i)) {
    if (depth != s->shape.rank && s->shape.rank >= 0)
      return refuse(s, depth, "ragged table: a %s where others are tables",
                    luaL_typename(L, i));
    s->shape.rank = depth;
    return scan_leaf(L, i, depth, s);
  }
  int64_t n = (int64_t)lua_rawlen(L, i);
  TD_TRY(check_list(L, i, n, depth, s));
  if (depth >= TD_MAX_RANK)
    return td_error(TD_INVALID_ARGUMENT, "tables nest deeper than %d",
                    TD_MAX_RANK);
  if (s->shape.rank == depth)
    return refuse(s, depth, "ragged table: a table where others are none");
  if (s->shape.dim[depth] < 0) s->shape.dim[depth] = n;
  if (s->shape.dim[depth] != n)
    return refuse(s, depth,
                  "ragged table: %lld elements where an earlier row has %lld",
                  (long long)n, (long long)s->shape.dim[depth]);
  if (n == 0 && s->shape.rank < 0) s->shape.rank = depth + 1;
  for (int64_t k = 1; k <= n; k++) {
    if (td_lua_ends_at(s->steps++)) return interrupted();
    s->at[depth] = k;
    lua_rawgeti(L, i, k);
    td_status *st = scan_table(L, lua_gettop(L), depth + 1, s);
    lua_pop(L, 1);
    TD_TRY(st);
  }
  return NULL;
}

static td_status *scan_literal(lua_State *L, int i, scan *s) {
  *s = (scan){0};
  s->shape.rank = -1;
  for (int k = 0; k < TD_MAX_RANK; k++) s->shape.dim[k] = -1;
  td_status *st = scan_table(L, lua_absindex(L, i), 0, s);
  int kinds = (s->any_float || s->any_int) + s->any_bool + s->any_string;
  if (td_ok(st) && kinds > 1)
    st = td_error(TD_INVALID_ARGUMENT,
                  "numbers, booleans and strings do not mix in one tensor");
  return st;
}

static td_dtype natural(const scan *s) {
  return s->any_string                 ? TD_STRING
         : s->any_bool                 ? TD_BOOL
         : s->any_int && !s->any_float ? TD_INT32
                                       : TD_FLOAT32;
}

td_dtype td_lua_literal_dtype(lua_State *L, int i) {
  scan s;
  td_status *st = scan_literal(L, i, &s);
  td_dtype t = td_ok(st) ? natural(&s) : TD_INVALID;
  td_status_release(st);
  return t;
}

/* The range of an integer dtype. */
static void limits(td_dtype t, int64_t *low, uint64_t *high) {
  int bits = (int)td_dtype_size(t) * 8;
  bool is_unsigned = t == TD_UINT8 || t == TD_UINT16 || t == TD_UINT32 ||
                     t == TD_UINT64 || t == TD_QUINT8 || t == TD_QUINT16;
  *low = is_unsigned ? 0 : bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1));
  *high = is_unsigned ? (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1)
                      : (UINT64_C(1) << (bits - 1)) - 1;
}

static td_status *put_integer(lua_State *L, int i, td_tensor *t, int64_t at) {
  lua_Number f = lua_tonumber(L, i);
  if (!lua_isinteger(L, i) && floor(f) != f)
    return td_error(TD_INVALID_ARGUMENT,
                    "%.14g is not whole, but the tensor is %s; use td.cast", f,
                    td_dtype_name(t->dtype));
  int64_t low, v;
  uint64_t high;
  limits(t->dtype, &low, &high);
  if (lua_isinteger(L, i))
    v = lua_tointeger(L, i);
  else if (f >= -9223372036854775808.0 && f < 9223372036854775808.0)
    v = (int64_t)f;
  else
    return td_error(TD_INVALID_ARGUMENT, "%.14g does not fit %s", f,
                    td_dtype_name(t->dtype));
  if (v < low || (v > 0 && (uint64_t)v > high))
    return td_error(TD_INVALID_ARGUMENT, "%lld does not fit %s", (long long)v,
                    td_dtype_name(t->dtype));
  td_tensor_set_i(t, at, v);
  return NULL;
}

static td_status *put_leaf(lua_State *L, int i, td_tensor *t, int64_t at) {
  if (t->dtype == TD_BOOL) {
    if (!lua_isboolean(L, i))
      return td_error(TD_INVALID_ARGUMENT, "expected a boolean, given %s",
                      luaL_typename(L, i));
    ((bool *)t->data)[at] = lua_toboolean(L, i);
    return NULL;
  }
  if (lua_type(L, i) != LUA_TNUMBER)
    return td_error(TD_INVALID_ARGUMENT, "expected a number for %s, given %s",
                    td_dtype_name(t->dtype), luaL_typename(L, i));
  double f = lua_tonumber(L, i);
  switch (t->dtype) {
  case TD_FLOAT32:
    ((float *)t->data)[at] = (float)f;
    return NULL;
  case TD_FLOAT64:
    ((double *)t->data)[at] = f;
    return NULL;
  case TD_FLOAT16:
  case TD_BFLOAT16:
    td_tensor_set_f(t, at, f);
    return NULL;
  case TD_COMPLEX64:
    ((float *)t->data)[2 * at] = (float)f;
    ((float *)t->data)[2 * at + 1] = 0;
    return NULL;
  case TD_COMPLEX128:
    ((double *)t->data)[2 * at] = f;
    ((double *)t->data)[2 * at + 1] = 0;
    return NULL;
  default:
    return put_integer(L, i, t, at);
  }
}

static td_status *put_all(lua_State *L, int i, td_tensor *t, int depth,
                          int64_t *at) {
  if (depth == t->shape.rank) return put_leaf(L, i, t, (*at)++);
  td_lua_list(L, i);
  for (int64_t k = 1; k <= t->shape.dim[depth]; k++) {
    if (td_lua_ends_at(k) || td_lua_ends_at(*at)) return interrupted();
    lua_rawgeti(L, i, k);
    td_status *st = put_all(L, lua_gettop(L), t, depth + 1, at);
    lua_pop(L, 1);
    TD_TRY(st);
  }
  return NULL;
}

static void put_strings(lua_State *L, int i, const td_shape *shape, int depth,
                        uint64_t *offsets, char *text, int64_t *at,
                        uint64_t base) {
  if (depth == shape->rank) {
    size_t len;
    const char *s = lua_tolstring(L, i, &len);
    uint64_t from = offsets[*at];
    memcpy(text + (from - base), s, len);
    offsets[++*at] = from + len;
    return;
  }
  for (int64_t k = 1; k <= shape->dim[depth]; k++) {
    lua_rawgeti(L, i, k);
    put_strings(L, lua_gettop(L), shape, depth + 1, offsets, text, at, base);
    lua_pop(L, 1);
  }
}

static td_status *make_strings(lua_State *L, int i, const scan *s,
                               td_tensor *out) {
  uint64_t *offsets;
  char *text;
  TD_TRY(td_tensor_strings_new(&s->shape, s->text, out, &offsets, &text));
  int64_t at = 0;
  uint64_t base = (uint64_t)(text - (char *)out->buffer->data);
  offsets[0] = base;
  put_strings(L, i, &s->shape, 0, offsets, text, &at, base);
  return NULL;
}

td_status *td_lua_literal(lua_State *L, int i, td_dtype want, td_tensor *out) {
  scan s;
  i = lua_absindex(L, i);
  *out = (td_tensor){0};
  TD_TRY(scan_literal(L, i, &s));
  if (want == TD_INVALID) want = natural(&s);
  if ((want == TD_STRING) != s.any_string && td_shape_count(&s.shape) > 0)
    return td_error(TD_INVALID_ARGUMENT, "expected %s, given %s",
                    td_dtype_name(want), s.any_string ? "a string" : "numbers");
  if (want == TD_STRING) return make_strings(L, i, &s, out);
  if (!td_dtype_is_plain(want))
    return td_error(TD_INVALID_ARGUMENT, "a literal cannot be %s",
                    td_dtype_name(want));
  TD_TRY(td_tensor_new(NULL, want, &s.shape, out));
  int64_t at = 0;
  td_status *st = put_all(L, i, out, 0, &at);
  if (!td_ok(st)) td_tensor_release(out);
  return st;
}

td_status *td_lua_as_tensor(lua_State *L, int i, td_dtype want,
                            td_tensor *out) {
  const td_tensor *v = td_lua_to_value(L, i);
  if (!v) return td_lua_literal(L, i, want, out);
  if (want != TD_INVALID && v->dtype != want)
    return td_error(TD_INVALID_ARGUMENT, "expected %s, given %s; use td.cast",
                    td_dtype_name(want), td_dtype_name(v->dtype));
  td_tensor_retain(v, out);
  return NULL;
}

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

TD_LUA_OPEN(literal) {
  static const luaL_Reg functions[] = {{"tensor", core_tensor}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
