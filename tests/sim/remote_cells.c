/* remote_cells.c - see remote_cells.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/remote_cells.h"

#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/rounds.h"

#include "engine/remote/cells.h"
#include "engine/remote/health.h"
#include "engine/remote/master_impl.h"
#include "engine/remote/worker_impl.h"

typedef struct table {
  const char *name;
  int states, events;
  const char *state[TD_CELL_STATES], *event[TD_CELL_EVENTS];
} table;

static const table tables[TD_CELL_TABLES] = {
    [TD_CELLS_PEER] = {"peer",
                       TD_HEALTH_STATES,
                       TD_HEALTH_EVENTS,
                       {"joining", "up", "suspect", "dead"},
                       {"heard", "silent", "very silent", "broken", "restarted",
                        "refused", "stalled", "ended"}},
    [TD_CELLS_SESSION] = {"session",
                          TD_HOSTED_GONE + 1,
                          TD_OTHER_FENCED + 1,
                          {"open", "closing", "gone"},
                          {"RUN new", "RUN old", "TENSOR early", "TENSOR old",
                           "CANCEL early", "master gone", "other fenced"}},
    [TD_CELLS_STEP] = {"step",
                       TD_STEP_ENDED + 1,
                       TD_STEP_CANCELLED + 1,
                       {"running", "failing", "ended"},
                       {"DONE ok", "DONE cause", "DONE evidence", "task dead",
                        "cancelled"}},
};

typedef struct impossible {
  td_cells table;
  int state, event;
  const char *why;
} impossible;

static const char refused[] = "who was let in is not refused, and each side "
                              "here has the same version";
static const char hung_up[] = "its link was hung up: what comes by another is "
                              "of another peer";
static const char silent[] = "nobody looks at the silence of the dead";
static const char unknown[] = "of a session that is gone nothing is known: all "
                              "RUN count as new, all TENSOR as old";
static const char closing[] = "a session closes in one turn, or as its last "
                              "steps end, which were cancelled before: what "
                              "comes after its CLOSE finds it gone";
static const impossible never[] = {
    {TD_CELLS_PEER, TD_UP, TD_VERY_SILENT,
     "what our own loop stood still is no silence: it is suspected first"},
    {TD_CELLS_PEER, TD_UP, TD_REFUSED, refused},
    {TD_CELLS_PEER, TD_SUSPECT, TD_SILENT, "it is suspected already"},
    {TD_CELLS_PEER, TD_SUSPECT, TD_REFUSED, refused},
    {TD_CELLS_PEER, TD_DEAD, TD_HEARD, hung_up},
    {TD_CELLS_PEER, TD_DEAD, TD_SILENT, silent},
    {TD_CELLS_PEER, TD_DEAD, TD_VERY_SILENT, silent},
    {TD_CELLS_PEER, TD_DEAD, TD_BROKEN, hung_up},
    {TD_CELLS_PEER, TD_DEAD, TD_RESTARTED, hung_up},
    {TD_CELLS_PEER, TD_DEAD, TD_REFUSED, hung_up},
    {TD_CELLS_SESSION, TD_HOSTED_CLOSING, TD_RUN_NEW, closing},
    {TD_CELLS_SESSION, TD_HOSTED_CLOSING, TD_RUN_OLD, closing},
    {TD_CELLS_SESSION, TD_HOSTED_CLOSING, TD_VALUE_EARLY, closing},
    {TD_CELLS_SESSION, TD_HOSTED_CLOSING, TD_VALUE_OLD, closing},
    {TD_CELLS_SESSION, TD_HOSTED_CLOSING, TD_CANCEL_EARLY, closing},
    {TD_CELLS_SESSION, TD_HOSTED_CLOSING, TD_OTHER_FENCED, closing},
    {TD_CELLS_SESSION, TD_HOSTED_GONE, TD_RUN_OLD, unknown},
    {TD_CELLS_SESSION, TD_HOSTED_GONE, TD_VALUE_EARLY, unknown},
    {TD_CELLS_STEP, TD_STEP_ENDED, TD_TASK_DEAD,
     "who has ended is in no list of those who are told"},
};

static const impossible *find(int t, int state, int event) {
  for (size_t i = 0; i < TD_COUNT(never); i++)
    if ((int)never[i].table == t && never[i].state == state &&
        never[i].event == event)
      return &never[i];
  return NULL;
}

void remote_cells_forget(void) {
  memset(td_cell_counts, 0, sizeof td_cell_counts);
}

/* It may be, but is seldom seen. */
static bool is_rare(const impossible *no) {
  return no->why == closing;
}

/* 1: it should not be so. */
static int check_cell(int t, int state, int event) {
  uint32_t n = td_cell_counts[t][state][event];
  const impossible *no = find(t, state, event);
  print_message("%s %s, %s: %u%s%s\n", tables[t].name, tables[t].state[state],
                tables[t].event[event], (unsigned)n,
                !no           ? ""
                : is_rare(no) ? ", seldom: "
                              : ", never: ",
                no ? no->why : "");
  return no ? n > 0 && !is_rare(no) : n == 0;
}

void remote_cells_check(void) {
  int wrong = 0;
  for (int t = 0; t < TD_CELL_TABLES; t++)
    for (int s = 0; s < tables[t].states; s++)
      for (int e = 0; e < tables[t].events; e++) wrong += check_cell(t, s, e);
  if (getenv("TIDE_SEEDS") || SANITIZED) return;
  if (wrong > 0)
    fail_msg("%d cells of the tables are not as they should be", wrong);
}
