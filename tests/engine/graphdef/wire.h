/* wire.h - GraphDef bytes made by hand, good ones and bad ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GRAPHDEF_WIRE_H
#define TESTS_GRAPHDEF_WIRE_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/engine/graph/ops.h"

/* ---- fields -------------------------------------------------------------- */

static inline void wire_varint(td_str *m, uint64_t v) {
  for (; v >= 0x80; v >>= 7) td_str_addc(m, (char)(v | 0x80));
  td_str_addc(m, (char)v);
}

static inline void wire_int(td_str *m, int field, int64_t v) {
  wire_varint(m, (uint64_t)field << 3);
  wire_varint(m, (uint64_t)v);
}

static inline void wire_bytes(td_str *m, int field, const void *at,
                              size_t len) {
  wire_varint(m, (uint64_t)field << 3 | 2);
  wire_varint(m, len);
  td_str_addn(m, at, len);
}

static inline void wire_text(td_str *m, int field, const char *text) {
  wire_bytes(m, field, text, strlen(text));
}

static inline void wire_float(td_str *m, int field, float v) {
  wire_varint(m, (uint64_t)field << 3 | 5);
  td_str_addn(m, (const char *)&v, 4);
}

/* Puts `inner` into `m` and empties it. */
static inline void wire_message(td_str *m, int field, td_str *inner) {
  wire_bytes(m, field, td_str_c(inner), inner->len);
  td_str_deinit(inner);
}

/* ---- messages ------------------------------------------------------------ */

/* TensorShapeProto of "2,-1", "" or "?". */
static inline td_str wire_shape(const char *text) {
  td_str m = {0}, dim = {0};
  if (*text == '?') wire_int(&m, 3, 1);
  while (*text && *text != '?') {
    char *end;
    int64_t size = strtoll(text, &end, 10);
    if (end == text) break;
    wire_int(&dim, 1, size);
    wire_message(&m, 2, &dim);
    text = end + (*end == ',');
  }
  return m;
}

/* AttrValue: "t1" type, "i-5" int, "f1.5" float, "b1" bool, "stext" string,
 * "S2,3" shape, "e" an empty list, "T3,5" a list of types, "Cloc:@x" a list of
 * one string, "M" a list of a number and a string, "V1" scalar tensor of dtype
 * 1, "Fname" a function with attribute "a" twice, "Pname" placeholder, "-"
 * nothing. */
static inline td_str wire_value(const char *text) {
  td_str m = {0}, inner = {0}, deep = {0};
  const char *v = text + 1;
  switch (text[0]) {
  case 't':
    wire_int(&m, 6, atoll(v));
    break;
  case 'i':
    wire_int(&m, 3, atoll(v));
    break;
  case 'b':
    wire_int(&m, 5, atoll(v));
    break;
  case 'f':
    wire_float(&m, 4, strtof(v, NULL));
    break;
  case 's':
    wire_text(&m, 2, v);
    break;
  case 'S':
    inner = wire_shape(v);
    wire_message(&m, 7, &inner);
    break;
  case 'e':
    wire_message(&m, 1, &inner);
    break;
  case 'T':
    for (char *end; *v; v = end + (*end == ',')) {
      int64_t type = strtoll(v, &end, 10);
      if (end == v) break;
      wire_int(&inner, 6, type);
    }
    wire_message(&m, 1, &inner);
    break;
  case 'C':
    wire_text(&inner, 2, v);
    wire_message(&m, 1, &inner);
    break;
  case 'M':
    wire_int(&inner, 3, 1);
    wire_text(&inner, 2, "x");
    wire_message(&m, 1, &inner);
    break;
  case 'F':
    wire_text(&inner, 1, v);
    for (int i = 0; i < 2; i++) {
      td_str one = wire_value("i1");
      wire_text(&deep, 1, "a");
      wire_message(&deep, 2, &one);
      wire_message(&inner, 2, &deep);
    }
    wire_message(&m, 10, &inner);
    break;
  case 'P':
    wire_text(&m, 9, v);
    break;
  case 'V':
    wire_int(&inner, 1, atoll(v));
    deep = wire_shape("");
    wire_message(&inner, 2, &deep);
    wire_message(&m, 8, &inner);
    break;
  }
  return m;
}

/* A NodeDef into GraphDef `g`: "name Op input ^control key=value ...". */
static inline void wire_node(td_str *g, const char *line) {
  td_str node = {0}, attr = {0}, value;
  char *copy = td_strdup(line), *save, *equals;
  char *word = strtok_r(copy, " ", &save);
  wire_text(&node, 1, word ? word : "");
  word = strtok_r(NULL, " ", &save);
  wire_text(&node, 2, word ? word : "");
  while ((word = strtok_r(NULL, " ", &save))) {
    if (!(equals = strchr(word, '='))) {
      wire_text(&node, word[0] == '/' ? 4 : 3, word);
      continue;
    }
    wire_bytes(&attr, 1, word, (size_t)(equals - word));
    value = wire_value(equals + 1);
    wire_message(&attr, 2, &value);
    wire_message(&node, 5, &attr);
  }
  wire_message(g, 1, &node);
  td_free(copy);
}

/* Nodes, a line each; "versions N M": producer and min_consumer. */
static inline td_str wire_graph(const char *text) {
  td_str g = {0}, versions = {0};
  char *copy = td_strdup(text), *save;
  for (char *l = strtok_r(copy, "\n", &save); l;
       l = strtok_r(NULL, "\n", &save)) {
    int producer = 0, min_consumer = 0;
    if (sscanf(l, "versions %d %d", &producer, &min_consumer) > 0) {
      wire_int(&versions, 1, producer);
      wire_int(&versions, 2, min_consumer);
      wire_message(&g, 4, &versions);
    } else {
      wire_node(&g, l);
    }
  }
  td_free(copy);
  return g;
}

#endif
