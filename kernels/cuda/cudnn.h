/* cudnn.h - the only door to cuDNN (major version 9), and convolutions by it.
 *
 *   cudnn.c        opens the library; a card's handle, and what it is like
 *   cudnn_graph.c  a convolution as cuDNN's graph; engines chosen, a plan made
 *   cudnn_plans.c  plans that were made, in memory and in files
 *   cudnn_conv.c   a kernel's convolution: filters turned, the plan run
 *
 * Its numbers and types are written out here, so that the plugin can be built
 * where cuDNN is not. Without the library, or a plan, kernels of ours do the
 * work (conv.cu).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CUDNN_H
#define TD_CUDNN_H

#include "engine/base/str.h"
#include "engine/device/precision.h"
#include "kernels/conv.h"

TD_BEGIN

/* ---- the library (cudnn.c) ----------------------------------------------- */

/* NVIDIA names them with CUDNN_ in place of TD_CUDNN_. */
enum {
  TD_CUDNN_CROSS_CORRELATION = 1,
  /* cudnnBackendAttributeType_t */
  TD_CUDNN_HANDLE = 0,
  TD_CUDNN_DATA_TYPE = 1,
  TD_CUDNN_BOOLEAN = 2,
  TD_CUDNN_INT64 = 3,
  TD_CUDNN_DOUBLE = 5,
  TD_CUDNN_VOID_PTR = 6,
  TD_CUDNN_CONVOLUTION_MODE = 7,
  TD_CUDNN_HEUR_MODE = 8,
  TD_CUDNN_NUMERICAL_NOTE = 11,
  TD_CUDNN_BACKEND_DESCRIPTOR = 15,
  TD_CUDNN_BEHAVIOR_NOTE = 19,
  TD_CUDNN_CHAR = 24,
  /* cudnnBackendDescriptorType_t */
  TD_CUDNN_CONVOLUTION = 1,
  TD_CUDNN_ENGINE = 2,
  TD_CUDNN_ENGINECFG = 3,
  TD_CUDNN_ENGINEHEUR = 4,
  TD_CUDNN_EXECUTION_PLAN = 5,
  TD_CUDNN_CONVOLUTION_FORWARD = 10,
  TD_CUDNN_CONVOLUTION_FILTER = 11,
  TD_CUDNN_CONVOLUTION_DATA = 12,
  TD_CUDNN_OPERATIONGRAPH = 15,
  TD_CUDNN_VARIANT_PACK = 16,
  TD_CUDNN_TENSOR = 17,
  TD_CUDNN_DEVICEPROP = 38,
  /* cudnnBackendAttributeName_t */
  TD_CUDNN_CONVOLUTION_COMP_TYPE = 100,
  TD_CUDNN_CONVOLUTION_CONV_MODE = 101,
  TD_CUDNN_CONVOLUTION_DILATIONS = 102,
  TD_CUDNN_CONVOLUTION_FILTER_STRIDES = 103,
  TD_CUDNN_CONVOLUTION_POST_PADDINGS = 104,
  TD_CUDNN_CONVOLUTION_PRE_PADDINGS = 105,
  TD_CUDNN_CONVOLUTION_SPATIAL_DIMS = 106,
  TD_CUDNN_ENGINEHEUR_MODE = 200,
  TD_CUDNN_ENGINEHEUR_OPERATION_GRAPH = 201,
  TD_CUDNN_ENGINEHEUR_RESULTS = 202,
  TD_CUDNN_ENGINEHEUR_DEVICEPROP = 204,
  TD_CUDNN_ENGINECFG_ENGINE = 300,
  TD_CUDNN_PLAN_HANDLE = 400,
  TD_CUDNN_PLAN_ENGINE_CONFIG = 401,
  TD_CUDNN_PLAN_WORKSPACE_SIZE = 402,
  TD_CUDNN_PLAN_JSON = 405,
  TD_CUDNN_PLAN_DEVICEPROP = 407,
  TD_CUDNN_FORWARD_ALPHA = 700, /* then beta, convolution, w, x, y */
  TD_CUDNN_DATA_ALPHA = 706,
  TD_CUDNN_FILTER_ALPHA = 712,
  TD_CUDNN_GRAPH_HANDLE = 800,
  TD_CUDNN_GRAPH_OPS = 801,
  TD_CUDNN_TENSOR_BYTE_ALIGNMENT = 900,
  TD_CUDNN_TENSOR_DATA_TYPE = 901,
  TD_CUDNN_TENSOR_DIMENSIONS = 902,
  TD_CUDNN_TENSOR_STRIDES = 903,
  TD_CUDNN_TENSOR_UNIQUE_ID = 906,
  TD_CUDNN_PACK_UNIQUE_IDS = 1000,
  TD_CUDNN_PACK_DATA_POINTERS = 1001,
  TD_CUDNN_PACK_WORKSPACE = 1003,
  TD_CUDNN_ENGINE_GLOBAL_INDEX = 1301,
  TD_CUDNN_ENGINE_NUMERICAL_NOTE = 1303,
  TD_CUDNN_ENGINE_BEHAVIOR_NOTE = 1305,
  TD_CUDNN_DEVICEPROP_HANDLE = 2701,
  TD_CUDNN_DEVICEPROP_JSON = 2702,
  /* cudnnBackendHeurMode_t */
  TD_CUDNN_FALLBACK = 2,
  TD_CUDNN_A = 3,
  /* cudnnBackendNumericalNote_t */
  TD_CUDNN_TENSOR_CORE = 0,
  TD_CUDNN_DOWN_CONVERT = 1,
  TD_CUDNN_REDUCED_REDUCTION = 2,
  TD_CUDNN_NONDETERMINISTIC = 4,
  TD_CUDNN_NOTES = 10,
  /* cudnnBackendBehaviorNote_t */
  TD_CUDNN_COMPILED_NOW = 0,
};

/* All return 0, or a cudnnStatus_t, but where said. */
typedef struct td_cudnn_api {
  size_t (*GetVersion)(void);
  const char *(*GetErrorString)(int status);
  void (*GetLastErrorString)(char *text, size_t room);
  int (*Create)(void **handle);
  int (*Destroy)(void *handle);
  int (*SetStream)(void *handle, void *stream);
  int (*BackendCreateDescriptor)(int type, void **out);
  int (*BackendDestroyDescriptor)(void *d);
  int (*BackendSetAttribute)(void *d, int name, int type, int64_t n,
                             const void *at);
  int (*BackendGetAttribute)(const void *d, int name, int type, int64_t room,
                             int64_t *n, void *at);
  int (*BackendFinalize)(void *d);
  int (*BackendExecute)(void *handle, void *plan, void *pack);
} td_cudnn_api;

/* NULL: it is not there, or does not fit. Opens it. */
const td_cudnn_api *td_cudnn_open(void);
/* A line for people: from where it is, or why it is not. Opens it. */
void td_cudnn_tell(td_str *out);
/* An error that the library gave in `what`. */
td_status *td_cudnn_error(const td_cudnn_api *api, int e,
                          const char *what) TD_MUST_USE;

/* A card, as cuDNN plans for it. */
typedef struct td_cudnn_card {
  const td_cudnn_api *api;
  void *handle; /* NULL: only described, nothing can run */
  void *props;  /* a descriptor */
  char *json;   /* what `props` says */
} td_cudnn_card;

/* The card that the calling thread has set, or, where json is not NULL, one of
 * that kind which need not be there. The caller ends it, even when it failed.
 */
td_status *td_cudnn_card_init(const td_cudnn_api *api, const char *json,
                              td_cudnn_card *out) TD_MUST_USE;
/* `dead`: the card is lost, its handle must not be touched. */
void td_cudnn_card_deinit(td_cudnn_card *c, bool dead);

/* ---- plans (cudnn_graph.c) ----------------------------------------------- */

enum { TD_CUDNN_RANK = 2 + TD_CONV_AXES };

/* Dimensions N, C, ... or K, C, ... whatever the layout is. */
typedef struct td_cudnn_tensor {
  int64_t dims[TD_CUDNN_RANK], strides[TD_CUDNN_RANK];
  int64_t alignment; /* bytes, promised */
} td_cudnn_tensor;

/* A convolution; without padding, all of it says which. */
typedef struct td_cudnn_conv {
  td_cudnn_tensor x, w, y;
  int64_t before[TD_CONV_AXES], after[TD_CONV_AXES];
  int64_t stride[TD_CONV_AXES], dilation[TD_CONV_AXES];
  int32_t axes, pass, dtype, precision; /* td_matmul_type */
} td_cudnn_conv;

/* As cuDNN sees it, with operands at these addresses: images as they lie, the
 * filter turned, at its best alignment. */
void td_cudnn_conv_of(const td_conv_plan *p, td_dtype t, const void *x,
                      const void *y, td_cudnn_conv *out);
/* What computes it. */
typedef struct td_cudnn_plan {
  void *desc, *config; /* config: NULL of a plan from a file */
  size_t workspace;
  int place; /* among all that were asked for, best first */
} td_cudnn_plan;

/* The best that needs at most `room` bytes of workspace, of those that stand at
 * `place` or behind; NOT_FOUND: none. The caller ends it. */
td_status *td_cudnn_plan_make(const td_cudnn_card *card, const td_cudnn_conv *v,
                              int place, size_t room,
                              td_cudnn_plan *out) TD_MUST_USE;
/* A plan as text, appended; and from such text, made by the same version of
 * cuDNN for the same kind of card. */
td_status *td_cudnn_plan_write(const td_cudnn_card *card,
                               const td_cudnn_plan *p,
                               td_str *out) TD_MUST_USE;
td_status *td_cudnn_plan_read(const td_cudnn_card *card, const char *json,
                              td_cudnn_plan *out) TD_MUST_USE;
void td_cudnn_plan_deinit(const td_cudnn_card *card, td_cudnn_plan *p);
/* cuDNN's number of its engine; -1: not known. */
int64_t td_cudnn_plan_engine(const td_cudnn_card *card,
                             const td_cudnn_plan *p);

/* Of x, w and y where a plan has them. */
typedef struct td_cudnn_run {
  const void *x, *w, *y;
  void *workspace; /* as large as the plan says */
} td_cudnn_run;
td_status *td_cudnn_plan_run(const td_cudnn_card *card, const td_cudnn_plan *p,
                             const td_cudnn_run *r) TD_MUST_USE;

/* ---- plans that were made (cudnn_plans.c) -------------------------------- */

typedef struct td_cudnn_plans td_cudnn_plans;

/* Of a card, which stays where it is. `folder`: of files, copied; NULL: none.
 * Caller owns the result. Locked by the caller. */
td_status *td_cudnn_plans_new(const td_cudnn_card *card, const char *folder,
                              td_cudnn_plans **out) TD_MUST_USE;
void td_cudnn_plans_free(td_cudnn_plans *p);
/* *out: borrowed until the next find; NULL: there is none that fits, which is
 * remembered. Files that are damaged, or cannot be written, do not matter. */
td_status *td_cudnn_plans_find(td_cudnn_plans *p, const td_cudnn_conv *v,
                               size_t room,
                               const td_cudnn_plan **out) TD_MUST_USE;
/* What was found for v did not run: the next in its place. */
td_status *td_cudnn_plans_next(td_cudnn_plans *p, const td_cudnn_conv *v,
                               size_t room,
                               const td_cudnn_plan **out) TD_MUST_USE;
/* For tests. */
typedef struct td_cudnn_stats {
  int64_t kept, made, read, written;
} td_cudnn_stats;
td_cudnn_stats td_cudnn_plans_read_stats(const td_cudnn_plans *p);

/* ---- kernels (cudnn_conv.c) ---------------------------------------------- */

/* Of a device, made when it first convolves. */
typedef struct td_cudnn td_cudnn;
/* `dead`: the card is lost. NULL is ok. */
void td_cudnn_free(td_cudnn *d, bool dead);

/* Enqueues a kernel's convolution, where cuDNN has one for it. *done false: it
 * has none, nothing was enqueued that matters. */
td_status *td_cudnn_convolve(td_kernel_ctx *c, const td_conv_plan *p,
                             td_tensor *to, bool *done) TD_MUST_USE;

TD_END
#endif
