/* candidate.c - classes drawn beside the true ones, and how often each is to be
 * expected.
 *
 * For losses over many classes that look at a few. A run draws num_sampled
 * classes; unique ones are drawn until that many differ, and then a class of
 * probability p is expected 1 - (1 - p)^tries times, else p num_sampled times.
 * Each sampler is a stateful op with a stream of its own; that of learned
 * unigrams counts the true classes it has seen.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/candidate.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/file.h"
#include "kernels/random.h"

typedef enum form { ALL, UNIFORM, LOG_UNIFORM, LEARNED, FIXED } form;

typedef struct sampler {
  void *stream; /* of random.c */
  form form;
  int64_t range;
  double log_range;
  pthread_mutex_t mutex;
  td_candidate_tree seen; /* mutex: of LEARNED */
  td_candidate_alias table;
  float *weights; /* of FIXED */
  float total;
} sampler;

/* ---- fixed unigrams ------------------------------------------------------ */

/* Collects the weights of the classes that belong to this shard. */
typedef struct reader {
  sampler *s;
  int64_t class, kept; /* classes read, and kept */
  int64_t shards, shard;
  float distortion;
} reader;

static td_status *keep(reader *r, float weight, bool reserved) {
  sampler *s = r->s;
  if (r->class ++ % r->shards != r->shard) return NULL;
  if (!(weight >= 0) || isinf(weight))
    return td_error(TD_INVALID_ARGUMENT,
                    "unigrams must be finite and not negative, class %lld is "
                    "%g",
                    (long long)(r->class - 1), (double)weight);
  if (r->kept == s->range)
    return td_error(TD_INVALID_ARGUMENT,
                    "there are more unigrams than range_max = %lld",
                    (long long)s->range);
  float w = reserved ? 0 : powf(weight, r->distortion);
  s->weights[r->kept++] = w;
  s->total += w;
  return NULL;
}

/* The last field of each line, fields being separated by commas. */
static td_status *keep_lines(reader *r, char *at) {
  for (int64_t line = 1; *at; line++) {
    size_t n = strcspn(at, "\n");
    char *next = at + n + (at[n] != 0), *end;
    at[n] = 0;
    char *comma = strrchr(at, ',');
    const char *field = comma ? comma + 1 : at;
    float weight = strtof(field, &end);
    if (n > 0 && (end == field || strspn(end, " \t\r") != strlen(end)))
      return td_error(TD_INVALID_ARGUMENT,
                      "line %lld of the vocabulary ends in \"%.40s\", which is "
                      "no number",
                      (long long)line, field);
    if (n > 0) TD_TRY(keep(r, weight, false));
    at = next;
  }
  return NULL;
}

static td_status *keep_file(reader *r, const char *path) {
  enum { LIMIT = 1 << 30 };
  char *bytes;
  size_t n;
  TD_TRY(td_file_read(path, LIMIT, &bytes, &n));
  td_status *s = strlen(bytes) == n
                     ? keep_lines(r, bytes)
                     : td_error(TD_INVALID_ARGUMENT,
                                "\"%s\" is no text: it has a zero byte", path);
  td_free(bytes);
  return s;
}

static td_status *read_unigrams(reader *r, const td_node *n) {
  const td_attr *list = td_node_attr(n, "unigrams");
  const char *path = td_node_string(n, "vocab_file");
  int64_t reserved = td_node_int(n, "num_reserved_ids");
  bool given = list && list->len > 0;
  if (given == (path[0] != 0))
    return td_error(TD_INVALID_ARGUMENT,
                    "give either unigrams or vocab_file, not %s",
                    given ? "both" : "neither");
  for (int64_t i = 0; i < reserved; i++) TD_TRY(keep(r, 0, true));
  for (int i = 0; given && i < list->len; i++)
    TD_TRY(keep(r, list->fs[i], false));
  return given ? NULL : keep_file(r, path);
}

static td_status *make_fixed(sampler *s, const td_node *n) {
  reader r = {.s = s,
              .shards = td_node_int(n, "num_shards"),
              .shard = td_node_int(n, "shard"),
              .distortion = td_node_float(n, "distortion")};
  if (r.shards < 1 || r.shard < 0 || r.shard >= r.shards)
    return td_error(TD_INVALID_ARGUMENT, "shard %lld is not one of %lld",
                    (long long)r.shard, (long long)r.shards);
  s->weights = td_calloc((size_t)s->range, sizeof *s->weights);
  if (!s->weights) return td_oom();
  TD_TRY(read_unigrams(&r, n));
  if (r.kept != s->range)
    return td_error(TD_INVALID_ARGUMENT,
                    "range_max is %lld, and there are %lld unigrams",
                    (long long)s->range, (long long)r.kept);
  if (!(s->total > 0) || isinf(s->total))
    return td_error(TD_INVALID_ARGUMENT,
                    "unigrams must have a finite sum above 0, not %g",
                    (double)s->total);
  return td_candidate_alias_init(&s->table, s->weights, s->range);
}

/* ---- state --------------------------------------------------------------- */

static void drop(void *state) {
  sampler *s = state;
  if (s->stream) td_random_drop(s->stream);
  td_candidate_tree_deinit(&s->seen);
  td_candidate_alias_deinit(&s->table);
  td_free(s->weights);
  pthread_mutex_destroy(&s->mutex);
  td_free(s);
}

static form form_of(const td_node *n) {
  static const char *const names[] = {"All", "Uniform", "LogUniform",
                                      "LearnedUnigram"};
  for (size_t i = 0; i < TD_COUNT(names); i++)
    if (strncmp(n->op->type, names[i], strlen(names[i])) == 0) return (form)i;
  return FIXED;
}

/* Classes that can be drawn at all. */
static int64_t drawable(const sampler *s) {
  int64_t n = 0;
  for (int64_t i = 0; s->form == FIXED && i < s->range; i++)
    n += s->weights[i] > 0;
  return s->form == FIXED ? n : s->range;
}

static td_status *check_unique(const sampler *s, const td_node *n) {
  int64_t wanted = td_node_int(n, "num_sampled"), have = drawable(s);
  if (s->form == ALL || !td_node_bool(n, "unique") || wanted <= have)
    return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "%lld unique classes cannot be drawn from %lld; lower "
                  "num_sampled or set unique to false",
                  (long long)wanted, (long long)have);
}

static td_status *fill(sampler *s, const td_kernel_info *info) {
  const td_node *n = info->node;
  s->form = form_of(n);
  s->range = td_node_int(n, s->form == ALL ? "num_sampled" : "range_max");
  s->log_range = log1p((double)s->range);
  bool table = s->form == LEARNED || s->form == FIXED;
  if (table && s->range >= INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT, "range_max must be below %d, is %lld",
                    INT32_MAX, (long long)s->range);
  TD_TRY(td_random_make(info, &s->stream));
  if (s->form == LEARNED) TD_TRY(td_candidate_tree_init(&s->seen, s->range));
  if (s->form == FIXED) TD_TRY(make_fixed(s, n));
  return check_unique(s, n);
}

static td_status *make(const td_kernel_info *info, void **state) {
  sampler *s = td_calloc(1, sizeof *s);
  if (!s) return td_oom();
  pthread_mutex_init(&s->mutex, NULL);
  td_status *st = fill(s, info);
  if (td_ok(st))
    *state = s;
  else
    drop(s);
  return st;
}

/* The length of the stream's bytes, these, and what LEARNED has counted. */
static td_status *save(const void *state, td_str *out) {
  sampler *s = (sampler *)state;
  td_str stream;
  td_str_init(&stream);
  td_status *st = td_random_save(s->stream, &stream);
  td_bytes_put(out, stream.len, 4);
  td_str_addn(out, td_str_c(&stream), stream.len);
  td_str_deinit(&stream);
  pthread_mutex_lock(&s->mutex);
  if (s->form == LEARNED) td_candidate_tree_save(&s->seen, out);
  pthread_mutex_unlock(&s->mutex);
  return td_ok(st) && out->failed ? td_oom() : st;
}

/* The counts are looked at first, then the stream's bytes, which are the last
 * that can be refused. */
static td_status *load(void *state, td_bytes from) {
  sampler *s = state;
  uint64_t len;
  td_bytes stream;
  size_t seen = s->form == LEARNED ? 8 + 4 * (size_t)s->range : 0;
  if (!td_bytes_get(&from, 4, &len) ||
      !td_bytes_take(&from, (size_t)len, &stream) || from.len != seen ||
      (seen > 0 && !td_candidate_tree_loads(&s->seen, from)))
    return td_error(TD_DATA_LOSS, "these are not the bytes of a sampler");
  TD_TRY(td_random_load(s->stream, stream));
  pthread_mutex_lock(&s->mutex);
  if (seen > 0) td_candidate_tree_load(&s->seen, from);
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

/* ---- drawing ------------------------------------------------------------- */

static int64_t pick(const sampler *s, td_candidate_words *w) {
  switch (s->form) {
  case UNIFORM:
    return (int64_t)td_candidate_below64(w, (uint64_t)s->range);
  case LOG_UNIFORM: {
    double x = exp(td_candidate_double(w) * s->log_range);
    return ((int64_t)fmin(x, 0x1p62) - 1) % s->range;
  }
  case LEARNED:
    return td_candidate_tree_pick(&s->seen, w);
  case FIXED:
    return td_candidate_alias_pick(&s->table, w);
  default:
    return 0;
  }
}

static float probability(const sampler *s, int64_t class) {
  double k = (double)class;
  bool inside = class >= 0 && class < s->range;
  switch (s->form) {
  case UNIFORM:
    return 1.0f / (float)s->range;
  case LOG_UNIFORM:
    return (float)(log((k + 2) / (k + 1)) / s->log_range);
  case LEARNED:
    return (float)td_candidate_tree_weight(&s->seen, class) /
           (float)s->seen.total;
  case FIXED:
    return inside ? s->weights[class] / s->total : 0;
  default:
    return 1;
  }
}

static float expected(const sampler *s, int64_t class, int64_t samples,
                      int64_t tries) {
  float p = probability(s, class);
  if (s->form == ALL) return 1;
  if (tries == samples) return p * (float)samples;
  return -expm1f((float)tries * log1pf(-p));
}

/* A set of classes, open addressing; 2^bits slots, half of them empty. */
typedef struct seen_set {
  int64_t *slot; /* class + 1; 0: empty */
  int bits;
} seen_set;

/* True when the class is new. */
static bool put(seen_set *set, int64_t class) {
  uint64_t mask = (UINT64_C(1) << set->bits) - 1;
  uint64_t at = (uint64_t) class * UINT64_C(0x9e3779b97f4a7c15) >> 32 & mask;
  while (set->slot[at] != 0) {
    if (set->slot[at] == class + 1) return false;
    at = (at + 1) & mask;
  }
  set->slot[at] = class + 1;
  return true;
}

static td_status *draw_unique(td_kernel_ctx *c, const sampler *s,
                              td_candidate_words *w, int64_t n, int64_t *to,
                              int64_t *tries) {
  seen_set set = {.bits = 1};
  int64_t have = 0;
  while (set.bits < 62 && INT64_C(1) << set.bits < 2 * n) set.bits++;
  set.slot = td_calloc((size_t)1 << set.bits, sizeof *set.slot);
  if (!set.slot) return td_oom();
  for (*tries = 0; have < n && *tries < INT32_MAX; ++*tries) {
    int64_t class = pick(s, w);
    if (put(&set, class)) to[have++] = class;
    if (*tries % 65536 == 0 && td_stopped(c)) break;
  }
  td_free(set.slot);
  if (have == n || td_stopped(c)) return NULL;
  return td_error(TD_RESOURCE_EXHAUSTED,
                  "%lld tries drew %lld unique classes of the %lld wanted; "
                  "lower num_sampled or set unique to false",
                  (long long)*tries, (long long)have, (long long)n);
}

static td_status *draw(td_kernel_ctx *c, sampler *s, td_candidate_words *w,
                       int64_t n, int64_t *to, int64_t *tries) {
  *tries = n;
  if (s->form != ALL && td_node_bool(td_ctx_node(c), "unique"))
    return draw_unique(c, s, w, n, to, tries);
  for (int64_t i = 0; i < n; i++) to[i] = s->form == ALL ? i : pick(s, w);
  return NULL;
}

/* ---- the samplers -------------------------------------------------------- */

static td_status *check_true(const td_shape *s, int64_t num_true) {
  td_shape_text text;
  bool fits =
      s->rank < 0 || (s->rank == 2 && (s->dim[1] < 0 || s->dim[1] == num_true));
  if (fits) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "true_classes must be of shape {batch, num_true = %lld}, not "
                  "%s",
                  (long long)num_true, td_shape_str(s, &text));
}

static td_status *infer_sampler(td_infer *c) {
  const td_shape *s = td_infer_in(c, 0);
  int64_t num_true = td_infer_int(c, "num_true");
  td_shape drawn = td_shape_vector(td_infer_int(c, "num_sampled"));
  TD_TRY(check_true(s, num_true));
  td_infer_out(c, 0, drawn);
  td_infer_out(c, 1, td_shape_matrix(s->rank == 2 ? s->dim[0] : -1, num_true));
  td_infer_out(c, 2, drawn);
  return NULL;
}

static td_status *check_range(const sampler *s, const td_tensor *seen) {
  const int64_t *class = seen->data;
  int64_t n = td_tensor_count(seen);
  for (int64_t i = 0; i < n; i++)
    if (class[i] < 0 || class[i] >= s->range)
      return td_error(TD_INVALID_ARGUMENT,
                      "true_classes has %lld, which is not in [0, %lld)",
                      (long long)class[i], (long long)s -> range);
  return NULL;
}

static void learn(sampler *s, const td_tensor *seen) {
  const int64_t *class = seen->data;
  int64_t n = s->form == LEARNED ? td_tensor_count(seen) : 0;
  for (int64_t i = 0; i < n; i++) td_candidate_tree_add(&s->seen, class[i]);
}

static td_status *run_sampler(td_kernel_ctx *c) {
  enum { WORDS = 2048 }; /* reserved for each sample */
  sampler *s = c->kernel->state;
  const td_tensor *seen = td_in(c, 0);
  int64_t n = td_node_int(td_ctx_node(c), "num_sampled"), tries = 0;
  td_tensor *classes, *of_true, *of_drawn;
  td_shape drawn = td_shape_vector(n);
  TD_TRY(check_true(&seen->shape, td_node_int(td_ctx_node(c), "num_true")));
  TD_TRY(check_range(s, seen));
  TD_TRY(td_out(c, 0, &drawn, &classes));
  TD_TRY(td_out(c, 1, &seen->shape, &of_true));
  TD_TRY(td_out(c, 2, &drawn, &of_drawn));
  td_candidate_words w = {
      .stream = td_random_reserve_of(c, s->stream, (uint64_t)n * (WORDS / 4))};
  pthread_mutex_lock(&s->mutex);
  td_status *st = draw(c, s, &w, n, classes->data, &tries);
  const int64_t *from[] = {seen->data, classes->data};
  float *to[] = {of_true->data, of_drawn->data};
  for (int k = 0; td_ok(st) && k < 2; k++)
    for (int64_t i = 0; i < (k ? n : td_tensor_count(seen)); i++)
      to[k][i] = expected(s, from[k][i], n, tries);
  if (td_ok(st)) learn(s, seen);
  pthread_mutex_unlock(&s->mutex);
  return st;
}

/* ---- rows ---------------------------------------------------------------- */

#define SAMPLED                                                                \
  "true_classes: int64 -> sampled_candidates: int64, true_expected_count: "    \
  "float, sampled_expected_count: float; num_true: int >= 1; "                 \
  "num_sampled: int >= 1; unique: bool; "
#define SEEDS "seed: int = 0; seed2: int = 0"
#define SAMPLER(name, lua_name, attrs, text, call)                             \
  {                                                                            \
    .type = name "CandidateSampler", .sig = SAMPLED attrs SEEDS,               \
    .shape = infer_sampler, .doc = text, .lua = lua_name "_candidate_sampler", \
    .flags = TD_STATEFUL | TD_NO_GRADIENT,                                     \
    .example = "td." lua_name "_candidate_sampler({{0}}, {num_true = 1, "      \
               "num_sampled = 2, unique = false" call,                         \
    .section = "Candidate sampling, embeddings, CTC"                           \
  }

static const td_op_def ops[] = {
    SAMPLER("All", "all", "",
            "All classes, for a sampled loss that is to be compared.",
            "})  --> 0 1"),
    SAMPLER("Uniform", "uniform", "range_max: int >= 1; ",
            "Classes drawn uniformly, and how often each is expected.",
            ", range_max = 1})  --> 0 0"),
    SAMPLER("LogUniform", "log_uniform", "range_max: int >= 1; ",
            "Classes drawn by Zipf's law, the first the most often.",
            ", range_max = 1})  --> 0 0"),
    SAMPLER("LearnedUnigram", "learned_unigram", "range_max: int >= 1; ",
            "Classes drawn as often as they were true in runs before.",
            ", range_max = 1})  --> 0 0"),
    SAMPLER("FixedUnigram", "fixed_unigram",
            "range_max: int >= 1; vocab_file: string = \"\"; "
            "distortion: float = 1.0; num_reserved_ids: int = 0; "
            "num_shards: int >= 1 = 1; shard: int >= 0 = 0; "
            "unigrams: list(float) = {}; ",
            "Classes drawn by given frequencies to the power of distortion.",
            ", range_max = 2, unigrams = {0.0, 3.0}})  --> 1 1"),
    {0},
};

#define CPU(name)                                                              \
  {                                                                            \
    .op = name "CandidateSampler", .device = "CPU", .run = run_sampler,        \
    .make = make, .drop = drop, .save = save, .load = load                     \
  }

static const td_kernel_def kernels[] = {
    CPU("All"),          CPU("Uniform"),
    CPU("LogUniform"),   CPU("LearnedUnigram"),
    CPU("FixedUnigram"), {0},
};

TD_MODULE(candidate, ops, kernels)
