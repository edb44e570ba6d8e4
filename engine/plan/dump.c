/* dump.c - the graph after each pass, for people and tools.
 *
 * With TIDE_DUMP=dir each pass leaves <n>_<pass>.txt, a line a node and what
 * the pass changed and why, and the same graph as <n>_<pass>.pb, a GraphDef.
 * Numbers go on from what the directory holds already, so that a second plan
 * or session does not overwrite the first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/graphdef/graphdef.h"
#include "engine/plan/dump_impl.h"

static bool path_of(const td_pass *p, const char *pass, const char *end,
                    td_str *out) {
  td_str_clear(out);
  td_str_addf(out, "%s/%03d_%s.%s", p->request->dump, p->dumped, pass, end);
  return !out->failed;
}

/* One more than the largest number in the directory, of files that are ours. */
enum { MOST_DUMPS = 1 << 30 };

static td_status *find_number(td_pass *p) {
  td_str names = {0};
  td_status *s = td_file_list(p->request->dump, &names);
  for (size_t i = 0; td_ok(s) && i < names.len; i += strlen(names.at + i) + 1) {
    char *end;
    long number = strtol(names.at + i, &end, 10);
    if (*end == '_' && number >= p->dumped && number < MOST_DUMPS)
      p->dumped = (int32_t)number + 1;
  }
  td_str_deinit(&names);
  return s;
}

td_status *td_dump_begin(td_pass *p) {
  if (!p->request->dump || !p->request->dump[0]) return NULL;
  TD_TRY(td_file_mkdirs(p->request->dump));
  TD_TRY(find_number(p));
  p->log = td_calloc(1, sizeof *p->log);
  return p->log ? NULL : td_oom();
}

void td_dump_end(td_pass *p) {
  if (p->log) td_str_deinit(p->log);
  td_free(p->log);
  p->log = NULL;
}

/* y = MatMul(x:0, W:0) ^init; CPU:0; float32 {2, 3} */
static void print_node(const td_pass *p, const td_node *n, td_str *out) {
  td_shape_text shape;
  const char *comma = "";
  td_str_addf(out, "%s = %s(", n->name, n->op->type);
  for (int i = 0; i < n->n_in; i++, comma = ", ")
    if (n->in[i].node)
      td_str_addf(out, "%s%s:%d", comma, n->in[i].node->name, n->in[i].port);
    else
      td_str_addf(out, "%s?", comma);
  td_str_addc(out, ')');
  for (int i = 0; i < n->n_control; i++)
    td_str_addf(out, " ^%s", n->control[i]->name);
  if (n->placed >= 0 && n->placed < p->request->n_devices) {
    const td_device *d = p->request->devices[n->placed];
    td_str_addf(out, "; %s:%d", d->type, (int)d->index);
  }
  comma = "; ";
  for (int i = 0; i < n->n_out; i++, comma = ", ")
    td_str_addf(out, "%s%s %s", comma, td_dtype_name(n->out[i].dtype),
                td_shape_str(&n->out[i].shape, &shape));
  if (n->frame) td_str_addf(out, "; frame %d", (int)n->frame);
  if (n->may_die) td_str_add(out, "; may die");
  if (n->may_stop) td_str_add(out, "; may stop");
  td_str_addc(out, '\n');
}

static td_status *write_text(const td_pass *p, const char *pass,
                             const char *what, const td_graph *g,
                             const char *path) {
  td_str text = {0};
  int32_t n = td_graph_size(g);
  td_str_addf(&text, "# after %s, which %s: %d nodes\n", pass, what, (int)n);
  for (int32_t id = 0; id < n; id++) print_node(p, td_graph_node(g, id), &text);
  td_str_add(&text, "\n# what changed and why\n");
  td_str_addn(&text, td_str_c(p->log), p->log->len);
  td_status *s = text.failed || p->log->failed
                     ? td_oom()
                     : td_file_write(path, text.at, text.len);
  td_str_deinit(&text);
  td_str_clear(p->log);
  return s;
}

static td_status *write_bytes(const td_graph *g, const char *path) {
  char *bytes = NULL;
  size_t len = 0;
  td_status *s = td_graphdef_write(g, &bytes, &len);
  if (td_ok(s)) s = td_file_write(path, bytes, len);
  td_free(bytes);
  return s;
}

td_status *td_dump_graph(td_pass *p, const char *pass, const char *what,
                         const td_graph *g) {
  td_str path = {0};
  if (!p->log) return NULL;
  td_status *s = NULL;
  if (path_of(p, pass, "txt", &path))
    s = write_text(p, pass, what, g, td_str_c(&path));
  if (td_ok(s) && path_of(p, pass, "pb", &path))
    s = write_bytes(g, td_str_c(&path));
  if (td_ok(s) && path.failed) s = td_oom();
  td_str_deinit(&path);
  p->dumped++;
  return s;
}
