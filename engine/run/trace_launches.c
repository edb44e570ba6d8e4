/* trace_launches.c - from what a node enqueued on a device to the node.
 *
 * A node that runs on a device with streams is over for the host when its work
 * is enqueued; the work runs later, and tells whose it is: the node's name, its
 * frame and its iteration are those of the node's own event. How long it lay
 * there in between is what a picture of a step is looked at for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "engine/run/trace.h"

static void name_run(td_str *key, const td_trace_event *e) {
  td_str_clear(key);
  td_str_addf(key, "%llu %lld %s %s", (unsigned long long)e->frame,
              (long long)e->iteration, e->device, e->node);
}

/* Those of devices that have streams, by what is known of each. The work that
 * there is; -1: no memory. */
static int64_t note_nodes(const td_trace_event *e, int64_t n, td_map *nodes,
                          td_str *key) {
  int64_t work = 0;
  for (int64_t i = 0; i < n; i++) work += td_trace_is_work(&e[i]);
  for (int64_t i = 0; work > 0 && i < n; i++) {
    if (td_trace_is_work(&e[i])) continue;
    name_run(key, &e[i]);
    if (key->failed ||
        !td_map_put(nodes, td_str_c(key), (void *)(uintptr_t)(i + 1)))
      return -1;
  }
  return work;
}

void td_trace_launches(td_trace *t, td_trace_arrow **launches, size_t *count) {
  int64_t n;
  const td_trace_event *e = td_trace_events(t, &n);
  td_map nodes;
  td_str key;
  td_map_init(&nodes);
  td_str_init(&key);
  *count = 0;
  int64_t most = note_nodes(e, n, &nodes, &key);
  *launches = most >= 0 ? td_calloc((size_t)most + 1, sizeof **launches) : NULL;
  for (int64_t i = 0; *launches && most > 0 && i < n; i++) {
    if (!td_trace_is_work(&e[i])) continue;
    name_run(&key, &e[i]);
    uintptr_t from = (uintptr_t)td_map_get(&nodes, td_str_c(&key));
    if (from && !key.failed)
      (*launches)[(*count)++] = (td_trace_arrow){(int64_t)from - 1, i, 0};
  }
  td_map_deinit(&nodes);
  td_str_deinit(&key);
}
