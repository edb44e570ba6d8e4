/* errand.h - kernels whose work blocks: on an I/O thread, without their step.
 *
 * The kernel copies what it needs into an errand, which sees no more of it: a
 * step that is cancelled goes on at once. The errand ends by itself, at once
 * where it waits for bytes (file_stop.h); a long one asks now and then whether
 * anybody still waits for it.
 *
 *   typedef struct fetching {
 *     td_errand base;   // first
 *     char *path;
 *     ...
 *   } fetching;
 *   static const td_errand_kind kind = {.run = .., .finish = .., .drop = ..};
 *   ... td_errand_start(&f->base, c);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ERRAND_H
#define TD_ERRAND_H

#include "engine/base/file_stop.h"
#include "engine/base/pool.h"
#include "engine/device/kernel.h"

TD_BEGIN

typedef struct td_errand td_errand;

typedef struct td_errand_kind {
  const char *doing; /* "reads", before `what`: for `why` */
  td_status *(*run)(td_errand *e); /* on an I/O thread */
  /* (optional) Makes the outputs. */
  td_status *(*finish)(td_errand *e, td_kernel_ctx *c);
  void (*drop)(td_errand *e); /* frees it */
} td_errand_kind;

struct td_errand {
  const td_errand_kind *kind;
  const char *what;   /* a path; borrowed until `drop` */
  td_kernel_ctx *ctx; /* errand.c's from here on */
  bool held;          /* a cancel comes too late */
  td_file_stop stop;
  td_task task;
};

/* For `start`; ends in td_kernel_done. Takes ownership of `e`, whose kind and
 * `what` the caller has set. */
void td_errand_start(td_errand *e, td_kernel_ctx *c);
/* For `cancel` and `why` of such a kernel. */
void td_errand_cancel(td_kernel_ctx *c);
void td_errand_why(const td_kernel_ctx *c, td_str *out);

/* For `run`: does a step still wait for it? */
bool td_errand_wanted(td_errand *e);
/* For `run`, before what cannot be undone: a cancel that comes from now on waits
 * for its end. False: one came before. */
bool td_errand_hold(td_errand *e);

TD_END
#endif
