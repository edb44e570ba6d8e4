/* subshell.h - lines that clients open beside the first one.
 *
 * Each has a thread, a queue and a count of its own, and takes its turns in the
 * one interpreter: it answers while a step of another runs. The control thread
 * opens and closes them; the shell's thread hands them requests.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_SUBSHELL_H
#define TD_JUPYTER_SUBSHELL_H

#include "jupyter/worker.h"

typedef struct td_jupyter_subshell {
  struct td_jupyter_subshell *next;
  char id[37];
  td_jupyter_worker worker;
} td_jupyter_subshell;

typedef struct td_jupyter_subshells {
  td_host *host; /* these three are borrowed, for the workers */
  td_jupyter_iopub *iopub;
  td_jupyter_shell *shell;
  pthread_mutex_t lock; /* of the lists, which control's thread alone changes */
  td_jupyter_subshell *open, *leaving; /* leaving: deleted, and not ended yet */
} td_jupyter_subshells;

void td_jupyter_subshell_init(td_jupyter_subshells *all, td_host *host,
                              td_jupyter_iopub *iopub, td_jupyter_shell *shell);
/* Deletes all and waits until they have ended. */
void td_jupyter_subshell_deinit(td_jupyter_subshells *all);

/* Opens one and gives its id. */
td_status *td_jupyter_subshell_create(td_jupyter_subshells *all,
                                      char id[37]) TD_MUST_USE;
/* False when there is none of that name. What it runs is interrupted. */
bool td_jupyter_subshell_delete(td_jupyter_subshells *all, const char *id);
/* Appends their ids, a JSON list. */
void td_jupyter_subshell_list(td_jupyter_subshells *all, td_str *out);
/* Hands a request to the subshell it names and takes it over; false, and `r`
 * stays the caller's, when there is none. The shell's thread. */
bool td_jupyter_subshell_add(td_jupyter_subshells *all, td_jupyter_request *r,
                             uint64_t number);
/* Calls f for each, those that are leaving too, until it returns true; true
 * when one did. Control's thread. */
bool td_jupyter_subshell_each(td_jupyter_subshells *all,
                              bool (*f)(td_jupyter_worker *w, void *arg),
                              void *arg);
/* Frees those that were deleted and have ended; false while one has not. */
bool td_jupyter_subshell_reap(td_jupyter_subshells *all);

#endif
