/* safetensors.h - reading .safetensors files: named tensors behind a header.
 *
 * Eight bytes with the length of the header, the header (safetensors_header.h),
 * the tensors. Opening reads the header only; a tensor is read, or mapped, by
 * itself.
 *
 * Tensors of F8, F6 and F4 kinds are listed; what has no counterpart here cannot
 * be read. A file is used by one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SAFETENSORS_H
#define TD_SAFETENSORS_H

#include "engine/tensor/tensor.h"

TD_BEGIN

typedef struct td_safetensors td_safetensors;

typedef struct td_safetensors_entry {
  const char *name; /* borrowed; valid while the file is open */
  const char *kind; /* the format's name of its dtype: "F32"; a constant */
  td_dtype dtype;   /* TD_INVALID: none that a tensor here can have */
  td_shape shape;
  uint64_t size; /* in bytes */
} td_safetensors_entry;

/* NOT_FOUND, or DATA_LOSS for what is no such file. Takes memory for twice the
 * header at most. Caller owns the result. */
td_status *td_safetensors_open(const char *path,
                               td_safetensors **out) TD_MUST_USE;
void td_safetensors_close(td_safetensors *f); /* NULL is ok */

/* Tensors by name, ascending. */
size_t td_safetensors_count(const td_safetensors *f);
void td_safetensors_at(const td_safetensors *f, size_t i,
                       td_safetensors_entry *out);
/* NOT_FOUND, with the nearest name. */
td_status *td_safetensors_find(const td_safetensors *f, const char *name,
                               size_t *i) TD_MUST_USE;

/* Tensor i in host memory. Caller owns the result. */
td_status *td_safetensors_read(td_safetensors *f, size_t i,
                               td_tensor *out) TD_MUST_USE;
/* The same as a view of the file, read only, that outlives `f`; its bytes take no
 * memory of the process. Where it lies unaligned it is read. Who cuts the file
 * short meanwhile crashes whoever reads behind its end. */
td_status *td_safetensors_map(td_safetensors *f, size_t i,
                              td_tensor *out) TD_MUST_USE;

/* The file's metadata, one pair after the other: begin with {0}; false at the
 * end. */
typedef struct td_safetensors_pair {
  const char *key, *value; /* borrowed; valid while the file is open */
} td_safetensors_pair;
bool td_safetensors_next_pair(const td_safetensors *f, td_safetensors_pair *p);

TD_END
#endif
