/* subshell.c - lines that clients open beside the first one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/subshell.h"

#include <string.h>

#include "engine/base/mem.h"

enum { MOST = 64 };

void td_jupyter_subshell_init(td_jupyter_subshells *all, td_host *host,
                              td_jupyter_iopub *iopub,
                              td_jupyter_shell *shell) {
  *all = (td_jupyter_subshells){.host = host, .iopub = iopub, .shell = shell};
  pthread_mutex_init(&all->lock, NULL);
}

static int count(td_jupyter_subshells *all) {
  int n = 0;
  pthread_mutex_lock(&all->lock);
  for (td_jupyter_subshell *s = all->open; s; s = s->next) n++;
  pthread_mutex_unlock(&all->lock);
  return n;
}

static void subshell_free(td_jupyter_subshell *s) {
  td_jupyter_worker_deinit(&s->worker);
  td_line_free(s->worker.line);
  td_free(s);
}

td_status *td_jupyter_subshell_create(td_jupyter_subshells *all, char id[37]) {
  if (count(all) >= MOST)
    return td_error(TD_RESOURCE_EXHAUSTED,
                    "there are %d subshells; delete one first", MOST);
  td_jupyter_subshell *s = td_calloc(1, sizeof *s);
  if (!s) return td_oom();
  td_jupyter_wire_uuid(s->id);
  td_status *e = td_jupyter_worker_init(
      &s->worker, td_line_new(all->host, s->id), all->iopub, all->shell,
      td_jupyter_shell_outbox(all->shell));
  if (td_ok(e)) e = td_jupyter_worker_start(&s->worker);
  if (!td_ok(e)) {
    subshell_free(s);
    return e;
  }
  memcpy(id, s->id, sizeof s->id);
  pthread_mutex_lock(&all->lock);
  s->next = all->open;
  all->open = s;
  pthread_mutex_unlock(&all->lock);
  return NULL;
}

bool td_jupyter_subshell_delete(td_jupyter_subshells *all, const char *id) {
  pthread_mutex_lock(&all->lock);
  td_jupyter_subshell **at = &all->open;
  while (*at && strcmp((*at)->id, id)) at = &(*at)->next;
  td_jupyter_subshell *s = *at;
  if (s) {
    *at = s->next;
    s->next = all->leaving;
    all->leaving = s;
  }
  pthread_mutex_unlock(&all->lock);
  if (!s) return false;
  td_jupyter_worker_stop(&s->worker);
  td_jupyter_worker_interrupt(&s->worker, 0);
  return true;
}

void td_jupyter_subshell_list(td_jupyter_subshells *all, td_str *out) {
  pthread_mutex_lock(&all->lock);
  td_str_addc(out, '[');
  for (td_jupyter_subshell *s = all->open; s; s = s->next)
    td_str_addf(out, "%s\"%s\"", s == all->open ? "" : ", ", s->id);
  td_str_addc(out, ']');
  pthread_mutex_unlock(&all->lock);
}

bool td_jupyter_subshell_add(td_jupyter_subshells *all, td_jupyter_request *r,
                             uint64_t number) {
  const char *id = td_jupyter_request_subshell(r);
  pthread_mutex_lock(&all->lock);
  td_jupyter_subshell *s = all->open;
  while (s && strcmp(s->id, id)) s = s->next;
  if (s) td_jupyter_worker_add(&s->worker, r, number);
  pthread_mutex_unlock(&all->lock);
  return s != NULL;
}

/* No lock: the lists change on this thread alone. */
bool td_jupyter_subshell_each(td_jupyter_subshells *all,
                              bool (*f)(td_jupyter_worker *w, void *arg),
                              void *arg) {
  for (td_jupyter_subshell *s = all->open; s; s = s->next)
    if (f(&s->worker, arg)) return true;
  for (td_jupyter_subshell *s = all->leaving; s; s = s->next)
    if (f(&s->worker, arg)) return true;
  return false;
}

bool td_jupyter_subshell_reap(td_jupyter_subshells *all) {
  td_jupyter_subshell **at = &all->leaving, *s;
  while ((s = *at)) {
    td_jupyter_worker *w = &s->worker;
    if (w->started && pthread_tryjoin_np(w->thread, NULL) != 0) {
      at = &s->next;
      continue;
    }
    w->started = false; /* its thread has been joined */
    *at = s->next;
    subshell_free(s);
  }
  return !all->leaving;
}

void td_jupyter_subshell_deinit(td_jupyter_subshells *all) {
  while (all->open) td_jupyter_subshell_delete(all, all->open->id);
  for (td_jupyter_subshell *s = all->leaving, *next; s; s = next) {
    next = s->next;
    subshell_free(s);
  }
  all->leaving = NULL;
}
