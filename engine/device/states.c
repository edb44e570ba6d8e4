/* states.c - what kernels keep from step to step, by device, node and row.
 *
 * The row is part of the name, as its op and dtypes, because planning may give
 * a node of the same name another kernel. `make` runs without the mutex; of two
 * that were made at once the first stays. A node that took the place of one of
 * its name, as its serial tells, begins anew, and so does one whose device took
 * the place of another; the old state goes with the last program that has it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/states_impl.h"

td_status *td_states_new(td_states **out) {
  td_states *s = td_malloc(sizeof *s);
  if (!s) return td_oom();
  pthread_mutex_init(&s->mutex, NULL);
  pthread_mutex_init(&s->loading, NULL);
  td_map_init(&s->entries);
  td_map_init(&s->loaded);
  s->old = NULL;
  s->n_loaded = 0;
  s->refs = 1;
  *out = s;
  return NULL;
}

static void free_entry(td_state *e) {
  if (!e) return;
  if (e->def->drop) e->def->drop(e->state);
  td_free(e);
}

td_states *td_states_retain(td_states *s) {
  if (s) __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
  return s;
}

void td_states_release(td_states *s) {
  const td_map_entry *e;
  if (!s || __atomic_fetch_sub(&s->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
  for (size_t i = 0; td_map_next(&s->entries, &i, &e);) free_entry(e->value);
  for (td_state *next; s->old; s->old = next) {
    next = s->old->next;
    free_entry(s->old);
  }
  for (size_t i = 0; td_map_next(&s->loaded, &i, &e);)
    td_states_free_bytes(e->value);
  td_map_deinit(&s->loaded);
  td_map_deinit(&s->entries);
  pthread_mutex_destroy(&s->mutex);
  pthread_mutex_destroy(&s->loading);
  td_free(s);
}

/* The device counts by type and number: its incarnation, and the task it is in,
 * are another's in another process. */
static td_status *name_of(const td_kernel_info *info, const td_kernel_def *def,
                          td_str *name) {
  td_str_init(name);
  td_str_addf(name, "%s (%s) on %s:%d%s%s", info->node->name, def->op,
              info->device->type, (int)info->device->index,
              def->types ? ", " : "", def->types ? def->types : "");
  if (!name->failed) return NULL;
  td_str_deinit(name);
  return td_oom();
}

static bool is_of(const td_state *e, uint64_t serial, uint64_t incarnation) {
  return e && e->incarnation == incarnation && serial != 0 &&
         e->serial == serial;
}

static td_state *find(td_states *s, const td_str *name,
                      const td_kernel_info *info) {
  pthread_mutex_lock(&s->mutex);
  td_state *e = td_map_getn(&s->entries, name->at, name->len);
  if (!is_of(e, info->node->serial, info->device->incarnation)) e = NULL;
  if (e) e->refs++;
  pthread_mutex_unlock(&s->mutex);
  return e;
}

/* ---- what was loaded and has not been claimed ---------------------------- */

void td_states_free_bytes(td_str *bytes) {
  if (bytes) td_str_deinit(bytes);
  td_free(bytes);
}

void td_states_count_loaded(td_states *s) {
  __atomic_store_n(&s->n_loaded, (int32_t)s->loaded.count, __ATOMIC_RELEASE);
}

void td_states_forget(td_states *s, const char *name) {
  td_states_free_bytes(td_map_removen(&s->loaded, name, strlen(name)));
  td_states_count_loaded(s);
}

td_status *td_states_claim(td_states *s, const char *name, td_state *e) {
  const td_str *t = td_map_get(&s->loaded, name);
  if (!t) return NULL;
  td_bytes bytes = {td_str_c(t), t->len};
  td_status *st = e->def->load ? e->def->load(e->state, bytes)
                               : td_error(TD_INVALID_ARGUMENT,
                                          "its kernel has no state to load");
  if (td_ok(st)) {
    td_states_forget(s, name);
    return NULL;
  }
  td_status *where =
      td_error(td_status_code(st), "the saved state of %s cannot be loaded: %s",
               name, td_status_message(st));
  td_status_release(st);
  return where;
}

/* ---- states -------------------------------------------------------------- */

static td_status *make(const td_kernel_info *info, const td_kernel_def *def,
                       td_state **out) {
  td_state *e = td_malloc(sizeof *e);
  if (!e) return td_oom();
  *e = (td_state){.refs = 1,
                  .incarnation = info->device->incarnation,
                  .serial = info->node->serial,
                  .def = def};
  td_status *s = def->make(info, &e->state);
  if (!td_ok(s)) {
    td_free(e);
    return s;
  }
  *out = e;
  return NULL;
}

/* `e`, which may be NULL, is out of the map: returned when nobody has it. */
static td_state *replaced(td_states *s, td_state *e) {
  if (!e || e->refs == 0) return e;
  e->next = s->old;
  e->old = true;
  s->old = e;
  return NULL;
}

/* Takes ownership of *e; afterwards it is the one that counts, or NULL. */
static void keep(td_states *s, const td_str *name, td_state **e) {
  td_state *extra = *e;
  pthread_mutex_lock(&s->mutex);
  td_state *first = td_map_getn(&s->entries, name->at, name->len);
  if (is_of(first, (*e)->serial, (*e)->incarnation)) {
    *e = first;
    first->refs++;
  } else if (td_map_putn(&s->entries, name->at, name->len, *e)) {
    extra = replaced(s, first);
  } else {
    *e = NULL;
  }
  pthread_mutex_unlock(&s->mutex);
  free_entry(extra);
}

/* The one with that state among the old ones, or NULL. */
static td_state *find_old(td_states *s, const void *state) {
  td_state *e = s->old;
  while (e && e->state != state) e = e->next;
  return e;
}

/* Under the mutex: one holder less. Returned when it has to be freed. */
static td_state *unhold(td_states *s, td_state *e) {
  td_state **at = &s->old;
  if (!e || --e->refs > 0 || !e->old) return NULL;
  while (*at != e) at = &(*at)->next;
  *at = e->next;
  return e;
}

void td_states_drop(td_states *s, td_state *e) {
  pthread_mutex_lock(&s->mutex);
  td_state *last = unhold(s, e);
  pthread_mutex_unlock(&s->mutex);
  free_entry(last);
}

void td_states_put(td_states *s, const td_kernel *k) {
  td_kernel_info info = {.node = k->node, .device = k->device};
  td_str name;
  if (!k->state || k->owns_state) return;
  td_status *none = name_of(&info, k->def, &name);
  if (!td_ok(none)) { /* no memory: it stays until the session goes */
    td_status_release(none);
    return;
  }
  pthread_mutex_lock(&s->mutex);
  td_state *e = td_map_getn(&s->entries, name.at, name.len);
  if (!e || e->state != k->state) e = find_old(s, k->state);
  td_state *last = unhold(s, e);
  pthread_mutex_unlock(&s->mutex);
  td_str_deinit(&name);
  free_entry(last);
}

/* Finds or makes. */
static td_status *get(td_states *s, const td_kernel_info *info,
                      const td_kernel_def *def, const td_str *name,
                      td_state **out) {
  *out = find(s, name, info);
  if (*out) return NULL;
  TD_TRY(make(info, def, out));
  keep(s, name, out);
  return *out ? NULL : td_oom();
}

td_status *td_states_get(td_states *s, const td_kernel_info *info,
                         const td_kernel_def *def, void **out) {
  td_str name;
  td_state *e = NULL;
  TD_TRY(name_of(info, def, &name));
  bool loaded = __atomic_load_n(&s->n_loaded, __ATOMIC_ACQUIRE) > 0;
  if (loaded) pthread_mutex_lock(&s->loading);
  td_status *status = get(s, info, def, &name, &e);
  if (td_ok(status) && !loaded && /* bytes came while it was made */
      (loaded = __atomic_load_n(&s->n_loaded, __ATOMIC_ACQUIRE) > 0))
    pthread_mutex_lock(&s->loading);
  if (td_ok(status) && loaded) {
    status = td_states_claim(s, name.at, e);
    if (!td_ok(status)) td_states_drop(s, e);
  }
  if (loaded) pthread_mutex_unlock(&s->loading);
  td_str_deinit(&name);
  if (td_ok(status)) *out = e->state;
  return status;
}
