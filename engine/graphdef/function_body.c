/* function_body.c - a definition becomes nodes, in place of a call.
 *
 * A body is a GraphDef but for how it names tensors ("node:output:1", an
 * argument's name), so it is rewritten as one, with the attributes of the call
 * put in, and read like any file: every check there holds here. What the call
 * takes stands in for the arguments.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/graph/build.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/node_edit.h"
#include "engine/graphdef/function_body_impl.h"
#include "engine/graphdef/function_impl.h"
#include "engine/graph/infer_impl.h"

/* Functions that call others twice, these too, and so on, grow without end. */
enum { MAX_NODES = 1 << 20 };

typedef struct expansion {
  td_graph *g;
  const td_node *call;
  const td_edge *args; /* by input of the call */
  size_t *fill;        /* what repeated values may still grow to */
  td_arena arena;
  const Td__FunctionDef *def;
  Td__AttrEntry **attr; /* of the call: what placeholders stand for */
  size_t n_attr;
  td_names names;      /* arguments, then nodes */
  td_function_arg *in; /* by argument */
  int32_t *in_begin;   /* by argument: its first input of the call */
  const char **arg;    /* by input of the call: "x:1" when used, else NULL */
  const char **after;  /* the same: "^x:1" when something waits for it */
  Td__NodeDef **given; /* nodes with placeholders filled in, in their order */
  Td__NodeDef **node;  /* rewritten: calls by name are calls by attribute */
  const Td__OpDef **callee; /* by node: the signature it calls by name, else
                               NULL */
} expansion;

static td_status *bad(const expansion *x, const char *what, const char *name) {
  return td_error(TD_INVALID_ARGUMENT, "function \"%.100s\": %s \"%.100s\"",
                  x->def->signature->name, what, name);
}

/* ---- what is called ------------------------------------------------------ */

static td_status *read_attrs(expansion *x, const td_func_attr *f) {
  x->attr =
      td_arena_alloc(&x->arena, ((size_t)f->n_attrs + 1) * sizeof *x->attr);
  if (!x->attr) return td_oom();
  for (int i = 0; i < f->n_attrs; i++) {
    Td__AttrEntry *e = td_arena_alloc(&x->arena, sizeof *e);
    if (!e) return td_oom();
    td__attr_entry__init(e);
    e->key = (char *)f->attr_names[i];
    TD_TRY(td_graphdef_attr_out(&x->arena, &f->attrs[i], &e->value));
    x->attr[x->n_attr++] = e;
  }
  return NULL;
}

static td_status *read_def(expansion *x) {
  const td_attr *f = td_node_attr(x->call, "f");
  if (!f || f->kind != TD_ATTR_FUNC || f->is_list)
    return td_error(TD_INVALID_ARGUMENT, "a call that names no function");
  const td_bytes *def = td_function_find(x->g, f->func->name);
  if (!def)
    return td_error(TD_NOT_FOUND, "the graph has no function \"%.100s\"",
                    f->func->name);
  Td__FunctionDef *p;
  TD_TRY(td_graphdef_unpack(&td__function_def__descriptor, &x->arena, def->at,
                            def->len, &p));
  x->def = p;
  return read_attrs(x, f->func);
}

/* ---- names --------------------------------------------------------------- */

static td_status *check_arg(const expansion *x, int32_t at, int32_t type,
                            const char *name) {
  td_dtype given = td_edge_dtype(x->args[at]);
  if ((int32_t)given == type) return NULL;
  bool known = type > 0 && type < TD_DTYPES;
  return td_error(TD_INVALID_ARGUMENT,
                  "function \"%.100s\": argument \"%.100s\" is %s, not %s",
                  x->def->signature->name, name,
                  known ? td_dtype_name((td_dtype)type) : "of no known dtype",
                  td_dtype_name(given));
}

static td_status *read_args(expansion *x) {
  const Td__OpDef *sig = x->def->signature;
  size_t n = sig->n_input_arg;
  int32_t next = 0;
  x->in = td_arena_alloc(&x->arena, (n + 1) * sizeof *x->in);
  x->in_begin = td_arena_alloc(&x->arena, (n + 1) * sizeof *x->in_begin);
  x->arg =
      td_arena_alloc(&x->arena, ((size_t)x->call->n_in + 1) * sizeof *x->arg);
  x->after =
      td_arena_alloc(&x->arena, ((size_t)x->call->n_in + 1) * sizeof *x->after);
  if (!x->in || !x->in_begin || !x->arg || !x->after) return td_oom();
  for (size_t i = 0; i < n; i++) {
    const Td__OpDef__ArgDef *arg = sig->input_arg[i];
    td_names_add(&x->names, arg->name, strlen(arg->name), NULL);
    TD_TRY(td_function_arg_of(&x->arena, arg, x->attr, x->n_attr, &x->in[i]));
    x->in_begin[i] = next;
    for (size_t k = 0; k < x->in[i].count; k++, next++) {
      if (next >= x->call->n_in) break;
      TD_TRY(check_arg(x, next, x->in[i].types[k], arg->name));
    }
    if ((size_t)(next - x->in_begin[i]) < x->in[i].count) next = -1;
    if (next < 0) break;
  }
  if (next == x->call->n_in) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "function \"%.100s\" takes other than the %d tensors it is "
                  "given",
                  sig->name, x->call->n_in);
}

/* ---- tensors ------------------------------------------------------------- */

/* The number behind ":"; 0 without, -1 when it is none. */
static int64_t number(const char *text) {
  int64_t n = 0;
  if (!*text) return 0;
  if (!*++text) return -1;
  for (; *text; text++) {
    if (*text < '0' || *text > '9' || n > INT32_MAX) return -1;
    n = n * 10 + (*text - '0');
  }
  return n;
}

static bool is_name(const char *name, const char *text, size_t len) {
  return strlen(name) == len && memcmp(name, text, len) == 0;
}

/* The port where result `out` (`len` bytes) of node `n` begins; -1: it has no
 * such. */
static int64_t port_of(const Td__NodeDef *n, const char *out, size_t len) {
  const td_op *op = td_op_find(n->op);
  int64_t port = 0;
  for (int i = 0; op && i < op->n_out; i++) {
    if (is_name(op->out[i].name, out, len)) return port;
    int64_t count = td_graphdef_arg_count(op, &op->out[i], n);
    if (count < 0 || count > INT32_MAX) return -1;
    port += count;
  }
  return -1;
}

/* The same of a call by name: its results are called as the function calls
 * them. */
static td_status *called_port(expansion *x, size_t i, const char *out,
                              size_t len, int64_t *port) {
  const Td__OpDef *sig = x->callee[i];
  const Td__NodeDef *n = x->given[i];
  td_function_arg a;
  *port = 0;
  for (size_t k = 0; k < sig->n_output_arg; k++) {
    if (is_name(sig->output_arg[k]->name, out, len)) return NULL;
    TD_TRY(td_function_arg_of(&x->arena, sig->output_arg[k], n->attr, n->n_attr,
                              &a));
    *port += (int64_t)a.count;
    if (*port > INT32_MAX) break;
  }
  *port = -1;
  return NULL;
}

/* A data reference: an input of the call (*node NULL), or a port of a node. */
static td_status *resolve(expansion *x, const char *ref, int32_t *port,
                          const Td__NodeDef **node) {
  size_t len = strcspn(ref, ":");
  const td_name *n = td_names_find(&x->names, ref, len);
  if (!n) return bad(x, "no argument or node for input", ref);
  size_t at = (size_t)(n - x->names.at),
         n_args = x->def->signature->n_input_arg;
  *node = NULL;
  if (at < n_args) {
    int64_t k = number(ref + len);
    if (k < 0 || (uint64_t)k >= x->in[at].count)
      return bad(x, "an argument has no such tensor:", ref);
    *port = x->in_begin[at] + (int32_t)k;
    return NULL;
  }
  at -= n_args;
  const Td__NodeDef *def = x->node[at];
  const char *out = ref + len + 1;
  size_t out_len = strcspn(out, ":");
  int64_t first, k = number(out + out_len);
  if (x->callee[at])
    TD_TRY(called_port(x, at, out, out_len, &first));
  else
    first = port_of(def, out, out_len);
  if (first < 0 || k < 0 || first + k > INT32_MAX)
    return bad(x, "a node has no such output:", ref);
  *port = (int32_t)(first + k);
  *node = def;
  return NULL;
}

/* ---- nodes --------------------------------------------------------------- */

/* "loc:@node" names a node of the body, "loc:@arg" what the call is given for
 * it; what is neither says nothing here. *skip: such an entry. */
static td_status *put_group(expansion *x, ProtobufCBinaryData *s, bool *skip) {
  static const char loc[] = "loc:@";
  size_t head = sizeof loc - 1, n_args = x->def->signature->n_input_arg;
  const char *name = (const char *)s->data + head;
  *skip = false;
  if (s->len < head || memcmp(s->data, loc, head) != 0) return NULL;
  const td_name *n = td_names_find(&x->names, name, s->len - head);
  size_t at = n ? (size_t)(n - x->names.at) : 0;
  *skip = !n || (at < n_args && x->in[at].count == 0);
  if (*skip) return NULL;
  const char *call = x->call->name, *slash = "/", *own = n->text;
  if (at < n_args) {
    own = x->args[x->in_begin[at]].node->name;
    call = slash = "";
  }
  size_t size = head + strlen(call) + strlen(own) + 2;
  char *text = td_arena_alloc(&x->arena, size);
  if (!text) return td_oom();
  s->len = (size_t)snprintf(text, size, "%s%s%s%s", loc, call, slash, own);
  s->data = (uint8_t *)text;
  return NULL;
}

static td_status *put_class(expansion *x, Td__AttrEntry *e) {
  const Td__AttrValue *from = e->value;
  if (from->value_case != TD__ATTR_VALUE__VALUE_LIST) return NULL;
  Td__AttrValue *to = td_arena_alloc(&x->arena, sizeof *to);
  Td__ListValue *list = td_arena_alloc(&x->arena, sizeof *list);
  if (!to || !list) return td_oom();
  *to = *from;
  *list = *from->list;
  to->list = list;
  e->value = to;
  list->s = td_arena_alloc(&x->arena, (list->n_s + 1) * sizeof *list->s);
  if (!list->s) return td_oom();
  list->n_s = 0;
  for (size_t i = 0; i < from->list->n_s; i++) {
    bool skip;
    list->s[list->n_s] = from->list->s[i];
    TD_TRY(put_group(x, &list->s[list->n_s], &skip));
    list->n_s += !skip;
  }
  return NULL;
}

/* An attribute of the call in place of its placeholder. */
static td_status *put_value(expansion *x, Td__AttrEntry *e) {
  const char *name = e->value->placeholder;
  for (size_t i = 0; i < x->n_attr; i++) {
    e->value = x->attr[i]->value;
    if (strcmp(x->attr[i]->key, name) == 0) return NULL;
  }
  return bad(x, "the call gives no attribute", name);
}

static td_status *put_attr(expansion *x, const Td__AttrEntry *e,
                           Td__AttrEntry **out) {
  bool group = strcmp(e->key, "_class") == 0;
  *out = (Td__AttrEntry *)e;
  if (!e->value ||
      (!group && e->value->value_case != TD__ATTR_VALUE__VALUE_PLACEHOLDER))
    return NULL;
  Td__AttrEntry *copy = td_arena_alloc(&x->arena, sizeof *copy);
  if (!copy) return td_oom();
  *copy = *e;
  *out = copy;
  return group ? put_class(x, copy) : put_value(x, copy);
}

static td_status *put_node(expansion *x, size_t at) {
  const Td__NodeDef *from = x->def->node_def[at];
  Td__NodeDef *to = td_arena_alloc(&x->arena, sizeof *to);
  if (!to) return td_oom();
  *to = *from;
  to->attr = td_arena_alloc(&x->arena, (from->n_attr + 1) * sizeof *to->attr);
  if (!to->attr) return td_oom();
  for (size_t i = 0; i < from->n_attr; i++)
    TD_TRY(put_attr(x, from->attr[i], &to->attr[i]));
  x->given[at] = x->node[at] = to;
  const td_bytes *f =
      td_op_find(to->op) ? NULL : td_function_find(x->g, to->op);
  return f ? td_function_as_call(&x->arena, f, to, &x->node[at], &x->callee[at])
           : NULL;
}

static td_status *print(expansion *x, char **out, const char *name,
                        int32_t port) {
  size_t size = strlen(name) + sizeof ":2147483647";
  *out = td_arena_alloc(&x->arena, size);
  if (!*out) return td_oom();
  snprintf(*out, size, "%s:%d", name, port);
  return NULL;
}

/* "#3" stands for input 3 of the call: no name of a node's. */
/* "^arg" waits for what makes the first of its tensors; for none where it has
 * none (*ref becomes NULL). */
static td_status *put_control(expansion *x, char **ref) {
  const char *name = *ref + 1;
  const td_name *n = td_names_find(&x->names, name, strlen(name));
  size_t at = n ? (size_t)(n - x->names.at) : SIZE_MAX;
  if (at >= x->def->signature->n_input_arg) return NULL;
  *ref = NULL;
  if (x->in[at].count == 0) return NULL;
  TD_TRY(print(x, ref, "^#", x->in_begin[at]));
  x->after[x->in_begin[at]] = *ref;
  return NULL;
}

static td_status *put_input(expansion *x, char **ref) {
  const Td__NodeDef *node;
  int32_t port;
  if (**ref == '^') return put_control(x, ref);
  TD_TRY(resolve(x, *ref, &port, &node));
  if (node) return print(x, ref, node->name, port);
  TD_TRY(print(x, ref, "#", port));
  x->arg[port] = *ref;
  return NULL;
}

static td_status *put_inputs(expansion *x, Td__NodeDef *n) {
  char **input = td_arena_alloc(&x->arena, (n->n_input + 1) * sizeof *input);
  size_t kept = 0;
  if (!input) return td_oom();
  for (size_t i = 0; i < n->n_input; i++) {
    input[kept] = n->input[i];
    TD_TRY(put_input(x, &input[kept]));
    kept += input[kept] != NULL;
  }
  n->input = input;
  n->n_input = kept;
  return NULL;
}

static td_status *put_nodes(expansion *x) {
  const Td__FunctionDef *f = x->def;
  size_t n = f->n_node_def;
  x->given = td_arena_alloc(&x->arena, (n + 1) * sizeof *x->given);
  x->node = td_arena_alloc(&x->arena, (n + 1) * sizeof *x->node);
  x->callee = td_arena_alloc(&x->arena, (n + 1) * sizeof *x->callee);
  if (!x->given || !x->node || !x->callee) return td_oom();
  for (size_t i = 0; i < n; i++)
    td_names_add(&x->names, f->node_def[i]->name, strlen(f->node_def[i]->name),
                 NULL);
  for (size_t i = 0; i < n; i++) TD_TRY(put_node(x, i));
  for (size_t i = 0; i < n; i++) TD_TRY(put_inputs(x, x->node[i]));
  return NULL;
}

/* ---- into the graph ------------------------------------------------------ */

static td_status *add_nodes(expansion *x) {
  size_t n = (size_t)x->call->n_in;
  const char **names = td_arena_alloc(&x->arena, (2 * n + 1) * sizeof *names);
  td_edge *edges = td_arena_alloc(&x->arena, (2 * n + 1) * sizeof *edges);
  Td__GraphDef def;
  td_graphdef_options o = {
      .prefix = x->call->name, .names = names, .edges = edges};
  if (!names || !edges) return td_oom();
  for (size_t i = 0; i < 2 * n; i++) {
    names[o.n_inputs] = i < n ? x->arg[i] : x->after[i - n];
    edges[o.n_inputs] = x->args[i % n];
    o.n_inputs += names[o.n_inputs] != NULL;
  }
  td__graph_def__init(&def);
  def.version = TD_GRAPHDEF_VERSION;
  def.node = x->node;
  def.n_node = x->def->n_node_def;
  if ((size_t)td_graph_size(x->g) + def.n_node > MAX_NODES)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "with function \"%.100s\" the graph has more than %d nodes",
                    x->def->signature->name, MAX_NODES);
  return td_graphdef_add(x->g, &def, &o, x->g, x->fill);
}

/* The node of the graph that node `name` of the body became. */
static td_status *made(expansion *x, const char *name, td_node **out) {
  size_t size = strlen(x->call->name) + strlen(name) + 2;
  char *full = td_arena_alloc(&x->arena, size);
  if (!full) return td_oom();
  snprintf(full, size, "%s/%s", x->call->name, name);
  *out = td_graph_find(x->g, full);
  return *out ? NULL : bad(x, "no node", name);
}

static td_status *add_results(expansion *x, const char *ref, size_t count,
                              td_function_body *out) {
  const Td__NodeDef *node;
  int32_t port;
  TD_TRY(resolve(x, ref, &port, &node));
  td_node *n = NULL;
  if (node) TD_TRY(made(x, node->name, &n));
  int32_t end = node ? n->n_out : x->call->n_in;
  for (size_t k = 0; k < count; k++, port++) {
    int i = out->n_results;
    if (i >= x->call->n_out)
      return td_error(
          TD_INVALID_ARGUMENT,
          "function \"%.100s\" gives more tensors than the call, %d",
          x->def->signature->name, x->call->n_out);
    if (port >= end)
      return bad(x, "there are not as many tensors as results in", ref);
    td_edge e = node ? (td_edge){n, port} : x->args[port];
    if (td_edge_dtype(e) != x->call->out[i].dtype)
      return td_error(TD_INVALID_ARGUMENT,
                      "function \"%.100s\": result \"%.100s\" is %s, the call "
                      "says %s",
                      x->def->signature->name, ref,
                      td_dtype_name(td_edge_dtype(e)),
                      td_dtype_name(x->call->out[i].dtype));
    out->results[out->n_results++] = e;
  }
  return NULL;
}

static td_status *find_results(expansion *x, td_function_body *out) {
  const Td__OpDef *sig = x->def->signature;
  for (size_t i = 0; i < sig->n_output_arg; i++) {
    const Td__OpDef__ArgDef *arg = sig->output_arg[i];
    td_function_arg a;
    size_t r = 0;
    while (strcmp(x->def->ret[r]->key, arg->name) != 0) r++; /* it is there */
    TD_TRY(td_function_arg_of(&x->arena, arg, x->attr, x->n_attr, &a));
    TD_TRY(add_results(x, x->def->ret[r]->value, a.count, out));
  }
  if (out->n_results == x->call->n_out) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "function \"%.100s\" gives %d tensors, the call %d",
                  sig->name, out->n_results, x->call->n_out);
}

static td_status *find_controls(expansion *x, td_function_body *out) {
  for (size_t i = 0; i < x->def->n_control_ret; i++) {
    TD_TRY(made(x, x->def->control_ret[i]->value, &out->controls[i]));
    out->n_controls++;
  }
  return NULL;
}

static td_status *expand(expansion *x, td_function_body *out) {
  TD_TRY(read_def(x));
  size_t names = x->def->signature->n_input_arg + x->def->n_node_def;
  out->results = td_calloc((size_t)x->call->n_out + 1, sizeof(td_edge));
  out->controls = td_calloc(x->def->n_control_ret + 1, sizeof *out->controls);
  if (!out->results || !out->controls || !td_names_reserve(&x->names, names))
    return td_oom();
  TD_TRY(read_args(x));
  TD_TRY(put_nodes(x));
  out->begin = td_graph_size(x->g);
  TD_TRY(add_nodes(x));
  TD_TRY(find_results(x, out));
  return find_controls(x, out);
}

td_status *td_function_expand(td_graph *g, const td_node *call,
                              const td_edge *args, size_t *fill,
                              td_function_body *out) {
  expansion x = {.g = g, .call = call, .args = args, .fill = fill};
  *out = (td_function_body){0};
  td_arena_init(&x.arena);
  td_status *s = expand(&x, out);
  td_names_deinit(&x.names);
  td_arena_deinit(&x.arena);
  if (!td_ok(s)) td_function_body_deinit(out);
  return td_node_blame(s, call);
}

void td_function_body_deinit(td_function_body *b) {
  td_free(b->results);
  td_free(b->controls);
  *b = (td_function_body){0};
}

/* ---- shapes -------------------------------------------------------------- */

/* In `g`, what input `from` of a call is known to be: what has no inputs (a
 * constant, a handle) as it is. */
static td_status *stand_for(td_graph *g, td_edge from, td_edge *out) {
  td_build b;
  td_node *n;
  td_edge source = td_infer_handle_source(from);
  if (td_edge_dtype(from) == TD_RESOURCE && source.node) from = source;
  if (from.node->n_in == 0 && from.node->n_out == 1) {
    const char *name;
    TD_TRY(td_graph_unique(g, "arg", &name));
    TD_TRY(td_graph_clone_node(g, from.node, name, NULL, NULL, 0, &n));
  } else {
    td_build_init(&b, g, "Placeholder", "arg");
    td_build_attr(&b, "dtype", td_attr_type(td_edge_dtype(from)));
    td_build_attr(&b, "shape", td_attr_shape(td_edge_shape(from)));
    TD_TRY(td_build_node(&b, &n));
  }
  *out = (td_edge){n, 0};
  return NULL;
}

static td_status *infer_in(td_graph *g, td_node *call, td_edge *args) {
  td_function_body body;
  td_node *copy;
  td_status *s = NULL;
  size_t fill = TD_FUNCTION_FILL;
  for (int i = 0; i < call->n_in; i++)
    TD_TRY(stand_for(g, call->in[i], &args[i]));
  TD_TRY(td_graph_clone_node(g, call, call->name, args, NULL, 0, &copy));
  TD_TRY(td_function_expand(g, copy, args, &fill, &body));
  for (int i = 0; i < body.n_results && td_ok(s); i++)
    s = td_node_set_shape(call, i, td_edge_shape(body.results[i]));
  td_function_body_deinit(&body);
  return s;
}

td_status *td_function_infer(td_node *call) {
  td_graph *g;
  TD_TRY(td_graph_new(&g));
  td_edge *args = td_calloc((size_t)call->n_in + 1, sizeof *args);
  td_status *s = args ? td_function_copy(call->graph, g) : td_oom();
  if (td_ok(s)) s = infer_in(g, call, args);
  td_free(args);
  td_graph_release(g);
  return s;
}
