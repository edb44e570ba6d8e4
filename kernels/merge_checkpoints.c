/* merge_checkpoints.c - MergeV2Checkpoints: one checkpoint of what several
 * devices have written, as an errand.
 *
 * It renames data and writes an index, and is not cut short: a cancelled step
 * waits for its end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/io/checkpoint_writer.h"
#include "kernels/cost.h"
#include "kernels/errand.h"
#include "kernels/saved_names.h"

typedef struct merging {
  td_errand base; /* first */
  char *prefix;
  td_saved_names parts; /* their prefixes */
  bool remove_folders, allow_missing;
} merging;

static void merging_drop(td_errand *e) {
  merging *m = (merging *)e;
  td_saved_names_free(&m->parts);
  td_free(m->prefix);
  td_free(m);
}

static td_status *is_there(const char *prefix, bool *there) {
  td_str path = {0};
  td_str_addf(&path, "%s.index", prefix);
  td_status *s = path.failed ? td_oom() : NULL;
  if (td_ok(s)) *there = td_file_exists(path.at);
  td_str_deinit(&path);
  return s;
}

/* The parts that are there. */
static td_status *choose(const merging *m, const char **at, size_t *n) {
  for (int64_t i = 0; i < m->parts.len; i++) {
    const char *part = m->parts.of[i].name;
    bool there = false;
    TD_TRY(is_there(part, &there));
    if (there) at[(*n)++] = part;
    if (!there && !m->allow_missing)
      return td_error(
          TD_INVALID_ARGUMENT,
          "checkpoint '%s' is not there, which was to become a part "
          "of '%s'",
          part, m->prefix);
  }
  if (*n > 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "none of the %lld checkpoints is there that were to become "
                  "'%s'",
                  (long long)m->parts.len, m->prefix);
}

static td_status *merge(td_errand *e) {
  merging *m = (merging *)e;
  size_t n = 0;
  const char **at = td_calloc((size_t)m->parts.len, sizeof *at);
  td_status *s = at ? choose(m, at, &n) : td_oom();
  if (td_ok(s) && td_errand_hold(e))
    s = td_checkpoint_merge(at, n, m->prefix, m->remove_folders);
  td_free(at);
  return td_saved_twice(s);
}

static td_status *prepare(td_kernel_ctx *c, merging *m) {
  const td_tensor *parts = td_in(c, 0);
  td_shape_text text;
  if (parts->shape.rank != 1 || parts->shape.dim[0] == 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "checkpoint_prefixes must be a vector of one string or "
                    "more, not of shape %s",
                    td_shape_str(&parts->shape, &text));
  TD_TRY(td_saved_prefix(td_in(c, 1), "destination_prefix", &m->prefix));
  m->remove_folders = td_node_bool(td_ctx_node(c), "delete_old_dirs");
  m->allow_missing = td_node_bool(td_ctx_node(c), "allow_missing_files");
  return td_saved_names_read(parts, NULL, parts->shape.dim[0], &m->parts);
}

static void merge_start(td_kernel_ctx *c) {
  static const td_errand_kind kind = {"merges checkpoints into", merge, NULL,
                                      merging_drop};
  merging *m = td_calloc(1, sizeof *m);
  td_status *bad = m ? prepare(c, m) : td_oom();
  if (td_ok(bad)) {
    m->base.kind = &kind;
    m->base.what = m->prefix;
    td_errand_start(&m->base, c);
    return;
  }
  if (m) merging_drop(&m->base);
  td_kernel_done(c, bad);
}

static td_status *merge_infer(td_infer *c) {
  TD_TRY(td_infer_rank(c, 0, 1, "checkpoint_prefixes", NULL));
  return td_infer_rank(c, 1, 0, "destination_prefix", NULL);
}

static const td_op_def ops[] = {
    {.type = "MergeV2Checkpoints",
     .sig = "checkpoint_prefixes: string, destination_prefix: string -> ; "
            "delete_old_dirs: bool = true; allow_missing_files: bool = false",
     .shape = merge_infer,
     .cost = td_cost_none,
     .lua = "",
     .doc = "Makes one checkpoint of several, whose files become its own.",
     .flags = TD_STATEFUL | TD_NO_GRADIENT,
     .section = "I/O: readers, checkpoints, files"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "MergeV2Checkpoints",
     .device = "CPU",
     .start = merge_start,
     .cancel = td_errand_cancel,
     .why = td_errand_why},
    {0},
};

TD_MODULE(merge_checkpoints, ops, kernels)
