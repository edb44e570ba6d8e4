/* safetensors_header.h - what a .safetensors file says of its tensors.
 *
 * The header is JSON of one form:
 *
 *   {"__metadata__": {"by": "whom", ..},
 *    "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..}
 *
 * It is read in its place: names and metadata stay where they stand, unescaped
 * and ended with a NUL, so that reading takes less memory than the text does.
 * Nothing is trusted. No key may come twice, and the tensors lie behind each
 * other without holes to the end of the data.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SAFETENSORS_HEADER_H
#define TD_SAFETENSORS_HEADER_H

#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

TD_BEGIN

#define TD_SAFETENSORS_METADATA "__metadata__"
/* The most bytes a header may have, as the format says. */
enum { TD_SAFETENSORS_HEADER_MAX = 100000000 };

/* The format's dtypes, in its order. */
typedef struct td_safetensors_kind {
  const char *name; /* "F32" */
  td_dtype dtype;   /* TD_INVALID: no tensor here has it */
  int bits;         /* of an element */
} td_safetensors_kind;
enum { TD_SAFETENSORS_KINDS = 22 };
extern const td_safetensors_kind td_safetensors_kinds[TD_SAFETENSORS_KINDS];

typedef struct td_safetensors_record {
  uint64_t begin, size; /* in the data */
  uint32_t name, shape; /* where in the text; a shape is "[2, 3]" */
  uint8_t kind;         /* in td_safetensors_kinds */
} td_safetensors_record;

typedef struct td_safetensors_header {
  char *text; /* len bytes and a NUL; changed */
  size_t len;
  td_safetensors_record *tensors; /* n of them, as they are written */
  uint32_t *order;                /* of them by name */
  size_t n;
  uint32_t metadata; /* where in the text: "key\0value\0key\0value\0" */
  size_t metadata_len, pairs; /* its bytes, and how many pairs these are */
} td_safetensors_header;

/* Reads h->text, of which `path` has `data` bytes of tensors behind it; the rest
 * of *h is 0. DATA_LOSS, with the file and the tensor, for what is not so. Caller
 * owns what it makes, also after an error: td_safetensors_header_deinit. */
td_status *td_safetensors_header_parse(td_safetensors_header *h,
                                       const char *path,
                                       uint64_t data) TD_MUST_USE;
void td_safetensors_header_deinit(td_safetensors_header *h);

/* The shape of record r. */
td_shape td_safetensors_header_shape(const td_safetensors_header *h,
                                     const td_safetensors_record *r);

TD_END
#endif
