/* einsum_equation.c - reads an equation and gives every axis its subscript.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "kernels/einsum.h"

/* ---- reading ------------------------------------------------------------- */

static td_status *bad(td_bytes text, const char *why) {
  return td_error(TD_INVALID_ARGUMENT,
                  "equation \"%.*s\" %s; it is like \"ij,jk->ik\"",
                  text.len > 200 ? 200 : (int)text.len, text.at, why);
}

/* Subscripts from *at on, up to a comma, an arrow or the end. */
static td_status *read_axes(td_bytes text, size_t *at, td_einsum_axes *a) {
  *a = (td_einsum_axes){.dots = -1};
  for (; *at < text.len; ++*at) {
    unsigned char ch = (unsigned char)text.at[*at];
    if (ch == ',' || ch == '-') return NULL;
    if (ch == '.') {
      if (text.len - *at < 3 || memcmp(text.at + *at, "...", 3) != 0 ||
          a->dots >= 0)
        return bad(text, "has dots that are no single \"...\"");
      a->dots = a->n;
      *at += 2;
    } else if (ch > 127 || !isalnum(ch)) {
      return bad(text, "has a subscript that is no letter or digit");
    } else if (a->n == TD_MAX_RANK) {
      return bad(text, "names more axes than a tensor can have");
    } else {
      a->label[a->n++] = ch;
    }
  }
  return NULL;
}

static bool named(const td_einsum *e, int label) {
  for (int k = 0; k < e->n_in; k++)
    for (int i = 0; i < e->in[k].n; i++)
      if (e->in[k].label[i] == label) return true;
  return false;
}

td_status *td_einsum_parse(td_einsum *e, td_bytes text, int n_in) {
  size_t at = 0;
  *e = (td_einsum){.n_in = n_in};
  if (n_in < 1 || n_in > 2)
    return td_error(TD_INVALID_ARGUMENT,
                    "Einsum takes one input or two, not %d", n_in);
  for (int k = 0; k < n_in; k++) {
    TD_TRY(read_axes(text, &at, &e->in[k]));
    if (k + 1 < n_in && (at >= text.len || text.at[at++] != ','))
      return bad(text, "has fewer operands than there are inputs");
  }
  if (text.len - at < 2 || memcmp(text.at + at, "->", 2) != 0)
    return bad(text, "lacks \"->\" after an operand for each input");
  at += 2;
  TD_TRY(read_axes(text, &at, &e->out));
  if (at != text.len) return bad(text, "goes on after the result");
  for (int i = 0; i < e->out.n; i++)
    if (!named(e, e->out.label[i]))
      return bad(text, "has a subscript in the result alone");
  return NULL;
}

/* ---- binding ------------------------------------------------------------- */

/* Makes room for `more` subscripts where "..." stands. */
static void open_dots(td_einsum_axes *a, int more) {
  int after = a->n - a->dots;
  memmove(a->label + a->dots + more, a->label + a->dots,
          (size_t)after * sizeof *a->label);
  for (int i = 0; i < more; i++)
    a->label[a->dots + i] = TD_EINSUM_DOTS + more - 1 - i;
  a->n += more;
}

static td_status *wrong_rank(const td_einsum_axes *a, int k,
                             const td_shape *s) {
  td_shape_text text;
  return td_error(TD_INVALID_ARGUMENT,
                  "input %d must be of rank %d%s by the equation, not of shape "
                  "%s",
                  k, a->n, a->dots >= 0 ? " or more" : "",
                  td_shape_str(s, &text));
}

/* What one more axis says of a subscript's size; those of "..." broadcast. */
static td_status *learn(td_einsum *e, int label, int k, int64_t size) {
  int64_t *was = &e->size[label];
  bool dots = label >= TD_EINSUM_DOTS;
  if (size < 0 || *was == size) return NULL;
  if (*was < 0 || (dots && *was == 1)) {
    *was = *was < 0 && dots && size == 1 ? -1 : size;
    return NULL;
  }
  if (dots && size == 1) return NULL;
  if (dots)
    return td_error(TD_INVALID_ARGUMENT,
                    "sizes %lld and %lld behind \"...\" do not broadcast",
                    (long long)*was, (long long)size);
  return td_error(TD_INVALID_ARGUMENT,
                  "subscript \"%c\" is of size %lld, and of size %lld in input "
                  "%d",
                  label, (long long)*was, (long long)size, k);
}

/* Sizes behind dots that only ones were seen of are 1, if all were seen. */
static void settle_dots(td_einsum *e, const td_shape *const *shapes) {
  for (int d = 0; d < TD_MAX_RANK; d++) {
    int64_t *size = &e->size[TD_EINSUM_DOTS + d];
    bool ones = *size < 0;
    for (int k = 0; k < e->n_in; k++)
      for (int i = 0; i < e->in[k].n; i++)
        ones &=
            e->in[k].label[i] != TD_EINSUM_DOTS + d || shapes[k]->dim[i] == 1;
    if (ones) *size = 1;
  }
}

static td_status *result_shape(td_einsum *e, int dots, td_shape *out) {
  if (e->out.dots >= 0) {
    TD_TRY(td_shape_check_rank(e->out.n + dots));
    open_dots(&e->out, dots);
  } else if (dots > 0) {
    return td_error(TD_INVALID_ARGUMENT,
                    "%d axes stand behind \"...\", which the result lacks",
                    dots);
  }
  *out = td_shape_ranked(e->out.n);
  for (int i = 0; i < e->out.n; i++) out->dim[i] = e->size[e->out.label[i]];
  return NULL;
}

td_status *td_einsum_bind(td_einsum *e, const td_shape *const *shapes,
                          td_shape *out) {
  int dots = 0;
  bool known = true;
  *out = td_shape_unknown();
  for (int i = 0; i < TD_EINSUM_LABELS; i++) e->size[i] = -1;
  for (int k = 0; k < e->n_in; k++) {
    td_einsum_axes *a = &e->in[k];
    int more = shapes[k]->rank - a->n;
    if (shapes[k]->rank < 0) {
      known &= a->dots < 0;
      continue;
    }
    if (more < 0 || (more > 0 && a->dots < 0))
      return wrong_rank(a, k, shapes[k]);
    if (more > dots) dots = more;
    if (a->dots >= 0) open_dots(a, more);
    for (int i = 0; i < a->n; i++)
      TD_TRY(learn(e, a->label[i], k, shapes[k]->dim[i]));
  }
  if (!known && e->out.dots >= 0) return NULL;
  if (known) {
    bool ranks = true;
    for (int k = 0; k < e->n_in; k++) ranks &= shapes[k]->rank >= 0;
    if (ranks) settle_dots(e, shapes);
  }
  return result_shape(e, dots, out);
}
