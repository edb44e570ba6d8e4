/* element.c - elements, and the memory that they and batches are made of.
 *
 * A row of data is an element for a short time only: its array of tensors goes
 * from the batch that it ended in to the source that makes the next. And
 * batches are alike, so that each is made where another was: pages that the
 * system has to clear first would take longer than what is copied there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/device/alloc.h"
#include "engine/pipeline/pipeline_impl.h"

enum { SPARE = 256 };

/* ---- elements ------------------------------------------------------------ */

void td_element_drop(td_element *e) {
  for (int i = 0; e->at && i < e->n; i++) td_tensor_release(&e->at[i]);
  td_free(e->at);
  td_status_release(e->status);
  *e = (td_element){0};
}

td_status *td_element_new(int n, td_element *e) {
  size_t room = n > 0 ? (size_t)n : 1;
  *e = (td_element){.at = td_calloc(room, sizeof *e->at), .n = n};
  return e->at ? NULL : td_oom();
}

td_status *td_stage_element(td_stage *s, td_element *e) {
  td_pipeline *p = s->pipeline;
  if (p->spare.len == 0) p->spare_n = s->n_columns; /* these are wanted */
  if (p->spare.len == 0 || p->spare_n != s->n_columns)
    return td_element_new(s->n_columns, e);
  *e = (td_element){.at = p->spare.at[--p->spare.len], .n = s->n_columns};
  return NULL;
}

void td_stage_drop(td_stage *s, td_element *e) {
  td_pipeline *p = s->pipeline;
  if (e->at && e->n == p->spare_n && p->spare.len < SPARE &&
      td_vec_reserve(&p->spare, 1)) {
    for (int i = 0; i < e->n; i++) td_tensor_release(&e->at[i]);
    p->spare.at[p->spare.len++] = e->at;
    e->at = NULL;
  }
  td_element_drop(e);
}

/* ---- batches ------------------------------------------------------------- */

/* One for all pipelines: of allocators a process has not many. */
static struct {
  pthread_once_t once;
  td_allocator *it;
} memory = {.once = PTHREAD_ONCE_INIT};

static void make_memory(void) {
  td_alloc_options o = {.name = "the input pipeline",
                        .budget = td_alloc_budget_process()};
  td_status_release(td_alloc_new(&o, &memory.it));
}

td_allocator *td_stage_memory(void) {
  pthread_once(&memory.once, make_memory);
  return memory.it;
}

void td_pipeline_let_go(td_pipeline *p) {
  for (size_t i = 0; i < p->spare.len; i++) td_free(p->spare.at[i]);
  td_vec_free(&p->spare);
  if (td_stage_memory()) td_allocator_trim(td_stage_memory(), 0);
}
