/* file_ops.c - whole files and their names: ReadFile, WriteFile, MatchingFiles,
 * ShardedFilename, ShardedFilespec.
 *
 * What touches files is an errand (errand.h). Not computed ahead: a file may
 * change between the plan and the step.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/file_system.h"
#include "engine/base/mem.h"
#include "engine/io/matching.h"
#include "kernels/cost.h"
#include "kernels/errand.h"
#include "kernels/operand.h"
#include "kernels/text.h"

static const size_t file_limit = (size_t)1 << 36;

static bool failed(td_kernel_ctx *c, td_status *s) {
  if (td_ok(s)) return false;
  td_kernel_done(c, s);
  return true;
}

/* Input i, a name of a file, for the caller to free. */
static td_status *copy_name(const td_tensor *t, int64_t i, char **out) {
  td_bytes name = td_text_at(t, i);
  if (memchr(name.at, 0, name.len))
    return td_error(TD_INVALID_ARGUMENT, "a file's name holds a NUL");
  *out = td_strndup(name.at, name.len);
  return *out ? NULL : td_oom();
}

static td_status *name_of(const td_kernel_ctx *c, int i, const char *what,
                          char **out) {
  if (td_in(c, i)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "%s must be a scalar", what);
  return copy_name(td_in(c, i), 0, out);
}

/* ---- ReadFile and WriteFile ---------------------------------------------- */

typedef struct transfer {
  td_errand base; /* first */
  char *path;
  td_tensor contents; /* WriteFile: a share; ReadFile: what was read */
} transfer;

static void transfer_drop(td_errand *e) {
  transfer *t = (transfer *)e;
  td_free(t->path);
  td_tensor_release(&t->contents);
  td_free(t);
}

static td_status *read_file(td_errand *e) {
  transfer *t = (transfer *)e;
  td_shape scalar = td_shape_scalar();
  char *bytes;
  size_t len;
  TD_TRY(td_file_read(t->path, file_limit, &bytes, &len));
  const char *at = bytes;
  td_status *s = td_tensor_strings(&scalar, &at, &len, &t->contents);
  td_free(bytes);
  return s;
}

static td_status *give_contents(td_errand *e, td_kernel_ctx *c) {
  td_out_set(c, 0, &((transfer *)e)->contents);
  return NULL;
}

static td_status *make_folders_of(const char *path) {
  const char *prefix = td_file_system_of(path)->prefix;
  const char *first = path + (prefix ? strlen(prefix) : 1);
  const char *slash = *path ? strrchr(path, '/') : NULL;
  if (!slash || slash < first) return NULL;
  char *folder = td_strndup(path, (size_t)(slash - path));
  if (!folder) return td_oom();
  td_status *s = td_file_mkdirs(folder);
  td_free(folder);
  return s;
}

static td_status *write_file(td_errand *e) {
  transfer *t = (transfer *)e;
  td_bytes b = td_text_at(&t->contents, 0);
  TD_TRY(make_folders_of(t->path));
  return td_file_write(t->path, b.at, b.len);
}

static void start_transfer(td_kernel_ctx *c, const td_errand_kind *kind,
                           bool writes) {
  transfer *t = td_calloc(1, sizeof *t);
  td_status *s = t ? NULL : td_oom();
  if (td_ok(s) && writes && td_in(c, 1)->shape.rank != 0)
    s = td_error(TD_INVALID_ARGUMENT, "contents must be a scalar");
  if (td_ok(s)) s = name_of(c, 0, "filename", &t->path);
  if (td_ok(s) && writes) td_tensor_retain(td_in(c, 1), &t->contents);
  if (!td_ok(s)) td_free(t);
  if (failed(c, s)) return;
  t->base.kind = kind;
  t->base.what = t->path;
  td_errand_start(&t->base, c);
}

static void read_start(td_kernel_ctx *c) {
  static const td_errand_kind kind = {"reads", read_file, give_contents,
                                      transfer_drop};
  start_transfer(c, &kind, false);
}

static void write_start(td_kernel_ctx *c) {
  static const td_errand_kind kind = {"writes", write_file, NULL,
                                      transfer_drop};
  start_transfer(c, &kind, true);
}

/* ---- MatchingFiles ------------------------------------------------------- */

typedef struct looking {
  td_errand base; /* first */
  td_paths patterns, found;
} looking;

static void looking_drop(td_errand *e) {
  looking *l = (looking *)e;
  td_paths_free(&l->patterns);
  td_paths_free(&l->found);
  td_free(l);
}

static td_status *look(td_errand *e) {
  looking *l = (looking *)e;
  for (size_t i = 0; i < l->patterns.len; i++)
    TD_TRY(td_matching_files(l->patterns.at[i], &l->found));
  td_paths_sort(&l->found);
  return NULL;
}

static td_status *give_found(td_errand *e, td_kernel_ctx *c) {
  const looking *l = (const looking *)e;
  td_text t = {0};
  td_shape shape = {.rank = 1, .dim = {(int64_t)l->found.len}};
  if (!td_text_reserve(&t, shape.dim[0])) return td_oom();
  for (size_t i = 0; i < l->found.len; i++) {
    td_str_add(&t.all, l->found.at[i]);
    td_text_end(&t);
  }
  td_status *s = td_text_out(c, 0, &shape, &t);
  td_text_drop(&t);
  return s;
}

static td_status *copy_patterns(const td_tensor *t, looking *l) {
  for (int64_t i = 0; i < td_tensor_count(t); i++) {
    char *pattern;
    TD_TRY(copy_name(t, i, &pattern));
    if (td_vec_push(&l->patterns, pattern)) continue;
    td_free(pattern);
    return td_oom();
  }
  return NULL;
}

static void matching_start(td_kernel_ctx *c) {
  static const td_errand_kind kind = {"looks for", look, give_found,
                                      looking_drop};
  looking *l = td_calloc(1, sizeof *l);
  if (failed(c, l ? NULL : td_oom())) return;
  td_status *s = NULL;
  if (td_in(c, 0)->shape.rank > 1)
    s = td_error(TD_INVALID_ARGUMENT,
                 "pattern must be a scalar or a vector, not of rank %d",
                 td_in(c, 0)->shape.rank);
  if (td_ok(s)) s = copy_patterns(td_in(c, 0), l);
  if (!td_ok(s)) looking_drop(&l->base);
  if (failed(c, s)) return;
  l->base.kind = &kind;
  l->base.what = l->patterns.len > 0 ? l->patterns.at[0] : "";
  td_errand_start(&l->base, c);
}

static td_status *matching_infer(td_infer *c) {
  const td_shape *x = td_infer_in(c, 0);
  if (x->rank > 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "pattern must be a scalar or a vector, not of rank %d",
                    x->rank);
  td_infer_out(c, 0, (td_shape){.rank = 1, .dim = {-1}});
  return NULL;
}

/* ---- names of shards ----------------------------------------------------- */

static td_status *shard_of(const td_kernel_ctx *c, td_bytes *base,
                           int64_t *numbers, int n) {
  static const char *const names[] = {"shard", "num_shards"};
  if (td_in(c, 0)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "basename must be a scalar");
  *base = td_text_at(td_in(c, 0), 0);
  for (int i = 0; i < n; i++)
    TD_TRY(td_operand_scalar(td_in(c, i + 1), names[i + 2 - n], &numbers[i]));
  return NULL;
}

static td_status *give_name(td_kernel_ctx *c, td_text *t) {
  td_shape scalar = td_shape_scalar();
  td_text_end(t);
  td_status *s = td_text_out(c, 0, &scalar, t);
  td_text_drop(t);
  return s;
}

static td_status *filename_run(td_kernel_ctx *c) {
  td_bytes base;
  int64_t n[2];
  td_text t = {0};
  TD_TRY(shard_of(c, &base, n, 2));
  td_str_addn(&t.all, base.at, base.len);
  td_str_addf(&t.all, "-%05d-of-%05d", (int)n[0], (int)n[1]);
  return give_name(c, &t);
}

static td_status *filespec_run(td_kernel_ctx *c) {
  td_bytes base;
  int64_t n;
  td_text t = {0};
  TD_TRY(shard_of(c, &base, &n, 1));
  td_str_addn(&t.all, base.at, base.len);
  td_str_addf(&t.all,
              "-?????"
              "-of-%05d",
              (int)n);
  return give_name(c, &t);
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *scalars_infer(td_infer *c) {
  static const char *const names[] = {"basename", "shard", "num_shards"};
  int n = td_infer_inputs(c);
  TD_TRY(td_infer_rank(c, 0, 0, names[0], NULL));
  for (int i = 1; i < n; i++)
    TD_TRY(td_infer_rank(c, i, 0, names[i + 3 - n], NULL));
  return td_infer_scalars(c);
}

static td_status *read_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "filename", NULL));
  return td_infer_scalars(c);
}

static td_status *write_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 0, "filename", NULL));
  return td_infer_rank(c, 1, 0, "contents", NULL);
}

/* ---- rows ---------------------------------------------------------------- */

#define SECTION                                                                \
  .cost = td_cost_none, .section = "I/O: readers, checkpoints, files"

static const td_op_def ops[] = {
    {.type = "ReadFile",
     .sig = "filename: string -> contents: string",
     .shape = read_infer,
     .doc = "The contents of a file.",
     .flags = TD_NO_FOLD | TD_NO_GRADIENT,
     SECTION},
    {.type = "WriteFile",
     .sig = "filename: string, contents: string ->",
     .shape = write_infer,
     .doc = "Replaces a file, or makes it and the folders it is in.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     SECTION},
    {.type = "MatchingFiles",
     .sig = "pattern: string -> filenames: string",
     .shape = matching_infer,
     .doc = "The paths that fit a pattern with *, ? and [..], or one of "
            "several, sorted.",
     .flags = TD_NO_FOLD | TD_NO_GRADIENT,
     SECTION},
    {.type = "ShardedFilename",
     .sig = "basename: string, shard: int32, num_shards: int32 -> "
            "filename: string",
     .shape = scalars_infer,
     .doc = "The name of one shard.",
     .example = "td.sharded_filename(\"data\", 1, 10)  "
                "--> data-00001-of-00010",
     .host = "*",
     .flags = TD_NO_GRADIENT,
     SECTION},
    {.type = "ShardedFilespec",
     .sig = "basename: string, num_shards: int32 -> filename: string",
     .shape = scalars_infer,
     .doc = "A pattern for the names of all shards.",
     .example = "td.sharded_filespec(\"data\", 10)  --> data-????\?-of-00010",
     .host = "*",
     .flags = TD_NO_GRADIENT,
     SECTION},
    {0},
};

#define BLOCKS .device = "CPU", .cancel = td_errand_cancel, .why = td_errand_why

static const td_kernel_def kernels[] = {
    {.op = "ReadFile", .start = read_start, BLOCKS},
    {.op = "WriteFile", .start = write_start, BLOCKS},
    {.op = "MatchingFiles", .start = matching_start, BLOCKS},
    {.op = "ShardedFilename", .device = "CPU", .run = filename_run},
    {.op = "ShardedFilespec", .device = "CPU", .run = filespec_run},
    {0},
};

TD_MODULE(file_ops, ops, kernels)
