/* capture.h - what is written to files 1 and 2, taken aside.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_CAPTURE_H
#define TD_LUA_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>

struct lua_State;

/* frontend.capture() -> an object; object:stop() -> what came on 1, and on 2.
 * Its end puts them back as well. */
int td_capture_start(struct lua_State *L);

/* For who has replaced C's streams: a line that captures its output takes this
 * text of stream 1 or 2, written by its thread. False: nobody did. */
bool td_capture_write(int stream, const char *bytes, size_t len);

#endif
