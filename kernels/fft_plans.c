/* fft_plans.c - the plans that a kernel keeps from run to run.
 *
 * A plan is found by length and precision; of more lengths than there are
 * places the one made first makes room. Runs hold a plan while they use it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "kernels/fft.h"

enum { PLACES = 8 };

typedef struct plans {
  pthread_mutex_t mutex;
  td_fft_plan *plan[PLACES]; /* mutex */
  int next;                  /* mutex: the place of the next new one */
} plans;

td_status *td_fft_plans_make(const td_kernel_info *info, void **state) {
  (void)info;
  plans *p = td_calloc(1, sizeof *p);
  if (!p) return td_oom();
  pthread_mutex_init(&p->mutex, NULL);
  *state = p;
  return NULL;
}

void td_fft_plans_drop(void *state) {
  plans *p = state;
  for (int i = 0; i < PLACES; i++) td_fft_plan_release(p->plan[i]);
  pthread_mutex_destroy(&p->mutex);
  td_free(p);
}

static bool same(const td_fft_kind *a, const td_fft_kind *b) {
  return a->n == b->n && a->wide == b->wide && a->row == b->row &&
         a->half == b->half;
}

static td_fft_plan *find(plans *p, const td_fft_kind *kind) {
  td_fft_plan *found = NULL;
  pthread_mutex_lock(&p->mutex);
  for (int i = 0; i < PLACES && !found; i++)
    if (p->plan[i] && same(&p->plan[i]->kind, kind))
      found = td_fft_plan_retain(p->plan[i]);
  pthread_mutex_unlock(&p->mutex);
  return found;
}

static void keep(plans *p, td_fft_plan *plan) {
  pthread_mutex_lock(&p->mutex);
  td_fft_plan *old = p->plan[p->next];
  p->plan[p->next] = td_fft_plan_retain(plan);
  p->next = (p->next + 1) % PLACES;
  pthread_mutex_unlock(&p->mutex);
  td_fft_plan_release(old);
}

td_status *td_fft_plans_get(void *state, const td_fft_kind *kind,
                            td_fft_plan **out) {
  *out = find(state, kind);
  if (*out) return NULL;
  TD_TRY(td_fft_plan_new(kind, out));
  keep(state, *out);
  return NULL;
}
