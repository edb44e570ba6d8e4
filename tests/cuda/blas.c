/* blas.c - products by cuBLASLt: on the fake library, which is strict and
 * counts what it is asked; and what the real one makes of our descriptors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/check.h"

#include <dlfcn.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/graph/build.h"
#include "engine/graph/node_edit.h"
#include "engine/run/library.h"
#include "engine/run/runtime.h"
#include "engine/run/session.h"
#include "kernels/cuda/blas_plan.h"
#include "tests/cuda/fake/fake_blas.h"

static void (*fake_plan)(const char *plan);
static void (*fake_memory)(size_t bytes);
static td_fake_counts (*fake_count)(void);
static td_fake_blas_counts *blas;

/* ---- the plugin ---------------------------------------------------------- */

static void *find(void *library, const char *name) {
  void *p = library ? dlsym(library, name) : NULL;
  if (!p) fail_msg("%s: %s", name, dlerror());
  return p;
}

/* Beside the tests: build/tests/cuda/blas, build/cuda-fake/libtide_cuda.so */
static int begin(void **state) {
  char path[4096], lib[4200];
  const td_library *library;
  (void)state;
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
  assert_true(n > 0);
  path[n] = '\0';
  for (int i = 0; i < 3; i++) (void)dirname(path);
  strcat(path, "/cuda-fake/lib");
  setenv("TIDE_CUDA_LIBS", path, 1);
  snprintf(lib, sizeof lib, "%s/libcublasLt.so.13", path);
  snprintf(path + strlen(path) - 3, 32, "libtide_cuda.so");
  OK(td_library_load(path, &library));
  void *plugin = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  *(void **)&fake_plan = find(plugin, "td_fake_plan");
  *(void **)&fake_memory = find(plugin, "td_fake_memory");
  *(void **)&fake_count = find(plugin, "td_fake_count");
  blas = find(dlopen(lib, RTLD_NOW), "td_fake_blas");
  return 0;
}

static int set_up(void **state) {
  (void)state;
  fake_plan(NULL);
  fake_memory(4ul << 30);
  td_precision_set((td_precision){0});
  blas->asked = blas->products = blas->refused = blas->none = 0;
  return 0;
}

/* Threads of a runtime let their device go a little later. */
static int tear_down(void **state) {
  (void)state;
  fake_plan(NULL);
  for (int i = 0; i < 10000 && (fake_count().regions || blas->handles); i++)
    usleep(500);
  assert_int_equal(fake_count().regions, 0);
  assert_int_equal(blas->handles, 0);
  assert_int_equal(blas->descriptors, 0);
  assert_int_equal(blas->refused, 0);
  return 0;
}

/* ---- a product of a graph ------------------------------------------------ */

typedef struct net {
  td_runtime *rt;
  td_graph *g;
  td_session *s;
  td_edge in[2], y;
} net;

static td_edge placeholder(td_graph *g, const char *name) {
  td_build b;
  td_node *x;
  td_build_init(&b, g, "Placeholder", name);
  td_build_attr(&b, "dtype", td_attr_type(TD_FLOAT32));
  OK(td_build_node(&b, &x));
  return (td_edge){x, 0};
}

static void net_init(net *t, bool trans_a, bool trans_b) {
  td_build b;
  td_node *n;
  td_session_options so = {.threads = 2, .cpu_devices = 1};
  OK(td_runtime_new(NULL, &t->rt));
  OK(td_graph_new(&t->g));
  t->in[0] = placeholder(t->g, "a");
  t->in[1] = placeholder(t->g, "b");
  td_build_init(&b, t->g, "BatchMatMulV2", "product");
  for (int i = 0; i < 2; i++) td_build_in(&b, t->in[i]);
  td_build_attr(&b, "adj_x", td_attr_bool(trans_a));
  td_build_attr(&b, "adj_y", td_attr_bool(trans_b));
  OK(td_build_node(&b, &n));
  OK(td_node_set_device(n, "/device:CUDA:0"));
  t->y = (td_edge){n, 0};
  OK(td_session_new(t->rt, t->g, &so, &t->s));
}

static void net_deinit(net *t) {
  td_session_close(t->s);
  td_session_release(t->s);
  td_graph_release(t->g);
  td_runtime_release(t->rt);
}

/* Element i of the operands, of few bits: sums are exact. */
static float value(int64_t i, int of) {
  return (float)((i * 7 + of * 3) % 17 - 8);
}

static td_tensor operand(const td_shape *shape, int of, float scale) {
  td_tensor t;
  OK(td_tensor_new(NULL, TD_FLOAT32, shape, &t));
  for (int64_t i = 0; i < td_tensor_count(&t); i++)
    ((float *)t.data)[i] = value(i, of) * scale;
  return t;
}

static td_status *net_run(const net *t, const td_shape *a, const td_shape *b,
                          float scale, td_tensor *y) {
  td_tensor in[2] = {operand(a, 0, scale), operand(b, 1, 1)};
  td_signature sig = {
      .feeds = t->in, .n_feeds = 2, .fetches = &t->y, .n_fetches = 1};
  td_status *s = td_session_run(t->s, &sig, in, y, NULL);
  for (int i = 0; i < 2; i++) td_tensor_release(&in[i]);
  return s;
}

/* {batch, m, k} times {batch or 1, k, n}. */
static void expect(const net *t, int64_t batch, bool same_b, int64_t m,
                   int64_t n, int64_t k) {
  td_shape a = {.rank = 3, .dim = {batch, m, k}};
  td_shape b = {.rank = 3, .dim = {same_b ? 1 : batch, k, n}};
  td_tensor y;
  OK(net_run(t, &a, &b, 1, &y));
  assert_int_equal(td_tensor_count(&y), batch * m * n);
  for (int64_t z = 0; z < batch; z++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        float sum = 0;
        for (int64_t l = 0; l < k; l++)
          sum += value((z * m + i) * k + l, 0) *
                 value(((same_b ? 0 : z) * k + l) * n + j, 1);
        assert_true(((float *)y.data)[(z * m + i) * n + j] == sum);
      }
  td_tensor_release(&y);
}

/* A way is asked for once; broadcast operands are rows of one product. */
static void test_plans_are_kept(void **state) {
  (void)state;
  net t;
  net_init(&t, false, false);
  for (int i = 0; i < 3; i++) expect(&t, 1, false, 5, 7, 3);
  assert_int_equal(blas->asked, 1);
  assert_int_equal(blas->products, 3);
  expect(&t, 4, false, 5, 7, 3); /* one of a batch */
  assert_int_equal(blas->asked, 2);
  assert_int_equal(blas->products, 4);
  expect(&t, 4, true, 5, 7, 8); /* one of 20 rows */
  assert_int_equal(blas->products, 5);
  expect(&t, 1, false, 20, 7, 8);
  assert_int_equal(blas->asked, 3);
  net_deinit(&t);
}

/* More kinds of products than are kept: the oldest is asked for again. */
static void test_plans_are_bounded(void **state) {
  (void)state;
  net t;
  net_init(&t, false, false);
  for (int m = 1; m <= 1100; m++) expect(&t, 1, false, m, 1, 1);
  assert_int_equal(blas->asked, 1100);
  assert_int_equal(blas->descriptors, 1024 * 4);
  expect(&t, 1, false, 1100, 1, 1);
  assert_int_equal(blas->asked, 1100);
  expect(&t, 1, false, 1, 1, 1);
  assert_int_equal(blas->asked, 1101);
  net_deinit(&t);
}

/* What the library does not do our kernels do; it is not asked again. */
static void test_no_way(void **state) {
  (void)state;
  net t;
  blas->none = 1;
  net_init(&t, false, false);
  for (int i = 0; i < 3; i++) expect(&t, 2, false, 9, 17, 33);
  assert_int_equal(blas->asked, 1);
  assert_int_equal(blas->products, 0);
  net_deinit(&t);
}

static void test_no_handle(void **state) {
  (void)state;
  net t;
  fake_plan("cublasLtCreate:1:1");
  net_init(&t, false, false);
  expect(&t, 2, false, 9, 17, 33);
  expect(&t, 2, false, 9, 17, 33);
  assert_int_equal(blas->asked, 0);
  net_deinit(&t);
}

static void test_it_fails(void **state) {
  (void)state;
  net t;
  td_shape s = {.rank = 2, .dim = {4, 4}};
  td_tensor y;
  net_init(&t, false, false);
  expect(&t, 1, false, 4, 4, 4);
  fake_plan("cublasLtMatmul:1:999");
  FAILS(net_run(&t, &s, &s, 1, &y), TD_UNAVAILABLE, "cublasLtMatmul");
  fake_plan(NULL);
  expect(&t, 1, false, 4, 4, 4);
  net_deinit(&t);
}

/* Between float32 and what td.config allows in its place. */
static void test_precision(void **state) {
  (void)state;
  static const struct {
    td_matmul_type type;
    float scale; /* a number that loses its last bit from there on */
  } modes[] = {{TD_PRECISION_FLOAT32, 1 + 0x1p-20f},
               {TD_PRECISION_TF32, 1 + 0x1p-10f},
               {TD_PRECISION_BFLOAT16, 1 + 0x1p-7f}};
  td_shape one = {.rank = 2, .dim = {1, 1}};
  net t;
  net_init(&t, false, false);
  for (size_t set = 0; set < TD_COUNT(modes); set++)
    for (size_t i = 0; i < TD_COUNT(modes); i++) {
      td_tensor y;
      td_precision_set((td_precision){.matmul = modes[set].type});
      OK(net_run(&t, &one, &one, modes[i].scale, &y));
      float exact = -8 * modes[i].scale * value(0, 1);
      bool kept = *(float *)y.data == exact;
      td_tensor_release(&y);
      assert_int_equal(kept, i >= set);
    }
  assert_int_equal(blas->asked, 3);
  net_deinit(&t);
}

/* ---- the real library ---------------------------------------------------- */

static cublasStatus_t (*get_desc)(cublasLtMatmulDesc_t,
                                  cublasLtMatmulDescAttributes_t, void *,
                                  size_t, size_t *);
static cublasStatus_t (*get_layout)(cublasLtMatrixLayout_t,
                                    cublasLtMatrixLayoutAttribute_t, void *,
                                    size_t, size_t *);
static cublasStatus_t (*get_preference)(cublasLtMatmulPreference_t,
                                        cublasLtMatmulPreferenceAttributes_t,
                                        void *, size_t, size_t *);

#define EXPECT(type, get, of, name, value)                                     \
  do {                                                                         \
    type got_;                                                                 \
    size_t n_;                                                                 \
    assert_int_equal(get(of, name, &got_, sizeof got_, &n_), 0);               \
    assert_int_equal(n_, sizeof got_);                                         \
    assert_int_equal(got_, value);                                             \
  } while (0)

static void expect_layout(cublasLtMatrixLayout_t l, int64_t rows, int64_t cols,
                          int32_t batch, int64_t step) {
  EXPECT(uint64_t, get_layout, l, CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
  EXPECT(uint64_t, get_layout, l, CUBLASLT_MATRIX_LAYOUT_COLS, cols);
  EXPECT(int64_t, get_layout, l, CUBLASLT_MATRIX_LAYOUT_LD, rows);
  EXPECT(int32_t, get_layout, l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
  EXPECT(int64_t, get_layout, l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
         step);
}

/* In the place of the heuristics, which need a card: one way, after a look at
 * what is preferred. */
static cublasStatus_t look(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
                           cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                           cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t to,
                           cublasLtMatmulPreference_t p, int n,
                           cublasLtMatmulHeuristicResult_t *ways, int *found) {
  (void)h, (void)d, (void)a, (void)b, (void)c, (void)to, (void)n;
  EXPECT(uint64_t, get_preference, p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         1 << 20);
  EXPECT(uint32_t, get_preference, p,
         CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  EXPECT(uint32_t, get_preference, p,
         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4);
  EXPECT(uint32_t, get_preference, p,
         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 256);
  EXPECT(uint32_t, get_preference, p,
         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 16);
  memset(ways, 0, sizeof *ways);
  ways->workspaceSize = 12345;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

static void expect_plan(const td_cublaslt *lt, td_dtype type,
                        td_matmul_type matmul, int32_t compute, int32_t scale) {
  td_precision precision = {.matmul = matmul, .deterministic = true};
  int64_t size = (int64_t)td_dtype_size(type);
  td_cuda_product p = {.dtype = type,
                       .m = 32,
                       .n = 64,
                       .k = 128,
                       .batch = 3,
                       .trans_b = true,
                       .step_a = 32 * 128,
                       .step_b = 0,
                       .a = (void *)(uintptr_t)4096,
                       .b = (void *)(uintptr_t)(4096 + 4),
                       .to = (void *)(uintptr_t)(4096 + 16)};
  td_cuda_plan plan = {0};
  assert_true(td_cuda_plan_key_of(&p, precision, &plan.key));
  assert_int_equal(plan.key.step_a * size % 256, 0);
  assert_true(td_cuda_plan_find(lt, NULL, 1 << 20, &plan));
  assert_int_equal(plan.workspace, 12345);
  EXPECT(int32_t, get_desc, plan.desc, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE,
         compute);
  EXPECT(int32_t, get_desc, plan.desc, CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale);
  EXPECT(int32_t, get_desc, plan.desc, CUBLASLT_MATMUL_DESC_TRANSA,
         CUBLAS_OP_T);
  EXPECT(int32_t, get_desc, plan.desc, CUBLASLT_MATMUL_DESC_TRANSB,
         CUBLAS_OP_N);
  EXPECT(int32_t, get_desc, plan.desc, CUBLASLT_MATMUL_DESC_POINTER_MODE,
         CUBLASLT_POINTER_MODE_HOST);
  expect_layout(plan.first, 128, 64, 3, 0);
  expect_layout(plan.second, 128, 32, 3, 32 * 128);
  expect_layout(plan.to, 64, 32, 3, 32 * 64);
  td_cuda_plan_deinit(lt, &plan);
}

static void test_real_descriptors(void **state) {
  (void)state;
  setenv("TIDE_CUDA_LIBS", "/usr/local/cuda/lib64", 1);
  const td_cublaslt *there = td_cublaslt_open();
  if (!there) {
    puts("skip: real_cublaslt");
    return;
  }
  td_cublaslt lt = *there;
  void *library = dlopen("/usr/local/cuda/lib64/libcublasLt.so.13", RTLD_NOW);
  *(void **)&get_desc = find(library, "cublasLtMatmulDescGetAttribute");
  *(void **)&get_layout = find(library, "cublasLtMatrixLayoutGetAttribute");
  *(void **)&get_preference =
      find(library, "cublasLtMatmulPreferenceGetAttribute");
  lt.MatmulAlgoGetHeuristic = look;
  expect_plan(&lt, TD_FLOAT32, TD_PRECISION_FLOAT32, CUBLAS_COMPUTE_32F,
              CUDA_R_32F);
  expect_plan(&lt, TD_FLOAT32, TD_PRECISION_TF32, CUBLAS_COMPUTE_32F_FAST_TF32,
              CUDA_R_32F);
  expect_plan(&lt, TD_FLOAT32, TD_PRECISION_BFLOAT16,
              CUBLAS_COMPUTE_32F_FAST_16BF, CUDA_R_32F);
  expect_plan(&lt, TD_FLOAT16, TD_PRECISION_TF32, CUBLAS_COMPUTE_32F,
              CUDA_R_32F);
  expect_plan(&lt, TD_BFLOAT16, TD_PRECISION_TF32, CUBLAS_COMPUTE_32F,
              CUDA_R_32F);
  expect_plan(&lt, TD_FLOAT64, TD_PRECISION_TF32, CUBLAS_COMPUTE_64F,
              CUDA_R_64F);
  expect_plan(&lt, TD_COMPLEX64, TD_PRECISION_TF32, CUBLAS_COMPUTE_32F,
              CUDA_C_32F);
  expect_plan(&lt, TD_COMPLEX128, TD_PRECISION_TF32, CUBLAS_COMPUTE_64F,
              CUDA_C_64F);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_plans_are_kept),
      TEST(test_plans_are_bounded),
      TEST(test_no_way),
      TEST(test_no_handle),
      TEST(test_it_fails),
      TEST(test_precision),
      cmocka_unit_test(test_real_descriptors),
  };
  return cmocka_run_group_tests(tests, begin, NULL);
}
