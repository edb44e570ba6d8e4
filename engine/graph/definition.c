/* definition.c - one function's definition: bytes, names, a count.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/definition.h"

#include <string.h>

#include "engine/base/mem.h"

/* Copies a string to *at, which moves on. */
static const char *keep(char **at, const char *text) {
  size_t len = strlen(text) + 1;
  char *kept = memcpy(*at, text, len);
  *at += len;
  return kept;
}

td_status *td_definition_new(const char *name, td_bytes bytes,
                             const char *gradient, const char *const *calls,
                             td_definition **out) {
  size_t n = 0, text = strlen(name) + 1 + bytes.len + 1;
  for (; calls[n]; n++) text += strlen(calls[n]) + 1;
  if (gradient) text += strlen(gradient) + 1;
  td_definition *d = td_malloc(sizeof *d + (n + 1) * sizeof(char *) + text);
  *out = d;
  if (!d) return td_oom();
  *d = (td_definition){.refs = 1, .calls = (const char **)(d + 1)};
  char *at = (char *)(d->calls + n + 1);
  d->name = keep(&at, name);
  if (gradient) d->gradient = keep(&at, gradient);
  for (size_t i = 0; i < n; i++) d->calls[i] = keep(&at, calls[i]);
  d->calls[n] = NULL;
  d->bytes = (td_bytes){at, bytes.len};
  if (bytes.len) memcpy(at, bytes.at, bytes.len);
  at[bytes.len] = '\0';
  return NULL;
}

td_definition *td_definition_retain(td_definition *d) {
  __atomic_fetch_add(&d->refs, 1, __ATOMIC_RELAXED);
  return d;
}

void td_definition_release(td_definition *d) {
  if (d && __atomic_fetch_sub(&d->refs, 1, __ATOMIC_ACQ_REL) == 1) td_free(d);
}

td_status *td_definition_with_gradient(const td_definition *d,
                                       const char *gradient,
                                       td_definition **out) {
  return td_definition_new(d->name, d->bytes, gradient, d->calls, out);
}

bool td_definition_differs(const td_definition *a, const td_definition *b) {
  return a->bytes.len != b->bytes.len ||
         memcmp(a->bytes.at, b->bytes.at, a->bytes.len) != 0 ||
         (a->gradient && b->gradient && strcmp(a->gradient, b->gradient) != 0);
}
