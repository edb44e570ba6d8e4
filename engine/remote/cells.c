/* cells.c - the counters of cells.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/cells.h"

uint32_t td_cell_counts[TD_CELL_TABLES][TD_CELL_STATES][TD_CELL_EVENTS];
int td_bug_planted;
