/* bind_args.h - the arguments of an op's call, read from the Lua stack.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_ARGS_H
#define TD_LUA_BIND_ARGS_H

#include <lua.h>

#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

/* One tensor argument, list elements each their own. */
typedef struct td_lua_item {
  int at;       /* stack index of the Lua value */
  int arg;      /* input argument of the op it belongs to */
  bool is_edge; /* else a value once converted */
  bool open;    /* a Merge's back edge, still to come */
  bool literal; /* still a number or table; dtype to be found */
  td_edge edge;
  td_dtype dtype; /* known unless literal */
} td_lua_item;

/* Everything in it lives on the Lua stack. */
typedef struct td_lua_call {
  const td_op *op;
  td_lua_item *items;
  int n, cap;
  int *groups; /* items by input argument */
  td_note *attrs;
  int n_attrs;
  const char *name; /* or NULL */
  bool add;         /* core.add: a node even when it could compute */
  bool exact;       /* the name is whole, reserved with g:unique */
} td_lua_call;

/* In the registry: the function of op Pack, which makes one tensor of a list.
 * The opener of the ops leaves it there. */
#define TD_LUA_PACK "tide.pack"

/* The arguments of op(...), from stack index 1 on. Raises, as all of these. */
void td_lua_args_read(lua_State *L, td_lua_call *c);
/* The same of core.add: inputs in the list at 2, attributes in the table at 3
 * or nothing. */
void td_lua_args_read_lists(lua_State *L, td_lua_call *c);
/* The value of an attribute that the call gives, or NULL. */
const td_attr *td_lua_args_attr(const td_lua_call *c, const char *name);
/* What stands at `i` for a tensor is replaced by it: a variable by its read, a
 * table that holds graph tensors by the edge of a Pack. */
void td_lua_args_resolve(lua_State *L, int i);

#endif
