/* functions.h - functions written as text.
 *
 * "f(a b) r=n:y:0 s=a | n Relu a; m NoOp ^n": arguments, then what gives each
 * result, then nodes. "@g" as an attribute of a node names a function.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GRAPHDEF_FUNCTIONS_H
#define TESTS_GRAPHDEF_FUNCTIONS_H

#include "engine/graphdef/function.h"
#include "wire.h"

static inline void add_args(td_str *sig, int field, const char *text,
                            size_t len) {
  td_str arg = {0};
  for (size_t at = 0; at < len;) {
    size_t word = 0;
    while (at + word < len && text[at + word] != ' ') word++;
    if (word) {
      wire_bytes(&arg, 1, text + at, word);
      wire_message(sig, field, &arg);
    }
    at += word + 1;
  }
}

/* NodeDef field 3 of FunctionDef: "name op input @func". */
static inline void add_node(td_str *f, char *text) {
  td_str node = {0}, attr = {0}, value = {0}, func = {0};
  char *save;
  int at = 0;
  for (char *w = strtok_r(text, " ", &save); w;
       w = strtok_r(NULL, " ", &save), at++) {
    if (w[0] != '@') {
      wire_text(&node, at < 2 ? at + 1 : 3, w);
      continue;
    }
    wire_text(&attr, 1, "body");
    wire_text(&func, 1, w + 1);
    wire_message(&value, 10, &func);
    wire_message(&attr, 2, &value);
    wire_message(&node, 5, &attr);
  }
  wire_message(f, 3, &node);
}

static inline td_str function_of(const char *text) {
  td_str f = {0}, sig = {0}, entry = {0}, nodes = {0};
  char *copy = td_strdup(text), *save, *bar = strchr(copy, '|');
  char *open = strchr(copy, '('), *close = strchr(copy, ')');
  if (bar) *bar++ = '\0';
  wire_bytes(&sig, 1, copy, (size_t)(open - copy));
  add_args(&sig, 2, open + 1, (size_t)(close - open - 1));
  for (char *w = strtok_r(close + 1, " ", &save); w;
       w = strtok_r(NULL, " ", &save)) {
    char *equals = strchr(w, '=');
    bool control = w[0] == '^';
    if (!control) add_args(&sig, 3, w, (size_t)(equals - w));
    wire_bytes(&entry, 1, w + control, (size_t)(equals - w - control));
    wire_text(&entry, 2, equals + 1);
    wire_message(&nodes, control ? 6 : 4, &entry);
  }
  wire_message(&f, 1, &sig);
  for (char *n = bar ? strtok_r(bar, ";", &save) : NULL; n;
       n = strtok_r(NULL, ";", &save))
    add_node(&f, n);
  td_str_addn(&f, td_str_c(&nodes), nodes.len);
  td_str_deinit(&nodes);
  td_free(copy);
  return f;
}

static inline td_status *add_function(td_graph *g, const char *name,
                                      const char *text) {
  td_str f = function_of(text);
  td_status *s = td_function_add(g, name, f.at, f.len);
  td_str_deinit(&f);
  return s;
}

#endif
