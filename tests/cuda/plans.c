/* plans.c - plans of convolutions by the real cuDNN, for a card that is only
 * described: the table of them is plans.txt, so that what another choice of
 * ours changes is seen. Of another version the difference is shown, and no
 * failure.
 *
 *   build/tests/cuda/plans          compares
 *   build/tests/cuda/plans --write  writes the table anew
 *
 * Without the library nothing is checked.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "kernels/cuda/cudnn.h"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define SAME(ours, theirs)                                                     \
  _Static_assert((int)TD_CUDNN_##ours == (int)CUDNN_##theirs, #ours)
SAME(CROSS_CORRELATION, CROSS_CORRELATION);
SAME(HANDLE, TYPE_HANDLE);
SAME(DATA_TYPE, TYPE_DATA_TYPE);
SAME(BOOLEAN, TYPE_BOOLEAN);
SAME(INT64, TYPE_INT64);
SAME(DOUBLE, TYPE_DOUBLE);
SAME(VOID_PTR, TYPE_VOID_PTR);
SAME(CONVOLUTION_MODE, TYPE_CONVOLUTION_MODE);
SAME(HEUR_MODE, TYPE_HEUR_MODE);
SAME(NUMERICAL_NOTE, TYPE_NUMERICAL_NOTE);
SAME(BACKEND_DESCRIPTOR, TYPE_BACKEND_DESCRIPTOR);
SAME(BEHAVIOR_NOTE, TYPE_BEHAVIOR_NOTE);
SAME(CHAR, TYPE_CHAR);
SAME(CONVOLUTION, BACKEND_CONVOLUTION_DESCRIPTOR);
SAME(ENGINE, BACKEND_ENGINE_DESCRIPTOR);
SAME(ENGINECFG, BACKEND_ENGINECFG_DESCRIPTOR);
SAME(ENGINEHEUR, BACKEND_ENGINEHEUR_DESCRIPTOR);
SAME(EXECUTION_PLAN, BACKEND_EXECUTION_PLAN_DESCRIPTOR);
SAME(CONVOLUTION_FORWARD, BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
SAME(CONVOLUTION_FILTER,
     BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
SAME(CONVOLUTION_DATA, BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
SAME(OPERATIONGRAPH, BACKEND_OPERATIONGRAPH_DESCRIPTOR);
SAME(VARIANT_PACK, BACKEND_VARIANT_PACK_DESCRIPTOR);
SAME(TENSOR, BACKEND_TENSOR_DESCRIPTOR);
SAME(DEVICEPROP, BACKEND_DEVICEPROP_DESCRIPTOR);
SAME(CONVOLUTION_COMP_TYPE, ATTR_CONVOLUTION_COMP_TYPE);
SAME(CONVOLUTION_SPATIAL_DIMS, ATTR_CONVOLUTION_SPATIAL_DIMS);
SAME(CONVOLUTION_PRE_PADDINGS, ATTR_CONVOLUTION_PRE_PADDINGS);
SAME(CONVOLUTION_POST_PADDINGS, ATTR_CONVOLUTION_POST_PADDINGS);
SAME(CONVOLUTION_FILTER_STRIDES, ATTR_CONVOLUTION_FILTER_STRIDES);
SAME(CONVOLUTION_DILATIONS, ATTR_CONVOLUTION_DILATIONS);
SAME(ENGINEHEUR_DEVICEPROP, ATTR_ENGINEHEUR_DEVICEPROP);
SAME(PLAN_JSON, ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
SAME(PLAN_DEVICEPROP, ATTR_EXECUTION_PLAN_DEVICEPROP);
SAME(FORWARD_ALPHA, ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
SAME(DATA_ALPHA, ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
SAME(FILTER_ALPHA, ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
SAME(GRAPH_OPS, ATTR_OPERATIONGRAPH_OPS);
SAME(TENSOR_UNIQUE_ID, ATTR_TENSOR_UNIQUE_ID);
SAME(PACK_WORKSPACE, ATTR_VARIANT_PACK_WORKSPACE);
SAME(ENGINE_NUMERICAL_NOTE, ATTR_ENGINE_NUMERICAL_NOTE);
SAME(ENGINE_BEHAVIOR_NOTE, ATTR_ENGINE_BEHAVIOR_NOTE);
SAME(DEVICEPROP_HANDLE, ATTR_DEVICEPROP_HANDLE);
SAME(DEVICEPROP_JSON, ATTR_DEVICEPROP_JSON_REPRESENTATION);
SAME(FALLBACK, HEUR_MODE_FALLBACK);
SAME(A, HEUR_MODE_A);
SAME(TENSOR_CORE, NUMERICAL_NOTE_TENSOR_CORE);
SAME(DOWN_CONVERT, NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
SAME(REDUCED_REDUCTION, NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
SAME(NONDETERMINISTIC, NUMERICAL_NOTE_NONDETERMINISTIC);
SAME(COMPILED_NOW, BEHAVIOR_NOTE_RUNTIME_COMPILATION);
#endif

static const char file[] = "tests/cuda/plans.txt";
static const size_t room = (size_t)1 << 30;

static const char h200[] =
    "{\"deviceVer\": 900, \"driverVer\": 13000, \"cudaDeviceId\": 0, "
    "\"maxGridSize\": [2147483647, 65535, 65535], "
    "\"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": 65536, "
    "\"multiProcessorCount\": 132, \"smClockRateKHz\": 1980000, "
    "\"memClockRateKHz\": 3201000, \"l2CacheSize\": 62914560, "
    "\"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, "
    "\"maxSharedMemoryPerBlockOptin\": 232448, "
    "\"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, "
    "\"pciDeviceId\": 0, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, "
    "\"maxThreadsPerSM\": 2048, \"isTccDriver\": 0, \"supportCoopLaunch\": 1, "
    "\"totalGlobalMem\": 151000000000, \"deviceName\": \"NVIDIA H200\"}";

/* ---- what is planned ----------------------------------------------------- */

static const struct {
  const char *name;
  td_conv of; /* with the padding that SAME gives */
  int axes;
} convs[] = {
    {"3x3",
     {64,
      64,
      128,
      1,
      {1, 56, 56},
      {1, 3, 3},
      {1, 56, 56},
      {1, 1, 1},
      {1, 1, 1},
      {0, 1, 1},
      {0, 1, 1}},
     2},
    {"1x1",
     {64,
      256,
      64,
      1,
      {1, 56, 56},
      {1, 1, 1},
      {1, 56, 56},
      {1, 1, 1},
      {1, 1, 1},
      {0, 0, 0},
      {0, 0, 0}},
     2},
    {"7x7/2",
     {64,
      3,
      64,
      1,
      {1, 224, 224},
      {1, 7, 7},
      {1, 112, 112},
      {1, 2, 2},
      {1, 1, 1},
      {0, 2, 2},
      {0, 3, 3}},
     2},
    {"odd",
     {3,
      13,
      7,
      1,
      {1, 17, 19},
      {1, 5, 2},
      {1, 17, 19},
      {1, 1, 1},
      {1, 1, 1},
      {0, 2, 0},
      {0, 2, 1}},
     2},
    {"dilated",
     {64,
      64,
      128,
      1,
      {1, 56, 56},
      {1, 3, 3},
      {1, 56, 56},
      {1, 1, 1},
      {1, 2, 2},
      {0, 2, 2},
      {0, 2, 2}},
     2},
    {"groups",
     {64,
      128,
      128,
      32,
      {1, 28, 28},
      {1, 3, 3},
      {1, 28, 28},
      {1, 1, 1},
      {1, 1, 1},
      {0, 1, 1},
      {0, 1, 1}},
     2},
    {"3x3x3",
     {8,
      32,
      64,
      1,
      {16, 28, 28},
      {3, 3, 3},
      {16, 28, 28},
      {1, 1, 1},
      {1, 1, 1},
      {1, 1, 1},
      {1, 1, 1}},
     3},
};

static const struct {
  const char *name;
  td_dtype dtype;
  td_matmul_type precision;
} types[] = {{"float", TD_FLOAT32, TD_PRECISION_FLOAT32},
             {"tf32", TD_FLOAT32, TD_PRECISION_TF32},
             {"half", TD_FLOAT16, TD_PRECISION_FLOAT32},
             {"bfloat16", TD_BFLOAT16, TD_PRECISION_FLOAT32},
             {"double", TD_FLOAT64, TD_PRECISION_FLOAT32}};
static const char *const passes[] = {"y", "dx", "dw"};

/* ---- the table ----------------------------------------------------------- */

/* It is written down and read again, too. */
static td_status *check_text(const td_cudnn_card *card,
                             const td_cudnn_plan *plan) {
  td_cudnn_plan again = {0};
  td_str text;
  td_str_init(&text);
  td_status *s = td_cudnn_plan_write(card, plan, &text);
  if (td_ok(s)) s = td_cudnn_plan_read(card, td_str_c(&text), &again);
  if (td_ok(s) && again.workspace != plan->workspace)
    s = td_error(TD_INTERNAL, "%zu bytes of workspace, as text %zu",
                 plan->workspace, again.workspace);
  td_cudnn_plan_deinit(card, &again);
  td_str_deinit(&text);
  return s;
}

/* A line of the table; an error says it there. */
static void add_plan(const td_cudnn_card *card, const td_cudnn_conv *v,
                     td_str *out) {
  td_cudnn_plan plan;
  td_status *s = td_cudnn_plan_make(card, v, 0, room, &plan);
  if (td_ok(s)) {
    td_str_addf(out, "engine %lld, the %d., workspace %zu\n",
                (long long)td_cudnn_plan_engine(card, &plan), plan.place + 1,
                plan.workspace);
    s = check_text(card, &plan);
  }
  if (!td_ok(s)) td_str_addf(out, "%s\n", td_status_message(s));
  td_status_release(s);
  td_cudnn_plan_deinit(card, &plan);
}

static void add_all(const td_cudnn_card *card, td_str *out) {
  for (size_t i = 0; i < TD_COUNT(convs); i++)
    for (size_t t = 0; t < TD_COUNT(types); t++)
      for (int first = 0; first < 2; first++)
        for (int pass = 0; pass < 3; pass++) {
          td_conv_plan p = {
              .conv = convs[i].of,
              .rule = {.axes = convs[i].axes, .channels_first = first},
              .pass = (td_conv_pass)pass};
          td_cudnn_conv v;
          td_cudnn_conv_of(&p, types[t].dtype, NULL, NULL, &v);
          v.precision = (int32_t)types[t].precision;
          td_str_addf(out, "%s %s %s %s: ", convs[i].name, types[t].name,
                      first ? "NCHW" : "NHWC", passes[pass]);
          add_plan(card, &v, out);
        }
}

/* Lines that differ, of both. */
static int compare(char *stored, char *now) {
  int differ = 0;
  char *a = NULL, *b = NULL;
  for (;;) {
    a = strtok_r(stored, "\n", &stored);
    b = strtok_r(now, "\n", &now);
    if (!a && !b) return differ;
    if (a && b && strcmp(a, b) == 0) continue;
    printf("- %s\n+ %s\n", a ? a : "", b ? b : "");
    differ++;
  }
}

/* Both begin with the version. */
static bool is_of_version(const char *stored, const td_str *table) {
  size_t n = strcspn(stored, "\n");
  return strncmp(stored, table->at, n + 1) == 0;
}

/* How many are bad; -1: it cannot be said. */
static int check(td_str *table, bool write) {
  char *stored = NULL;
  size_t n = 0;
  if (write) {
    td_status *s = td_file_write(file, table->at, table->len);
    if (!td_ok(s)) printf("%s\n", td_status_message(s));
    bool bad = !td_ok(s);
    td_status_release(s);
    return bad;
  }
  td_status *s = td_file_read(file, 1 << 20, &stored, &n);
  bool same = td_ok(s) && is_of_version(stored, table);
  int bad = td_ok(s) ? compare(stored, table->at) : 1;
  if (td_ok(s) && !same) bad = -1;
  if (!td_ok(s)) printf("%s\n", td_status_message(s));
  td_status_release(s);
  td_free(stored);
  return bad;
}

static int run(const td_cudnn_api *api, bool write) {
  td_cudnn_card card;
  td_str table;
  td_str_init(&table);
  td_status *s = td_cudnn_card_init(api, h200, &card);
  int bad = 1;
  td_str_addf(&table, "cuDNN %zu, %s\n", api->GetVersion(), "NVIDIA H200");
  if (td_ok(s)) add_all(&card, &table);
  if (!td_ok(s)) printf("%s\n", td_status_message(s));
  if (td_ok(s)) bad = check(&table, write);
  td_status_release(s);
  td_cudnn_card_deinit(&card, false);
  td_str_deinit(&table);
  return bad;
}

int main(int argc, char **argv) {
  const td_cudnn_api *api = td_cudnn_open();
  if (!api) {
    td_str why;
    td_str_init(&why);
    td_cudnn_tell(&why);
    printf("%s0 passed, 0 failed, 1 skipped\n", td_str_c(&why));
    td_str_deinit(&why);
    return 0;
  }
  int bad = run(api, argc > 1 && strcmp(argv[1], "--write") == 0);
  printf("%d passed, %d failed, %d skipped\n", bad == 0, bad > 0, bad < 0);
  return bad > 0;
}
