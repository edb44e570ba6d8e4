/* session_applied.c - what became of the updates of a step that failed.
 *
 * Each participant knows how far its portion came: it never began, it ended
 * well and all of it counts, or neither is known. A step of this process alone
 * says nothing: an error of a node there has always meant that what does not
 * depend on it may have run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/str.h"
#include "engine/run/session_impl.h"

enum { TOLD = 8 }; /* tasks of a kind */

bool td_session_updates(const td_roll *roll) {
  for (int i = 0; i < roll->n_parts; i++) {
    const td_graph *g = roll->parts[i].graph;
    for (int32_t id = 0; id < td_graph_size(g); id++)
      if (td_graph_node(g, id)->op->flags & TD_UPDATES) return true;
  }
  return false;
}

static td_applied of(const td_portion *n) {
  return (td_applied)__atomic_load_n(&n->applied, __ATOMIC_ACQUIRE);
}

static int count(const td_session_step *step, td_applied what) {
  int n = 0;
  for (int i = 0; i < step->n_portions; i++)
    n += of(step->portions[i].portion) == what;
  return n;
}

/* "unknown at /job:worker/task:0, /job:worker/task:1" */
static void add(const td_session_step *step, td_applied what, const char *word,
                td_str *out) {
  int all = count(step, what), told = 0;
  for (int i = 0; i < step->n_portions && told < TOLD; i++) {
    const td_portion *n = step->portions[i].portion;
    if (of(n) != what) continue;
    td_str_addf(out, "%s%s%s",
                told       ? ", "
                : out->len ? "; "
                           : "",
                told ? "" : word, n->of->task);
    told++;
  }
  if (all > told) td_str_addf(out, " and %d more", all - told);
}

td_status *td_session_step_applied(const td_session_step *step, td_status *s) {
  td_str text = {0};
  if (td_ok(s) || count(step, TD_APPLIED_NONE) == step->n_portions) return s;
  add(step, TD_APPLIED_UNKNOWN, "unknown at ", &text);
  add(step, TD_APPLIED_ALL, "all at ", &text);
  add(step, TD_APPLIED_NONE, "nothing at ", &text);
  if (!text.failed) s = td_status_applied(s, td_str_c(&text));
  td_str_deinit(&text);
  return s;
}
