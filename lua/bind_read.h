/* bind_read.h - reading a file that may have no bytes yet.
 *
 * A file of a disk is read at once, by the thread that asks. What a pipe or a
 * terminal gives comes when somebody writes it, perhaps never: it is read on an
 * I/O thread, while the one that asks lets go of the interpreter and hears
 * interrupts.
 *
 *   td_lua_read r = {.limit = most};
 *   td_lua_read_file(L, path, td_lua_read_bytes, &r);   r.bytes is the caller's
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_BIND_READ_H
#define TD_LUA_BIND_READ_H

#include <lua.h>

#include "engine/io/npz.h"
#include "engine/tensor/tensor.h"

TD_BEGIN

/* What is read, by one of the functions below, which sets its own fields. */
typedef struct td_lua_read {
  size_t limit; /* bytes */
  char *bytes;
  size_t len;
  td_tensor array;
  td_npz *archive;
} td_lua_read;

td_status *td_lua_read_bytes(const char *path, td_lua_read *r) TD_MUST_USE;
td_status *td_lua_read_array(const char *path, td_lua_read *r) TD_MUST_USE;
td_status *td_lua_read_archive(const char *path, td_lua_read *r) TD_MUST_USE;

/* Runs read(path, r), which touches nothing of Lua. Caller owns what it set.
 * Raises. */
void td_lua_read_file(lua_State *L, const char *path,
                      td_status *(*read)(const char *path, td_lua_read *r),
                      td_lua_read *r);

TD_END
#endif
