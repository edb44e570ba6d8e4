/* child.h - commands of the shell, run so that an interrupt ends them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_CHILD_H
#define TD_LUA_CHILD_H

#include <lua.h>

/* os.execute(command): other lines run while it does. */
int td_child_execute(lua_State *L);
/* io.popen(command, mode) */
int td_child_popen(lua_State *L);
/* Ends what this line opened by popen and has not closed. */
void td_child_interrupt(void);
/* Takes leave of children that have ended and nobody waits for. */
void td_child_reap(void);

#endif
