/* npy.h - NumPy's .npy files.
 *
 * Reads versions 1 to 3, either byte order, C or Fortran order; writes version
 * 1, little-endian, C order. Numbers and bool only: bfloat16, quantized types,
 * strings, objects and records are refused with what to do instead. No byte of
 * a file is trusted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_NPY_H
#define TD_NPY_H

#include "engine/tensor/tensor.h"

TD_BEGIN

/* The array in `path`, a file of at most `limit` bytes, in host memory. Beside
 * it 64 KiB are held, and the file of one in Fortran order. */
td_status *td_npy_read(const char *path, size_t limit, td_tensor *out)
    TD_MUST_USE;
/* The same without a copy: the tensor's bytes are the file's, read only, and
 * come from the disk when they are looked at. What stands otherwise in the file
 * than in a tensor is FAILED_PRECONDITION: big-endian, in Fortran order, not
 * aligned. Whoever cuts the file short meanwhile crashes who reads behind its
 * end (SIGBUS); one replaced by rename stays as it was. */
td_status *td_npy_map(const char *path, td_tensor *out) TD_MUST_USE;
/* Replaces `path` at once or not at all. `t` is on the host. */
td_status *td_npy_write(const char *path, const td_tensor *t) TD_MUST_USE;

/* The same from and to memory. `from` names the source in messages. */
td_status *td_npy_decode(const void *bytes, size_t len, const char *from,
                         td_tensor *out) TD_MUST_USE;
/* The same from `size` bytes that are read in order, a piece at a time; at most
 * 64 KiB are held beside the array, but of Fortran order. */
typedef struct td_npy_source {
  td_status *(*read)(void *arg, void *to, size_t n); /* all n, or an error */
  void *arg;
  size_t size;
  const char *from;
} td_npy_source;
td_status *td_npy_decode_from(const td_npy_source *source,
                              td_tensor *out) TD_MUST_USE;
/* What stands there is looked at only: reads 64 KiB at most. */
td_status *td_npy_describe_from(const td_npy_source *source, td_dtype *dtype,
                                td_shape *shape) TD_MUST_USE;
/* Appends what comes before the elements. */
td_status *td_npy_head(const td_tensor *t, td_str *out) TD_MUST_USE;
/* Caller owns *bytes (td_free). */
td_status *td_npy_encode(const td_tensor *t, char **bytes, size_t *len)
    TD_MUST_USE;

TD_END
#endif
