/* refuse.c - what must be an error, and what the error must say.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/rows/rows.h"
#include "engine/graph/build.h"

#include <string.h>

/* ---- messages ------------------------------------------------------------ */

/* Does it name an argument or an attribute, or show a shape or a number? */
static bool says_something(const td_op *op, const char *m) {
  if (strpbrk(m, "{0123456789")) return true;
  for (int i = 0; i < op->n_in; i++)
    if (strstr(m, op->in[i].name)) return true;
  for (int i = 0; i < op->n_attr; i++)
    if (strstr(m, op->attr[i].name)) return true;
  return false;
}

void check_refusal(const row *r, const golden_case *c, td_status *s) {
  const char *m = td_status_message(s);
  td_code code = td_status_code(s);
  if (m[0] == '\0' || code == TD_INTERNAL || code == TD_UNKNOWN)
    fail_msg("%s, case %d: refused as %s: \"%s\"", r->op, c->index,
             td_code_name(code), m);
  td_status_release(s);
}

static void check_words(const row *r, const golden_case *c,
                        const td_status *s) {
  const char *m = td_status_message(s), *says = c->from->says;
  if (!strstr(m, says))
    fail_msg("%s, case %d: \"%s\" does not speak of \"%s\"", r->op, c->index, m,
             says);
  if (!says[0] && !says_something(td_op_find(r->op), m))
    fail_msg("%s, case %d: \"%s\" names nothing", r->op, c->index, m);
}

/* ---- a case that TensorFlow refuses -------------------------------------- */

void check_refused(const row *r, const golden_case *c) {
  for (int k = VALUES; k <= NOTHING; k++) {
    built b;
    result out;
    td_status *s = build_node(c, c->in, (knowledge)k, &b);
    if (td_ok(s)) {
      s = run_node(&b, c, c->in, 0xff, false, 1, &out);
      if (td_ok(s)) fail_msg("%s, case %d: accepted", r->op, c->index);
      built_drop(&b);
    }
    check_words(r, c, s);
    check_refusal(r, c, s);
  }
}

/* ---- what no op takes ---------------------------------------------------- */

/* Builds the op over placeholders: `n` inputs of the case, input `wrong` (-1:
 * none) of another dtype. Attributes that follow from inputs are left to. */
static td_status *build_wrong(const td_node *like, int n, int wrong,
                              td_dtype dtype, td_graph *g) {
  td_shape unknown = td_shape_unknown();
  td_edge edges[MAX_IN];
  td_node *out;
  td_build b;
  for (int i = 0; i < n; i++) {
    td_dtype is = i == wrong ? dtype : like->in[i].node->out[0].dtype;
    td_build_init(&b, g, "Placeholder", "x");
    td_build_attr(&b, "dtype", td_attr_type(is));
    td_build_attr(&b, "shape", td_attr_shape(&unknown));
    edges[i].port = 0;
    TD_TRY(td_build_node(&b, &edges[i].node));
  }
  td_build_op(&b, g, like->op, "wrong");
  td_build_flat(&b, edges, n);
  for (int i = 0; i < like->op->n_attr; i++)
    td_build_attr(&b, like->op->attr[i].name, like->attr[i]);
  return td_build_node(&b, &out);
}

static void expect_wrong(const row *r, const golden_case *c,
                         const td_node *like, int n, int wrong,
                         td_dtype dtype) {
  td_graph *g;
  td_status *s = td_graph_new(&g);
  if (td_ok(s)) s = build_wrong(like, n, wrong, dtype, g);
  if (td_ok(s))
    fail_msg("%s: built with %d inputs, input %d of %s", r->op, n, wrong,
             td_dtype_name(dtype));
  check_refusal(r, c, s);
  td_graph_release(g);
}

/* An input too few, and each of a dtype that is not its own. */
void check_wrong_inputs(const row *r, const golden_case *c) {
  built b;
  td_status *s = build_node(c, c->in, NOTHING, &b);
  if (!td_ok(s)) fail_msg("%s: %s", r->op, td_status_message(s));
  const td_node *n = b.node;
  if (n->n_in > 0) expect_wrong(r, c, n, n->n_in - 1, -1, TD_INVALID);
  for (int i = 0; i < n->n_in; i++) {
    td_dtype is = n->in[i].node->out[0].dtype;
    expect_wrong(r, c, n, n->n_in, i,
                 is == TD_VARIANT ? TD_FLOAT32 : TD_VARIANT);
    expect_wrong(r, c, n, n->n_in, i, is == TD_INT16 ? TD_INT8 : TD_INT16);
  }
  built_drop(&b);
}
