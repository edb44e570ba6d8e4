/* kernel.c - a node bound to its kernel on a device.
 *
 * Everything that a run would have to ask of the row, the node or the device is
 * answered here once: which operands live in host memory, which inputs are
 * locked, which way the kernel is run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/kernel_rows.h"
#include "engine/device/kernel_start.h"
#include "engine/device/kernel_table.h"

#include <string.h>

#include "engine/base/mem.h"

enum { MAX_LOCKS = TD_COUNT(((td_kernel *)0)->lock_in), FEW = 64 };

/* ---- where operands live ------------------------------------------------- */

static bool is_host(const td_device *d, td_dtype dtype, const td_arg *arg) {
  return td_device_on_host(d) || !td_dtype_is_plain(dtype) ||
         (arg && arg->host);
}

bool td_kernel_in_host(const td_node *n, const td_device *d, int i) {
  const td_edge *e = &n->in[i];
  td_dtype dtype = e->node ? td_edge_dtype(*e) : TD_FLOAT32;
  return is_host(d, dtype, td_node_in_arg(n, i));
}

bool td_kernel_out_host(const td_node *n, const td_device *d, int i) {
  return is_host(d, n->out[i].dtype, td_node_out_arg(n, i));
}

/* Nodes of a host device share one array of true. */
static td_status *init_hosts(td_kernel *k) {
  static const bool all[FEW] = {[0 ... FEW - 1] = true};
  const td_node *n = k->node;
  k->in_host = k->out_host = all;
  if (td_device_on_host(k->device) && n->n_in <= FEW && n->n_out <= FEW)
    return NULL;
  bool *host = td_malloc((size_t)n->n_in + (size_t)n->n_out);
  if (!host) return td_oom();
  for (int i = 0; i < n->n_in; i++)
    host[i] = td_kernel_in_host(n, k->device, i);
  for (int i = 0; i < n->n_out; i++)
    host[n->n_in + i] = td_kernel_out_host(n, k->device, i);
  k->in_host = host;
  k->out_host = host + n->n_in;
  k->owns_hosts = true;
  return NULL;
}

/* ---- locks --------------------------------------------------------------- */

static td_status *add_lock(td_kernel *k, int input, bool exclusive) {
  if (k->n_locks == MAX_LOCKS || input > INT8_MAX)
    return td_error(TD_UNIMPLEMENTED,
                    "a kernel locks at most %d resources, among the first %d "
                    "inputs",
                    (int)MAX_LOCKS, INT8_MAX + 1);
  k->lock_in[k->n_locks] = (int8_t)input;
  k->lock_exclusive |= (uint8_t)(exclusive << k->n_locks++);
  if (exclusive) k->whole = true;
  return NULL;
}

/* Is `name` a word of "var, m, v"? */
static bool is_listed(const char *list, const char *name) {
  size_t len = strlen(name);
  for (const char *at = list; at && (at = strstr(at, name)); at += len) {
    bool begins = at == list || at[-1] == ' ' || at[-1] == ',';
    bool ends = at[len] == '\0' || at[len] == ' ' || at[len] == ',';
    if (begins && ends) return true;
  }
  return false;
}

static td_status *init_locks(td_kernel *k) {
  const td_kernel_def *d = k->def;
  const td_op *op = k->node->op;
  if (!d->shared && !d->exclusive) return NULL;
  for (int arg = 0; arg < op->n_in; arg++) {
    int begin, count;
    bool exclusive = is_listed(d->exclusive, op->in[arg].name);
    if (!exclusive && !is_listed(d->shared, op->in[arg].name)) continue;
    td_node_in_range(k->node, arg, &begin, &count);
    for (int i = 0; i < count; i++) TD_TRY(add_lock(k, begin + i, exclusive));
  }
  return NULL;
}

/* ---- state --------------------------------------------------------------- */

static td_status *init_state(td_kernel *k, td_states *states) {
  td_kernel_info info = {.node = k->node, .device = k->device};
  if (!k->def->make) return NULL;
  if (states && !(k->def->flags & TD_KERNEL_OWN))
    return td_states_get(states, &info, k->def, &k->state);
  TD_TRY(k->def->make(&info, &k->state));
  k->owns_state = true;
  return NULL;
}

/* ---- the row ------------------------------------------------------------- */

/* What a device elsewhere has kernels for is run there. */
static td_status *find_row(td_kernel *k) {
  const td_device *d = k->device;
  td_status *s = td_kernel_find(k->node, d->kernels, &k->def);
  if (td_ok(s) || !d->table || !td_kernel_table_has(d->table, NULL, k->node))
    return s;
  td_status_release(s);
  return td_error(
      TD_FAILED_PRECONDITION,
      "%s says that it has a kernel for op %s, but this process has "
      "none: its part of the graph must run where the device is",
      d->name, k->node->op->type);
}

/* ---- the whole ----------------------------------------------------------- */

td_status *td_kernel_init(td_kernel *k, const td_node *n, td_device *d,
                          td_states *states) {
  *k = (td_kernel){.node = n, .device = d};
  for (int i = 0; i < n->n_out && i < (int)TD_COUNT(k->out_type); i++)
    k->out_type[i] = (uint8_t)n->out[i].dtype;
  td_status *s = find_row(k);
  if (td_ok(s)) s = init_hosts(k);
  if (td_ok(s)) s = init_locks(k);
  if (td_ok(s)) s = init_state(k, states);
  if (!td_ok(s)) {
    td_kernel_deinit(k);
    return td_status_at(td_node_blame(s, n), NULL, NULL, NULL, d->name);
  }
  bool here = !d->launch || (k->def->flags & TD_KERNEL_INLINE);
  k->starts = k->def->start && !(k->def->run && td_device_on_host(d));
  k->launched = !k->starts && !here;
  k->plain = !k->starts && here && k->n_locks == 0;
  return NULL;
}

void td_kernel_deinit(td_kernel *k) {
  if (k->owns_state && k->def->drop) k->def->drop(k->state);
  if (k->owns_hosts) td_free((void *)k->in_host);
  *k = (td_kernel){0};
}
