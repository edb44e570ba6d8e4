/* elements.h - what gives tuples of tensors one after the other, for the op
 * PipelineNext.
 *
 * An input pipeline is one (engine/pipeline); kernels see this much of it. It is
 * a resource: it stands in a container under the name that the op's attribute
 * gives.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_ELEMENTS_H
#define TD_ELEMENTS_H

#include "engine/device/resource.h"

TD_BEGIN

#define TD_ELEMENTS "pipeline" /* object.type */
/* The container of the runtime where they stand. */
#define TD_ELEMENTS_CONTAINER "_pipelines"

/* Somebody who wants the next element; his own until `got` is called. */
typedef struct td_element_request {
  /* Once, on any thread, perhaps inside `next`. Takes ownership of the tensors
   * (n of them; td_free(at); NULL when `s` is an error) and of `s`: OUT_OF_RANGE
   * is the end. May let go of the request; must not wait. */
  void (*got)(struct td_element_request *r, td_tensor *at, td_status *s);
  const void *owner; /* who may cancel it */
  const int *stop;   /* (optional) once non-zero it is CANCELLED in `next` */
  struct td_element_request *next; /* the source's */
} td_element_request;

typedef struct td_elements {
  td_resource base; /* first */
  int n;            /* tensors of an element */
  const td_dtype *dtypes;
  const td_shape *shapes; /* as far as they are known */
  void (*next)(struct td_elements *e, td_element_request *r);
  /* Takes a request of that owner back, whose `got` is then not called; NULL:
   * there is none. */
  td_element_request *(*cancel)(struct td_elements *e, const void *owner);
  void (*why)(struct td_elements *e, td_str *out);
} td_elements;

TD_END
#endif
