/* states_impl.h - what td_states is. For states.c, and for states_save.c, which
 * stands on it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STATES_IMPL_H
#define TD_STATES_IMPL_H

#include <pthread.h>

#include "engine/base/map.h"
#include "engine/device/states.h"

typedef struct td_state {
  int32_t refs; /* under the mutex: the kernels that have it */
  bool old;     /* under the mutex: out of the map, in the list of old ones */
  uint64_t incarnation; /* of its device */
  uint64_t serial;
  const td_kernel_def *def;
  void *state;
  struct td_state *next; /* of the old ones */
} td_state;

struct td_states {
  int32_t refs; /* atomic */
  pthread_mutex_t mutex;
  td_map entries; /* under the mutex; name -> td_state */
  td_state *old;  /* under the mutex: replaced, and still needed */
  /* States that were loaded, until their kernels come. Who makes a state while
   * there are any holds `loading`, also over the row's make and load; it is
   * taken before the mutex. */
  pthread_mutex_t loading;
  td_map loaded;    /* under `loading`; name -> td_str */
  int32_t n_loaded; /* atomic; changes under `loading` */
};

/* Lets go of a state that was found under the mutex, refs + 1. */
void td_states_drop(td_states *s, td_state *e);

/* Under `loading`: gives `e` the bytes that were loaded for `name`, if there are
 * any. */
td_status *td_states_claim(td_states *s, const char *name,
                           td_state *e) TD_MUST_USE;
void td_states_forget(td_states *s, const char *name);
void td_states_count_loaded(td_states *s); /* after putting in */
void td_states_free_bytes(td_str *bytes);

#endif
