/* graphdef_kind.c - what a file is that is given for a GraphDef.
 *
 * A MetaGraphDef (model.meta) and a SavedModel (saved_model.pb) have a GraphDef
 * within, which is taken. Messages have no mark of their own: they are told
 * apart by what their first fields hold, where a node must have a name and an
 * op. Files of other kinds are named in the error, with what to do instead; of
 * what is none of these, the reader says at which byte it goes wrong.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "engine/graphdef/graphdef_impl.h"

/* ---- the wire ------------------------------------------------------------ */

typedef struct piece {
  const uint8_t *at;
  size_t len;
} piece;

enum { VARINT = 0, FIXED64 = 1, PREFIXED = 2, FIXED32 = 5 };

typedef struct member {
  uint64_t number;
  int wire;
  piece body; /* of a PREFIXED one */
} member;

static bool varint(piece *p, uint64_t *out) {
  *out = 0;
  for (int bit = 0; p->len && bit < 64; bit += 7) {
    uint8_t byte = *p->at++;
    p->len--;
    *out |= (uint64_t)(byte & 0x7f) << bit;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

static bool skip(piece *p, uint64_t n) {
  if (n > p->len) return false;
  p->at += n;
  p->len -= n;
  return true;
}

/* The next field; false at the end, or where there is none. */
static bool next_field(piece *p, member *f) {
  uint64_t key, size;
  if (!varint(p, &key)) return false;
  *f = (member){.number = key >> 3, .wire = (int)(key & 7)};
  switch (f->wire) {
  case VARINT:
    return varint(p, &size);
  case FIXED64:
    return skip(p, 8);
  case FIXED32:
    return skip(p, 4);
  case PREFIXED:
    if (!varint(p, &size)) return false;
    f->body = (piece){p->at, (size_t)size};
    return skip(p, size);
  default:
    return false;
  }
}

/* The first field of that number; false when there is none. */
static bool first_field(piece p, uint64_t number, member *f) {
  while (next_field(&p, f))
    if (f->number == number) return true;
  return false;
}

/* ---- messages ------------------------------------------------------------ */

static bool is_word(piece p) {
  for (size_t i = 0; i < p.len; i++)
    if (p.at[i] <= ' ' || p.at[i] > '~') return false;
  return p.len > 0;
}

/* Is the first node one with a name and an op? */
static bool is_graph(piece p) {
  member node, name, op;
  return first_field(p, 1, &node) && node.wire == PREFIXED &&
         first_field(node.body, 1, &name) && name.wire == PREFIXED &&
         first_field(node.body, 2, &op) && op.wire == PREFIXED &&
         is_word(name.body) && is_word(op.body);
}

static bool graph_in_meta(piece p, piece *graph) {
  member f;
  if (!first_field(p, 2, &f) || f.wire != PREFIXED || !is_graph(f.body))
    return false;
  *graph = f.body;
  return true;
}

/* Its first graph, as most have but one. */
static bool graph_in_model(piece p, piece *graph) {
  member version, meta;
  return first_field(p, 1, &version) && version.wire == VARINT &&
         first_field(p, 2, &meta) && meta.wire == PREFIXED &&
         graph_in_meta(meta.body, graph);
}

static bool is_onnx(piece p) {
  member version, graph, ops;
  return first_field(p, 1, &version) && version.wire == VARINT &&
         first_field(p, 7, &graph) && graph.wire == PREFIXED &&
         first_field(p, 8, &ops) && ops.wire == PREFIXED;
}

/* ---- marks --------------------------------------------------------------- */

static td_status *other(const char *what, const char *instead) {
  return td_error(TD_INVALID_ARGUMENT, "the file is %s, not a GraphDef: %s",
                  what, instead);
}

static bool has(piece p, size_t at, const char *mark, size_t len) {
  return p.len >= at + len && memcmp(p.at + at, mark, len) == 0;
}

/* Formats that begin with a mark. */
static td_status *check_marks(piece p) {
  static const char model[] =
      "import the graph of the model itself, which tf.saved_model.save or "
      "tf.io.write_graph writes";
  static const struct {
    size_t at;
    const char *mark;
    size_t len;
    const char *what;
  } rows[] = {
      {4, "TFL3", 4, "a TensorFlow Lite model"},
      {0, "\x89HDF\r\n\x1a\n", 8, "an HDF5 file (of Keras)"},
      {0, "PK\3\4", 4, "a zip archive (.keras, .npz or of PyTorch)"},
      {0, "\x1f\x8b", 2, "compressed by gzip"},
      {0, "\x93NUMPY", 6, "an array of NumPy"},
  };
  for (size_t i = 0; i < TD_COUNT(rows); i++)
    if (has(p, rows[i].at, rows[i].mark, rows[i].len))
      return other(rows[i].what, model);
  return NULL;
}

static td_status *check_checkpoint(piece p) {
  static const char end[] = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
  static const char list[] = "model_checkpoint_path";
  if (!has(p, 0, list, sizeof list - 1) &&
      (p.len < 8 || !has(p, p.len - 8, end, 8)))
    return NULL;
  return other("part of a checkpoint, which holds values of variables",
               "the graph is in the .meta file beside it, or in a "
               "saved_model.pb");
}

/* "node {", "graph_def {": text begins with the name of a field. */
static td_status *check_text(piece p) {
  static const struct {
    const char *word, *what;
  } rows[] = {
      {"node", "a GraphDef as text"},
      {"library", "a GraphDef as text"},
      {"versions", "a GraphDef as text"},
      {"meta_info_def", "a MetaGraphDef as text"},
      {"graph_def", "a MetaGraphDef as text"},
      {"saved_model_schema_version", "a SavedModel as text"},
  };
  while (p.len && (isspace(*p.at) || *p.at == '#')) {
    const uint8_t *line = *p.at == '#' ? memchr(p.at, '\n', p.len) : p.at;
    if (!line || !skip(&p, (uint64_t)(line - p.at) + 1)) return NULL;
  }
  for (size_t i = 0; i < TD_COUNT(rows); i++) {
    size_t len = strlen(rows[i].word);
    if (!has(p, 0, rows[i].word, len)) continue;
    while (len < p.len && p.at[len] == ' ') len++;
    if (len < p.len && (p.at[len] == '{' || p.at[len] == ':'))
      return other(rows[i].what,
                   "write it as bytes, tf.io.write_graph(graph, folder, "
                   "\"graph.pb\", as_text=False)");
  }
  return NULL;
}

/* ---- the whole ----------------------------------------------------------- */

td_status *td_graphdef_within(const void **bytes, size_t *len) {
  piece p = {*bytes, *len}, graph = p;
  if (*len == 0 || is_graph(p)) return NULL;
  TD_TRY(check_marks(p));
  TD_TRY(check_checkpoint(p));
  TD_TRY(check_text(p));
  if (is_onnx(p))
    return other("a model of ONNX", "export it from where it was made");
  if (!graph_in_meta(p, &graph)) graph_in_model(p, &graph);
  *bytes = graph.at;
  *len = graph.len;
  return NULL;
}
