/* cells.h - which cells of the state tables were hit.
 *
 * README.md has a table for each machine: a row for an event, a column for a
 * state. Each cell is counted where it is taken, so that the simulator can show
 * that none was left out. And bugs that are planted to test it: numbers that a
 * test switches on; 0 in all other processes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CELLS_H
#define TD_CELLS_H

#include "engine/base/base.h"


typedef enum td_cells {
  TD_CELLS_PEER,    /* health.h */
  TD_CELLS_SESSION, /* worker_impl.h */
  TD_CELLS_STEP,    /* master_impl.h */
} td_cells;
enum { TD_CELL_TABLES = 3, TD_CELL_STATES = 4, TD_CELL_EVENTS = 16 };

extern uint32_t td_cell_counts[TD_CELL_TABLES][TD_CELL_STATES][TD_CELL_EVENTS];

static inline void td_cell(td_cells table, int state, int event) {
  __atomic_fetch_add(&td_cell_counts[table][state][event], 1, __ATOMIC_RELAXED);
}

/* Of this process: the planted bug that is switched on. */
typedef enum td_bug {
  TD_BUG_NONE,
  TD_BUG_ZOMBIE,         /* what another incarnation sent is taken */
  TD_BUG_RUN_TWICE,      /* a RUN that came before runs again */
  TD_BUG_EARLY_TENSOR,   /* a value that came before its step is dropped */
  TD_BUG_LATE_TENSOR,    /* one of an earlier step is given to the next */
  TD_BUG_NO_FENCE,       /* a dead task is not told to the others */
  TD_BUG_CAUSE_LOST,     /* evidence is reported before its cause */
  TD_BUG_LEAKED_SESSION, /* a dead master's session stays */
  TD_BUG_WINDOW,         /* pulls without a window */
  TD_BUG_DONE_EARLY,     /* a step is over before all have said DONE */
  TD_BUG_CANCEL_LOST,    /* a cancel before its RUN is forgotten */
  TD_BUG_STALL,          /* judged by a clock that stood still */
  TD_BUG_MIXED_RESTORE,  /* what a lost worker had is there when it is back */
  TD_BUGS
} td_bug;
extern int td_bug_planted;
#define TD_BUG(bug) TD_UNLIKELY(td_bug_planted == (bug))

#endif
