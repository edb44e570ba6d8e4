/* placer_explain.c - why a node is where it is, or nowhere.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/device/kernel_rows.h"
#include "engine/plan/placement_impl.h"

/* ---- names --------------------------------------------------------------- */

/* Are all devices of one task, so that type and number tell them apart? */
static bool one_task(const td_placer *p) {
  const td_device_name *a = &p->devices.at[0].name;
  for (size_t i = 1; i < p->devices.len; i++) {
    const td_device_name *b = &p->devices.at[i].name;
    if (strcmp(a->job, b->job) != 0 || a->task != b->task ||
        a->replica != b->replica)
      return false;
  }
  return true;
}

static void add_device(const td_placer *p, int32_t device, td_str *out) {
  const td_device_name *d = &p->devices.at[device].name;
  if (one_task(p))
    td_str_addf(out, "%s:%d", d->type, (int)d->index);
  else
    td_device_name_print(d, out);
}

static void add_devices(const td_placer *p, td_str *out) {
  enum { SHOWN = 16 };
  int shown = 0;
  for (size_t i = 0; i < p->devices.len && shown <= SHOWN; i++) {
    if (!p->devices.at[i].device) continue;
    if (shown++) td_str_add(out, ", ");
    if (shown <= SHOWN)
      add_device(p, (int32_t)i, out);
    else
      td_str_add(out, "...");
  }
}

/* MatMul "y" (train.lua:3) */
static void add_node(const td_node *n, td_str *out) {
  td_str_addf(out, "%s \"%s\"", n->op->type, n->name);
  if (n->origin[0]) td_str_addf(out, " (%s)", n->origin);
}

static void add_request(const td_placer *p, int32_t request, td_str *out) {
  td_str_add(out, "asks for \"");
  td_device_name_print(&p->requests.at[request], out);
  td_str_addc(out, '"');
}

static void add_kinds(const td_placer *p, uint32_t kinds, td_str *out) {
  const char *comma = "";
  for (int k = 0; k < TD_PLACER_KINDS; k++) {
    if (!(kinds >> k & 1)) continue;
    td_str_addf(out, "%s%s", comma, p->kinds[k].kernels);
    if (p->kinds[k].table) td_str_add(out, " elsewhere");
    comma = ", ";
  }
}

/* ---- errors -------------------------------------------------------------- */

static td_status *error_from(td_str *text, const td_node *n) {
  td_status *s = text->failed
                     ? td_oom()
                     : td_error(TD_INVALID_ARGUMENT, "%s", td_str_c(text));
  td_str_deinit(text);
  return td_node_blame(s, n);
}

/* What stops this side of a conflict: its device, its request, or where it has
 * kernels. */
static void add_side(const td_placer *p, const td_placer_constraint *side,
                     bool kinds, td_str *out) {
  if (kinds && side->device < 0 && !side->kinds) {
    td_str_add(out, "has a kernel of its dtypes on no device");
  } else if (kinds && side->device < 0) {
    td_str_add(out, "has kernels for ");
    add_kinds(p, side->kinds, out);
    td_str_add(out, " only");
  } else if (side->device >= 0) {
    td_str_add(out, "is on ");
    add_device(p, side->device, out);
    td_str_add(out, " for good");
    if (!p->devices.at[side->device].device)
      td_str_add(out, ", which was removed");
  } else if (side->request >= 0) {
    add_request(p, side->request, out);
  } else {
    td_str_add(out, "asks for no device");
  }
}

td_status *td_placer_explain_conflict(const td_placer *p, const td_graph *g,
                                      const td_node *n,
                                      const td_placer_constraint *a,
                                      const td_placer_constraint *b) {
  bool kinds = (a->kinds & b->kinds) == 0 ||
               (b->device >= 0 && !td_placer_may(p, a->kinds, b->device)) ||
               (a->device >= 0 && !td_placer_may(p, b->kinds, a->device));
  td_str text = {0};
  if (a->node == n->id) {
    td_str_add(&text, "it ");
  } else {
    td_str_add(&text, "it must be with ");
    add_node(td_graph_node(g, a->node), &text);
    td_str_add(&text, ", which ");
  }
  add_side(p, a, kinds, &text);
  td_str_add(&text, ", and must be with ");
  add_node(td_graph_node(g, b->node), &text);
  td_str_add(&text, ", which ");
  add_side(p, b, kinds, &text);
  td_str_add(&text, "; what shares a resource shares a device");
  return error_from(&text, n);
}

/* No kernel anywhere: the registry knows best what there is. That it is not
 * found when a node is run alone is an invalid graph here, as in TensorFlow. */
static td_status *no_kernel(const td_placer *p, const td_node *n) {
  const td_kernel_def *def;
  td_status *why = td_kernel_find(n, p->kinds[0].kernels, &def);
  td_status *s =
      td_error(TD_INVALID_ARGUMENT, "%s",
               why ? td_status_message(why) : "no device has a kernel for it");
  td_status_release(why);
  return td_node_blame(s, n);
}

/* "/job:localhost/replica:0/task:0, ..." each once. */
static void add_tasks(const td_placer *p, td_str *out) {
  enum { SHOWN = 16 };
  int shown = 0;
  for (size_t i = 0; i < p->devices.len && shown <= SHOWN; i++) {
    td_device_name task = p->devices.at[i].name;
    bool again = !p->devices.at[i].device;
    task.type[0] = '\0';
    task.index = -1;
    for (size_t k = 0; k < i && !again; k++)
      again = p->devices.at[k].device &&
              td_device_name_matches(&task, &p->devices.at[k].name);
    if (again) continue;
    if (shown++) td_str_add(out, ", ");
    if (shown <= SHOWN)
      td_device_name_print(&task, out);
    else
      td_str_add(out, "...");
  }
}

static void add_no_task(const td_placer *p, int32_t request, td_str *out) {
  add_request(p, request, out);
  td_str_add(out, ", and no such task takes part in the session; there is ");
  add_tasks(p, out);
  td_str_add(out, "; sess:attach(\"tcp://host:port\") brings another");
}

/* Is it of a library that a process there has not loaded? */
static void add_library(const td_placer *p, const td_node *n, int32_t request,
                        td_str *out) {
  td_device_name task = p->requests.at[request];
  task.type[0] = '\0';
  task.index = -1;
  for (size_t i = 0; i < p->devices.len && n->op->library; i++) {
    const td_placer_device *d = &p->devices.at[i];
    if (!d->device || !td_device_name_matches(&task, &d->name) ||
        !p->kinds[d->kind].table)
      continue;
    td_str_addf(out,
                "; op %s is of the library \"%s\", which is not loaded there: "
                "tide worker --library FILE",
                n->op->type, n->op->library);
    return;
  }
}

td_status *td_placer_explain_none(const td_placer *p, const td_graph *g,
                                  const td_node *n) {
  const td_placement *e = &p->at.at[n->id];
  td_str text = {0};
  if (e->kinds == 0) return no_kernel(p, n);
  bool exists = false;
  for (size_t i = 0; i < p->devices.len && e->request >= 0; i++)
    exists |= p->devices.at[i].device &&
              td_device_name_matches(&p->requests.at[e->request],
                                     &p->devices.at[i].name);
  const td_node *who = td_graph_node(g, e->requester);
  if (who != n) {
    td_str_add(&text, "it must be with ");
    add_node(who, &text);
    td_str_add(&text, ", which ");
  } else {
    td_str_add(&text, "it ");
  }
  if (e->request >= 0 && !td_placer_has_task(p, &p->requests.at[e->request])) {
    add_no_task(p, e->request, &text);
    return error_from(&text, n);
  }
  if (e->request >= 0) add_request(p, e->request, &text);
  if (exists) {
    td_str_add(&text, ", where there is no kernel; there are kernels for ");
    add_kinds(p, e->kinds, &text);
  } else {
    td_str_addf(&text, ", and there is no such device; %s has kernels for ",
                n->op->type);
    add_kinds(p, e->kinds, &text);
  }
  if (e->request >= 0) add_library(p, n, e->request, &text);
  td_str_add(&text, "; devices: ");
  add_devices(p, &text);
  return error_from(&text, n);
}

td_status *td_placer_explain_inlined(const td_placer *p, const td_node *n,
                                     int32_t request) {
  td_str text = {0};
  if (!td_placer_has_task(p, &p->requests.at[request])) {
    td_str_add(&text, "it ");
    add_no_task(p, request, &text);
  } else {
    td_str_addf(&text,
                "no device \"%s\" that has a kernel for it, inside a function",
                n->device);
    add_library(p, n, request, &text);
  }
  return error_from(&text, n);
}

/* What became of a device. */
static void add_fate(const td_placer_device *d, td_str *out) {
  if (!d->device)
    td_str_add(out, "that device was removed; a new session places it anew");
  else if (d->lost)
    td_str_add(out, td_status_message(d->lost));
  else
    td_str_add(out, "the device came back without kernels for all of it");
}

td_status *td_placer_explain_lost(const td_placer *p, int32_t i) {
  td_str text = {0};
  td_str_add(&text, "it is on ");
  add_device(p, i, &text);
  td_str_add(&text, ", and ");
  add_fate(&p->devices.at[i], &text);
  td_status *s =
      text.failed ? td_oom() : td_error(TD_UNAVAILABLE, "%s", td_str_c(&text));
  td_str_deinit(&text);
  return s;
}

td_status *td_placer_explain_removed(const td_placer *p, const td_node *n) {
  int32_t first = td_placer_group(p, n->id);
  int32_t device = p->at.at[first].device;
  const td_placer_device *d = &p->devices.at[device];
  bool bound =
      !d->device || td_placer_is_bound(p, td_graph_node(n->graph, first));
  td_str text = {0};
  td_str_add(&text, "it ");
  if (first != n->id) {
    td_str_add(&text, "must be with ");
    add_node(td_graph_node(n->graph, first), &text);
    td_str_add(&text, ", which ");
  }
  td_str_add(&text, "is on ");
  add_device(p, device, &text);
  td_str_add(&text, bound ? " for good, and " : ", and ");
  add_fate(d, &text);
  td_status *s =
      text.failed ? td_oom() : td_error(TD_UNAVAILABLE, "%s", td_str_c(&text));
  td_str_deinit(&text);
  return td_node_blame(s, n);
}

/* ---- explaining ---------------------------------------------------------- */

static void add_requested(const td_placer *p, const td_graph *g, int32_t id,
                          td_str *out) {
  const td_placement *e = &p->at.at[id];
  if (e->requester != id) {
    add_node(td_graph_node(g, e->requester), out);
    td_str_addc(out, ' ');
  }
  add_request(p, e->request, out);
}

/* A member's own request may have given way to that of the group. */
static void add_group(const td_placer *p, const td_graph *g, int32_t id,
                      int32_t first, td_str *out) {
  int32_t request = p->at.at[id].request, device = p->at.at[first].device;
  td_str_addf(out, "colocated with %s", td_graph_node(g, first)->name);
  if (request < 0 || device < 0 ||
      td_device_name_matches(&p->requests.at[request],
                             &p->devices.at[device].name))
    return;
  td_str_add(out, ", though it ");
  add_request(p, request, out);
}

static void add_reason(const td_placer *p, const td_graph *g, int32_t id,
                       td_str *out) {
  const td_placement *e = &p->at.at[id];
  switch (e->why) {
  case TD_PLACER_DEFAULT:
    td_str_add(out, "the default device");
    break;
  case TD_PLACER_REQUESTED:
    add_requested(p, g, id, out);
    break;
  case TD_PLACER_INPUT:
    td_str_addf(out, "with its input %s", td_graph_node(g, e->with)->name);
    break;
  case TD_PLACER_CONSUMER:
    td_str_addf(out, "with its consumer %s", td_graph_node(g, e->with)->name);
    break;
  case TD_PLACER_ABLE:
    td_str_add(out, "the first device with a kernel for it");
    break;
  case TD_PLACER_FALLBACK:
    add_requested(p, g, id, out);
    td_str_add(out, ", which cannot be had");
    break;
  case TD_PLACER_SPREAD:
    td_str_add(out, "spread by its name");
    break;
  default:
    break;
  }
}

void td_placer_explain(const td_placer *p, const td_graph *g, td_str *out) {
  for (int32_t id = 0; id < p->n && id < td_graph_size(g); id++) {
    const td_node *n = td_graph_node(g, id);
    int32_t first = td_placer_group(p, id);
    const td_placement *group = &p->at.at[first];
    td_str_addf(out, "%s (%s) -> ", n->op->type, n->name);
    if (group->device < 0) {
      const char *why =
          group->error < 0 ? "" : td_status_message(p->errors.at[group->error]);
      td_str_addf(out, "nowhere: %s\n", why);
      continue;
    }
    add_device(p, group->device, out);
    td_str_add(out, ": ");
    if (!p->devices.at[group->device].device)
      td_str_add(out, "removed; it was placed there as ");
    else if (p->devices.at[group->device].lost)
      td_str_add(out, "lost; it is placed there as ");
    if (first != id)
      add_group(p, g, id, first, out);
    else
      add_reason(p, g, id, out);
    td_str_addc(out, '\n');
  }
}
