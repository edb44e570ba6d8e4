/* safetensors_writer.h - writing .safetensors files, a tensor at a time.
 *
 *   td_safetensors_writer_open(path, specs, n, pairs, m, &w)
 *   while ((i = td_safetensors_writer_next(w)) < n)
 *     td_safetensors_writer_add(w, tensor i of the specs)
 *   td_safetensors_writer_commit(w)   now it is there, and outlives a crash
 *   td_safetensors_writer_close(w)    without commit nothing has happened
 *
 * The header comes first, so all is said of the tensors before the first is
 * written. They lie as the format's own library puts them, by dtype and then by
 * name, so that each is aligned and the same tensors make the same bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SAFETENSORS_WRITER_H
#define TD_SAFETENSORS_WRITER_H

#include "engine/io/safetensors.h"

TD_BEGIN

typedef struct td_safetensors_writer td_safetensors_writer;

typedef struct td_safetensors_spec {
  const char *name;
  td_dtype dtype;
  td_shape shape;
} td_safetensors_spec;

/* INVALID_ARGUMENT for a dtype that the format lacks (string, complex128,
 * quantized), a name that comes twice, is no UTF-8 or is the format's own.
 * Metadata are pairs without such names, in the order that they shall have.
 * Caller owns the result. */
td_status *td_safetensors_writer_open(const char *path,
                                      const td_safetensors_spec *specs,
                                      size_t n,
                                      const td_safetensors_pair *pairs,
                                      size_t n_pairs,
                                      td_safetensors_writer **out) TD_MUST_USE;
/* Which of the specs comes next; their number when all are there. */
size_t td_safetensors_writer_next(const td_safetensors_writer *w);
/* Appends that one, a host tensor, as it lies. */
td_status *td_safetensors_writer_add(td_safetensors_writer *w,
                                     const td_tensor *t) TD_MUST_USE;
/* Once, and last: FAILED_PRECONDITION while tensors are missing. */
td_status *td_safetensors_writer_commit(td_safetensors_writer *w) TD_MUST_USE;
void td_safetensors_writer_close(td_safetensors_writer *w); /* NULL is ok */

TD_END
#endif
