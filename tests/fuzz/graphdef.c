/* graphdef.c - libFuzzer: no bytes may break the GraphDef reader, and what it
 * accepts is written as bytes that read and write the same again.
 *
 * Input beginning with "#" is a graph as text (tests/engine/graphdef/wire.h):
 * changes to it make whole messages with other names, edges and attributes,
 * where changes to bytes mostly end in the scan.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "engine/graph/graph_check.h"
#include "engine/graphdef/graphdef.h"
#include "tests/engine/graphdef/wire.h"

/* Larger files are not read again: repeated values make them of a few bytes. */
enum { LARGE = 1 << 20 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what, td_status *s) {
  if (holds && !s) return;
  fprintf(stderr, "%s: %s\n", what, s ? td_status_message(s) : "no");
  __builtin_trap();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  must(register_ops(NULL) == 0, "ops are registered", NULL);
  return 0;
}

static void write_again(const char *bytes, size_t len) {
  td_graph *g = NULL;
  char *again;
  size_t again_len;
  must(true, "a new graph", td_graph_new(&g));
  must(true, "reading what was written", td_graphdef_read(g, bytes, len, NULL));
  must(true, "writing it again", td_graphdef_write(g, &again, &again_len));
  must(again_len == len && memcmp(again, bytes, len) == 0, "the same bytes",
       NULL);
  td_free(again);
  td_graph_release(g);
}

static void read_bytes(const void *data, size_t size) {
  td_graph *g = NULL;
  char *bytes;
  size_t len;
  must(true, "a new graph", td_graph_new(&g));
  td_status *s = td_graphdef_read(g, data, size, NULL);
  if (s) {
    must(td_graph_size(g) == 0, "nothing was added", NULL);
    td_status_release(s);
  } else {
    must(true, "a sound graph", td_graph_verify(g));
    must(true, "writing", td_graphdef_write(g, &bytes, &len));
    if (len <= LARGE) write_again(bytes, len);
    td_free(bytes);
  }
  td_graph_release(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0 || data[0] != '#') {
    read_bytes(data, size);
    return 0;
  }
  char *text = td_strndup((const char *)data + 1, size - 1);
  td_str m = wire_graph(text);
  td_free(text);
  read_bytes(td_str_c(&m), m.len);
  td_str_deinit(&m);
  return 0;
}
