/* bind.h - what the files of the Lua binding share.
 *
 * The binding is the only C that knows Lua and the engine. It turns a td_status
 * into a Lua error with nothing held: whatever must survive an error is a
 * userdata on the Lua stack (td_lua_block for scratch arrays).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_H
#define TD_LUA_BIND_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <signal.h>

#include "engine/run/session.h"

#define TD_LUA_TENSOR "tide.tensor"
#define TD_LUA_GRAPH "tide.graph"
#define TD_LUA_EDGE "tide.edge"
#define TD_LUA_OP "tide.op"
#define TD_LUA_SCOPE "tide.scope"
#define TD_LUA_SESSION "tide.session"
#define TD_LUA_REGION "tide.region"
#define TD_LUA_ERROR "tide.error"
#define TD_LUA_FOREIGN "tide.foreign" /* see core.set_foreign */
#define TD_LUA_FAILED "tide.failed"   /* see session.on_failure */

/* Turns in the interpreter, first come, first served. Whoever waits for long
 * sends TD_LUA_SIGNAL_TURN to the thread that has it. */
typedef struct td_lua_turns {
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t served;
  uint64_t next, serving; /* numbers: to draw, whose turn it is */
  pthread_t holder;
} td_lua_turns;

/* What the console core handles. */
#define TD_LUA_SIGNAL_INTERRUPT (SIGRTMIN + 1)
#define TD_LUA_SIGNAL_TURN (SIGRTMIN + 2)

/* One per group of coroutines; a userdata in the registry. */
typedef struct td_lua_state {
  td_runtime *runtime;
  td_lua_turns turns;  /* whose the interpreter is */
  lua_State *scope_of; /* the coroutine whose scope `scope` caches */
  struct td_lua_scope *scope;
  size_t held;       /* tensor bytes that Lua values keep alive */
  size_t debt;       /* of them made since the last full collection */
  size_t held_after; /* held just after it */
} td_lua_state;

/* A value: what `td.tensor` gives. */
typedef struct td_lua_tensor {
  td_tensor t;
  size_t counted; /* bytes it added to state->held */
} td_lua_tensor;

typedef struct td_lua_graph {
  td_graph *g;
} td_lua_graph;

/* User value 1 is the graph. */
typedef struct td_lua_region {
  struct td_region *r;
} td_lua_region;

/* An edge (port >= 0) or an op (port -1); user value 1 is its graph. */
typedef struct td_lua_edge {
  td_node *node;
  int32_t port;
} td_lua_edge;

/* Where nodes are built. Immutable; user values: 1 graph, 2 controls (list of
 * ops), 3 capture, 4 device_fn, 5 outer scope, 6 notes, 7 and 8 the ops of
 * `pivot` and `colocate`. */
typedef struct td_lua_scope {
  td_graph *graph; /* borrowed: user value 1 holds it */
  char *prefix;    /* "layer1/conv/", or "" */
  char *device, *container;
  char *origin; /* of the nodes; "": the Lua line that makes them */
  int32_t flow;
  td_node *pivot; /* control input of nodes without data inputs */
  td_node *colocate;
  int n_controls;
  bool captures, has_device_fn, has_notes;
} td_lua_scope;

/* ---- bind_turn.c ---- */

void td_lua_turns_init(td_lua_turns *t);
/* The interpreter is released during long C calls: nothing of Lua may be
 * touched between unlock and lock. */
void td_lua_unlock(td_lua_state *st);
void td_lua_lock(td_lua_state *st);
/* Is it `thread` that has the interpreter? */
bool td_lua_holds(td_lua_state *st, pthread_t thread);
/* What steps begun by this thread look at: non-zero ends them. Never NULL;
 * atomic. */
int *td_lua_interrupt(void);
/* Sets it; NULL: one that nobody sets. */
void td_lua_interrupt_by(int *flag);

/* ---- bind.c ---- */

td_lua_state *td_lua_get(lua_State *L);
/* Raises `s` as an error object; takes ownership. Does nothing when ok. */
void td_lua_check(lua_State *L, td_status *s);
int td_lua_error(lua_State *L, td_code code, const char *fmt, ...)
    TD_PRINTF(3, 4);
/* Pushes the error object of `s`; takes ownership. */
void td_lua_push_error(lua_State *L, td_status *s);
/* Pushes a string of bytes and ends `s` or frees `bytes` in any case: raises
 * only once nothing is held. */
void td_lua_push_str(lua_State *L, td_str *s);
void td_lua_push_bytes(lua_State *L, char *bytes, size_t len);
/* Registers the class of userdata `name`: its collector and its methods. */
void td_lua_make_class(lua_State *L, const char *name, lua_CFunction gc,
                       const luaL_Reg *methods);
/* A userdata of class `type`, cleared, with `uservalues`; false leaves the
 * error message on the stack instead. */
bool td_lua_try_object(lua_State *L, const char *type, size_t size,
                       int uservalues);
/* A cleared block of memory on the Lua stack. */
void *td_lua_block(lua_State *L, size_t n, size_t size);
/* Methods for userdata: t.method falls to the table set by set_methods. Pushes
 * the method, or returns false with nothing pushed. */
bool td_lua_method(lua_State *L, const char *type, int key);
/* An identifier, as against a slice such as "1:3"? */
bool td_lua_identifier(const char *s);
/* Raises `no field "x" on a tensor; did you mean "y"?`. */
int td_lua_no_field(lua_State *L, const char *type, const char *key,
                    const char *const *fields);
/* The string at `i`, which ends where C ends it: raises for one that holds a
 * zero byte, and for what is no string. */
const char *td_lua_text(lua_State *L, int i);
/* "file.lua:12" of the first frame outside the library; "" when none. */
const char *td_lua_origin(lua_State *L, char *buf, size_t size);
/* A finished step that was interrupted: clears the flag, raises. */
void td_lua_check_step(lua_State *L, td_status *s);

/* ---- bind_tensor.c ---- */

/* Take ownership of *t. `try` leaves the error on the stack and returns false;
 * `push` raises it. */
bool td_lua_try_tensor(lua_State *L, td_tensor *t);
void td_lua_push_tensor(lua_State *L, td_tensor *t);
td_tensor *td_lua_to_value(lua_State *L, int i); /* or NULL */
/* For messages: "tensor", "graph tensor", "op", else Lua's name of the type. */
const char *td_lua_what(lua_State *L, int i);
/* Room for n tensors on the Lua stack, invalid; what is still valid when it is
 * collected is released. */
td_tensor *td_lua_tensors(lua_State *L, size_t n);
/* A Lua literal (number, boolean, string, nested table of them) as a host
 * tensor. `want` TD_INVALID: by API rule 5. Never raises. */
td_status *td_lua_literal(lua_State *L, int i, td_dtype want,
                          td_tensor *out) TD_MUST_USE;
/* Literal, value: a retained tensor of dtype `want`; values must agree. */
td_status *td_lua_as_tensor(lua_State *L, int i, td_dtype want,
                            td_tensor *out) TD_MUST_USE;
/* The dtype rule 5 gives a literal; TD_INVALID when it is none. */
td_dtype td_lua_literal_dtype(lua_State *L, int i);
/* Rank 0: number, boolean or string; else the value. Takes ownership. */
bool td_lua_try_result(lua_State *L, td_tensor *t, bool as_value);
void td_lua_push_result(lua_State *L, td_tensor *t, bool as_value);
void td_lua_push_shape(lua_State *L, const td_shape *s);
/* Puts the plain list in place of a shape at `i`; leaves other values. */
void td_lua_list(lua_State *L, int i);
/* A list of sizes, nil (unknown rank), a shape. */
td_status *td_lua_to_shape(lua_State *L, int i, td_shape *out) TD_MUST_USE;
td_status *td_lua_to_dtype(lua_State *L, int i, td_dtype *out) TD_MUST_USE;
void td_lua_open_tensor(lua_State *L);

/* ---- bind_graph.c ---- */

void td_lua_push_graph(lua_State *L, td_graph *g); /* takes ownership */
/* The one handle of an edge (port -1: of the op). `graph`: stack index of the
 * graph userdata. */
void td_lua_push_edge(lua_State *L, int graph, td_node *n, int32_t port);
td_lua_edge *td_lua_to_edge(lua_State *L, int i); /* edge only, or NULL */
td_lua_edge *td_lua_to_op(lua_State *L, int i);   /* op only, or NULL */
td_graph *td_lua_to_graph(lua_State *L, int i);
void td_lua_push_attr(lua_State *L, const td_attr *a);
void td_lua_open_graph(lua_State *L);

/* ---- bind_region.c ---- */

/* The handle on top of the stack, of a node of the graph at `graph`, holds what
 * the node is of, should that be taken out. */
void td_lua_pin(lua_State *L, int graph, td_node *n);
void td_lua_open_region(lua_State *L);

/* ---- bind_scope.c ---- */

/* The current scope of this coroutine; pushes its userdata. */
td_lua_scope *td_lua_scope_push(lua_State *L);
/* The same without pushing; alive until the scope changes. */
td_lua_scope *td_lua_scope_get(lua_State *L);
/* Two values that say which scope is in force in this coroutine; and putting it
 * back, from the stack index of the first. After an interrupt that did not
 * wait for a __close. */
void td_lua_scope_save(lua_State *L);
void td_lua_scope_restore(lua_State *L, int at);
void td_lua_open_scope(lua_State *L);

/* ---- bind_attr.c ---- */

/* The Lua value at `i` as an attribute. What it points to is on the Lua stack:
 * pushes values that must stay there. */
td_status *td_lua_to_attr(lua_State *L, int i, const td_op *op,
                          const td_attr_def *def, td_attr *out) TD_MUST_USE;

/* ---- bind_op.c (with bind_args.c), bind_func.c, bind_session.c (with
 * bind_step.c and bind_callable.c), bind_files.c, bind_data.c, bind_info.c,
 * bind_show.c, bind_system.c ---- */

/* An edge of the current graph for whatever is at `i` (edge, value, literal of
 * dtype `want`, table to pack, object with __tensor). Pushes nothing; may
 * raise. The result is held by its graph. */
td_edge td_lua_edge_of(lua_State *L, int i, td_dtype want);
void td_lua_open_op(lua_State *L);
void td_lua_open_func(lua_State *L);
void td_lua_open_session(lua_State *L);
void td_lua_open_files(lua_State *L);
void td_lua_open_data(lua_State *L);
void td_lua_open_info(lua_State *L);
void td_lua_open_show(lua_State *L);
void td_lua_open_system(lua_State *L);

extern const struct td_lua_file {
  const char *name;  /* "tide.ops" */
  const char *chunk; /* "=[tide] ops.lua" */
  const char *text;
  size_t len;
} td_lua_library[]; /* build/lua_library.c; ends with {0} */

#endif
