/* text.h - string tensors written one string after the other.
 *
 * A string tensor is one block whose size must be known before it is made, so
 * the strings are put together in memory that grows, then copied once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TEXT_H
#define TD_TEXT_H

#include "engine/device/kernel.h"

TD_BEGIN

/* All zero bytes is an empty one. */
typedef struct td_text {
  td_str all;     /* the strings; append the next one here */
  uint64_t *ends; /* of each one that is over */
  int64_t count, room;
  bool failed; /* no memory: td_text_out says so */
} td_text;

/* There will be `count` strings: false, at once, when they are too many. */
bool td_text_reserve(td_text *t, int64_t count);
/* The string appended to `all` since the last call is over. */
void td_text_end(td_text *t);
/* Output i of `shape`, of as many strings. */
td_status *td_text_out(td_kernel_ctx *c, int i, const td_shape *shape,
                       const td_text *t) TD_MUST_USE;
void td_text_drop(td_text *t);
/* The strings of `from` behind those of `t`; td_text_out tells a failure. */
void td_text_append(td_text *t, const td_text *from);

/* Element i of a string tensor. Borrowed; valid while `t` lives. */
td_bytes td_text_at(const td_tensor *t, int64_t i);

/* A kernel that makes a string of each element of input 0: appends it to
 * `out`. An error is told with the element's number. */
typedef td_status *(*td_text_fn)(const void *arg, td_bytes in, td_str *out);
td_status *td_text_map(td_kernel_ctx *c, td_text_fn fn,
                       const void *arg) TD_MUST_USE;

static inline bool td_text_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
/* Does a UTF-8 sequence go on with this byte? */
static inline bool td_text_follows(char c) {
  return ((unsigned char)c & 0xc0) == 0x80;
}
/* Without white space at both ends. */
td_bytes td_text_strip(td_bytes s);
/* For messages: at most 60 bytes of it. */
static inline int td_text_shown(td_bytes s) {
  return s.len > 60 ? 60 : (int)s.len;
}

TD_END
#endif
