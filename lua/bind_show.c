/* bind_show.c - what displays ask of values and graphs: a few elements, numbers
 * about many, the nodes of a graph as flat lists.
 *
 * A display is bounded work, however large the value: what looks at every
 * element looks at `limit` of them, evenly spaced, and says how many.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <sodium.h>

#include "engine/device/alloc.h"
#include "lua/bind.h"
#include "lua/bind_field.h"
#include "lua/bind_handle.h"
#include "lua/bind_tensor.h"

/* ---- bytes ---- */

/* core.base64(bytes) */
static int base64(lua_State *L) {
  size_t len;
  const char *bytes = luaL_checklstring(L, 1, &len);
  luaL_argcheck(L, len <= SIZE_MAX / 2, 1, "too many bytes");
  const int variant = sodium_base64_VARIANT_ORIGINAL;
  size_t room = sodium_base64_encoded_len(len, variant);
  luaL_Buffer b;
  char *to = luaL_buffinitsize(L, &b, room);
  sodium_bin2base64(to, room, (const unsigned char *)bytes, len, variant);
  luaL_pushresultsize(&b, room - 1); /* without its zero byte */
  return 1;
}

/* ---- elements ---- */

static td_tensor *readable(lua_State *L) {
  td_tensor *t = td_lua_check_value(L, 1);
  if (!td_tensor_touchable(t))
    td_lua_error(L, TD_FAILED_PRECONDITION,
                 "the value is in the memory of %s; td.identity under "
                 "td.device(\"/cpu:0\") brings it here",
                 t->buffer->allocator->name);
  return t;
}

/* core.place_of(value): the device that its bytes are on. */
static int place_of(lua_State *L) {
  const td_tensor *t = td_lua_check_value(L, 1);
  lua_pushstring(L,
                 td_tensor_on_host(t) ? "CPU:0" : t->buffer->allocator->name);
  return 1;
}

static void push_at(lua_State *L, const td_tensor *t, int64_t i, size_t most) {
  size_t len;
  if (t->dtype == TD_STRING) {
    const char *s = td_tensor_str(t, i, &len);
    lua_pushlstring(L, s, len < most ? len : most);
  } else if (!td_dtype_is_plain(t->dtype)) {
    lua_pushstring(L, ((td_object *const *)t->data)[i]->type);
  } else {
    td_lua_push_element(L, t, i);
  }
}

/* core.elements(value, {index from 0, ...}, most): those elements as a list,
 * strings cut to `most` bytes; of resources the types. */
static int elements(lua_State *L) {
  const td_tensor *t = readable(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  size_t most = (size_t)luaL_optinteger(L, 3, INT32_MAX);
  int64_t count = td_tensor_count(t);
  lua_Integer n = luaL_len(L, 2);
  lua_createtable(L, n < INT32_MAX ? (int)n : 0, 0);
  for (lua_Integer k = 1; k <= n; k++) {
    lua_rawgeti(L, 2, k);
    lua_Integer i = luaL_checkinteger(L, -1);
    luaL_argcheck(L, i >= 0 && i < count, 2, "no such element");
    lua_pop(L, 1);
    push_at(L, t, i, most);
    lua_rawseti(L, -2, k);
  }
  return 1;
}

/* ---- numbers about many ---- */

/* Which elements are looked at: sample k of n is element k * count / n. */
typedef struct sample {
  int64_t n, count;
} sample;

static sample sample_of(lua_State *L, const td_tensor *t, int arg) {
  sample s = {.count = td_tensor_count(t)};
  lua_Integer limit = luaL_checkinteger(L, arg);
  luaL_argcheck(L, limit > 0 && limit <= INT32_MAX, arg, "1 to 2^31 - 1");
  if (!td_dtype_is_plain(t->dtype) || td_dtype_is_complex(t->dtype))
    td_lua_error(L, TD_INVALID_ARGUMENT, "a %s has no order",
                 td_dtype_name(t->dtype));
  s.n = s.count < limit ? s.count : limit;
  return s;
}

static int64_t sample_at(const sample *s, int64_t k) {
  if (s->n == s->count) return k;
  return (int64_t)((double)k * ((double)s->count / (double)s->n));
}

/* core.statistics(value, limit) -> {n = looked at, finite =, nan =, inf =,
 * zeros =, min =, max =, mean =, std =}; the last four of what is finite, NaN
 * where nothing is. Welford's method. */
static int statistics(lua_State *L) {
  const td_tensor *t = readable(L);
  sample s = sample_of(L, t, 2);
  int64_t finite = 0, nan = 0, inf = 0, zeros = 0;
  double min = NAN, max = NAN, mean = 0, square = 0;
  for (int64_t k = 0; k < s.n; k++) {
    double v = td_tensor_get_f(t, sample_at(&s, k));
    nan += isnan(v) != 0;
    inf += isinf(v) != 0;
    zeros += v == 0;
    if (!isfinite(v)) continue;
    finite++;
    if (!(min <= v)) min = v;
    if (!(max >= v)) max = v;
    double d = v - mean;
    mean += d / (double)finite;
    square += d * (v - mean);
  }
  lua_createtable(L, 0, 9);
  td_lua_set_integer(L, "n", s.n);
  td_lua_set_integer(L, "finite", finite);
  td_lua_set_integer(L, "nan", nan);
  td_lua_set_integer(L, "inf", inf);
  td_lua_set_integer(L, "zeros", zeros);
  td_lua_set_number(L, "min", min);
  td_lua_set_number(L, "max", max);
  td_lua_set_number(L, "mean", finite ? mean : NAN);
  td_lua_set_number(L, "std", finite ? sqrt(square / (double)finite) : NAN);
  return 1;
}

enum { MOST_BINS = 1000 };

/* core.histogram(value, low, high, bins, limit) -> a list of counts; what is
 * outside is not counted, `high` itself is in the last bin. */
static int histogram(lua_State *L) {
  const td_tensor *t = readable(L);
  double low = luaL_checknumber(L, 2), high = luaL_checknumber(L, 3);
  lua_Integer bins = luaL_checkinteger(L, 4);
  sample s = sample_of(L, t, 5);
  int64_t counts[MOST_BINS] = {0};
  luaL_argcheck(L, bins > 0 && bins <= MOST_BINS, 4, "1 to 1000 bins");
  luaL_argcheck(L, high > low && isfinite(high - low), 3, "above the lowest");
  double scale = (double)bins / (high - low);
  for (int64_t k = 0; k < s.n; k++) {
    double v = td_tensor_get_f(t, sample_at(&s, k));
    if (!(v >= low && v <= high)) continue;
    int64_t at = (int64_t)((v - low) * scale);
    counts[at < bins ? at : bins - 1]++;
  }
  lua_createtable(L, (int)bins, 0);
  for (lua_Integer i = 0; i < bins; i++) {
    lua_pushinteger(L, counts[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- graphs ---- */

/* A list of n numbers id, port, id, port ...; missing back edges left out. */
static void push_inputs(lua_State *L, const td_node *n) {
  lua_Integer at = 0;
  lua_createtable(L, 2 * n->n_in, 0);
  for (int i = 0; i < n->n_in; i++) {
    if (!n->in[i].node) continue;
    lua_pushinteger(L, n->in[i].node->id);
    lua_rawseti(L, -2, ++at);
    lua_pushinteger(L, n->in[i].port);
    lua_rawseti(L, -2, ++at);
  }
}

static void push_controls(lua_State *L, const td_node *n) {
  lua_createtable(L, n->n_control, 0);
  for (int i = 0; i < n->n_control; i++) {
    lua_pushinteger(L, n->control[i]->id);
    lua_rawseti(L, -2, i + 1);
  }
}

/* core.graph_nodes(graph) -> names, types, devices, inputs, controls: lists by
 * id + 1; of inputs each a list {id, port, id, port, ...}, of controls of ids,
 * false where a node has none. */
static int graph_nodes(lua_State *L) {
  const td_graph *g = td_lua_to_graph(L, 1);
  int32_t n = td_graph_size(g);
  lua_settop(L, 1);
  for (int k = 0; k < 5; k++) lua_createtable(L, n, 0);
  for (int32_t i = 0; i < n; i++) {
    const td_node *node = td_graph_node(g, i);
    lua_pushstring(L, node->name);
    lua_rawseti(L, 2, i + 1);
    lua_pushstring(L, node->op->type);
    lua_rawseti(L, 3, i + 1);
    lua_pushstring(L, node->device);
    lua_rawseti(L, 4, i + 1);
    push_inputs(L, node);
    lua_rawseti(L, 5, i + 1);
    if (node->n_control)
      push_controls(L, node);
    else
      lua_pushboolean(L, 0);
    lua_rawseti(L, 6, i + 1);
  }
  return 5;
}

TD_LUA_OPEN(show) {
  static const luaL_Reg functions[] = {{"base64", base64},
                                       {"place_of", place_of},
                                       {"elements", elements},
                                       {"statistics", statistics},
                                       {"histogram", histogram},
                                       {"graph_nodes", graph_nodes},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
