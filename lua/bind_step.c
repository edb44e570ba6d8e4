/* bind_step.c - one step of a session: what it is fed and what it gives.
 *
 * The interpreter's lock is released while a step runs, and Ctrl-C reaches the
 * step through the flag of td_lua_interrupt.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "lua/bind_step.h"

#include <stdio.h>
#include <string.h>

#include "lua/bind.h"
#include "lua/bind_field.h"
#include "lua/bind_handle.h"
#include "lua/bind_literal.h"
#include "lua/bind_lua_op.h"
#include "lua/bind_session.h"
#include "lua/bind_tensor.h"

/* ---- signatures ---- */

static void read_fetches(lua_State *L, int i, td_lua_step *step) {
  luaL_checktype(L, i, LUA_TTABLE);
  int n = (int)luaL_len(L, i);
  step->fetches = td_lua_block(L, (size_t)n, sizeof *step->fetches);
  step->targets = td_lua_block(L, (size_t)n, sizeof *step->targets);
  step->is_op = td_lua_block(L, (size_t)n, sizeof *step->is_op);
  step->n_results = n;
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    td_lua_edge *e = td_lua_to_edge(L, -1), *op = td_lua_to_op(L, -1);
    if (!e && !op)
      td_lua_error(L, TD_INVALID_ARGUMENT,
                   "fetch %d must be a graph tensor or an op, not %s", k + 1,
                   luaL_typename(L, -1));
    if (e)
      step->fetches[step->n_fetches++] = (td_edge){e->node, e->port};
    else
      step->targets[step->n_targets++] = op->node;
    step->is_op[k] = op != NULL;
    lua_pop(L, 1);
  }
}

static void read_feeds(lua_State *L, int i, td_lua_step *step) {
  if (lua_isnoneornil(L, i)) return;
  luaL_checktype(L, i, LUA_TTABLE);
  int n = (int)luaL_len(L, i);
  step->feeds = td_lua_block(L, (size_t)n, sizeof *step->feeds);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    td_lua_edge *e = td_lua_to_edge(L, -1);
    if (!e)
      td_lua_error(L, TD_INVALID_ARGUMENT,
                   "feed %d must be a graph tensor, not %s", k + 1,
                   luaL_typename(L, -1));
    for (int j = 0; j < k; j++)
      if (step->feeds[j].node == e->node && step->feeds[j].port == e->port)
        td_lua_error(L, TD_INVALID_ARGUMENT, "\"%s:%d\" is fed twice",
                     e->node->name, (int)e->port);
    step->feeds[step->n_feeds++] = (td_edge){e->node, e->port};
    lua_pop(L, 1);
  }
}

void td_lua_step_read(lua_State *L, int fetches, int feeds, td_lua_step *out) {
  memset(out, 0, sizeof *out);
  read_fetches(L, fetches, out);
  if (feeds) read_feeds(L, feeds, out);
}

td_signature td_lua_step_signature(const td_lua_step *step) {
  return (td_signature){.feeds = step->feeds,
                        .n_feeds = step->n_feeds,
                        .fetches = step->fetches,
                        .n_fetches = step->n_fetches,
                        .targets = step->targets,
                        .n_targets = step->n_targets};
}

td_edge *td_lua_step_keep_feeds(lua_State *L, const td_lua_step *step) {
  td_edge *edges = td_lua_block(L, (size_t)step->n_feeds, sizeof *edges);
  if (step->n_feeds)
    memcpy(edges, step->feeds, (size_t)step->n_feeds * sizeof *edges);
  return edges;
}

/* ---- values in and out ---- */

const td_tensor *td_lua_step_value(lua_State *L, int i, td_edge e) {
  const td_tensor *v = td_lua_to_value(L, i);
  if (v) return v;
  if (td_lua_to_edge(L, i))
    td_lua_error(L, TD_INVALID_ARGUMENT,
                 "feed \"%s:%d\" is given a graph tensor; run it first and "
                 "feed its value",
                 e.node->name, (int)e.port);
  td_tensor t;
  td_status *s = td_lua_literal(L, i, td_edge_dtype(e), &t);
  if (!td_ok(s)) {
    s = td_lua_prefix(s, "feed \"%s:%d\"", e.node->name, (int)e.port);
    td_lua_check(L, td_node_blame(s, e.node));
  }
  td_lua_push_tensor(L, &t);
  lua_replace(L, i);
  return td_lua_to_value(L, i);
}

td_tensor *td_lua_step_values(lua_State *L, int i, const td_lua_step *step) {
  td_tensor *in = td_lua_block(L, (size_t)step->n_feeds, sizeof *in);
  luaL_checkstack(L, step->n_feeds + 16, "feeds");
  for (int k = 0; k < step->n_feeds; k++) {
    lua_rawgeti(L, i, k + 1);
    in[k] = *td_lua_step_value(L, lua_gettop(L), step->feeds[k]);
  }
  return in;
}

int td_lua_step_results(lua_State *L, td_tensor *fetches, const int8_t *is_op,
                        int n) {
  int at = 0;
  luaL_checkstack(L, n + 8, "results");
  for (int k = 0; k < n; k++) {
    if (is_op[k]) {
      lua_pushboolean(L, 1);
    } else if (!td_lua_try_result(L, &fetches[at++], false)) {
      while (++k < n)
        if (!is_op[k]) td_tensor_release(&fetches[at++]);
      lua_error(L);
    }
  }
  return n;
}

/* Whatever C's stderr is by now. */
static void print_out(void *arg, const char *text, size_t len) {
  (void)arg;
  fwrite(text, 1, len, stderr);
}

td_step_options td_lua_step_defaults(void) {
  return (td_step_options){.interrupt = td_lua_interrupt(),
                           .print = print_out,
                           .serve = td_lua_serve};
}

/* Nanoseconds; 0 for no end. */
static int64_t read_timeout(lua_State *L, int i) {
  if (lua_getfield(L, i, "timeout") == LUA_TNIL) {
    lua_pop(L, 1);
    return 0;
  }
  double t = luaL_checknumber(L, -1);
  if (!(t > 0) || t > 1e9)
    td_lua_error(L, TD_INVALID_ARGUMENT,
                 "timeout must be a number of seconds > 0, not %g", t);
  lua_pop(L, 1);
  int64_t ns = (int64_t)(t * 1e9);
  return ns < 1 ? 1 : ns;
}

td_lua_step_options td_lua_step_read_options(lua_State *L, int i) {
  td_lua_step_options o = {.run = td_lua_step_defaults()};
  if (!lua_istable(L, i)) return o;
  o.run.timeout = read_timeout(L, i);
  o.run.check_numerics = td_lua_flag(L, i, "check_numerics");
  o.as_values = td_lua_flag(L, i, "as_values");
  o.traced = td_lua_flag(L, i, "trace");
  return o;
}

/* ---- steps ---- */

/* "/job:worker/task:1" of a device's name. */
static void set_task(lua_State *L, const char *device) {
  const char *end = strstr(device, "/device:");
  lua_pushlstring(L, device, end ? (size_t)(end - device) : strlen(device));
  luaL_gsub(L, lua_tostring(L, -1), "/replica:0", "");
  lua_setfield(L, -3, "task");
  lua_pop(L, 1);
}

static void push_events(lua_State *L, td_trace *t) {
  int64_t n;
  const td_trace_event *e = td_trace_events(t, &n);
  lua_createtable(L, (int)n, 0);
  for (int64_t i = 0; i < n; i++) {
    lua_createtable(L, 0, 10);
    td_lua_set_string(L, "node", e[i].node);
    td_lua_set_string(L, "op", e[i].op);
    td_lua_set_string(L, "device", e[i].device);
    set_task(L, e[i].device);
    td_lua_set_integer(L, "ready", e[i].ready);
    td_lua_set_integer(L, "start", e[i].start);
    td_lua_set_integer(L, "stop", e[i].end);
    td_lua_set_integer(L, "thread", e[i].thread);
    td_lua_set_integer(L, "iteration", e[i].iteration);
    td_lua_set_integer(L, "bytes", e[i].bytes);
    if (td_trace_is_work(&e[i])) td_lua_set_string(L, "stream", e[i].stream);
    if (td_trace_is_work(&e[i]) && *e[i].value)
      td_lua_set_string(L, "kernel", e[i].value);
    if (e[i].memory) td_lua_set_integer(L, "memory", e[i].memory);
    if (e[i].failed) td_lua_set_flag(L, "failed", true);
    lua_rawseti(L, -2, i + 1);
  }
}

typedef struct trace_arrows {
  td_trace_arrow *at;
  size_t n;
} trace_arrows;

/* Of values between devices: indices of events, ns that the receiver waited. */
static int fill_arrows(lua_State *L) {
  td_trace *t = lua_touserdata(L, 1);
  const trace_arrows *a = lua_touserdata(L, 2);
  int64_t n;
  const td_trace_event *e = td_trace_events(t, &n);
  lua_createtable(L, (int)a->n, 0);
  for (size_t i = 0; i < a->n; i++) {
    const td_trace_event *to = &e[a->at[i].to];
    lua_createtable(L, 0, 6);
    td_lua_set_string(L, "value", to->value);
    td_lua_set_integer(L, "from", a->at[i].from + 1);
    td_lua_set_integer(L, "to", a->at[i].to + 1);
    td_lua_set_integer(L, "bytes", to->bytes);
    td_lua_set_integer(L, "waited", to->end - to->start);
    td_lua_set_integer(L, "error", a->at[i].error);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static void push_list_of(lua_State *L, td_trace *t, lua_CFunction fill,
                         void (*find)(td_trace *t, td_trace_arrow **at,
                                      size_t *n)) {
  trace_arrows a;
  lua_pushcfunction(L, fill);
  lua_pushlightuserdata(L, t);
  lua_pushlightuserdata(L, &a);
  find(t, &a.at, &a.n);
  int rc = lua_pcall(L, 2, 1, 0);
  td_free(a.at);
  if (rc != LUA_OK) lua_error(L);
}

/* Of work that nodes enqueued: indices of events, ns that it lay there. */
static int fill_launches(lua_State *L) {
  td_trace *t = lua_touserdata(L, 1);
  const trace_arrows *a = lua_touserdata(L, 2);
  int64_t n;
  const td_trace_event *e = td_trace_events(t, &n);
  lua_createtable(L, (int)a->n, 0);
  for (size_t i = 0; i < a->n; i++) {
    const td_trace_event *to = &e[a->at[i].to];
    lua_createtable(L, 0, 3);
    td_lua_set_integer(L, "from", a->at[i].from + 1);
    td_lua_set_integer(L, "to", a->at[i].to + 1);
    td_lua_set_integer(L, "waited", to->start - to->ready);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* Other processes: how far their clocks are ahead, and known, in ns. */
static void push_tasks(lua_State *L, td_trace *t) {
  size_t n;
  const td_trace_task *task = td_trace_tasks(t, &n);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_createtable(L, 0, 5);
    luaL_gsub(L, task[i].task, "/replica:0", "");
    lua_setfield(L, -2, "task");
    td_lua_set_integer(L, "clock", task[i].clock);
    td_lua_set_integer(L, "error", task[i].error);
    td_lua_set_integer(L, "dropped", task[i].dropped);
    if (*task[i].trouble) td_lua_set_string(L, "trouble", task[i].trouble);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* A finished trace as {events, arrows, launches, tasks = lists, totals, chrome
 * = texts}. */
static int make_trace_table(lua_State *L) {
  td_trace *t = lua_touserdata(L, 1);
  td_str s;
  lua_createtable(L, 0, 6);
  push_events(L, t);
  lua_setfield(L, -2, "events");
  push_list_of(L, t, fill_arrows, td_trace_arrows);
  lua_setfield(L, -2, "arrows");
  push_list_of(L, t, fill_launches, td_trace_launches);
  lua_setfield(L, -2, "launches");
  push_tasks(L, t);
  lua_setfield(L, -2, "tasks");
  td_str_init(&s);
  td_trace_totals(t, &s);
  td_lua_push_str(L, &s);
  lua_setfield(L, -2, "totals");
  td_str_init(&s);
  td_trace_chrome(t, &s);
  td_lua_push_str(L, &s);
  lua_setfield(L, -2, "chrome");
  return 1;
}

/* Takes ownership of `t`. */
static void push_trace(lua_State *L, td_trace *t) {
  lua_pushcfunction(L, make_trace_table);
  lua_pushlightuserdata(L, t);
  int rc = lua_pcall(L, 1, 1, 0);
  td_trace_release(t);
  if (rc != LUA_OK) lua_error(L);
}

static int check_step(lua_State *L) {
  td_lua_check_step(L, lua_touserdata(L, 1));
  return 0;
}

/* Raises `s`, with what had run: its field `trace`. Takes ownership of both. */
static void raise_traced(lua_State *L, td_status *s, td_trace *t) {
  td_trace_blame(t, td_status_node(s));
  lua_pushcfunction(L, check_step);
  lua_pushlightuserdata(L, s);
  (void)lua_pcall(L, 1, 0, 0);
  push_trace(L, t);
  if (lua_istable(L, -2))
    lua_setfield(L, -2, "trace");
  else
    lua_pop(L, 1);
  lua_error(L);
}

/* The list of what was fetched; takes ownership of it. */
static void push_list(lua_State *L, td_tensor *out, const td_lua_step *step,
                      bool as_values) {
  lua_createtable(L, step->n_results, 0);
  for (int k = 0, at = 0; k < step->n_results; k++) {
    if (step->is_op[k])
      lua_pushboolean(L, 1);
    else
      td_lua_push_result(L, &out[at++], as_values);
    lua_rawseti(L, -2, k + 1);
  }
}

/* s:core_run(fetches, feed edges, feed values, options) -> list [, trace] */
static int session_run(lua_State *L) {
  td_session *s = td_lua_to_session(L, 1);
  td_lua_wait w;
  td_lua_step step;
  lua_settop(L, 5);
  td_lua_step_options o = td_lua_step_read_options(L, 5);
  td_lua_growth_look(L, td_lua_session_growth(L, 1));
  td_lua_step_read(L, 2, 3, &step);
  td_tensor *out = td_lua_tensors(L, (size_t)step.n_fetches);
  td_tensor *in = td_lua_step_values(L, 4, &step);
  if (o.traced) td_lua_check(L, td_trace_new(&o.run.trace));
  td_signature sig = td_lua_step_signature(&step);
  td_lua_wait_begin(&w, L);
  td_status *e = td_session_run(s, &sig, in, out, &o.run);
  td_lua_wait_end(&w);
  if (!td_ok(e) && o.traced) raise_traced(L, e, o.run.trace);
  td_lua_check_step(L, e);
  if (o.traced) push_trace(L, o.run.trace);
  push_list(L, out, &step, o.as_values);
  if (!o.traced) return 1;
  lua_insert(L, -2);
  return 2;
}

/* "CPU:0" of this process, "/job:worker/task:1/device:CPU:0" of another. */
static void push_device_name(lua_State *L, const td_device *d) {
  const char *own = td_runtime_place(td_lua_get(L)->runtime);
  size_t len = strlen(own);
  if (strncmp(d->name, own, len) == 0 && d->name[len] == '/')
    lua_pushfstring(L, "%s:%d", d->type, (int)d->index);
  else
    luaL_gsub(L, d->name, "/replica:0", "");
}

/* A plan as {{device =, graph =}, ..., folded =, merged =, pruned =}. */
static int make_plan_table(lua_State *L) {
  const td_plan *p = lua_touserdata(L, 1);
  lua_createtable(L, p->n_parts, 3);
  for (int i = 0; i < p->n_parts; i++) {
    lua_createtable(L, 0, 2);
    push_device_name(L, p->parts[i].device);
    lua_setfield(L, -2, "device");
    td_lua_push_graph(L, td_graph_retain(p->parts[i].graph));
    lua_setfield(L, -2, "graph");
    lua_rawseti(L, -2, i + 1);
  }
  td_lua_set_integer(L, "folded", p->folded);
  td_lua_set_integer(L, "merged", p->merged);
  td_lua_set_integer(L, "pruned", p->pruned);
  return 1;
}

/* s:core_program(fetches, feed edges) -> the plan of such a step */
static int session_program(lua_State *L) {
  td_session *s = td_lua_to_session(L, 1);
  td_lua_step step;
  td_plan *plan = NULL;
  lua_settop(L, 3);
  td_lua_step_read(L, 2, 3, &step);
  td_signature sig = td_lua_step_signature(&step);
  td_lua_check(L, td_session_plan(s, &sig, &plan));
  lua_pushcfunction(L, make_plan_table);
  lua_pushlightuserdata(L, plan);
  int rc = lua_pcall(L, 1, 1, 0);
  td_plan_free(plan);
  return rc == LUA_OK ? 1 : lua_error(L);
}

TD_LUA_OPEN(step) {
  static const luaL_Reg methods[] = {{"core_run", session_run},
                                     {"core_program", session_program},
                                     {NULL, NULL}};
  td_lua_session_methods(L, methods);
}
