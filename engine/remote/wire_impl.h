/* wire_impl.h - messages as bytes, and what may come in them.
 *
 * A message is a head (remote.proto, packed by protobuf-c) and the raw frames
 * that the head speaks of, in order. What comes in is walked before protobuf-c
 * unpacks it, as every file is; then numbers are held against limits before
 * memory is taken for what they say.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_WIRE_IMPL_H
#define TD_WIRE_IMPL_H

#include "engine/base/mem.h"
#include "engine/remote/channel.h"
#include "engine/remote/remote.pb-c.h"
#include "engine/tensor/tensor.h"


enum {
  TD_WIRE_VERSION = 1,
  TD_WIRE_EAGER = 64 << 10,        /* bytes of a value that rides along */
  TD_WIRE_IMPL_HEAD_MOST = 1 << 20,     /* bytes of a head in one frame */
  TD_WIRE_LONG_MOST = 10,          /* frames of a longer one */
  TD_WIRE_VALUE_FRAMES = 62,       /* of values, in one message */
  TD_WIRE_TASK_MOST = 256,         /* of a task's name */
  TD_WIRE_MESSAGE_MOST = 64 << 10, /* of an error's text */
};
/* Bytes of one value that comes from a peer. */
#define TD_WIRE_VALUE_MOST (INT64_C(1) << 40)

typedef Td__Remote__Message td_head;

/* One that came. */
typedef struct td_message {
  td_arena arena; /* has the head */
  td_head *head;
  td_raw frames[TD_MESSAGE_FRAMES]; /* those after the head's */
  int n, taken;                    /* of them, frames that somebody took */
  int next; /* where the frames of the next message begin, or how many came */
} td_message;

/* Takes ownership of the frames before out->next; on error of all, and nothing is held: INVALID_ARGUMENT for
 * what is no message, or of another version. */
td_status *td_wire_read(td_raw *frames, int n, td_message *out) TD_MUST_USE;
void td_message_deinit(td_message *m);
/* The next frame, which becomes the caller's; INVALID_ARGUMENT when there is
 * none or its length is not `bytes`. */
td_status *td_message_take(td_message *m, uint64_t bytes,
                           td_raw *out) TD_MUST_USE;

/* A head as a frame. Caller owns what is in *out. */
td_status *td_wire_pack(const td_head *head, td_raw *out) TD_MUST_USE;
/* A head of any length, as *n of at most `most` frames. RESOURCE_EXHAUSTED for
 * one that is too long. Caller owns what is in out[0] to out[*n - 1]. */
td_status *td_wire_head(const td_head *head, int most, td_raw *out,
                        int *n) TD_MUST_USE;
/* Bytes that are copied, or a share of a tensor's contents. Caller owns what is
 * in *out. */
td_status *td_raw_copy(const void *bytes, size_t len,
                         td_raw *out) TD_MUST_USE;
td_status *td_raw_tensor(const td_tensor *t, size_t offset, size_t len,
                           td_raw *out) TD_MUST_USE;

/* ---- parts of messages ---- */

/* protobuf-c's strings are not const, and never NULL. Borrowed. */
static inline char *td_wire_text(const char *s) {
  return (char *)(s ? s : "");
}

/* An error on its way out; its strings are borrowed from `s`, which is cut at
 * TD_WIRE_MESSAGE_MOST. NULL for success. */
Td__Remote__Status *td_wire_status_out(td_arena *a,
                                       const td_status *s) TD_MUST_USE;
/* Caller owns the result. Its device, where the message says none, is
 * `task`; its text is cut as well. */
td_status *td_wire_status_in(const Td__Remote__Status *p,
                             const char *task) TD_MUST_USE;

/* dtype, shape and size of a host tensor (or a dead value: NULL). */
td_status *td_wire_value_out(td_arena *a, const td_tensor *t,
                             Td__Remote__Value **out) TD_MUST_USE;
/* What it says of its tensor: dtype and shape, and no memory yet. Checked;
 * TD_INVALID of a dead value. */
td_status *td_wire_value_read(const Td__Remote__Value *p,
                              td_tensor *out) TD_MUST_USE;
/* Memory of `a` (NULL: the host's) for a tensor that has none yet; `bytes` as
 * checked: those of a string tensor, which td_tensor_strings_check must see
 * when they are there. On error it has none still. */
td_status *td_wire_value_room(td_tensor *t, uint64_t bytes,
                              td_allocator *a) TD_MUST_USE;

#endif
