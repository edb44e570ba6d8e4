/* keep.c - what a client says of a session that another process is to keep.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/mem.h"
#include "engine/remote/far_session_impl.h"

td_keep *td_keep_retain(td_keep *k) {
  if (k) __atomic_fetch_add(&k->refs, 1, __ATOMIC_RELAXED);
  return k;
}

void td_keep_release(td_keep *k) {
  if (!k || __atomic_sub_fetch(&k->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  td_free(k->name);
  td_free(k);
}

void td_keep_out(const td_keep *k, Td__Remote__Open *open,
                 Td__Remote__Keep *out) {
  out->open = open;
  out->name = k->name;
  out->join = k->join;
  out->outlive = k->outlive;
  out->threads = k->threads;
  out->cpu_devices = k->cpu_devices;
  out->hard_placement = k->hard_placement;
  out->passes_off = k->passes_off;
  out->cache = k->cache;
  out->slow_link = k->slow_link;
}
