/* staging.c - staging areas: tuples, life, finding; see staging.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/staging.h"

#include <string.h>

#include "engine/base/mem.h"

const char td_staging_plain[] = "staging area";
static const char map_type[] = "staging map";
static const char ordered_type[] = "ordered staging map";

/* ---- tuples, and lists of them ------------------------------------------- */

td_staging_tuple *td_staging_tuple_new(int64_t key, int n) {
  td_staging_tuple *t = td_calloc(1, sizeof *t + (size_t)n * sizeof *t->at);
  if (!t) return NULL;
  t->at = (td_tensor *)(t + 1);
  t->key = key;
  t->n = t->missing = n;
  return t;
}

void td_staging_tuple_free(td_staging_tuple *t) {
  for (int i = 0; i < t->n; i++) td_tensor_release(&t->at[i]);
  td_free(t);
}

/* The first whose key is not less. */
static size_t place_of(const td_staging_list *l, int64_t key) {
  size_t low = 0, high = l->of.len;
  if (high > 0 && l->of.at[high - 1]->key < key) return high;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (l->of.at[middle]->key < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

td_staging_tuple *td_staging_lookup(const td_staging_list *l, int64_t key) {
  size_t i = place_of(l, key);
  return i < l->of.len && l->of.at[i]->key == key ? l->of.at[i] : NULL;
}

void td_staging_insert(td_staging_list *l, td_staging_tuple *t) {
  size_t i = place_of(l, t->key);
  memmove(l->of.at + i + 1, l->of.at + i, (l->of.len++ - i) * sizeof *l->of.at);
  l->of.at[i] = t;
}

void td_staging_erase(td_staging_list *l, const td_staging_tuple *t) {
  size_t i = place_of(l, t->key);
  memmove(l->of.at + i, l->of.at + i + 1, (--l->of.len - i) * sizeof *l->of.at);
}

void td_staging_clear(td_staging_list *l) {
  for (size_t i = 0; i < l->of.len; i++) td_staging_tuple_free(l->of.at[i]);
  td_vec_free(&l->of);
}

/* ---- life ---------------------------------------------------------------- */

static void area_free(td_object *o) {
  td_staging *a = (td_staging *)o;
  td_staging_clear(&a->complete);
  td_staging_clear(&a->incomplete);
  td_attempts_deinit(&a->attempts);
  td_resource_deinit(&a->base);
  td_free(a);
}

td_status *td_staging_was_reset(const td_staging *a) {
  return td_error(TD_CANCELLED, "the container of %s %s was reset",
                  a->base.object.type, td_staging_name(a));
}

static void area_removed(td_resource *r) {
  td_staging *a = (td_staging *)r;
  td_status *s = td_staging_was_reset(a);
  td_attempts_enter(&a->attempts);
  for (int i = 0; i < TD_ATTEMPT_LINES; i++)
    td_attempts_fail(&a->attempts, i, s);
  td_attempts_leave(&a->attempts);
  td_status_release(s);
}

/* Of a plain area, a map or an ordered one, by the op. */
static const char *type_of(const td_node *n) {
  if (strncmp(n->op->type, "OrderedMap", 10) == 0) return ordered_type;
  return strncmp(n->op->type, "Map", 3) == 0 ? map_type : td_staging_plain;
}

static td_status *area_make(void *arg, td_resource **out) {
  const td_kernel *k = arg;
  td_staging *a = td_calloc(1, sizeof *a);
  if (!a) return td_oom();
  a->base.object = (td_object){
      .refs = 1, .type = type_of(k->node), .free = area_free, .named = true};
  a->base.removed = area_removed;
  a->base.home = k->device->incarnation;
  td_attempts_init(&a->attempts);
  *out = &a->base;
  return NULL;
}

/* ---- finding it ---------------------------------------------------------- */

/* What a node remembers. */
typedef struct memory {
  pthread_mutex_t mutex;
  td_resources *home;  /* under the mutex: where it was found */
  uint64_t generation; /* under the mutex: of `home`, before that */
  td_staging *found;   /* under the mutex: counted, or NULL */
} memory;

td_status *td_staging_make_state(const td_kernel_info *info, void **state) {
  (void)info;
  memory *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  pthread_mutex_init(&m->mutex, NULL);
  *state = m;
  return NULL;
}

void td_staging_release(td_staging *a) {
  if (a) td_object_release(&a->base.object);
}

void td_staging_drop_state(void *state) {
  memory *m = state;
  if (!m) return;
  td_staging_release(m->found);
  pthread_mutex_destroy(&m->mutex);
  td_free(m);
}

/* The one that was found last; NULL when none was. Where a node of an older one
 * waited, its container was reset and it waits no more. */
td_staging *td_staging_recall(const td_kernel_ctx *c) {
  memory *m = c->kernel->state;
  pthread_mutex_lock(&m->mutex);
  td_staging *a = m->found;
  if (a) td_object_retain(&a->base.object);
  pthread_mutex_unlock(&m->mutex);
  return a;
}

static bool is_recent(memory *m, td_resources *home) {
  pthread_mutex_lock(&m->mutex);
  bool recent = m->found && m->home == home &&
                m->generation == td_resources_generation(home);
  pthread_mutex_unlock(&m->mutex);
  return recent;
}

static td_status *look_up(const td_kernel_ctx *c, td_resources *home) {
  memory *m = c->kernel->state;
  const td_node *n = td_ctx_node(c);
  const char *name = td_node_string(n, "shared_name");
  uint64_t generation = td_resources_generation(home);
  td_resource *r = NULL;
  if (td_device_gone(c->kernel->device))
    return td_error(TD_UNAVAILABLE, "%s was removed, and its %ss with it",
                    c->kernel->device->name, type_of(n));
  TD_TRY(td_resources_get(home, td_node_string(n, "container"), type_of(n),
                          name[0] ? name : n->name, area_make,
                          (void *)c->kernel, &r));
  pthread_mutex_lock(&m->mutex);
  td_staging *old = m->found;
  m->found = (td_staging *)r;
  m->home = home;
  m->generation = generation;
  pthread_mutex_unlock(&m->mutex);
  td_staging_release(old);
  return NULL;
}

td_status *td_staging_find(const td_kernel_ctx *c, td_staging **out) {
  const char *container = td_node_string(td_ctx_node(c), "container");
  td_resources *home = container[0] ? c->step->resources : c->step->own;
  if (!home)
    return td_error(TD_FAILED_PRECONDITION,
                    "a %s can only be used in a session",
                    type_of(td_ctx_node(c)));
  if (!is_recent(c->kernel->state, home)) TD_TRY(look_up(c, home));
  *out = td_staging_recall(c);
  return NULL;
}
