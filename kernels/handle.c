/* handle.c - finding a resource once, and remembering its handle; see
 * handle.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/handle.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"

/* ---- what a node remembers ----------------------------------------------- */

typedef struct handle {
  pthread_mutex_t mutex;
  td_resources *home;  /* under the mutex: where it was found */
  uint64_t generation; /* under the mutex: of `home`, before it was looked up */
  td_tensor tensor;    /* under the mutex: invalid until found */
} handle;

td_status *td_handle_make(const td_kernel_info *info, void **state) {
  (void)info;
  handle *h = td_calloc(1, sizeof *h);
  if (!h) return td_oom();
  pthread_mutex_init(&h->mutex, NULL);
  *state = h;
  return NULL;
}

void td_handle_drop(void *state) {
  handle *h = state;
  if (!h) return;
  td_tensor_release(&h->tensor);
  pthread_mutex_destroy(&h->mutex);
  td_free(h);
}

/* Takes ownership of `t`. */
static void remember(handle *h, td_resources *home, uint64_t generation,
                     td_tensor t) {
  pthread_mutex_lock(&h->mutex);
  td_tensor old = h->tensor;
  h->home = home;
  h->generation = generation;
  h->tensor = t;
  pthread_mutex_unlock(&h->mutex);
  td_tensor_release(&old);
}

static bool recall(handle *h, const td_resources *home, td_tensor *out) {
  bool found = false;
  pthread_mutex_lock(&h->mutex);
  if (h->home == home && td_tensor_valid(&h->tensor) &&
      h->generation == td_resources_generation(home)) {
    td_tensor_retain(&h->tensor, out);
    found = true;
  }
  pthread_mutex_unlock(&h->mutex);
  return found;
}

/* ---- looking it up ------------------------------------------------------- */

typedef struct wish {
  const td_kernel *kernel;
  const td_handle_kind *kind;
} wish;

static td_status *make_wished(void *arg, td_resource **out) {
  const wish *w = arg;
  TD_TRY(w->kind->make(w->kernel, out));
  (*out)->home = w->kernel->device->incarnation;
  return NULL;
}

static td_status *find(const td_kernel *k, const td_handle_kind *kind,
                       td_resources *home, const char *container, bool lasts,
                       td_tensor *out) {
  const td_node *n = k->node;
  const char *name = td_node_string(n, "shared_name");
  bool own = !name[0] && !container[0] && !lasts;
  td_resource *r = NULL;
  wish w = {k, kind};
  if (td_device_gone(k->device))
    return td_error(TD_UNAVAILABLE, "%s was removed, and its %ss with it",
                    k->device->name, kind->type);
  TD_TRY(td_resources_get_own(home, container, kind->type,
                              name[0] ? name : n->name, own ? n->serial : 0,
                              make_wished, &w, &r));
  td_status *s = kind->check ? kind->check(n, r) : NULL;
  if (td_ok(s)) return td_tensor_object(TD_RESOURCE, &r->object, out);
  td_object_release(&r->object);
  return s;
}

static td_status *run(td_kernel_ctx *c, const td_handle_kind *kind,
                      bool lasts) {
  const char *container = td_node_string(td_ctx_node(c), "container");
  td_resources *home = container[0] ? c->step->resources : c->step->own;
  handle *h = c->kernel->state;
  td_tensor t = {.dtype = TD_INVALID};
  if (!home)
    return td_error(TD_FAILED_PRECONDITION,
                    "a %s can only be used in a session", kind->type);
  if (TD_UNLIKELY(!recall(h, home, &t))) {
    uint64_t generation = td_resources_generation(home);
    TD_TRY(find(c->kernel, kind, home, container, lasts, &t));
    td_tensor kept;
    td_tensor_retain(&t, &kept);
    remember(h, home, generation, kept);
  }
  td_out_set(c, 0, &t);
  td_tensor_release(&t);
  return NULL;
}

td_status *td_handle_run(td_kernel_ctx *c, const td_handle_kind *kind) {
  return run(c, kind, false);
}

td_status *td_handle_run_lasting(td_kernel_ctx *c, const td_handle_kind *kind) {
  return run(c, kind, true);
}

/* ---- using it ------------------------------------------------------------ */

td_status *td_handle_in(const td_kernel_ctx *c, int i, const char *type,
                        const char *what, td_resource **out) {
  const td_tensor *t = td_in(c, i);
  td_object *o = t->dtype == TD_RESOURCE ? td_tensor_get_object(t) : NULL;
  const td_arg *arg = td_node_in_arg(c->kernel->node, i);
  if (!o || strcmp(o->type, type) != 0)
    return td_error(TD_INVALID_ARGUMENT,
                    "%s must be the handle of %s, not of %s%s",
                    arg ? arg->name : "the input", what,
                    o ? "a " : "several things", o ? o->type : "");
  *out = (td_resource *)o;
  return NULL;
}
