/* npz.h - NumPy's .npz archives: named arrays in a zip file.
 *
 * libzip is opened when it is first needed; without it what reads says so. An
 * archive is used by one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_NPZ_H
#define TD_NPZ_H

#include "engine/tensor/tensor.h"

TD_BEGIN

typedef struct td_npz td_npz;

/* Neither the archive nor any array in it may be over `limit` bytes. Caller
 * owns the result. */
td_status *td_npz_open(const char *path, size_t limit, td_npz **out)
    TD_MUST_USE;
void td_npz_close(td_npz *z);

size_t td_npz_count(const td_npz *z);
/* The name of array i, without its ".npy". Borrowed; valid while `z` lives. */
const char *td_npz_name(const td_npz *z, size_t i);
/* What array i is, without its elements. */
td_status *td_npz_describe(td_npz *z, size_t i, td_dtype *dtype,
                           td_shape *shape) TD_MUST_USE;
/* The array called `name`, in host memory. */
td_status *td_npz_read(td_npz *z, const char *name, td_tensor *out)
    TD_MUST_USE;

/* Writes n arrays, deflated or stored; replaces `path` at once or not at all.
 * Same arrays, same bytes. */
td_status *td_npz_write(const char *path, size_t n, const char *const *names,
                        const td_tensor *arrays, bool deflate) TD_MUST_USE;

TD_END
#endif
