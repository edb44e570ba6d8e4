/* cudnn_graph.c - a convolution as a graph of cuDNN's, and plans for it.
 *
 * A graph has one operation. The library names engines that could compute it,
 * best first, and says of each in notes how exact it is; what is not exact
 * enough, or not the same in every run, is passed over, and so is what would be
 * compiled now, which takes seconds: it has ready ones for all convolutions
 * that come here. A plan is an engine that the library agreed to set up.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/cudnn.h"

#include <string.h>

#include "engine/base/mem.h"

enum {
  LISTED = 64, /* engines that are looked at of one list */
  ALIGNED = 16,
  X = 1, /* names of operands in a graph */
  W = 2,
  Y = 3,
  /* cudnnDataType_t */
  FLOAT = 0,
  DOUBLE = 1,
  HALF = 2,
  BFLOAT16 = 9,
};

/* ---- what is convolved ----------------------------------------------------
 */

static int64_t alignment_of(const void *p) {
  uintptr_t low = (uintptr_t)p & (ALIGNED - 1);
  return low ? (int64_t)(low & -low) : ALIGNED;
}

/* {n, c, axes}, laid out as {n, axes, c}, or as it stands. */
static void put_tensor(td_cudnn_tensor *t, int64_t n, int64_t c,
                       const int64_t *size, int axes, bool channels_first,
                       int64_t alignment) {
  int64_t step = channels_first ? 1 : c;
  t->dims[0] = n;
  t->dims[1] = c;
  for (int i = axes; i-- > 0; step *= size[i]) {
    t->dims[2 + i] = size[i];
    t->strides[2 + i] = step;
  }
  t->strides[1] = channels_first ? step : 1;
  t->strides[0] = channels_first ? step * c : step;
  t->alignment = alignment;
}

void td_cudnn_conv_of(const td_conv_plan *p, td_dtype t, const void *x,
                      const void *y, td_cudnn_conv *out) {
  const td_conv *c = &p->conv;
  int axes = p->rule.axes, first = TD_CONV_AXES - axes;
  bool outer = p->rule.channels_first;
  memset(out, 0, sizeof *out);
  put_tensor(&out->x, c->batch, c->in_channels, c->in + first, axes, outer,
             alignment_of(x));
  put_tensor(&out->w, c->out_channels, c->in_channels / c->groups,
             c->filter + first, axes, outer, ALIGNED);
  put_tensor(&out->y, c->batch, c->out_channels, c->out + first, axes, outer,
             alignment_of(y));
  for (int i = 0; i < axes; i++) {
    out->before[i] = c->before[first + i];
    out->after[i] = c->after[first + i];
    out->stride[i] = c->stride[first + i];
    out->dilation[i] = c->dilation[first + i];
  }
  out->axes = axes;
  out->pass = (int32_t)p->pass;
  out->dtype = (int32_t)t;
  if (t == TD_FLOAT32) out->precision = (int32_t)td_precision_get().matmul;
}

/* ---- descriptors --------------------------------------------------------- */

/* All descriptors of one graph, ended together. After the first error nothing
 * more is done. */
typedef struct graph {
  const td_cudnn_card *card;
  void *made[12];
  int n;
  int error;
  const char *what; /* where */
} graph;

static void fail(graph *g, int e, const char *what) {
  if (g->error || !e) return;
  g->error = e;
  g->what = what;
}

static void *make(graph *g, int type, const char *what) {
  void *d = NULL;
  if (g->error) return NULL;
  fail(g, g->card->api->BackendCreateDescriptor(type, &d), what);
  if (!g->error) g->made[g->n++] = d;
  return d;
}

static void set(graph *g, void *d, int name, int type, int64_t n,
                const void *at, const char *what) {
  if (!g->error)
    fail(g, g->card->api->BackendSetAttribute(d, name, type, n, at), what);
}

static void set_one(graph *g, void *d, int name, void *of, const char *what) {
  set(g, d, name, TD_CUDNN_BACKEND_DESCRIPTOR, 1, &of, what);
}

static void finish(graph *g, void *d, const char *what) {
  if (!g->error) fail(g, g->card->api->BackendFinalize(d), what);
}

static void end(graph *g) {
  while (g->n > 0)
    (void)g->card->api->BackendDestroyDescriptor(g->made[--g->n]);
}

static td_status *error_of(const graph *g) {
  return g->error ? td_cudnn_error(g->card->api, g->error, g->what) : NULL;
}

/* ---- the graph ----------------------------------------------------------- */

static int type_of(int32_t dtype) {
  switch (dtype) {
  case TD_FLOAT16:
    return HALF;
  case TD_BFLOAT16:
    return BFLOAT16;
  case TD_FLOAT64:
    return DOUBLE;
  default:
    return FLOAT;
  }
}

static void *tensor(graph *g, const td_cudnn_conv *v, const td_cudnn_tensor *t,
                    int64_t name) {
  static const char what[] = "a tensor";
  int type = type_of(v->dtype), rank = 2 + v->axes;
  void *d = make(g, TD_CUDNN_TENSOR, what);
  set(g, d, TD_CUDNN_TENSOR_DATA_TYPE, TD_CUDNN_DATA_TYPE, 1, &type, what);
  set(g, d, TD_CUDNN_TENSOR_DIMENSIONS, TD_CUDNN_INT64, rank, t->dims, what);
  set(g, d, TD_CUDNN_TENSOR_STRIDES, TD_CUDNN_INT64, rank, t->strides, what);
  set(g, d, TD_CUDNN_TENSOR_UNIQUE_ID, TD_CUDNN_INT64, 1, &name, what);
  set(g, d, TD_CUDNN_TENSOR_BYTE_ALIGNMENT, TD_CUDNN_INT64, 1, &t->alignment,
      what);
  finish(g, d, what);
  return d;
}

static void *convolution(graph *g, const td_cudnn_conv *v) {
  static const char what[] = "a convolution";
  int type = v->dtype == TD_FLOAT64 ? DOUBLE : FLOAT;
  int mode = TD_CUDNN_CROSS_CORRELATION;
  int64_t axes = v->axes;
  const struct {
    int name;
    const int64_t *at;
  } lists[] = {{TD_CUDNN_CONVOLUTION_DILATIONS, v->dilation},
               {TD_CUDNN_CONVOLUTION_FILTER_STRIDES, v->stride},
               {TD_CUDNN_CONVOLUTION_PRE_PADDINGS, v->before},
               {TD_CUDNN_CONVOLUTION_POST_PADDINGS, v->after}};
  void *d = make(g, TD_CUDNN_CONVOLUTION, what);
  set(g, d, TD_CUDNN_CONVOLUTION_COMP_TYPE, TD_CUDNN_DATA_TYPE, 1, &type, what);
  set(g, d, TD_CUDNN_CONVOLUTION_CONV_MODE, TD_CUDNN_CONVOLUTION_MODE, 1, &mode,
      what);
  set(g, d, TD_CUDNN_CONVOLUTION_SPATIAL_DIMS, TD_CUDNN_INT64, 1, &axes, what);
  for (size_t i = 0; i < TD_COUNT(lists); i++)
    set(g, d, lists[i].name, TD_CUDNN_INT64, axes, lists[i].at, what);
  finish(g, d, what);
  return d;
}

/* Attributes of the three operations stand in one order: two factors, the
 * convolution, the filter, x, y. */
static void *operation(graph *g, const td_cudnn_conv *v) {
  static const char what[] = "an operation";
  static const struct {
    int type, first;
  } of[] = {{TD_CUDNN_CONVOLUTION_FORWARD, TD_CUDNN_FORWARD_ALPHA},
            {TD_CUDNN_CONVOLUTION_DATA, TD_CUDNN_DATA_ALPHA},
            {TD_CUDNN_CONVOLUTION_FILTER, TD_CUDNN_FILTER_ALPHA}};
  const double one = 1, zero = 0;
  int name = of[v->pass].first;
  void *w = tensor(g, v, &v->w, W), *x = tensor(g, v, &v->x, X);
  void *y = tensor(g, v, &v->y, Y), *conv = convolution(g, v);
  void *d = make(g, of[v->pass].type, what);
  set(g, d, name, TD_CUDNN_DOUBLE, 1, &one, what);
  set(g, d, name + 1, TD_CUDNN_DOUBLE, 1, &zero, what);
  set_one(g, d, name + 2, conv, what);
  set_one(g, d, name + 3, w, what);
  set_one(g, d, name + 4, x, what);
  set_one(g, d, name + 5, y, what);
  finish(g, d, what);
  return d;
}

static void *describe(graph *g, const td_cudnn_conv *v) {
  static const char what[] = "a graph";
  void *op = operation(g, v), *handle = g->card->handle;
  void *d = make(g, TD_CUDNN_OPERATIONGRAPH, what);
  set_one(g, d, TD_CUDNN_GRAPH_OPS, op, what);
  if (handle)
    set(g, d, TD_CUDNN_GRAPH_HANDLE, TD_CUDNN_HANDLE, 1, &handle, what);
  finish(g, d, what);
  return d;
}

/* ---- engines ------------------------------------------------------------- */

/* Notes as bits; all of them where they cannot be read. */
static unsigned notes_of(const td_cudnn_api *api, const void *engine, int name,
                         int type) {
  int notes[32];
  int64_t n = 0;
  unsigned bits = 0;
  if (api->BackendGetAttribute(engine, name, type, TD_COUNT(notes), &n, notes))
    return ~0u;
  for (int64_t i = 0; i < n && i < (int64_t)TD_COUNT(notes); i++)
    if (notes[i] >= 0 && notes[i] < 32) bits |= 1u << notes[i];
  return bits;
}

/* Of a configuration; NULL: no memory. Caller owns the result. */
static void *engine_of(const td_cudnn_api *api, const void *config) {
  void *engine = NULL;
  int64_t n = 0;
  if (api->BackendCreateDescriptor(TD_CUDNN_ENGINE, &engine)) return NULL;
  if (!api->BackendGetAttribute(config, TD_CUDNN_ENGINECFG_ENGINE,
                                TD_CUDNN_BACKEND_DESCRIPTOR, 1, &n, &engine))
    return engine;
  (void)api->BackendDestroyDescriptor(engine);
  return NULL;
}

/* What must not be said of an engine. */
static unsigned refused(const td_cudnn_conv *v) {
  unsigned never =
      1u << TD_CUDNN_NONDETERMINISTIC | 1u << TD_CUDNN_REDUCED_REDUCTION;
  unsigned core = 1u << TD_CUDNN_TENSOR_CORE;
  unsigned down = 1u << TD_CUDNN_DOWN_CONVERT;
  if (v->dtype == TD_FLOAT16 || v->dtype == TD_BFLOAT16) return never | down;
  if (v->dtype == TD_FLOAT64) return never | down; /* of doubles, exact too */
  return v->precision == TD_PRECISION_FLOAT32 ? never | down | core : never;
}

static bool fits(const td_cudnn_api *api, const td_cudnn_conv *v,
                 const void *config) {
  void *engine = engine_of(api, config);
  if (!engine) return false;
  unsigned exact = notes_of(api, engine, TD_CUDNN_ENGINE_NUMERICAL_NOTE,
                            TD_CUDNN_NUMERICAL_NOTE);
  unsigned ways = notes_of(api, engine, TD_CUDNN_ENGINE_BEHAVIOR_NOTE,
                           TD_CUDNN_BEHAVIOR_NOTE);
  (void)api->BackendDestroyDescriptor(engine);
  return !(exact & refused(v)) && !(ways & 1u << TD_CUDNN_COMPILED_NOW);
}

/* The engines of one list, into `out`; how many. What is left in `out` is the
 * caller's. */
static int list_engines(const td_cudnn_card *card, void *graph_, int mode,
                        void **out) {
  const td_cudnn_api *api = card->api;
  graph g = {.card = card};
  int64_t n = 0;
  void *d = make(&g, TD_CUDNN_ENGINEHEUR, "");
  set_one(&g, d, TD_CUDNN_ENGINEHEUR_OPERATION_GRAPH, graph_, "");
  set(&g, d, TD_CUDNN_ENGINEHEUR_MODE, TD_CUDNN_HEUR_MODE, 1, &mode, "");
  set_one(&g, d, TD_CUDNN_ENGINEHEUR_DEVICEPROP, card->props, "");
  finish(&g, d, "");
  for (int i = 0; i < LISTED; i++) {
    out[i] = NULL;
    if (!g.error)
      fail(&g, api->BackendCreateDescriptor(TD_CUDNN_ENGINECFG, &out[i]), "");
  }
  if (!g.error)
    fail(&g,
         api->BackendGetAttribute(d, TD_CUDNN_ENGINEHEUR_RESULTS,
                                  TD_CUDNN_BACKEND_DESCRIPTOR, LISTED, &n, out),
         "");
  end(&g);
  return g.error ? 0 : n < LISTED ? (int)n : LISTED;
}

/* ---- plans --------------------------------------------------------------- */

static int64_t number_of(const td_cudnn_api *api, const void *d, int name) {
  int64_t n = 0, number = -1;
  int e = api->BackendGetAttribute(d, name, TD_CUDNN_INT64, 1, &n, &number);
  return e || n != 1 ? -1 : number;
}

/* Of a configuration, or (NULL) of text. False: the library will not. */
static bool set_up(const td_cudnn_card *card, void *config, const char *json,
                   size_t len, td_cudnn_plan *out) {
  const td_cudnn_api *api = card->api;
  graph g = {.card = card};
  void *handle = card->handle;
  void *d = make(&g, TD_CUDNN_EXECUTION_PLAN, "");
  if (config) set_one(&g, d, TD_CUDNN_PLAN_ENGINE_CONFIG, config, "");
  if (json)
    set(&g, d, TD_CUDNN_PLAN_JSON, TD_CUDNN_CHAR, (int64_t)len + 1, json, "");
  if (handle) set(&g, d, TD_CUDNN_PLAN_HANDLE, TD_CUDNN_HANDLE, 1, &handle, "");
  if (!handle) set_one(&g, d, TD_CUDNN_PLAN_DEVICEPROP, card->props, "");
  finish(&g, d, "");
  int64_t size = g.error ? -1 : number_of(api, d, TD_CUDNN_PLAN_WORKSPACE_SIZE);
  if (size < 0) {
    end(&g);
    return false;
  }
  out->desc = d; /* what follows it in `g` there is not */
  out->workspace = (size_t)size;
  return true;
}

/* The first of a list that will do, from `place` on; it is taken out. */
static bool choose(const td_cudnn_card *card, const td_cudnn_conv *v,
                   void **configs, int n, int first, int place, size_t room,
                   td_cudnn_plan *out) {
  for (int i = 0; i < n; i++) {
    if (first + i < place || !fits(card->api, v, configs[i])) continue;
    if (!set_up(card, configs[i], NULL, 0, out)) continue;
    if (out->workspace <= room) {
      out->config = configs[i];
      out->place = first + i;
      configs[i] = NULL;
      return true;
    }
    td_cudnn_plan_deinit(card, out);
  }
  return false;
}

td_status *td_cudnn_plan_make(const td_cudnn_card *card, const td_cudnn_conv *v,
                              int place, size_t room, td_cudnn_plan *out) {
  static const int modes[] = {TD_CUDNN_A, TD_CUDNN_FALLBACK};
  void *configs[LISTED];
  graph g = {.card = card};
  bool found = false;
  int first = 0;
  *out = (td_cudnn_plan){0};
  void *d = describe(&g, v);
  for (size_t m = 0; !g.error && !found && m < TD_COUNT(modes); m++) {
    int n = list_engines(card, d, modes[m], configs);
    found = choose(card, v, configs, n, first, place, room, out);
    for (int i = 0; i < LISTED; i++)
      if (configs[i]) (void)card->api->BackendDestroyDescriptor(configs[i]);
    first += n;
  }
  td_status *s = error_of(&g);
  end(&g);
  if (td_ok(s) && !found)
    s = td_error(TD_NOT_FOUND, "cuDNN has no engine for it, of %d", first);
  return s;
}

void td_cudnn_plan_deinit(const td_cudnn_card *card, td_cudnn_plan *p) {
  if (p->desc) (void)card->api->BackendDestroyDescriptor(p->desc);
  if (p->config) (void)card->api->BackendDestroyDescriptor(p->config);
  *p = (td_cudnn_plan){0};
}

int64_t td_cudnn_plan_engine(const td_cudnn_card *card,
                             const td_cudnn_plan *p) {
  void *engine = p->config ? engine_of(card->api, p->config) : NULL;
  if (!engine) return -1;
  int64_t number = number_of(card->api, engine, TD_CUDNN_ENGINE_GLOBAL_INDEX);
  (void)card->api->BackendDestroyDescriptor(engine);
  return number;
}

/* ---- text ---------------------------------------------------------------- */

td_status *td_cudnn_plan_write(const td_cudnn_card *card,
                               const td_cudnn_plan *p, td_str *out) {
  const td_cudnn_api *api = card->api;
  int64_t n = 0;
  int e = api->BackendGetAttribute(p->desc, TD_CUDNN_PLAN_JSON, TD_CUDNN_CHAR,
                                   0, &n, NULL);
  if (e || n <= 0 || n > 1 << 24)
    return td_cudnn_error(api, e, "the size of a plan as text");
  char *text = td_calloc((size_t)n + 1, 1);
  if (!text) return td_oom();
  e = api->BackendGetAttribute(p->desc, TD_CUDNN_PLAN_JSON, TD_CUDNN_CHAR, n,
                               &n, text);
  if (!e) td_str_add(out, text);
  td_free(text);
  if (e) return td_cudnn_error(api, e, "a plan as text");
  return out->failed ? td_oom() : NULL;
}

td_status *td_cudnn_plan_read(const td_cudnn_card *card, const char *json,
                              td_cudnn_plan *out) {
  *out = (td_cudnn_plan){0};
  if (set_up(card, NULL, json, strlen(json), out)) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "cuDNN does not take a plan of %zu bytes", strlen(json));
}

/* ---- running ------------------------------------------------------------- */

td_status *td_cudnn_plan_run(const td_cudnn_card *card, const td_cudnn_plan *p,
                             const td_cudnn_run *r) {
  static const char what[] = "a convolution's operands";
  static const int64_t names[] = {X, W, Y};
  const void *at[] = {r->x, r->w, r->y};
  void *workspace = r->workspace;
  graph g = {.card = card};
  void *d = make(&g, TD_CUDNN_VARIANT_PACK, what);
  set(&g, d, TD_CUDNN_PACK_UNIQUE_IDS, TD_CUDNN_INT64, 3, names, what);
  set(&g, d, TD_CUDNN_PACK_DATA_POINTERS, TD_CUDNN_VOID_PTR, 3, at, what);
  set(&g, d, TD_CUDNN_PACK_WORKSPACE, TD_CUDNN_VOID_PTR, 1, &workspace, what);
  finish(&g, d, what);
  if (!g.error)
    fail(&g, card->api->BackendExecute(card->handle, p->desc, d),
         "a convolution");
  td_status *s = error_of(&g);
  end(&g);
  return s;
}
