/* pipeline_impl.h - the struct of a pipeline, for those who look inside.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PIPELINE_IMPL_H
#define TD_PIPELINE_IMPL_H

#include <pthread.h>

#include "engine/base/waiter.h"
#include "engine/pipeline/stage.h"

struct td_pipeline {
  td_elements base; /* first */
  td_stage *last;
  size_t bound; /* bytes that a stage keeps ready */
  td_task task; /* goes on, on the pool */
  pthread_mutex_t lock;
  bool working, again;              /* under the lock */
  td_element_request *first, **end; /* under the lock: who waits */
  bool closed;                      /* under the lock */
  bool resting; /* under the lock: whoever waited left, and nobody came since */
  int64_t asked;                    /* under the lock: elements, ever */
  int seizing;                      /* under the lock: who waits to be alone */
  /* Of whoever is at it: */
  TD_VEC(td_tensor *) spare; /* arrays of spare_n, all released */
  int spare_n;
  bool over;   /* the last element was given */
  bool broken; /* there was no memory to keep an element */
  bool stopped; /* once closed: stages were told */
  td_waiter idle;
};

/* Alone with the stages, until td_pipeline_leave. Waits for who is at them. */
void td_pipeline_seize(td_pipeline *p);
void td_pipeline_leave(td_pipeline *p);
/* Of one that ends, whose stages have: memory that was kept goes back. */
void td_pipeline_let_go(td_pipeline *p);

#endif
