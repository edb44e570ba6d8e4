/* capture.h - what is written to files 1 and 2, taken aside.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_CAPTURE_H
#define TD_LUA_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

struct lua_State;

/* front.capture() -> an object; object:stop() -> what came on 1, and on 2. Its
 * end puts them back as well. */
int td_capture(struct lua_State *L);
/* For who replaced C's streams: does a capture of the line that runs take this?
 * `stream` is 1 or 2. */
bool td_capture_text(int stream, const char *bytes, size_t len);

#endif
