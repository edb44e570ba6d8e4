/* pipeline_next.c - PipelineNext: elements of an input pipeline in a graph.
 *
 * The pipeline itself (engine/pipeline) stands in a container of the runtime
 * under the name that the node gives; it works ahead on threads of its own. A
 * kernel that waits holds none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/device/elements.h"
#include "engine/device/kernel.h"
#include "kernels/cost.h"

typedef struct waiting {
  td_element_request request; /* first */
  td_kernel_ctx *ctx;
  td_elements *from; /* retained */
} waiting;

static td_status *check_layout(const td_node *n, const td_elements *e) {
  if (n->n_out != e->n)
    return td_error(TD_INVALID_ARGUMENT,
                    "the pipeline's elements are %d tensors, not %d", e->n,
                    n->n_out);
  for (int i = 0; i < e->n; i++)
    if (n->out[i].dtype != e->dtypes[i])
      return td_error(TD_INVALID_ARGUMENT,
                      "tensor %d of the pipeline's elements is %s, not %s", i,
                      td_dtype_name(e->dtypes[i]),
                      td_dtype_name(n->out[i].dtype));
  return NULL;
}

static td_status *find(const td_kernel_ctx *c, td_elements **out) {
  const td_node *n = td_ctx_node(c);
  td_resource *r = NULL;
  const char *name = td_node_string(n, "pipeline");
  td_status *s =
      c->step->resources
          ? td_resources_get(c->step->resources, TD_ELEMENTS_CONTAINER,
                             TD_ELEMENTS, name, NULL, NULL, &r)
          : td_error(TD_NOT_FOUND, "no session");
  if (!td_ok(s)) {
    td_status_release(s);
    return td_error(TD_FAILED_PRECONDITION,
                    "the pipeline \"%s\" is not in this process: build it and "
                    "take its elements anew, or feed the node",
                    name);
  }
  s = check_layout(n, (td_elements *)r);
  if (td_ok(s))
    *out = (td_elements *)r;
  else
    td_object_release(&r->object);
  return s;
}

static void got(td_element_request *r, td_tensor *at, td_status *s) {
  waiting *w = (waiting *)r;
  td_kernel_ctx *c = w->ctx;
  for (int i = 0; at && i < c->n_out; i++) c->out[i] = at[i];
  td_free(at);
  td_object_release(&w->from->base.object);
  td_free(w);
  td_kernel_done(c, s);
}

static void next_start(td_kernel_ctx *c) {
  td_elements *from = NULL;
  td_status *s = find(c, &from);
  waiting *w = td_ok(s) ? td_calloc(1, sizeof *w) : NULL;
  if (td_ok(s) && !w) s = td_oom();
  if (!td_ok(s)) {
    if (from) td_object_release(&from->base.object);
    td_kernel_done(c, s);
    return;
  }
  *w = (waiting){.request = {.got = got, .owner = c, .stop = c->step->stop},
                 .ctx = c,
                 .from = from};
  td_object_retain(&from->base.object);
  from->next(from, &w->request);
  td_object_release(&from->base.object);
}

/* One that is being handed over is not there any more, and is done soon. */
static void cancel(td_kernel_ctx *c) {
  td_elements *from = NULL;
  td_status *s = find(c, &from);
  td_element_request *r = from ? from->cancel(from, c) : NULL;
  td_status_release(s);
  if (r)
    r->got(r, NULL,
           td_status_derive(td_error(TD_CANCELLED, "the step was cancelled")));
  if (from) td_object_release(&from->base.object);
}

static void why(const td_kernel_ctx *c, td_str *out) {
  td_elements *from = NULL;
  td_status *s = find(c, &from);
  td_status_release(s);
  if (!from) return;
  td_str_add(out, "an element of ");
  from->why(from, out);
  td_object_release(&from->base.object);
}

static td_status *next_infer(td_infer *c) {
  const td_attr *shapes = td_infer_attr(c, "output_shapes");
  int n = td_infer_outputs(c);
  TD_TRY(td_infer_any(c));
  if (shapes->len == 0) return NULL;
  if (shapes->len != n)
    return td_error(TD_INVALID_ARGUMENT, "%d shapes are given for %d tensors",
                    shapes->len, n);
  for (int i = 0; i < n; i++) td_infer_out(c, i, shapes->shapes[i]);
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "PipelineNext",
     .sig = "-> components: output_types; pipeline: string; "
            "output_types: list(type) >= 1; "
            "output_shapes: list(shape) >= 0 = {}",
     .shape = next_infer,
     .cost = td_cost_none,
     .doc = "The next element of an input pipeline.",
     .lua = "",
     .host = "*",
     .flags = TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP | TD_FED,
     .section = "I/O: readers, checkpoints, files"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "PipelineNext",
     .device = "CPU",
     .start = next_start,
     .cancel = cancel,
     .why = why},
    {0},
};

TD_MODULE(pipeline_next, ops, kernels)
