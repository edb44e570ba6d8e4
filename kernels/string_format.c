/* string_format.c - StringFormat: values as text, in the places of a template.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/print.h"
#include "kernels/text.h"

#include <string.h>

/* A template under way: what is left of it, and what stands for a value. */
typedef struct template {
  td_bytes rest, mark;
}
template;

static template template_of(const td_attr *text, const td_attr *mark) {
  return (template){text->s, mark->s};
}

/* What comes before the next mark, which is then passed; false: all the rest.
 */
static bool next_part(template *t, td_bytes *part) {
  const char *at = NULL;
  if (t->mark.len > 0 && t->rest.len > 0)
    at = memmem(t->rest.at, t->rest.len, t->mark.at, t->mark.len);
  *part = t->rest;
  if (!at) return false;
  part->len = (size_t)(at - t->rest.at);
  t->rest.at = at + t->mark.len;
  t->rest.len -= part->len + t->mark.len;
  return true;
}

static td_status *check_marks(template t, int values) {
  td_bytes part;
  int marks = 0;
  while (next_part(&t, &part)) marks++;
  if (marks == values) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "the template has %d placeholders \"%.*s\" for %d inputs",
                  marks, (int)t.mark.len, t.mark.at, values);
}

static td_status *format_infer(td_infer *c) {
  template t = template_of(td_infer_attr(c, "template"),
                           td_infer_attr(c, "placeholder"));
  TD_TRY(check_marks(t, td_infer_inputs(c)));
  td_infer_out(c, 0, td_shape_scalar());
  return NULL;
}

static td_status *format_run(td_kernel_ctx *c) {
  const td_node *n = td_ctx_node(c);
  int64_t summarize = td_node_int(n, "summarize");
  template t =
      template_of(td_node_attr(n, "template"), td_node_attr(n, "placeholder"));
  td_shape scalar = td_shape_scalar();
  td_text text = {0};
  td_bytes part;
  TD_TRY(check_marks(t, c->n_in));
  if (!td_text_reserve(&text, 1)) return td_oom();
  for (int i = 0; next_part(&t, &part); i++) {
    td_str_addn(&text.all, part.at, part.len);
    td_print_array(&text.all, td_in(c, i), summarize);
  }
  td_str_addn(&text.all, part.at, part.len);
  td_text_end(&text);
  td_status *s = td_text_out(c, 0, &scalar, &text);
  td_text_drop(&text);
  return s;
}

/* ---- tables -------------------------------------------------------------- */

static const td_op_def ops[] = {
    {.type = "StringFormat",
     .sig = "inputs: T -> output: string; T: list(type) >= 0; "
            "template: string = \"%s\"; placeholder: string = \"%s\"; "
            "summarize: int = 3",
     .shape = format_infer,
     .doc = "The template with the inputs as text in the places of its "
            "placeholders.",
     .section = "Strings",
     .example = "td.string_format(\"{} of {}\", {{1, 2}, 3})  --> [1 2] of 3"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "StringFormat", .device = "CPU", .run = format_run},
    {0},
};

TD_MODULE(string_format, ops, kernels)
