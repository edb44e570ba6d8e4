/* cudnn.c - a libcudnn.so.9 for the fake runtime: convolutions by their
 * definition, on its streams.
 *
 * Descriptors keep what they are given, whatever it is, and finalizing checks
 * it: sizes that do not fit together, filters in a layout that the real one has
 * no engines for, addresses less aligned than was promised and missing working
 * memory are refused; working memory is written over. Plans are written as text
 * and read again.
 *
 * TIDE_FAKE_FAIL "cudnnBackendExecute:2:5000", as the fake runtime's functions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cudnn.h"
#include "tests/cuda/fake/fake_cudnn.h"

#define API TD_FAKE_EXPORT

td_fake_cudnn_counts td_fake_cudnn;
#define ONE_MORE(of) __atomic_fetch_add(&td_fake_cudnn.of, 1, __ATOMIC_RELAXED)
#define ONE_LESS(of) __atomic_fetch_sub(&td_fake_cudnn.of, 1, __ATOMIC_RELAXED)

enum {
  OK = 0,
  NOT_INITIALIZED = 1001,
  WRONG = 2000,
  NOT_SUPPORTED = 3000,
  ATTRIBUTES = 16,
  WORKSPACE = 1000,
  ENGINE_NUMBER =
      1, /* attributes of our own: of engines, their configurations */
  GRAPH = 2,
};

static int refuse(int e) {
  ONE_MORE(refused);
  return e;
}

/* ---- descriptors --------------------------------------------------------- */

typedef struct attribute {
  int name, type;
  int64_t n;
  void *at;
} attribute;

/* One operand, as the plan has it. */
typedef struct operand {
  int64_t dims[TD_CUDNN_RANK], strides[TD_CUDNN_RANK], alignment, name;
} operand;

typedef struct conv {
  int64_t engine, pass, type, axes;
  operand w, x, y;
  int64_t before[3], after[3], stride[3], dilation[3];
} conv;

typedef struct desc {
  int type, refs, n;
  bool final;
  attribute at[ATTRIBUTES];
  conv of; /* of a plan */
} desc;

static size_t size_of(int type) {
  switch (type) {
  case TD_CUDNN_CHAR:
  case TD_CUDNN_BOOLEAN:
    return 1;
  case TD_CUDNN_INT64:
  case TD_CUDNN_DOUBLE:
  case TD_CUDNN_VOID_PTR:
  case TD_CUDNN_HANDLE:
  case TD_CUDNN_BACKEND_DESCRIPTOR:
    return 8;
  default:
    return 4;
  }
}

static void drop(desc *d) {
  if (--d->refs) return;
  for (int i = 0; i < d->n; i++) {
    if (d->at[i].type == TD_CUDNN_BACKEND_DESCRIPTOR)
      for (int64_t k = 0; k < d->at[i].n; k++) drop(((desc **)d->at[i].at)[k]);
    free(d->at[i].at);
  }
  ONE_LESS(descriptors);
  free(d);
}

API int cudnnBackendCreateDescriptor(int type, void **out) {
  desc *d = calloc(1, sizeof *d);
  d->type = type;
  d->refs = 1;
  ONE_MORE(descriptors);
  *out = d;
  return OK;
}

API int cudnnBackendDestroyDescriptor(void *d) {
  drop(d);
  return OK;
}

static int put(desc *d, int name, int type, int64_t n, const void *at) {
  size_t bytes = size_of(type) * (size_t)n;
  if (d->n == ATTRIBUTES || n < 0) return refuse(WRONG);
  attribute *a = &d->at[d->n++];
  *a = (attribute){name, type, n, malloc(bytes + 1)};
  memcpy(a->at, at, bytes);
  if (type == TD_CUDNN_BACKEND_DESCRIPTOR)
    for (int64_t i = 0; i < n; i++) ((desc **)a->at)[i]->refs++;
  return OK;
}

API int cudnnBackendSetAttribute(void *to, int name, int type, int64_t n,
                                 const void *at) {
  desc *d = to;
  return d->final ? refuse(WRONG) : put(d, name, type, n, at);
}

static const attribute *find(const desc *d, int name) {
  for (int i = 0; i < d->n; i++)
    if (d->at[i].name == name) return &d->at[i];
  return NULL;
}

/* Up to n numbers of an attribute. */
static int64_t numbers(const desc *d, int name, int64_t *out, int64_t n) {
  const attribute *a = find(d, name);
  if (!a || a->n > n) return 0;
  for (int64_t i = 0; i < a->n; i++)
    out[i] = size_of(a->type) == 8 ? ((int64_t *)a->at)[i] : ((int *)a->at)[i];
  return a->n;
}

static int64_t number(const desc *d, int name) {
  int64_t n = -1;
  (void)numbers(d, name, &n, 1);
  return n;
}

static const desc *of(const desc *d, int name) {
  const attribute *a = find(d, name);
  return a && a->type == TD_CUDNN_BACKEND_DESCRIPTOR && a->n == 1
             ? *(desc **)a->at
             : NULL;
}

/* ---- what must fit ------------------------------------------------------- */

static bool take_operand(const desc *t, int rank, operand *o) {
  o->alignment = number(t, TD_CUDNN_TENSOR_BYTE_ALIGNMENT);
  o->name = number(t, TD_CUDNN_TENSOR_UNIQUE_ID);
  return numbers(t, TD_CUDNN_TENSOR_DIMENSIONS, o->dims, rank) == rank &&
         numbers(t, TD_CUDNN_TENSOR_STRIDES, o->strides, rank) == rank;
}

/* Dense, in this order of its axes. */
static bool is_laid_out(const operand *o, int rank, bool first) {
  int64_t step = first ? 1 : o->dims[1];
  for (int i = rank; i-- > 2; step *= o->dims[i])
    if (o->strides[i] != step) return false;
  if (o->strides[1] != (first ? step : 1)) return false;
  return o->strides[0] == (first ? step * o->dims[1] : step);
}

static bool is_whole(const conv *c) {
  int rank = 2 + (int)c->axes;
  bool same = false;
  for (int first = 0; first < 2; first++)
    same |= is_laid_out(&c->x, rank, first) &&
            is_laid_out(&c->w, rank, first) && is_laid_out(&c->y, rank, first);
  bool fits = same && c->x.dims[0] == c->y.dims[0] &&
              c->w.dims[0] == c->y.dims[1] && c->w.dims[1] > 0 &&
              c->x.dims[1] % c->w.dims[1] == 0 &&
              c->y.dims[1] % (c->x.dims[1] / c->w.dims[1]) == 0;
  for (int i = 0; fits && i < c->axes; i++) {
    int64_t extent = (c->w.dims[2 + i] - 1) * c->dilation[i] + 1;
    int64_t seen = c->x.dims[2 + i] + c->before[i] + c->after[i] - extent;
    fits = seen >= 0 && c->before[i] >= 0 && c->after[i] >= 0 &&
           c->y.dims[2 + i] == seen / c->stride[i] + 1;
  }
  return fits;
}

static bool take_conv(const desc *op, conv *c) {
  int first = op->type == TD_CUDNN_CONVOLUTION_FORWARD ? TD_CUDNN_FORWARD_ALPHA
              : op->type == TD_CUDNN_CONVOLUTION_DATA  ? TD_CUDNN_DATA_ALPHA
                                                       : TD_CUDNN_FILTER_ALPHA;
  const desc *v = of(op, first + 2), *w = of(op, first + 3);
  const desc *x = of(op, first + 4), *y = of(op, first + 5);
  if (!v || !w || !x || !y) return false;
  int n = (int)number(v, TD_CUDNN_CONVOLUTION_SPATIAL_DIMS);
  c->axes = n;
  c->pass = op->type == TD_CUDNN_CONVOLUTION_FORWARD ? TD_CONV_FORWARD
            : op->type == TD_CUDNN_CONVOLUTION_DATA  ? TD_CONV_DATA
                                                     : TD_CONV_WEIGHTS;
  c->type = number(x, TD_CUDNN_TENSOR_DATA_TYPE);
  return n > 0 && n <= 3 && take_operand(w, n + 2, &c->w) &&
         take_operand(x, n + 2, &c->x) && take_operand(y, n + 2, &c->y) &&
         numbers(v, TD_CUDNN_CONVOLUTION_PRE_PADDINGS, c->before, 3) == n &&
         numbers(v, TD_CUDNN_CONVOLUTION_POST_PADDINGS, c->after, 3) == n &&
         numbers(v, TD_CUDNN_CONVOLUTION_FILTER_STRIDES, c->stride, 3) == n &&
         numbers(v, TD_CUDNN_CONVOLUTION_DILATIONS, c->dilation, 3) == n &&
         is_whole(c);
}

/* ---- plans --------------------------------------------------------------- */

static size_t workspace_of(const conv *c) {
  return c->engine == TD_FAKE_LAST ? 0 : WORKSPACE;
}

static int read_plan(desc *d, const attribute *json) {
  const char *at = json->at;
  int64_t *to = (int64_t *)&d->of;
  for (size_t i = 0; i < sizeof d->of / sizeof *to; i++) {
    char *end;
    to[i] = strtoll(at, &end, 10);
    if (end == at) return refuse(WRONG);
    at = end;
  }
  return OK;
}

static int finish_plan(desc *d) {
  const attribute *json = find(d, TD_CUDNN_PLAN_JSON);
  const desc *config = of(d, TD_CUDNN_PLAN_ENGINE_CONFIG);
  if (json) return read_plan(d, json);
  if (!config) return refuse(WRONG);
  const desc *op = of(of(config, GRAPH), TD_CUDNN_GRAPH_OPS);
  d->of.engine = number(config, ENGINE_NUMBER);
  return take_conv(op, &d->of) ? OK : refuse(NOT_SUPPORTED);
}

API int cudnnBackendFinalize(void *of_) {
  desc *d = of_;
  conv c = {0};
  bool op = d->type == TD_CUDNN_CONVOLUTION_FORWARD ||
            d->type == TD_CUDNN_CONVOLUTION_DATA ||
            d->type == TD_CUDNN_CONVOLUTION_FILTER;
  if (op && !take_conv(d, &c)) return refuse(WRONG);
  if (d->type == TD_CUDNN_EXECUTION_PLAN) {
    int e =
        td_fake_call("cudnnBackendFinalize") ? NOT_SUPPORTED : finish_plan(d);
    if (e) return e;
  }
  d->final = true;
  return OK;
}

/* ---- what is asked ------------------------------------------------------- */

static int list_engines(const desc *d, int64_t room, int64_t *n, void *at) {
  bool last = number(d, TD_CUDNN_ENGINEHEUR_MODE) == TD_CUDNN_FALLBACK;
  const desc *graph = of(d, TD_CUDNN_ENGINEHEUR_OPERATION_GRAPH);
  int64_t first = last ? TD_FAKE_LAST : 0, most = last ? 1 : TD_FAKE_LAST;
  if (td_fake_call("heuristics")) return NOT_SUPPORTED;
  ONE_MORE(asked);
  *n = most < room ? most : room;
  for (int64_t i = 0; i < *n; i++) {
    desc *config = ((desc **)at)[i];
    int64_t engine = first + i;
    (void)put(config, ENGINE_NUMBER, TD_CUDNN_INT64, 1, &engine);
    (void)put(config, GRAPH, TD_CUDNN_BACKEND_DESCRIPTOR, 1, &graph);
  }
  return OK;
}

static int give_engine(const desc *config, int64_t *n, void *at) {
  desc *engine = *(desc **)at;
  const desc *graph = of(config, GRAPH);
  int64_t which = number(config, ENGINE_NUMBER);
  *n = 1;
  (void)put(engine, GRAPH, TD_CUDNN_BACKEND_DESCRIPTOR, 1, &graph);
  return put(engine, ENGINE_NUMBER, TD_CUDNN_INT64, 1, &which);
}

static int give_notes(const desc *engine, int name, int64_t *n, int *at) {
  int64_t which = number(engine, ENGINE_NUMBER);
  conv c = {0};
  (void)take_conv(of(of(engine, GRAPH), TD_CUDNN_GRAPH_OPS), &c);
  *n = 0;
  if (name == TD_CUDNN_ENGINE_BEHAVIOR_NOTE) {
    if (which == TD_FAKE_COMPILED) at[(*n)++] = TD_CUDNN_COMPILED_NOW;
    return OK;
  }
  if (which == TD_FAKE_RANDOM) at[(*n)++] = TD_CUDNN_NONDETERMINISTIC;
  if (which == TD_FAKE_CORES) at[(*n)++] = TD_CUDNN_TENSOR_CORE;
  if (which == TD_FAKE_CORES && c.type == 0) at[(*n)++] = TD_CUDNN_DOWN_CONVERT;
  return OK;
}

static int give_text(const char *text, int64_t room, int64_t *n, char *at) {
  int64_t len = (int64_t)strlen(text) + 1;
  *n = room && room < len ? room : len;
  if (room) memcpy(at, text, (size_t)*n);
  return OK;
}

static int give_plan(const desc *d, int64_t room, int64_t *n, char *at) {
  char text[4096] = "";
  const int64_t *from = (const int64_t *)&d->of;
  size_t len = 0;
  for (size_t i = 0; i < sizeof d->of / sizeof *from; i++)
    len += (size_t)snprintf(text + len, sizeof text - len, "%lld ",
                            (long long)from[i]);
  return give_text(text, room, n, at);
}

static int give_number(int64_t value, int64_t *n, void *at) {
  *n = 1;
  memcpy(at, &value, sizeof value);
  return OK;
}

API int cudnnBackendGetAttribute(const void *of_, int name, int type,
                                 int64_t room, int64_t *n, void *at) {
  const desc *d = of_;
  (void)type;
  switch (name) {
  case TD_CUDNN_ENGINEHEUR_RESULTS:
    return list_engines(d, room, n, at);
  case TD_CUDNN_ENGINECFG_ENGINE:
    return give_engine(d, n, at);
  case TD_CUDNN_ENGINE_NUMERICAL_NOTE:
  case TD_CUDNN_ENGINE_BEHAVIOR_NOTE:
    return give_notes(d, name, n, at);
  case TD_CUDNN_ENGINE_GLOBAL_INDEX:
    return give_number(number(d, ENGINE_NUMBER), n, at);
  case TD_CUDNN_PLAN_WORKSPACE_SIZE:
    return give_number((int64_t)workspace_of(&d->of), n, at);
  case TD_CUDNN_PLAN_JSON:
    return give_plan(d, room, n, at);
  case TD_CUDNN_DEVICEPROP_JSON:
    return give_text("{\"deviceName\": \"fake\"}", room, n, at);
  default:
    return refuse(NOT_SUPPORTED);
  }
}

/* ---- handles ------------------------------------------------------------- */

typedef struct handle {
  void *stream;
} handle;

API size_t cudnnGetVersion(void) {
  return 91900;
}

API const char *cudnnGetErrorString(int status) {
  return status == OK ? "OK" : "an error of the fake cuDNN";
}

API void cudnnGetLastErrorString(char *text, size_t room) {
  if (room) *text = '\0';
}

API int cudnnCreate(void **out) {
  if (td_fake_call("cudnnCreate")) return NOT_INITIALIZED;
  *out = calloc(1, sizeof(handle));
  ONE_MORE(handles);
  return OK;
}

API int cudnnDestroy(void *h) {
  free(h);
  ONE_LESS(handles);
  return OK;
}

API int cudnnSetStream(void *h, void *stream) {
  ((handle *)h)->stream = stream;
  return OK;
}

/* ---- running ------------------------------------------------------------- */

typedef struct job {
  conv of;
  void *w, *x, *y, *workspace;
} job;

static double load(int64_t type, const void *at, int64_t i) {
  uint16_t half;
  uint32_t word;
  float f;
  _Float16 h;
  switch (type) {
  case 0:
    return ((const float *)at)[i];
  case 1:
    return ((const double *)at)[i];
  case 2:
    memcpy(&h, (const uint16_t *)at + i, 2);
    return (double)h;
  default:
    half = ((const uint16_t *)at)[i];
    word = (uint32_t)half << 16;
    memcpy(&f, &word, 4);
    return f;
  }
}

static void store(int64_t type, void *at, int64_t i, double v) {
  uint32_t word;
  float f = (float)v;
  _Float16 h = (_Float16)f;
  switch (type) {
  case 0:
    ((float *)at)[i] = f;
    break;
  case 1:
    ((double *)at)[i] = v;
    break;
  case 2:
    memcpy((uint16_t *)at + i, &h, 2);
    break;
  default:
    memcpy(&word, &f, 4);
    if (f == f) word += 0x7fff + (word >> 16 & 1);
    ((uint16_t *)at)[i] = (uint16_t)(word >> 16);
  }
}

/* What is computed, in doubles. */
static double *sums;

/* Takes i apart into n numbers below `sizes`. */
static void split(int64_t i, const int64_t *sizes, int n, int64_t *out) {
  while (n-- > 0) {
    out[n] = i % sizes[n];
    i /= sizes[n];
  }
}

static int64_t place(const operand *o, int rank, const int64_t *at) {
  int64_t i = 0;
  for (int k = 0; k < rank; k++) i += at[k] * o->strides[k];
  return i;
}

static int64_t count(const operand *o, int rank) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= o->dims[k];
  return n;
}

/* One place of y with one element of a filter. */
static void visit(const job *j, const int64_t *y, const int64_t *w) {
  const conv *c = &j->of;
  int rank = 2 + (int)c->axes;
  int64_t groups = c->x.dims[1] / c->w.dims[1];
  int64_t x[TD_CUDNN_RANK] = {
      y[0], y[1] / (c->y.dims[1] / groups) * c->w.dims[1] + w[1]};
  for (int i = 2; i < rank; i++) {
    x[i] =
        y[i] * c->stride[i - 2] - c->before[i - 2] + w[i] * c->dilation[i - 2];
    if (x[i] < 0 || x[i] >= c->x.dims[i]) return;
  }
  int64_t at_x = place(&c->x, rank, x), at_w = place(&c->w, rank, w);
  int64_t at_y = place(&c->y, rank, y);
  if (c->pass == TD_CONV_FORWARD)
    sums[at_y] += load(c->type, j->x, at_x) * load(c->type, j->w, at_w);
  else if (c->pass == TD_CONV_DATA)
    sums[at_x] += load(c->type, j->y, at_y) * load(c->type, j->w, at_w);
  else
    sums[at_w] += load(c->type, j->x, at_x) * load(c->type, j->y, at_y);
}

static void convolve(const job *j) {
  const conv *c = &j->of;
  int rank = 2 + (int)c->axes;
  int64_t places = count(&c->y, rank),
          window = count(&c->w, rank) / c->w.dims[0];
  for (int64_t i = 0; i < places; i++)
    for (int64_t k = 0; k < window; k++) {
      int64_t y[TD_CUDNN_RANK], w[TD_CUDNN_RANK];
      split(i, c->y.dims, rank, y);
      split(k, c->w.dims + 1, rank - 1, w + 1);
      w[0] = y[1];
      visit(j, y, w);
    }
}

static void run(void *arg) {
  job *j = arg;
  const conv *c = &j->of;
  const operand *made[] = {&c->y, &c->x, &c->w};
  void *to[] = {j->y, j->x, j->w};
  int64_t n = count(made[c->pass], 2 + (int)c->axes);
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  sums = calloc((size_t)n, sizeof *sums);
  if (j->workspace) memset(j->workspace, 0xff, workspace_of(c));
  convolve(j);
  for (int64_t i = 0; i < n; i++) store(c->type, to[c->pass], i, sums[i]);
  free(sums);
  pthread_mutex_unlock(&lock);
  free(j);
}

/* NULL: it is not among them, or not as aligned as was promised. */
static void *pointer_of(const desc *pack, const operand *o) {
  const attribute *names = find(pack, TD_CUDNN_PACK_UNIQUE_IDS);
  const attribute *at = find(pack, TD_CUDNN_PACK_DATA_POINTERS);
  for (int64_t i = 0; names && at && i < names->n && i < at->n; i++) {
    void *p = ((void **)at->at)[i];
    if (((int64_t *)names->at)[i] == o->name)
      return (uintptr_t)p % (uintptr_t)o->alignment ? NULL : p;
  }
  return NULL;
}

API int cudnnBackendExecute(void *h, void *plan, void *pack) {
  const conv *c = &((desc *)plan)->of;
  void *workspace = NULL;
  if (td_fake_call("cudnnBackendExecute")) return 5000;
  job *j = calloc(1, sizeof *j);
  int64_t given = number(pack, TD_CUDNN_PACK_WORKSPACE);
  memcpy(&workspace, &given, sizeof given);
  *j = (job){*c, pointer_of(pack, &c->w), pointer_of(pack, &c->x),
             pointer_of(pack, &c->y), workspace};
  if (!j->w || !j->x || !j->y || (workspace_of(c) && !workspace)) {
    free(j);
    return refuse(WRONG);
  }
  td_fake_untag_words(&j->w, 4 * sizeof j->w);
  ONE_MORE(ran[c->engine]);
  return td_fake_enqueue(((handle *)h)->stream, run, free, j) ? 5000 : OK;
}
