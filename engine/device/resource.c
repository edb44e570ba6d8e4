/* resource.c - containers: names to things that outlive a step.
 *
 * One table of (container, name), and of (container, name, maker) for what
 * would have the name of another node's. Making a resource and letting go of
 * one may run any code, so both happen without the lock: of two that were made
 * at once the first stays, and what is removed is collected in a list first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/resource.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/base/str.h"
#include "engine/base/vec.h"

struct td_resources {
  pthread_mutex_t mutex;
  td_map entries;      /* under the mutex; key_of -> td_resource, retained */
  uint64_t generation; /* atomic */
};

td_status *td_resources_new(td_resources **out) {
  td_resources *m = td_calloc(1, sizeof *m);
  if (!m) return td_oom();
  pthread_mutex_init(&m->mutex, NULL);
  td_map_init(&m->entries);
  *out = m;
  return NULL;
}

void td_resources_free(td_resources *m) {
  if (!m) return;
  td_resources_reset(m, NULL);
  td_map_deinit(&m->entries);
  pthread_mutex_destroy(&m->mutex);
  td_free(m);
}

void td_resource_deinit(td_resource *r) {
  td_free((void *)r->name);
  td_free((void *)r->container);
  r->name = r->container = NULL;
}

/* ---- finding and making -------------------------------------------------- */

static td_status *key_of(const char *container, const char *name, td_str *key) {
  td_str_init(key);
  td_str_addn(key, container, strlen(container) + 1);
  td_str_add(key, name);
  if (!key->failed) return NULL;
  td_str_deinit(key);
  return td_oom();
}

/* Where a resource is looked for. */
typedef struct place {
  td_str key;
  size_t plain; /* bytes of the key without the maker */
  const char *type, *name;
  uint64_t maker;
} place;

static td_status *place_init(place *p, const char *container, const char *type,
                             const char *name, uint64_t maker) {
  *p = (place){.type = type, .name = name, .maker = maker};
  TD_TRY(key_of(container, name, &p->key));
  p->plain = p->key.len;
  td_str_addn(&p->key, "", 1);
  td_str_addn(&p->key, (const char *)&maker, sizeof maker);
  if (!p->key.failed) return NULL;
  td_str_deinit(&p->key);
  return td_oom();
}

/* Is one "a.old/x" or "a.old_1/x", and the other "a/x"? A node that another
 * takes the name of is called so for a while. */
static bool same_but_old(const char *a, const char *b) {
  size_t len = strlen(a), rest = strlen(b), same = 0;
  if (len < rest) return same_but_old(b, a);
  while (same < rest && a[same] == b[same]) same++;
  size_t more = len - rest;
  return more >= 4 && strncmp(a + same, ".old", 4) == 0 &&
         strspn(a + same + 4, "_0123456789") >= more - 4 &&
         strcmp(a + same + more, b + same) == 0;
}

/* What the node made when it had another name. Under the mutex. */
static td_resource *made_before(td_resources *m, const char *name,
                                const char *type, uint64_t maker) {
  const td_map_entry *e;
  for (size_t i = 0; td_map_next(&m->entries, &i, &e);) {
    td_resource *r = e->value;
    if (r->maker == maker && strcmp(r->object.type, type) == 0 &&
        same_but_old(r->name, name))
      return r;
  }
  return NULL;
}

/* Retained, or NULL. Under the mutex. */
static td_resource *lookup(td_resources *m, const place *p) {
  td_resource *r = td_map_getn(&m->entries, p->key.at, p->plain);
  if (p->maker == 0 && r)
    r->maker = 0;
  else if (p->maker && (!r || (r->maker && r->maker != p->maker)))
    r = td_map_getn(&m->entries, p->key.at, p->key.len);
  if (!r && p->maker) r = made_before(m, p->name, p->type, p->maker);
  if (r) td_object_retain(&r->object);
  return r;
}

/* False: no memory. Under the mutex. */
static bool put(td_resources *m, const place *p, td_resource *r) {
  bool taken = td_map_getn(&m->entries, p->key.at, p->plain) != NULL;
  r->maker = p->maker;
  return td_map_putn(&m->entries, p->key.at, taken ? p->key.len : p->plain, r);
}

static td_status *make_named(const char *container, const char *name,
                             td_resource_make make, void *arg,
                             td_resource **out) {
  td_resource *r = NULL;
  TD_TRY(make(arg, &r));
  r->name = td_strdup(name);
  r->container = td_strdup(container);
  if (!r->name || !r->container) {
    td_object_release(&r->object);
    return td_oom();
  }
  *out = r;
  return NULL;
}

/* Lists `fresh` (takes ownership) unless another came first; *out is the one
 * that counts, retained. */
static td_status *list_new(td_resources *m, const place *p, td_resource *fresh,
                           td_resource **out) {
  td_status *s = NULL;
  pthread_mutex_lock(&m->mutex);
  td_resource *r = lookup(m, p);
  if (!r && put(m, p, fresh)) {
    td_object_retain(&fresh->object);
    r = fresh;
    fresh = NULL;
  }
  pthread_mutex_unlock(&m->mutex);
  if (!r) s = td_oom();
  if (fresh) td_object_release(&fresh->object);
  *out = r;
  return s;
}

static td_status *check_type(const td_resource *r, const char *type) {
  if (r->object.type == type || strcmp(r->object.type, type) == 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "\"%s\" in container \"%s\" is a %s, not a %s", r->name,
                  r->container, r->object.type, type);
}

static td_status *absent(const char *container, const char *type,
                         const char *name) {
  return td_error(TD_NOT_FOUND, "there is no %s \"%s\" in container \"%s\"",
                  type, name, container);
}

td_status *td_resources_get_own(td_resources *m, const char *container,
                                const char *type, const char *name,
                                uint64_t maker, td_resource_make make,
                                void *arg, td_resource **out) {
  place p;
  td_status *s = NULL;
  TD_TRY(place_init(&p, container, type, name, maker));
  pthread_mutex_lock(&m->mutex);
  td_resource *r = lookup(m, &p);
  pthread_mutex_unlock(&m->mutex);
  if (!r && !make) s = absent(container, type, name);
  if (!r && make) {
    td_resource *fresh = NULL;
    s = make_named(container, name, make, arg, &fresh);
    if (td_ok(s)) s = list_new(m, &p, fresh, &r);
  }
  td_str_deinit(&p.key);
  if (td_ok(s)) s = check_type(r, type);
  if (td_ok(s))
    *out = r;
  else if (r)
    td_object_release(&r->object);
  return s;
}

td_status *td_resources_get(td_resources *m, const char *container,
                            const char *type, const char *name,
                            td_resource_make make, void *arg,
                            td_resource **out) {
  return td_resources_get_own(m, container, type, name, 0, make, arg, out);
}

/* ---- removing ------------------------------------------------------------ */

static void let_go(td_resource *r) {
  __atomic_store_n(&r->gone, 1, __ATOMIC_RELEASE);
  if (r->removed) r->removed(r);
  td_object_release(&r->object);
}

static void count_removal(td_resources *m) {
  __atomic_fetch_add(&m->generation, 1, __ATOMIC_ACQ_REL);
}

td_status *td_resources_remove(td_resources *m, const char *container,
                               const char *name) {
  td_str key;
  TD_TRY(key_of(container, name, &key));
  pthread_mutex_lock(&m->mutex);
  td_resource *r = td_map_removen(&m->entries, key.at, key.len);
  if (r) count_removal(m);
  pthread_mutex_unlock(&m->mutex);
  td_str_deinit(&key);
  if (!r) return absent(container, "resource", name);
  let_go(r);
  return NULL;
}

/* Under the mutex. The name in the resource is for messages, and stays: others
 * may be reading it. */
static td_status *rename_locked(td_resources *m, const td_str *from,
                                const td_str *to, const char *name) {
  if (td_map_getn(&m->entries, to->at, to->len))
    return td_error(TD_ALREADY_EXISTS, "there is a resource of the new name");
  td_resource *r = td_map_getn(&m->entries, from->at, from->len);
  if (!r) return absent("", "resource", name);
  if (!td_map_putn(&m->entries, to->at, to->len, r)) return td_oom();
  td_map_removen(&m->entries, from->at, from->len);
  count_removal(m);
  return NULL;
}

td_status *td_resources_rename(td_resources *m, const char *container,
                               const char *from, const char *to) {
  td_str old, fresh;
  TD_TRY(key_of(container, from, &old));
  td_status *s = key_of(container, to, &fresh);
  if (td_ok(s)) {
    pthread_mutex_lock(&m->mutex);
    s = rename_locked(m, &old, &fresh, from);
    pthread_mutex_unlock(&m->mutex);
    td_str_deinit(&fresh);
  }
  td_str_deinit(&old);
  return s;
}

/* Which ones. */
typedef struct filter {
  const char *container; /* NULL: of all */
  uint64_t home;         /* 0: on all devices */
  const td_makers *left; /* all but what these made and what has no maker; NULL:
                            whoever made it */
} filter;

static bool is_left(const td_makers *m, uint64_t serial) {
  size_t low = 0, high = m->n;
  if (serial == 0 || serial > m->last) return true;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (m->serials[mid] < serial)
      low = mid + 1;
    else
      high = mid;
  }
  return low < m->n && m->serials[low] == serial;
}

static bool is_of(const td_resource *r, const filter *f) {
  return (!f->container || strcmp(r->container, f->container) == 0) &&
         (f->home == 0 || r->home == f->home) &&
         (!f->left || !is_left(f->left, r->maker));
}

static void remove_all(td_resources *m, const filter *f) {
  td_resource *list = NULL, *next;
  const td_map_entry *e;
  pthread_mutex_lock(&m->mutex);
  for (size_t i = 0; td_map_next(&m->entries, &i, &e);) {
    td_resource *r = e->value;
    if (!is_of(r, f)) continue;
    td_map_removen(&m->entries, e->key, e->len);
    r->next = list;
    list = r;
  }
  if (list) count_removal(m);
  pthread_mutex_unlock(&m->mutex);
  for (td_resource *r = list; r; r = next) {
    next = r->next;
    let_go(r);
  }
}

void td_resources_reset(td_resources *m, const char *container) {
  remove_all(m, &(filter){.container = container});
}

void td_resources_drop_on(td_resources *m, uint64_t home) {
  if (home) /* 0: a device without a number */
    remove_all(m, &(filter){.home = home});
}

void td_resources_sweep(td_resources *m, const td_makers *alive) {
  remove_all(m, &(filter){.left = alive});
}

uint64_t td_resources_generation(const td_resources *m) {
  return __atomic_load_n(&m->generation, __ATOMIC_ACQUIRE);
}

/* ---- listing ------------------------------------------------------------- */

static void visit_all(td_resources *m, const filter *f,
                      void (*visit)(void *arg, const td_resource *r),
                      void *arg) {
  TD_VEC(td_resource *) found = {0};
  const td_map_entry *e;
  pthread_mutex_lock(&m->mutex);
  for (size_t i = 0; td_map_next(&m->entries, &i, &e);) {
    td_resource *r = e->value;
    if (!is_of(r, f)) continue;
    if (!td_vec_push(&found, r)) break;
    td_object_retain(&r->object);
  }
  pthread_mutex_unlock(&m->mutex);
  for (size_t i = 0; i < found.len; i++) {
    visit(arg, found.at[i]);
    td_object_release(&found.at[i]->object);
  }
  td_vec_free(&found);
}

void td_resources_list(td_resources *m, const char *container,
                       void (*visit)(void *arg, const td_resource *r),
                       void *arg) {
  visit_all(m, &(filter){.container = container}, visit, arg);
}

void td_resources_list_on(td_resources *m, uint64_t home,
                          void (*visit)(void *arg, const td_resource *r),
                          void *arg) {
  if (home) visit_all(m, &(filter){.home = home}, visit, arg);
}
