/* device_list.h - the devices of a runtime, which come and go, and who must
 * know when one goes.
 *
 * Who joins needs no news: sessions look at the list's version when they plan.
 * But one that goes takes plans, steps and variables along, and so each session
 * watches. A watcher is called without any lock held, and kept by a share while
 * it is called.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_DEVICE_LIST_H
#define TD_DEVICE_LIST_H

#include <pthread.h>

#include "engine/base/vec.h"
#include "engine/device/device.h"

TD_BEGIN

typedef struct td_device_watcher {
  void *arg;
  int32_t *refs; /* atomic: the shares of `arg`; 0: it is ending */
  void (*release)(void *arg);
  /* Appends the names of what lives on `d`, ", " between them. */
  void (*lives)(void *arg, const td_device *d, td_str *names);
  /* `d` was removed. `drop`: what lives there is dropped. */
  void (*gone)(void *arg, td_device *d, bool drop);
  struct td_device_watcher *prev, *next; /* the list's */
} td_device_watcher;

typedef struct td_device_list {
  pthread_mutex_t lock;
  TD_VEC(td_device *) at;      /* lock: lock. Retained, in order of coming */
  td_device_watcher *watchers; /* lock: lock */
  uint64_t version;            /* atomic: changes, grows with each */
} td_device_list;

void td_device_list_init(td_device_list *l);
void td_device_list_deinit(td_device_list *l); /* when nobody watches */
/* Retains `d`; ALREADY_EXISTS when its name is taken. */
td_status *td_device_list_add(td_device_list *l, td_device *d) TD_MUST_USE;
/* Takes `d` out and tells all who watch. What lives there is dropped with
 * `drop`, else FAILED_PRECONDITION names it and `d` stays; `lives` has the names
 * of what is not a watcher's. NOT_FOUND when it is not there. */
td_status *td_device_list_remove(td_device_list *l, td_device *d, bool drop,
                                 const char *lives) TD_MUST_USE;
/* The device of that type and number, retained, or NULL. */
td_device *td_device_list_find(td_device_list *l, const char *type, int index);
/* Appends all to out[n], retained, in room for `room`; how many there are. */
size_t td_device_list_copy(td_device_list *l, td_device **out, size_t room);
void td_device_list_watch(td_device_list *l, td_device_watcher *w);
void td_device_list_unwatch(td_device_list *l, td_device_watcher *w);

TD_END
#endif
