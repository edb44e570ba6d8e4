/* plant.h - known bugs, planted on purpose to test the tests.
 *
 * make PLANT=n builds with bug n in place; the random-graph test must find it.
 * In an ordinary build TD_PLANT(n) is the constant false.
 *
 *  1 pending count of the next iteration     6 early release of an input
 *  2 dead token lost on a control edge       7 control edge lost at partition
 *  3 Merge fires twice                       8 constant Enter not replayed
 *  4 rendezvous key without iteration        9 stateful op merged by cse
 *  5 in-place write to a shared buffer      10 parallel_iterations overrun
 * 11 a job's hold taken once it was posted: only an unlucky order shows it
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PLANT_H
#define TD_PLANT_H

#ifndef TD_PLANTED
#define TD_PLANTED 0
#endif
#define TD_PLANT(n) (TD_PLANTED == (n))

#endif
