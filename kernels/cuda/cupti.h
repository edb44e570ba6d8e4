/* cupti.h - the door to CUDA's library for tools, which sees each kernel.
 *
 * Between enter and leave what a thread enqueues belongs to a number; once that
 * is complete and was flushed, take gives the pieces. Times are of td_clock_now:
 * CUPTI reads our clock and moves the card's to it.
 *
 * It is used where TIDE_CUPTI=1 asks for it: with it each launch takes longer,
 * and a program can have one tool at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUPTI_H
#define TD_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct td_cupti_piece {
  uint64_t number;    /* whose it is */
  int64_t start, end; /* ns of td_clock_now */
  const char *kernel; /* its mangled name; NULL: a copy. Of the library */
  uint32_t call;      /* CUPTI's number of the call that enqueued it */
} td_cupti_piece;

/* Somebody traces, from now on until as many ends. False: there is no CUPTI. */
bool td_cupti_begin(void);
void td_cupti_end(void);
/* Of the calling thread; numbers are not 0. */
void td_cupti_enter(uint64_t number);
void td_cupti_leave(void);
/* Waits until what is complete can be taken. */
void td_cupti_flush(void);
/* The number's pieces by their starts, `most` at most; how many. */
size_t td_cupti_take(uint64_t number, td_cupti_piece *out, size_t most);

#endif
