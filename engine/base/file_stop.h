/* file_stop.h - how a read that waits for bytes is told to end.
 *
 * A file on a disk is read at once. A pipe or a terminal has its bytes when
 * somebody writes them, perhaps never, and a thread that waits for them is woken
 * by nothing else. So work that reads carries a td_file_stop:
 *
 *   td_file_stop *outer = td_file_stop_enter(&w->stop);   // where it reads
 *   ... td_file_read(..) ...
 *   td_file_stop_leave(outer);
 *
 *   td_file_stop_fire(&w->stop);                          // from elsewhere
 *
 * A read under a stop that was fired ends with CANCELLED: one that waits does at
 * once, and it has taken nothing, so that it may be made again. A file system
 * whose reads wait for a descriptor does so by td_file_stop_wait. A zeroed one is
 * ready; it costs nothing until a read waits.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FILE_STOP_H
#define TD_FILE_STOP_H

#include "engine/base/status.h"

TD_BEGIN

typedef struct td_file_stop {
  int32_t fired; /* atomic */
  int32_t wake;  /* atomic: a descriptor and 1; 0 before the first wait */
  bool hurry;    /* of who reads: take what is there, wait for nothing */
} td_file_stop;

/* Closes what it has. Nobody reads under it or fires it any more. */
void td_file_stop_deinit(td_file_stop *s);
/* Ends the reads under it, those to come too. Any thread; never waits. */
void td_file_stop_fire(td_file_stop *s);
/* As new. Nobody reads under it or fires it meanwhile. */
void td_file_stop_reset(td_file_stop *s);
/* Is `read`, of a read under it, its doing? (Also for want of patience.) */
bool td_file_stop_ended(const td_file_stop *s, const td_status *read);

/* Reads of this thread are under `s` (NULL: under none) until leave, which takes
 * what enter returned. */
td_file_stop *td_file_stop_enter(td_file_stop *s) TD_MUST_USE;
void td_file_stop_leave(td_file_stop *outer);

/* CANCELLED when this thread's stop was fired. */
td_status *td_file_stop_check(const char *path) TD_MUST_USE;
/* Waits until a read of the descriptor would not: there are bytes, or the end.
 * CANCELLED as above, or when this thread's stop is in a hurry. */
td_status *td_file_stop_wait(int fd, const char *path) TD_MUST_USE;

TD_END
#endif
