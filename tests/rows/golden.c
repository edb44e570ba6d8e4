/* golden.c - the files of tests/golden, as tensors.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/rows/rows.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/graphdef/graphdef.h"

enum { MAX_FILE = 8192, MAX_TENSOR = 1 << 16 };

Td__Golden *golden_load(const char *folder, const char *op) {
  char path[256];
  uint8_t bytes[MAX_FILE + 1];
  snprintf(path, sizeof path, "%s/%s.pb", folder, op);
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  size_t len = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  if (len > MAX_FILE) fail_msg("%s: more than %d bytes", path, MAX_FILE);
  Td__Golden *g = td__golden__unpack(NULL, len, bytes);
  if (!g) fail_msg("%s: no golden file", path);
  return g;
}

void golden_free(Td__Golden *g) {
  td__golden__free_unpacked(g, NULL);
}

/* TD_INVALID where there are no bytes. */
static td_tensor tensor_of(ProtobufCBinaryData b) {
  td_tensor t = {.dtype = TD_INVALID};
  if (b.len == 0) return t;
  td_status *s = td_tensorproto_read(b.data, b.len, MAX_TENSOR, &t);
  if (s) fail_msg("tensor in a golden file: %s", td_status_message(s));
  return t;
}

static int count_of(size_t n, int most) {
  if (n > (size_t)most) fail_msg("%zu tensors, at most %d", n, most);
  return (int)n;
}

void golden_open(const Td__Golden *g, int index, golden_case *c) {
  const Td__GoldenCase *p = g->cases[index];
  *c = (golden_case){.from = p, .index = index};
  c->n_in = count_of(p->n_input, MAX_IN);
  c->n_out = count_of(p->n_output, MAX_OUT);
  c->n_var = count_of(p->n_variable, MAX_IN);
  c->n_grad = count_of(p->n_grad, MAX_IN);
  for (int i = 0; i < c->n_in; i++) c->in[i] = tensor_of(p->input[i]);
  for (int i = 0; i < c->n_out; i++) c->out[i] = tensor_of(p->output[i]);
  for (size_t i = 0; i < p->n_again && i < MAX_OUT; i++)
    c->again[i] = tensor_of(p->again[i]);
  for (int i = 0; i < c->n_var; i++) {
    const Td__GoldenVariable *v = p->variable[i];
    c->var_in[i] = v->input;
    c->var_dtype[i] = (td_dtype)v->dtype;
    c->before[i] = tensor_of(v->before);
    c->after[i] = tensor_of(v->after);
  }
}

void golden_close(golden_case *c) {
  for (int i = 0; i < c->n_in; i++) td_tensor_release(&c->in[i]);
  for (int i = 0; i < MAX_OUT; i++) {
    td_tensor_release(&c->out[i]);
    td_tensor_release(&c->again[i]);
  }
  for (int i = 0; i < c->n_var; i++) {
    td_tensor_release(&c->before[i]);
    td_tensor_release(&c->after[i]);
  }
}
