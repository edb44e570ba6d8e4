/* types.cuh - dtypes that rows of kernels for cards name.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDA_TYPES_CUH
#define TD_CUDA_TYPES_CUH

#define TD_CUDA_REALS                                                          \
  "half|bfloat16|float|double|int8|uint8|int16|uint16|int32|uint32|int64|"     \
  "uint64"
/* All that is moved as bytes. */
#define TD_CUDA_PLAIN                                                          \
  TD_CUDA_REALS                                                                \
  "|bool|complex64|complex128|qint8|quint8|qint16|quint16|qint32"

#endif
