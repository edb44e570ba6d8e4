/* search.h - incremental search in the history (^R, ^S).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_REPL_SEARCH_H
#define TD_REPL_SEARCH_H

#include "repl/history.h"

typedef struct td_search {
  bool active;
  bool failed; /* nothing (more) was found */
  td_str query;
  size_t at;    /* the entry found; entries.len: none yet */
  size_t found; /* where in it the query is */
} td_search;

void td_search_init(td_search *s);
void td_search_deinit(td_search *s);

/* Each gives the entry to show, or NULL: what is shown stays. Borrowed from the
 * history. */
void td_search_begin(td_search *s, const td_history *h);
const char *td_search_add(td_search *s, const td_history *h, const char *text,
                          size_t len);
const char *td_search_shorten(td_search *s, const td_history *h);
const char *td_search_older(td_search *s, const td_history *h);
const char *td_search_newer(td_search *s, const td_history *h);

#endif
