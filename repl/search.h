/* search.h - incremental search in the history (^R, ^S).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_SEARCH_H
#define TD_REPL_SEARCH_H

#include "repl/history.h"

typedef struct td_edit_search {
  bool active;
  bool failed; /* nothing (more) was found */
  td_str query;
  size_t at;    /* the entry found; entries.len: none yet */
  size_t found; /* where in it the query is */
} td_edit_search;

void td_edit_search_init(td_edit_search *s);
void td_edit_search_deinit(td_edit_search *s);

/* Each gives the entry to show, or NULL: what is shown stays. Borrowed from the
 * history. */
void td_edit_search_begin(td_edit_search *s, const td_edit_history *h);
const char *td_edit_search_add(td_edit_search *s, const td_edit_history *h,
                               const char *text, size_t len);
const char *td_edit_search_shorten(td_edit_search *s, const td_edit_history *h);
const char *td_edit_search_older(td_edit_search *s, const td_edit_history *h);
const char *td_edit_search_newer(td_edit_search *s, const td_edit_history *h);

#endif
