/* npz_writer.h - writing NumPy's .npz archives, an array at a time.
 *
 *   td_npz_writer_open(path, deflate, &w)
 *   td_npz_writer_add(w, name, &t)   as often as there are arrays
 *   td_npz_writer_commit(w)          now it is there, and outlives a crash
 *   td_npz_writer_close(w)           without commit nothing has happened
 *
 * A stored array is written as it lies; a deflated one takes memory for what it
 * is packed to. Same arrays, same bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_NPZ_WRITER_H
#define TD_NPZ_WRITER_H

#include "engine/tensor/tensor.h"

TD_BEGIN

typedef struct td_npz_writer td_npz_writer;

/* Caller owns the result. */
td_status *td_npz_writer_open(const char *path, bool deflate,
                              td_npz_writer **out) TD_MUST_USE;
/* Appends a host tensor. INVALID_ARGUMENT for a dtype that NumPy lacks, a name
 * that came before, or one that is empty, too long or no UTF-8. */
td_status *td_npz_writer_add(td_npz_writer *w, const char *name,
                             const td_tensor *t) TD_MUST_USE;
/* Once, and last. */
td_status *td_npz_writer_commit(td_npz_writer *w) TD_MUST_USE;
void td_npz_writer_close(td_npz_writer *w); /* NULL is ok */

TD_END
#endif
