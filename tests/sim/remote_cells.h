/* remote_cells.h - were all cells of the state tables hit?
 *
 * The tables are those of engine/remote/README.md, as engine/remote/cells.h
 * counts them. A cell that cannot be hit, or seldom is, stands in a list with
 * the reason; when one that cannot be is hit, the list is wrong.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SIM_REMOTE_CELLS_H
#define TEST_SIM_REMOTE_CELLS_H

void remote_cells_forget(void);
/* Prints all. Fails the cmocka test, naming the cells that were missed; not
 * where TIDE_SEEDS chose, or a sanitizer lets few seeds run. */
void remote_cells_check(void);

#endif
