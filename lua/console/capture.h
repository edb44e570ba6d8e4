/* capture.h - what is written to files 1 and 2, taken aside.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_CAPTURE_H
#define TD_LUA_CAPTURE_H

struct lua_State;

/* frontend.capture() -> an object; object:stop() -> what came on 1, and on 2.
 * Its end puts them back as well. */
int td_capture(struct lua_State *L);

#endif
