/* subshell.c - lines that clients open beside the first one.
 *
 * Each has a thread, a queue and a count of its own, and takes its turns in the
 * one interpreter: it answers while a step of another runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "jupyter/kernel_impl.h"

enum { MOST = 64 };

static int count(td_jupyter_kernel *k) {
  int n = 0;
  for (td_jupyter_subshell *s = k->subshells; s; s = s->next) n++;
  return n;
}

static void subshell_free(td_jupyter_subshell *s) {
  td_jupyter_worker_deinit(&s->worker);
  td_line_free(s->worker.line);
  td_free(s);
}

td_status *td_jupyter_subshell_create(td_jupyter_kernel *k, char id[37]) {
  pthread_mutex_lock(&k->subshell_lock);
  bool full = count(k) >= MOST;
  pthread_mutex_unlock(&k->subshell_lock);
  if (full)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "there are %d subshells; delete one first", MOST);
  td_jupyter_subshell *s = td_alloc_zero(1, sizeof *s);
  if (!s) return td_oom();
  td_jupyter_wire_uuid(s->id);
  td_status *e =
      td_jupyter_worker_init(&s->worker, k, td_line_new(k->host, s->id));
  if (td_ok(e)) e = td_jupyter_worker_start(&s->worker);
  if (!td_ok(e)) {
    subshell_free(s);
    return e;
  }
  memcpy(id, s->id, sizeof s->id);
  pthread_mutex_lock(&k->subshell_lock);
  s->next = k->subshells;
  k->subshells = s;
  pthread_mutex_unlock(&k->subshell_lock);
  return NULL;
}

bool td_jupyter_subshell_delete(td_jupyter_kernel *k, const char *id) {
  pthread_mutex_lock(&k->subshell_lock);
  td_jupyter_subshell **at = &k->subshells;
  while (*at && strcmp((*at)->id, id)) at = &(*at)->next;
  td_jupyter_subshell *s = *at;
  if (s) {
    *at = s->next;
    s->next = k->leaving;
    k->leaving = s;
  }
  pthread_mutex_unlock(&k->subshell_lock);
  if (!s) return false;
  td_jupyter_worker_stop(&s->worker);
  td_jupyter_worker_interrupt(&s->worker, 0);
  return true;
}

void td_jupyter_subshell_list(td_jupyter_kernel *k, td_str *out) {
  pthread_mutex_lock(&k->subshell_lock);
  td_str_addc(out, '[');
  for (td_jupyter_subshell *s = k->subshells; s; s = s->next)
    td_str_addf(out, "%s\"%s\"", s == k->subshells ? "" : ", ", s->id);
  td_str_addc(out, ']');
  pthread_mutex_unlock(&k->subshell_lock);
}

bool td_jupyter_subshell_add(td_jupyter_kernel *k, const char *id,
                             td_jupyter_request *r, uint64_t number) {
  pthread_mutex_lock(&k->subshell_lock);
  td_jupyter_subshell *s = k->subshells;
  while (s && strcmp(s->id, id)) s = s->next;
  if (s) td_jupyter_worker_add(&s->worker, r, number);
  pthread_mutex_unlock(&k->subshell_lock);
  return s != NULL;
}

/* Lists change on the control thread alone, which is where this is called. */
bool td_jupyter_subshell_each(td_jupyter_kernel *k,
                              bool (*f)(td_jupyter_worker *w, void *arg),
                              void *arg) {
  for (td_jupyter_subshell *s = k->subshells; s; s = s->next)
    if (f(&s->worker, arg)) return true;
  for (td_jupyter_subshell *s = k->leaving; s; s = s->next)
    if (f(&s->worker, arg)) return true;
  return false;
}

void td_jupyter_subshell_reap(td_jupyter_kernel *k, bool wait) {
  td_jupyter_subshell **at = &k->leaving, *s;
  while ((s = *at)) {
    td_jupyter_worker *w = &s->worker;
    if (!wait && w->started && pthread_tryjoin_np(w->thread, NULL) != 0) {
      at = &s->next;
      continue;
    }
    if (!wait) w->started = false;
    *at = s->next;
    subshell_free(s);
  }
}
