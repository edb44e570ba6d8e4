/* device_list.c - the devices of a runtime and who must know when one goes.
 *
 * A device is marked `gone` before anybody is told: who comes to know of it
 * later, from an old copy of the list, sees the mark.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/device_list.h"

#include <string.h>

#include "engine/base/mem.h"

/* ---- the list ------------------------------------------------------------ */

void td_device_list_init(td_device_list *l) {
  *l = (td_device_list){.version = 1}; /* 0: nobody has looked */
  pthread_mutex_init(&l->lock, NULL);
}

void td_device_list_deinit(td_device_list *l) {
  for (size_t i = 0; i < l->at.len; i++) td_device_release(l->at.at[i]);
  td_vec_free(&l->at);
  pthread_mutex_destroy(&l->lock);
}

/* Under the lock. */
static td_device *find(const td_device_list *l, const char *type, int index) {
  for (size_t i = 0; i < l->at.len; i++)
    if (l->at.at[i]->index == index && !strcmp(l->at.at[i]->type, type))
      return l->at.at[i];
  return NULL;
}

static bool is_named(const td_device_list *l, const char *name) {
  for (size_t i = 0; i < l->at.len; i++)
    if (strcmp(l->at.at[i]->name, name) == 0) return true;
  return false;
}

td_status *td_device_list_add(td_device_list *l, td_device *d) {
  td_status *s = NULL;
  pthread_mutex_lock(&l->lock);
  if (is_named(l, d->name))
    s = td_error(TD_ALREADY_EXISTS, "there is a device %s already", d->name);
  else if (!td_vec_push(&l->at, d))
    s = td_oom();
  if (td_ok(s)) {
    td_device_retain(d);
    __atomic_fetch_add(&l->version, 1, __ATOMIC_ACQ_REL);
  }
  pthread_mutex_unlock(&l->lock);
  return s;
}

td_device *td_device_list_find(td_device_list *l, const char *type, int index) {
  pthread_mutex_lock(&l->lock);
  td_device *d = td_device_retain(find(l, type, index));
  pthread_mutex_unlock(&l->lock);
  return d;
}

size_t td_device_list_copy(td_device_list *l, td_device **out, size_t room) {
  pthread_mutex_lock(&l->lock);
  size_t n = l->at.len;
  for (size_t i = 0; i < n && i < room; i++)
    out[i] = td_device_retain(l->at.at[i]);
  pthread_mutex_unlock(&l->lock);
  return n;
}

/* ---- who watches --------------------------------------------------------- */

void td_device_list_watch(td_device_list *l, td_device_watcher *w) {
  pthread_mutex_lock(&l->lock);
  w->prev = NULL;
  w->next = l->watchers;
  if (w->next) w->next->prev = w;
  l->watchers = w;
  pthread_mutex_unlock(&l->lock);
}

void td_device_list_unwatch(td_device_list *l, td_device_watcher *w) {
  pthread_mutex_lock(&l->lock);
  *(w->prev ? &w->prev->next : &l->watchers) = w->next;
  if (w->next) w->next->prev = w->prev;
  pthread_mutex_unlock(&l->lock);
}

typedef TD_VEC(td_device_watcher *) held;

/* A share of it, unless the last one is gone. */
static bool hold(td_device_watcher *w) {
  int32_t n = __atomic_load_n(w->refs, __ATOMIC_RELAXED);
  while (n > 0)
    if (__atomic_compare_exchange_n(w->refs, &n, n + 1, true, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
      return true;
  return false;
}

static void let_go(held *all) {
  for (size_t i = 0; i < all->len; i++) all->at[i]->release(all->at[i]->arg);
  td_vec_free(all);
}

/* All who watch, held, so that they can be called without the lock. */
static td_status *hold_all(td_device_list *l, held *all) {
  td_status *s = NULL;
  pthread_mutex_lock(&l->lock);
  for (td_device_watcher *w = l->watchers; td_ok(s) && w; w = w->next) {
    if (!td_vec_reserve(all, 1))
      s = td_oom();
    else if (hold(w))
      all->at[all->len++] = w;
  }
  pthread_mutex_unlock(&l->lock);
  return s;
}

/* ---- going --------------------------------------------------------------- */

static td_status *check_empty(const td_device *d, const held *all,
                              const char *lives) {
  td_str names;
  td_str_init(&names);
  td_str_add(&names, lives);
  for (size_t i = 0; i < all->len; i++)
    all->at[i]->lives(all->at[i]->arg, d, &names);
  td_status *s = NULL;
  if (names.failed)
    s = td_oom();
  else if (names.len)
    s = td_error(TD_FAILED_PRECONDITION,
                 "%s holds variables, which would be lost: %s; save them, or "
                 "remove it with what it holds dropped",
                 d->name, td_str_c(&names));
  td_str_deinit(&names);
  return s;
}

/* Takes it out; the list's share of it is the caller's then. */
static td_status *take_out(td_device_list *l, td_device *d) {
  size_t i = 0;
  pthread_mutex_lock(&l->lock);
  while (i < l->at.len && l->at.at[i] != d) i++;
  bool found = i < l->at.len;
  if (found) {
    memmove(l->at.at + i, l->at.at + i + 1,
            (l->at.len - i - 1) * sizeof *l->at.at);
    l->at.len--;
    /* Before others can see the new version: who made a list meanwhile sweeps.
     */
    __atomic_store_n(&d->gone, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&l->version, 1, __ATOMIC_ACQ_REL);
  }
  pthread_mutex_unlock(&l->lock);
  if (found) return NULL;
  return td_error(TD_NOT_FOUND, "there is no device %s to be removed", d->name);
}

td_status *td_device_list_remove(td_device_list *l, td_device *d, bool drop,
                                 const char *lives) {
  held all = {0};
  td_status *s = hold_all(l, &all);
  if (td_ok(s) && !drop) s = check_empty(d, &all, lives);
  if (td_ok(s)) s = take_out(l, d);
  if (td_ok(s)) {
    for (size_t i = 0; i < all.len; i++)
      all.at[i]->gone(all.at[i]->arg, d, drop);
    td_device_release(d);
  }
  let_go(&all);
  return s;
}
