/* graphdef_kind.c - what holds a GraphDef is opened, other files are named.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include "engine/graphdef/graphdef.h"
#include "engine/graphdef/graphdef_impl.h"

#define GRAPH "x Placeholder dtype=t1 shape=S2,3\ny Relu x T=t1\n"

/* A MetaGraphDef: tags and a version, the graph, something of a saver. */
static td_str meta_of(const char *text) {
  td_str m = {0}, info = {0}, graph = wire_graph(text), saver = {0};
  wire_text(&info, 4, "serve");
  wire_text(&info, 5, "2.21.0");
  wire_text(&saver, 1, "save/Const");
  wire_message(&m, 1, &info);
  wire_message(&m, 2, &graph);
  wire_message(&m, 3, &saver);
  return m;
}

static td_str model_of(const char *text) {
  td_str m = {0}, meta = meta_of(text);
  wire_int(&m, 1, 1);
  wire_message(&m, 2, &meta);
  return m;
}

static void test_within(void **state) {
  (void)state;
  td_str files[] = {wire_graph(GRAPH), meta_of(GRAPH), model_of(GRAPH)};
  td_str want = wire_graph(GRAPH);
  for (size_t i = 0; i < TD_COUNT(files); i++) {
    const void *at = files[i].at;
    size_t len = files[i].len;
    td_graph *g = new_graph();
    OK(td_graphdef_within(&at, &len));
    assert_int_equal(len, want.len);
    assert_memory_equal(at, want.at, len);
    OK(td_graphdef_read(g, files[i].at, files[i].len, NULL));
    assert_non_null(td_graph_find(g, "y"));
    td_graph_release(g);
    td_str_deinit(&files[i]);
  }
  td_str_deinit(&want);
}

/* What is wrong within is said of the GraphDef. */
static void test_wrong_within(void **state) {
  (void)state;
  td_str file = model_of("x Placeholder dtype=t1\ny Relu z T=t1\n");
  td_graph *g = new_graph();
  FAILS(td_graphdef_read(g, file.at, file.len, NULL), TD_INVALID_ARGUMENT,
        "input \"z\" is of no node");
  td_str_deinit(&file);
  td_graph_release(g);
}

#define BYTES(text) text, sizeof text - 1

static void test_others(void **state) {
  (void)state;
  static const struct {
    const char *at;
    size_t len;
    const char *what, *instead;
  } rows[] = {
      {BYTES("node {\n  name: \"x\"\n}\n"), "a GraphDef as text",
       "as_text=False"},
      {BYTES("node: { name: \"x\" }"), "a GraphDef as text",
       "write it as bytes"},
      {BYTES("# made by hand\n\n  versions {\n"), "a GraphDef as text", ""},
      {BYTES("library{"), "a GraphDef as text", ""},
      {BYTES("meta_info_def {\n"), "a MetaGraphDef as text", ""},
      {BYTES("saved_model_schema_version: 1\n"), "a SavedModel as text", ""},
      {BYTES("model_checkpoint_path: \"model\"\n"), "part of a checkpoint",
       ".meta"},
      {BYTES("\0\0\x57\xfb\x80\x8b\x24\x75\x47\xdb"), "part of a checkpoint",
       "saved_model.pb"},
      {BYTES("\x1c\0\0\0TFL3\0\0"), "a TensorFlow Lite model",
       "tf.saved_model.save"},
      {BYTES("\x89HDF\r\n\x1a\n\0"), "an HDF5 file", ""},
      {BYTES("PK\3\4"), "a zip archive", ""},
      {BYTES("\x1f\x8b\x08"), "compressed by gzip", ""},
      {BYTES("\x93NUMPY\1\0"), "an array of NumPy", ""},
      {BYTES("\x08\x07\x12\x07pytorch\x3a\x00\x42\x00"), "a model of ONNX", ""},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    td_graph *g = new_graph();
    td_status *s = td_graphdef_read(g, rows[i].at, rows[i].len, NULL);
    if (!s) fail_msg("no error, wanted \"%s\"", rows[i].what);
    if (!strstr(td_status_message(s), rows[i].what) ||
        !strstr(td_status_message(s), rows[i].instead))
      fail_msg("\"%s\" lacks \"%s\"", td_status_message(s), rows[i].what);
    assert_int_equal(td_status_code(s), TD_INVALID_ARGUMENT);
    td_status_release(s);
    td_graph_release(g);
  }
}

/* What is nothing known stays, and is what the reader speaks of. */
static void test_unknown(void **state) {
  (void)state;
  static const char *const rows[] = {
      "hello", "nodes are", "#", "# no end", "\x0a\xff\xff\xff\xff\x0f",
      "\x08",  "\x12\x80"};
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    const void *at = rows[i];
    size_t len = strlen(rows[i]);
    td_graph *g = new_graph();
    OK(td_graphdef_within(&at, &len));
    assert_ptr_equal(at, rows[i]);
    assert_int_equal(len, strlen(rows[i]));
    FAILS(td_graphdef_read(g, at, len, NULL), TD_INVALID_ARGUMENT,
          "not a readable GraphDef: byte ");
    td_graph_release(g);
  }
}

/* Cut off anywhere, it is looked at no further than there. */
static void test_cut(void **state) {
  (void)state;
  td_str file = model_of(GRAPH);
  for (size_t len = 0; len < file.len; len++) {
    char *bytes = td_malloc(len + 1);
    const void *at = bytes;
    size_t left = len;
    memcpy(bytes, file.at, len);
    td_status_release(td_graphdef_within(&at, &left));
    assert_true(left <= len);
    td_free(bytes);
  }
  td_str_deinit(&file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_within), cmocka_unit_test(test_wrong_within),
      cmocka_unit_test(test_others), cmocka_unit_test(test_unknown),
      cmocka_unit_test(test_cut),
  };
  return cmocka_run_group_tests(tests, register_ops, NULL);
}
